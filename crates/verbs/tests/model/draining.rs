// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue pairs that are to drain (SQD): requests that had begun go on, and an event says when they
//! are done; others wait until the queue pair sends again.

use super::Trial;
use super::side::KINDS;
use bellwire_verbs::{Given, QpAttributes, QpState};
use bellwire_via::time::Duration;

impl Trial {
    /// An end drains from now on; one that does sends again.
    pub fn drain(&mut self, me: usize, pair: usize) {
        // Events that were told before are of before.
        self.hear(me);
        if self.sides[me].ends[pair].held.is_some() {
            return self.resume(me, pair);
        }
        let number = self.sides[me].ends[pair].number;
        if self.sides[me].machine.state(number) != Ok(QpState::Rts) || self.sides[me].ends[pair].is_late {
            return;
        }
        let attributes = QpAttributes { drains: true, ..QpAttributes::default() };
        let (machine, engine) = (&mut self.sides[me].machine, self.world.engine(me));
        machine.modify_qp(engine, number, QpState::Sqd, &attributes, Given::DRAIN_NOTIFY).unwrap();
        let end = &mut self.sides[me].ends[pair];
        (end.held, end.is_drained, end.was_drained) = (Some(end.sends.len()), false, false);
        self.drained += 1;
    }

    /// An end sends again, unless it has failed meanwhile.
    fn resume(&mut self, me: usize, pair: usize) {
        let number = self.sides[me].ends[pair].number;
        self.sides[me].ends[pair].held = None;
        if self.sides[me].machine.state(number) == Ok(QpState::Sqd) {
            let (machine, engine) = (&mut self.sides[me].machine, self.world.engine(me));
            machine.modify_qp(engine, number, QpState::Rts, &QpAttributes::default(), Given::empty()).unwrap();
        }
    }

    /// The event.
    pub fn has_drained(&mut self, me: usize, pair: usize) {
        let (seed, end) = (self.seed, &mut self.sides[me].ends[pair]);
        assert!(end.held.is_some() && !core::mem::replace(&mut end.is_drained, true), "seed {seed}: pair {pair}: drained twice, or unasked");
    }

    /// Ends that drain have drained when there is nothing more to wait for; then they send again.
    pub fn finish_draining(&mut self) {
        self.give_receives();
        self.run(Duration::from_micros(2_000_000));
        for me in 0..2 {
            for pair in 0..KINDS.len() {
                let end = &self.sides[me].ends[pair];
                let (number, is_held, is_drained) = (end.number, end.held.is_some(), end.is_drained);
                if is_held && self.sides[me].machine.state(number) == Ok(QpState::Sqd) {
                    assert!(is_drained, "seed {}: pair {pair}: never drained", self.seed);
                }
                self.resume(me, pair);
            }
        }
    }
}
