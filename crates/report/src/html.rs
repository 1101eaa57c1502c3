// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables as HTML.

use crate::bars::escape;
use crate::model::{Cell, Table};
use crate::text::{cell, heading};

/// A table with its title. `class` names the class of a row that stands out.
pub fn table(table: &Table, class: impl Fn(&[Cell]) -> Option<&'static str>) -> String {
    let mut text = format!("<table><caption>{}</caption>\n<tr>", escape(&table.title));
    table.columns.iter().for_each(|column| text += &format!("<th>{}</th>", escape(&heading(column))));
    text += "</tr>\n";
    for row in &table.rows {
        text += &class(row).map_or_else(|| "<tr>".to_owned(), |class| format!("<tr class=\"{class}\">"));
        row.iter().for_each(|value| text += &format!("<td>{}</td>", escape(&cell(value))));
        text += "</tr>\n";
    }
    text + "</table>\n"
}
