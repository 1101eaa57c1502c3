// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that the paper's tables and figures show, beside ours, as one HTML file that needs
//! nothing else.

use std::fmt::Write;
use std::path::PathBuf;

use bellwire_nisim::experiment::Case;
use bellwire_nisim::experiment::figures::{Figure, Runs, cases};
use bellwire_nisim::experiment::statements::statements;
use bellwire_nisim::experiment::{table5 as entries, today as entries_today};
use bellwire_nisim::machine::Parameters;
use bellwire_report::model::{Cell, Table};
use clap::Args;

use super::{Common, Page, figures, list, table5, today};
use bellwire_report::bars::{escape, svg};
use bellwire_report::output;
use bellwire_report::text::cell;

const STYLE: &str = "body{font-family:sans-serif;max-width:1240px;margin:2em auto;padding:0 1em;color:#222}table{border-collapse:collapse;margin:1em 0}\
caption{text-align:left;font-weight:bold;padding:.3em 0}td,th{border:1px solid #ccc;padding:.2em .6em;text-align:right}td:first-child,th:first-child{text-align:left}\
.far{background:#fdd}svg{max-width:100%;height:auto}";

/// What to write.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Where the report goes
    #[arg(long, short, value_name = "FILE.html", default_value = "ni-report.html", value_parser = output::file_to_write)]
    out: PathBuf,

    #[command(flatten)]
    common: Common,
}

/// Simulates everything and writes the report; a summary goes to standard output.
///
/// # Errors
/// One of the simulations fails, or the file cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let common = &arguments.common;
    let machine = common.machine(Parameters::default())?;
    let (table, figure) = (entries::cases(&machine), cases(&Figure::ALL, &machine, common.size, common.seed));
    let server = common.machine(Parameters::today())?;
    let now = entries_today::cases(&server);
    let all: Vec<Case> = table.iter().map(|(case, _)| case.clone()).chain(figure.iter().cloned()).chain(now.iter().cloned()).collect();
    let mut measured = common.each(&all)?;
    let measured_now = measured.split_off(table.len() + figure.len());
    let runs = Runs::new(&figure, measured.split_off(table.len()));
    let pairs: Vec<_> = table.iter().zip(&measured).map(|(case, measured)| entries::entry(case, measured.value)).collect();
    let mut pages = vec![table5::page(&pairs), figures::histogram_page(&runs, Some(8))];
    pages.extend(Figure::ALL.map(|figure| figures::page(figure, &runs)));
    pages.push(today::page(&now, &measured_now));
    let mut machines = list::parameters(&machine);
    machines.tables.push(list::differences(&server, &machine));
    machines.tables.push(list::design_table());
    pages.push(Page { report: machines, bars: Vec::new() });
    let statements = statements(&Figure::ALL, &runs);
    let held = statements.iter().filter(|statement| statement.holds()).count();
    let far = pairs.iter().filter(|entry| entry.deviation().abs() > 0.15).count();
    let summary = format!(
        "{} simulations; Table 5: median deviation {:.1} %, {far} of {} entries beyond 15 %; {held} of {} statements about the figures hold",
        all.len(),
        entries::median_deviation(&pairs) * 100.0,
        pairs.len(),
        statements.len()
    );
    std::fs::write(&arguments.out, html(&summary, &pages)).map_err(|error| format!("{}: {error}", arguments.out.display()))?;
    output::print(&format!("{summary}\n{}\n", arguments.out.display()))
}

fn html(summary: &str, pages: &[Page]) -> String {
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Network interfaces, simulated</title><style>{STYLE}</style></head><body>\n<h1>Network interfaces, simulated</h1>\n"
    );
    text += "<p>Mukherjee and Hill, \"The Impact of Data Transfer and Buffering Alternatives on Network Interface Design\" (HPCA 1998), beside what Bellwire's simulator gives. Made by <code>bellwire ni report</code>; the same version and settings give the same bytes.</p>\n";
    let _ = writeln!(text, "<p><strong>{}.</strong> What deviates is marked, and docs/ni-simulator.md says why.</p>\n<ul>", escape(summary));
    for (number, page) in pages.iter().enumerate() {
        let _ = writeln!(text, "<li><a href=\"#part{number}\">{}</a></li>", escape(&page.report.title));
    }
    text += "</ul>\n";
    for (number, page) in pages.iter().enumerate() {
        let _ = writeln!(text, "<h2 id=\"part{number}\">{}</h2>", escape(&page.report.title));
        for line in &page.report.about {
            let _ = writeln!(text, "<p>{}</p>", escape(line));
        }
        if !page.bars.is_empty() {
            text += &svg(&page.bars);
        }
        page.report.tables.iter().for_each(|table| text += &table_html(table));
    }
    text + "</body></html>\n"
}

fn table_html(table: &Table) -> String {
    let is_marked = |row: &[Cell]| row.iter().zip(&table.columns).any(|(cell, column)| is_far(&self::cell(cell), &column.name));
    bellwire_report::html::table(table, |row| is_marked(row).then_some("far"))
}

/// Whether a cell says that something is not as in the paper.
fn is_far(cell: &str, column: &str) -> bool {
    match column {
        "deviation" => cell.parse::<f64>().is_ok_and(|percent| percent.abs() > 15.0),
        "holds" => cell == "NO",
        _ => false,
    }
}
