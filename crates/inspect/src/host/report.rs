// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts as lines for people, with colours where they are wanted, or as JSON.

use std::fmt::Write;

use serde::Serialize;

use super::{Fact, Status};
use crate::error::{Error, json_text, printable};

/// Version of the JSON format; rises when a field changes its meaning.
const FORMAT: u32 = 1;
/// Columns after which reasons are continued on a new line.
const WIDTH: usize = 116;
/// Column at which reasons and advice begin.
const INDENT: usize = 8;

/// The word and the colour (of ANSI terminals) of a status.
fn mark(status: Status) -> (&'static str, &'static str) {
    match status {
        Status::Ok => ("ok", "32"),
        Status::Plain => ("-", "0"),
        Status::Limited => ("limited", "33"),
        Status::Missing => ("missing", "33"),
        Status::Broken => ("broken", "31"),
        Status::Later => ("later", "2"),
    }
}

/// Lines for people: status, name, value; below it the reason and what to do.
pub fn text(facts: &[Fact], colours: bool) -> String {
    let width = facts.iter().map(|fact| fact.name.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    let mut topic = "";
    for fact in facts {
        if fact.topic != topic {
            topic = fact.topic;
            let _ = writeln!(out, "{}{topic}", if out.is_empty() { "" } else { "\n" });
        }
        let (word, colour) = mark(fact.status);
        let painted = if colours { format!("\x1b[{colour}m{word:<7}\x1b[0m") } else { format!("{word:<7}") };
        let _ = writeln!(out, "{painted} {:<width$}  {}", fact.name, printable(&fact.value));
        paragraph(&mut out, "", &fact.reason);
        paragraph(&mut out, "-> ", &fact.advice);
    }
    out
}

fn paragraph(out: &mut String, lead: &str, text: &str) {
    let mut line = lead.to_owned();
    for word in printable(text).split_whitespace() {
        if line.len() > lead.len() && INDENT + line.len() + word.len() > WIDTH {
            let _ = writeln!(out, "{:INDENT$}{}", "", line.trim_end());
            line = " ".repeat(lead.len());
        }
        line += word;
        line.push(' ');
    }
    if line.trim_end().len() > lead.trim_end().len() {
        let _ = writeln!(out, "{:INDENT$}{}", "", line.trim_end());
    }
}

#[derive(Serialize)]
struct Document<'f> {
    format: u32,
    version: &'static str,
    facts: &'f [Fact],
}

/// The facts as one JSON object.
///
/// # Errors
/// If a fact cannot be written, which would be a programming error.
pub fn json(facts: &[Fact]) -> Result<String, Error> {
    let document = Document { format: FORMAT, version: env!("CARGO_PKG_VERSION"), facts };
    json_text(&document)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Vec<Fact> {
        vec![
            Fact::new("memory", "a", Status::Ok, "works", "because ".repeat(30)),
            Fact::new("memory", "longer", Status::Missing, "no\x1b[31m", "").advise("do this"),
            Fact::new("limits", "b", Status::Later, "", ""),
        ]
    }

    #[test]
    fn lines_for_people() {
        let plain = text(&facts(), false);
        assert!(plain.lines().all(|line| line.len() <= WIDTH) && !plain.contains('\x1b'), "{plain}");
        assert!(plain.contains("memory\nok      a       works\n") && plain.contains("        -> do this\n") && plain.contains("\n\nlimits\n"), "{plain}");
        assert!(text(&facts(), true).contains("\x1b[32mok"));
    }

    #[test]
    fn an_object_for_programs() {
        let value: serde_json::Value = serde_json::from_str(&json(&facts()).unwrap()).unwrap();
        assert_eq!((value["format"].as_u64(), value["facts"][1]["status"].as_str()), (Some(1), Some("missing")));
    }
}
