// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plan from a seed: each fault is there or not, mild or harsh, so that a run of many seeds meets
//! the combinations. Called by the simulator.

use crate::names::Names;
use crate::plan::{Burst, Corrupt, FaultPlan, LinkFaults, Outage, Reorder, SkewRule, Squeeze, When};
use crate::probability::Probability;
use crate::random::Random;
use crate::skew::Clock;
use bellwire_time::Duration;

/// Domain of this module's stream.
const DOMAIN: u64 = 0xd12a;

impl FaultPlan {
    /// The plan of this seed; the plan's own seed is the same. Nothing in it lasts for ever, and
    /// what packets survive on average is never less than a quarter of them. Faults do not end by
    /// themselves: set [`FaultPlan::during`] for that.
    pub fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed, DOMAIN);
        let mut plan = Self { seed: Some(seed), every_link: links(&mut random), ..Self::default() };
        for outage in [|when| Outage::Partition(when, None), |when| Outage::Down(when, None), |when| Outage::Crash(when, None)] {
            // Rarer than faults of packets: they hide them.
            if random.below(4) == 0 {
                plan.outages.push(outage(again_and_again(&mut random)));
            }
        }
        if coin(&mut random) {
            let drift_ppm = one_of(&mut random, &[20, 200, 10_000, 100_000]);
            let offset_ns = one_of(&mut random, &[0, 1_000_000, 3_600_000_000_000]);
            plan.skews.push(SkewRule { clock: Clock { drift_ppm, offset_ns }, drawn: true, nodes: Names::all() });
        }
        plan
    }
}

fn links(random: &mut Random) -> LinkFaults {
    let mut faults = LinkFaults::default();
    if coin(random) {
        faults.loss = share(random);
    }
    if coin(random) {
        let enter = Probability::from_billionths(one_of(random, &[1_000_000, 10_000_000, 50_000_000]));
        let leave = Probability::from_billionths(one_of(random, &[100_000_000, 300_000_000, 500_000_000]));
        let loss = if coin(random) { Probability::ALWAYS } else { Probability::from_billionths(700_000_000) };
        faults.burst = Some(Burst { enter, leave, loss });
    }
    if coin(random) {
        faults.duplicate = share(random);
    }
    if coin(random) {
        faults.reorder = Reorder { probability: share(random), late_max: time(random) };
    }
    if coin(random) {
        let bits_max = random.within(1, u64::from(Corrupt::BITS_MAX)) as u8;
        faults.corrupt = Corrupt { probability: share(random), bits_max };
    }
    if coin(random) {
        faults.delay = time(random);
    }
    if coin(random) {
        faults.jitter = time(random);
    }
    if random.below(4) == 0 {
        let bits_per_second = one_of(random, &[10_000_000, 100_000_000, 1_000_000_000]);
        faults.squeeze = Some(Squeeze { bits_per_second, queue_bytes: one_of(random, &[16 * 1024, Squeeze::QUEUE_BYTES]) });
    }
    faults
}

fn coin(random: &mut Random) -> bool {
    random.below(2) == 0
}

fn one_of<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[random.below(choices.len() as u64) as usize]
}

/// A share of packets, from one in ten thousand to one in five.
fn share(random: &mut Random) -> Probability {
    Probability::from_billionths(one_of(random, &[100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000, 200_000_000]))
}

/// A time as networks have it, 1 us to 10 ms.
fn time(random: &mut Random) -> Duration {
    let most = one_of(random, &[10, 100, 1_000, 10_000]);
    Duration::from_micros(random.within(1, most))
}

fn again_and_again(random: &mut Random) -> When {
    let between = Duration::from_millis(random.within(10, 1_000));
    let length = Duration::from_micros(random.within(100, 200_000));
    When::Random { between, length }
}
