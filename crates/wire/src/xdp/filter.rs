// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program that an interface runs for each packet that it receives: short UDP packets to a
//! NIC's port go to the NIC's AF_XDP socket of that queue; all others go on to the kernel's stack.
//!
//! It is written here as instructions of BPF (RFC 9669), so that nothing has to be compiled.
//! Packets that the kernel has joined, or that are longer than a frame of the socket, stay with the
//! stack, whose UDP socket takes them.

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// `r1` to `r3` are arguments of a call, `r0` its result.
const CONTEXT: u8 = 1;
const QUEUE: u8 = 6;
const DATA: u8 = 7;
const END: u8 = 8;
const VALUE: u8 = 4;

const XDP_PASS: i32 = 2;
/// `bpf_redirect_map`.
const REDIRECT_MAP: i32 = 51;
/// The immediate of a load is a map's descriptor.
const IS_MAP: u8 = 1;

const ETHERNET: i16 = 14;
pub(super) const ETHERTYPE_V4: u16 = 0x0800;
pub(super) const ETHERTYPE_V6: u16 = 0x86dd;
const UDP: i32 = 17;
/// Version 4, five words of header: no options.
const V4_PLAIN: i32 = 0x45;
/// More fragments, or not the first one.
const V4_FRAGMENT: u16 = 0x3fff;

const fn instruction(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers: to | from << 4, offset, immediate }
}

/// A label of the program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    V4,
    V6,
    Ours,
    Pass,
}

#[derive(Default)]
struct Assembler {
    code: Vec<Instruction>,
    jumps: Vec<(usize, Label)>,
    labels: Vec<(Label, usize)>,
}

impl Assembler {
    /// `to = from`.
    fn copy(&mut self, to: u8, from: u8) {
        self.code.push(instruction(0xbf, to, from, 0, 0));
    }

    /// `to = value`.
    fn set(&mut self, to: u8, value: i32) {
        self.code.push(instruction(0xb7, to, 0, 0, value));
    }

    /// `to += value`.
    fn add(&mut self, to: u8, value: i32) {
        self.code.push(instruction(0x07, to, 0, 0, value));
    }

    /// `to &= value`.
    fn and(&mut self, to: u8, value: i32) {
        self.code.push(instruction(0x57, to, 0, 0, value));
    }

    /// `to` = so many bytes (1, 2 or 4) at `from` + offset.
    fn load(&mut self, bytes: usize, to: u8, from: u8, offset: i16) {
        let code = match bytes {
            1 => 0x71,
            2 => 0x69,
            _ => 0x61,
        };
        self.code.push(instruction(code, to, from, offset, 0));
    }

    /// Jumps if `a > b`.
    fn if_above(&mut self, a: u8, b: u8, label: Label) {
        self.jump(0x2d, a, b, 0, label);
    }

    /// Jumps if `a <= b`.
    fn if_not_above(&mut self, a: u8, b: u8, label: Label) {
        self.jump(0xbd, a, b, 0, label);
    }

    fn if_equal(&mut self, a: u8, value: i32, label: Label) {
        self.jump(0x15, a, 0, value, label);
    }

    fn if_not_equal(&mut self, a: u8, value: i32, label: Label) {
        self.jump(0x55, a, 0, value, label);
    }

    fn go(&mut self, label: Label) {
        self.jump(0x05, 0, 0, 0, label);
    }

    fn jump(&mut self, code: u8, a: u8, b: u8, value: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.code.push(instruction(code, a, b, 0, value));
    }

    fn label(&mut self, label: Label) {
        self.labels.push((label, self.code.len()));
    }

    fn finish(mut self) -> Vec<Instruction> {
        for (at, wanted) in self.jumps {
            let target = self.labels.iter().find(|(label, _)| *label == wanted).map_or(at + 1, |(_, place)| *place);
            // A jump counts from the instruction behind it.
            self.code[at].offset = (target as i64 - at as i64 - 1) as i16;
        }
        self.code
    }
}

/// A number of two bytes as it is loaded from a packet.
fn loaded(number: u16) -> i32 {
    i32::from(u16::from_ne_bytes(number.to_be_bytes()))
}

/// The program for a NIC's port and the map of its sockets, by queue; packets of up to `longest`
/// bytes with their Ethernet header are theirs.
pub(super) fn program(port: u16, map: i32, longest: usize) -> Vec<Instruction> {
    let mut a = Assembler::default();
    // The context: data, data_end, data_meta, ingress_ifindex, rx_queue_index.
    a.load(4, QUEUE, CONTEXT, 16);
    a.load(4, DATA, CONTEXT, 0);
    a.load(4, END, CONTEXT, 4);
    // The headers of Ethernet, IPv4 and UDP are there.
    a.copy(VALUE, DATA);
    a.add(VALUE, i32::from(ETHERNET) + 28);
    a.if_above(VALUE, END, Label::Pass);
    // Not one byte more than fits.
    a.copy(VALUE, DATA);
    a.add(VALUE, longest as i32 + 1);
    a.if_not_above(VALUE, END, Label::Pass);
    a.load(2, VALUE, DATA, ETHERNET - 2);
    a.if_equal(VALUE, loaded(ETHERTYPE_V4), Label::V4);
    a.if_equal(VALUE, loaded(ETHERTYPE_V6), Label::V6);
    a.go(Label::Pass);

    a.label(Label::V4);
    a.load(1, VALUE, DATA, ETHERNET);
    a.if_not_equal(VALUE, V4_PLAIN, Label::Pass);
    a.load(1, VALUE, DATA, ETHERNET + 9);
    a.if_not_equal(VALUE, UDP, Label::Pass);
    a.load(2, VALUE, DATA, ETHERNET + 6);
    a.and(VALUE, loaded(V4_FRAGMENT));
    a.if_not_equal(VALUE, 0, Label::Pass);
    a.load(2, VALUE, DATA, ETHERNET + 22);
    a.if_equal(VALUE, loaded(port), Label::Ours);
    a.go(Label::Pass);

    a.label(Label::V6);
    a.copy(VALUE, DATA);
    a.add(VALUE, i32::from(ETHERNET) + 48);
    a.if_above(VALUE, END, Label::Pass);
    a.load(1, VALUE, DATA, ETHERNET + 6);
    a.if_not_equal(VALUE, UDP, Label::Pass);
    a.load(2, VALUE, DATA, ETHERNET + 42);
    a.if_not_equal(VALUE, loaded(port), Label::Pass);

    a.label(Label::Ours);
    // The map's address takes two instructions.
    a.code.push(instruction(0x18, CONTEXT, IS_MAP, 0, map));
    a.code.push(instruction(0, 0, 0, 0, 0));
    a.copy(2, QUEUE);
    // A queue without a socket is the stack's.
    a.set(3, XDP_PASS);
    a.code.push(instruction(0x85, 0, 0, 0, REDIRECT_MAP));
    a.code.push(instruction(0x95, 0, 0, 0, 0));

    a.label(Label::Pass);
    a.set(0, XDP_PASS);
    a.code.push(instruction(0x95, 0, 0, 0, 0));
    a.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program does with a packet: `Some(queue)` if it is redirected. A machine of its
    /// own, which fails at anything that the kernel would refuse to run.
    fn run(program: &[Instruction], packet: &[u8]) -> Option<u64> {
        const BASE: u64 = 0x1000;
        let mut r = [0u64; 11];
        let mut at = 0usize;
        for _ in 0..program.len() {
            let i = program[at];
            at += 1;
            let (to, from) = (usize::from(i.registers & 15), usize::from(i.registers >> 4));
            let address = r[from].wrapping_add_signed(i64::from(i.offset));
            let bytes = |n: usize| {
                let start = (address - BASE) as usize;
                let mut value = [0; 8];
                value[..n].copy_from_slice(&packet[start..start + n]);
                u64::from_ne_bytes(value)
            };
            let jumps = match i.code {
                0xbf => {
                    r[to] = r[from];
                    false
                }
                0xb7 => {
                    r[to] = i.immediate as u64;
                    false
                }
                0x07 => {
                    r[to] = r[to].wrapping_add_signed(i64::from(i.immediate));
                    false
                }
                0x57 => {
                    r[to] &= i.immediate as u64;
                    false
                }
                0x61 if from == 1 => {
                    r[to] = [BASE, BASE + packet.len() as u64, 0, 0, 3][i.offset as usize / 4];
                    false
                }
                0x69 => {
                    r[to] = bytes(2);
                    false
                }
                0x71 => {
                    r[to] = bytes(1);
                    false
                }
                0x2d => r[to] > r[from],
                0xbd => r[to] <= r[from],
                0x15 => r[to] == i.immediate as u64,
                0x55 => r[to] != i.immediate as u64,
                0x05 => true,
                0x18 => {
                    at += 1;
                    r[to] = 1 << 40 | i.immediate as u64;
                    false
                }
                0x85 => {
                    assert_eq!((i.immediate, r[1], r[3]), (51, 1 << 40 | 9, 2));
                    return Some(r[2]);
                }
                0x95 => {
                    assert_eq!(r[0], 2);
                    return None;
                }
                other => panic!("{other:#x}"),
            };
            if jumps {
                at = at.wrapping_add_signed(i.offset as isize);
            }
        }
        panic!("it does not end")
    }

    fn packet(v6: bool, port: u16, payload: usize) -> Vec<u8> {
        let ip = if v6 { 40 } else { 20 };
        let mut p = vec![0; 14 + ip + 8 + payload];
        p[12..14].copy_from_slice(&if v6 { ETHERTYPE_V6 } else { ETHERTYPE_V4 }.to_be_bytes());
        (p[14], p[if v6 { 20 } else { 23 }]) = (if v6 { 0x60 } else { 0x45 }, 17);
        p[14 + ip + 2..14 + ip + 4].copy_from_slice(&port.to_be_bytes());
        p
    }

    #[test]
    fn takes_what_is_for_the_port_and_nothing_else() {
        let code = program(4791, 9, 1514);
        assert_eq!(code.len(), 38, "decision 47 names the number");
        for v6 in [false, true] {
            assert_eq!(run(&code, &packet(v6, 4791, 0)), Some(3));
            let header = packet(v6, 4791, 0).len();
            assert_eq!(run(&code, &packet(v6, 4791, 1514 - header)), Some(3), "the longest");
            assert_eq!(run(&code, &packet(v6, 4791, 1515 - header)), None);
            assert_eq!(run(&code, &packet(v6, 4792, 100)), None, "another port");
            // Every shorter packet is the stack's.
            (0..header).for_each(|n| assert_eq!(run(&code, &packet(v6, 4791, 0)[..n]), None, "{n}"));
        }
        for (at, value) in [(12, 9), (14, 0x46), (23, 6), (20, 0x20), (21, 1)] {
            let mut other = packet(false, 4791, 100);
            other[at] = value;
            assert_eq!(run(&code, &other), None, "byte {at}");
        }
        let mut whole = packet(false, 4791, 100);
        whole[20] = 0x40;
        assert_eq!(run(&code, &whole), Some(3), "not to be cut");
        let mut other = packet(true, 4791, 100);
        other[20] = 6;
        assert_eq!(run(&code, &other), None, "another protocol");
    }
}
