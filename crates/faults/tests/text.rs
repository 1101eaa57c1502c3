// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text form: a printed plan reads back the same; users' texts mean what the manual says;
//! errors name the clause.

use bellwire_faults::{Burst, Clock, Corrupt, FaultPlan, LinkFaults, Outage, Probability, Removal, Reorder, RequestFaults, SkewRule, Span, Squeeze, Way, When};
use bellwire_time::{Duration, Instant};
use proptest::prelude::*;

fn probability() -> impl Strategy<Value = Probability> {
    prop_oneof![Just(0), Just(1_000_000_000), 0..=1_000_000_000_u32].prop_map(Probability::from_billionths)
}

fn time() -> impl Strategy<Value = Duration> {
    (0..1_000_000_u64, prop_oneof![Just(1), Just(1_000), Just(1_000_000), Just(1_000_000_000)]).prop_map(|(n, unit)| Duration(n * unit))
}

fn link_faults() -> impl Strategy<Value = LinkFaults> {
    let burst = proptest::option::of((probability(), probability(), probability()).prop_map(|(enter, leave, loss)| Burst { enter, leave, loss }));
    let reorder = (probability(), 1..10_000_000_u64).prop_map(|(probability, late)| Reorder { probability, late_max: Duration(late) });
    let corrupt = (probability(), 1..=8_u8).prop_map(|(probability, bits_max)| Corrupt { probability, bits_max });
    let squeeze = proptest::option::of((1..=u64::MAX, any::<u64>()).prop_map(|(bits_per_second, queue_bytes)| Squeeze { bits_per_second, queue_bytes }));
    let requests = (probability(), 1..=u16::MAX, probability(), probability(), probability(), probability())
        .prop_map(|(unready, unready_times, unanswered, denied, broken, death)| RequestFaults { unready, unready_times, unanswered, denied, broken, death });
    (probability(), burst, probability(), reorder, corrupt, time(), time(), squeeze, requests).prop_map(
        |(loss, burst, duplicate, reorder, corrupt, delay, jitter, squeeze, requests)| LinkFaults {
            loss,
            burst,
            duplicate,
            reorder,
            corrupt,
            delay,
            jitter,
            squeeze,
            requests,
        },
    )
}

fn span() -> impl Strategy<Value = Span> {
    (time(), 1..u64::MAX / 2, any::<bool>()).prop_map(|(from, length, endless)| {
        let from = Instant(from.0);
        Span { from, to: if endless { Instant::NEVER } else { from + Duration(length) } }
    })
}

fn when() -> impl Strategy<Value = When> {
    let random = (1..u64::MAX, time()).prop_map(|(between, length)| When::Random { between: Duration(between), length });
    prop_oneof![span().prop_map(When::At), random]
}

fn way() -> impl Strategy<Value = Way> {
    let name = "[a-z][a-z0-9.:-]{0,6}[*]?|[*]|10\\.0\\.0\\.[1-9]:4791|\\[::1\\]:7";
    let names = proptest::collection::vec(name, 1..3).prop_map(|v| v.join("+"));
    (names.clone(), names, any::<bool>()).prop_map(|(a, b, both)| format!("{a}{}{b}", if both { "<>" } else { ">" }).parse().unwrap())
}

fn outage() -> impl Strategy<Value = Outage> {
    let way = || proptest::option::of(way());
    prop_oneof![
        (when(), way()).prop_map(|(when, way)| Outage::Partition(when, way)),
        (when(), way()).prop_map(|(when, way)| Outage::Down(when, way)),
        (when(), way())
            .prop_filter("times need names", |(when, way)| way.is_some() || matches!(when, When::Random { .. }))
            .prop_map(|(when, way)| Outage::Crash(when, way.map(|w| w.from))),
    ]
}

fn skew() -> impl Strategy<Value = SkewRule> {
    (-Clock::DRIFT_MAX_PPM..=Clock::DRIFT_MAX_PPM, -i64::MAX..i64::MAX, any::<bool>(), way()).prop_map(|(drift_ppm, offset_ns, drawn, way)| SkewRule {
        clock: Clock { drift_ppm, offset_ns },
        drawn,
        nodes: way.to,
    })
}

fn plan() -> impl Strategy<Value = FaultPlan> {
    let many = |n| 0..n;
    (
        proptest::option::of(any::<u64>()),
        proptest::option::of(span()),
        link_faults(),
        proptest::collection::vec((way(), link_faults()), many(3)),
        proptest::collection::vec(outage(), many(3)),
        proptest::collection::vec(when(), many(3)),
        proptest::option::of((0..u64::MAX / 2, 0..u64::MAX / 2)),
        proptest::collection::vec(skew(), many(3)),
    )
        .prop_map(|(seed, during, every_link, links, outages, ports, removal, skews)| {
            let removal = removal.map(|(from, for_)| Removal { from: Instant(from), to: Instant(from + for_) });
            FaultPlan { seed, during, every_link, links, outages, ports, removal, skews }
        })
}

proptest! {
    #[test]
    fn what_is_printed_reads_back_the_same(plan in plan()) {
        let text = plan.to_string();
        prop_assert_eq!(text.parse::<FaultPlan>(), Ok(plan), "{}", text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[a-z0-9.,;:<>=~/*%+ -]{0,60}|\\PC{0,40}") {
        if let Ok(plan) = text.parse::<FaultPlan>() {
            prop_assert_eq!(plan.to_string().parse::<FaultPlan>(), Ok(plan), "{}", text);
        }
    }
}

#[test]
fn drawn_plans_read_back_the_same_and_differ() {
    let plans: Vec<_> = (0..500).map(FaultPlan::draw).collect();
    for plan in &plans {
        assert_eq!(plan.to_string().parse::<FaultPlan>().as_ref(), Ok(plan), "{plan}");
    }
    assert_eq!(FaultPlan::draw(3), plans[3]);
    let with = |what: fn(&FaultPlan) -> bool| plans.iter().filter(|p| what(p)).count();
    for (what, count) in [
        ("loss", with(|p| p.every_link.loss != Probability::NEVER)),
        ("burst", with(|p| p.every_link.burst.is_some())),
        ("rate", with(|p| p.every_link.squeeze.is_some())),
        ("partition", with(|p| p.outages.iter().any(|o| matches!(o, Outage::Partition(..))))),
        ("crash", with(|p| p.outages.iter().any(|o| matches!(o, Outage::Crash(..))))),
        ("skew", with(|p| !p.skews.is_empty())),
    ] {
        assert!((75..400).contains(&count), "{what} in {count} of 500 plans");
    }
}

#[test]
fn users_text() {
    let text = "loss=0.01,reorder=0.02,dup=0.01,corrupt=0.001,delay=2ms,jitter=100us,burst=0.1:0.3,partition=1s..3s:a>b,seed=7";
    let plan: FaultPlan = text.parse().unwrap();
    assert_eq!(plan.seed, Some(7));
    assert_eq!(plan.every_link.loss, Probability::from_billionths(10_000_000));
    assert_eq!(plan.every_link.jitter, Duration(100_000));
    assert_eq!(plan.every_link.reorder.late_max, Duration::from_millis(1));
    let Outage::Partition(When::At(span), Some(way)) = &plan.outages[0] else { panic!("{plan}") };
    assert_eq!(*span, Span { from: Instant(1_000_000_000), to: Instant(3_000_000_000) });
    assert!(way.matches("a", "b") && !way.matches("b", "a"));

    let plan: FaultPlan = " loss = 1% ; 10.0.0.1:4000<>10.0.0.2*: rate=10M, delay=5ms ; s0>n3: ".parse().unwrap();
    assert_eq!(plan.link("10.0.0.2:9", "10.0.0.1:4000").delay, Duration::from_millis(5));
    assert_eq!(plan.link("10.0.0.1:4000", "10.0.0.3").loss.to_string(), "0.01");
    assert_eq!(*plan.link("s0", "n3"), LinkFaults::default());
    assert!("".parse::<FaultPlan>().unwrap().is_none());
}

#[test]
fn errors_name_the_clause_and_say_why() {
    for (text, wanted) in [
        ("loss=2", "in \"loss=2\": 2: a probability lies between 0 and 1"),
        ("loss=0.5,loss=0.1", "loss is said twice"),
        ("los=0.5", "no fault is called los; there are loss, burst"),
        ("loss", "a clause is name=value"),
        ("delay=5", "5: a time is a number with ns, us, ms or s"),
        ("partition=3s..1s", "it ends before it begins"),
        ("partition=1s..3s:a", "a way is a>b for one direction, a<>b for both"),
        ("crash=1s..2s", "needs names"),
        ("a>b:seed=3", "seed is nothing that one link has"),
        ("corrupt=0.1:9", "1 to 8 bits are flipped"),
        ("skew=999999ppm", "no clock drifts by more"),
        ("rate=0", "lets nothing through"),
        ("a>b*c:loss=1", "no name"),
        ("loss=1;dup=1", "one group"),
    ] {
        let error = text.parse::<FaultPlan>().expect_err(text).to_string();
        assert!(error.contains(wanted), "{text} gives: {error}");
    }
}
