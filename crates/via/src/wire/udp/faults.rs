// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults on purpose (`BELLWIRE_FAULTS`): what leaves is lost, doubled, delayed, overtaken, damaged or held up by a partition, as a plan with a seed says. (Damaged is lost: the checksum of UDP is below.) The same model as in
//! the simulator (`bellwire-faults`), so a plan means the same in both; here it strikes what this NIC sends, packet by packet, and no packets leave joined.

use crate::time::Instant;
use bellwire_faults::{FaultPlan, Faults, Verdict};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Packets held back at a time; beyond, the next is lost, as in any queue.
const HELD_MAX: usize = 1 << 16;

/// What happens to the packets of one NIC.
#[derive(Debug)]
pub(super) struct Struck {
    plan: FaultPlan,
    own: String,
    /// The plan's times count from here.
    opened: Instant,
    ways: BTreeMap<SocketAddr, Faults>,
    /// Packets that leave later, by time and number.
    held: BTreeMap<(Instant, u64), (SocketAddr, Vec<u8>)>,
    number: u64,
}

impl Struck {
    pub(super) fn new(plan: FaultPlan, own: SocketAddr, opened: Instant) -> Self {
        Self { plan, own: own.ip().to_string(), opened, ways: BTreeMap::new(), held: BTreeMap::new(), number: 0 }
    }

    /// One packet wants to leave: `put` is called for it, perhaps twice, perhaps never; or later, by [`release`](Self::release).
    pub(super) fn send(&mut self, now: Instant, to: SocketAddr, bytes: &[u8], mut put: impl FnMut(&[u8])) {
        let stream = self.ways.len() as u64;
        let (plan, own) = (&self.plan, &self.own);
        let way = self.ways.entry(to).or_insert_with(|| plan.faults(own, &to.ip().to_string(), stream));
        let Verdict::Pass(changes) = way.judge(Instant(now.since(self.opened).0), bytes.len()) else { return };
        // Damage is found by the checksum of UDP, which is below: such a packet is lost.
        let copies = usize::from(changes.corruption.is_none()) + usize::from(changes.duplicate);
        for _ in 0..copies {
            if changes.delay.0 == 0 {
                put(bytes);
            } else if self.held.len() < HELD_MAX {
                self.number += 1;
                self.held.insert((now + changes.delay, self.number), (to, bytes.to_vec()));
            }
        }
    }

    /// Packets whose time has come.
    pub(super) fn release(&mut self, now: Instant, mut put: impl FnMut(SocketAddr, &[u8])) {
        while let Some(first) = self.held.first_entry()
            && first.key().0 <= now
        {
            let (to, packet) = first.remove();
            put(to, &packet);
        }
    }

    pub(super) fn next_timeout(&self) -> Instant {
        self.held.first_key_value().map_or(Instant::NEVER, |((at, _), _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;
    use std::net::Ipv4Addr;

    fn run(plan: &str) -> (Vec<Vec<u8>>, Struck) {
        let to: SocketAddr = (Ipv4Addr::new(10, 0, 0, 2), 7).into();
        let mut struck = Struck::new(plan.parse().unwrap(), (Ipv4Addr::new(10, 0, 0, 1), 7).into(), Instant(1_000));
        let mut left = Vec::new();
        for i in 0..1000u32 {
            let now = Instant(1_000) + Duration::from_micros(u64::from(i));
            struck.release(now, |_, p| left.push(p.to_vec()));
            struck.send(now, to, &i.to_le_bytes(), |p| left.push(p.to_vec()));
        }
        (left, struck)
    }

    #[test]
    fn packets_are_struck_as_planned_and_the_same_again() {
        let (all, _) = run("seed=1");
        assert_eq!(all.len(), 1000);
        let (lossy, _) = run("loss=0.1,dup=0.05,seed=7");
        assert!((800..1000).contains(&lossy.len()), "{}", lossy.len());
        assert_eq!(lossy, run("loss=0.1,dup=0.05,seed=7").0);
        assert_ne!(lossy, run("loss=0.1,dup=0.05,seed=8").0);
        let (damaged, _) = run("corrupt=0.2,seed=3");
        assert!((700..900).contains(&damaged.len()) && damaged.iter().all(|p| all.contains(p)), "lost, not wrong: {}", damaged.len());
    }

    #[test]
    fn delayed_packets_leave_in_order_when_their_time_has_come() {
        let (early, mut struck) = run("delay=100us,seed=1");
        assert!(early.len() < 1000 && struck.next_timeout() != Instant::NEVER);
        let mut late = Vec::new();
        struck.release(Instant(1 << 40), |_, p| late.push(p.to_vec()));
        let order: Vec<u32> = early.iter().chain(&late).map(|p| u32::from_le_bytes(p[..4].try_into().unwrap())).collect();
        assert_eq!(order, (0..1000).collect::<Vec<_>>());
        assert_eq!(struck.next_timeout(), Instant::NEVER);
    }
}
