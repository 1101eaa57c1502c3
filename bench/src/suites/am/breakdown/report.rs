// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pieces as tables for people.

use std::fmt::Write;

use super::path::{self, Kind, Primitive};
use super::{Breakdown, Breakdowns, BulkDifference, Cost};
use crate::report::size_text;
use crate::report::table::{ending, heading_of};
use bellwire_report::text::{align, number};

/// The tables.
pub fn table(found: &Breakdowns) -> String {
    let mut text = heading_of("breakdown", &found.head, "");
    let _ = writeln!(text, "Cycles are those of the time stamp counter: {} of a nanosecond each. What a mark costs is taken off.", number(found.ns_per_cycle));
    text += &mapping(found);
    text += &overhead(found);
    text += &primitives(found);
    text += &bulk(found);
    text += &marks(found);
    text + &ending(&[], &[], &found.failures)
}

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

fn signed(value: f64) -> String {
    if value.abs() < 0.05 { "0".to_owned() } else { format!("{value:+.1}") }
}

/// Cycles of something. Less the cost of a mark, it may be noise below zero, which is no gain.
fn plain(value: f64) -> String {
    format!("{:.1}", value.max(0.0))
}

fn percent(part: f64, whole: f64) -> String {
    format!("{:.1} %", 100.0 * part / whole)
}

/// What half a round trip waits for, beside the raw VI's.
fn mapping(found: &Breakdowns) -> String {
    let (Some(raw), Some(short), Some(differences)) = (found.way("raw VI"), found.way("short"), found.differences()) else { return String::new() };
    let delta = (short.round_trip - raw.round_trip) / 2.0;
    let mut rows = vec![row(&["half a round trip waits for", "raw VI", "Active Messages", "difference", "of delta"])];
    for (kind, difference) in differences {
        let (raw, short) = (raw.waited(kind) / 2.0, short.waited(kind) / 2.0);
        if raw != 0.0 || short != 0.0 {
            rows.push(vec![kind.title().to_owned(), plain(raw), plain(short), signed(difference), percent(difference, delta)]);
        }
    }
    rows.push(vec!["all (delta)".to_owned(), plain(raw.round_trip / 2.0), plain(short.round_trip / 2.0), signed(delta), percent(delta, delta)]);
    let mut text = format!("\nMapping cost, {} [cycles]\n{}", size_text(short.size), align(&rows));
    if let Some(measured) = found.delta {
        let _ = writeln!(text, "  delta measured once more, without marks: {} (the categories: {} of it)", signed(measured), percent(delta, measured));
    }
    text + "  Transfer: from one side's having sent until the other has noticed it, less what the processors do meanwhile; of the raw VI also the taking, inside VipRecvDone.\n"
}

/// Rows with the same text added up, in the order in which they first come.
fn summed<'c>(costs: impl Iterator<Item = &'c Cost>) -> Vec<(&'static str, f64, usize)> {
    let mut rows: Vec<(&'static str, f64, usize)> = Vec::new();
    for cost in costs {
        match rows.iter_mut().find(|(what, ..)| *what == cost.what) {
            Some((_, cycles, times)) => (*cycles, *times) = (*cycles + cost.cycles, *times + 1),
            None => rows.push((cost.what, cost.cycles, 1)),
        }
    }
    rows
}

/// The paper's Table 3: processor time of a request and its reply, both sides, whether waited for
/// or not.
fn overhead(found: &Breakdowns) -> String {
    let Some(short) = found.way("short") else { return String::new() };
    let whole = short.processor();
    let mut rows = vec![row(&["category, operation", "cycles", "of overhead"])];
    for kind in [Kind::BaseVi, Kind::Notification, Kind::FlowControl, Kind::Semantics] {
        let mut operations = summed(short.costs.iter().filter(|cost| cost.kind == kind));
        if kind == Kind::Notification {
            operations.extend(short.empty_poll.map(|cycles| ("polls that find nothing, one per message", 2.0 * cycles, 2)));
        }
        let cycles: f64 = operations.iter().map(|(_, cycles, _)| cycles).sum();
        rows.push(vec![kind.title().to_owned(), plain(cycles), percent(cycles, whole)]);
        for (what, cycles, times) in operations {
            let times = if times > 1 { format!(" ({times})") } else { String::new() };
            rows.push(vec![format!("  {what}{times}"), plain(cycles), percent(cycles, whole)]);
        }
    }
    rows.push(vec!["all".to_owned(), plain(whole), percent(whole, whole)]);
    format!("\nProcessor time of a short request and its reply, both sides (Table 3 of the AMVIA paper)\n{}", align(&rows))
}

/// By call and category, for each kind of request.
fn primitives(found: &Breakdowns) -> String {
    let ways: Vec<&Breakdown> = found.ways.iter().filter(|way| way.name != "raw VI").collect();
    if ways.is_empty() {
        return String::new();
    }
    let heading = ways.iter().map(|way| format!("{} {}", way.name, size_text(way.size)));
    let mut rows = vec![std::iter::once("call, category".to_owned()).chain(heading).collect::<Vec<_>>()];
    for of in Primitive::ALL {
        let sum = |way: &Breakdown, kind: Option<Kind>| -> f64 {
            let wanted = |cost: &&Cost| cost.of == of && cost.kind != Kind::Program && kind.is_none_or(|kind| cost.kind == kind);
            way.costs.iter().filter(wanted).map(|cost| cost.cycles).sum()
        };
        rows.push(std::iter::once(of.title().to_owned()).chain(ways.iter().map(|way| plain(sum(way, None)))).collect());
        for kind in [Kind::BaseVi, Kind::FlowControl, Kind::Semantics] {
            if ways.iter().any(|way| sum(way, Some(kind)) != 0.0) {
                let cells = ways.iter().map(|way| plain(sum(way, Some(kind))));
                rows.push(std::iter::once(format!("  {}", kind.title())).chain(cells).collect());
            }
        }
    }
    let of_all = |title: &str, value: &dyn Fn(&Breakdown) -> f64| -> Vec<String> {
        std::iter::once(title.to_owned()).chain(ways.iter().map(|way| plain(value(way)))).collect()
    };
    if let Some(raw) = found.way("raw VI").and_then(|way| way.empty_poll) {
        let mut row = of_all("VipRecvDone that finds nothing", &|_| raw);
        row.truncate(2);
        rows.push(row);
    }
    rows.push(of_all("poll that finds nothing", &|way| way.empty_poll.unwrap_or(f64::NAN)));
    rows.push(of_all("transfers, both", &|way| way.waited(Kind::Transfer)));
    rows.push(of_all("round trip", &|way| way.round_trip));
    format!("\nBy call, request of each kind with a short reply [cycles]\n{}", align(&rows))
}

/// The paper's Table 5.
fn bulk(found: &Breakdowns) -> String {
    let mut text = String::new();
    for BulkDifference { size, write, bulk, costs } in &found.bulk {
        let mut rows = vec![row(&["component", "cycles", "of the difference"])];
        let mut component = |what: &str, cycles: f64| rows.push(vec![what.to_owned(), signed(cycles), percent(cycles, bulk - write)]);
        for cost in costs {
            match cost.kind {
                Kind::BaseVi if cost.what == path::COPY => component("data into the segment, above the raw write", cost.cycles - write),
                Kind::BaseVi => component("the message behind it", cost.cycles),
                _ => component(cost.what, cost.cycles),
            }
        }
        let named: f64 = costs.iter().map(|cost| cost.cycles).sum();
        component("between the calls; less what is done side by side without marks", bulk - named);
        component("all", bulk - write);
        let _ = write!(
            text,
            "\nBulk messages of {} in a stream: {} cycles each, the raw RDMA write {}; the difference (Table 5)\n{}",
            size_text(*size),
            number(*bulk),
            number(*write),
            align(&rows)
        );
    }
    text
}

fn marks(found: &Breakdowns) -> String {
    let mut rows = vec![row(&["way", "round trip", "with marks", "marks waited for"])];
    rows.extend(found.ways.iter().map(|way| {
        let name = format!("{} {}", way.name, size_text(way.size));
        let waited = way.costs.iter().filter(|cost| cost.waited_for && cost.kind != Kind::Transfer).count();
        vec![name, plain(way.round_trip), plain(way.marked_round_trip), waited.to_string()]
    }));
    format!("\nCalibration [cycles]; a mark takes {}\n{}", plain(found.mark), align(&rows))
}

#[cfg(test)]
mod tests {
    use super::super::path;
    use super::*;

    fn found() -> Breakdowns {
        let way = |name, size, legs: &[path::Leg], round_trip: f64| {
            let times = vec![40.0; legs.len()];
            let costs = super::super::costs(legs, &times, round_trip, round_trip + 600.0, 25.0);
            Breakdown { name, size, round_trip, marked_round_trip: round_trip + 600.0, costs, empty_poll: Some(20.0) }
        };
        let cost = |(leg, cycles): (&path::Leg, f64)| Cost { what: leg.what, kind: leg.kind, of: leg.of, waited_for: leg.waited_for, cycles };
        let stream = path::BULK_STREAM.iter().zip([20.0, 160.0, 15.0, 35.0, 30.0]).map(cost).collect();
        Breakdowns {
            head: crate::run::Head::made_up(),
            ns_per_cycle: 0.4,
            mark: 25.0,
            ways: vec![way("raw VI", 16, &path::RAW, 400.0), way("short", 16, &path::SHORT, 520.0), way("bulk", 1024, &path::BULK, 900.0)],
            delta: Some(62.0),
            bulk: vec![BulkDifference { size: 1024, write: 100.0, bulk: 300.0, costs: stream }],
            failures: vec![],
        }
    }

    #[test]
    fn people_see_all_tables() {
        let text = table(&found());
        for part in ["all (delta)", "+60.0", "Semantics", "poll (request)", "credits back", "+200.0", "a mark takes 25.0", "96.8 %"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn differences_add_up_to_delta() {
        let sum: f64 = found().differences().unwrap().iter().map(|(_, cycles)| cycles).sum();
        assert!((sum - 60.0).abs() < 1e-9, "{sum}");
    }

    #[test]
    fn programs_too() {
        let value: serde_json::Value = serde_json::from_str(&crate::report::json(&found()).unwrap()).unwrap();
        assert_eq!((value["delta_measured"].as_f64(), value["ways"][1]["costs"][0]["kind"].as_str()), (Some(62.0), Some("semantics")));
    }
}
