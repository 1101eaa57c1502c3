// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plan of faults, as data. Its text form is in `text.rs`, what it does to packets in `judge.rs`,
//! when outages begin in `timetable.rs`.

use crate::names::{Names, Way};
use crate::probability::Probability;
use crate::random::Random;
use crate::request_faults::RequestFaults;
use crate::skew::Clock;
use bellwire_time::{Duration, Instant};

/// All that may go wrong. The default: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// Seed of all that is drawn; if absent, the user of the plan gives one.
    pub seed: Option<u64>,
    /// When links have their faults and random outages may begin; always, if absent. Outages at
    /// given times do not heed it.
    pub during: Option<Span>,
    /// Faults of links without an entry of their own.
    pub every_link: LinkFaults,
    /// Links with faults of their own, which stand in place of `every_link`; the last entry that
    /// names a link counts.
    pub links: Vec<(Way, LinkFaults)>,
    /// Partitions, links down, nodes crashed.
    pub outages: Vec<Outage>,
    /// When ports of RDMA devices are down.
    pub ports: Vec<When>,
    /// When an RDMA device is taken out, for good.
    pub removal: Option<Removal>,
    /// Clocks that are not right; the last rule that names a node counts.
    pub skews: Vec<SkewRule>,
}

/// What one direction of a link does to its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkFaults {
    /// Loss, each packet for itself.
    pub loss: Probability,
    /// Loss in bursts.
    pub burst: Option<Burst>,
    /// A packet arrives twice.
    pub duplicate: Probability,
    /// A packet is late, and others overtake it.
    pub reorder: Reorder,
    /// Bits of a packet are flipped.
    pub corrupt: Corrupt,
    /// Added to the time of each packet.
    pub delay: Duration,
    /// Most that is added besides, drawn for each packet; order is kept.
    pub jitter: Duration,
    /// Less bandwidth.
    pub squeeze: Option<Squeeze>,
    /// Faults of requests of RDMA programs, above all of that.
    pub requests: RequestFaults,
}

/// Loss in bursts (Gilbert and Elliott): the link is good or bad, and may change with each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// From good to bad.
    pub enter: Probability,
    /// From bad to good.
    pub leave: Probability,
    /// Loss of a packet while the link is bad.
    pub loss: Probability,
}

/// Packets that are late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reorder {
    /// How many are.
    pub probability: Probability,
    /// Most that they are late; at least 1 ns, drawn for each.
    pub late_max: Duration,
}

/// Packets whose bits are flipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// How many are struck.
    pub probability: Probability,
    /// Most bits that are flipped in one packet, 1 to 8; the number is drawn.
    pub bits_max: u8,
}

/// Less bandwidth, with a queue in front of it that drops what does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Squeeze {
    /// Bits per second, not 0.
    pub bits_per_second: u64,
    /// Bytes that may wait. The fabric has queues of its own and takes the bandwidth only.
    pub queue_bytes: u64,
}

impl Default for Reorder {
    fn default() -> Self {
        Self { probability: Probability::NEVER, late_max: Duration::from_millis(1) }
    }
}

impl Default for Corrupt {
    fn default() -> Self {
        Self { probability: Probability::NEVER, bits_max: Corrupt::BITS_MAX }
    }
}

impl Corrupt {
    /// Limit of [`Corrupt::bits_max`].
    pub const BITS_MAX: u8 = 8;
}

impl Squeeze {
    /// Bytes that may wait, where the text does not say.
    pub const QUEUE_BYTES: u64 = 256 * 1024;
}

/// From an instant until just before another; `NEVER` for one without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First instant inside.
    pub from: Instant,
    /// First instant after it; later than `from`.
    pub to: Instant,
}

impl Span {
    /// All of time.
    pub const ALWAYS: Self = Self { from: Instant(0), to: Instant::NEVER };

    /// Whether an instant lies inside.
    pub fn contains(self, now: Instant) -> bool {
        self.from <= now && now < self.to
    }
}

/// When an outage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Once.
    At(Span),
    /// Again and again, at random.
    Random {
        /// Mean time from the end of one (or the beginning of all) to the next.
        between: Duration,
        /// Mean length.
        length: Duration,
    },
}

/// A device is taken out once, at a moment between two instants, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The earliest moment.
    pub from: Instant,
    /// The latest one, not before it.
    pub to: Instant,
}

/// Something stops working for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outage {
    /// No packet gets from some nodes to others, whatever the links between. Without a way: each
    /// node is alone; at random: two random halves, cut in one direction or in both.
    Partition(When, Option<Way>),
    /// A link (between the two ends that a way names) loses what is on it and what it is given.
    /// Without a way: all links; at random: one.
    Down(When, Option<Way>),
    /// Nodes stop and lose what they had; afterwards they start anew. At random: one node each
    /// time, of those named if any are.
    Crash(When, Option<Names>),
}

impl Outage {
    /// When it is.
    pub const fn when(&self) -> When {
        match self {
            Self::Partition(when, _) | Self::Down(when, _) | Self::Crash(when, _) => *when,
        }
    }
}

/// Clocks that are not right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkewRule {
    /// How they run, or, if drawn, the limits in both directions.
    pub clock: Clock,
    /// Each node draws its own.
    pub drawn: bool,
    /// Whose clocks.
    pub nodes: Names,
}

impl FaultPlan {
    /// Whether nothing can go wrong.
    pub fn is_none(&self) -> bool {
        let quiet = LinkFaults::default();
        self.every_link == quiet
            && self.links.iter().all(|(_, f)| *f == quiet)
            && self.outages.is_empty()
            && self.ports.is_empty()
            && self.removal.is_none()
            && self.skews.is_empty()
    }

    /// Faults of one direction of the link between two names.
    pub fn link(&self, from: &str, to: &str) -> &LinkFaults {
        self.links.iter().rev().find(|(way, _)| way.matches(from, to)).map_or(&self.every_link, |(_, faults)| faults)
    }

    /// The clock of a node. `number` is the node's stream of randomness; without a seed in the
    /// plan, `seed` is used.
    pub fn clock(&self, node: &str, number: u64, seed: u64) -> Clock {
        let Some(rule) = self.skews.iter().rev().find(|rule| rule.nodes.matches(node)) else { return Clock::default() };
        if !rule.drawn {
            return rule.clock;
        }
        let mut random = Random::new(Random::mix(self.seed.unwrap_or(seed), 0xc10c), number);
        let mut around_zero = |limit: i64| {
            let limit = limit.unsigned_abs().min(i64::MAX as u64 / 2);
            random.within(0, 2 * limit) as i64 - limit as i64
        };
        Clock { drift_ppm: around_zero(rule.clock.drift_ppm), offset_ns: around_zero(rule.clock.offset_ns) }
    }
}
