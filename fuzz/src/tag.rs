// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of a peer into an endpoint with tag matching, between calls of its program: heads of
//! all kinds with numbers that fit and that do not, payloads of all lengths, in lines, in one piece
//! and in several.
//!
//! Asserted beside what sanitizers see: no byte changes that nobody was given; every operation
//! completes once, a buffer for several messages is given back once, and when the peer is gone
//! nothing is left.

use crate::input::Input;
use crate::program;
use crate::scripted::{Scripted, link, wire};
use crate::talk;
use bellwire_tag::machine::{Machine, VERSION};
use bellwire_tag::{
    Access, AtomicOp, AtomicRequest, Bindings, Completion, DataType, Form, Gather, Name, Notes, Peek, Queue, ReceiveFlags, Region, RemoteFlags, RemoteRequest,
    SendFlags, SendOut, SharedReceives, SharedRegions, Target, Want,
};
use bellwire_via::wire::{LinkFailure, WireEvent};
use bellwire_via::{Duration, Engine, Instant, NetAddress};
use std::collections::BTreeMap;
use std::sync::Arc;

const STEPS_MAX: usize = 300;
/// Bytes before, between and behind what may be reached.
const EDGE: usize = 512;
/// What peers may read and write, and read only.
const REACH: usize = 4096;
/// Memory of the program's operations.
const LOCAL: usize = 48 * 1024;
const CANARY: u8 = 0xc5;
/// What the program calls the peer.
const PEER: u64 = 1;
const OPEN: u64 = 5;
const CLOSED: u64 = 6;

/// An operation of the program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begun {
    Plain,
    /// A buffer for several messages.
    Multi,
    /// Only its failure is told.
    Silent,
}

/// Operations that are not complete.
#[derive(Default)]
struct Heard(BTreeMap<usize, Begun>);

impl Begun {
    fn of(is_silent: bool) -> Self {
        if is_silent { Self::Silent } else { Self::Plain }
    }
}

impl Heard {
    /// Whether nothing is awaited.
    fn is_empty(&self) -> bool {
        self.0.values().all(|begun| *begun == Begun::Silent)
    }

    fn done(&mut self, c: &Completion) {
        if c.notes.contains(Notes::REMOTE_WRITE) {
            return;
        }
        let begun = *self.0.get(&c.context).expect("completed twice, or never begun");
        assert!(begun != Begun::Silent || c.failure.is_some(), "{c:?}");
        let is_multi = begun == Begun::Multi;
        assert!(is_multi || !c.notes.contains(Notes::RELEASED), "{c:?}");
        if !is_multi || c.notes.contains(Notes::RELEASED) {
            self.0.remove(&c.context);
        }
    }
}

struct Stage {
    engine: Engine<Scripted>,
    machine: Machine,
    heard: Heard,
    regions: SharedRegions,
    shared: Option<SharedReceives>,
    /// Edge, open, edge, closed, edge; and the program's own, between edges.
    reached: Vec<u8>,
    local: Vec<u8>,
    /// Our end of the connection, as the peer calls it; connections so far.
    id: u32,
    tries: u32,
    /// Operations begun.
    begun: usize,
}

fn name(number: u8) -> Name {
    Name::new(&[127, 0, 0, 1], [number; 16]).expect("short enough")
}

impl Stage {
    fn new() -> Self {
        let mut engine = Engine::new(Scripted::new(), 1);
        engine.set_now(Instant(1));
        engine.progress();
        let regions = SharedRegions::default();
        let mut machine = Machine::new(&mut engine, name(1), regions.clone()).expect("room");
        let queue = Some(Arc::default());
        machine.bind(Bindings { queues: [queue.clone(), queue], ..Bindings::default() });
        machine.learn(PEER, name(2));
        let reached = vec![CANARY; 3 * EDGE + 2 * REACH];
        let start = reached.as_ptr().expose_provenance() + EDGE;
        let region = |start, access| Region { start, length: REACH, base: 0, access };
        // SAFETY: R1: the stage owns the memory and outlives all that the machine is asked to do.
        unsafe {
            assert!(regions.lock().insert(OPEN, region(start, Access::all())));
            assert!(regions.lock().insert(CLOSED, region(start + REACH + EDGE, Access::READ)));
        }
        let (local, heard) = (vec![CANARY; LOCAL + 2 * EDGE], Heard::default());
        let mut stage = Self { engine, machine, heard, regions, shared: None, reached, local, id: 0, tries: 0, begun: 0 };
        stage.connect();
        assert_ne!(stage.id, 0, "not connected");
        stage
    }

    fn turns(&mut self) {
        talk::turns(|| self.machine.poll(&mut self.engine) | self.engine.progress());
        self.hear();
    }

    /// Takes what has ended.
    fn hear(&mut self) {
        self.machine.take_completions(Queue::Sends).iter().for_each(|c| self.heard.done(c));
    }

    /// The peer connects, as an endpoint would.
    fn connect(&mut self) {
        let (to, from): (NetAddress, NetAddress) = (Machine::addresses(name(1)).expect("an address").0, Machine::addresses(name(2)).expect("an address").1);
        self.tries += 1;
        talk::connect(&mut self.engine, self.tries, VERSION, &from, &to);
        self.turns();
        self.id = talk::accepted(&self.engine);
    }

    /// The number of an operation under way, or any.
    fn operation(&self, input: &mut Input<'_>) -> u64 {
        let known: Vec<u32> = self.machine.operations().collect();
        match input.u8() {
            200.. => input.number(),
            n if known.is_empty() => u64::from(n),
            n => u64::from(known[usize::from(n) % known.len()]),
        }
    }

    /// A message of the peer's.
    fn peer_says(&mut self, input: &mut Input<'_>) {
        let (kind, form) = (1 + input.u8() % 11, input.u8());
        let flags = u64::from(input.u8() & if form & 1 == 0 { 15 } else { 255 });
        let (own, number) = (self.operation(input), input.number());
        let key = if form & 2 == 0 { OPEN } else { 4 + u64::from(input.u8() % 4) };
        let mut rest = match kind {
            2 | 4 => vec![number, if kind == 2 { input.number() } else { own }],
            3 | 5 => vec![own | input.number() << 32, number],
            6 => vec![number, key, own],
            7 => vec![number, key, own, input.number()],
            8 => {
                let what = u64::from(input.u8() % 18) << 32 | u64::from(input.u8() % 22) << 40 | u64::from(input.u8() % 4) << 48;
                vec![number & !7, key, what | own & 0xffff_ffff, u64::from(input.u8())]
            }
            _ => Vec::new(),
        };
        if kind == 4 {
            rest = vec![own, number];
        }
        rest.truncate([0, 0, 2, 2, 2, 1, 3, 4, 4, 0, 0, 0][usize::from(kind)]);
        // Tag, data, operation, as the flags say.
        rest.extend((0..3).filter(|bit| flags >> bit & 1 != 0).map(|_| u64::from(input.u8() % 4)));
        let handled = if form & 4 == 0 { 0 } else { input.number() & 0xffff_ffff };
        let count = if form & 8 == 0 { rest.len() as u64 + 1 } else { u64::from(input.u8() % 16) };
        rest.insert(0, u64::from(kind) | flags << 8 | count << 16 | handled << 32);
        let length = if form & 16 == 0 { usize::from(input.u8()) } else { usize::from(input.u16()) % 18_000 };
        let payload: Vec<u8> = (0..if form & 32 == 0 { length } else { 0 }).map(|i| i as u8).collect();
        talk::say(&mut self.engine, self.id, &rest, &payload);
    }

    /// Some of the program's memory.
    fn memory(&mut self, input: &mut Input<'_>) -> Gather {
        let n = usize::from(input.u16()) % 40_000;
        let at = EDGE + usize::from(input.u8()) * 16;
        let piece = |at: usize, n: usize, local: &mut Vec<u8>| (local[at..at + n].as_mut_ptr(), n);
        let cut = if input.u8() & 1 == 0 { n } else { n / 3 };
        let pieces = [piece(at, cut, &mut self.local), piece(at + cut, n - cut, &mut self.local)];
        // SAFETY: G1: the stage owns the memory and outlives all that the machine is asked to do.
        unsafe { Gather::of(pieces.into_iter().take(if cut == n { 1 } else { 2 })) }.expect("two")
    }

    /// Runs a call of the program, whose completion is awaited if it succeeds.
    fn call<E>(&mut self, begun: Begun, run: impl FnOnce(&mut Machine, &mut Engine<Scripted>, usize) -> Result<(), E>) {
        self.begun += 1;
        let context = self.begun;
        self.heard.0.insert(context, begun);
        if run(&mut self.machine, &mut self.engine, context).is_err() {
            assert!(self.heard.0.remove(&context).is_some(), "refused and completed");
        }
        self.hear();
    }

    fn want(&mut self, input: &mut Input<'_>) -> Want {
        let form = input.u8();
        let mut flags = ReceiveFlags::empty();
        let to = self.memory(input);
        let (tagged, is_multi) = (form & 1 != 0, form & 6 == 6);
        // SAFETY: G1: a part of the same memory.
        let to = if is_multi { unsafe { Gather::one(to.start(), to.len().min(9000) / 3) } } else { to };
        flags.set(ReceiveFlags::MULTI, is_multi);
        let source = (form & 8 != 0).then_some(if form & 16 == 0 { PEER } else { u64::from(input.u8()) });
        Want { tagged, source, tag: u64::from(input.u8() % 4), ignore: u64::from(form >> 5), to, context: 0, flags }
    }

    fn receive(&mut self, input: &mut Input<'_>) {
        let want = self.want(input);
        let Some(shared) = self.shared.clone() else {
            let begun = if want.flags.contains(ReceiveFlags::MULTI) { Begun::Multi } else { Begun::Plain };
            return self.call(begun, |m, e, context| m.receive(e, &Want { context, ..want }));
        };
        self.call(Begun::Plain, |m, e, context| {
            shared.post(&Want { context, ..want });
            m.serve_shared(e);
            Ok::<(), ()>(())
        });
    }

    fn send(&mut self, input: &mut Input<'_>) {
        let (from, form) = (self.memory(input), input.u8());
        let (tag, data) = ((form & 128 != 0).then_some(u64::from(input.u8())), (form & 64 != 0).then_some(7));
        let flags = SendFlags::from_bits_truncate(form & 31);
        let is_silent = flags.contains(SendFlags::SILENT) || (flags.contains(SendFlags::INJECT) && !flags.contains(SendFlags::COUNTED));
        self.call(Begun::of(is_silent), |m, e, context| m.send(e, &SendOut { peer: PEER, tag, data, from, context, flags }));
    }

    fn reach(&mut self, input: &mut Input<'_>) {
        let (local, form) = (self.memory(input), input.u8());
        let target = Target { peer: PEER, address: input.number(), key: input.number() };
        let (data, flags) = ((form & 8 != 0).then_some(9), RemoteFlags::from_bits_truncate(form & 7));
        self.call(Begun::of(flags.contains(RemoteFlags::SILENT)), |m, e, context| {
            m.reach(e, &RemoteRequest { target, local, data, context, flags }, form & 16 == 0)
        });
    }

    fn atomic(&mut self, input: &mut Input<'_>) {
        let (op, form, count) = (AtomicOp::from_bits(input.u8() % 20).expect("one of them"), input.u8(), usize::from(input.u8()));
        let data_type = [DataType::U8, DataType::F64, DataType::U128][usize::from(form) % 3];
        let form = [Form::Plain, Form::Fetch, Form::Compare][usize::from(form / 3) % 3];
        let bytes = count * data_type.bytes();
        let part = |i: usize, is_wanted: bool, local: &mut Vec<u8>| {
            let at = local[EDGE + i * 8192..].as_mut_ptr();
            // SAFETY: G1: the stage owns the memory and outlives all that the machine is asked to
            // do; there are 8192 bytes.
            if is_wanted { unsafe { Gather::one(at, bytes) } } else { Gather::NONE }
        };
        let local = &mut self.local;
        let (operands, compare, result) = (part(0, op != AtomicOp::Read, local), part(1, form == Form::Compare, local), part(2, form != Form::Plain, local));
        let target = Target { peer: PEER, address: input.number(), key: 1 };
        let a = AtomicRequest { target, data_type, op, form, count, operands, compare, result, context: 0, flags: RemoteFlags::empty() };
        self.call(Begun::Plain, |m, e, context| m.atomic(e, &AtomicRequest { context, ..a }));
    }

    /// Looks, claims, takes what was claimed; takes receives back.
    fn look(&mut self, input: &mut Input<'_>) {
        let (want, how) = (self.want(input), input.u8());
        let which = if self.begun == 0 { 0 } else { usize::from(input.u8()) % self.begun + 1 };
        match how % 5 {
            3 => {
                self.machine.cancel(which);
                self.hear();
            }
            4 => {
                // Its context is that of a look which is complete.
                if let std::collections::btree_map::Entry::Vacant(e) = self.heard.0.entry(which) {
                    e.insert(Begun::Plain);
                    if self.machine.take_claimed(&mut self.engine, &Want { context: which, ..want }, how & 64 != 0).is_err() {
                        self.heard.0.remove(&which);
                    }
                    self.hear();
                }
            }
            how => {
                let peek = [Peek::Look, Peek::Claim, Peek::Discard][usize::from(how)];
                self.call(Begun::Plain, |m, e, context| m.peek(e, &Want { context, ..want }, peek));
            }
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let what = input.u8();
        match what % 16 {
            0..=6 => self.peer_says(input),
            7 | 8 => self.receive(input),
            9 | 10 => self.send(input),
            11 => self.reach(input),
            12 => self.atomic(input),
            13 => self.look(input),
            14 => wire(&mut self.engine).room = if what & 128 == 0 { u32::from(input.u8()) } else { u32::MAX },
            _ => self.odd(input),
        }
    }

    /// What happens seldom.
    fn odd(&mut self, input: &mut Input<'_>) {
        match input.u8() % 8 {
            0..=2 => program::pass_time(&mut self.engine, input),
            3 => self.connect(),
            4 => self.machine.forget(PEER),
            5 => assert!(self.machine.learn(PEER, name(2))),
            6 if self.heard.is_empty() && self.shared.is_none() => {
                // Receives of its own and shared ones are not had at once.
                let shared = SharedReceives::default();
                self.machine.share(shared.clone());
                self.shared = Some(shared);
            }
            _ => {
                self.regions.lock().remove(OPEN);
                let start = self.reached.as_ptr().expose_provenance() + EDGE;
                let region = Region { start, length: REACH / 2, base: 64, access: Access::all() };
                // SAFETY: R1: the stage owns the memory and outlives all that the machine is asked
                // to do.
                assert!(unsafe { self.regions.lock().insert(OPEN, region) });
            }
        }
    }

    fn check(&self) {
        let untouched = |of: &[u8]| of.iter().all(|b| *b == CANARY);
        assert!(untouched(&self.reached[..EDGE]) && untouched(&self.reached[EDGE + REACH..]), "memory was written that peers may not write");
        assert!(untouched(&self.local[..EDGE]) && untouched(&self.local[EDGE + LOCAL..]), "memory was written that is nobody's");
    }

    /// The peer is gone, and time enough has passed for those who still try to connect.
    fn finish(mut self) {
        wire(&mut self.engine).events.push_back(WireEvent::LinkDown { link: link(), reason: LinkFailure::PeerDied });
        for _ in 0..4 {
            self.engine.set_now(self.engine.now() + Duration::from_micros(60_000_000));
            (0..100).for_each(|_| self.turns());
        }
        self.machine.give_receives_back();
        self.hear();
        let shared = self.shared.take();
        self.heard.0.retain(|context, _| !shared.as_ref().is_some_and(|shared| shared.cancel(*context)));
        assert_eq!(self.machine.operations().count(), 0, "operations that nobody ends");
        assert!(self.heard.is_empty(), "never completed: {:?}", self.heard.0.keys());
        assert_eq!(self.machine.holds(), (0, 0), "connections, buffers");
        self.check();
        self.machine.close(&mut self.engine);
    }
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let mut stage = Stage::new();
    input.drive(STEPS_MAX, |input| {
        stage.step(input);
        stage.turns();
        stage.check();
    });
    stage.finish();
}
