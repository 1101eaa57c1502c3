// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scenario's report as text: the tables, then the hash. The same report gives the same bytes.

use std::fmt::Write;

use bellwire_logp::report::table::{align, number};
use bellwire_sim::scenario::report::{Cell, Column, Report, Table, Unit};
use bellwire_sim::scenario::{self, OptionSpec};

/// All scenarios with their options.
pub fn list() -> String {
    let mut text = String::new();
    for scenario in scenario::ALL {
        let _ = writeln!(text, "{}  {}", scenario.name, scenario.summary);
        let row = |option: &OptionSpec| vec![format!("--{}", option.name), option.default.to_owned(), option.help.to_owned()];
        text += &left(&scenario.options.iter().map(row).collect::<Vec<_>>());
        text.push('\n');
    }
    text + "More: bellwire sim SCENARIO --help\n"
}

/// Columns padded to their widest cell, all to the left.
fn left(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    rows.iter().map(|row| format!("    {:<first$}  {:<second$}  {}\n", row[0], row[1], row[2])).collect()
}

/// The whole report.
pub fn render(seed: u64, report: &Report) -> String {
    let mut text = format!("{}\n", report.title);
    for line in &report.about {
        let _ = writeln!(text, "{line}");
    }
    for table in &report.tables {
        text += &table_text(table);
    }
    if report.tables.iter().any(|table| table.columns.iter().any(|column| column.measured)) {
        text += "\nColumns with * were measured on this machine, and differ from run to run.\n";
    }
    text + &format!("\nseed {seed}, hash {:016x}\n", report.hash)
}

fn table_text(table: &Table) -> String {
    let heading = table.columns.iter().map(heading).collect();
    let rows: Vec<Vec<String>> = std::iter::once(heading).chain(table.rows.iter().map(|row| row.iter().map(cell).collect())).collect();
    format!("\n{}\n{}", table.title, align(&rows))
}

fn heading(column: &Column) -> String {
    let mark = if column.measured { "*" } else { "" };
    match column.unit {
        Unit::None => format!("{}{mark}", column.name),
        unit => format!("{} [{}]{mark}", column.name, unit.symbol()),
    }
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::None => "-".to_owned(),
        Cell::Count(count) => count.to_string(),
        Cell::Number(value) => number(*value),
        Cell::Text(text) => text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_as_text() {
        let mut report = Report::new("Title");
        let mut table = Table::new("A table", [Column::plain("what"), Column::new("time", Unit::Microseconds), Column::measured("cost", Unit::Nanoseconds)]);
        table.row(["a".into(), 1.5.into(), Cell::None]);
        table.row(["bb".into(), 150.25.into(), 7_u64.into()]);
        report.tables.push(table);
        let text = render(3, &report);
        assert_eq!(
            text,
            "Title\n\nA table\n  what  time [us]  cost [ns]*\n  a          1.50           -\n  bb          150           7\n\n\
             Columns with * were measured on this machine, and differ from run to run.\n\nseed 3, hash 0000000000000000\n"
        );
    }
}
