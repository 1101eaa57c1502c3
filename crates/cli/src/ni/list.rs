// SPDX-License-Identifier: MIT OR Apache-2.0
//! What there is: designs and parameters.

use bellwire_logp::report::table::align;
use bellwire_nisim::machine::Parameters;
use bellwire_nisim::machine::knobs::{KNOBS, Source};
use bellwire_nisim::ni;
use bellwire_sim::scenario::Report;
use bellwire_sim::scenario::report::{Cell, Column, Table};

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

fn source(source: Source) -> &'static str {
    match source {
        Source::Paper => "paper",
        Source::Fitted => "fitted",
        Source::Chosen => "chosen",
        Source::Cited => "cited",
    }
}
