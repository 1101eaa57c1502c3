// SPDX-License-Identifier: MIT OR Apache-2.0
//! One direction of one link: what happens to each packet. Called by the fabric for each packet
//! that has left a link, and by real wires for each that they send or take.
//!
//! Cost: one comparison for a link without faults; otherwise one random number for each fault that
//! the link has. Nothing is allocated.

use crate::names::Way;
use crate::plan::{Corrupt, FaultPlan, LinkFaults, Outage, Span, Squeeze, When};
use crate::random::Random;
use crate::request_faults::RequestFaults;
use crate::timetable::{Change, Timetable};
use bellwire_time::{Duration, Instant};
use core::fmt;

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// It is lost.
    Drop(Cause),
    /// It arrives, changed in these ways (perhaps in none).
    Pass(Changes),
}

/// Why a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// By itself.
    Loss,
    /// With others, in a burst.
    Burst,
    /// No room in front of squeezed bandwidth.
    Squeeze,
    /// The two are parted.
    Partition,
    /// The link is down.
    Down,
    /// One of the two has crashed.
    Crash,
}

/// What happens to a packet that arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Time that is added.
    pub delay: Duration,
    /// Others may overtake it. If not, no packet judged later arrives earlier.
    pub late: bool,
    /// It arrives twice, the second time right after the first and not corrupted.
    pub duplicate: bool,
    /// Its bits are flipped so. [`Faults::apply`] has already done it.
    pub corruption: Option<Corruption>,
}

/// Bits to be flipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corruption {
    /// How many, 1 to 8.
    pub bits: u8,
    /// Where, as the seed of a stream.
    pub seed: u64,
}

impl Corruption {
    /// Flips the bits, each another one; fewer if the packet has fewer. An empty packet stays as it
    /// is.
    pub fn strike(self, packet: &mut [u8]) {
        for bit in self.places(packet.len()) {
            packet[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
    }

    /// Which bits it flips of a packet of so many bytes.
    pub fn places(self, bytes: usize) -> Vec<u64> {
        let bits_here = bytes as u64 * 8;
        let mut random = Random::new(self.seed, 0);
        let count = u64::from(self.bits.min(Corrupt::BITS_MAX)).min(bits_here);
        let mut struck = Vec::new();
        for _ in 0..count {
            let mut bit = random.below(bits_here);
            while struck.contains(&bit) {
                bit = (bit + 1) % bits_here;
            }
            struck.push(bit);
        }
        struck
    }
}

/// The faults of one direction of one link, with their state.
#[derive(Clone, Debug)]
pub struct Faults {
    model: LinkFaults,
    /// Squeezed bandwidth; in the model too if it is judged here.
    bandwidth: Option<u64>,
    during: Span,
    /// Nothing ever happens: the common case, told by one look.
    quiet: bool,
    random: Random,
    /// The link is in its bad state.
    bad: bool,
    /// When the packets judged so far, but for late ones, have arrived.
    latest: Instant,
    /// When the squeezed bandwidth is free.
    free_at: Instant,
    outages: Option<Box<Outages>>,
}

/// The outages of a real wire's direction.
#[derive(Clone, Debug)]
struct Outages {
    timetable: Timetable,
    outages: Vec<Outage>,
    from: String,
    to: String,
    /// Which outages strike now, and why the packet is then lost.
    open: Vec<(usize, Cause)>,
}

impl FaultPlan {
    /// The judge of packets from one name to another on a real wire: the link's faults, and
    /// outages that strike this direction. Each direction of each link should have a stream of its
    /// own. Without a seed in the plan, 0 is used.
    pub fn faults(&self, from: &str, to: &str, stream: u64) -> Faults {
        Faults::with_outages(self, from, to, self.seed.unwrap_or(0), stream)
    }
}

impl Faults {
    /// Faults of a link for a wire that keeps queues and outages itself, as the fabric does:
    /// bandwidth is not judged but asked for, with [`Faults::bits_per_second`]. Streams of one seed
    /// have nothing to do with each other.
    pub fn new(model: &LinkFaults, during: Option<Span>, seed: u64, stream: u64) -> Self {
        let judged = LinkFaults { squeeze: None, requests: RequestFaults::default(), ..*model };
        Self {
            model: judged,
            bandwidth: model.squeeze.map(|s| s.bits_per_second),
            during: during.unwrap_or(Span::ALWAYS),
            quiet: judged == LinkFaults::default(),
            random: Random::new(seed, stream),
            bad: false,
            latest: Instant(0),
            free_at: Instant(0),
            outages: None,
        }
    }

    pub(crate) fn with_outages(plan: &FaultPlan, from: &str, to: &str, seed: u64, stream: u64) -> Self {
        let mut faults = Self::new(plan.link(from, to), plan.during, seed, stream);
        faults.model.squeeze = plan.link(from, to).squeeze;
        faults.quiet &= faults.model.squeeze.is_none();
        if !plan.outages.is_empty() {
            let timetable = plan.timetable(seed);
            faults.quiet = false;
            faults.outages = Some(Box::new(Outages { timetable, outages: plan.outages.clone(), from: from.into(), to: to.into(), open: Vec::new() }));
        }
        faults
    }

    /// Whether nothing ever happens to a packet.
    #[inline]
    pub const fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Ends all faults for ever. Packets keep their order behind those that were delayed.
    pub fn heal(&mut self) {
        self.model = LinkFaults::default();
        self.bandwidth = None;
        self.outages = None;
        self.quiet = self.latest == Instant(0);
    }

    /// Decides about a packet of so many bytes that is sent at `now`, which must not go back from
    /// call to call.
    #[inline]
    pub fn judge(&mut self, now: Instant, bytes: usize) -> Verdict {
        if self.quiet { Verdict::Pass(Changes::default()) } else { self.judge_slowly(now, bytes) }
    }

    /// The same, and flips the packet's bits if it is to be corrupted. A duplicate that the verdict
    /// asks for is of the packet before.
    pub fn apply(&mut self, now: Instant, packet: &mut [u8]) -> Verdict {
        let verdict = self.judge(now, packet.len());
        if let Verdict::Pass(Changes { corruption: Some(corruption), .. }) = verdict {
            corruption.strike(packet);
        }
        verdict
    }

    /// Some of the last packets were taken back before they left; those that were not have passed
    /// by `latest`. Order counts from there.
    pub const fn take_back_to(&mut self, latest: Instant) {
        if latest.0 < self.latest.0 {
            self.latest = latest;
        }
    }

    /// Bandwidth left at this time, bits per second, for a wire that has queues of its own; `None`:
    /// all of it.
    #[inline]
    pub fn bits_per_second(&self, now: Instant) -> Option<u64> {
        self.bandwidth.filter(|_| self.during.contains(now))
    }

    #[inline(never)]
    fn judge_slowly(&mut self, now: Instant, bytes: usize) -> Verdict {
        if let Some(outages) = &mut self.outages
            && let Some(cause) = outages.cause(now)
        {
            return Verdict::Drop(cause);
        }
        let mut changes = Changes::default();
        if self.during.contains(now) {
            if let Some(cause) = self.lost() {
                return Verdict::Drop(cause);
            }
            if let Some(squeeze) = self.model.squeeze {
                let Some(wait) = self.squeezed(squeeze, now, bytes) else { return Verdict::Drop(Cause::Squeeze) };
                changes.delay = wait;
            }
            self.change(&mut changes, bytes);
        }
        let arrival = now + changes.delay;
        if changes.late {
            let late = self.random.within(1, self.model.reorder.late_max.0.max(1));
            changes.delay = Duration(changes.delay.0.saturating_add(late));
        } else {
            // F2: whatever was drawn, nobody overtakes.
            self.latest = self.latest.max(arrival);
            changes.delay = self.latest.since(now);
        }
        Verdict::Pass(changes)
    }

    fn lost(&mut self) -> Option<Cause> {
        if let Some(burst) = self.model.burst {
            let turns = if self.bad { burst.leave } else { burst.enter };
            self.bad ^= turns.strikes(&mut self.random);
            if self.bad && burst.loss.strikes(&mut self.random) {
                return Some(Cause::Burst);
            }
        }
        self.model.loss.strikes(&mut self.random).then_some(Cause::Loss)
    }

    /// How long the packet waits for bandwidth and is on its way through; `None` if there is no
    /// room.
    fn squeezed(&mut self, squeeze: Squeeze, now: Instant, bytes: usize) -> Option<Duration> {
        let rate = u128::from(squeeze.bits_per_second.max(1));
        let time = |bytes: u64| u64::try_from((u128::from(bytes) * 8_000_000_000).div_ceil(rate)).unwrap_or(u64::MAX);
        let waiting = self.free_at.since(now);
        // A queue that is empty takes a packet of any size.
        if waiting > Duration::ZERO && waiting.0.saturating_add(time(bytes as u64)) > time(squeeze.queue_bytes) {
            return None;
        }
        self.free_at = now.max(self.free_at) + Duration(time(bytes as u64));
        Some(self.free_at.since(now))
    }

    fn change(&mut self, changes: &mut Changes, bytes: usize) {
        let LinkFaults { duplicate, reorder, corrupt, delay, jitter, .. } = self.model;
        let jitter = if jitter == Duration::ZERO { 0 } else { self.random.within(0, jitter.0) };
        changes.delay = Duration(changes.delay.0.saturating_add(delay.0).saturating_add(jitter));
        changes.duplicate = duplicate.strikes(&mut self.random);
        changes.late = reorder.probability.strikes(&mut self.random);
        if corrupt.probability.strikes(&mut self.random) && bytes > 0 {
            let bits = self.random.within(1, u64::from(corrupt.bits_max.clamp(1, Corrupt::BITS_MAX))) as u8;
            changes.corruption = Some(Corruption { bits, seed: self.random.next_u64() });
        }
    }
}

impl Outages {
    /// Why packets are lost now, if they are.
    fn cause(&mut self, now: Instant) -> Option<Cause> {
        while let Some(change) = self.timetable.take(now) {
            if !change.begins {
                self.open.retain(|(outage, _)| *outage != change.outage);
            } else if let Some(cause) = self.strikes(change) {
                self.open.push((change.outage, cause));
            }
        }
        self.open.first().map(|&(_, cause)| cause)
    }

    /// Whether an outage that begins strikes this direction.
    fn strikes(&self, change: Change) -> Option<Cause> {
        let goes = |way: &Way| way.matches(&self.from, &self.to);
        let (strikes, cause) = match &self.outages[change.outage] {
            Outage::Partition(_, Some(way)) => (goes(way), Cause::Partition),
            Outage::Partition(When::At(_), None) => (true, Cause::Partition),
            // Both ends of a link draw the same; the order of the names tells them which direction
            // is meant.
            Outage::Partition(When::Random { .. }, None) => (change.cuts(self.from < self.to), Cause::Partition),
            Outage::Down(_, way) => (way.as_ref().is_none_or(goes), Cause::Down),
            Outage::Crash(_, nodes) => (nodes.as_ref().is_none_or(|n| n.matches(&self.from) || n.matches(&self.to)), Cause::Crash),
        };
        strikes.then_some(cause)
    }
}

impl Change {
    /// Of a random partition between two sides: whether it cuts this direction. Half of them cut
    /// both, a quarter each direction alone.
    pub const fn cuts(&self, forward: bool) -> bool {
        match self.draw >> 62 {
            0 => forward,
            1 => !forward,
            _ => true,
        }
    }
}

impl Cause {
    /// A word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Burst => "burst",
            Self::Squeeze => "squeeze",
            Self::Partition => "partition",
            Self::Down => "down",
            Self::Crash => "crash",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
