// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's seven macrobenchmarks (Table 4), each in a file of its own: real parallel programs
//! on the simulated nodes. They compute on real numbers, which travel in the messages, and the
//! result is compared with that of a sequential run. Inputs are synthetic, drawn from a seed, of
//! Table 4's sizes.
//!
//! Charges: each access to an array goes through the simulated cache; each floating-point
//! operation takes [`FLOP`] cycles; loops and indices are charged as instructions. What the
//! originals compute beside that is not known; where it decides how much of the time is
//! communication, a constant of the program (`WORK`) stands for it. It was settled on with the
//! paper's statements about the figures in sight (docs/ni-simulator.md), so those are calibrated
//! and not predicted.

mod appbt;
mod barnes;
mod boxes;
pub mod collective;
mod dsmc;
mod em3d;
mod moldyn;
mod prepared;
pub mod random;
pub mod shared;
mod spsolve;
mod unstructured;

use std::cell::RefCell;
use std::rc::Rc;

use serde::Deserialize;

use crate::am::Am;
use crate::cluster::{self, Outcome};
use crate::experiment::Failure;
use crate::machine::Parameters;
use crate::ni::Design;
use crate::time::Time;
use prepared::prepared;

/// Processor cycles of a floating-point operation: the processor issues in order, and of a latency
/// of three or four cycles it hides half.
pub const FLOP: u64 = 2;
/// Where a program's arrays begin in a node's memory, one behind the other: in the half of a
/// direct-mapped cache of 1 MB that no NI's queue falls into.
const HEAP: u64 = 0x0108_0000;
/// No program takes as long.
const LIMIT: Time = Time::from_ns(100_000_000_000);

/// How large an input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// As in the paper's Table 4.
    #[default]
    Table4,
    /// Small, for tests.
    Small,
}

impl Size {
    /// From its name.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "table4" => Ok(Self::Table4),
            "small" => Ok(Self::Small),
            _ => Err(format!("\"{text}\" is no size: table4, small")),
        }
    }
}

/// Where and on what a program runs.
pub struct Setup<'a> {
    /// The machine.
    pub machine: &'a Parameters,
    /// The design of its NIs.
    pub design: &'static Design,
    /// How large the input is.
    pub size: Size,
    /// What the input is drawn from.
    pub seed: u64,
}

/// A macrobenchmark.
#[derive(Clone, Copy)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// What it computes, and how it communicates.
    pub about: &'static str,
    /// The paper's Table 4: size of messages in bytes with header, and their share in percent.
    pub table4: &'static [(u64, f64)],
    /// Whether its input can be shared out to so many nodes; if not, why.
    pub fits: fn(usize, Size) -> Result<(), String>,
    /// Runs it and checks its result.
    pub run: fn(&Setup<'_>) -> Result<Outcome, Failure>,
}

impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// All of them, in the paper's order.
pub const PROGRAMS: &[Program] = &[appbt::PROGRAM, barnes::PROGRAM, dsmc::PROGRAM, em3d::PROGRAM, moldyn::PROGRAM, spsolve::PROGRAM, unstructured::PROGRAM];

/// Of a program that runs on any number of nodes.
fn fits_any(_: usize, _: Size) -> Result<(), String> {
    Ok(())
}

/// The program of a name.
pub fn find(name: &str) -> Option<&'static Program> {
    PROGRAMS.iter().find(|program| program.name == name)
}

impl Setup<'_> {
    /// Runs `program` on each node; what each gave, in the order of the nodes.
    fn simulate<T: 'static, R: Future<Output = T> + 'static>(&self, program: impl Fn(Am) -> R) -> Result<(Vec<T>, Outcome), Failure> {
        let results: Rc<RefCell<Vec<Option<T>>>> = Rc::new(RefCell::new((0..self.machine.nodes).map(|_| None).collect()));
        let outcome = cluster::run(self.machine, self.design, LIMIT, |am| {
            let (results, node) = (results.clone(), am.cpu().node());
            let run = program(am);
            async move {
                let result = run.await;
                results.borrow_mut()[node] = Some(result);
            }
        })?;
        let results = results.borrow_mut().drain(..).flatten().collect();
        Ok((results, outcome))
    }
}

/// Whether a program computed what a sequential run does; `tolerance` is relative, for sums whose
/// order differs.
fn compare(name: &str, ours: &[f64], sequential: &[f64], tolerance: f64) -> Result<(), Failure> {
    let wrong = |what: String| Err(Failure::Wrong(format!("{name} computed {what}")));
    if ours.len() != sequential.len() {
        return wrong(format!("{} numbers instead of {}", ours.len(), sequential.len()));
    }
    for (index, (found, expected)) in ours.iter().zip(sequential).enumerate() {
        let far = (found - expected).abs() > tolerance * expected.abs().max(1e-30);
        if far || !found.is_finite() {
            return wrong(format!("{found} at {index}, a sequential run {expected}"));
        }
    }
    Ok(())
}
