// SPDX-License-Identifier: MIT OR Apache-2.0
//! A report as text: what it is about, the tables, of a scenario also its hash. The same report
//! gives the same bytes.

use std::fmt::Write;

use crate::model::{Cell, Column, Report, Table, Unit};

/// A scenario's report.
pub fn render(seed: u64, report: &Report) -> String {
    let mut text = plain(report);
    if report.tables.iter().any(|table| table.columns.iter().any(|column| column.measured)) {
        text += "\nColumns with * were measured on this machine, and differ from run to run.\n";
    }
    text + &report.hash.map_or(String::new(), |hash| format!("\nseed {seed}, hash {hash:016x}\n"))
}

/// A report without seed and hash.
pub fn plain(report: &Report) -> String {
    let mut text = format!("{}\n", report.title);
    for line in &report.about {
        let _ = writeln!(text, "{line}");
    }
    report.tables.iter().fold(text, |text, table| text + &table_text(table))
}

/// The tables as comma-separated values (RFC 4180), each under its heading, with an empty line
/// between. Numbers have all their digits.
pub fn csv(report: &Report) -> String {
    let line = |fields: Vec<String>| fields.join(",") + "\n";
    let tables = report.tables.iter().map(|table| {
        let heading = line(table.columns.iter().map(|column| csv_field(&heading(column))).collect());
        let rows = table.rows.iter().map(|row| line(row.iter().map(|cell| csv_field(&exact(cell))).collect()));
        rows.fold(heading, |text, row| text + &row)
    });
    tables.collect::<Vec<_>>().join("\n")
}

/// A field of comma-separated values: in quotes if it has to be.
pub fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// A cell whose number has all its digits; nothing for none.
pub fn exact(cell: &Cell) -> String {
    match cell {
        Cell::None => String::new(),
        Cell::Number(value) => value.to_string(),
        other => self::cell(other),
    }
}

fn table_text(table: &Table) -> String {
    let heading = table.columns.iter().map(heading).collect();
    let rows: Vec<Vec<String>> = std::iter::once(heading).chain(table.rows.iter().map(|row| row.iter().map(cell).collect())).collect();
    format!("\n{}\n{}", table.title, align(&rows))
}

/// A column's name with its unit.
pub fn heading(column: &Column) -> String {
    let mark = if column.measured { "*" } else { "" };
    match column.unit {
        Unit::None => format!("{}{mark}", column.name),
        unit => format!("{} [{}]{mark}", column.name, unit.symbol()),
    }
}

/// What stands in a place, with three or four digits.
pub fn cell(cell: &Cell) -> String {
    match cell {
        Cell::None => "-".to_owned(),
        Cell::Count(count) => count.to_string(),
        Cell::Number(value) => number(*value),
        Cell::Text(text) => text.clone(),
    }
}

/// Three to four significant digits, no exponent.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A size as people write it.
pub fn size_text(bytes: u64) -> String {
    match bytes {
        0 => "0 B".to_owned(),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

/// Columns padded to their widest cell: the first to the left, the others to the right.
pub fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            let _ = if column == 0 { write!(line, "  {cell:<width$}") } else { write!(line, "  {cell:>width$}") };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let text: Vec<String> = [0, 8, 1500, 4096, 65536, 4 << 20].into_iter().map(size_text).collect();
        assert_eq!(text, ["0 B", "8 B", "1500 B", "4 KiB", "64 KiB", "4 MiB"]);
    }

    #[test]
    fn a_report_as_text() {
        let mut report = Report::new("Title");
        let mut table = Table::new("A table", [Column::plain("what"), Column::new("time", Unit::Microseconds), Column::measured("cost", Unit::Nanoseconds)]);
        table.row(["a".into(), 1.5.into(), Cell::None]);
        table.row(["bb".into(), 150.25.into(), 7_u64.into()]);
        report.tables.push(table);
        let unsimulated = render(3, &report);
        assert!(!unsimulated.contains("seed"), "{unsimulated}");
        report.hash = Some(7);
        let text = render(3, &report);
        assert_eq!(
            text,
            "Title\n\nA table\n  what  time [us]  cost [ns]*\n  a          1.50           -\n  bb          150           7\n\n\
             Columns with * were measured on this machine, and differ from run to run.\n\nseed 3, hash 0000000000000007\n"
        );
        report.tables[0].row(["c,\"".into(), 0.125.into(), Cell::None]);
        assert_eq!(csv(&report), "what,time [us],cost [ns]*\na,1.5,\nbb,150.25,7\n\"c,\"\"\",0.125,\n");
    }
}
