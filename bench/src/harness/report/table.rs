// SPDX-License-Identifier: MIT OR Apache-2.0
//! Aligned tables on standard output: one per metric, rows by size, a column per series, and the
//! goals.

use std::fmt::Write;

use bellwire_report::text::{align, align_within, number, wrap};

use super::screen::columns;
use super::{QUOTED, Report, size_text};
use crate::canary::Mode;
use crate::gas::Part;
use crate::goals::{Bound, Goal};
use crate::machine::Machine;
use crate::run::Head;
use crate::samples::{Failure, Figure, Key, Metric, Samples};

/// The whole report as text for the reader's screen.
pub fn render(report: &Report) -> String {
    render_within(report, columns())
}

/// The same for a screen of a width: the goals first, since they sum up the rest.
fn render_within(report: &Report, width: usize) -> String {
    let mut text = wrap(&heading(report), width);
    // Without limits and peers, the goals that compare ours with ours.
    let goals: Vec<Goal> = report.goals.iter().filter(|goal| report.compared || goal.has_both()).cloned().collect();
    text += &goal_table(&goals, width);
    for metric in report.suite.metrics {
        text += &metric_table_within(&report.samples, *metric, width);
    }
    text += &parts_table(report.parts.as_deref().unwrap_or_default());
    let hint = report.suite.hint.filter(|_| report.missing.iter().any(|missing| !missing.contains(": "))).map(|hint| format!("all of them: {hint}"));
    let missing: Vec<String> = report.missing.iter().cloned().chain(hint).collect();
    text += &wrap(&not_measured(&missing, &report.samples.failures), width);
    if report.machine.pinned.is_none() {
        text += &wrap("\nBoth processes share one processor or cannot be pinned: polling figures say little here.\n", width);
    }
    text
}

/// The first two lines of what a command measured: which command of which version and when, and on
/// what.
pub(crate) fn machine_heading(command: &str, machine: &Machine) -> String {
    let pinned = machine.pinned.map_or("not pinned".to_owned(), |[a, b]| format!("pinned to {a} and {b}"));
    format!("bellwire {command} {}  {}\n{}, {} processors, {pinned}; {}\n", machine.version, machine.date, machine.cpu_model, machine.cpus, machine.kernel)
}

/// The same of a run of the library, with `more` behind its conditions and an empty line below.
pub(crate) fn heading_of(command: &str, head: &Head, more: &str) -> String {
    format!("{}library: {}; {}{more}\n\n", machine_heading(command, &head.machine), head.library, head.conditions)
}

fn heading(report: &Report) -> String {
    let mut text = machine_heading(report.suite.command, &report.machine);
    if let Some(library) = &report.library {
        let _ = writeln!(text, "library: {library}; {}", report.conditions);
    }
    let _ = writeln!(text, "way: {}", report.way);
    if !report.peers.is_empty() {
        let _ = writeln!(text, "compared with: {}", report.peers.join(", "));
    }
    let best = report.samples.best.ns();
    if best.is_finite() {
        let _ = writeln!(text, "two-line exchange, best canary of the run: {best:.1} ns (near: up to {:.0} ns)", best * crate::canary::FAR_FACTOR);
    }
    text + QUOTED + report.suite.about
}

/// The parts of accesses.
fn parts_table(parts: &[Part]) -> String {
    if parts.is_empty() {
        return String::new();
    }
    let mut rows = vec![["access", "part", "ns", "%"].map(str::to_owned).to_vec()];
    for (i, part) in parts.iter().enumerate() {
        let is_first = i == 0 || parts[i - 1].access != part.access;
        let name = match (is_first, part.far) {
            (false, _) => String::new(),
            (true, false) => part.access.to_owned(),
            (true, true) => format!("{} (far)", part.access),
        };
        rows.push(vec![name, part.part.to_owned(), cost_text(Some(part.ns)), format!("{:.0}", part.share.max(0.0))]);
    }
    format!("\nWhat an access consists of, by differences or by marks\n{}", align(&rows))
}

/// What was measured of one metric: a row for each size, a column for each series; nothing if
/// nothing was.
pub(crate) fn metric_table(samples: &Samples, metric: Metric) -> String {
    metric_table_within(samples, metric, columns())
}

fn metric_table_within(samples: &Samples, metric: Metric, width: usize) -> String {
    let series = samples.series_of(metric);
    if series.is_empty() {
        return String::new();
    }
    let mut rows = vec![std::iter::once(metric.row_heading().to_owned()).chain(series.iter().map(|s| s.name.to_owned())).collect::<Vec<_>>()];
    for size in samples.sizes_of(metric) {
        let cells = series.iter().map(|series| samples.figure(&Key::new(metric, *series, size)).map_or_else(|| "-".to_owned(), |figure| cell(metric, figure)));
        rows.push(std::iter::once(row_name(metric, size)).chain(cells).collect());
    }
    format!("\n{} [{}]\n{}", metric.title(), unit_text(metric), align_within(&rows, width))
}

fn unit_text(metric: Metric) -> &'static str {
    match metric {
        Metric::Rate | Metric::Pairs | Metric::PeersRate => "million messages/s",
        Metric::AtomicRate => "million requests/s",
        metric => metric.unit(),
    }
}

fn row_name(metric: Metric, size: u64) -> String {
    match metric {
        Metric::Percentile if size >= 1000 => "max".to_owned(),
        Metric::Percentile => format!("p{}", size as f64 / 10.0),
        Metric::Waiting => format!("{size} us"),
        Metric::Em3d => format!("{size} %"),
        Metric::GasRead | Metric::GasWrite | Metric::GasGet | Metric::GasPut | Metric::GasStore => {
            crate::gas::TYPES.get((size as usize).wrapping_sub(1)).map_or_else(|| size.to_string(), |of| of.0.to_owned())
        }
        Metric::ManyVis
        | Metric::ViMemory
        | Metric::Pairs
        | Metric::PeersLatency
        | Metric::PeersRate
        | Metric::AblatedPlaces
        | Metric::RingOfRanks
        | Metric::AllreduceOfRanks
        | Metric::BarrierOfRanks
        | Metric::GasTrip
        | Metric::GasLeg
        | Metric::Speedup => size.to_string(),
        _ => size_text(size),
    }
}

fn cell(metric: Metric, figure: Figure) -> String {
    // Some are differences of two times: noise below zero is no gain.
    let median = figure.summary.median.max(0.0);
    let value = number(if metric.unit() == "msg/s" { median / 1e6 } else { median });
    match (metric, figure.mode) {
        (Metric::ViMemory, _) => value,
        (_, Mode::Near) => format!("{value} {}/{}", figure.near, figure.total),
        (_, Mode::Far) => format!("{value} far/{}", figure.total),
    }
}

fn goal_table(goals: &[Goal], width: usize) -> String {
    if goals.is_empty() {
        return String::new();
    }
    let scaled = |goal: &Goal, value: Option<f64>| match value {
        None => "-".to_owned(),
        Some(value) if goal.unit == "msg/s" => format!("{} M/s", number(value / 1e6)),
        Some(value) => format!("{} {}", number(value), goal.unit),
    };
    let mut rows = vec![["what", "ours", "other", "", "ratio", "goal", "met"].map(str::to_owned).to_vec()];
    for goal in goals {
        let bound = match goal.bound {
            Bound::AtMost(limit) => format!("<= {limit:.2}"),
            Bound::AtLeast(limit) => format!(">= {limit:.2}"),
        };
        let met = match goal.met {
            Some(true) => "yes",
            Some(false) => "no",
            // One side was near, the other far.
            None if goal.has_both() => "not comparable",
            None => "-",
        };
        let met = if goal.mode == Some(Mode::Far) { format!("{met} (far)") } else { met.to_owned() };
        let ratio = goal.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        let other_name = goal.other_name.clone();
        rows.push(vec![goal.what.clone(), scaled(goal, goal.ours), scaled(goal, goal.other), other_name, ratio, bound, met]);
    }
    let met = goals.iter().filter(|goal| goal.met == Some(true)).count();
    let known = goals.iter().filter(|goal| goal.met.is_some()).count();
    let head = format!("\nGoals (medians of samples in the same mode, of the same rounds where there are some; ratio = ours / other): {met} of {known} met\n");
    let table = align(&rows);
    if table.lines().all(|line| line.chars().count() <= width) {
        return head + &table;
    }
    // Two lines for each.
    let mut text = wrap(&head, width);
    for row in &rows[1..] {
        if let [what, ours, other, _, ratio, bound, met] = &row[..] {
            let _ = writeln!(text, "  {what}: {met}\n    {ours} : {other} = {ratio}, goal {bound}");
        }
    }
    text
}

/// The goals, the peers that are not here, and the measurements that failed.
pub(crate) fn ending(goals: &[Goal], missing: &[String], failed: &[Failure]) -> String {
    goal_table(goals, columns()) + &not_measured(missing, failed)
}

/// The peers that are not here, and the measurements that failed.
fn not_measured(missing: &[String], failed: &[Failure]) -> String {
    let mut text = String::new();
    if !missing.is_empty() {
        let _ = write!(text, "\nNot installed, so not compared:\n  {}\n", missing.join("\n  "));
    }
    if !failed.is_empty() {
        let _ = write!(text, "\nNot measured:\n{}", failures(failed));
    }
    text
}

/// A figure, or a sign that there is none.
pub(crate) fn cell_text(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), number)
}

/// A cost that is a difference of two measurements: noise below zero is no gain.
pub(crate) fn cost_text(value: Option<f64>) -> String {
    cell_text(value.map(|value| value.max(0.0)))
}

/// Failures with the same reason on one line, named by the first of them.
fn failures(failures: &[Failure]) -> String {
    let mut text = String::new();
    for (index, failure) in failures.iter().enumerate() {
        let same = |other: &&Failure| other.why == failure.why;
        if failures[..index].iter().any(|earlier| same(&earlier)) {
            continue;
        }
        let more = match failures[index + 1..].iter().filter(same).count() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let _ = writeln!(text, "  {}{more}: {}", failure.what, failure.why);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["size".to_owned(), "a".to_owned()], vec!["8 B".to_owned(), "12.5".to_owned()]];
        assert_eq!(align(&rows), "  size     a\n  8 B   12.5\n");
    }

    #[test]
    fn one_line_per_reason() {
        let failure = |what: &str, why: &str| Failure { what: what.to_owned(), why: why.to_owned(), ours: true };
        let text = failures(&[failure("a", "died"), failure("b", "slow"), failure("c", "died")]);
        assert_eq!(text, "  a (and 1 more): died\n  b: slow\n");
    }

    #[test]
    fn numbers_keep_their_meaning() {
        assert_eq!([0.123, 9.876, 82.14, 123.4, 6_543_210.0].map(number), ["0.12", "9.88", "82.1", "123", "6543210"]);
    }

    #[test]
    fn no_figure_is_negative() {
        let canary = crate::canary::Canary { before_ns: 50.0, after_ns: 50.0 };
        let mut samples = Samples::default();
        samples.best.note(50.0);
        let key = Key::new(Metric::Waiting, crate::plan::series::OURS, 10);
        samples.add(key, crate::samples::Sample { round: 1, value: -3.0, canary });
        let text = metric_table(&samples, Metric::Waiting);
        assert!(text.contains("0.00 1/1") && !text.contains("-3"), "{text}");
    }

    #[test]
    fn sides_of_different_modes_have_no_ratio() {
        let goal = |ratio: Option<f64>, mode| Goal {
            what: "latency".to_owned(),
            unit: "ns",
            ours: Some(90.0),
            other: Some(100.0),
            other_name: String::new(),
            ratio,
            bound: Bound::AtMost(1.0),
            met: ratio.map(|ratio| ratio <= 1.0),
            mode,
            far: mode != Some(Mode::Near),
        };
        let text = goal_table(&[goal(None, None), goal(Some(0.9), Some(Mode::Far)), goal(Some(0.9), Some(Mode::Near))], usize::MAX);
        assert!(text.contains("2 of 2 met") && text.contains("-  <= 1.00  not comparable") && text.contains("yes (far)"), "{text}");
        let narrow = goal_table(&[goal(Some(0.9), Some(Mode::Near))], 44);
        assert!(narrow.contains("  latency: yes\n    90.0 ns : 100 ns = 0.90, goal <= 1.00\n"), "{narrow}");
        assert!(narrow.lines().all(|line| line.chars().count() <= 44), "{narrow}");
    }

    #[test]
    fn quantiles_are_named() {
        assert_eq!(row_name(Metric::Percentile, 999), "p99.9");
        assert_eq!(row_name(Metric::Percentile, 500), "p50");
        assert_eq!(row_name(Metric::Percentile, 1000), "max");
    }
}
