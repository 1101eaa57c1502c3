// SPDX-License-Identifier: MIT OR Apache-2.0
//! A paper beside measurements as text and as comma-separated values.

use std::fmt::Write;

use bellwire_report::model::Report;
use bellwire_report::text::{self, csv_field, exact, heading};

use super::model::Found;

/// Columns of the text of statements.
const WIDTH: usize = 110;

/// The whole as text.
pub fn text(found: &Found) -> String {
    let mut text = format!("Paper {}: {}\n", found.paper, found.title);
    found.about.iter().for_each(|line| text += &wrapped("", line));
    for exhibit in &found.exhibits {
        let report = Report { about: Vec::new(), tables: vec![exhibit.table.clone()], ..Report::new("") };
        text += &text::plain(&report);
        exhibit.about.iter().for_each(|line| text += &wrapped("    ", line));
    }
    text += "\nStatements of the text\n";
    for statement in &found.statements {
        let _ = writeln!(text, "  {:<14}  {}: {}", statement.verdict.name(), statement.place, statement.text);
        text += &wrapped(&" ".repeat(18), &statement.reason);
    }
    for failure in &found.failures {
        let _ = writeln!(text, "not measured: {failure}");
    }
    let _ = writeln!(text, "\n{}.", found.summary());
    text
}

/// Lines of at most [`WIDTH`] columns, behind `indent`.
fn wrapped(indent: &str, line: &str) -> String {
    let (mut text, mut width) = (String::new(), 0);
    for word in line.split(' ') {
        if width == 0 || width + 1 + word.len() > WIDTH {
            let _ = write!(text, "{}{indent}{word}", if width == 0 { "" } else { "\n" });
            width = indent.len() + word.len();
        } else {
            let _ = write!(text, " {word}");
            width += 1 + word.len();
        }
    }
    text + "\n"
}

/// One line for each number: `exhibit,row,column,value`; of statements the verdict.
pub fn csv(found: &Found) -> String {
    let mut lines = vec!["exhibit,row,column,value".to_owned()];
    for exhibit in &found.exhibits {
        let table = &exhibit.table;
        for row in &table.rows {
            let name = row.first().map(text::cell).unwrap_or_default();
            for (column, cell) in table.columns.iter().zip(row).skip(1) {
                lines.push([exhibit.name, &name, &heading(column), &exact(cell)].map(csv_field).join(","));
            }
        }
    }
    for (number, statement) in found.statements.iter().enumerate() {
        lines.push(["statement", &(number + 1).to_string(), statement.text, statement.verdict.name()].map(csv_field).join(","));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_wrapped() {
        let line = "word ".repeat(60);
        let text = wrapped("  ", line.trim());
        assert!(text.lines().count() > 2 && text.lines().all(|line| line.len() <= WIDTH && line.starts_with("  word")));
        assert_eq!(text.split_whitespace().count(), 60);
    }
}
