// SPDX-License-Identifier: MIT OR Apache-2.0
//! The steps of a round, and the names of their figures.

use crate::job::Job;
use crate::ladder::{Carries, LadderJob, LoadJob, Rung, Wait};
use crate::papers::Step;

/// Sizes of messages, and those of a quick run.
const SIZES: [usize; 7] = [4, 64, 512, 1 << 10, 4 << 10, 16 << 10, 64 << 10];
const SIZES_QUICK: [usize; 3] = [4, 1 << 10, 16 << 10];
/// The ways of VIs, each with the number of its way, and of that where waits sleep at once.
pub const ROUTES: [(&str, [usize; 2]); 2] = [("shared memory", [0, 2]), ("UDP over loopback", [1, 3])];
/// Bytes that groups broadcast, and sum as numbers.
pub const GROUP_BYTES: usize = 1 << 10;
/// The operations of groups.
pub const GROUP: [&str; 3] = ["barrier", "broadcast", "allreduce"];
/// Bytes and messages in a second whose processor time is measured, and those of a quick run.
const LOADS: [(usize, u64); 4] = [(64, 1_000), (64, 10_000), (16 << 10, 1_000), (16 << 10, 5_000)];
/// The carriers of a load, each with the number of its way.
pub const CARRIERS: [(&str, Carries, usize); 5] = [
    ("nothing", Carries::Nothing, 1),
    ("VI, shared memory", Carries::Vi, 2),
    ("VI, UDP over loopback", Carries::Vi, 3),
    ("UDP socket", Carries::Udp, 1),
    ("TCP", Carries::Tcp, 1),
];

/// How a receiver waits; polling is what the rungs are measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// UDP sockets, in `poll`.
    UdpBlocking,
    /// The highest rung, in `VipCQWait` that sleeps at once.
    Blocking,
    /// The highest rung, in `VipCQWait` that spins as long as has lately been worth it.
    SpinThenBlock,
}

impl Waits {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::UdpBlocking, Self::Blocking, Self::SpinThenBlock];

    /// In tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::UdpBlocking => "UDP sockets, blocking",
            Self::Blocking => "VI, blocking",
            Self::SpinThenBlock => "VI, spinning, then blocking",
        }
    }
}

/// Sizes that are measured.
pub fn sizes(quick: bool) -> &'static [usize] {
    if quick { &SIZES_QUICK } else { &SIZES }
}

/// Loads that are measured.
pub fn loads(quick: bool) -> &'static [(usize, u64)] {
    if quick { &LOADS[..1] } else { &LOADS }
}

/// The name of half a round trip.
pub fn latency(rung: Rung, bytes: usize, route: &str) -> String {
    format!("{}, {bytes} B, {route}", rung.name())
}

/// The same, by a way of waiting.
pub fn waiting(waits: Waits, bytes: usize, route: &str) -> String {
    format!("{}, {bytes} B, {route}", waits.name())
}

/// The name of what a group does.
pub fn group(rung: Rung, what: &str, route: &str) -> String {
    format!("{what}, {}, {route}", rung.name())
}

/// The name of processor time.
pub fn load(carrier: &str, (bytes, rate): (usize, u64), side: &str) -> String {
    format!("{carrier}, {bytes} B at {rate}/s, {side}")
}

/// Everything, in the order of a round.
pub fn steps(quick: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    for (name, [way, asleep]) in ROUTES {
        for bytes in sizes(quick) {
            let full = ((32 << 20) / *bytes as u64).clamp(200, 4_000);
            let job = |count| LadderJob::Latency { bytes: *bytes, count: if quick { 20 } else { count } };
            for rung in Rung::ALL {
                let ladder = Job::Ladder { rung, wait: Wait::Poll, job: job(full) };
                steps.push(Step::new(ladder, [latency(rung, *bytes, name)]).by(way));
            }
            for (waits, rung, way) in [(Waits::UdpBlocking, Rung::Udp, way), (Waits::Blocking, Rung::Cached, asleep), (Waits::SpinThenBlock, Rung::Cached, way)]
            {
                let ladder = Job::Ladder { rung, wait: Wait::Sleep, job: job(full / 4) };
                steps.push(Step::new(ladder, [waiting(waits, *bytes, name)]).by(way));
            }
        }
        for rung in Rung::ALL {
            let job = LadderJob::Group { bytes: GROUP_BYTES, count: if quick { 20 } else { 1_000 } };
            steps.push(Step::new(Job::Ladder { rung, wait: Wait::Poll, job }, GROUP.map(|what| group(rung, what, name))).by(way));
        }
    }
    for (bytes, rate) in loads(quick) {
        for (name, carries, way) in CARRIERS {
            let load_job = LoadJob { carries, bytes: *bytes, rate: *rate, count: if quick { 20 } else { rate / 4 } };
            let sides: &[&str] = if carries == Carries::Nothing { &["sender"] } else { &["sender", "receiver"] };
            steps.push(Step::new(Job::Load(load_job), sides.iter().map(|side| load(name, (*bytes, *rate), side))).by(way));
        }
    }
    steps
}
