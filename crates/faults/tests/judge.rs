// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the faults do to a stream of packets: as often as they should, in order, the same under one
//! seed.

use bellwire_faults::{Cause, Change, Changes, Clock, FaultPlan, Faults, Verdict};
use bellwire_time::{Duration, Instant};
use proptest::prelude::*;

fn faults(text: &str) -> Faults {
    text.parse::<FaultPlan>().unwrap().faults("a", "b", 1)
}

/// Verdicts on `count` packets of 100 bytes, one each microsecond.
fn verdicts(text: &str, count: u64) -> Vec<Verdict> {
    let mut faults = faults(text);
    (0..count).map(|i| faults.judge(Instant(i * 1_000), 100)).collect()
}

fn changes(verdicts: &[Verdict]) -> impl Iterator<Item = Changes> + '_ {
    verdicts.iter().filter_map(|v| if let Verdict::Pass(changes) = v { Some(*changes) } else { None })
}

#[test]
fn as_often_as_it_should() {
    let run = verdicts("loss=0.1,dup=0.05,corrupt=0.02,reorder=0.01:5us,seed=3", 100_000);
    let lost = run.iter().filter(|v| **v == Verdict::Drop(Cause::Loss)).count();
    assert!((9_600..10_400).contains(&lost), "{lost}");
    let share = |what: fn(&Changes) -> bool| changes(&run).filter(what).count();
    let (twice, flipped, late) = (share(|c| c.duplicate), share(|c| c.corruption.is_some()), share(|c| c.late));
    assert!((4_200..4_800).contains(&twice), "{twice}");
    assert!((1_650..1_950).contains(&flipped), "{flipped}");
    assert!((780..1_020).contains(&late), "{late}");
    assert!(changes(&run).filter(|c| c.late).all(|c| (1..=5_000).contains(&c.delay.0)));
}

#[test]
fn bursts_are_as_long_and_as_frequent_as_their_model_says() {
    let run = verdicts("burst=0.01:0.25,seed=5", 400_000);
    let bad: Vec<bool> = run.iter().map(|v| *v == Verdict::Drop(Cause::Burst)).collect();
    let lost = bad.iter().filter(|b| **b).count() as f64;
    let bursts = bad.windows(2).filter(|w| !w[0] && w[1]).count() as f64;
    // Mean length 1 / leave; share of the bad state enter / (enter + leave).
    assert!((3.8..4.2).contains(&(lost / bursts)), "{}", lost / bursts);
    assert!((0.036..0.041).contains(&(lost / 400_000.0)), "{}", lost / 400_000.0);
}

#[test]
fn squeezed_bandwidth_is_exact_and_its_queue_drops() {
    // 100 bytes at 8 Mbit/s take 100 us; they come every microsecond; 1000 bytes may wait.
    let run = verdicts("rate=8M:1000", 100);
    let passed: Vec<u64> = run.iter().zip(0..).filter_map(|(v, i)| if let Verdict::Pass(c) = v { Some(i * 1_000 + c.delay.0) } else { None }).collect();
    let wanted: Vec<u64> = (1..=10).map(|n| n * 100_000).collect();
    assert_eq!(passed, wanted);
    assert_eq!(run.iter().filter(|v| **v == Verdict::Drop(Cause::Squeeze)).count(), 90);
}

#[test]
fn partitions_are_one_way_if_said_so_and_end() {
    let plan: FaultPlan = "partition=10us..20us:a>b,down=30us..40us:a<>b,crash=50us..60us:b".parse().unwrap();
    for (from, to, wanted) in
        [("a", "b", [true, true, true]), ("b", "a", [false, true, true]), ("a", "c", [false, false, false]), ("c", "b", [false, false, true])]
    {
        let mut faults = plan.faults(from, to, 0);
        let mut lost = |at: u64| matches!(faults.judge(Instant(at), 1), Verdict::Drop(_));
        for (begin, wanted) in [(10_000, wanted[0]), (30_000, wanted[1]), (50_000, wanted[2])] {
            let got = [lost(begin - 1), lost(begin), lost(begin + 9_999), lost(begin + 10_000)];
            assert_eq!(got, [false, wanted, wanted, false], "{from}>{to} at {begin}");
        }
    }
}

#[test]
fn both_ends_see_the_same_random_partitions() {
    let plan: FaultPlan = "partition=1ms/1ms,seed=11".parse().unwrap();
    let (mut there, mut back) = (plan.faults("a", "b", 0), plan.faults("b", "a", 1));
    let mut seen = [0; 4];
    for i in 0..100_000 {
        let lost = [&mut there, &mut back].map(|f| matches!(f.judge(Instant(i * 10_000), 1), Verdict::Drop(Cause::Partition)));
        seen[usize::from(lost[0]) + 2 * usize::from(lost[1])] += 1;
    }
    // Open half of the time; of that, half in both directions, a quarter each in one.
    assert!((45_000..55_000).contains(&seen[0]), "{seen:?}");
    assert!((20_000..30_000).contains(&seen[3]), "{seen:?}");
    assert!((9_000..16_000).contains(&seen[1]) && (9_000..16_000).contains(&seen[2]), "{seen:?}");
}

#[test]
fn faults_end_with_their_span_and_when_healed() {
    let run = verdicts("loss=1,during=10us..20us", 30);
    let lost: Vec<usize> = run.iter().enumerate().filter_map(|(i, v)| matches!(v, Verdict::Drop(_)).then_some(i)).collect();
    assert_eq!(lost, (10..20).collect::<Vec<_>>());
    let mut healed = faults("loss=1,partition=0..");
    healed.heal();
    assert_eq!(healed.judge(Instant(5), 1), Verdict::Pass(Changes::default()));
    assert!(healed.is_quiet());
}

#[test]
fn as_many_bits_are_flipped_as_the_verdict_says() {
    let mut faults = faults("corrupt=1,seed=2");
    let mut seen = [0; 9];
    for length in (0..40).cycle().take(4_000) {
        let mut packet = vec![0_u8; length];
        let Verdict::Pass(changes) = faults.apply(Instant(0), &mut packet) else { panic!("lost") };
        let flipped: u32 = packet.iter().map(|b| b.count_ones()).sum();
        assert_eq!(flipped, changes.corruption.map_or(0, |c| u32::from(c.bits)), "{length}");
        seen[flipped as usize] += 1;
    }
    assert!(seen[1..].iter().all(|n| *n > 300), "{seen:?}");
}

#[test]
fn a_random_outage_begins_inside_the_span_only() {
    let plan: FaultPlan = "crash=1ms/1ms,during=5ms..50ms,seed=4".parse().unwrap();
    let mut timetable = plan.timetable(0);
    let mut all: Vec<Change> = Vec::new();
    while let Some(change) = timetable.take(Instant(1 << 60)) {
        assert!(all.len() < 1_000, "they go on");
        all.push(change);
    }
    assert!(all.len() > 20 && all.len().is_multiple_of(2), "{}", all.len());
    for pair in all.chunks(2) {
        assert!(pair[0].begins && !pair[1].begins && pair[0].draw == pair[1].draw && pair[0].at < pair[1].at);
        assert!((5_000_000..50_000_000).contains(&pair[0].at.0));
    }
}

proptest! {
    #[test]
    fn nobody_overtakes_but_the_late(seed: u64, jitter in 0..100_000_u64, gaps in proptest::collection::vec(0..20_000_u64, 1..200)) {
        let mut faults = faults(&format!("jitter={jitter}ns,delay=1us,rate=100M,reorder=0.1,loss=0.1,during=0..500us,seed={seed}"));
        let (mut now, mut latest) = (0, 0);
        for gap in gaps {
            now += gap;
            if let Verdict::Pass(changes) = faults.judge(Instant(now), 64) && !changes.late {
                prop_assert!(now + changes.delay.0 >= latest);
                latest = now + changes.delay.0;
            }
        }
    }

    #[test]
    fn one_seed_one_story(seed: u64, other: u64) {
        let story = |seed| { let plan = FaultPlan::draw(seed); let mut f = plan.faults("x", "y", 3); (0..300).map(|i| f.judge(Instant(i * 50_000), 900)).collect::<Vec<_>>() };
        prop_assert_eq!(story(seed), story(seed));
        if seed != other && !FaultPlan::draw(seed).faults("x", "y", 3).is_quiet() {
            let stream = |n| { let mut f = "loss=0.5".parse::<FaultPlan>().unwrap().faults("x", "y", n); (0..200).map(|i| f.judge(Instant(i), 1)).collect::<Vec<_>>() };
            prop_assert_ne!(stream(seed), stream(other));
        }
    }

    #[test]
    fn a_clock_and_its_inverse(drift_ppm in -500_000..=500_000_i64, offset_ns in -10_000_000_000..10_000_000_000_i64, now in 0..1_u64 << 60) {
        let clock = Clock { drift_ppm, offset_ns };
        let local = clock.local(Instant(now));
        let first = clock.global(local);
        prop_assert!(first <= Instant(now));
        prop_assert!(clock.local(first) >= local || local.0 == 0);
        if first.0 > 0 {
            prop_assert!(clock.local(Instant(first.0 - 1)) < local);
        }
        prop_assert!(clock.local(Instant(now) + Duration(1)) >= local);
        let asked = clock.global(Instant(now));
        prop_assert!(clock.local(asked) >= Instant(now));
    }
}
