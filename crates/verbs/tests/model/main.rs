// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random programs of two devices, on a network in memory and in virtual time, against a small
//! model of what queue pairs promise: requests end once and in order, receives are used up in
//! order, each byte is what was sent, reads and atomics find what is before them; after a failure
//! the first request says why, and all others are flushed. Nothing may wait for ever. Pairs are
//! connected anew now and then, with the same numbers, while packets of before are on their way.
//!
//! `BELLWIRE_VERBS_SEEDS=N` sets how many programs there are (300), `BELLWIRE_VERBS_FIRST=N` the
//! first seed, `BELLWIRE_VERBS_STEPS=N` how long each is (150 steps; Miri runs fewer).

mod checking;
mod directed;
mod draining;
mod posting;
mod side;

use bellwire_verbs::{Access, AsyncKind, Given, QpAttributes, QpKind, QpState, WcStatus};
use bellwire_via::time::Duration;
use bellwire_via::wire::sim::SimConfig;
use bellwire_via::world::World;
use side::{DEPTH, KINDS, QKEY, Random, SHORT, SLOT, Sent, Side, TARGET, base, gid};

struct Trial {
    world: World,
    random: Random,
    sides: [Side; 2],
    /// The pair that something is made to fail on, and whether it has been.
    victim: Option<usize>,
    /// Mostly short sends of one piece.
    is_brief: bool,
    seed: u64,
    /// How often a pair was connected anew.
    reconnected: u64,
    /// How often an end was to drain.
    drained: u64,
}

impl Trial {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let queue_frames_max = [8, 32, 128][random.below(3)];
        let jitter = Duration(random.below(5000) as u64);
        Self::on(SimConfig { seed, queue_frames_max, jitter, ..SimConfig::default() }, random, seed)
    }

    fn on(config: SimConfig, mut random: Random, seed: u64) -> Self {
        let mut world = World::with_nics(config, 2);
        let victim = random.one_in(2).then(|| random.below(2));
        // Of a pair that fails or begins anew, a shared queue keeps its receives: not that one.
        let shared = (victim != Some(1) && random.one_in(2)).then_some(1);
        let mut sides = [0, 1].map(|nic| Side::new(&mut world, nic, shared));
        for side in &mut sides {
            // The same is to come of all of it, whichever way short messages go.
            if random.one_in(3) {
                side.machine.leave_short_ways();
            }
        }
        let is_brief = random.one_in(3);
        let mut trial = Self { world, random, sides, victim, is_brief, seed, reconnected: 0, drained: 0 };
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
            drains: false,
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
            QpKind::XrcSend | QpKind::XrcReceive => unreachable!("KINDS has none"),
        };
        let (machine, engine) = (&mut self.sides[me].machine, self.world.engine(me));
        let number = self.sides[me].ends[pair].number;
        for (state, given) in [(QpState::Reset, Given::empty()), (QpState::Init, init), (QpState::Rtr, receive), (QpState::Rts, send)] {
            machine.modify_qp(engine, number, state, &attributes, given).unwrap();
        }
        self.sides[me].ends[pair].is_late = false;
    }

    /// Connects a pair anew. Packets of before may still come; but each end has taken something of
    /// the other by then, if that has sent anything: whom nobody knows they cannot be told from.
    fn reconnect(&mut self, pair: usize) {
        let is_known = (0..2).all(|me| {
            let (end, peer) = (&self.sides[me].ends[pair], self.sides[1 - me].ends[pair].number);
            !end.is_late && (end.sends.is_empty() || self.sides[1 - me].machine.knows_peer(peer))
        });
        if KINDS[pair] != QpKind::Rc || !is_known || self.sides[0].ends[pair].srq.is_some() {
            return;
        }
        (0..2).for_each(|me| self.hear(me));
        // One end first: what it sends meanwhile finds nobody.
        let late = self.random.below(2);
        self.reset(pair, late);
        self.connect(pair, 1 - late);
        for me in 0..2 {
            let peer = &self.sides[1 - me];
            let start = base(peer, pair) + 2 * DEPTH * SLOT - peer.memory.as_ptr().addr();
            let target = peer.memory[start..start + TARGET].to_vec();
            self.sides[me].ends[pair].begin_anew(target);
        }
        self.reconnected += 1;
        self.sides[late].ends[pair].is_late = true;
        if self.random.one_in(2) {
            self.connect(pair, late);
        }
    }

    fn reset(&mut self, pair: usize, me: usize) {
        let number = self.sides[me].ends[pair].number;
        let (machine, engine) = (&mut self.sides[me].machine, self.world.engine(me));
        machine.modify_qp(engine, number, QpState::Reset, &QpAttributes::default(), Given::empty()).unwrap();
    }

    /// Time goes on; everything that can happen does.
    fn run(&mut self, time: Duration) {
        let end = self.world.now() + time;
        while self.world.now() < end {
            self.turn(end);
            for (me, pair) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                if self.sides[me].ends[pair].is_late && self.random.one_in(8) {
                    self.connect(pair, me);
                }
            }
        }
    }

    /// Does everything that can happen now; time goes on to the next event.
    fn turn(&mut self, end: bellwire_via::Instant) {
        for me in 0..2 {
            // A program that looks no further: what it posts next takes answers along.
            let mut looks = if self.random.one_in(2) { 1 + self.random.below(3) } else { usize::MAX };
            while looks != 0 && self.sides[me].machine.poll(self.world.engine(me)) {
                looks -= 1;
            }
            self.hear(me);
            let cq = self.sides[me].cq;
            for c in self.sides[me].machine.poll_cq(cq, 1000).unwrap() {
                self.completed(me, &c);
            }
            self.sides[me].ends.iter_mut().for_each(|end| end.was_drained = end.is_drained);
        }
        let next = self.sides.iter().filter_map(|s| s.machine.next_time()).min().map_or(end, |at| end.min(bellwire_via::Instant(at)));
        self.world.step_at_most(next.max(bellwire_via::Instant(self.world.now().0 + 1)));
    }

    /// Asynchronous events.
    fn hear(&mut self, me: usize) {
        while let Some(event) = self.sides[me].machine.event() {
            if matches!(event.kind, AsyncKind::QpAccessError | AsyncKind::QpRequestError) {
                self.sides[me].ends[event.cookie as usize].has_denied = true;
            }
            if event.kind == AsyncKind::SrqLimit {
                let end = self.sides[me].ends.iter_mut().find(|e| e.srq.is_some()).expect("an end with a shared queue");
                assert!(!end.has_run_low, "seed {}: told twice that receives run low", self.seed);
                end.has_run_low = true;
                continue;
            }
            if event.kind == AsyncKind::Drained {
                self.has_drained(me, event.cookie as usize);
            }
        }
    }

    fn step(&mut self) {
        let (me, pair) = (self.random.below(2), self.random.below(KINDS.len()));
        if self.random.one_in(60) {
            return self.reconnect(pair);
        }
        if self.random.one_in(if self.sides[me].ends[pair].held.is_some() { 8 } else { 40 }) {
            return self.drain(me, pair);
        }
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
                // A short receive, a request of the peer's: how it ends then is not this end's
                // doing.
            }
            _ => {
                let ns = self.random.below(30_000) as u64;
                self.run(Duration(ns));
            }
        }
    }

    /// Messages that still wait for receives find them.
    fn give_receives(&mut self) {
        for _ in 0..40 {
            for (me, pair) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                self.post_receive(me, pair, SLOT);
            }
            self.run(Duration::from_micros(100));
        }
    }

    fn finish(mut self) {
        for (me, pair) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            if self.sides[me].ends[pair].is_late {
                self.connect(pair, me);
            }
        }
        self.finish_draining();
        self.give_receives();
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
    let steps = number("BELLWIRE_VERBS_STEPS", 150);
    let (mut sends, mut messages, mut failures, mut reconnected, mut drained) = (0, 0, 0, 0, 0);
    for seed in first..first + count {
        let mut trial = Trial::new(seed);
        for _ in 0..steps {
            trial.step();
        }
        for side in &trial.sides {
            sends += side.ends.iter().map(|e| e.sends.len()).sum::<usize>();
            messages += side.ends.iter().map(|e| e.messages).sum::<usize>();
            failures += side.ends.iter().filter(|e| e.has_failed).count();
        }
        reconnected += trial.reconnected;
        drained += trial.drained;
        trial.finish();
    }
    println!("{sends} requests, {messages} messages, {failures} ends that failed, {reconnected} pairs connected anew, {drained} ends drained");
    assert!(count < 100 || (messages > 100 * count as usize / 10 && failures > 10 && reconnected > 10 && drained > 10), "the programs do too little");
}
