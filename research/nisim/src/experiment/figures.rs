// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's figures 1, 3 and 4: which macrobenchmarks run on which designs with how many
//! flow-control buffers, and what their times say.

use super::{Case, Measure, Measured};
use crate::machine::Parameters;
use crate::ni;
use crate::programs::{self, PROGRAMS, Program, Size};

/// Flow-control buffers; none is infinitely many.
pub type Buffers = Option<u32>;

/// A figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// What data transfer and buffering cost on the CM-5's NI.
    One,
    /// The NIs with FIFOs, by buffers (a); the coherent ones (b).
    Three,
    /// The NI in the processor's registers against CNI32Qm.
    Four,
}

impl Figure {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::One, Self::Three, Self::Four];
}

/// The FIFO designs of figure 3a.
pub const FIFOS: [&str; 3] = ["ni2w", "udma", "ap3000"];
/// The coherent designs of figure 3b.
pub const COHERENT: [&str; 4] = ["memory-channel", "startjr", "cni512q", "cni32qm"];
/// Buffers of figure 3a.
pub const FIFO_BUFFERS: [Buffers; 4] = [None, Some(8), Some(2), Some(1)];
/// Buffers of figure 3b, and of CNI32Qm in figure 4.
pub const COHERENT_BUFFERS: Buffers = Some(2);
/// Buffers of figure 4.
pub const REGISTER_BUFFERS: [Buffers; 8] = [Some(1), Some(2), Some(4), Some(8), Some(16), Some(32), Some(64), None];
/// With so many buffers a program captures most of what infinitely many give, says the paper.
pub const ENOUGH: [(&str, u32); 2] = [("em3d", 128), ("spsolve", 33)];

/// The NI in the processor's registers.
pub const REGISTERS: &str = "ni2w-single-cycle";
/// The design that figures 3 and 4 compare with.
pub const CNI32QM: &str = "cni32qm";

/// What a run of a program is known by.
type Key = (&'static str, &'static str, Buffers);

/// The runs that figures need, each once.
fn keys(figures: &[Figure]) -> Vec<Key> {
    let mut keys = Vec::new();
    for name in PROGRAMS.iter().map(|program| program.name) {
        for figure in figures {
            match figure {
                Figure::One => keys.extend([(name, "ni2w", Some(1)), (name, "ni2w", None), (name, REGISTERS, None)]),
                Figure::Three => {
                    keys.extend(FIFOS.iter().flat_map(|&design| FIFO_BUFFERS.map(|buffers| (name, design, buffers))));
                    let enough = ENOUGH.iter().filter(|(program, _)| *program == name);
                    keys.extend(enough.flat_map(|&(_, buffers)| FIFOS.map(|design| (name, design, Some(buffers)))));
                    keys.extend(COHERENT.map(|design| (name, design, COHERENT_BUFFERS)));
                }
                Figure::Four => {
                    keys.extend(REGISTER_BUFFERS.map(|buffers| (name, REGISTERS, buffers)));
                    keys.push((name, CNI32QM, COHERENT_BUFFERS));
                }
            }
        }
    }
    let mut once = Vec::new();
    keys.into_iter().for_each(|key| {
        if !once.contains(&key) {
            once.push(key)
        }
    });
    once
}

/// The simulations for some figures.
///
/// # Panics
/// If a design of the figures does not exist.
pub fn cases(figures: &[Figure], machine: &Parameters, size: Size, seed: u64) -> Vec<Case> {
    let case = |(program, design, buffers)| {
        let measure = Measure::Program(programs::find(program).expect("a program of the list"));
        let design = ni::find(design).expect("the figures name designs that exist");
        Case { size, seed, ..Case::new(measure, design, Parameters { buffers, ..machine.clone() }) }
    };
    keys(figures).into_iter().map(case).collect()
}

/// What the simulations gave.
pub struct Runs(Vec<(Key, Measured)>);

impl Runs {
    /// The results of [`cases`], in their order.
    pub fn new(cases: &[Case], measured: Vec<Measured>) -> Self {
        let key = |case: &Case| match case.measure {
            Measure::Program(program) => (program.name, case.design.name, case.machine.buffers),
            _ => ("", case.design.name, case.machine.buffers),
        };
        Self(cases.iter().map(key).zip(measured).collect())
    }

    /// A run, if it was among the cases.
    pub fn run(&self, program: &str, design: &str, buffers: Buffers) -> Option<&Measured> {
        self.0.iter().find(|((p, d, b), _)| *p == program && *d == design && *b == buffers).map(|(_, measured)| measured)
    }

    /// The time of a run in microseconds.
    pub fn time(&self, program: &str, design: &str, buffers: Buffers) -> Option<f64> {
        self.run(program, design, buffers).map(|measured| measured.value)
    }

    /// How much faster one run is than another, in percent: what its speed gains.
    pub fn gain(&self, program: &str, fast: (&str, Buffers), slow: (&str, Buffers)) -> Option<f64> {
        Some((self.time(program, slow.0, slow.1)? / self.time(program, fast.0, fast.1)? - 1.0) * 100.0)
    }

    /// Shares of the time on the CM-5's NI with one buffer, in percent: data transfer is what an NI
    /// in the registers saves, buffering what buffers without end save.
    pub fn shares(&self, program: &str) -> Option<(f64, f64)> {
        let (one, endless) = (self.time(program, "ni2w", Some(1))?, self.time(program, "ni2w", None)?);
        Some(((endless - self.time(program, REGISTERS, None)?) / one * 100.0, (one - endless) / one * 100.0))
    }

    /// The fewest buffers of figure 4 with which the NI in the registers is at least as fast as
    /// CNI32Qm.
    pub fn break_even(&self, program: &str) -> Option<Buffers> {
        let cni = self.time(program, CNI32QM, COHERENT_BUFFERS)?;
        REGISTER_BUFFERS.into_iter().find(|&buffers| self.time(program, REGISTERS, buffers).is_some_and(|time| time <= cni))
    }
}

/// Buffers as a word.
pub fn buffers_text(buffers: Buffers) -> String {
    buffers.map_or("inf".to_owned(), |count| count.to_string())
}

/// A program's shares of messages by size beside those of Table 4: bytes with header, ours, the
/// paper's, in percent. Where the paper has a mean for all sizes beyond the first, so is ours.
pub fn histogram(program: &Program, sizes: &std::collections::BTreeMap<u64, u64>) -> Vec<(u64, f64, f64)> {
    let all: u64 = sizes.values().sum();
    let share = |count: u64| count as f64 * 100.0 / all.max(1) as f64;
    if program.name == "unstructured" {
        let beyond: Vec<(u64, u64)> = sizes.iter().filter(|(size, _)| **size > 8).map(|(size, count)| (*size, *count)).collect();
        let (count, bytes) = beyond.iter().fold((0, 0), |(count, bytes), (size, many)| (count + many, bytes + size * many));
        return vec![(8, share(sizes.get(&8).copied().unwrap_or(0)), program.table4[0].1), (bytes / count.max(1), share(count), program.table4[1].1)];
    }
    program.table4.iter().map(|&(size, paper)| (size, share(sizes.get(&size).copied().unwrap_or(0)), paper)).collect()
}
