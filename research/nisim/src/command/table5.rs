// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's Table 5 beside ours.

use bellwire_nisim::experiment::table5::{self, Entry};
use bellwire_nisim::experiment::{Case, Measure};
use bellwire_nisim::machine::Parameters;
use bellwire_report::Report;
use bellwire_report::model::{Axis, Cell, Column, Line, Plot, Scale, Table, Unit};

use super::{Common, Page};
use bellwire_report::bars::Bars;

/// Simulates all entries.
///
/// # Errors
/// One of them cannot be simulated.
pub fn simulate(common: &Common) -> Result<Page, String> {
    let cases = table5::cases(&common.machine(Parameters::default())?);
    let measured = common.each(&cases.iter().map(|(case, _)| case.clone()).collect::<Vec<Case>>())?;
    Ok(page(&cases.iter().zip(measured).map(|(case, measured)| table5::entry(case, measured.value)).collect::<Vec<Entry>>()))
}

/// The table and its plots.
pub fn page(entries: &[Entry]) -> Page {
    let mut report = Report::new("Table 5: round trips and bandwidths of the designs");
    report.about.push(
        "Each entry: ours, the paper's, how far ours is from it. On those with * the machine's open costs were fitted; the others are predictions. Entries more than 15 % off are marked.".into(),
    );
    report.tables.push(entry_table("Round trips", entries, Unit::Microseconds));
    report.tables.push(entry_table("Bandwidths", entries, Unit::MegabytesPerSecond));
    let far = entries.iter().filter(|entry| entry.deviation().abs() > 0.15).count();
    let mut table = Table::new("Deviation", ["entries", "beyond 15 %"].map(Column::plain).into_iter().chain([Column::new("median", Unit::Percent)]));
    table.row([entries.len().into(), far.into(), (table5::median_deviation(entries) * 100.0).into()]);
    report.tables.push(table);
    report.plots = vec![plot("Round trips", entries, Unit::Microseconds), plot("Bandwidths", entries, Unit::MegabytesPerSecond)];
    let bars = vec![bars("Round trips", entries, Unit::Microseconds), bars("Bandwidths", entries, Unit::MegabytesPerSecond)];
    Page { report, bars }
}

/// Ours beside the paper's.
fn bars(title: &str, entries: &[Entry], of: Unit) -> Bars {
    let of_kind = entries.iter().filter(|entry| unit(entry) == of);
    let groups =
        of_kind.map(|entry| (format!("{} {} B {:+.0} %", entry.design, payload(entry), entry.deviation() * 100.0), vec![Some(entry.ours), Some(entry.paper)]));
    Bars {
        title: format!("{title}, by design and payload, and the deviation"),
        unit: of.symbol().into(),
        series: vec!["ours".into(), "paper".into()],
        groups: groups.collect(),
    }
}

fn unit(entry: &Entry) -> Unit {
    match entry.measure {
        Measure::RoundTrip(_) => Unit::Microseconds,
        _ => Unit::MegabytesPerSecond,
    }
}

fn payload(entry: &Entry) -> usize {
    match entry.measure {
        Measure::RoundTrip(payload) | Measure::Bandwidth(payload) => payload,
        Measure::Program(_) => 0,
    }
}

fn entry_table(title: &str, entries: &[Entry], of: Unit) -> Table {
    let columns = [
        Column::plain("design"),
        Column::new("payload", Unit::Bytes),
        Column::new("ours", of),
        Column::new("paper", of),
        Column::new("deviation", Unit::Percent),
        Column::plain(""),
    ];
    let mut table = Table::new(title, columns);
    for entry in entries.iter().filter(|entry| unit(entry) == of) {
        let mark = if entry.is_fitted() { "*" } else { "" };
        let deviation = Cell::Text(format!("{:+.1}", entry.deviation() * 100.0));
        table.row([entry.design.into(), payload(entry).into(), entry.ours.into(), entry.paper.into(), deviation, mark.into()]);
    }
    table
}

/// A line for each design.
fn plot(title: &str, entries: &[Entry], of: Unit) -> Plot {
    let mut lines: Vec<Line> = Vec::new();
    for entry in entries.iter().filter(|entry| unit(entry) == of) {
        let point = (payload(entry) as f64, entry.ours);
        match lines.iter_mut().find(|line| line.name == entry.design) {
            Some(line) => line.points.push(point),
            None => lines.push(Line::new(entry.design, [point])),
        }
    }
    let x = Axis::new("payload", Unit::Bytes, Scale::Log2);
    Plot { title: title.into(), x, y: Axis::new("", of, Scale::Linear), lines }
}
