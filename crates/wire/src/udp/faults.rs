// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults on purpose (`BELLWIRE_FAULTS`): packets that leave are lost, doubled, delayed, overtaken,
//! damaged or held up by a partition, as a plan with a seed says. (Damaged is lost: the checksum of
//! UDP is below.) The same model as in the simulator (`bellwire-faults`), so a plan means the same
//! in both; here it strikes what this NIC sends, packet by packet; neighbours that are spared leave
//! joined. A capture is told of packets here, with their fate.

use crate::time::{Duration, Instant};
use bellwire_faults::{FaultPlan, Faults, Verdict};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Packets held back at a time; beyond, the next is lost, as in any queue.
const HELD_MAX: usize = 1 << 16;

/// A packet that is about to leave, for a capture.
#[derive(Clone, Copy, Debug)]
pub struct Leaving<'a> {
    /// Its sender.
    pub from: SocketAddr,
    /// The socket that it is for.
    pub to: SocketAddr,
    /// The datagram.
    pub bytes: &'a [u8],
    /// How many of it leave: not one if a plan strikes it.
    pub copies: usize,
    /// How much later they do.
    pub delay: Duration,
}

/// Is told of each packet that is about to leave.
pub type Tap = fn(&Leaving<'_>);

/// What happens to the packets of one NIC.
#[derive(Debug)]
pub struct Struck {
    plan: Option<FaultPlan>,
    tap: Option<Tap>,
    own: SocketAddr,
    /// The plan's times count from here.
    opened: Instant,
    ways: BTreeMap<SocketAddr, Faults>,
    /// Packets that leave later, by time and number.
    held: BTreeMap<(Instant, u64), (SocketAddr, Vec<u8>)>,
    number: u64,
}

impl Struck {
    /// Strikes as a plan says, whose times count from `opened`, and tells a tap. `None`: there is
    /// neither.
    pub fn new(plan: Option<FaultPlan>, tap: Option<Tap>, own: SocketAddr, opened: Instant) -> Option<Self> {
        let plan = plan.filter(|plan| !plan.is_none());
        let is_wanted = plan.is_some() || tap.is_some();
        is_wanted.then(|| Self { plan, tap, own, opened, ways: BTreeMap::new(), held: BTreeMap::new(), number: 0 })
    }

    /// From now on, packets are told to that tap, or to none. `false`: nothing is left to do.
    pub fn set_tap(&mut self, tap: Option<Tap>) -> bool {
        self.tap = tap;
        self.plan.is_some() || tap.is_some()
    }

    /// Whether packets may be struck; else they are only told of.
    pub fn strikes(&self) -> bool {
        self.plan.is_some()
    }

    /// Tells of packets that leave, each of `size` bytes but the last.
    pub fn tell(&self, to: SocketAddr, bytes: &[u8], size: usize) {
        for packet in bytes.chunks(size.max(1)) {
            self.tell_one(to, packet, 1, Duration(0));
        }
    }

    fn tell_one(&self, to: SocketAddr, bytes: &[u8], copies: usize, delay: Duration) {
        if let Some(tap) = self.tap {
            tap(&Leaving { from: self.own, to, bytes, copies, delay });
        }
    }

    /// Packets want to leave, each of `size` bytes but the last: `put` is called for those that do,
    /// neighbours together as they came (faults strike packets, not calls); or later, by
    /// [`release`](Self::release).
    pub fn send(&mut self, now: Instant, to: SocketAddr, bytes: &[u8], size: usize, mut put: impl FnMut(&[u8])) {
        // The packets that leave next: nothing has happened to them.
        let mut whole = 0..0;
        for start in (0..bytes.len()).step_by(size.max(1)) {
            let packet = start..bytes.len().min(start + size.max(1));
            let (copies, delay) = self.judge(now, to, packet.len());
            self.tell_one(to, &bytes[packet.clone()], copies, delay);
            if (copies, delay) == (1, Duration(0)) {
                whole.end = packet.end;
                continue;
            }
            if !whole.is_empty() {
                put(&bytes[whole]);
            }
            whole = packet.end..packet.end;
            for _ in 0..copies {
                if delay == Duration(0) {
                    put(&bytes[packet.clone()]);
                } else if self.held.len() < HELD_MAX {
                    self.number += 1;
                    self.held.insert((now + delay, self.number), (to, bytes[packet.clone()].to_vec()));
                }
            }
        }
        if !whole.is_empty() {
            put(&bytes[whole]);
        }
    }

    /// How many times a packet arrives, and how much later.
    fn judge(&mut self, now: Instant, to: SocketAddr, length: usize) -> (usize, Duration) {
        let stream = self.ways.len() as u64;
        let (Some(plan), own) = (&self.plan, self.own.ip()) else { return (1, Duration(0)) };
        let way = self.ways.entry(to).or_insert_with(|| plan.faults(&own.to_string(), &to.ip().to_string(), stream));
        match way.judge(Instant(now.since(self.opened).0), length) {
            Verdict::Drop(_) => (0, Duration(0)),
            // Damage is found by the checksum of UDP, which is below: such a packet is lost.
            Verdict::Pass(changes) => (usize::from(changes.corruption.is_none()) + usize::from(changes.duplicate), changes.delay),
        }
    }

    /// Packets whose time has come.
    pub fn release(&mut self, now: Instant, mut put: impl FnMut(SocketAddr, &[u8])) {
        while let Some(first) = self.held.first_entry()
            && first.key().0 <= now
        {
            let (to, packet) = first.remove();
            put(to, &packet);
        }
    }

    /// When the next packet that is held back leaves.
    pub fn next_timeout(&self) -> Instant {
        self.held.first_key_value().map_or(Instant::NEVER, |((at, _), _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn run(plan: &str) -> (Vec<Vec<u8>>, Struck) {
        let to: SocketAddr = (Ipv4Addr::new(10, 0, 0, 2), 7).into();
        let mut struck = Struck::new(Some(plan.parse().unwrap()), Some(|_| ()), (Ipv4Addr::new(10, 0, 0, 1), 7).into(), Instant(1_000)).unwrap();
        let mut left = Vec::new();
        for i in 0..1000u32 {
            let now = Instant(1_000) + Duration::from_micros(u64::from(i));
            struck.release(now, |_, p| left.push(p.to_vec()));
            struck.send(now, to, &i.to_le_bytes(), 4, |p| left.push(p.to_vec()));
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
    fn what_is_spared_leaves_joined_and_what_is_lost_does_not() {
        let to: SocketAddr = (Ipv4Addr::new(10, 0, 0, 2), 7).into();
        let bytes: Vec<u8> = (0..401u32).map(|i| (i / 10) as u8).collect();
        let calls = |plan: &str| {
            let mut struck = Struck::new(Some(plan.parse().unwrap()), Some(|_| ()), (Ipv4Addr::new(10, 0, 0, 1), 7).into(), Instant(0)).unwrap();
            let mut calls: Vec<Vec<u8>> = Vec::new();
            struck.send(Instant(0), to, &bytes, 10, |p| calls.push(p.to_vec()));
            calls
        };
        assert_eq!(calls("seed=1"), std::slice::from_ref(&bytes), "the short last one too");
        let lossy = calls("loss=0.2,seed=3");
        assert!(lossy.len() > 2 && lossy.len() < 20 && lossy.iter().any(|c| c.len() >= 30), "{lossy:?}");
        assert!(lossy.iter().rev().skip(1).all(|c| c.len() % 10 == 0), "cut between packets");
        let left: Vec<u8> = lossy.concat();
        assert!(left.is_sorted() && left.len() < bytes.len(), "each at most once, in order");
        assert!(calls("dup=0.2,seed=3").concat().len() > bytes.len());
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

    thread_local! {
        static TOLD: core::cell::RefCell<Vec<(Vec<u8>, usize)>> = const { core::cell::RefCell::new(Vec::new()) };
    }

    #[test]
    fn a_tap_is_told_of_each_packet_and_its_fate() {
        let (own, to): (SocketAddr, SocketAddr) = ((Ipv4Addr::LOCALHOST, 7).into(), (Ipv4Addr::LOCALHOST, 8).into());
        assert!(Struck::new(None, None, own, Instant(0)).is_none() && Struck::new(Some(FaultPlan::default()), None, own, Instant(0)).is_none());
        let tap: Tap = |leaving| TOLD.with_borrow_mut(|told| told.push((leaving.bytes.to_vec(), leaving.copies)));
        let only = Struck::new(None, Some(tap), own, Instant(0)).unwrap();
        assert!(!only.strikes());
        only.tell(to, &[1, 1, 2, 2, 3], 2);
        assert_eq!(TOLD.take(), [(vec![1, 1], 1), (vec![2, 2], 1), (vec![3], 1)]);
        let mut struck = Struck::new(Some("loss=0.3,dup=0.3,seed=5".parse().unwrap()), Some(tap), own, Instant(0)).unwrap();
        assert!(struck.strikes());
        let mut left = 0;
        struck.send(Instant(0), to, &[9; 200], 2, |p| left += p.len() / 2);
        let told = TOLD.take();
        assert_eq!((told.len(), told.iter().map(|(_, copies)| copies).sum::<usize>()), (100, left));
        assert!(told.iter().any(|(_, copies)| *copies == 0) && told.iter().any(|(_, copies)| *copies == 2));
    }
}
