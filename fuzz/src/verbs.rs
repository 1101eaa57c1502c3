// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of a peer into a device with queue pairs of every service, between calls of its program: heads of all kinds with numbers that fit and that do not, payloads of all lengths, in lines, in one piece and in several.
//!
//! Asserted beside what sanitizers see: no byte changes that nobody was given; every request completes once at most, and when the queue pairs have failed nothing of them is left; when the peer is gone no connection is.

use crate::input::Input;
use crate::scripted::{Scripted, link, wire};
use crate::talk;
use bellwire_verbs::machine::{Machine, VERSION};
use bellwire_verbs::{
    Access, Caps, Destination, Gid, Given, Opcode, QpAttributes, QpInit, QpKind, QpState, Region, SendFlags, SendRequest, Sge, WcOpcode, gid_of,
};
use bellwire_via::wire::{LinkFailure, WireEvent};
use bellwire_via::{Duration, Engine, Instant};
use std::collections::BTreeSet;

const STEPS_MAX: usize = 300;
/// Bytes before, between and behind what may be reached.
const EDGE: usize = 512;
/// What peers may reach, and what they may only read.
const REACH: usize = 4096;
/// Memory of the program's requests.
const LOCAL: usize = 48 * 1024;
const CANARY: u8 = 0xc5;
const QKEY: u32 = 7;
/// The peer's place, and its queue pairs, by the number of ours.
const PEER_PLACE: u32 = 9;
const KINDS: [QpKind; 4] = [QpKind::Rc, QpKind::Uc, QpKind::Ud, QpKind::Rc];

fn peer_pair(which: usize) -> u32 {
    PEER_PLACE << 13 | which as u32
}

fn gid() -> Gid {
    gid_of(&[127, 0, 0, 1]).expect("an address")
}

struct Stage {
    engine: Engine<Scripted>,
    machine: Machine,
    domain: u32,
    cq: u32,
    srq: u32,
    pairs: Vec<u32>,
    keys: [u32; 3],
    /// Edge, open, edge, read only, edge; and the program's own, between edges.
    reached: Vec<u8>,
    local: Vec<u8>,
    /// Our end of the connection, as the peer calls it; connections so far.
    id: u32,
    tries: u32,
    /// Requests begun, and those of them that may complete.
    begun: u64,
    open: BTreeSet<u64>,
    now: u64,
}

impl Stage {
    fn new() -> Self {
        let mut engine = Engine::new(Scripted::new(), 1);
        engine.set_now(Instant(1));
        engine.progress();
        let mut machine = Machine::new(&mut engine, gid(), 0).expect("room");
        let (reached, local) = (vec![CANARY; 3 * EDGE + 2 * REACH], vec![CANARY; LOCAL + 2 * EDGE]);
        let (domain, cq) = (machine.create_domain().expect("room"), machine.create_cq(1 << 16).expect("room"));
        let at = |of: &[u8], offset: usize| (of.as_ptr().expose_provenance() + offset) as u64;
        let places = [
            (at(&reached, EDGE), REACH, Access::all()),
            (at(&reached, 2 * EDGE + REACH), REACH, Access::REMOTE_READ),
            (at(&local, EDGE), LOCAL, Access::LOCAL_WRITE),
        ];
        let keys = places.map(|(address, length, access)| {
            // What peers name begins at zero, so that numbers fit.
            let iova = if access == Access::LOCAL_WRITE { address } else { 0 };
            let region = Region { domain, address, length: length as u64, iova, access, adopted: None };
            // SAFETY: R1: the stage owns the memory and outlives all that the machine is asked to
            // do.
            unsafe { machine.register(&mut engine, &region) }.expect("memory")
        });
        let srq = machine.create_srq(domain, 16, 4, 2).expect("room");
        let caps = Caps { sends: 16, receives: 16, send_pieces: 4, receive_pieces: 4, inline: 256 };
        let init = |kind, srq| QpInit { kind, domain, send_cq: cq, receive_cq: cq, srq, caps, signal_all: true, cookie: 0 };
        let pairs = KINDS.iter().enumerate().map(|(i, kind)| machine.create_qp(&init(*kind, (i == 3).then_some(srq))).expect("room")).collect();
        let mut stage = Self { engine, machine, domain, cq, srq, pairs, keys, reached, local, id: 0, tries: 0, begun: 0, open: BTreeSet::new(), now: 1 };
        (0..KINDS.len()).for_each(|which| stage.begin(which));
        stage.connect();
        assert_ne!(stage.id, 0, "not connected");
        stage
    }

    /// A queue pair from the beginning to where it sends.
    fn begin(&mut self, which: usize) {
        let a = QpAttributes {
            access: Access::all(),
            peer: peer_pair(which),
            qkey: QKEY,
            timeout: 14,
            retries: 1,
            rnr_retries: 3,
            rnr_timer: 1,
            reads_out: 2,
            reads_in: 2,
            mtu: 5,
            port: 1,
            drains: false,
            ..QpAttributes::default()
        };
        let base = Given::PKEY_INDEX | Given::PORT;
        let connected = Given::ADDRESS | Given::MTU | Given::PEER | Given::RECEIVE_NUMBER;
        let timing = Given::SEND_NUMBER | Given::TIMEOUT | Given::RETRIES | Given::RNR_RETRIES | Given::READS_OUT;
        let given = match KINDS[which] {
            QpKind::Rc | QpKind::XrcSend | QpKind::XrcReceive => [base | Given::ACCESS, connected | Given::READS_IN | Given::RNR_TIMER, timing],
            QpKind::Uc => [base | Given::ACCESS, connected, Given::SEND_NUMBER],
            QpKind::Ud => [base | Given::QKEY, Given::empty(), Given::SEND_NUMBER],
        };
        self.modify(which, QpState::Reset);
        for (state, given) in [QpState::Init, QpState::Rtr, QpState::Rts].into_iter().zip(given) {
            self.machine.modify_qp(&mut self.engine, self.pairs[which], state, &a, given).expect("a move there is");
        }
    }

    fn modify(&mut self, which: usize, to: QpState) {
        self.machine.modify_qp(&mut self.engine, self.pairs[which], to, &QpAttributes::default(), Given::empty()).expect("always");
        if to == QpState::Reset {
            // What it had posted is gone without a word.
            let pair = which as u64;
            self.open.retain(|id| id >> 32 != pair);
        }
    }

    fn turns(&mut self) {
        talk::turns(|| {
            let has_moved = self.machine.poll(&mut self.engine) | self.engine.progress();
            for c in self.machine.poll_cq(self.cq, 1000).expect("a queue") {
                assert!(self.open.remove(&c.wr_id), "completed twice, or never begun: {c:?}");
                assert!(matches!(c.opcode, WcOpcode::Receive | WcOpcode::ReceiveWrite) || self.pairs[(c.wr_id >> 32) as usize % 4] == c.qp, "{c:?}");
            }
            has_moved
        });
        while self.machine.event().is_some() {}
    }

    fn pass(&mut self, ns: u64) {
        self.now += ns;
        self.engine.set_now(Instant(self.now));
    }

    /// The peer connects, as a device would.
    fn connect(&mut self) {
        let to = Machine::addresses(gid(), self.pairs[0]).expect("an address").0;
        let from = Machine::addresses(gid(), peer_pair(0)).expect("an address").1;
        self.tries += 1;
        talk::connect(&mut self.engine, self.tries, VERSION, &from, &to);
        self.turns();
        self.id = talk::accepted(&self.engine);
    }

    /// A packet of the peer's.
    fn peer_says(&mut self, input: &mut Input<'_>) {
        let (kind, form, which) = (1 + input.u8() % 12, input.u8(), usize::from(input.u8()) % 4);
        let flags = u64::from(input.u8());
        let to = if form & 1 == 0 { self.pairs[which] } else { input.number() as u32 & 0xff_ffff };
        let from = if form & 2 == 0 { peer_pair(which) } else { input.number() as u32 & 0xff_ffff };
        let (number, answered) = (if kind == 6 && form & 4 == 0 { u64::from(QKEY) } else { u64::from(input.u8() % 24) }, u64::from(input.u8() % 24));
        let echo = u64::from(if form & 8 == 0 { 1 } else { input.u8() % 4 });
        let taken = if form & 16 == 0 { 0 } else { input.number() & 0xffff };
        let length = if form & 32 == 0 { usize::from(input.u8()) } else { usize::from(input.u16()) % 18_000 };
        let key = u64::from(if input.u8() < 200 { self.keys[usize::from(input.u8()) % 3] } else { input.u32() });
        let said = if form & 64 == 0 { length as u64 } else { input.number() & 0xffff_ffff };
        let mut words = vec![u64::from(kind) | flags << 8 | taken << 16 | u64::from(to) << 32 | 1 << 56];
        if kind != 1 {
            words.extend([u64::from(from) | echo << 24 | number << 32, answered | input.number() << 32]);
        }
        match kind {
            3 | 4 => words.extend([input.number(), key | said << 32]),
            5 => words.extend([input.number() & !7, key | (flags & 1) << 32, input.number(), input.number()]),
            8 => words.push((input.number() % 7) | (input.number() << 32)),
            10 => words.push(input.number()),
            11 => words.extend([input.number(), input.number(), input.number(), input.number()]),
            _ => {}
        }
        if flags & 1 != 0 {
            let offset = if form & 128 == 0 { 0 } else { input.number() & 0xffff_ffff };
            words.push(offset | (if input.u8() < 128 { length as u64 } else { input.number() & 0xffff_ffff }) << 32);
        }
        let payload: Vec<u8> = (0..if matches!(kind, 2 | 3 | 6 | 9) { length } else { 0 }).map(|i| i as u8).collect();
        talk::say(&mut self.engine, self.id, &words, &payload);
    }

    /// Some of the program's memory, in pieces; perhaps by a key that is none.
    fn memory(&mut self, input: &mut Input<'_>, most: usize) -> Vec<Sge> {
        let n = usize::from(input.u16()) % (most + 1);
        let start = self.local.as_ptr().expose_provenance() as u64 + EDGE as u64 + u64::from(input.u8()) * 16;
        let key = if input.u8() < 250 { self.keys[2] } else { input.u32() };
        let cut = (usize::from(input.u8()) * n / 256) as u32;
        let piece = |at: u32, length: u32| Sge { address: start + u64::from(at), length, key };
        if input.u8() & 1 == 0 { vec![piece(0, n as u32)] } else { vec![piece(0, cut), piece(cut, n as u32 - cut)] }
    }

    fn request(&mut self, which: usize) -> u64 {
        self.begun += 1;
        (which as u64) << 32 | self.begun
    }

    fn receive(&mut self, input: &mut Input<'_>) {
        let which = usize::from(input.u8()) % 4;
        let (pieces, id) = (self.memory(input, 40_000), self.request(if which == 3 { 8 } else { which }));
        self.open.insert(id);
        let posted = if which == 3 { self.machine.post_srq(self.srq, id, &pieces) } else { self.machine.post_receive(self.pairs[which], id, &pieces) };
        if posted.is_err() {
            self.open.remove(&id);
        }
    }

    fn send(&mut self, input: &mut Input<'_>) {
        let (which, form) = (usize::from(input.u8()) % 4, input.u8());
        let opcode = Opcode::from_number(u32::from(input.u8()) % 7).expect("one of them");
        let is_atomic = matches!(opcode, Opcode::FetchAdd | Opcode::CompareSwap);
        let mut pieces = self.memory(input, if form & 1 == 0 { 64 } else { 40_000 });
        if is_atomic && form & 2 == 0 {
            pieces.truncate(1);
            pieces[0].length = 8;
        }
        let id = self.request(which);
        let request = SendRequest {
            wr_id: id,
            opcode,
            flags: SendFlags::from_bits_truncate(u32::from(form >> 4)),
            pieces: &pieces,
            immediate: 5,
            address: input.number(),
            key: input.number() as u32,
            operands: [1, 2],
            extra: bellwire_verbs::Extra::None,
            to: (KINDS[which] == QpKind::Ud).then_some(Destination { gid: None, qp: peer_pair(which), qkey: QKEY }),
        };
        // It may complete within the call.
        self.open.insert(id);
        // SAFETY: R2: the pieces lie within `local`, canaries included.
        if unsafe { self.machine.post_send(&mut self.engine, self.pairs[which], &request) }.is_err() {
            self.open.remove(&id);
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let what = input.u8();
        match what % 16 {
            0..=7 => self.peer_says(input),
            8..=10 => self.receive(input),
            11 | 12 => self.send(input),
            13 => wire(&mut self.engine).room = if what & 128 == 0 { u32::from(input.u8()) } else { u32::MAX },
            14 => {
                let ns = input.number().min(1 << 32);
                self.pass(ns);
            }
            _ => self.odd(input),
        }
    }

    /// What happens seldom.
    fn odd(&mut self, input: &mut Input<'_>) {
        let which = usize::from(input.u8()) % 4;
        match input.u8() % 4 {
            0 => self.connect(),
            1 => self.modify(which, QpState::Err),
            2 => self.begin(which),
            // Memory that is reached ends, and is another key's from then on.
            _ => {
                let key = self.keys[0];
                self.machine.deregister(&mut self.engine, key).expect("registered");
                let address = self.reached.as_ptr().expose_provenance() as u64 + EDGE as u64;
                let region = Region { domain: self.domain, address, length: REACH as u64 / 2, iova: 64, access: Access::all(), adopted: None };
                // SAFETY: R1: the stage owns the memory and outlives all that the machine is asked
                // to do.
                self.keys[0] = unsafe { self.machine.register(&mut self.engine, &region) }.expect("memory");
            }
        }
    }

    fn check(&self) {
        let untouched = |of: &[u8]| of.iter().all(|b| *b == CANARY);
        assert!(untouched(&self.reached[..EDGE]) && untouched(&self.reached[EDGE + REACH..]), "memory was written that peers may not write");
        assert!(untouched(&self.local[..EDGE]) && untouched(&self.local[EDGE + LOCAL..]), "memory was written that is nobody's");
    }

    /// The peer is gone; then the queue pairs fail.
    fn finish(mut self) {
        wire(&mut self.engine).events.push_back(WireEvent::LinkDown { link: link(), reason: LinkFailure::PeerDied });
        for _ in 0..4 {
            self.pass(Duration::from_micros(60_000_000).0);
            (0..50).for_each(|_| self.turns());
        }
        for which in 0..KINDS.len() {
            self.modify(which, QpState::Err);
        }
        self.turns();
        // Receives of the shared queue belong to nobody.
        self.open.retain(|id| id >> 32 != 8);
        assert!(self.open.is_empty(), "never completed: {:?}", self.open);
        for which in 0..KINDS.len() {
            assert_eq!(self.machine.posted(self.pairs[which]), Some((0, 0)));
        }
        assert_eq!(self.machine.connections(), 0, "connections");
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
