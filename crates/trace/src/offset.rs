// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far one clock is ahead of another, from messages between them.
//!
//! A message arrives after its sending has begun. So the time of its arrival by the receiver's
//! clock, less the time at which the sending began by the sender's clock, is no less than the
//! receiver's lead. Messages the other way bound the lead from the other side. Clocks drift apart,
//! so each bound holds at its own time: the lead is a line whose slope is bounded too, by pairs of
//! bounds and by `DRIFT_MAX`. The error is the most by which any such line differs from the one
//! that is given.

/// Clocks drift apart by no more than this, unless messages show more.
const DRIFT_MAX: f64 = 100e-6;
/// Parts of the time, of each of which the best bounds count.
const PARTS: usize = 16;
/// Times at which the error is looked at.
const TIMES: usize = 64;

/// Bounds of the lead of a second clock over a first.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// The lead is no more: at a time of the first clock.
    most: Vec<(u64, i64)>,
    /// The lead is no less.
    least: Vec<(u64, i64)>,
}

/// A line that the lead is near.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lead {
    /// The time of the first clock between which messages say something.
    times: (u64, u64),
    /// The lead at the first of these times.
    at_first: f64,
    rate: f64,
    base: i64,
    /// Nanoseconds by which it may be wrong.
    pub error: u64,
    /// Messages that bound it.
    pub messages: u64,
}

impl Bounds {
    /// A message to the second clock: its sending had not begun before `begun` by the first clock,
    /// and it had arrived when the second one showed `came`.
    pub fn there(&mut self, begun: u64, came: u64) {
        self.most.push((begun, came.wrapping_sub(begun).cast_signed()));
    }

    /// A message the other way: begun by the second clock, there by the first one.
    pub fn back(&mut self, begun: u64, came: u64) {
        self.least.push((came, begun.wrapping_sub(came).cast_signed()));
    }

    /// The lead. `None`: there were no messages one of the ways.
    pub fn lead(&self) -> Option<Lead> {
        let all = || self.most.iter().chain(&self.least).map(|(time, _)| *time);
        let base = self.most.first().filter(|_| !self.least.is_empty())?.1;
        let times = (all().min()?, all().max()?);
        let span = (times.1 - times.0) as f64;
        // Of each part of the time, the best.
        let best = |points: &[(u64, i64)], sign: f64| {
            let mut parts = [None::<(f64, f64)>; PARTS];
            for (time, lead) in points {
                let (time, lead) = ((time - times.0) as f64, lead.wrapping_sub(base) as f64);
                let part = &mut parts[((time / span.max(1.0) * PARTS as f64) as usize).min(PARTS - 1)];
                if part.is_none_or(|(_, known)| sign * lead < sign * known) {
                    *part = Some((time, lead));
                }
            }
            parts.into_iter().flatten().collect::<Vec<_>>()
        };
        let (most, least) = (best(&self.most, 1.0), best(&self.least, -1.0));
        let (slowest, fastest) = rates(&most, &least);
        // Without need, none.
        let rate = if slowest <= 0.0 && fastest >= 0.0 { 0.0 } else { f64::midpoint(slowest, fastest) };
        let over = most.iter().map(|(time, lead)| lead - rate * time).fold(f64::INFINITY, f64::min);
        let under = least.iter().map(|(time, lead)| lead - rate * time).fold(f64::NEG_INFINITY, f64::max);
        let at_first = f64::midpoint(over, under);
        let mut error = 0f64;
        for time in (0..=TIMES).map(|n| span * n as f64 / TIMES as f64) {
            let here = at_first + rate * time;
            let over = most.iter().map(|(at, lead)| lead + widest(time - at, slowest, fastest)).fold(f64::INFINITY, f64::min);
            let under = least.iter().map(|(at, lead)| lead - widest(at - time, slowest, fastest)).fold(f64::NEG_INFINITY, f64::max);
            error = error.max((over - here).abs()).max((here - under).abs());
        }
        // Between two of these times.
        error += (fastest - rate).max(rate - slowest) * span / TIMES as f64;
        Some(Lead { times, at_first, rate, base, error: error.ceil() as u64, messages: (self.most.len() + self.least.len()) as u64 })
    }
}

/// The rates at which the lead may grow, least and most.
fn rates(most: &[(f64, f64)], least: &[(f64, f64)]) -> (f64, f64) {
    let (mut slowest, mut fastest) = (f64::NEG_INFINITY, f64::INFINITY);
    for (over_at, over) in most {
        for (under_at, under) in least {
            let rate = (over - under) / (over_at - under_at);
            if over_at > under_at {
                fastest = fastest.min(rate);
            } else if over_at < under_at {
                slowest = slowest.max(rate);
            }
        }
    }
    if slowest > fastest {
        // No line is within the bounds, so the clocks do not go evenly.
        (slowest, fastest) = (fastest, slowest);
    }
    if slowest > DRIFT_MAX || fastest < -DRIFT_MAX {
        return (slowest.clamp(-1.0, 1.0), fastest.clamp(-1.0, 1.0));
    }
    (slowest.max(-DRIFT_MAX), fastest.min(DRIFT_MAX))
}

/// The most by which the lead may have grown in a time, which may be less than zero.
fn widest(time: f64, slowest: f64, fastest: f64) -> f64 {
    (time * slowest).max(time * fastest)
}

impl Lead {
    /// Without error: the clocks are one.
    pub const NONE: Self = Self { times: (0, 0), at_first: 0.0, rate: 0.0, base: 0, error: 0, messages: 0 };

    /// The lead at a time of the first clock, nanoseconds.
    pub fn at(&self, first: u64) -> i64 {
        let time = (first.clamp(self.times.0, self.times.1) - self.times.0) as f64;
        self.base.saturating_add((self.at_first + self.rate * time).round() as i64)
    }

    /// The time of the second clock at a time of the first.
    pub fn second(&self, first: u64) -> u64 {
        first.wrapping_add_signed(self.at(first))
    }

    /// The time of the first clock at a time of the second.
    pub fn first(&self, second: u64) -> u64 {
        let less = |lead: i64| second.wrapping_add_signed(lead.wrapping_neg());
        // The lead changes by millionths, so that each step is as much nearer.
        less(self.at(less(self.at(less(self.at(self.times.0))))))
    }

    /// By how many billionths the second clock is faster.
    pub fn drift(&self) -> i64 {
        (self.rate * 1e9).round() as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The clocks' lead at time 0, its rate in billionths, and messages: when begun, how long on
    /// their way, which way.
    fn arbitrary() -> impl Strategy<Value = (i64, i64, Vec<(u64, u64, bool)>)> {
        let message = |span: u64| (0..span, prop_oneof![1u64..50_000, 1u64..5_000_000], any::<bool>());
        let messages = prop_oneof![Just(1_000_000u64), Just(1_000_000_000), Just(100_000_000_000)]
            .prop_flat_map(move |span| proptest::collection::vec(message(span), 2..200));
        (-1_000_000_000_000_000i64..1_000_000_000_000_000, prop_oneof![Just(0), -90_000i64..90_000], messages)
    }

    proptest! {
        #[test]
        fn the_lead_is_within_its_error((lead, billionths, messages) in arbitrary()) {
            const EPOCH: u64 = 5_000_000_000_000_000;
            let truly = |first: u64| lead + (i128::from(first - EPOCH) * i128::from(billionths) / 1_000_000_000) as i64;
            let mut bounds = Bounds::default();
            for (begun, way, is_back) in &messages {
                // All by the first clock.
                let (begun, came) = (EPOCH + begun, EPOCH + begun + way);
                if *is_back {
                    bounds.back(begun.wrapping_add_signed(truly(begun)), came);
                } else {
                    bounds.there(begun, came.wrapping_add_signed(truly(came)));
                }
            }
            let Some(found) = bounds.lead() else {
                prop_assert!(messages.iter().all(|m| m.2) || messages.iter().all(|m| !m.2));
                return Ok(());
            };
            prop_assert_eq!(found.messages, messages.len() as u64);
            for (begun, way, _) in &messages {
                for time in [begun, &(begun + way)].map(|at| (EPOCH + at).clamp(found.times.0, found.times.1)) {
                    let wrong = found.at(time).abs_diff(truly(time));
                    prop_assert!(wrong <= found.error + 2, "wrong by {wrong}, error {}", found.error);
                    prop_assert!(found.first(found.second(time)).abs_diff(time) <= 2);
                }
            }
            // Half the sum of the least differences is the least that can be said.
            let quickest = |back: bool| messages.iter().filter(|m| m.2 == back).map(|m| m.1).min().unwrap_or(0);
            prop_assert!(billionths != 0 || found.error + 2 >= (quickest(true) + quickest(false)) / 2);
        }

        /// Whatever is in the files.
        #[test]
        fn anything(there in proptest::collection::vec(any::<(u64, u64)>(), 0..50), back in proptest::collection::vec(any::<(u64, u64)>(), 0..50), time: u64) {
            let mut bounds = Bounds::default();
            there.iter().for_each(|(begun, came)| bounds.there(*begun, *came));
            back.iter().for_each(|(begun, came)| bounds.back(*begun, *came));
            let lead = bounds.lead();
            prop_assert_eq!(lead.is_some(), !there.is_empty() && !back.is_empty());
            if let Some(lead) = lead {
                let _ = (lead.first(time), lead.second(time), lead.drift());
            }
        }
    }

    #[test]
    fn a_ping_and_a_pong() {
        let mut bounds = Bounds::default();
        bounds.there(1000, 6030);
        assert_eq!(bounds.lead(), None, "one way says nothing");
        bounds.back(6040, 1060);
        let lead = bounds.lead().unwrap();
        // Between 4980 and 5030.
        assert_eq!((lead.at(1030), lead.error, lead.messages, lead.drift()), (5005, 26, 2, 0));
        assert_eq!((lead.first(6035), lead.second(1030)), (1030, 6035));
    }

    #[test]
    fn a_drift_that_messages_show() {
        let mut bounds = Bounds::default();
        for at in (0..10_000_000_000u64).step_by(10_000_000) {
            let lead = at / 20_000;
            bounds.there(at, at + 10_000 + lead);
            bounds.back(at + lead, at + 10_000);
        }
        let lead = bounds.lead().unwrap();
        assert!((48_000..52_000).contains(&lead.drift()), "{lead:?}");
        assert!((9_000..25_000).contains(&lead.error), "{lead:?}");
    }
}
