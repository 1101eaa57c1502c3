// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of queue pairs as packets: what a device would have sent for them, and what it would
//! have been answered. Events come in the order of their times; another process wrote them, so
//! numbers and lengths are bounded, and what does not fit is left out.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use bellwire_trace::kinds::Layer;
use bellwire_trace::{Event, Kind, address};

use super::ip::Ends;
use super::pcapng::{Direction, Packet};
use super::roce::{Base, Operation, PORT, Service, packet};

/// Longest message.
const MESSAGE_MAX: u64 = 1 << 30;
/// Requests of a queue pair that may be out.
const REQUESTS_MAX: usize = 1 << 16;
/// Numbers of packets have 24 bits.
const NUMBERS: u32 = 1 << 24;
/// An acknowledgement that limits nothing.
const ACKNOWLEDGED: u8 = 0x1f;
const NOT_READY: u8 = 0x20;
const REFUSED: u8 = 0x60;
const SOLICITED: u64 = 4;
/// In the objects of events of virtual interfaces.
const VI: u32 = 1 << 31;

/// Numbers of the interface: of opcodes, and of statuses.
mod number {
    pub const WRITE: u64 = 0;
    pub const WRITE_IMMEDIATE: u64 = 1;
    pub const SEND_IMMEDIATE: u64 = 3;
    pub const READ: u64 = 4;
    pub const COMPARE_SWAP: u64 = 5;
    pub const FETCH_ADD: u64 = 6;
    pub const SEND_INVALIDATE: u64 = 9;

    pub const SUCCESS: u64 = 0;
    pub const REMOTE_INVALID: u64 = 9;
    pub const REMOTE_ACCESS: u64 = 10;
    pub const REMOTE_OPERATION: u64 = 11;
    pub const RNR_EXCEEDED: u64 = 13;
}

/// The queue pairs of all processes.
#[derive(Debug, Default)]
pub struct Requests {
    pairs: BTreeMap<(u32, u32), Pair>,
    /// Packets that are not known, since the events of their requests are lost.
    pub unknown: u64,
}

#[derive(Debug, Default)]
struct Pair {
    path: Option<Path>,
    requests: VecDeque<Request>,
    /// Requests that the peer has completed (MSN).
    completed: u32,
    /// What the peer said last when it had no receive.
    timer: u8,
}

#[derive(Clone, Copy, Debug)]
struct Path {
    service: Service,
    mtu: usize,
    peer: u32,
    from: IpAddr,
    to: IpAddr,
}

#[derive(Debug)]
struct Request {
    psn: u32,
    length: usize,
    opcode: u64,
    flags: u64,
    wr_id: u64,
    address: u64,
    key: u32,
    immediate: u32,
    operands: [u64; 2],
    /// Of a datagram; of XRC, the shared receive queue as `to_qp`.
    to_qp: u32,
    qkey: u32,
    to: IpAddr,
    bytes: Vec<u8>,
    answer: Vec<u8>,
    times: u32,
}

impl Request {
    fn of(event: &Event) -> Self {
        let word = |at| event.word(at);
        Self {
            psn: word(0) as u32 % NUMBERS,
            length: word(1).min(MESSAGE_MAX) as usize,
            opcode: word(2),
            flags: word(3),
            wr_id: word(4),
            address: word(5),
            key: word(6) as u32,
            immediate: word(7) as u32,
            operands: [word(8), word(9)],
            to_qp: word(10) as u32,
            qkey: word(11) as u32,
            to: address::ip(word(12), word(13)),
            bytes: Vec::new(),
            answer: Vec::new(),
            times: 0,
        }
    }

    fn is_atomic(&self) -> bool {
        matches!(self.opcode, number::COMPARE_SWAP | number::FETCH_ADD)
    }

    fn last_psn(&self, path: &Path) -> u32 {
        let packets = if self.is_atomic() { 1 } else { self.length.div_ceil(path.mtu).max(1) as u32 };
        (self.psn + packets - 1) % NUMBERS
    }

    /// The operation of a packet of the request.
    fn operation(&self, is_first: bool, is_last: bool) -> Operation {
        use Operation::*;
        let of = |first, middle, last, only| by_place(is_first, is_last, [first, middle, last, only]);
        match self.opcode {
            number::WRITE => of(WriteFirst, WriteMiddle, WriteLast, WriteOnly),
            number::WRITE_IMMEDIATE => of(WriteFirst, WriteMiddle, WriteLastImmediate, WriteOnlyImmediate),
            number::SEND_IMMEDIATE => of(SendFirst, SendMiddle, SendLastImmediate, SendOnlyImmediate),
            number::SEND_INVALIDATE => of(SendFirst, SendMiddle, SendLastInvalidate, SendOnlyInvalidate),
            number::READ => ReadRequest,
            number::COMPARE_SWAP => CompareSwap,
            number::FETCH_ADD => FetchAdd,
            _ => of(SendFirst, SendMiddle, SendLast, SendOnly),
        }
    }

    /// The headers behind the base header.
    fn headers(&self, service: Service, qp: u32, is_first: bool, is_last: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        match service {
            Service::Xrc => bytes.extend((self.to_qp & 0xff_ffff).to_be_bytes()),
            Service::Ud => {
                bytes.extend(self.qkey.to_be_bytes());
                bytes.extend((qp & 0xff_ffff).to_be_bytes());
            }
            Service::Rc | Service::Uc => {}
        }
        if self.is_atomic() {
            bytes.extend(self.address.to_be_bytes());
            bytes.extend(self.key.to_be_bytes());
            self.operands.iter().for_each(|operand| bytes.extend(operand.to_be_bytes()));
        } else if matches!(self.opcode, number::WRITE | number::WRITE_IMMEDIATE | number::READ) && is_first {
            bytes.extend(self.address.to_be_bytes());
            bytes.extend(self.key.to_be_bytes());
            bytes.extend((self.length as u32).to_be_bytes());
        }
        if is_last {
            match self.opcode {
                // As it lies in memory.
                number::WRITE_IMMEDIATE | number::SEND_IMMEDIATE => bytes.extend(self.immediate.to_ne_bytes()),
                number::SEND_INVALIDATE => bytes.extend(self.immediate.to_be_bytes()),
                _ => {}
            }
        }
        bytes
    }
}

/// The operation of a packet by its place among those of its message.
fn by_place(is_first: bool, is_last: bool, [first, middle, last, only]: [Operation; 4]) -> Operation {
    match (is_first, is_last) {
        (true, true) => only,
        (true, false) => first,
        (false, false) => middle,
        (false, true) => last,
    }
}

/// The part of `bytes`, the first of a message, that a packet has.
fn part(bytes: &[u8], at: usize, length: usize) -> &[u8] {
    let from = at.min(bytes.len());
    &bytes[from..(at + length).min(bytes.len())]
}

/// The packets of an event have these in common.
struct Sending<'a> {
    to: &'a mut Vec<Packet>,
    interface: u32,
    time: u64,
    qp: u32,
}

impl Sending<'_> {
    /// A packet of the requests.
    fn request(&mut self, path: &Path, request: &Request, base: Base, extended: &[u8], (captured, length): (&[u8], usize)) {
        let to = if path.service == Service::Ud { request.to } else { path.to };
        let ends = Ends { from: path.from, to, ports: [self.port(), PORT] };
        let first = base.psn == request.psn;
        let again = if request.times > 1 { ", sent again" } else { "" };
        let comment = match (first, self.qp & VI) {
            (false, _) => String::new(),
            (true, 0) => format!("queue pair {:#x}, wr_id {:#x}{again}", self.qp, request.wr_id),
            // The program's name for a request is its descriptor, or what it says.
            (true, _) => format!("virtual interface {:#x}, descriptor {:#x}{again}", self.qp & 0xff_ffff, request.wr_id),
        };
        self.push(Direction::Out, packet(&ends, &base, extended, captured, length), comment);
    }

    /// A packet of the answers.
    fn answer(&mut self, path: &Path, base: Base, extended: &[u8], (captured, length): (&[u8], usize), comment: String) {
        let ends = Ends { from: path.to, to: path.from, ports: [self.port(), PORT] };
        self.push(Direction::In, packet(&ends, &base, extended, captured, length), comment);
    }

    fn push(&mut self, direction: Direction, (bytes, length): (Vec<u8>, u32), comment: String) {
        self.to.push(Packet { interface: self.interface, time: self.time, direction, bytes, length, comment });
    }

    /// The port of the sender: one for each of its queue pairs, so that routers spread them.
    fn port(&self) -> u16 {
        0xc000 | (self.qp as u16 ^ (self.qp >> 14) as u16) & 0x3fff
    }
}

impl Requests {
    /// Adds the packets of an event of a process, which has that interface, to `to`.
    pub fn take(&mut self, interface: u32, time: u64, event: &Event, to: &mut Vec<Packet>) {
        let qp = event.object;
        if event.kind.about().layer != Layer::Packets || matches!(event.kind, Kind::Datagram | Kind::DatagramBytes | Kind::Management | Kind::ManagementBytes) {
            return;
        }
        let pair = self.pairs.entry((interface, qp)).or_default();
        let psn = event.word(0) as u32 % NUMBERS;
        let found = pair.requests.iter().position(|request| request.psn == psn);
        let mut sending = Sending { to, interface, time, qp };
        match (event.kind, found) {
            (Kind::Path, _) => *pair = Pair { path: path_of(event), ..Pair::default() },
            (Kind::Request, _) => {
                if pair.requests.len() >= REQUESTS_MAX {
                    pair.requests.pop_front();
                }
                pair.requests.push_back(Request::of(event));
            }
            (Kind::RequestBytes, Some(at)) => {
                let request = &mut pair.requests[at];
                add(&mut request.bytes, request.length, event);
            }
            (Kind::AnswerBytes, Some(at)) => {
                let request = &mut pair.requests[at];
                add(&mut request.answer, request.length, event);
            }
            (Kind::RequestLeft, Some(at)) if pair.path.is_some() => pair.leave(at, &mut sending),
            (Kind::RequestRefused, Some(at)) => {
                pair.timer = event.word(1) as u8 & 0x1f;
                if event.word(2) == 0 {
                    pair.refuse(at, NOT_READY | pair.timer, &mut sending);
                }
            }
            (Kind::Answered, Some(at)) => {
                pair.end(at, event.word(1), &mut sending);
                pair.requests.remove(at);
            }
            (Kind::RequestLeft | Kind::RequestRefused | Kind::Answered, _) => self.unknown += 1,
            _ => {}
        }
    }
}

fn path_of(event: &Event) -> Option<Path> {
    let service = match event.word(0) {
        2 => Service::Rc,
        3 => Service::Uc,
        4 => Service::Ud,
        9 => Service::Xrc,
        _ => return None,
    };
    Some(Path {
        service,
        mtu: event.word(1).clamp(256, 4096) as usize,
        peer: event.word(2) as u32,
        from: address::ip(event.word(3), event.word(4)),
        to: address::ip(event.word(5), event.word(6)),
    })
}

/// Adds the bytes of an event to those that are known, which have no gaps.
fn add(known: &mut Vec<u8>, length: usize, event: &Event) {
    if event.word(1) == known.len() as u64 {
        known.extend(event.bytes().take(length - known.len().min(length)));
    }
}

impl Pair {
    /// A request leaves.
    fn leave(&mut self, at: usize, sending: &mut Sending<'_>) {
        let Some(path) = self.path else { return };
        self.requests[at].times += 1;
        let request = &self.requests[at];
        // One packet asks for a read; its answer takes the numbers of its packets.
        let length = if request.opcode == number::READ || request.is_atomic() { 0 } else { request.length };
        let mtu = if path.service == Service::Ud { usize::MAX } else { path.mtu };
        let packets = length.div_ceil(mtu).max(1);
        for n in 0..packets {
            let (is_first, is_last) = (n == 0, n + 1 == packets);
            let (from, size) = (n * mtu.min(length.max(1)), if is_last { length - n * mtu.min(length) } else { mtu });
            let base = Base {
                service: path.service,
                operation: request.operation(is_first, is_last),
                to_qp: if path.service == Service::Ud { request.to_qp } else { path.peer },
                psn: (request.psn + n as u32) % NUMBERS,
                wants_answer: is_last && matches!(path.service, Service::Rc | Service::Xrc),
                is_solicited: is_last && request.flags & SOLICITED != 0,
            };
            let extended = request.headers(path.service, sending.qp, is_first, is_last);
            sending.request(&path, request, base, &extended, (part(&request.bytes, from, size), size));
        }
    }

    fn answers(&self, path: &Path, operation: Operation, psn: u32, qp: u32) -> Base {
        Base { service: path.service, operation, to_qp: qp, psn, wants_answer: false, is_solicited: false }
    }

    fn extended(&self, syndrome: u8) -> [u8; 4] {
        ((u32::from(syndrome) << 24) | (self.completed % NUMBERS)).to_be_bytes()
    }

    /// The peer does not take a request.
    fn refuse(&mut self, at: usize, syndrome: u8, sending: &mut Sending<'_>) {
        let Some(path) = self.path.filter(|path| matches!(path.service, Service::Rc | Service::Xrc)) else { return };
        let base = self.answers(&path, Operation::Acknowledge, self.requests[at].psn, sending.qp);
        let comment = format!("refuses wr_id {:#x}", self.requests[at].wr_id);
        sending.answer(&path, base, &self.extended(syndrome), (&[], 0), comment);
    }

    /// A request is complete.
    fn end(&mut self, at: usize, status: u64, sending: &mut Sending<'_>) {
        let Some(path) = self.path.filter(|path| matches!(path.service, Service::Rc | Service::Xrc)) else { return };
        match status {
            number::SUCCESS => self.acknowledge(&path, at, sending),
            number::REMOTE_INVALID => self.refuse(at, REFUSED | 1, sending),
            number::REMOTE_ACCESS => self.refuse(at, REFUSED | 2, sending),
            number::REMOTE_OPERATION => self.refuse(at, REFUSED | 3, sending),
            number::RNR_EXCEEDED => self.refuse(at, NOT_READY | self.timer, sending),
            _ => {}
        }
    }

    fn acknowledge(&mut self, path: &Path, at: usize, sending: &mut Sending<'_>) {
        self.completed = self.completed.wrapping_add(1);
        let request = &self.requests[at];
        if request.opcode == number::READ {
            let packets = request.length.div_ceil(path.mtu).max(1);
            for n in 0..packets {
                let operation = by_place(n == 0, n + 1 == packets, [Operation::ReadFirst, Operation::ReadMiddle, Operation::ReadLast, Operation::ReadOnly]);
                let extended = if operation == Operation::ReadMiddle { Vec::new() } else { self.extended(ACKNOWLEDGED).to_vec() };
                let (from, base) = (n * path.mtu, self.answers(path, operation, (request.psn + n as u32) % NUMBERS, sending.qp));
                let size = path.mtu.min(request.length - from);
                sending.answer(path, base, &extended, (part(&request.answer, from, size), size), String::new());
            }
            return;
        }
        let (operation, mut extended) =
            (if request.is_atomic() { Operation::AtomicAcknowledge } else { Operation::Acknowledge }, self.extended(ACKNOWLEDGED).to_vec());
        if request.is_atomic() {
            let mut found = [0; 8];
            found.iter_mut().zip(&request.answer).for_each(|(to, from)| *to = *from);
            extended.extend(u64::from_ne_bytes(found).to_be_bytes());
        }
        let base = self.answers(path, operation, request.last_psn(path), sending.qp);
        sending.answer(path, base, &extended, (&[], 0), String::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: Kind, words: &[u64]) -> Event {
        Event { stamp: 0, kind, object: 0x2001, words: words.to_vec() }
    }

    const V4: [u64; 4] = [0, 0xffff_0a00_0001, 0, 0xffff_0a00_0002];

    /// The opcodes and numbers of the packets of events, and their bytes.
    fn packets(events: &[Event]) -> (Vec<(u8, u32)>, Vec<Packet>) {
        let (mut requests, mut packets) = (Requests::default(), Vec::new());
        events.iter().for_each(|event| requests.take(3, 7, event, &mut packets));
        let number = |packet: &Packet| u32::from_be_bytes(packet.bytes[36..40].try_into().unwrap()) & 0xff_ffff;
        (packets.iter().map(|packet| (packet.bytes[28], number(packet))).collect(), packets)
    }

    fn request(psn: u64, length: u64, opcode: u64) -> Event {
        event(Kind::Request, &[psn, length, opcode, 0, 0x77, 0x1000, 0x99])
    }

    fn path(service: u64) -> Event {
        event(Kind::Path, &[service, 256, 0x4002, V4[0], V4[1], V4[2], V4[3]])
    }

    #[test]
    fn a_write_of_three_packets_over_the_end_of_the_numbers() {
        let bytes: Vec<u64> = (0..75).map(|n| u64::from_le_bytes([n as u8; 8])).collect();
        let events = [
            path(2),
            request(0xff_ffff, 600, 0),
            event(Kind::RequestBytes, &[&[0xff_ffff, 0, 352][..], &bytes[..44]].concat()),
            event(Kind::RequestBytes, &[&[0xff_ffff, 352, 248][..], &bytes[44..], &[1, 1]].concat()),
            event(Kind::RequestLeft, &[0xff_ffff]),
            event(Kind::Answered, &[0xff_ffff, 0]),
        ];
        let (seen, packets) = packets(&events);
        assert_eq!(seen, [(0x06, 0xff_ffff), (0x07, 0), (0x08, 1), (0x11, 1)]);
        // Headers of IP, UDP and transport; that of RDMA in the first; the checksum.
        let payloads: Vec<&[u8]> = packets.iter().take(3).enumerate().map(|(n, p)| &p.bytes[if n == 0 { 56 } else { 40 }..p.bytes.len() - 4]).collect();
        let flat: Vec<u8> = bytes.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(payloads.concat(), flat);
        assert!(packets.iter().all(|p| p.bytes.len() == p.length as usize && (p.interface, p.time) == (3, 7)));
        assert_eq!(packets.iter().map(|p| p.direction).collect::<Vec<_>>(), [Direction::Out, Direction::Out, Direction::Out, Direction::In]);
    }

    #[test]
    fn what_is_refused_leaves_again() {
        let events = [
            path(2),
            request(5, 0, 2),
            request(6, 0, 3),
            event(Kind::RequestLeft, &[5]),
            event(Kind::RequestLeft, &[6]),
            event(Kind::RequestRefused, &[5, 12, 0]),
            event(Kind::RequestLeft, &[5]),
            event(Kind::RequestLeft, &[6]),
            event(Kind::Answered, &[5, 0]),
            event(Kind::Answered, &[6, 11]),
        ];
        let (seen, packets) = packets(&events);
        assert_eq!(seen, [(4, 5), (5, 6), (0x11, 5), (4, 5), (5, 6), (0x11, 5), (0x11, 6)]);
        let syndromes: Vec<u8> = packets.iter().filter(|p| p.direction == Direction::In).map(|p| p.bytes[40]).collect();
        assert_eq!(syndromes, [NOT_READY | 12, ACKNOWLEDGED, REFUSED | 3]);
        assert_eq!(packets[3].comment, "queue pair 0x2001, wr_id 0x77, sent again");
    }

    #[test]
    fn reads_and_atomics_bring_bytes() {
        let events = [
            path(2),
            request(1, 300, 4),
            request(3, 8, 6),
            event(Kind::RequestLeft, &[1]),
            event(Kind::RequestLeft, &[3]),
            event(Kind::AnswerBytes, &[[1, 0, 300].as_slice(), &[9; 38]].concat()),
            event(Kind::Answered, &[1, 0]),
            event(Kind::AnswerBytes, &[3, 0, 8, 41]),
            event(Kind::Answered, &[3, 0]),
        ];
        let (seen, packets) = packets(&events);
        assert_eq!(seen, [(0x0c, 1), (0x14, 3), (0x0d, 1), (0x0f, 2), (0x12, 3)]);
        let last = &packets[4].bytes;
        assert_eq!(last[44..52], 41u64.to_be_bytes());
    }

    /// Bytes that were overwritten before they were read are not made up.
    #[test]
    fn what_is_missing_is_missing() {
        let events = [
            path(2),
            request(1, 600, 0),
            event(Kind::RequestBytes, &[[1, 0, 78].as_slice(), &[5; 12]].concat()),
            event(Kind::RequestBytes, &[[1, 352, 80].as_slice(), &[5; 10]].concat()),
            event(Kind::RequestLeft, &[1]),
            event(Kind::RequestLeft, &[2]),
        ];
        let (seen, packets) = packets(&events);
        assert_eq!(seen.len(), 3);
        let captured: Vec<usize> = packets.iter().map(|p| p.bytes.len()).collect();
        assert_eq!(captured, [56 + 78, 40, 40]);
        assert_eq!(packets.iter().map(|p| p.length).collect::<Vec<_>>(), [56 + 256 + 4, 40 + 256 + 4, 40 + 88 + 4]);
    }

    /// Whatever is in the files, something comes out.
    #[test]
    fn anything() {
        let mut state = 1u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let kinds: Vec<Kind> = Kind::ALL.iter().copied().filter(|kind| (96..103).contains(&(*kind as u16))).collect();
        let (mut requests, mut packets) = (Requests::default(), Vec::new());
        for _ in 0..20_000 {
            let words: Vec<u64> = (0..random() % 16).map(|_| if random() % 2 == 0 { random() % 16 } else { random() << (random() % 34) }).collect();
            let kind = kinds[random() as usize % kinds.len()];
            // Long messages are many packets.
            let words = words.iter().enumerate().map(|(at, word)| if at == 1 && kind == Kind::Request { word % 10_000 } else { *word }).collect();
            requests.take(0, 0, &Event { stamp: 0, kind, object: (random() % 3) as u32, words }, &mut packets);
        }
        assert!(packets.iter().all(|packet| packet.bytes.len() <= packet.length as usize) && !packets.is_empty());
    }
}
