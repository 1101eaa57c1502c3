// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statements of section 6 of the paper about its figures, each as ranges of numbers, and
//! whether ours lie in them. The paper's numbers are whole percents, so a range reaches half a
//! percent further.

use super::figures::{Buffers, COHERENT_BUFFERS, ENOUGH, FIFOS, Figure, REGISTERS, Runs};
use crate::programs::PROGRAMS;

/// A number that a statement is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Of what.
    pub of: String,
    /// Ours.
    pub ours: f64,
    /// From where to where it should lie.
    pub range: (f64, f64),
}

impl Check {
    /// Whether it does.
    pub fn holds(&self) -> bool {
        (self.range.0..=self.range.1).contains(&self.ours)
    }
}

/// A statement of the paper.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The figure it is about.
    pub figure: &'static str,
    /// What it says.
    pub text: &'static str,
    /// Its numbers.
    pub checks: Vec<Check>,
}

impl Statement {
    /// Whether all its numbers lie where they should.
    pub fn holds(&self) -> bool {
        self.checks.iter().all(Check::holds)
    }
}

/// Rounding in the paper, in percent.
const ROUNDED: f64 = 0.5;
/// The tolerance of "up to so much", in percent of the time.
const UP_TO: f64 = 10.0;
/// The meaning of "equal", "comparable" and "marginally", in percent.
const NEAR: f64 = 10.0;
const HUGE: f64 = 1e9;

fn check(of: impl Into<String>, ours: Option<f64>, low: f64, high: f64) -> Option<Check> {
    ours.map(|ours| Check { of: of.into(), ours, range: (low - ROUNDED, high + ROUNDED) })
}

fn names() -> impl Iterator<Item = &'static str> {
    PROGRAMS.iter().map(|program| program.name)
}

fn is_bursty(program: &str) -> bool {
    ENOUGH.iter().any(|(name, _)| *name == program)
}

/// The statements about some figures.
pub fn statements(figures: &[Figure], runs: &Runs) -> Vec<Statement> {
    let all = figures.iter().flat_map(|figure| match figure {
        Figure::One => figure1(runs),
        Figure::Three => figure3a(runs).into_iter().chain(figure3b(runs)).collect(),
        Figure::Four => figure4(runs),
    });
    all.collect()
}

fn figure1(runs: &Runs) -> Vec<Statement> {
    let greatest = |of: fn((f64, f64)) -> f64| names().filter_map(|name| runs.shares(name).map(of)).reduce(f64::max);
    let statement =
        |text, of, paper: f64| Statement { figure: "1", text, checks: check("greatest", greatest(of), paper - UP_TO, paper + UP_TO).into_iter().collect() };
    vec![
        statement("data transfer is up to 42 % of the time", |shares| shares.0, 42.0),
        statement("buffering is up to 58 % of the time", |shares| shares.1, 58.0),
    ]
}

/// A statement about each program, with a range.
fn each(figure: &'static str, text: &'static str, gain: impl Fn(&str) -> Option<f64>, low: f64, high: f64) -> Statement {
    Statement { figure, text, checks: names().filter_map(|name| check(name, gain(name), low, high)).collect() }
}

/// A statement about each FIFO design and the programs that are `wanted`.
fn each_fifo(text: &'static str, wanted: impl Fn(&str) -> bool, gain: impl Fn(&str, &str) -> Option<f64>, low: f64, high: f64) -> Statement {
    let pairs = names().filter(|name| wanted(name)).flat_map(|name| FIFOS.map(|design| (name, design)));
    Statement { figure: "3a", text, checks: pairs.filter_map(|(name, design)| check(format!("{name} on {design}"), gain(name, design), low, high)).collect() }
}

fn figure3a(runs: &Runs) -> Vec<Statement> {
    let by_buffers = |more: Buffers, fewer: Buffers| move |name: &str, design: &str| runs.gain(name, (design, more), (design, fewer));
    let beyond_two = by_buffers(None, Some(2));
    // The part of what infinitely many buffers gain over two that so many capture.
    let captured =
        |buffers: u32| move |name: &str, design: &str| Some(runs.gain(name, (design, Some(buffers)), (design, Some(2)))? / beyond_two(name, design)? * 100.0);
    let mut all = vec![
        each("3a", "with infinite buffers UDMA beats the CM-5 by 0-15 %", |name| runs.gain(name, ("udma", None), ("ni2w", None)), 0.0, 15.0),
        each("3a", "with infinite buffers AP3000 beats UDMA by 11-44 %", |name| runs.gain(name, ("ap3000", None), ("udma", None)), 11.0, 44.0),
        each_fifo("two buffers in place of one gain 6-40 %", |_| true, by_buffers(Some(2), Some(1)), 6.0, 40.0),
        each_fifo("more than two gain less than 19 %, except for em3d and spsolve", |name| !is_bursty(name), beyond_two, -HUGE, 19.0),
        each_fifo("more than two gain 29-40 % for em3d", |name| name == "em3d", beyond_two, 29.0, 40.0),
        each_fifo("more than two gain 78-101 % for spsolve", |name| name == "spsolve", beyond_two, 78.0, 101.0),
    ];
    let texts = ["128 buffers capture most of that for em3d", "33 buffers capture most of that for spsolve"];
    for (text, (program, buffers)) in texts.into_iter().zip(ENOUGH) {
        all.push(each_fifo(text, |name| name == program, captured(buffers), 50.0, HUGE));
    }
    all
}

fn figure3b(runs: &Runs) -> Vec<Statement> {
    let over = |other: &'static str, buffers: Buffers| move |name: &str| runs.gain(name, ("cni32qm", COHERENT_BUFFERS), (other, buffers));
    let two = COHERENT_BUFFERS;
    let fetched =
        |name: &str, design: &str| runs.run(name, design, two).map(|run| run.outcome.traffic.iter().map(|traffic| traffic.queue_to_cache).sum::<u64>());
    let saved: Vec<f64> = names().filter_map(|name| Some(1.0 - fetched(name, "cni32qm")? as f64 / fetched(name, "startjr")?.max(1) as f64)).collect();
    let mean = (!saved.is_empty()).then(|| saved.iter().sum::<f64>() / saved.len() as f64 * 100.0);
    let others = |text, other: &'static str, buffers| {
        let gain = over(other, buffers);
        let checks = names().filter(|name| *name != "unstructured").filter_map(|name| check(name, gain(name), 0.0, HUGE));
        Statement { figure: "3b", text, checks: checks.collect() }
    };
    let behind = |of: &'static str, buffers| check(of, over(of, buffers)("unstructured"), -NEAR, 0.0);
    vec![
        each("3b", "CNI32Qm beats the Memory Channel by 2-26 %", over("memory-channel", two), 2.0, 26.0),
        each("3b", "CNI32Qm beats StarT-JR by 2-13 %", over("startjr", two), 2.0, 13.0),
        others("CNI32Qm beats AP3000 with 8 buffers on all but unstructured", "ap3000", Some(8)),
        others("CNI32Qm beats CNI512Q on all but unstructured", "cni512q", two),
        Statement {
            figure: "3b",
            text: "on unstructured AP3000 and CNI512Q are marginally ahead of CNI32Qm",
            checks: behind("ap3000", Some(8)).into_iter().chain(behind("cni512q", two)).collect(),
        },
        Statement {
            figure: "3b",
            text: "CNI32Qm fetches 54 % fewer blocks of its queues from memory than StarT-JR, on average",
            checks: check("mean", mean, 44.0, 64.0).into_iter().collect(),
        },
    ]
}

fn figure4(runs: &Runs) -> Vec<Statement> {
    let ahead = |name: &str| runs.gain(name, ("cni32qm", COHERENT_BUFFERS), (REGISTERS, Some(2)));
    let one = |text, check: Option<Check>| Statement { figure: "4", text, checks: check.into_iter().collect() };
    let break_even = |name: &str| runs.break_even(name).map(|buffers| buffers.map_or(HUGE, f64::from));
    let rest: Vec<f64> =
        names().filter(|name| !is_bursty(name)).filter_map(|name| runs.gain(name, (REGISTERS, Some(2)), ("cni32qm", COHERENT_BUFFERS))).collect();
    let mean = (!rest.is_empty()).then(|| rest.iter().sum::<f64>() / rest.len() as f64);
    vec![
        one("with two buffers CNI32Qm is 18 % faster on spsolve than the NI in the registers", check("spsolve", ahead("spsolve"), 18.0 - NEAR, 18.0 + NEAR)),
        one("with two buffers they are equal on em3d", check("em3d", ahead("em3d"), -NEAR, NEAR)),
        one("on spsolve they break even at 32 buffers", check("spsolve", break_even("spsolve"), 16.0, 64.0)),
        one("on em3d they break even at 2 buffers", check("em3d", break_even("em3d"), 1.0, 4.0)),
        one("on the other five CNI32Qm is within 15 %, on average", check("mean", mean, -15.0, 15.0)),
    ]
}
