// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties that hold for any demands and times: frames are not lost or shared,
//! demands are met in their order, no endpoint waits forever.

use bellwire_residency::{Action, Config, Duration, EndpointId, FrameId, Instant, Policy, Residency, State};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const ALL: [Policy; 3] = [Policy::LeastRecentlyUsed, Policy::Random, Policy::LongestResident];

fn config(frames: usize, policy: Policy) -> Config {
    Config { frames, policy, stay: Duration(50), patience: Duration(100), ..Config::default() }
}

/// Does all actions at once.
fn settle_all(r: &mut Residency, now: Instant) {
    while let Some(action) = r.poll_action() {
        match action {
            Action::Quiesce(e) => r.settled(now, e),
            Action::Unload(e, _) => r.unloaded(now, e, false),
            Action::Load(e, _) => r.loaded(now, e),
        }
    }
}

#[test]
fn who_was_used_least_recently_makes_room() {
    let mut r = Residency::new(config(2, Policy::LeastRecentlyUsed), 1);
    for e in [0, 1] {
        assert_eq!(r.access(Instant(e.into()), EndpointId(e)), None);
        settle_all(&mut r, Instant(e.into()));
    }
    assert_eq!(r.access(Instant(110), EndpointId(1)), Some(FrameId(1)));
    assert_eq!(r.access(Instant(111), EndpointId(0)), Some(FrameId(0)));
    assert_eq!(r.access(Instant(112), EndpointId(2)), None);
    assert_eq!(r.poll_action(), Some(Action::Quiesce(EndpointId(1))));
    assert_eq!(r.access(Instant(113), EndpointId(1)), None, "who quiesces takes nothing more");
    r.settled(Instant(114), EndpointId(1));
    assert_eq!(r.poll_action(), Some(Action::Unload(EndpointId(1), FrameId(1))));
    assert_eq!(r.poll_action(), None, "the frame is taken until the image is out");
    r.unloaded(Instant(115), EndpointId(1), true);
    assert_eq!(r.poll_action(), Some(Action::Load(EndpointId(2), FrameId(1))));
    r.loaded(Instant(116), EndpointId(2));
    assert!(matches!(r.state(EndpointId(1)), State::Waiting(_)));
}

#[test]
fn who_is_wanted_while_it_leaves_waits_again() {
    let mut r = Residency::new(config(1, Policy::LongestResident), 1);
    r.access(Instant(0), EndpointId(0));
    settle_all(&mut r, Instant(0));
    r.access(Instant(1), EndpointId(1));
    r.handle_timeout(Instant(200));
    assert_eq!(r.access(Instant(201), EndpointId(0)), None, "a program writes, and is suspended: it will not ask again");
    settle_all(&mut r, Instant(202));
    assert!(matches!(r.state(EndpointId(0)), State::Waiting(_)), "{:?}", r.state(EndpointId(0)));
}

#[test]
fn who_is_to_keep_its_frame_keeps_it_beyond_its_stay() {
    let mut r = Residency::new(config(1, Policy::LeastRecentlyUsed), 1);
    r.access(Instant(0), EndpointId(0));
    settle_all(&mut r, Instant(0));
    r.keep(EndpointId(0), Instant(1000));
    r.keep(EndpointId(1), Instant(5000));
    r.access(Instant(1), EndpointId(1));
    assert_eq!(r.next_timeout(), Instant(1000));
    r.handle_timeout(Instant(999));
    assert_eq!(r.poll_action(), None);
    r.handle_timeout(Instant(1000));
    settle_all(&mut r, Instant(1000));
    assert!(matches!(r.state(EndpointId(1)), State::Resident(_)));
}

#[test]
fn what_was_just_loaded_stays_for_a_while() {
    let mut r = Residency::new(config(1, Policy::LongestResident), 1);
    r.access(Instant(0), EndpointId(0));
    settle_all(&mut r, Instant(0));
    r.access(Instant(1), EndpointId(1));
    let until = r.next_timeout();
    assert!(r.poll_action().is_none() && (50..100).contains(&until.0), "{until:?}");
    r.handle_timeout(Instant(until.0 - 1));
    assert_eq!(r.poll_action(), None);
    r.handle_timeout(until);
    assert_eq!(r.poll_action(), Some(Action::Quiesce(EndpointId(0))));
}

/// Loads two endpoints in turn into one frame, and says how long each load was after the one
/// before.
fn turns(seed: u64) -> Vec<u64> {
    let mut r = Residency::new(config(1, Policy::LeastRecentlyUsed), seed);
    let mut now = Instant(0);
    let mut turn = |e: u32| {
        let before = now;
        r.access(now, EndpointId(e % 2));
        now = now.max(if e == 0 { now } else { r.next_timeout() });
        r.handle_timeout(now);
        settle_all(&mut r, now);
        assert!(matches!(r.state(EndpointId(e % 2)), State::Resident(_)));
        now.since(before).0
    };
    (0..20).map(&mut turn).skip(1).collect()
}

#[test]
fn turns_of_two_nics_do_not_fall_into_step() {
    let (a, b) = (turns(1), turns(2));
    assert!(a.iter().chain(&b).all(|t| (50..100).contains(t)), "{a:?} {b:?}");
    let apart = a.iter().zip(&b).filter(|(a, b)| a.abs_diff(**b) > 5).count();
    assert!(apart > a.len() / 2, "{a:?} {b:?}");
}

#[test]
fn one_that_cannot_settle_does_not_stop_the_others() {
    let mut r = Residency::new(config(3, Policy::LongestResident), 1);
    for e in 0..3 {
        r.access(Instant(0), EndpointId(e));
        settle_all(&mut r, Instant(0));
        r.access(Instant(1), EndpointId(e));
    }
    r.access(Instant(110), EndpointId(3));
    for e in 0..3_u32 {
        assert_eq!(r.poll_action(), Some(Action::Quiesce(EndpointId(e))));
        assert_eq!((r.poll_action(), r.next_timeout()), (None, Instant(210 + u64::from(e) * 100)));
        r.handle_timeout(r.next_timeout());
    }
    assert_eq!((r.poll_action(), r.quiescing().count(), r.statistics().impatient), (None, 3, 3));
    r.settled(Instant(450), EndpointId(1));
    r.poll_action();
    r.unloaded(Instant(451), EndpointId(1), false);
    assert!(matches!(r.poll_action(), Some(Action::Load(EndpointId(3), FrameId(1)))));
}

#[test]
fn one_that_has_done_its_work_makes_room_at_once() {
    let mut r = Residency::new(config(2, Policy::LeastRecentlyUsed), 1);
    for e in [0, 1] {
        r.access(Instant(0), EndpointId(e));
        settle_all(&mut r, Instant(0));
    }
    r.access(Instant(1), EndpointId(0));
    r.access(Instant(2), EndpointId(1));
    r.done(Instant(3), EndpointId(1));
    assert_eq!(r.poll_action(), None, "nobody waits");
    r.access(Instant(4), EndpointId(2));
    assert_eq!(r.poll_action(), Some(Action::Quiesce(EndpointId(1))), "not the one that was used least recently, which has work");
    r.settled(Instant(4), EndpointId(1));
    settle_all(&mut r, Instant(4));
    r.access(Instant(5), EndpointId(1));
    assert_eq!(r.poll_action(), None, "the others have work, and keep their frames");
    r.done(Instant(6), EndpointId(2));
    r.poll_action();
    r.settled(Instant(6), EndpointId(2));
    settle_all(&mut r, Instant(6));
    assert!(matches!(r.state(EndpointId(1)), State::Resident(_)));
}

/// Owner 1 wants to have all its endpoints served all the time. Owner 2 comes and has its share at
/// once: it does not wait for the end of a stay, nor for those of owner 1 that wait before it.
#[test]
fn no_owner_keeps_all_frames() {
    let mut r = Residency::new(config(8, Policy::LeastRecentlyUsed), 1);
    let resident = |r: &Residency, from: u32, to: u32| (from..to).filter(|e| matches!(r.state(EndpointId(*e)), State::Resident(_))).count();
    for e in 0..200 {
        r.set_owner(EndpointId(e), if e < 100 { 1 } else { 2 });
    }
    for e in 0..100 {
        r.access(Instant(0), EndpointId(e));
        settle_all(&mut r, Instant(0));
    }
    assert_eq!(resident(&r, 0, 100), 8, "one alone may have all frames");
    for e in 100..106 {
        r.access(Instant(1), EndpointId(e));
        settle_all(&mut r, Instant(1));
    }
    assert_eq!((resident(&r, 0, 100), resident(&r, 100, 200)), (4, 4), "half each, at once");
    for now in 2..2_000 {
        for e in 0..200 {
            // Both want all, owner 1 first.
            r.access(Instant(now), EndpointId(e));
            settle_all(&mut r, Instant(now));
        }
        r.handle_timeout(Instant(now));
        settle_all(&mut r, Instant(now));
        assert_eq!((resident(&r, 0, 100), resident(&r, 100, 200)), (4, 4), "at {now}");
    }
    let loads = r.statistics().loads;
    assert!(loads > 100, "the endpoints of each take turns: {loads}");
    for e in 100..200 {
        r.remove(Instant(2_000), EndpointId(e));
    }
    settle_all(&mut r, Instant(2_000));
    assert_eq!(resident(&r, 0, 100), 8, "and all of them again");
}

/// More owners than frames, one of whom wants much: each is served.
#[test]
fn owners_without_a_frame_come_first() {
    let mut r = Residency::new(config(2, Policy::LeastRecentlyUsed), 1);
    for e in 0..20 {
        r.set_owner(EndpointId(e), if e < 16 { 0 } else { e });
    }
    let mut loads = [0; 20];
    for now in 0..5_000 {
        for e in 0..20 {
            r.access(Instant(now), EndpointId(e));
        }
        r.handle_timeout(Instant(now));
        while let Some(action) = r.poll_action() {
            match action {
                Action::Quiesce(e) => r.settled(Instant(now), e),
                Action::Unload(e, _) => r.unloaded(Instant(now), e, true),
                Action::Load(e, _) => {
                    loads[e.0 as usize] += 1;
                    r.loaded(Instant(now), e);
                }
            }
        }
    }
    let crowd: u32 = loads[..16].iter().sum();
    for (owner, loads) in loads.iter().enumerate().skip(16) {
        assert!(*loads * 2 > crowd, "owner {owner}: {loads} beside {crowd}");
    }
    assert!(crowd > 20, "{crowd}");
}

#[derive(Clone, Debug)]
struct Play {
    frames: usize,
    remaps: usize,
    policy: Policy,
    seed: u64,
    /// Endpoint accessed, and how long after the one before.
    accesses: Vec<(u32, u64)>,
    /// How long actions take, in turn.
    times: Vec<u64>,
}

fn play() -> impl Strategy<Value = Play> {
    let accesses = proptest::collection::vec((0..12_u32, 0..80_u64), 1..200);
    let times = proptest::collection::vec(prop_oneof![0..20_u64, 0..400_u64], 1..20);
    (1..8_usize, 1..4_usize, 0..3_usize, any::<u64>(), accesses, times).prop_map(|(frames, remaps, policy, seed, accesses, times)| Play {
        frames,
        remaps,
        policy: ALL[policy],
        seed,
        accesses,
        times,
    })
}

/// A driver of a NIC that does what is asked, each action in its time.
struct Driver {
    r: Residency,
    due: BTreeMap<(u64, usize), Action>,
    count: usize,
    /// Frame's owner, as seen from the actions.
    owners: BTreeMap<FrameId, EndpointId>,
    /// Demands in order, and in which order loads began.
    demanded: Vec<EndpointId>,
    begun: Vec<EndpointId>,
    /// The endpoint that was accessed while it was leaving.
    missed: BTreeSet<EndpointId>,
}

impl Driver {
    fn take_actions(&mut self, now: u64, times: &[u64]) {
        while let Some(action) = self.r.poll_action() {
            match action {
                Action::Load(e, f) => {
                    assert_eq!(self.owners.insert(f, e), None, "the frame was free");
                    self.begun.push(e);
                }
                Action::Unload(e, f) => assert_eq!(self.owners.get(&f), Some(&e)),
                Action::Quiesce(_) => {}
            }
            self.due.insert((now + times[self.count % times.len()], self.count), action);
            self.count += 1;
        }
    }

    /// All that happens until `until`; stops when nothing more will.
    fn run(&mut self, until: u64, times: &[u64], wanted: &dyn Fn(EndpointId) -> bool) {
        loop {
            let next = self.due.keys().next().map_or(u64::MAX, |k| k.0).min(self.r.next_timeout().0);
            if next > until || next == u64::MAX {
                return;
            }
            self.r.handle_timeout(Instant(next));
            while let Some(entry) = self.due.first_entry().filter(|e| e.key().0 <= next) {
                match entry.remove() {
                    Action::Quiesce(e) => self.r.settled(Instant(next), e),
                    Action::Load(e, _) => self.r.loaded(Instant(next), e),
                    Action::Unload(e, f) => {
                        assert_eq!(self.owners.remove(&f), Some(e));
                        self.r.unloaded(Instant(next), e, wanted(e));
                        if self.missed.remove(&e) || wanted(e) {
                            self.demanded.push(e);
                        }
                    }
                }
                self.take_actions(next, times);
            }
            self.take_actions(next, times);
        }
    }
}

proptest! {
    #[test]
    fn demands_are_met_in_order_and_frames_stay_whole(p in play()) {
        let config = Config { remaps_max: p.remaps, ..config(p.frames, p.policy) };
        let r = Residency::new(config, p.seed);
        let mut d = Driver { r, due: BTreeMap::new(), count: 0, owners: BTreeMap::new(), demanded: vec![], begun: vec![], missed: BTreeSet::new() };
        let mut now = 0;
        for &(e, gap) in &p.accesses {
            now += gap;
            d.run(now, &p.times, &|e| e.0 == 0);
            let before = d.r.state(EndpointId(e));
            let granted = d.r.access(Instant(now), EndpointId(e));
            prop_assert_eq!(granted.is_some(), matches!(before, State::Resident(_)));
            if let Some(f) = granted {
                prop_assert_eq!(d.owners.get(&f), Some(&EndpointId(e)));
            } else if before == State::Host {
                d.demanded.push(EndpointId(e));
            } else if matches!(before, State::Quiescing(_) | State::Unloading(_)) {
                d.missed.insert(EndpointId(e));
            }
            d.take_actions(now, &p.times);
            prop_assert!(d.r.waiting() == 0 || !d.due.is_empty() || d.r.next_timeout() != Instant::NEVER, "somebody waits, and nothing is under way");
            prop_assert!(d.owners.len() <= p.frames);
        }
        // Every demanded endpoint is loaded in the end, one after the other.
        d.run(u64::MAX - 1, &p.times, &|_| false);
        prop_assert_eq!(d.r.waiting(), 0);
        prop_assert_eq!(&d.begun, &d.demanded);
        prop_assert_eq!(d.r.statistics().loads - d.r.statistics().unloads, d.owners.len() as u64);
    }
}
