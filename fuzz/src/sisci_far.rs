// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages and RDMA of peers of other hosts, for a process with a segment, an interrupt and a data
//! interrupt that peers connect to, and with connections of its own to a segment of a peer; between
//! calls of its program.
//!
//! Asserted beside what sanitizers see: a segment that is not exported stays as it is, and so does
//! memory of the program that no read was to fill; no interrupt comes that nobody triggered; data
//! comes as it was sent, in order; a user hears of the end of its connection once, and nothing
//! after that; when the peer is gone, no connection is left, and all transfers have ended.

use crate::input::Input;
use crate::program::{self, pass_time};
use crate::scripted::{Scripted, link, wire};
use crate::sisci::library;
use crate::talk;
use bellwire_memory::bytes::SharedBytes;
use bellwire_memory::region::Access;
use bellwire_memory::view::At;
use bellwire_sisci::machine::{Begun, Leaving, Link, Machine, VERSION, What, Word};
use bellwire_sisci::{DATA_MAX, DataInterrupt, InterruptKind, Library, LocalInterrupt, LocalSegment, Map, SegmentKind};
use bellwire_via::wire::{LinkFailure, WireEvent};
use bellwire_via::{Duration, Engine, Instant};

const STEPS_MAX: usize = 300;
/// Bytes of the segments, and of the program's own memory.
const BYTES: usize = 8192;
const LOCAL: usize = 48 * 1024;
const CANARY: u8 = 0xc5;
const HOST: [u8; 4] = [127, 0, 0, 1];
/// Our node and the peer's.
const NODE: u32 = 4;
const PEER: u32 = 8;
/// What the peer connects to, and the ids there.
const OBJECTS: [(What, u32); 3] = [(What::Segment, 1), (What::Interrupt, 2), (What::DataInterrupt, 3)];

/// A connection of ours to the peer's segment, and its end as the peer calls it.
struct User {
    link: Link,
    end: u32,
}

/// A transfer under way: whose, where its bytes are, whether it reads.
struct Transfer {
    begun: Begun,
    at: usize,
    len: usize,
    read: bool,
}

/// Stores of a map that leave: whose, at which offset.
struct Stores {
    link: Link,
    offset: usize,
    leaving: Leaving,
}

struct Stage {
    library: &'static Library,
    device: u64,
    engine: Engine<Scripted>,
    machine: Machine,
    segments: [u64; 2],
    hidden: u64,
    interrupt: u64,
    data: u64,
    /// Address and handle of the segment, as the peer learns them.
    granted: (u64, u32),
    /// Our ends of the peer's connections, as it calls them; connections so far.
    ends: [u32; 3],
    tries: u32,
    users: Vec<User>,
    under_way: Vec<Transfer>,
    stores: Vec<Stores>,
    local: Vec<u8>,
    /// Bytes of `local` that reads may fill.
    may_change: Vec<bool>,
    /// Interrupts and data that the peer may have sent; data that was taken.
    triggers: u64,
    said: Vec<Vec<u8>>,
    taken: usize,
}

impl Stage {
    fn new() -> Self {
        let library = library();
        let device = library.open().expect("a descriptor");
        let mut engine = Engine::new(Scripted::new(), 1);
        engine.set_now(Instant(1));
        engine.progress();
        let mut machine = Machine::new(&mut engine, NODE).expect("room");
        let kind = SegmentKind { auto_id: true, ..SegmentKind::default() };
        let segments = [0; 2].map(|_| {
            let segment = LocalSegment::create(library, device, 0, BYTES, kind, |_| None).expect("a segment");
            library.get::<LocalSegment>(segment).expect("a segment").prepare().expect("once");
            segment
        });
        library.get::<LocalSegment>(segments[0]).expect("a segment").set_available().expect("once");
        let (hidden, place) = Map::of_local(library, segments[1], 0, BYTES, Access::ReadWrite, At::Anywhere).expect("a map");
        // SAFETY: the map, which nobody else has yet.
        unsafe { place.write_bytes(CANARY, BYTES) };
        let kind = InterruptKind { counts: true, ..InterruptKind::default() };
        let (interrupt, _) = LocalInterrupt::create(library, device, kind, |_| None).expect("an interrupt");
        let (data, _) = DataInterrupt::create(library, device, None, |_| None).expect("an interrupt");
        let granted = machine.export_segment(&mut engine, library, segments[0], OBJECTS[0].1).expect("a free name");
        machine.export_interrupt(&mut engine, library, interrupt, OBJECTS[1].1).expect("a free name");
        machine.export_data_interrupt(&mut engine, library, data, OBJECTS[2].1).expect("a free name");
        let mut stage = Self {
            library,
            device,
            engine,
            machine,
            segments,
            hidden,
            interrupt,
            data,
            granted,
            ends: [0; 3],
            tries: 0,
            users: Vec::new(),
            under_way: Vec::new(),
            stores: Vec::new(),
            local: vec![CANARY; LOCAL],
            may_change: vec![false; LOCAL],
            triggers: 0,
            said: Vec::new(),
            taken: 0,
        };
        (0..OBJECTS.len()).for_each(|which| stage.peer_connects(which));
        assert_eq!(stage.machine.users(), OBJECTS.len(), "not connected");
        stage.connect();
        assert_eq!(stage.users.len(), 1, "not connected");
        stage
    }

    fn peer_connects(&mut self, which: usize) {
        self.tries += 1;
        let (what, id) = OBJECTS[which];
        let (to, from) = self.machine.addresses(&HOST, what, id, PEER, u64::from(self.tries)).expect("addresses");
        talk::connect(&mut self.engine, self.tries, VERSION, &from, &to);
        self.turns();
        self.ends[which] = talk::accepted(&self.engine);
    }

    /// Asks for the peer's segment; the peer accepts.
    fn connect(&mut self) {
        self.tries += 1;
        let number = u64::from(self.tries);
        let Ok(link) = self.machine.connect(&mut self.engine, What::Segment, PEER, 7, number) else { return };
        self.turns();
        let end = talk::accepted(&self.engine);
        let (to, from) = self.machine.addresses(&HOST, What::Segment, 7, PEER, number).expect("addresses");
        let payload = program::connection_request(2, 500 + self.tries, (1 << 30, VERSION), &from, &to);
        self.deliver(13, end, payload);
        self.turns();
        self.users.push(User { link, end });
    }

    /// A frame of control, or the whole of a message.
    fn deliver(&mut self, op: u64, to: u32, payload: Vec<u8>) {
        let n = payload.len() as u64;
        let words = [program::head(op, to, true), n << 32, n << 32, 0, 0, 0, 0, 0];
        talk::deliver(&mut self.engine, words, payload);
    }

    fn turns(&mut self) {
        talk::turns(|| self.machine.poll(&mut self.engine) | self.engine.progress());
        self.reap();
    }

    /// Takes the ends of transfers.
    fn reap(&mut self) {
        let (engine, machine, local) = (&mut self.engine, &mut self.machine, &mut self.local);
        self.under_way.retain(|t| {
            // SAFETY: the stage's own memory, within its length; nobody else uses it meanwhile.
            let memory = unsafe { SharedBytes::new(local[t.at..].as_mut_ptr(), t.len) };
            machine.end(engine, t.begun, memory, t.read).is_none()
        });
        let (at, len) = (local.as_mut_ptr(), local.len());
        self.stores.retain_mut(|of| {
            // SAFETY: all of the stage's own memory, which writes only read.
            unsafe { machine.write(engine, of.link, SharedBytes::new_read_only(at, len), of.offset, &mut of.leaving) };
            !of.leaving.is_empty()
        });
    }

    /// Our end of a connection of the peer's: to one of our objects, or of our user.
    fn end(&self, input: &mut Input<'_>) -> u32 {
        let which = input.u8();
        match which % 8 {
            7 => u32::from(input.u16()),
            3..=6 if !self.users.is_empty() => self.users[usize::from(which >> 3) % self.users.len()].end,
            of => self.ends[usize::from(of) % 3],
        }
    }

    /// A message of the peer's.
    fn peer_says(&mut self, input: &mut Input<'_>) {
        let (kind, form) = (u64::from(1 + input.u8() % 11), input.u8());
        let to = self.end(input);
        let value = if form & 1 == 0 { input.number() & 0xffff_ffff } else { 0 };
        // Messages of ours that it says to have handled: mostly as many as it can have.
        let handled = if form & 6 == 0 { input.number() } else { u64::from(form >> 4) };
        let mut words = match kind {
            // The answer: mostly that the segment is there.
            1 if form & 8 == 0 => vec![BYTES as u64, 1 << 20, u64::from(input.u8())],
            _ => vec![input.number(), input.number(), input.number()],
        };
        words.insert(0, kind | value << 32);
        words.insert(1, handled);
        let payload: Vec<u8> = match (kind, form & 0xc0) {
            (7 | 10, 0..=0x80) => (0..=input.u8()).map(|i| i ^ self.said.len() as u8).collect(),
            (_, 0xc0) => vec![form; usize::from(input.u16()) % 3000],
            _ => Vec::new(),
        };
        if form & 0x30 == 0x30 && input.u8() & 1 == 0 {
            words.truncate(usize::from(input.u8()) % 5);
        }
        self.triggers += u64::from(kind == 6);
        if kind == 7 && words.len() == 5 && (1..=DATA_MAX).contains(&payload.len()) {
            self.said.push(payload.clone());
        }
        talk::say(&mut self.engine, to, &words, &payload);
    }

    /// A frame of the peer's as it is, mostly RDMA or an answer to ours.
    fn peer_writes(&mut self, input: &mut Input<'_>) {
        let (op, form) = (input.u8(), input.u8());
        let to = self.end(input);
        let op = [3, 5, 6, 7, 10, 11, 3, u64::from(op >> 3) % 20][usize::from(op) % 8];
        let length = if form & 16 == 0 { u64::from(input.u8()) } else { u64::from(input.u16()) % 1200 };
        let total = if form & 4 == 0 { length } else { input.number() };
        let (address, handle) = self.granted;
        let near = input.number().wrapping_sub(u64::from(input.u8()));
        let mut words =
            [program::head(op, to, form & 2 == 0), input.number() & 0xffff_ffff | total << 32, input.number() & 0xffff_ffff | length << 32, 0, 0, 0, 0, 0];
        if form & 4 != 0 {
            words[0] &= !(1 << 7);
        }
        words[3] = if form & 128 == 0 { address.wrapping_add(near) } else { input.number() };
        words[4] = if form & 64 == 0 { u64::from(handle) } else { input.number() };
        words[7] = input.number();
        let payload = if form & 2 == 0 { (0..length).map(|i| i as u8).collect() } else { Vec::new() };
        talk::deliver(&mut self.engine, words, payload);
    }

    /// A call of the program.
    fn program_calls(&mut self, input: &mut Input<'_>) {
        let (what, which) = (input.u8(), usize::from(input.u8()));
        let user = self.users.get(which % self.users.len().max(1)).map(|user| user.link);
        match (what % 8, user) {
            (3, Some(link)) => {
                let mut leaving = Leaving::default();
                for _ in 0..input.u8() % 50 {
                    let at = usize::from(input.u16()) % BYTES;
                    leaving.add(at..at + 1 + usize::from(input.u8()));
                }
                self.stores.push(Stores { link, offset: input.number() as usize % BYTES, leaving });
            }
            (0..=2, Some(link)) => {
                let (len, at) = (usize::from(input.u8()) << (what >> 4 & 7), usize::from(input.u16()) % (LOCAL / 2));
                let (len, offset, read) = (len.min(LOCAL / 2), input.number() as usize, what & 128 != 0);
                // SAFETY: the stage's own memory, within its length, until the machine has said
                // how the transfer ended: then it is dropped, after the machine's engine at the
                // latest.
                let begun = unsafe {
                    let memory = SharedBytes::new(self.local[at..].as_mut_ptr(), len);
                    self.machine.begin(&mut self.engine, link, memory, offset, read)
                };
                let size = self.machine.granted(link).unwrap_or(0);
                if let Ok(Some(begun)) = begun {
                    assert!(offset.checked_add(len).is_some_and(|end| end as u64 <= size), "a transfer beyond the segment");
                    if read {
                        self.may_change[at..at + len].fill(true);
                    }
                    self.under_way.push(Transfer { begun, at, len, read });
                }
            }
            (4, Some(link)) => {
                let bytes = &self.local[..1 + which];
                let words = [Word::Mapped(what & 128 != 0), Word::Trigger, Word::Data(bytes), Word::Flag(which as u64), Word::Store(which as u64, bytes)];
                let word = words[usize::from(what >> 3) % words.len()];
                let _ = self.machine.say(&mut self.engine, link, word);
            }
            (5, Some(link)) => {
                self.machine.disconnect(&mut self.engine, link);
                self.users.remove(which % self.users.len());
            }
            (6, _) => self.take(),
            _ if self.users.len() < 4 => self.connect(),
            _ => {}
        }
    }

    /// Data that has come is some that was sent, behind the last.
    fn take(&mut self) {
        while let Some(data) = self.machine.take(&mut self.engine, self.library, self.data) {
            let at = self.said[self.taken..].iter().position(|said| *said == data);
            self.taken += 1 + at.expect("data that nobody sent");
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let what = input.u8();
        match what % 16 {
            0..=6 => self.peer_says(input),
            7..=9 => self.peer_writes(input),
            10..=12 => self.program_calls(input),
            13 => wire(&mut self.engine).room = if what & 128 == 0 { u32::from(input.u8()) } else { u32::MAX },
            14 => match what >> 4 {
                0..=9 => pass_time(&mut self.engine, input),
                _ => self.engine.set_now(self.engine.now() + Duration::from_millis(20 * u64::from(input.u8()))),
            },
            _ => self.peer_connects(usize::from(what >> 4) % OBJECTS.len()),
        }
    }

    /// The peer is gone, and the process ends.
    fn finish(mut self) {
        wire(&mut self.engine).events.push_back(WireEvent::LinkDown { link: link(), reason: LinkFailure::PeerDied });
        (0..4).for_each(|_| self.turns());
        assert!(self.machine.ends_are_last(), "told after the end");
        assert_eq!(self.machine.users(), 0, "nobody has noticed");
        for user in &self.users {
            assert!(self.machine.granted(user.link).is_err(), "the peer has answered after its end");
            self.machine.disconnect(&mut self.engine, user.link);
        }
        self.reap();
        assert!(self.under_way.is_empty() && self.stores.is_empty(), "transfers that never end");
        self.take();
        let waits = library().get::<LocalInterrupt>(self.interrupt).expect("an interrupt");
        let came = (0..).take_while(|_| waits.wait(Some(std::time::Duration::ZERO)).is_ok()).count() as u64;
        assert!(came <= self.triggers, "interrupts that nobody triggered");
        assert!(self.local.iter().zip(&self.may_change).all(|(byte, may)| *may || *byte == CANARY), "memory was written that nobody gave");
        let map = self.library.get::<Map>(self.hidden).expect("a map");
        let mut bytes = [0; BYTES];
        map.part(0, BYTES).and_then(|part| Ok(part.copy_out(0, &mut bytes)?)).expect("the map's bytes");
        assert!(bytes.iter().all(|byte| *byte == CANARY), "a segment was written that was not exported");
        drop(map);
        self.machine.withdraw(&mut self.engine);
        Map::unmap(self.library, self.hidden).expect("a map");
        DataInterrupt::remove(self.library, self.data).expect("an interrupt");
        LocalInterrupt::remove(self.library, self.interrupt).expect("an interrupt");
        self.segments.iter().for_each(|segment| LocalSegment::remove(self.library, *segment, false).expect("nobody uses it"));
        assert_eq!(self.library.close(self.device), Ok(()), "all objects were removed");
    }
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let mut stage = Stage::new();
    input.drive(STEPS_MAX, |input| {
        stage.step(input);
        stage.turns();
    });
    stage.finish();
}
