// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random programs of two devices, on a network in memory and in virtual time, against a small model of what queue pairs promise: requests end once and in order, receives are used up in order, each byte is what
//! was sent, reads and atomics find what is before them; after a failure the first request says why, and all others are flushed. Nothing may wait for ever.
//!
//! `BELLWIRE_VERBS_SEEDS=N` sets how many programs there are (300), `BELLWIRE_VERBS_FIRST=N` the first seed.

use bellwire_verbs::machine::{Machine, set_now};
use bellwire_verbs::{
    Access, Caps, Completion, Destination, Given, Opcode, QpAttributes, QpInit, QpKind, QpState, Region, SendFlags, SendRequest, Sge, WcFlags, WcOpcode,
    WcStatus, gid_of,
};
use bellwire_via::time::Duration;
use bellwire_via::wire::sim::{SimConfig, World};
use std::collections::VecDeque;

/// Requests that a queue holds, and places for their bytes.
const DEPTH: usize = 8;
/// Longest message: more than a packet.
const SLOT: usize = 20_000;
/// A receive too short for most.
const SHORT: usize = 3;
/// Memory that the peer reaches, for one queue pair.
const TARGET: usize = 18_000;
/// Sources, receives, target of one queue pair.
const SHARE: usize = 2 * DEPTH * SLOT + TARGET;
const KINDS: [QpKind; 4] = [QpKind::Rc, QpKind::Rc, QpKind::Uc, QpKind::Ud];
const ROUTE: usize = 40;
const QKEY: u32 = 5;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 33) as usize % end
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// A send as the model has it.
#[derive(Clone)]
struct Sent {
    opcode: Opcode,
    length: usize,
    signalled: bool,
    immediate: u32,
    /// What it sends.
    bytes: Vec<u8>,
    slot: usize,
    /// What it is to find.
    finds: Vec<u8>,
    /// How it is to fail.
    fails: Option<WcStatus>,
    is_done: bool,
}

impl Sent {
    fn takes_receive(&self) -> bool {
        matches!(self.opcode, Opcode::Send | Opcode::SendImm | Opcode::WriteImm)
    }
}

/// One end of a pair.
struct End {
    number: u32,
    kind: QpKind,
    sends: Vec<Sent>,
    /// The first that has not ended, as far as the model knows.
    first: usize,
    receives: VecDeque<(u64, usize, usize)>,
    receives_posted: u64,
    /// Messages of the peer that came so far, or may have been lost.
    messages: usize,
    /// The peer's target, as this end's requests leave it.
    target: Vec<u8>,
    has_failed: bool,
    receives_failed: bool,
}

struct Side {
    machine: Machine,
    memory: Vec<u8>,
    key: u32,
    cq: u32,
    ends: Vec<End>,
}

struct Trial {
    world: World,
    random: Random,
    sides: [Side; 2],
    /// The pair that something is made to fail on, and whether it has been.
    victim: Option<usize>,
    seed: u64,
}

fn gid(nic: usize) -> [u8; 16] {
    gid_of(&[10, 0, 0, nic as u8 + 1]).unwrap()
}

fn base(side: &Side, pair: usize) -> usize {
    side.memory.as_ptr().expose_provenance() + pair * SHARE
}

impl Side {
    fn new(world: &mut World, nic: usize) -> Self {
        let engine = world.engine(nic);
        let mut machine = Machine::new(engine, gid(nic), 3).unwrap();
        let memory = vec![0u8; KINDS.len() * SHARE];
        let (domain, cq) = (machine.create_domain().unwrap(), machine.create_cq(1000).unwrap());
        let address = memory.as_ptr().expose_provenance() as u64;
        let region = Region { domain, address, length: memory.len() as u64, iova: address, access: Access::all(), adopted: None };
        let key = machine.register(engine, &region).unwrap();
        let caps = Caps { sends: DEPTH as u32, receives: DEPTH as u32, send_pieces: 3, receive_pieces: 3, inline: 256 };
        let end = |kind| {
            let init = QpInit { kind, domain, send_cq: cq, receive_cq: cq, srq: None, caps, signal_all: false, cookie: 0 };
            let number = machine.create_qp(&init).unwrap();
            End {
                number,
                kind,
                sends: Vec::new(),
                first: 0,
                receives: VecDeque::new(),
                receives_posted: 0,
                messages: 0,
                target: vec![0; TARGET],
                has_failed: false,
                receives_failed: false,
            }
        };
        let ends = KINDS.into_iter().map(end).collect();
        Self { machine, memory, key, cq, ends }
    }
}

impl Trial {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let queue_frames_max = [8, 32, 128][random.below(3)];
        let mut world = World::with_nics(SimConfig { seed, queue_frames_max, jitter: Duration(random.below(5000) as u64), ..SimConfig::default() }, 2);
        set_now(world.now().0);
        let sides = [0, 1].map(|nic| Side::new(&mut world, nic));
        let victim = random.one_in(2).then(|| random.below(2));
        let mut trial = Self { world, random, sides, victim, seed };
        for pair in 0..KINDS.len() {
            trial.connect(pair, 0);
            trial.connect(pair, 1);
        }
        trial
    }

    fn connect(&mut self, pair: usize, me: usize) {
        let peer = self.sides[1 - me].ends[pair].number;
        let attributes = QpAttributes {
            access: Access::all(),
            gid: Some(gid(1 - me)),
            peer,
            qkey: QKEY,
            send_number: 0xff_fffe,
            receive_number: 0xff_fffe,
            // 67 ms, eight times; a victim is told of missing receives twice only.
            timeout: 14,
            retries: 7,
            rnr_retries: if self.victim == Some(pair) { 2 } else { 7 },
            rnr_timer: 1,
            reads_out: 1 + self.random.below(4) as u8,
            reads_in: 4,
            mtu: 5,
            port: 1,
        };
        let base = Given::PKEY_INDEX | Given::PORT;
        let connected = Given::ADDRESS | Given::MTU | Given::PEER | Given::RECEIVE_NUMBER;
        let (init, receive, send) = match KINDS[pair] {
            QpKind::Rc => (
                base | Given::ACCESS,
                connected | Given::READS_IN | Given::RNR_TIMER,
                Given::SEND_NUMBER | Given::TIMEOUT | Given::RETRIES | Given::RNR_RETRIES | Given::READS_OUT,
            ),
            QpKind::Uc => (base | Given::ACCESS, connected, Given::SEND_NUMBER),
            QpKind::Ud => (base | Given::QKEY, Given::empty(), Given::SEND_NUMBER),
        };
        let (machine, engine) = (&mut self.sides[me].machine, self.world.engine(me));
        let number = self.sides[me].ends[pair].number;
        for (state, given) in [(QpState::Init, init), (QpState::Rtr, receive), (QpState::Rts, send)] {
            machine.modify_qp(engine, number, state, &attributes, given).unwrap();
        }
    }

    /// Cuts a range into one to three pieces.
    fn pieces(&mut self, address: usize, length: usize, key: u32) -> Vec<Sge> {
        let mut cuts = vec![0, length];
        for _ in 0..self.random.below(3) {
            cuts.push(self.random.below(length + 1));
        }
        cuts.sort_unstable();
        cuts.windows(2).map(|w| Sge { address: (address + w[0]) as u64, length: (w[1] - w[0]) as u32, key }).collect()
    }

    fn post_receive(&mut self, me: usize, pair: usize, length: usize) {
        let side = &self.sides[me];
        if side.ends[pair].receives.len() >= DEPTH {
            return;
        }
        let id = side.ends[pair].receives_posted;
        let address = base(side, pair) + (DEPTH + id as usize % DEPTH) * SLOT;
        let pieces = self.pieces(address, length, side.key);
        let side = &mut self.sides[me];
        let end = &mut side.ends[pair];
        side.machine.post_receive(end.number, id, &pieces).unwrap();
        end.receives.push_back((id, address, length));
        end.receives_posted += 1;
    }

    /// Posts a request; `fails`: one that fails so.
    fn post_send(&mut self, me: usize, pair: usize, fails: Option<WcStatus>) {
        let kind = KINDS[pair];
        let all = [Opcode::Send, Opcode::SendImm, Opcode::Write, Opcode::WriteImm, Opcode::Read, Opcode::FetchAdd, Opcode::CompareSwap];
        let opcode = match (kind, fails) {
            (_, Some(WcStatus::RemoteAccess)) => all[2 + self.random.below(4)],
            (_, Some(_)) => all[self.random.below(2)],
            (QpKind::Rc, None) => all[self.random.below(7)],
            (QpKind::Uc, None) => [Opcode::Send, Opcode::SendImm, Opcode::Write][self.random.below(3)],
            (QpKind::Ud, None) => all[self.random.below(2)],
        };
        let is_atomic = matches!(opcode, Opcode::FetchAdd | Opcode::CompareSwap);
        let to_memory = !matches!(opcode, Opcode::Send | Opcode::SendImm);
        let most = match kind {
            _ if to_memory => TARGET,
            QpKind::Ud => 4096,
            _ => SLOT,
        };
        let length = match self.random.below(6) {
            _ if is_atomic => 8,
            0 if fails.is_none() => 0,
            1 | 2 => 1 + self.random.below(64),
            _ => 1 + self.random.below(most),
        };
        let at = if is_atomic { 8 * self.random.below(TARGET / 8) } else { self.random.below(TARGET - length.min(TARGET) + 1) };
        let (place, there, key, key_there, number) = {
            let (side, peer) = (&self.sides[me], &self.sides[1 - me]);
            let end = &side.ends[pair];
            if end.sends.len() - end.first >= DEPTH {
                return;
            }
            (end.sends.len() % DEPTH, base(peer, pair) + 2 * DEPTH * SLOT, side.key, peer.key, end.number)
        };
        let bytes: Vec<u8> = (0..length).map(|_| self.random.next() as u8).collect();
        let address = base(&self.sides[me], pair) + place * SLOT;
        let start = address - self.sides[me].memory.as_ptr().addr();
        self.sides[me].memory[start..start + length].copy_from_slice(&bytes);
        let flags = [SendFlags::SIGNALED, SendFlags::FENCE, SendFlags::SOLICITED, SendFlags::INLINE];
        let mut flags: SendFlags = flags.into_iter().filter(|_| self.random.one_in(2)).collect();
        if length > 256 || fails.is_some() {
            flags -= SendFlags::INLINE;
        }
        // A read may be done after what comes behind it, if that is not fenced: so the rules are.
        let changes = matches!(opcode, Opcode::Write | Opcode::WriteImm | Opcode::FetchAdd | Opcode::CompareSwap);
        let end = &self.sides[me].ends[pair];
        if changes && end.sends[end.first..].iter().any(|s| s.opcode == Opcode::Read) {
            flags |= SendFlags::FENCE;
        }
        let is_bad_locally = fails == Some(WcStatus::LocalProtection);
        let pieces = self.pieces(address, length, if is_bad_locally { key ^ 1 << 19 } else { key });
        let operands = [self.random.next() % 3, self.random.next() % 3];
        let request = SendRequest {
            wr_id: self.sides[me].ends[pair].sends.len() as u64,
            opcode,
            flags,
            pieces: &pieces,
            immediate: self.random.next() as u32,
            address: (there + at) as u64,
            key: if fails == Some(WcStatus::RemoteAccess) { key_there ^ 1 << 19 } else { key_there },
            operands,
            to: (kind == QpKind::Ud).then(|| Destination { gid: Some(gid(1 - me)), qp: self.sides[1 - me].ends[pair].number, qkey: QKEY }),
        };
        let (machine, engine) = (&mut self.sides[me].machine, self.world.engine(me));
        machine.post_send(engine, number, &request).unwrap_or_else(|e| panic!("seed {}: {e}", self.seed));
        let end = &mut self.sides[me].ends[pair];
        let mut finds = Vec::new();
        if fails.is_none() {
            let word = |t: &[u8]| u64::from_ne_bytes(t[at..at + 8].try_into().unwrap());
            match opcode {
                Opcode::Write | Opcode::WriteImm => end.target[at..at + length].copy_from_slice(&bytes),
                Opcode::Read => finds = end.target[at..at + length].to_vec(),
                Opcode::FetchAdd | Opcode::CompareSwap => {
                    let old = word(&end.target);
                    finds = old.to_ne_bytes().to_vec();
                    let new = match opcode {
                        Opcode::FetchAdd => old.wrapping_add(operands[0]),
                        _ if old == operands[1] => operands[0],
                        _ => old,
                    };
                    end.target[at..at + 8].copy_from_slice(&new.to_ne_bytes());
                }
                _ => {}
            }
        }
        let immediate = request.immediate;
        end.sends.push(Sent { opcode, length, signalled: flags.contains(SendFlags::SIGNALED), immediate, bytes, slot: start, finds, fails, is_done: false });
    }

    fn completed(&mut self, me: usize, c: &Completion) {
        let seed = self.seed;
        let pair = self.sides[me].ends.iter().position(|e| e.number == c.qp).unwrap_or_else(|| panic!("seed {seed}: {c:?}"));
        match c.opcode {
            WcOpcode::Receive | WcOpcode::ReceiveWrite => self.received(me, pair, c),
            _ => self.sent(me, pair, c),
        }
    }

    fn sent(&mut self, me: usize, pair: usize, c: &Completion) {
        let (seed, side) = (self.seed, &mut self.sides[me]);
        let end = &mut side.ends[pair];
        let index = c.wr_id as usize;
        assert!(index >= end.first && index < end.sends.len(), "seed {seed}: {c:?} again, or never posted");
        for before in end.first..index {
            assert!(!end.sends[before].signalled && !end.has_failed, "seed {seed}: {before} was left out before {c:?}");
            assert_eq!(end.sends[before].fails, None, "seed {seed}: pair {pair}: {before} went well");
        }
        end.first = index + 1;
        let s = &mut end.sends[index];
        s.is_done = true;
        match c.status {
            WcStatus::Success => {
                assert!(!end.has_failed && s.signalled && s.fails.is_none(), "seed {seed}: pair {pair}: {c:?}");
                if !s.finds.is_empty() {
                    assert!(side.memory[s.slot..s.slot + s.finds.len()] == s.finds, "seed {seed}: {c:?} found something else");
                }
            }
            WcStatus::Flushed => assert!(end.has_failed || self.victim == Some(pair), "seed {seed}: {c:?}"),
            status => {
                let by_peer = self.victim == Some(pair)
                    && match status {
                        WcStatus::RetryExceeded => true,
                        WcStatus::RnrExceeded => s.takes_receive(),
                        // The receive was too short.
                        WcStatus::RemoteInvalid => s.takes_receive() && s.length > SHORT,
                        _ => false,
                    };
                assert!(!end.has_failed && (s.fails == Some(status) || by_peer), "seed {seed}: pair {pair}: {c:?}, not {:?}", s.fails);
            }
        }
        end.has_failed |= c.status != WcStatus::Success;
    }

    fn received(&mut self, me: usize, pair: usize, c: &Completion) {
        let (seed, kind) = (self.seed, KINDS[pair]);
        let end = &mut self.sides[me].ends[pair];
        let (id, address, length) = end.receives.pop_front().unwrap_or_else(|| panic!("seed {seed}: {c:?} without a receive"));
        assert_eq!(id, c.wr_id, "seed {seed}: receives in order");
        if c.status != WcStatus::Success {
            let is_known = matches!(c.status, WcStatus::Flushed | WcStatus::LocalLength);
            assert!(is_known && self.victim == Some(pair), "seed {seed}: pair {pair}: {c:?}");
            end.receives_failed = true;
            return;
        }
        assert!(!end.receives_failed, "seed {seed}: {c:?} after a failure");
        let start = address - self.sides[me].memory.as_ptr().addr();
        let peer = &self.sides[1 - me].ends[pair];
        let front = if kind == QpKind::Ud { ROUTE } else { 0 };
        let came = &self.sides[me].memory[start + front..start + length.min(SLOT)];
        let is_this = |s: &Sent| {
            let is_write = s.opcode == Opcode::WriteImm;
            let has_immediate = s.opcode != Opcode::Send;
            s.takes_receive()
                && c.byte_len as usize == s.length + front
                && (c.opcode == WcOpcode::ReceiveWrite) == is_write
                && c.flags.contains(WcFlags::WITH_IMM) == has_immediate
                && (!has_immediate || c.immediate == s.immediate)
                && (is_write || came.starts_with(&s.bytes))
        };
        let mut next = (self.sides[me].ends[pair].messages..peer.sends.len()).filter(|i| peer.sends[*i].takes_receive());
        let found = match kind {
            QpKind::Rc => next.next().filter(|i| is_this(&peer.sends[*i])),
            // Some may be lost.
            _ => next.find(|i| is_this(&peer.sends[*i])),
        };
        let found = found.unwrap_or_else(|| panic!("seed {seed}: pair {pair}: {c:?} is not the next message"));
        assert_eq!(c.flags.contains(WcFlags::GRH), kind == QpKind::Ud);
        assert_eq!(c.source, peer.number, "seed {seed}");
        self.sides[me].ends[pair].messages = found + 1;
    }

    /// Time goes on; everything that can happen does.
    fn run(&mut self, time: Duration) {
        let end = self.world.now() + time;
        while self.world.now() < end {
            set_now(self.world.now().0);
            for me in 0..2 {
                while self.sides[me].machine.poll(self.world.engine(me)) {}
                let cq = self.sides[me].cq;
                for c in self.sides[me].machine.poll_cq(cq, 1000).unwrap() {
                    self.completed(me, &c);
                }
            }
            let next = self.sides.iter().filter_map(|s| s.machine.next_time()).min().map_or(end, |at| end.min(bellwire_via::Instant(at)));
            self.world.step_at_most(next.max(bellwire_via::Instant(self.world.now().0 + 1)));
        }
        set_now(self.world.now().0);
    }

    fn step(&mut self) {
        let (me, pair) = (self.random.below(2), self.random.below(KINDS.len()));
        match self.random.below(10) {
            0..=3 => {
                let is_short = self.victim == Some(pair) && self.random.one_in(6);
                self.post_receive(me, pair, if is_short { SHORT } else { SLOT });
            }
            4..=8 if self.sides[me].ends[pair].has_failed || self.sides[me].ends[pair].receives_failed => {}
            4..=8 => {
                let fails =
                    (self.victim == Some(pair) && self.random.one_in(12)).then(|| [WcStatus::LocalProtection, WcStatus::RemoteAccess][self.random.below(2)]);
                self.post_send(me, pair, fails);
                // A short receive, a request of the peer's: how it ends then is not this end's doing.
            }
            _ => {
                let ns = self.random.below(30_000) as u64;
                self.run(Duration(ns));
            }
        }
    }

    fn finish(mut self) {
        // What still waits for receives finds them.
        for _ in 0..40 {
            for (me, pair) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                self.post_receive(me, pair, SLOT);
            }
            self.run(Duration::from_micros(100));
        }
        self.run(Duration::from_micros(2_000_000));
        for me in 0..2 {
            for pair in 0..KINDS.len() {
                let number = self.sides[me].ends[pair].number;
                let (sends, receives) = self.sides[me].machine.posted(number).unwrap();
                if self.sides[me].machine.state(number) == Ok(QpState::Err) {
                    let unsaid = self.sides[me].ends[pair].receives.len();
                    assert_eq!((receives, unsaid), (0, 0), "seed {}: pair {pair}: receives that are not flushed", self.seed);
                }
                assert_eq!(sends, 0, "seed {}: pair {pair}: requests that never end", self.seed);
                let (end, peer) = (&self.sides[me].ends[pair], &self.sides[1 - me].ends[pair]);
                let is_told = |s: &&Sent| s.signalled && !s.is_done;
                assert_eq!(end.sends.iter().filter(is_told).count(), 0, "seed {}: pair {pair}: without completions", self.seed);
                if end.kind != QpKind::Rc || self.victim == Some(pair) {
                    continue;
                }
                assert!(!end.has_failed);
                let left = end.sends.iter().skip(peer.messages).filter(|s| s.takes_receive()).count();
                assert_eq!(left, 0, "seed {}: pair {pair}: messages that never came", self.seed);
                let start = base(&self.sides[1 - me], pair) + 2 * DEPTH * SLOT - self.sides[1 - me].memory.as_ptr().addr();
                assert!(self.sides[1 - me].memory[start..start + TARGET] == end.target, "seed {}: pair {pair}: the target is another", self.seed);
            }
        }
    }
}

fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|v| v.parse().ok()).unwrap_or(usual)
}

#[test]
fn random_programs_are_as_the_model_says() {
    let (first, count) = (number("BELLWIRE_VERBS_FIRST", 1), number("BELLWIRE_VERBS_SEEDS", 300));
    let (mut sends, mut messages, mut failures) = (0, 0, 0);
    for seed in first..first + count {
        let mut trial = Trial::new(seed);
        for _ in 0..150 {
            trial.step();
        }
        for side in &trial.sides {
            sends += side.ends.iter().map(|e| e.sends.len()).sum::<usize>();
            messages += side.ends.iter().map(|e| e.messages).sum::<usize>();
            failures += side.ends.iter().filter(|e| e.has_failed).count();
        }
        trial.finish();
    }
    println!("{sends} requests, {messages} messages, {failures} ends that failed");
    assert!(count < 100 || (messages > 100 * count as usize / 10 && failures > 10), "the programs do too little");
}
