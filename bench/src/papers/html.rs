// SPDX-License-Identifier: MIT OR Apache-2.0
//! A paper beside measurements as one HTML file that needs nothing else.

use std::fmt::Write;

use bellwire_report::bars::{escape, svg};
use bellwire_report::{html, plot};

use super::judge::Verdict;
use super::model::Found;

const STYLE: &str = "body{font-family:sans-serif;max-width:1240px;margin:2em auto;padding:0 1em;color:#222}table{border-collapse:collapse;margin:1em 0}\
caption{text-align:left;font-weight:bold;padding:.3em 0}td,th{border:1px solid #ccc;padding:.2em .6em;text-align:right}td:first-child,th:first-child,.text td{text-align:left}\
.holds{background:#dfd}.not{background:#fdd}svg{max-width:100%;height:auto}\
@media(max-width:800px){body{margin:1em auto}h1{font-size:1.4em}table{display:block;overflow-x:auto;max-width:100%}}";

/// The file.
///
/// # Errors
/// A figure cannot be drawn.
pub fn html(found: &Found) -> Result<String, String> {
    let title = format!("Paper {}: {}", found.paper, found.title);
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>{0}</title><style>{STYLE}</style></head><body>\n<h1>{0}</h1>\n<p>Made by <code>bellwire paper {1}</code>. {2}.</p>\n",
        escape(&title),
        found.paper,
        escape(&found.summary())
    );
    found.about.iter().for_each(|line| text += &format!("<p>{}</p>\n", escape(line)));
    for exhibit in &found.exhibits {
        let _ = writeln!(text, "<h2>{}</h2>", escape(exhibit.name));
        exhibit.about.iter().for_each(|line| text += &format!("<p>{}</p>\n", escape(line)));
        if !exhibit.bars.is_empty() {
            text += &svg(&exhibit.bars);
        }
        if exhibit.plots.iter().any(|plot| plot.lines.iter().any(|line| !line.points.is_empty())) {
            text += &plot::svg(&exhibit.plots)?;
        }
        text += &html::table(&exhibit.table, |_| None);
    }
    text += "<h2>Statements of the text</h2>\n<table class=\"text\"><tr><th>verdict</th><th>place</th><th>statement</th><th>reason</th></tr>\n";
    for statement in &found.statements {
        let class = match statement.verdict {
            Verdict::Holds => "holds",
            Verdict::DoesNotHold => "not",
            Verdict::NotComparable => "open",
        };
        let cells = [statement.verdict.name(), statement.place, statement.text, &statement.reason].map(escape);
        let _ = writeln!(text, "<tr class=\"{class}\"><td>{}</td></tr>", cells.join("</td><td>"));
    }
    text += "</table>\n";
    found.failures.iter().for_each(|line| text += &format!("<p>Not measured: {}</p>\n", escape(line)));
    Ok(text + "</body></html>\n")
}
