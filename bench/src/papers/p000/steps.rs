// SPDX-License-Identifier: MIT OR Apache-2.0
//! The steps of a round, and the names of their figures.

use crate::bench::payload::Touch;
use crate::job::Job;
use crate::mapped::{Carrier, MappedJob};
use crate::papers::Step;
use crate::spans;
use crate::splitc::{Operation, SplitcJob, Vis};

/// Bytes of a short Active Message.
pub const SHORT: usize = 16;
/// Sizes of Figure 5.
pub const SIZES: [usize; 14] = [4, 8, 16, 32, 64, 128, 256, 512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10];
/// Those of a quick run.
const SIZES_QUICK: [usize; 5] = [4, 32, 1 << 10, 4 << 10, 16 << 10];
/// Credits.
pub const CREDITS: [u16; 7] = [2, 4, 8, 16, 32, 64, 128];
/// Those of a quick run.
const CREDITS_QUICK: [u16; 3] = [2, 8, 64];
/// Credits of the paper's versions.
pub const CREDITS_USUAL: u16 = 8;
/// Credits while overheads are measured: more than a burst has requests, so that none waits.
const CREDITS_FOR_BURSTS: u16 = 32;
/// The types of Figure 2.
pub const TYPES: [(&str, usize); 6] = [("char", 1), ("short", 2), ("int", 4), ("long", 8), ("float", 4), ("double", 8)];
/// The ways by which the processes reach each other.
pub const ROUTES: [&str; 3] = ["shared memory", "shared memory, guarded", "UDP over loopback"];
/// The mappings.
pub const CARRIERS: [(&str, Carrier); 3] = [("v1", Carrier::V1), ("v2", Carrier::V2), ("v3", Carrier::V3)];
/// The layouts of Split-C.
pub const LAYOUTS: [(&str, Vis); 2] = [("one VI", Vis::One), ("two VIs", Vis::Two)];
/// The routes by which both layouts are compared, by their places among all.
pub const BOTH: [usize; 2] = [0, 2];
/// Operations that are measured with other numbers of credits.
pub const CREDITED: [Operation; 2] = [Operation::Get, Operation::Put];
/// The word that stands for all.
const WORD: &str = "long";
/// Its bytes.
const WORD_BYTES: usize = 8;
/// Sizes of bulk operations by which they are compared, and those of a quick run.
const BULK: [usize; 6] = [64, 512, 1 << 10, 4 << 10, 16 << 10, 64 << 10];
const BULK_QUICK: [usize; 2] = [1 << 10, 16 << 10];

/// What both layouts do.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The operation.
    pub operation: Operation,
    /// Its bytes.
    pub bytes: usize,
}

impl Row {
    /// The name of its time by a layout and a route.
    pub fn name(self, layout: &str, route: usize) -> String {
        let what = if self.bytes == WORD_BYTES { WORD.to_owned() } else { self.bytes.to_string() };
        let time = word(layout, self.operation, &what);
        if route == BOTH[0] { time } else { format!("{time}, {}", ROUTES[route]) }
    }
}

/// By what both layouts are compared.
pub fn rows(quick: bool) -> Vec<Row> {
    let words = Operation::ALL.map(|operation| Row { operation, bytes: WORD_BYTES });
    let sizes: &[usize] = if quick { &BULK_QUICK } else { &BULK };
    let bulk =
        [Operation::Get, Operation::Put, Operation::Store].into_iter().flat_map(|operation| sizes.iter().map(move |bytes| Row { operation, bytes: *bytes }));
    words.into_iter().chain(bulk).collect()
}

/// Sizes that are measured.
pub fn sizes(quick: bool) -> &'static [usize] {
    if quick { &SIZES_QUICK } else { &SIZES }
}

/// Credits that are measured.
pub fn credits(quick: bool) -> &'static [u16] {
    if quick { &CREDITS_QUICK } else { &CREDITS }
}

/// Types that are measured.
pub fn types(quick: bool) -> &'static [(&'static str, usize)] {
    if quick { &TYPES[3..4] } else { &TYPES }
}

/// Everything, in the order of a round.
pub fn steps(quick: bool) -> Vec<Step> {
    let many = |full: u64| if quick { (full / 100).max(20) } else { full };
    let mut steps = Vec::new();
    for (route, name) in ROUTES.iter().enumerate() {
        let few = if route == 2 { 10 } else { 1 };
        let half = Job::Latency { size: 8, count: many(20_000) / few, touch: Touch::All };
        steps.push(Step::new(half, [format!("raw half, {name}")]).by(route));
        let bandwidth = Job::Bandwidth { size: 32 << 10, count: many(10_000) / few, touch: Touch::All, both_ways: false };
        steps.push(Step::new(bandwidth, [format!("raw GB/s, {name}")]).by(route));
    }
    let size = SHORT;
    steps.push(Step::new(Job::Latency { size, count: many(20_000), touch: Touch::All }, ["raw half"]));
    // The mappings by turns.
    let mapped = |carrier, job, credits| Job::Mapped { carrier, credits, job };
    for (name, carrier) in CARRIERS {
        steps.push(Step::new(mapped(carrier, MappedJob::Latency { count: many(10_000) }, CREDITS_USUAL), [format!("{name} half")]));
    }
    for (name, carrier) in CARRIERS {
        let overhead = mapped(carrier, MappedJob::Overhead { bursts: many(200) }, CREDITS_FOR_BURSTS);
        steps.push(Step::new(overhead, [format!("{name} o_s"), format!("{name} o_r")]));
    }
    for (name, carrier) in CARRIERS {
        steps.push(Step::new(mapped(carrier, MappedJob::Gap { count: many(20_000) }, CREDITS_USUAL), [format!("{name} gap")]));
    }
    let samples = many(4_000);
    steps.push(Step::new(Job::Mapped { carrier: Carrier::V3, credits: CREDITS_USUAL, job: MappedJob::Steps { samples } }, spans::names("v3")));
    steps.push(Step::new(Job::Splitc { vis: Vis::One, job: SplitcJob::Steps { samples } }, spans::names("get")));
    for operation in Operation::ALL {
        for (name, bytes) in types(quick) {
            for (layout, vis) in LAYOUTS {
                let job = SplitcJob::Operations { operation, bytes: *bytes, count: many(5_000) };
                steps.push(Step::new(Job::Splitc { vis, job }, [word(layout, operation, name)]));
            }
        }
    }
    for row in rows(quick) {
        for route in BOTH {
            // Words over shared memory are measured above.
            for (layout, vis) in LAYOUTS.into_iter().filter(|_| route != BOTH[0] || row.bytes > WORD_BYTES) {
                let few = if route == BOTH[0] { 1 } else { 4 };
                let count = many(((8 << 20) / row.bytes as u64).clamp(100, 2_000) / few);
                let job = SplitcJob::Operations { operation: row.operation, bytes: row.bytes, count };
                steps.push(Step::new(Job::Splitc { vis, job }, [row.name(layout, route)]).by(route));
            }
        }
    }
    for bytes in sizes(quick) {
        let (size, count) = (*bytes, many(5_000));
        steps.push(Step::new(Job::Bandwidth { size, count, touch: Touch::All, both_ways: false }, [format!("raw stream {bytes}")]));
        let stream = MappedJob::Stream { size, count };
        steps.push(Step::new(Job::Mapped { carrier: Carrier::V3, credits: CREDITS_USUAL, job: stream }, [format!("v3 stream {bytes}")]));
        let job = SplitcJob::Operations { operation: Operation::Put, bytes: size, count };
        steps.push(Step::new(Job::Splitc { vis: Vis::One, job }, [format!("splitc ns {bytes}"), format!("splitc stream {bytes}")]));
    }
    steps.push(Step::new(Job::Copy { size: 1 << 10, count: many(20_000), touch: Touch::Ends }, ["copies GB/s"]));
    for credits in credits(quick) {
        for (name, carrier) in [CARRIERS[0], CARRIERS[2]] {
            let gap = MappedJob::Gap { count: many(10_000) };
            steps.push(Step::new(Job::Mapped { carrier, credits: *credits, job: gap }, [format!("{name} gap, {credits} credits")]));
        }
    }
    for credits in credits(quick) {
        for operation in CREDITED {
            for route in BOTH {
                for (layout, vis) in LAYOUTS {
                    let job = SplitcJob::Credits { operation, credits: *credits, count: many(if route == BOTH[0] { 4_000 } else { 1_000 }) };
                    steps.push(Step::new(Job::Splitc { vis, job }, [credited(operation, layout, *credits, route)]).by(route));
                }
            }
        }
    }
    steps
}

/// The time of a word with so many credits.
pub fn credited(operation: Operation, layout: &str, credits: u16, route: usize) -> String {
    format!("{} {WORD}, {layout}, {credits} credits, {}", operation.name(), ROUTES[route])
}

/// The name of an operation's time.
pub fn word(layout: &str, operation: Operation, name: &str) -> String {
    format!("{} {name}, {layout}", operation.name())
}
