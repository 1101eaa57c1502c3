// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rungs by size, the share of each, ways of waiting, what groups do, processor time.

use bellwire_report::bars::Bars;
use bellwire_report::model::{Axis, Cell, Column, Line, Plot, Scale, Table, Unit};

use super::steps::{CARRIERS, GROUP, ROUTES, Waits, group, latency, load, loads, sizes, waiting};
use crate::ladder::{Carries, Rung};
use crate::papers::model::Exhibit;
use crate::papers::values::{Round, Values};

/// The paper's mean reduction, per cent.
pub const PAPER_REDUCTION: f64 = 55.0;

/// All of them.
pub fn all(values: &Values, quick: bool) -> Vec<Exhibit> {
    let mut exhibits = Vec::new();
    for ((route, _), (ladder, shares)) in ROUTES.iter().zip([("Ladder, shared memory", "Shares, shared memory"), ("Ladder, UDP", "Shares, UDP")]) {
        exhibits.push(rungs(values, quick, route, ladder));
        exhibits.push(shares_of(values, quick, route, shares));
    }
    exhibits.extend([waits(values, quick), groups(values), processor(values, quick)]);
    exhibits
}

fn missing(value: Option<f64>) -> Cell {
    value.map_or_else(|| "not measured".into(), Cell::from)
}

fn median(values: &Values, of: impl Fn(&Round<'_>) -> Option<f64>) -> Option<f64> {
    values.of(of).map(|estimate| estimate.median)
}

fn us(values: &Values, name: &str) -> Cell {
    missing(values.median(name).map(|ns| ns / 1e3))
}

/// By how much a figure is below another, per cent.
pub fn reduction(round: &Round<'_>, from: &str, to: &str) -> Option<f64> {
    Some(100.0 * (1.0 - round.get(to)? / round.get(from)?))
}

/// The mean of a reduction over all sizes.
pub fn mean_reduction(round: &Round<'_>, quick: bool, names: impl Fn(usize) -> (String, String)) -> Option<f64> {
    let each = sizes(quick).iter().map(|bytes| {
        let (from, to) = names(*bytes);
        reduction(round, &from, &to)
    });
    Some(each.sum::<Option<f64>>()? / sizes(quick).len() as f64)
}

/// The lowest and the highest rung.
pub fn ends(bytes: usize, route: &str) -> (String, String) {
    (latency(Rung::Udp, bytes, route), latency(Rung::Cached, bytes, route))
}

/// What a rung takes off, as a part of what all take off together, per cent.
pub fn share(round: &Round<'_>, rung: usize, bytes: usize, route: &str) -> Option<f64> {
    let at = |rung: usize| round.get(&latency(Rung::ALL[rung], bytes, route));
    Some(100.0 * (at(rung - 1)? - at(rung)?) / (at(0)? - at(Rung::ALL.len() - 1)?))
}

fn rungs(values: &Values, quick: bool, route: &str, name: &'static str) -> Exhibit {
    let columns = std::iter::once(Column::new("size", Unit::Bytes))
        .chain(Rung::ALL.map(|rung| Column::measured(rung.name(), Unit::Microseconds)))
        .chain([Column::measured("less, first to last", Unit::Percent), Column::new("paper, mean", Unit::Percent)]);
    let mut table = Table::new(format!("Half a round trip by rung, VIs by {route}"), columns);
    let mut lines: Vec<Vec<(f64, f64)>> = vec![Vec::new(); Rung::ALL.len()];
    for bytes in sizes(quick) {
        let (from, to) = ends(*bytes, route);
        let mut cells = vec![Cell::from(*bytes)];
        for (rung, line) in Rung::ALL.iter().zip(&mut lines) {
            let name = latency(*rung, *bytes, route);
            line.extend(values.median(&name).map(|ns| (*bytes as f64, ns / 1e3)));
            cells.push(us(values, &name));
        }
        cells.extend([missing(median(values, |round| reduction(round, &from, &to))), Cell::from("")]);
        table.row(cells);
    }
    let mut mean = vec![Cell::from("mean over sizes")];
    for rung in Rung::ALL {
        let reduced = |round: &Round<'_>| mean_reduction(round, quick, |bytes| (latency(Rung::Udp, bytes, route), latency(rung, bytes, route)));
        mean.push(median(values, reduced).map_or_else(|| "not measured".into(), |percent| format!("{percent:.0} % less").into()));
    }
    mean.push(missing(median(values, |round| mean_reduction(round, quick, |bytes| ends(bytes, route)))));
    mean.push(PAPER_REDUCTION.into());
    table.row(mean);
    let plot = Plot {
        title: format!("Half a round trip by rung, VIs by {route}"),
        x: Axis::new("size", Unit::Bytes, Scale::Log2),
        y: Axis::new("time", Unit::Microseconds, Scale::Log10),
        lines: Rung::ALL.iter().zip(lines).map(|(rung, points)| Line::new(rung.name(), points)).collect(),
    };
    let about = [
        "Both sides poll. Each rung keeps what the one before has gained. The receiver posts its next receive before it answers. The first and the last byte of each message are checked.",
        "The first rung is the same beside both ways: UDP sockets over loopback.",
    ];
    Exhibit { plots: vec![plot], ..Exhibit::table(name, about, table) }
}

fn shares_of(values: &Values, quick: bool, route: &str, name: &'static str) -> Exhibit {
    let steps = 1..Rung::ALL.len();
    let columns = std::iter::once(Column::new("size", Unit::Bytes)).chain(steps.clone().map(|rung| Column::measured(Rung::ALL[rung].name(), Unit::Percent)));
    let title = format!("What each rung takes off, as a part of all, VIs by {route}");
    let mut table = Table::new(title.clone(), columns);
    let mut groups = Vec::new();
    for bytes in sizes(quick) {
        let shares: Vec<Option<f64>> = steps.clone().map(|rung| median(values, |round| share(round, rung, *bytes, route))).collect();
        table.row(std::iter::once(Cell::from(*bytes)).chain(shares.iter().map(|share| missing(*share))));
        // Bars begin at nothing: what a rung adds is in the table.
        groups.push((format!("{bytes} B"), shares.into_iter().map(|share| share.map(|share| share.max(0.0))).collect()));
    }
    let series = steps.map(|rung| Rung::ALL[rung].name().to_owned()).collect();
    let bars = Bars { title, unit: "% of what all take off".to_owned(), series, groups };
    let about = ["A rung that costs time has a negative share; its bar is left out. The paper's abstract gives no shares."];
    Exhibit { bars: vec![bars], ..Exhibit::table(name, about, table) }
}

fn waits(values: &Values, quick: bool) -> Exhibit {
    let columns = ROUTES.iter().flat_map(|(route, _)| {
        let polling = Column::measured(format!("VI, polling; {route}"), Unit::Microseconds);
        std::iter::once(polling).chain(Waits::ALL.map(|waits| Column::measured(format!("{}; {route}", waits.name()), Unit::Microseconds)))
    });
    let mut table = Table::new("Half a round trip by way of waiting", std::iter::once(Column::new("size", Unit::Bytes)).chain(columns));
    for bytes in sizes(quick) {
        let mut cells = vec![Cell::from(*bytes)];
        for (route, _) in ROUTES {
            cells.push(us(values, &latency(Rung::Cached, *bytes, route)));
            cells.extend(Waits::ALL.map(|waits| us(values, &waiting(waits, *bytes, route))));
        }
        table.row(cells);
    }
    let about = [
        "VI: the highest rung. Blocking: VipCQWait with BELLWIRE_SPIN_US=0. Spinning, then blocking: VipCQWait as it is, which spins for as long as has lately been worth it.",
    ];
    Exhibit::table("Waiting", about, table)
}

fn groups(values: &Values) -> Exhibit {
    let columns = ROUTES.iter().flat_map(|(route, _)| GROUP.map(|what| Column::measured(format!("{what}; {route}"), Unit::Microseconds)));
    let mut table = Table::new("Barrier, broadcast and allreduce of two processes", std::iter::once(Column::plain("rung")).chain(columns));
    for rung in Rung::ALL {
        let cells = ROUTES.iter().flat_map(|(route, _)| GROUP.map(|what| us(values, &group(rung, what, route))));
        table.row(std::iter::once(Cell::from(rung.name())).chain(cells));
    }
    Exhibit::table("Groups", ["Broadcasts of 1 KiB, from each process by turns; sums of 128 numbers. The data is checked."], table)
}

fn processor(values: &Values, quick: bool) -> Exhibit {
    let columns = [
        Column::plain("carried by"),
        Column::new("size", Unit::Bytes),
        Column::plain("messages/s"),
        Column::measured("sender, a message", Unit::Microseconds),
        Column::measured("receiver, a message", Unit::Microseconds),
        Column::measured("both, a byte (ns)", Unit::None),
    ];
    let mut table = Table::new("Processor time at a fixed rate, all threads", columns);
    for of in loads(quick) {
        for (name, carries, _) in CARRIERS {
            let mut cells = vec![Cell::from(name), Cell::from(of.0), Cell::from(of.1), us(values, &load(name, *of, "sender"))];
            if carries == Carries::Nothing {
                cells.extend(["none".into(), "none".into()]);
            } else {
                cells.push(us(values, &load(name, *of, "receiver")));
                cells.push(missing(median(values, |round| Some(both(round, name, *of)? / of.0 as f64))));
            }
            table.row(cells);
        }
    }
    let about = [
        "One way. The sender sleeps until each message is due, the receiver until it is there. \"nothing\" is this sleeping alone. What the kernel does in interrupts is not counted to a process.",
    ];
    Exhibit::table("Processor", about, table)
}

/// Processor time of a message at both ends, ns.
pub fn both(round: &Round<'_>, carrier: &str, of: (usize, u64)) -> Option<f64> {
    Some(round.get(&load(carrier, of, "sender"))? + round.get(&load(carrier, of, "receiver"))?)
}
