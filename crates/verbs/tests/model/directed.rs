// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases that chance finds too seldom: each at all moments at which it can happen.

use super::Trial;
use super::posting::Wish;
use super::side::{LOW, Random, SLOT, TARGET};
use bellwire_verbs::{Given, Opcode, QpAttributes, QpState, SendFlags, WcStatus};
use bellwire_via::time::Duration;
use bellwire_via::wire::sim::SimConfig;

fn wish(opcode: Opcode, length: usize) -> Wish {
    Wish { opcode, length, flags: SendFlags::SIGNALED, fails: None }
}

impl Trial {
    /// One on a slow network, which takes few frames at a time, on which nothing is made to fail,
    /// but on the pair that is given, with a connection between the two.
    fn connected(seed: u64, victim: Option<usize>) -> Self {
        let config = SimConfig { seed, queue_frames_max: 8, bits_per_second: 2_000_000_000, ..SimConfig::default() };
        let mut trial = Self::on(config, Random(seed | 1 << 40), seed);
        trial.victim = victim;
        for me in 0..2 {
            // Patient, but for the victim.
            trial.connect(0, me);
            trial.connect(1, me);
        }
        for me in 0..2 {
            trial.post(me, 1, &wish(Opcode::Write, 8));
        }
        trial.run(Duration::from_micros(1000));
        trial
    }

    /// For some milliseconds one side alone looks, then both, once.
    fn other_looks(&mut self, me: usize) {
        let end = self.world.now() + Duration::from_micros(3000);
        while self.world.now() < end {
            while self.sides[me].machine.poll(self.world.engine(me)) {}
            self.world.step_at_most(end);
        }
        self.turns(1);
    }

    fn turns(&mut self, n: usize) {
        for _ in 0..n {
            self.turn(self.world.now() + Duration::from_micros(1000));
        }
    }
}

/// The receive that leaves too few is told of, whichever way its message came.
#[test]
fn a_shared_queue_tells_that_it_runs_low() {
    let mut tried = 0;
    for seed in 1..80 {
        let mut trial = Trial::connected(seed, None);
        if trial.sides[1].ends[1].srq.is_none() {
            continue;
        }
        (0..=LOW).for_each(|_| trial.post_receive(1, 1, SLOT));
        for is_low in [false, true] {
            trial.post(0, 1, &wish(Opcode::Send, 8));
            trial.run(Duration::from_micros(1000));
            assert_eq!(trial.sides[1].ends[1].has_run_low, is_low, "seed {seed}");
        }
        tried += 1;
        trial.finish();
    }
    assert!(tried > 10, "{tried} trials");
}

/// The beginning of a long message finds nobody; its end finds the queue pair connected. It is
/// nothing without its beginning.
#[test]
fn an_end_without_a_beginning() {
    for (turns, opcode) in (0..80).flat_map(|n| [Opcode::Write, Opcode::Send].map(|o| (n, o))) {
        let mut trial = Trial::connected(1, None);
        trial.reset(0, 1);
        trial.sides[1].ends[0].is_late = true;
        trial.post(0, 0, &wish(opcode, TARGET));
        trial.turns(turns);
        if trial.sides[1].ends[0].is_late {
            trial.connect(0, 1);
        }
        trial.post_receive(1, 0, SLOT);
        trial.finish();
    }
}

/// A request that is refused comes behind a read, whose bytes are still on their way.
#[test]
fn a_refusal_behind_a_read() {
    for seed in 1..40 {
        let mut trial = Trial::connected(seed, Some(0));
        for _ in 0..3 {
            trial.post(0, 0, &wish(Opcode::Read, TARGET));
        }
        // Its own writes keep the owner's way full.
        trial.post(1, 1, &wish(Opcode::Write, TARGET));
        trial.post(1, 1, &wish(Opcode::Write, TARGET));
        trial.post(0, 0, &Wish { fails: Some(WcStatus::RemoteAccess), ..wish(Opcode::Write, 8) });
        trial.run(Duration::from_micros(5000));
        assert!(trial.sides[0].ends[0].has_failed && trial.sides[0].ends[0].first == 4, "seed {seed}");
        trial.finish();
    }
}

/// A queue pair begins anew, with the same numbers, while its first request of before is on its way
/// to a peer that does not know it yet. However that one ends, the new one is answered.
#[test]
fn first_requests_of_two_lives() {
    for turns in 0..40 {
        let mut trial = Trial::connected(2, Some(0));
        trial.post(0, 0, &wish(Opcode::Write, TARGET));
        trial.turns(turns);
        for me in 0..2 {
            trial.connect(0, me);
            trial.sides[me].ends[0].begin_anew(vec![0; TARGET]);
        }
        trial.post(0, 0, &wish(Opcode::Write, 100));
        trial.post(0, 0, &wish(Opcode::Write, TARGET));
        trial.run(Duration::from_micros(20_000));
        let end = &trial.sides[0].ends[0];
        assert_eq!((end.first, trial.sides[0].machine.state(end.number)), (2, Ok(QpState::Rts)), "after {turns} turns");
    }
}

/// A program that looks seldom sends again before it has seen all refusals of the time before. They
/// say nothing of requests before the refused one: none has been done.
#[test]
fn refusals_of_the_time_before() {
    for turns in 0..40 {
        let mut trial = Trial::connected(4, Some(0));
        let number = trial.sides[1].ends[0].number;
        let (machine, engine) = (&mut trial.sides[1].machine, trial.world.engine(1));
        machine.modify_qp(engine, number, QpState::Err, &QpAttributes::default(), Given::empty()).unwrap();
        for _ in 0..6 {
            trial.post(0, 0, &wish(Opcode::Write, 8));
        }
        trial.turns(turns);
        while !trial.sides[0].ends[0].has_failed {
            trial.other_looks(1);
            let end = &trial.sides[0].ends[0];
            assert!(end.has_failed || end.first == 0, "after {turns} turns one has ended well");
        }
        trial.run(Duration::from_micros(1000));
        assert_eq!(trial.sides[0].ends[0].first, 6, "after {turns} turns");
    }
}

/// The same, and then the peer is there: requests of the last try are done, refusals of the one
/// before are still to be seen.
#[test]
fn refusals_of_the_time_before_its_peer_is_there() {
    for (turns, rounds) in (0..12).flat_map(|turns| (0..4).map(move |rounds| (turns, rounds))) {
        let mut trial = Trial::connected(5, None);
        trial.reset(0, 1);
        trial.sides[1].ends[0].is_late = true;
        for _ in 0..6 {
            trial.post(0, 0, &wish(Opcode::Write, 8));
        }
        trial.turns(turns);
        for _ in 0..rounds {
            trial.other_looks(1);
        }
        trial.connect(0, 1);
        for _ in 0..20 {
            trial.other_looks(1);
        }
        trial.finish();
    }
}

/// A short message answers a write: the write ends.
#[test]
fn a_short_message_answers_a_write() {
    for (seed, looks) in (6..26).flat_map(|seed| (0..4).map(move |looks| (seed, looks))) {
        let mut trial = Trial::connected(seed, None);
        // Mostly of one piece.
        trial.is_brief = true;
        for me in 0..2 {
            trial.post_receive(1 - me, 0, SLOT);
            trial.post(me, 0, &wish(Opcode::Send, 8));
            trial.run(Duration::from_micros(1000));
        }
        trial.post_receive(0, 0, SLOT);
        trial.post(0, 0, &wish(Opcode::Write, 8));
        let end = trial.world.now() + Duration::from_micros(1000);
        while trial.world.now() < end {
            trial.world.step_at_most(end);
        }
        for _ in 0..looks {
            trial.sides[1].machine.poll(trial.world.engine(1));
        }
        trial.post(1, 0, &wish(Opcode::Send, 8));
        trial.finish();
    }
}
