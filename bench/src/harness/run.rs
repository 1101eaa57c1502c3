// SPDX-License-Identifier: MIT OR Apache-2.0
//! Carries a plan out, round after round, with a canary between any two measurements.
//!
//! When the canary before a measurement shows the far mode, the runner waits a little for the near
//! one; when a sample was far all the same, it is kept and marked, and once all rounds are done,
//! steps that lack near samples are measured again while time is left. All of that is bounded
//! ([`Limits`]). A step that fails twice is left out of the later rounds.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::bench::payload::SMALL_MAX;
use crate::canary::{Canary, Mode};
use crate::error::Error;
use crate::job::{Job, Waiting};
use crate::machine::{self, Machine};
use crate::mpi::Way::Own;
use crate::peers::Peers;
use crate::peers::installed::Flavour;
use crate::peers::mpi::{Run, patterns};
use crate::peers::process::Place;
use crate::pin;
use crate::plan::{Action, From, Step, Which, series};
use crate::progress::Progress;
use crate::samples::{Failure, Key, Metric, Sample, Samples};
use crate::session::{Session, SessionConfig};

/// Exchanges of one canary; about 2 ms when near.
const CANARY_COUNT: u64 = 20_000;
/// Failures after which a step is left out.
const FAILURES_MAX: u32 = 2;
/// Milliseconds of a figure of an MPI.
const MPI_BUDGET_MS: u32 = 16;
/// Active VIs among many.
const ACTIVE_VIS: usize = 10;

/// The variable that asks the library for faults, and the loss that is asked for.
const FAULTS: &str = "BELLWIRE_FAULTS";
const LOSS: &str = "loss=0.02,seed=1";
/// No value of it.
const NO_FAULTS: &str = "?";

/// Longest wait for the near mode before one measurement.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// Pause between two canaries of such a wait.
const WAIT_STEP: Duration = Duration::from_millis(25);

/// How much is measured, and what is spent on a machine that is slow for a while.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Rounds; also the number of near samples that each step should get.
    pub rounds: usize,
    /// Time after which no further round begins that only makes up for far samples.
    pub make_up: Duration,
    /// Waiting for the near mode, in all.
    pub waiting: Duration,
}

/// A run under way.
#[derive(Debug)]
pub struct Runner<'p> {
    config: SessionConfig,
    sessions: BTreeMap<Which, Session>,
    peers: &'p Peers,
    last_canary_ns: Option<f64>,
    waiting_left: Duration,
    /// Whether the library knows how to lose packets on purpose, once it is known.
    knows_faults: Option<bool>,
    samples: Samples,
}

/// Failures of a step, and the canaries of its samples.
#[derive(Debug, Clone, Default)]
struct Standing {
    failures: u32,
    canaries: Vec<Canary>,
}

impl Standing {
    fn lacks(&self, rounds: usize, best_ns: f64) -> bool {
        let near = self.canaries.iter().filter(|canary| canary.mode(best_ns) == Mode::Near).count();
        self.failures < FAILURES_MAX && near < rounds
    }
}

/// Runs `steps` within `limits`.
pub fn run(config: &SessionConfig, peers: &Peers, steps: &[Step], limits: Limits, quiet: bool) -> Samples {
    let (start, config) = (Instant::now(), config.clone());
    let mut progress = Progress::new(steps.len() * limits.rounds, quiet);
    let waiting_left = limits.waiting;
    let mut runner = Runner { config, sessions: BTreeMap::new(), peers, last_canary_ns: None, waiting_left, knows_faults: None, samples: Samples::default() };
    let mut standings = vec![Standing::default(); steps.len()];
    for round in 1..=limits.rounds {
        progress.round(round, limits.rounds);
        for (step, standing) in steps.iter().zip(&mut standings) {
            progress.step(&step.label);
            runner.attempt(step, standing, round);
        }
    }
    let mut round = limits.rounds;
    while start.elapsed() < limits.make_up && round < 4 * limits.rounds {
        let best_ns = runner.samples.best.ns();
        let lacking = standings.iter().filter(|standing| standing.lacks(limits.rounds, best_ns)).count();
        if lacking == 0 {
            break;
        }
        round += 1;
        progress.make_up(round - limits.rounds, lacking);
        for (step, standing) in steps.iter().zip(&mut standings).filter(|(_, standing)| standing.lacks(limits.rounds, best_ns)) {
            if start.elapsed() < limits.make_up {
                runner.attempt(step, standing, round);
            }
        }
    }
    progress.finish();
    runner.samples
}

/// The first facts in the report of a run of the library.
#[derive(Debug, Serialize)]
pub struct Head {
    /// Where it was.
    pub machine: Machine,
    /// Library and NIC.
    pub library: String,
    /// Reliability, rounds.
    pub conditions: String,
}

#[cfg(test)]
impl Head {
    /// Of a run that never was.
    pub(crate) fn made_up() -> Self {
        let (library, conditions) = ("lib".to_owned(), "Reliable Delivery, 3 rounds".to_owned());
        Head { machine: machine::describe(pin::Pinning::None), library, conditions }
    }
}

/// As [`run`]; opens the library first, to say early and clearly if that does not work.
///
/// # Errors
/// If the library cannot be opened.
pub fn of_library(config: &SessionConfig, peers: &Peers, steps: &[Step], limits: Limits, quiet: bool) -> Result<(Head, Samples), Error> {
    let library = Session::new(config.clone()).run(&Job::Open)?.note;
    let conditions = format!("{}, {} rounds", config.reliability.name(), limits.rounds);
    Ok((Head { machine: machine::describe(config.pinning), library, conditions }, run(config, peers, steps, limits, quiet)))
}

/// The configuration of one kind of pair.
fn configure(config: &SessionConfig, which: Which) -> SessionConfig {
    let mut config = config.clone();
    match which {
        Which::Main | Which::Peers | Which::Vis(_) => {}
        Which::Blocking => config.waiting = Waiting::Block,
        Which::Polling => config.waiting = Waiting::Poll,
        Which::Sleeping => {
            config.waiting = Waiting::Block;
            config.environment.push(("BELLWIRE_SPIN_US", "0".to_owned()));
        }
        Which::Guarded => config.environment.push(("BELLWIRE_MODE", "guarded".to_owned())),
        Which::Lossy => config.environment.push((FAULTS, LOSS.to_owned())),
    }
    config
}

impl Runner<'_> {
    /// One step, unless it has failed too often; its failure is noted.
    fn attempt(&mut self, step: &Step, standing: &mut Standing, round: usize) {
        if standing.failures >= FAILURES_MAX {
            return;
        }
        match self.measure(step, round) {
            Ok(canary) => standing.canaries.push(canary),
            Err(error) => {
                standing.failures = if matches!(error, Error::Unsupported(_)) { FAILURES_MAX } else { standing.failures + 1 };
                let ours = step.is_ours() && matches!(error, Error::Failed(_));
                self.samples.fail(Failure { what: step.label.clone(), why: error.to_string(), ours });
            }
        }
    }

    /// One step between two canaries.
    fn measure(&mut self, step: &Step, round: usize) -> Result<Canary, Error> {
        let before_ns = self.near_canary()?;
        let points = self.execute(&step.action, round)?;
        let after_ns = self.canary()?;
        self.last_canary_ns = Some(after_ns);
        let canary = Canary { before_ns, after_ns };
        for (key, value) in points {
            self.samples.add(key, Sample { round, value, canary });
        }
        Ok(canary)
    }

    /// The canary before a measurement: the one after the last, if nothing has happened since, or
    /// new ones until the machine is near.
    fn near_canary(&mut self) -> Result<f64, Error> {
        let mut canary_ns = match self.last_canary_ns.take() {
            Some(canary_ns) => canary_ns,
            None => self.canary()?,
        };
        let start = Instant::now();
        let most = WAIT_MAX.min(self.waiting_left);
        let is_far = |canary_ns, best_ns| Canary { before_ns: canary_ns, after_ns: canary_ns }.mode(best_ns) == Mode::Far;
        while is_far(canary_ns, self.samples.best.ns()) && start.elapsed() < most {
            std::thread::sleep(WAIT_STEP);
            canary_ns = self.canary()?;
        }
        self.waiting_left = self.waiting_left.saturating_sub(start.elapsed());
        Ok(canary_ns)
    }

    fn canary(&mut self) -> Result<f64, Error> {
        let answer = self.session(Which::Main)?.run(&Job::Exchange { count: CANARY_COUNT, words: 1 });
        let half = answer.map_err(|error| error.within("canary"))?.first.first().copied().unwrap_or(f64::NAN);
        self.samples.best.note(half);
        Ok(half)
    }

    fn session(&mut self, which: Which) -> Result<&mut Session, Error> {
        if !self.sessions.contains_key(&which) {
            self.sessions.insert(which, Session::new(configure(&self.config, which)));
        }
        Ok(self.sessions.get_mut(&which).expect("inserted above"))
    }

    fn execute(&mut self, action: &Action, round: usize) -> Result<Vec<(Key, f64)>, Error> {
        match action {
            Action::Pair { which, job, keys } => self.pair(*which, job, keys, round),
            Action::Pairs { pairs, waiting, millis, key } => Ok(vec![(*key, self.pairs(*pairs, *waiting, *millis)?)]),
            Action::Ucx { test, size, count, key } => {
                let ucx = self.peers.ucx.as_ref().ok_or_else(|| Error::unsupported("UCX"))?;
                let rate = ucx.rate(*test, *size, *count, self.place())?;
                let value = match key.metric {
                    Metric::Rate => rate,
                    Metric::Bandwidth | Metric::WriteBandwidth => rate * *size as f64 / 1e9,
                    _ => 1e9 / rate,
                };
                Ok(vec![(*key, value)])
            }
            Action::Libfabric { way, size, count, series } => {
                let fabric = self.peers.libfabric.as_ref().ok_or_else(|| Error::unsupported("libfabric"))?;
                let half = fabric.half_round_trip(*way, *size, *count, self.place())?;
                let mut points = vec![(Key::new(Metric::Latency, *series, *size as u64), half)];
                if *size > SMALL_MAX {
                    points.push((Key::new(Metric::Bandwidth, *series, *size as u64), *size as f64 / half));
                }
                Ok(points)
            }
            Action::Gasnet { count, key } => {
                let gasnet = self.peers.gasnet.as_ref().ok_or_else(|| Error::unsupported("GASNet"))?;
                Ok(vec![(*key, gasnet.half_round_trip(*count, self.place())?)])
            }
            Action::Mpi { flavour, sizes, series, metrics } => {
                let mpi = match flavour {
                    Flavour::Mpich => &self.peers.mpich,
                    Flavour::OpenMpi => &self.peers.openmpi,
                    Flavour::Intel => &self.peers.intel,
                };
                let mpi = mpi.as_ref().ok_or_else(|| Error::unsupported("MPI"))?;
                let environment = Own.environment(*flavour, &[]);
                let run = Run { prefix: &[], environment: &environment, ranks: 2, pinning: self.config.pinning };
                let (_, figures) = mpi.run(&run, &patterns(sizes), MPI_BUDGET_MS)?;
                let wanted = figures.into_iter().filter(|(metric, ..)| metrics.contains(metric));
                Ok(wanted.map(|(metric, size, value)| (Key::new(metric, *series, size), value)).collect())
            }
        }
    }

    fn pair(&mut self, which: Which, job: &Job, keys: &[(Key, From)], round: usize) -> Result<Vec<(Key, f64)>, Error> {
        if let Which::Vis(vis) = which {
            self.open_vis(which, vis, round)?;
        }
        if which == Which::Lossy && !self.knows_faults() {
            return Err(Error::unsupported(format!("the library does not know {FAULTS}, so packets cannot be lost on purpose")));
        }
        let answer = self.session(which)?.run(job)?;
        let number = |from: From| match from {
            From::First(index) => answer.first.get(index),
            From::Second(index) => answer.second.get(index),
        };
        let point = |&(key, from): &(Key, From)| {
            let value = number(from).copied().filter(|value| value.is_finite());
            value.map(|value| (key, value)).ok_or_else(|| Error::failed("a measuring process answered without the figure"))
        };
        keys.iter().map(point).collect()
    }

    /// Messages a second of several ping-pongs at once, each between two fresh processes, spread
    /// over all processors that there are.
    fn pairs(&self, pairs: usize, waiting: Waiting, millis: u64) -> Result<f64, Error> {
        let cpus = pin::allowed();
        let config = |pair| SessionConfig { waiting, pinning: pin::spread(&cpus, pair), ..self.config.clone() };
        let mut sessions: Vec<Session> = (0..pairs).map(|pair| Session::new(config(pair))).collect();
        for session in &mut sessions {
            session.run(&Job::Open)?;
        }
        let rates: Vec<Result<f64, Error>> = std::thread::scope(|scope| {
            let one = |session: &mut Session| session.run(&Job::PingPong { millis }).map(|answer| answer.first.first().copied().unwrap_or(f64::NAN));
            let threads: Vec<_> = sessions.iter_mut().map(|session| scope.spawn(move || one(session))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(Error::failed("a controlling thread panicked")))).collect()
        });
        rates.into_iter().sum()
    }

    /// Where programs of others run.
    fn place(&self) -> Place<'_> {
        Place { pinning: self.config.pinning, route: &self.config.route }
    }

    /// Whether the library understands the variable for faults: then it refuses a value that means
    /// nothing, as it does with its other variables.
    fn knows_faults(&mut self) -> bool {
        let config = &self.config;
        *self.knows_faults.get_or_insert_with(|| {
            let mut config = config.clone();
            config.environment.push((FAULTS, NO_FAULTS.to_owned()));
            config.may_fail = true;
            Session::new(config).run(&Job::Open).is_err()
        })
    }

    /// Connects the VIs of a scaling pair, unless they are connected: the first time, or after the
    /// pair was restarted.
    fn open_vis(&mut self, which: Which, vis: usize, round: usize) -> Result<(), Error> {
        let session = self.session(which)?;
        if session.is_running() {
            return Ok(());
        }
        let answer = session.run(&Job::ScalingOpen { vis, active: ACTIVE_VIS })?;
        if vis > ACTIVE_VIS {
            // The larger of the two processes counts. Memory does not depend on the machine's mode.
            let bytes = answer.first.iter().chain(&answer.second).copied().fold(0.0, f64::max);
            let canary = Canary { before_ns: 0.0, after_ns: 0.0 };
            let key = Key::new(Metric::ViMemory, series::OURS, vis as u64);
            self.samples.add(key, Sample { round, value: bytes, canary });
        }
        Ok(())
    }
}
