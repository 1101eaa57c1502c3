// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's figures 1, 3 and 4 and its Table 4 from runs of the macrobenchmarks, and what the
//! paper says about them.

use bellwire_nisim::experiment::figures::{
    Buffers, CNI32QM, COHERENT, COHERENT_BUFFERS, FIFO_BUFFERS, FIFOS, Figure, REGISTER_BUFFERS, REGISTERS, Runs, buffers_text, cases, histogram,
};
use bellwire_nisim::experiment::statements::{Check, Statement, statements};
use bellwire_nisim::experiment::{Case, Measure};
use bellwire_nisim::machine::Parameters;
use bellwire_nisim::ni;
use bellwire_nisim::programs::PROGRAMS;
use bellwire_report::Report;
use bellwire_report::model::{Cell, Column, Table, Unit};

use super::{Common, Page};
use bellwire_report::bars::Bars;

/// Runs what a figure needs.
///
/// # Errors
/// One of the runs fails.
pub fn figure(common: &Common, figure: Figure) -> Result<Page, String> {
    let cases = cases(&[figure], &common.machine(Parameters::default())?, common.size, common.seed);
    let runs = Runs::new(&cases, common.each(&cases)?);
    Ok(page(figure, &runs))
}

/// Runs each macrobenchmark once.
///
/// # Errors
/// One of the runs fails.
pub fn histograms(common: &Common) -> Result<Page, String> {
    let (machine, design) = (common.machine(Parameters::default())?, ni::find("ap3000").ok_or("there is no AP3000")?);
    let case = |program| Case { size: common.size, seed: common.seed, ..Case::new(Measure::Program(program), design, machine.clone()) };
    let cases: Vec<Case> = PROGRAMS.iter().map(case).collect();
    let buffers = machine.buffers;
    let runs = Runs::new(&cases, common.each(&cases)?);
    Ok(histogram_page(&runs, buffers))
}

/// Message sizes from runs on the AP3000's NI.
pub fn histogram_page(runs: &Runs, buffers: Option<u32>) -> Page {
    let mut report = Report::new("Table 4: messages of the macrobenchmarks by size");
    report.about.push("Sizes with the header of 8 bytes. Of unstructured: the mean of all sizes beyond 8 bytes, as in the paper (whose mean is 351).".into());
    let columns = [Column::plain("program"), Column::new("size", Unit::Bytes), Column::new("ours", Unit::Percent), Column::new("paper", Unit::Percent)];
    let mut table = Table::new("Shares of messages", columns);
    let mut bars = Vec::new();
    for program in PROGRAMS {
        let Some(run) = runs.run(program.name, "ap3000", buffers) else { continue };
        for (size, ours, paper) in histogram(program, &run.outcome.sizes) {
            table.row([program.name.into(), size.into(), ours.into(), paper.into()]);
            bars.push((format!("{} {size} B", program.name), vec![Some(ours), Some(paper)]));
        }
    }
    report.tables.push(table);
    let bars = Bars { title: "Messages by size".into(), unit: "% of the messages".into(), series: vec!["ours".into(), "paper".into()], groups: bars };
    Page { report, bars: vec![bars] }
}

/// A figure from its runs, with the statements about it.
pub fn page(figure: Figure, runs: &Runs) -> Page {
    let mut page = match figure {
        Figure::One => one(runs),
        Figure::Three => three(runs),
        Figure::Four => four(runs),
    };
    page.report.about.push(
        "The paper gives its figures' numbers in words alone. Its statements stand below as ranges: half a percent wider for its rounding; \"up to\" is within 10 % of the time, \
         \"equal\" and \"marginally\" within 10 %, a break-even within a factor of two."
            .into(),
    );
    page.report.tables.extend(statement_tables(&statements(&[figure], runs)));
    page
}

fn one(runs: &Runs) -> Page {
    let mut report = Report::new("Figure 1: data transfer and buffering on the CM-5's NI with one buffer");
    report
        .about
        .push("Data transfer: what an NI in the registers saves; buffering: what buffers without end save; both as parts of the time with one buffer.".into());
    let columns = [
        Column::plain("program"),
        Column::new("time", Unit::Milliseconds),
        Column::new("data transfer", Unit::Percent),
        Column::new("buffering", Unit::Percent),
    ];
    let mut table = Table::new("Shares of the time", columns);
    let mut groups = Vec::new();
    for program in PROGRAMS {
        let (Some(time), Some((transfer, buffering))) = (runs.time(program.name, "ni2w", Some(1)), runs.shares(program.name)) else { continue };
        table.row([program.name.into(), (time / 1e3).into(), transfer.into(), buffering.into()]);
        groups.push((program.name.to_owned(), vec![Some(transfer), Some(buffering)]));
    }
    report.tables.push(table);
    let series = vec!["data transfer".into(), "buffering".into()];
    Page { report, bars: vec![Bars { title: "Parts of the time on the CM-5's NI, one buffer".into(), unit: "% of the time".into(), series, groups }] }
}

/// Of a column or series: so many flow-control buffers.
fn heading(buffers: Buffers) -> String {
    format!("{} buffer{}", buffers_text(buffers), if buffers == Some(1) { "" } else { "s" })
}

fn three(runs: &Runs) -> Page {
    let mut report = Report::new("Figure 3: NIs with FIFOs (a) and coherent NIs (b)");
    report.about.push("Times as multiples of that on the AP3000's NI with 8 buffers.".into());
    let relative = |program: &str, design: &str, buffers| Some(runs.time(program, design, buffers)? / runs.time(program, "ap3000", Some(8))?);
    let headings = FIFO_BUFFERS.map(heading);
    let mut table = Table::new("a: by flow-control buffers", ["program", "design"].map(Column::plain).into_iter().chain(headings.clone().map(Column::plain)));
    let mut fifos = Vec::new();
    for program in PROGRAMS {
        for design in FIFOS {
            let values = FIFO_BUFFERS.map(|buffers| relative(program.name, design, buffers));
            table.row([Cell::from(program.name), design.into()].into_iter().chain(values.map(Cell::from)));
            fifos.push((format!("{} {design}", program.name), values.to_vec()));
        }
    }
    report.tables.push(table);
    let mut table = Table::new("b: with 2 buffers", ["program"].into_iter().chain(COHERENT).map(Column::plain));
    let mut coherent = Vec::new();
    for program in PROGRAMS {
        let values = COHERENT.map(|design| relative(program.name, design, COHERENT_BUFFERS));
        table.row([Cell::from(program.name)].into_iter().chain(values.map(Cell::from)));
        coherent.push((program.name.to_owned(), values.to_vec()));
    }
    report.tables.push(table);
    let bars = vec![
        Bars {
            title: "Figure 3a: NIs with FIFOs, by flow-control buffers".into(),
            unit: "time, AP3000 with 8 buffers = 1".into(),
            series: headings.to_vec(),
            groups: fifos,
        },
        Bars {
            title: "Figure 3b: coherent NIs with 2 buffers".into(),
            unit: "time, AP3000 with 8 buffers = 1".into(),
            series: COHERENT.map(str::to_owned).to_vec(),
            groups: coherent,
        },
    ];
    Page { report, bars }
}

fn four(runs: &Runs) -> Page {
    let mut report = Report::new("Figure 4: an NI in the processor's registers against CNI32Qm");
    report.about.push("Times of the NI in the registers, by its buffers, as multiples of that on CNI32Qm.".into());
    let headings = REGISTER_BUFFERS.map(heading);
    let mut table = Table::new("By flow-control buffers", ["program".to_owned()].into_iter().chain(headings.clone()).map(Column::plain));
    let mut groups = Vec::new();
    for program in PROGRAMS {
        let relative = |buffers| Some(runs.time(program.name, REGISTERS, buffers)? / runs.time(program.name, CNI32QM, COHERENT_BUFFERS)?);
        let values = REGISTER_BUFFERS.map(relative);
        table.row([Cell::from(program.name)].into_iter().chain(values.map(Cell::from)));
        groups.push((program.name.to_owned(), values.to_vec()));
    }
    report.tables.push(table);
    Page {
        report,
        bars: vec![Bars {
            title: "Figure 4: an NI in the registers, by flow-control buffers".into(),
            unit: "time, CNI32Qm = 1".into(),
            series: headings.to_vec(),
            groups,
        }],
    }
}

/// The statements, and the numbers of those that do not hold.
pub fn statement_tables(statements: &[Statement]) -> Vec<Table> {
    let mut table = Table::new("What the paper says", ["figure", "statement", "range", "ours", "holds"].map(Column::plain));
    let mut missed = Table::new("Numbers outside their ranges", ["figure", "statement", "of", "range", "ours"].map(Column::plain));
    for statement in statements {
        let (low, high) = statement.checks.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), check| (low.min(check.ours), high.max(check.ours)));
        let ours = if statement.checks.len() == 1 { bound(low) } else { format!("{} to {}", bound(low), bound(high)) };
        let ranges = statement.checks.first().map_or(String::new(), range);
        let holds = if statement.holds() { "yes" } else { "NO" };
        table.row([statement.figure.into(), statement.text.into(), ranges.into(), ours.into(), Cell::from(holds)]);
        for check in statement.checks.iter().filter(|check| !check.holds()) {
            missed.row([statement.figure.into(), statement.text.into(), check.of.clone().into(), range(check).into(), Cell::from(bound(check.ours))]);
        }
    }
    let held = statements.iter().filter(|statement| statement.holds()).count();
    table.title = format!("What the paper says: {held} of {} statements hold", statements.len());
    if missed.rows.is_empty() { vec![table] } else { vec![table, missed] }
}

fn bound(value: f64) -> String {
    if value.abs() >= 1e8 { "any".to_owned() } else { format!("{value:.1}") }
}

fn range(check: &Check) -> String {
    format!("{} to {}", bound(check.range.0), bound(check.range.1))
}
