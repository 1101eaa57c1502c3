// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists designs and parameters.

use bellwire_nisim::machine::Parameters;
use bellwire_nisim::machine::knobs::{KNOBS, Source};
use bellwire_nisim::ni;
use bellwire_report::Report;
use bellwire_report::model::{Cell, Column, Table};
use bellwire_report::text::align;

/// The designs with what they are like.
pub fn designs() -> String {
    align(&ni::DESIGNS.iter().map(|design| vec![design.name.to_owned(), design.like.to_owned()]).collect::<Vec<_>>())
}

/// Every size, time and cost.
pub fn parameters(machine: &Parameters) -> Report {
    let mut report = Report::new("The machine");
    let mut table = Table::new("Sizes, times and costs", ["name", "value", "unit", "from", "what it is, and why"].map(Column::plain));
    for knob in KNOBS {
        table.row([knob.name.into(), knob.get(machine).to_string().into(), knob.unit.symbol().into(), source(knob.source).into(), Cell::from(knob.reason)]);
    }
    report.tables.push(table);
    report
}

/// The designs as a table.
pub fn design_table() -> Table {
    let mut table = Table::new("The designs", ["name", "like"].map(Column::plain));
    ni::DESIGNS.iter().for_each(|design| table.row([design.name.into(), Cell::from(design.like)]));
    table
}

/// In what a machine differs from another.
pub fn differences(machine: &Parameters, from: &Parameters) -> Table {
    let columns = ["name", "value", "unit", "on the paper's machine"].map(Column::plain);
    let mut table = Table::new("The server of today, where it differs from the paper's machine", columns);
    for knob in KNOBS.iter().filter(|knob| knob.get(machine) != knob.get(from)) {
        table.row([knob.name.into(), knob.get(machine).to_string().into(), knob.unit.symbol().into(), Cell::from(knob.get(from).to_string())]);
    }
    table
}

fn source(source: Source) -> &'static str {
    match source {
        Source::Paper => "paper",
        Source::Fitted => "fitted",
        Source::Chosen => "chosen",
        Source::Cited => "cited",
    }
}
