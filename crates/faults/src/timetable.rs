// SPDX-License-Identifier: MIT OR Apache-2.0
//! When the outages of a plan begin and end, in order of time. Its users (the fabric, and
//! `judge.rs` for real wires) know which parts they strike.
//!
//! Invariants
//! - T1: changes come in order of time; at one instant in the order of the plan. Each beginning is
//!   followed by its end, unless that is `NEVER`.
//! - T2: randomness comes from the seed and the outage's place in the plan alone: two ends of a
//!   real link with one seed agree.

use crate::plan::{FaultPlan, Outage, Span, When};
use crate::random::Random;
use bellwire_time::{Duration, Instant};

/// Domain of the timetable's streams, so that no other use of the same seed draws the same numbers.
const DOMAIN: u64 = 0x71e7_ab1e;

/// The outages to come. Costs a comparison while nothing changes.
#[derive(Clone, Debug)]
pub struct Timetable {
    entries: Vec<Entry>,
    during: Span,
    next: Instant,
}

#[derive(Clone, Debug)]
struct Entry {
    when: When,
    random: Random,
    /// When the next change is.
    at: Instant,
    /// Whether that change is an end.
    open: bool,
    /// What this occurrence is drawn from.
    draw: u64,
}

/// An outage begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at: Instant,
    /// Which: an index into the plan's outages.
    pub outage: usize,
    /// Begins, or ends.
    pub begins: bool,
    /// Random bits, the same at the beginning and the end of one occurrence: whom it strikes, where
    /// the plan leaves that open.
    pub draw: u64,
}

impl Timetable {
    /// The outages of a plan, under a seed.
    pub fn new(outages: &[Outage], during: Option<Span>, seed: u64) -> Self {
        let during = during.unwrap_or(Span::ALWAYS);
        let entry = |(i, outage): (usize, &Outage)| {
            let mut random = Random::new(Random::mix(seed, DOMAIN), i as u64);
            let at = match outage.when() {
                When::At(span) => span.from,
                When::Random { between, .. } => within(during, during.from + around(between, &mut random)),
            };
            let draw = random.next_u64();
            Entry { when: outage.when(), random, at, open: false, draw }
        };
        let mut timetable = Self { entries: outages.iter().enumerate().map(entry).collect(), during, next: Instant::NEVER };
        timetable.find_next();
        timetable
    }

    /// When something changes next.
    #[inline]
    pub const fn next_change(&self) -> Instant {
        self.next
    }

    /// The next change, if its time has come. To be called until there is none.
    pub fn take(&mut self, now: Instant) -> Option<Change> {
        if self.next > now || self.next == Instant::NEVER {
            return None;
        }
        let outage = self.entries.iter().position(|e| e.at == self.next)?;
        let entry = &mut self.entries[outage];
        let change = Change { at: entry.at, outage, begins: !entry.open, draw: entry.draw };
        entry.advance(self.during);
        self.find_next();
        Some(change)
    }

    fn find_next(&mut self) {
        self.next = self.entries.iter().map(|e| e.at).min().unwrap_or(Instant::NEVER);
    }
}

impl Entry {
    /// Goes on to the change after this one.
    fn advance(&mut self, during: Span) {
        self.at = match (self.when, self.open) {
            (When::At(span), false) => span.to,
            (When::At(_), true) => Instant::NEVER,
            (When::Random { length, .. }, false) => self.at + Duration(around(length, &mut self.random).0.max(1)),
            (When::Random { between, .. }, true) => {
                self.draw = self.random.next_u64();
                within(during, self.at + Duration(around(between, &mut self.random).0.max(1)))
            }
        };
        self.open = !self.open;
    }
}

/// A time drawn evenly from nothing to twice the mean.
fn around(mean: Duration, random: &mut Random) -> Duration {
    Duration(random.within(0, mean.0.saturating_mul(2)))
}

/// No random outage begins after the span. Those that are open then end when they end.
fn within(during: Span, at: Instant) -> Instant {
    if at < during.to { at } else { Instant::NEVER }
}

impl FaultPlan {
    /// When this plan's outages begin and end; `seed` counts if the plan has none.
    pub fn timetable(&self, seed: u64) -> Timetable {
        Timetable::new(&self.outages, self.during, self.seed.unwrap_or(seed))
    }
}
