// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program above the engine: VIs, memory with canaries, requests that are counted.

use crate::input::Input;
use bellwire_via::wire::Wire;
use bellwire_via::{
    Completion, Duration, Engine, MemAttributes, MemHandle, NetAddress, Operation, PtagHandle, ReceiveRequest, Reliability, Segment, SendRequest, Status,
    ViAttributes, ViHandle, ViState, WorkFlags,
};

/// Bytes of each of the areas: canary, writable by peers, canary, readable only, canary.
pub const AREA: usize = 4096;
const AREAS: usize = 5;
const CANARY: u8 = 0xc5;
/// VIs, one of each reliability level and one that waits for receive descriptors.
pub const VIS: usize = 4;
/// Their reliability levels as connection requests say them.
pub const LEVELS: [u8; VIS] = [1, 2, 4, 2];
/// Turns of the engine after each step, at most: a peer may keep it busy for ever.
const TURNS_MAX: usize = 4;

/// A VI and what is out on it.
pub struct Counted {
    pub vi: ViHandle,
    pub sends: u32,
    pub receives: u32,
}

/// See the module.
pub struct Program {
    memory: Vec<u8>,
    pub open: MemHandle,
    pub closed: MemHandle,
    pub tag: PtagHandle,
    pub vis: Vec<Counted>,
}

impl Program {
    /// Registers memory and makes the VIs.
    pub fn new<W: Wire>(engine: &mut Engine<W>) -> Self {
        let tag = engine.create_ptag().unwrap();
        let memory = vec![CANARY; AREA * AREAS];
        let rights = |write| MemAttributes { ptag: Some(tag), rdma_write: write, rdma_read: true };
        let base = memory.as_ptr().expose_provenance() as u64;
        // SAFETY: U0: the program owns the memory and outlives all that the engine is asked to do.
        let [open, closed] =
            [(1, true), (3, false)].map(|(area, write)| unsafe { engine.register(base + area * AREA as u64, AREA as u64, &rights(write)) }.unwrap());
        let vis = (0..VIS).map(|i| Counted { vi: engine.create_vi(&attributes(i, tag), None, None, None).unwrap(), sends: 0, receives: 0 }).collect();
        Self { memory, open, closed, tag, vis }
    }

    /// Address of the memory that peers may write.
    pub fn open_at(&self) -> u64 {
        self.memory.as_ptr().expose_provenance() as u64 + AREA as u64
    }

    /// A local segment, mostly within the region that peers may write.
    pub fn segment(&self, input: &mut Input<'_>) -> Segment {
        let length = input.number() as u32;
        let offset = input.number();
        if length as usize <= AREA && offset <= AREA as u64 - u64::from(length) {
            return Segment { address: self.open_at() + offset, length, handle: self.open.raw() };
        }
        Segment { address: self.open_at().wrapping_add(offset), length, handle: if input.u8() == 0 { input.u32() } else { self.open.raw() } }
    }

    /// Up to two local segments.
    fn segments(&self, input: &mut Input<'_>) -> Vec<Segment> {
        (0..input.u8() % 3).map(|_| self.segment(input)).collect()
    }

    /// Posts a receive.
    pub fn post_receive<W: Wire>(&mut self, engine: &mut Engine<W>, which: usize, input: &mut Input<'_>) {
        let segments = self.segments(input);
        let v = &mut self.vis[which];
        v.receives += u32::from(engine.post_receive(v.vi, &ReceiveRequest { segments: &segments, ..Default::default() }).is_ok());
    }

    /// Posts a send, write or read.
    pub fn post_send<W: Wire>(&mut self, engine: &mut Engine<W>, which: usize, input: &mut Input<'_>) {
        let segments = self.segments(input);
        let kind = input.u8();
        let operation = [Operation::Send, Operation::RdmaWrite, Operation::RdmaRead][usize::from(kind % 3)];
        let flags =
            if kind & 64 != 0 { WorkFlags::IMMEDIATE } else { WorkFlags::empty() } | if kind & 128 != 0 { WorkFlags::FENCE } else { WorkFlags::empty() };
        let request =
            SendRequest { operation, flags, segments: &segments, remote_address: input.number(), remote_handle: input.u8().into(), ..Default::default() };
        let v = &mut self.vis[which];
        v.sends += u32::from(engine.post_send(v.vi, &request).is_ok());
    }

    /// Takes all completions. Panics on one too many.
    pub fn collect<W: Wire>(&mut self, engine: &mut Engine<W>) {
        for v in &mut self.vis {
            // Of a write with immediate data the length is the peer's claim, within what was agreed.
            let most = |c: &Completion| if c.status.contains(Status::IMMEDIATE) { 1 << 20 } else { 2 * AREA };
            let check = |c: &Completion| assert!(c.length as usize <= most(c) || c.status.is_error(), "{c:?}");
            while let Some(c) = engine.poll_send(v.vi).unwrap() {
                check(&c);
                v.sends = v.sends.checked_sub(1).expect("a send completed twice");
            }
            while let Some(c) = engine.poll_receive(v.vi).unwrap() {
                check(&c);
                v.receives = v.receives.checked_sub(1).expect("a receive completed twice");
            }
        }
        while engine.poll_event().is_some() {}
    }

    /// Ends a connection; everything comes back.
    pub fn disconnect<W: Wire>(&mut self, engine: &mut Engine<W>, which: usize) {
        engine.disconnect(self.vis[which].vi).unwrap();
        self.collect(engine);
        let v = &self.vis[which];
        assert_eq!((v.sends, v.receives), (0, 0), "requests that never completed");
        assert_eq!(engine.query_vi(v.vi).unwrap().0, ViState::Idle);
    }

    /// Lets the engine do what a step has left to do, and checks.
    pub fn turns<W: Wire>(&self, engine: &mut Engine<W>) {
        for _ in 0..TURNS_MAX {
            if !engine.progress() {
                break;
            }
        }
        self.check();
    }

    /// Panics if a byte outside what peers and receives may write has changed.
    pub fn check(&self) {
        for (i, area) in self.memory.chunks(AREA).enumerate() {
            if i != 1 {
                // Volatile is not needed: engine and checker are one thread.
                assert!(area.iter().all(|b| *b == CANARY), "area {i} was written");
            }
        }
    }

    /// The end: everything can be given back.
    pub fn finish<W: Wire>(mut self, engine: &mut Engine<W>) {
        (0..self.vis.len()).for_each(|i| self.disconnect(engine, i));
        self.check();
        self.vis.iter().for_each(|v| engine.destroy_vi(v.vi).unwrap());
        engine.deregister(self.open_at(), self.open).unwrap();
        engine.deregister(self.open_at() + 2 * AREA as u64, self.closed).unwrap();
        engine.destroy_ptag(self.tag).unwrap();
    }
}

fn attributes(i: usize, tag: PtagHandle) -> ViAttributes {
    let reliability = [Reliability::Unreliable, Reliability::ReliableDelivery, Reliability::ReliableReception, Reliability::ReliableDelivery][i % VIS];
    let read = reliability != Reliability::Unreliable;
    ViAttributes { reliability, max_transfer_bytes: 1 << 20, ptag: Some(tag), rdma_write: true, rdma_read: read, rnr_wait: i == 3, ..Default::default() }
}

/// A frame of control in bytes: asks for a connection from `their` id, of messages up to so many bytes and with this quality of service.
pub fn connection_request(reliability: u8, their: u32, (longest, service): (u64, u64), from: &NetAddress, to: &NetAddress) -> Vec<u8> {
    let mut b = vec![1, 0, reliability, 7, from.host().len() as u8, from.discriminator().len() as u8, to.host().len() as u8, to.discriminator().len() as u8];
    b.extend(their.to_le_bytes());
    b.extend(1u32.to_le_bytes());
    b.extend(longest.to_le_bytes());
    b.extend(service.to_le_bytes());
    [from.host(), from.discriminator(), to.host(), to.discriminator()].iter().for_each(|p| b.extend(*p));
    b
}

/// Words of a frame head: operation, connection, and whether it has payload.
pub fn head(op: u64, to: u32, bulk: bool) -> u64 {
    (op << 1) | (1 << 7) | (u64::from(bulk) * 0xff00) | (u64::from(to) << 32)
}

/// Words of a frame as the fuzzer wishes, mostly well-formed; and the payload's length.
pub fn frame(input: &mut Input<'_>, program: &Program, to: u32) -> ([u64; 8], usize) {
    let (op, form) = (input.u8(), input.u8());
    let mut w = [0; 8];
    let to = if form & 1 == 0 { to } else { input.u32() };
    let bulk = form & 2 == 0;
    w[0] = u64::from(op % 18) << 1 | u64::from(form & 4 == 0) << 7 | u64::from(form & 8 != 0) << 6 | u64::from(to) << 32;
    w[0] |= if bulk { 0xff00 } else { u64::from(input.u8()) << 8 } | (input.number() & 0xffff) << 16;
    let length = if form & 16 == 0 { u64::from(input.u8()) } else { u64::from(input.u16()) };
    let total = if form & 4 == 0 { length } else { input.number() };
    let offset = if form & 32 == 0 { 0 } else { input.number() };
    w[1] = (offset & 0xffff_ffff) | total << 32;
    w[2] = (input.number() & 0xffff_ffff) | length << 32;
    let near = input.number().wrapping_sub(u64::from(input.u8()));
    let (handle, base) = if form & 64 == 0 { (program.open, 0) } else { (program.closed, 2 * AREA as u64) };
    w[3] = if form & 128 == 0 { (program.open_at() + base).wrapping_add(near) } else { input.number() };
    w[4] = u64::from(handle.raw()) | input.number() << 32;
    w[7] = input.number();
    if !bulk && input.u8() & 1 == 0 {
        // Control without payload: word 1 is a sequence, a reason, a status.
        w[1] = input.number();
        w[2] = input.number();
    }
    (w, length.min(16_384) as usize)
}

/// Some time later.
pub fn pass_time<W: Wire>(engine: &mut Engine<W>, input: &mut Input<'_>) {
    engine.set_now(engine.now() + Duration::from_micros(u64::from(input.u16())));
}
