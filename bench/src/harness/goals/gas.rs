// SPDX-License-Identifier: MIT OR Apache-2.0
//! What global memory is to reach: beside others' remote memory, beside memcpy, and by itself.

use super::{Bound, Goal, Side, Table};
use crate::gas::{LONG, series as g};
use crate::plan::series as s;
use crate::report::size_text;
use crate::samples::{Kind, Metric, Samples, Series};

/// Words: their metric, and how many millions a second a core is to do at least.
const WORDS: [(Metric, &str, Option<f64>); 5] = [
    (Metric::GasRead, "read of a long", None),
    (Metric::GasWrite, "write of a long", None),
    (Metric::GasGet, "get of a long", Some(50.0)),
    (Metric::GasPut, "put of a long", Some(50.0)),
    (Metric::GasStore, "store of a long", Some(60.0)),
];
const PEERS: [Series; 4] = [g::GASNET, g::MPICH, g::OPEN_MPI, g::FABRIC];
const BULK: [(Metric, &str); 4] =
    [(Metric::GasBulkRead, "bulk read"), (Metric::GasBulkWrite, "bulk write"), (Metric::GasBulkGet, "bulk get"), (Metric::GasBulkPut, "bulk put")];
/// From this size on a bulk operation is a copy and little else.
const BULK_FROM: u64 = 4 << 10;

/// The goals for which both sides were measured.
pub fn evaluate_gas(samples: &Samples) -> Vec<Goal> {
    let table = Table { samples };
    let mut goals = Vec::new();
    for (metric, name, millions) in WORDS {
        let ours = || table.side(metric, g::GLOBAL, LONG);
        for peer in PEERS {
            goals.push(Goal::new(name.to_owned(), "ns", ours(), table.side(metric, peer, LONG), Bound::AtMost(0.5)));
        }
        // Where the place is looked up once for many accesses.
        if let Some(peer) = table.side(metric, g::GASNET, LONG) {
            goals.push(Goal::new(format!("{name}, through a view"), "ns", table.side(metric, g::VIEW, LONG), Some(peer), Bound::AtMost(0.5)));
        }
        if let Some(millions) = millions {
            let limit = Side::one(1e3 / millions, format!("{millions:.0} million a second"));
            goals.push(Goal::new(name.to_owned(), "ns", ours(), Some(limit), Bound::AtMost(1.0)));
        }
    }
    for (metric, name) in BULK {
        for size in samples.sizes_of(metric).into_iter().filter(|size| *size >= BULK_FROM) {
            let what = format!("{name} {}", size_text(size));
            let ours = || table.side(metric, g::GLOBAL, size);
            goals.push(Goal::new(what.clone(), "GB/s", ours(), table.side(Metric::GasBulkRead, s::MEMCPY, size), Bound::AtLeast(0.95)));
            let best = table.best_peer(ours().as_ref(), metric, size, |kind| matches!(kind, Kind::Peer { .. }));
            goals.push(Goal::new(what.clone(), "GB/s", ours(), best, Bound::AtLeast(1.0 / 1.05)));
            let copies = table.side(metric, g::MEMCPY_MANY, size);
            goals.push(Goal::new(format!("{what}, many in a phase"), "GB/s", table.side(metric, g::MANY, size), copies, Bound::AtLeast(0.95)));
        }
    }
    for series in [g::EM3D, g::SAMPLE] {
        let on = |processes| table.side(Metric::Speedup, series, processes);
        let two = on(2).map(|side| side.named("on 2 processes"));
        goals.push(Goal::new(format!("{}, on 1 process", series.name), "ms", on(1), two, Bound::AtLeast(1.7)));
    }
    goals.retain(Goal::has_both);
    goals
}
