// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures by turns what is not one job of the measuring processes: programs of others, jobs of
//! ours. Each source is asked once in a round, with a canary before and after. A source that has
//! failed once is not asked again.

use crate::canary::Canary;
use crate::error::Error;
use crate::job::Job;
use crate::progress::Progress;
use crate::samples::{Failure, Key, Sample, Samples};
use crate::session::{Session, SessionConfig};

/// Exchanges of one canary.
const CANARY_COUNT: u64 = 4000;

/// Figures, each with its cell.
pub type Figures = Vec<(Key, f64)>;

/// Something that gives figures when its turn comes.
pub struct Turn<'a> {
    /// For progress and failures.
    pub name: String,
    /// Whether its failure is one of ours.
    pub is_ours: bool,
    /// The number of the table that its figures go to.
    pub table: usize,
    /// All its figures, or why it has none.
    pub measure: Box<dyn FnMut() -> Result<Figures, Error> + 'a>,
}

impl std::fmt::Debug for Turn<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Asks each of `turns` in so many rounds; there are `tables` tables. The processes of `session`
/// take the canaries.
pub fn run(session: &SessionConfig, turns: &mut [Turn<'_>], tables: usize, rounds: usize, quiet: bool) -> Vec<Samples> {
    let mut all: Vec<Samples> = (0..tables).map(|_| Samples::default()).collect();
    let mut progress = Progress::new(turns.len() * rounds, quiet);
    let mut canary = Session::new(session.clone());
    for round in 1..=rounds {
        progress.round(round, rounds);
        for Turn { name, is_ours, table, measure } in turns.iter_mut() {
            let samples = &mut all[*table];
            progress.step(name);
            if samples.failures.iter().any(|failure| failure.what == *name) {
                continue;
            }
            let before_ns = exchange(&mut canary);
            let result = measure();
            let canary = Canary { before_ns, after_ns: exchange(&mut canary) };
            samples.best.note(canary.before_ns);
            samples.best.note(canary.after_ns);
            match result {
                Ok(figures) => figures.into_iter().for_each(|(key, value)| samples.add(key, Sample { round, value, canary })),
                Err(error) => samples.fail(Failure { what: name.clone(), why: error.to_string(), ours: *is_ours }),
            }
        }
    }
    progress.finish();
    all
}

/// A canary; a machine that is too busy even for that is far.
fn exchange(session: &mut Session) -> f64 {
    let answer = session.run(&Job::Exchange { count: CANARY_COUNT, words: 1 });
    answer.ok().and_then(|answer| answer.first.first().copied()).unwrap_or(f64::INFINITY)
}
