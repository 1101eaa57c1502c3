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

/// The same in a width: columns that do not fit follow below, behind the first column again,
/// without the rows that have nothing but a dash there.
pub fn align_within(rows: &[Vec<String>], width: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let wide = |column: usize| 2 + rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let (mut text, mut from) = (String::new(), 1);
    while from < columns {
        let mut to = from + 1;
        while to < columns && (0..=to).filter(|column| *column == 0 || *column >= from).map(wide).sum::<usize>() <= width {
            to += 1;
        }
        let is_whole = from == 1 && to == columns;
        let part: Vec<Vec<String>> = rows
            .iter()
            .map(|row| (row.first(), row.get(from..to.min(row.len())).unwrap_or_default()))
            .filter(|(_, cells)| is_whole || cells.iter().any(|cell| cell != "-"))
            .map(|(first, cells)| first.into_iter().chain(cells).cloned().collect())
            .collect();
        text += &align(&part);
        from = to;
    }
    if columns == 1 { align(rows) } else { text }
}

/// Text with each line broken between words so that it fits into a width, as far as words do.
pub fn wrap(text: &str, width: usize) -> String {
    let mut wrapped = String::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let mut used = 0;
        for word in line.split_whitespace() {
            let length = word.chars().count();
            if used == 0 {
                wrapped += &line[..indent];
                used = indent + length;
            } else if used + 1 + length <= width {
                wrapped.push(' ');
                used += 1 + length;
            } else {
                wrapped.push('\n');
                wrapped += &line[..indent];
                used = indent + length;
            }
            wrapped += word;
        }
        wrapped.push('\n');
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_do_not_fit_follow_below() {
        let rows: Vec<Vec<String>> = [["size", "one", "two", "three"], ["8 B", "1", "22", "333"]].map(|row| row.map(str::to_owned).to_vec()).to_vec();
        assert_eq!(align_within(&rows, usize::MAX), align(&rows));
        assert_eq!(align_within(&rows, 17), "  size  one  two\n  8 B     1   22\n  size  three\n  8 B     333\n");
        assert_eq!(align_within(&rows, 16).lines().count(), 4);
        assert_eq!(align_within(&rows, 1).lines().count(), 6, "a column at least");
        assert_eq!(align_within(&[vec!["alone".to_owned()]], 3), "  alone\n");
        let dashes: Vec<Vec<String>> = [["size", "one", "two"], ["8 B", "1", "-"]].map(|row| row.map(str::to_owned).to_vec()).to_vec();
        assert_eq!(align_within(&dashes, 12), "  size  one\n  8 B     1\n  size  two\n");
        for width in 10..40 {
            let text = align_within(&rows, width);
            assert!(rows.iter().flatten().all(|cell| text.contains(cell.as_str())), "{width}");
        }
    }

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(wrap("one two three\n  four five\n\nsix", 8), "one two\nthree\n  four\n  five\n\nsix\n");
        assert_eq!(wrap("a  b\n", usize::MAX), "a b\n");
        assert_eq!(wrap("unbreakable", 3), "unbreakable\n");
    }

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
