// SPDX-License-Identifier: MIT OR Apache-2.0
//! Papers beside measurements: their tables, figures and statements, each with ours.
//!
//! ```text
//!   p000 ── measure ── values.rs   figures of each round, by name; a cell is an expression of them
//!        ├─ exhibits ─ model.rs    tables and figures, the paper's values as data
//!        └─ claims ─── judge.rs    a statement of the text: holds, does not hold, not comparable
//!                      told.rs, html.rs   text, CSV and JSON; one HTML file with SVG
//! ```
//!
//! Everything is measured once in each round, in turn. A cell shows the median over the rounds; a
//! statement compares within each round, and is judged by the median of these comparisons and its
//! uncertainty. Another paper is another module beside these, which gives the same three things.

pub mod html;
pub mod judge;
pub mod model;
pub mod p000;
pub mod p001;
pub mod p004;
pub mod told;
pub mod values;

#[cfg(test)]
mod checks;

use std::time::Instant;

use crate::error::Error;
use crate::job::Job;
use crate::machine;
use crate::progress::Progress;
use crate::session::{Session, SessionConfig};
use model::Found;
use values::Values;

/// How much is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// The measuring processes.
    pub session: SessionConfig,
    /// Rounds.
    pub rounds: usize,
    /// Short measurements, for a look or a test: nothing is judged by time.
    pub quick: bool,
    /// No progress.
    pub quiet: bool,
}

/// A measurement of a round: one job, whose figures get names.
#[derive(Debug, Clone)]
pub struct Step {
    /// Which of the ways that the processes reach each other by.
    pub route: usize,
    /// What both processes do.
    pub job: Job,
    /// The names of what the first one answers, in order.
    pub names: Vec<String>,
    /// Whether the second one answers.
    pub of_second: bool,
}

impl Step {
    /// A job over the first way.
    pub fn new(job: Job, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { route: 0, job, names: names.into_iter().map(Into::into).collect(), of_second: false }
    }

    /// The same over another way.
    pub fn by(self, route: usize) -> Self {
        Self { route, ..self }
    }
}

/// The papers that there are, by number.
pub const PAPERS: [&str; 3] = ["000", "001", "004"];

/// Measures what a paper needs, and sets it beside the paper.
///
/// # Errors
/// There is no such paper here. Failures of measurements are in the result.
pub fn run(number: &str, options: &Options) -> Result<Found, Error> {
    let start = Instant::now();
    let mut found = match number {
        "000" => p000::run(options),
        "001" => p001::run(options),
        "004" => p004::run(options),
        _ => return Err(Error::failed(format!("there is no paper {number} here, but {}", PAPERS.join(", ")))),
    };
    found.about.push(format!("Measuring took {:.0} s.", start.elapsed().as_secs_f64()));
    Ok(found)
}

/// The simulated part of a paper alone: no library is measured.
///
/// # Errors
/// The simulation fails, or nothing of that paper is simulated alone.
pub fn simulated(number: &str) -> Result<Found, Error> {
    match number {
        "000" => p000::simulated(),
        _ => Err(Error::failed(format!("--simulated: nothing of paper {number} is simulated alone, but of 000"))),
    }
}

/// Figures, and the steps that have failed, by their labels.
type Measured = (Values, Vec<(String, Error)>);

/// Does each step of a round, in turn, and notes what it gives: names with figures. A step that has
/// failed is not tried again.
fn in_rounds(labels: &[&str], options: &Options, do_step: &mut dyn FnMut(usize, usize) -> Result<Vec<(String, f64)>, Error>) -> Measured {
    let (mut values, mut failures) = (Values::default(), Vec::new());
    let mut failed = vec![false; labels.len()];
    let mut progress = Progress::new(labels.len() * options.rounds, options.quiet);
    for round in 1..=options.rounds {
        progress.round(round, options.rounds);
        for (step, label) in labels.iter().enumerate() {
            if failed[step] {
                continue;
            }
            progress.step(label);
            match do_step(step, round) {
                Ok(figures) => figures.iter().for_each(|(name, value)| values.note(name, round, *value)),
                Err(error) => {
                    failed[step] = true;
                    failures.push(((*label).to_owned(), error));
                }
            }
        }
    }
    progress.finish();
    (values, failures)
}

/// Measures jobs in rounds, by a pair of processes for each way.
fn measure(ways: &[SessionConfig], steps: &[Step], options: &Options) -> (Values, Vec<String>) {
    let mut sessions: Vec<Session> = ways.iter().cloned().map(Session::new).collect();
    let labels: Vec<&str> = steps.iter().map(|step| step.names.first().map_or("", String::as_str)).collect();
    let (values, failures) = in_rounds(&labels, options, &mut |step, _| {
        let step = &steps[step];
        let session = sessions.get_mut(step.route).ok_or_else(|| Error::failed("there is no such way"))?;
        let answer = session.run(&step.job)?;
        Ok(step.names.iter().cloned().zip(if step.of_second { answer.second } else { answer.first }).collect())
    });
    (values, failures.into_iter().map(|(label, error)| format!("{label}: {error}")).collect())
}

/// A session whose processes load its library, if it names one.
fn by_library(session: &SessionConfig) -> SessionConfig {
    let mut session = session.clone();
    if let Some(library) = &session.library {
        session.environment.push(("BELLWIRE_VIPL", library.to_string_lossy().into_owned()));
    }
    session
}

/// Of a quick run: what its readers should know.
fn about_quick(options: &Options) -> Option<String> {
    options.quick.then(|| "A quick run: so short that its times say nothing.".to_owned())
}

/// The machine, as a sentence.
fn about_machine(session: &SessionConfig) -> String {
    let machine = machine::describe(session.pinning);
    format!("{}, {} processors, {}; {}; bellwire {}", machine.cpu_model, machine.cpus, machine.kernel, machine.date, machine.version)
}
