// SPDX-License-Identifier: MIT OR Apache-2.0
//! Possible faults of the requests of RDMA programs, on any wire: a device asks about each request
//! that it is to carry out. (Faults of packets are in `judge.rs`, beneath.)
//!
//! Each queue pair has a stream of its own, by the order in which the device's queue pairs were
//! made, and each request draws the same way whatever the time; so a program that posts the same
//! requests meets the same fates (F1).

use crate::plan::{FaultPlan, Outage, Removal, Span, When};
use crate::random::Random;
use crate::request_faults::RequestFaults;
use crate::timetable::Timetable;
use bellwire_time::Instant;

/// Domain of these streams, so that packets of the same seed draw other numbers.
const DOMAIN: u64 = 0x4e90_0e57;
/// Domain of the times at which ports go down.
const PORT_DOMAIN: u64 = 0x0907;
/// Domain of the times at which devices are removed.
const REMOVAL_DOMAIN: u64 = 0x4e30_0fe0;

/// The fate of a request. A fault that its kind cannot meet does not strike it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its fate without faults.
    Usual,
    /// It finds no receive, so often.
    Unready(u16),
    /// Nobody answers.
    Unanswered,
    /// The peer denies it.
    Denied,
    /// The queue pair fails.
    Broken,
    /// The process ends.
    Death,
}

/// The fates of the requests of one queue pair.
#[derive(Clone, Debug)]
pub struct Fates {
    random: Random,
    during: Span,
}

impl Fates {
    /// Of the queue pair with that number, counted as they are made. Without a seed in the plan, 0
    /// is used.
    pub fn new(plan: &FaultPlan, number: u64) -> Self {
        let seed = Random::mix(plan.seed.unwrap_or(0), DOMAIN);
        Self { random: Random::new(seed, number), during: plan.during.unwrap_or(Span::ALWAYS) }
    }

    /// Decides about a request that goes over a link with these faults. The rarer fault counts if
    /// several strike: death, then failure, denial, silence, a missing receive.
    pub fn judge(&mut self, faults: &RequestFaults, now: Instant) -> Fate {
        let random = &mut self.random;
        // All are drawn, so that what strikes does not move what comes later.
        let [death, broken, denied, unanswered, unready] =
            [faults.death, faults.broken, faults.denied, faults.unanswered, faults.unready].map(|p| p.strikes(random));
        match () {
            () if !self.during.contains(now) => Fate::Usual,
            () if death => Fate::Death,
            () if broken => Fate::Broken,
            () if denied => Fate::Denied,
            () if unanswered => Fate::Unanswered,
            () if unready => Fate::Unready(faults.unready_times.max(1)),
            () => Fate::Usual,
        }
    }
}

impl FaultPlan {
    /// Whether anything may happen to requests of RDMA programs.
    pub fn strikes_requests(&self) -> bool {
        let quiet = RequestFaults::default();
        !self.ports.is_empty() || self.every_link.requests != quiet || self.links.iter().any(|(_, f)| f.requests != quiet)
    }

    /// When the device of that number is taken out, if the plan says so; without a seed in the
    /// plan, 0 is used.
    pub fn removal_time(&self, device: u64) -> Option<Instant> {
        let Removal { from, to } = self.removal?;
        let seed = Random::mix(self.seed.unwrap_or(0), REMOVAL_DOMAIN);
        Some(Instant(Random::new(seed, device).within(from.0, to.0)))
    }

    /// When the ports of RDMA devices go down and up again; without a seed in the plan, 0 is used.
    pub fn port_timetable(&self) -> Timetable {
        let outages: Vec<Outage> = self.ports.iter().map(|when: &When| Outage::Down(*when, None)).collect();
        Timetable::new(&outages, self.during, Random::mix(self.seed.unwrap_or(0), PORT_DOMAIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fates_are_of_the_seed_and_the_queue_pair() {
        let fates = |plan: &str, number| {
            let plan: FaultPlan = plan.parse().unwrap();
            let mut fates = Fates::new(&plan, number);
            (0..1000).map(|i| fates.judge(&plan.every_link.requests, Instant(i))).collect::<Vec<_>>()
        };
        let one = fates("rnr=0.1:3,denied=0.05,unanswered=0.01,seed=7", 1);
        assert_eq!(one, fates("rnr=0.1:3,denied=0.05,unanswered=0.01,seed=7", 1));
        assert_ne!(one, fates("rnr=0.1:3,denied=0.05,unanswered=0.01,seed=7", 2));
        assert_ne!(one, fates("rnr=0.1:3,denied=0.05,unanswered=0.01,seed=8", 1));
        let count = |fate| one.iter().filter(|f| **f == fate).count();
        assert!((60..130).contains(&count(Fate::Unready(3))) && (30..80).contains(&count(Fate::Denied)) && count(Fate::Death) == 0);
        assert!(fates("death=1,during=0s..500ns,seed=1", 0)[500..].iter().all(|f| *f == Fate::Usual));
    }

    #[test]
    fn devices_are_removed_when_the_plan_says() {
        let plan: FaultPlan = "remove=2s".parse().unwrap();
        assert!(!plan.is_none() && !plan.strikes_requests());
        assert_eq!(plan.removal_time(0), Some(Instant(2_000_000_000)));
        let drawn = |text: &str, device| text.parse::<FaultPlan>().unwrap().removal_time(device).unwrap();
        let one = drawn("remove=1s..3s,seed=7", 0);
        assert!((1_000_000_000..=3_000_000_000).contains(&one.0));
        assert_eq!(one, drawn("remove=1s..3s,seed=7", 0));
        assert_ne!(one, drawn("remove=1s..3s,seed=8", 0));
        assert_ne!(one, drawn("remove=1s..3s,seed=7", 1));
    }

    #[test]
    fn ports_go_down_when_the_plan_says() {
        let plan: FaultPlan = "port=1ms..3ms".parse().unwrap();
        assert!(plan.strikes_requests() && !plan.is_none());
        let mut times = plan.port_timetable();
        assert_eq!(times.take(Instant(999_999)), None);
        assert!(times.take(Instant(1_000_000)).unwrap().begins);
        assert!(!times.take(Instant(3_000_000)).unwrap().begins);
    }
}
