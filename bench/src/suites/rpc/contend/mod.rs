// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire contend`: many clients of one server, as processes of their own; the contention
//! experiments of the paper on virtual network transport protocols.
//!
//! Each client keeps some requests out to one endpoint of the server and counts the replies; who
//! has nothing to do sleeps. In one experiment all clients share one endpoint of the server; in the
//! others each has an endpoint there of its own, a virtual network for two, served by one thread
//! that polls all of them or by a thread for each that waits for events.
//!
//! | file | concern |
//! |---|---|
//! | `mod.rs` | experiments and what comes out of them |
//! | `crew.rs` | the processes of one point, from the controller's side |
//! | `client.rs`, `server.rs` | what they do |
//! | `protocol.rs` | what they are told and answer |
//! | `report.rs`, `plot.rs` | tables, JSON, pictures |

mod client;
mod crew;
pub mod protocol;
pub mod report;
mod server;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde::Serialize;

use crate::channel::Channel;
use crate::error::Error;
use crate::goals::{self, Goal};
use crate::machine::{self, Machine};
use crate::pin::Pinning;
use crate::progress::Progress;
use protocol::{Ask, Counted, Role, Serving};

/// The hidden command of a server or a client, which ends up in [`main`].
pub const MEMBER_COMMAND: &str = "contend-member";
/// Most bytes of a request.
pub const BYTES_MAX: usize = bellwire_am::MEDIUM_BYTES_MAX;

/// How clients meet at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Experiment {
    /// All at one endpoint.
    OneEndpoint,
    /// Each at an endpoint of its own, all of which one thread polls.
    Networks,
    /// Each at an endpoint of its own, with a thread that waits for events.
    Threads,
    /// No server: each asks one other, and answers. Only [`exchange`] does that.
    Exchange,
}

impl Experiment {
    /// In the order of the tables.
    pub const ALL: [Experiment; 3] = [Experiment::OneEndpoint, Experiment::Networks, Experiment::Threads];

    /// As tables call it.
    pub fn title(self) -> &'static str {
        match self {
            Experiment::OneEndpoint => "one endpoint",
            Experiment::Networks => "networks, one thread",
            Experiment::Threads => "networks, threads",
            Experiment::Exchange => "exchange",
        }
    }

    fn serving(self, clients: usize, nics: bool) -> Serving {
        let endpoints = if self == Experiment::OneEndpoint { 1 } else { clients };
        Serving { endpoints, threads: self == Experiment::Threads, nics }
    }
}

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// Executable and arguments that end up in [`main`].
    pub worker: (PathBuf, Vec<String>),
    /// Which experiments.
    pub experiments: Vec<Experiment>,
    /// Numbers of clients.
    pub clients: Vec<usize>,
    /// Requests that a client has out.
    pub window: usize,
    /// Bytes of a request beside its arguments.
    pub bytes: usize,
    /// Each endpoint of the server has a network interface of its own, also with one thread.
    pub nics: bool,
    /// Environment variables of the server, and of the clients.
    pub environment: [Vec<(&'static str, String)>; 2],
    /// How long a point is measured.
    pub time: Duration,
    /// The processors; empty: all.
    pub cpus: Vec<usize>,
    /// Server and clients share all of them; else the server has the first for itself.
    pub together: bool,
    /// No progress.
    pub quiet: bool,
}

impl Options {
    fn server_cpus(&self) -> &[usize] {
        if self.is_apart() { &self.cpus[..1] } else { &self.cpus }
    }

    fn client_cpus(&self) -> &[usize] {
        if self.is_apart() { &self.cpus[1..] } else { &self.cpus }
    }

    fn is_apart(&self) -> bool {
        !self.together && self.cpus.len() > 1
    }
}

/// What so many clients had of the server.
#[derive(Debug, Clone, Serialize)]
pub struct Point {
    /// How they met.
    pub experiment: Experiment,
    /// How many.
    pub clients: usize,
    /// Replies a second, all together.
    pub rate: f64,
    /// Replies a second of each.
    pub rates: Vec<f64>,
    /// The slowest client's rate, of an equal share.
    pub slowest: f64,
    /// Jain's index of fairness: 1 if all are equal, 1/n if one has everything.
    pub jain: f64,
    /// Time from a request to its reply, median, ns.
    pub response_median_ns: f64,
    /// Of 99 % not more than this, ns.
    pub response_p99_ns: f64,
}

impl Point {
    fn new(experiment: Experiment, counted: &[Counted], seconds: f64) -> Self {
        let rates: Vec<f64> = counted.iter().map(|c| c.replies as f64 / seconds).collect();
        let rate: f64 = rates.iter().sum();
        let (n, squares) = (rates.len() as f64, rates.iter().map(|r| r * r).sum::<f64>());
        let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min) / (rate / n);
        let mut times: Vec<(u64, u64)> = counted.iter().flat_map(|c| c.times.iter().copied()).collect();
        times.sort_unstable();
        let quantile = |q: f64| {
            let wanted = (times.iter().map(|(_, count)| count).sum::<u64>() as f64 * q).ceil() as u64;
            let mut seen = 0;
            times.iter().find(|(_, count)| {
                seen += count;
                seen >= wanted
            })
        };
        let time = |q| quantile(q).map_or(f64::NAN, |(ns, _)| *ns as f64);
        let (response_median_ns, response_p99_ns) = (time(0.5), time(0.99));
        Self { experiment, clients: rates.len(), rate, slowest, jain: rate * rate / (n * squares), rates, response_median_ns, response_p99_ns }
    }
}

/// Everything that was found.
#[derive(Debug, Serialize)]
pub struct Contention {
    /// Where it was.
    pub machine: Machine,
    /// The server's processors.
    pub server_cpus: Vec<usize>,
    /// The clients'.
    pub client_cpus: Vec<usize>,
    /// Requests that a client had out.
    pub window: usize,
    /// Bytes of a request beside its arguments.
    pub bytes: usize,
    /// How long a point was measured.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub time: Duration,
    /// All points.
    pub points: Vec<Point>,
    /// What went wrong instead.
    pub failures: Vec<String>,
    /// How the goals stand.
    pub goals: Vec<Goal>,
}

fn seconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

/// Measures one point.
///
/// # Errors
/// A process failed, ended, or did not answer in time.
pub fn point(options: &Options, experiment: Experiment, clients: usize) -> Result<Point, Error> {
    let counted = crew::measure(options, experiment.serving(clients, options.nics), clients)?;
    Ok(Point::new(experiment, &counted, options.time.as_secs_f64()))
}

/// Measures processes each of which asks its partner, and answers. `programs` start the worker's
/// program, each where it is to be.
///
/// # Errors
/// As [`point`].
pub fn exchange(options: &Options, programs: Vec<Command>, partners: &[usize]) -> Result<Point, Error> {
    let counted = crew::exchange(options, programs, partners)?;
    Ok(Point::new(Experiment::Exchange, &counted, options.time.as_secs_f64()))
}

/// Measures.
pub fn run(options: &Options) -> Contention {
    let (mut points, mut failures) = (Vec::new(), Vec::new());
    let mut progress = Progress::new(options.experiments.len() * options.clients.len(), options.quiet);
    for &experiment in &options.experiments {
        for &clients in &options.clients {
            let label = format!("{}, {clients} clients", experiment.title());
            progress.step(&label);
            match point(options, experiment, clients) {
                Ok(point) => points.push(point),
                Err(error) => failures.push(format!("{label}: {error}")),
            }
        }
    }
    progress.finish();
    Contention {
        machine: machine::describe(Pinning::None),
        server_cpus: options.server_cpus().to_vec(),
        client_cpus: options.client_cpus().to_vec(),
        window: options.window,
        bytes: options.bytes,
        time: options.time,
        goals: goals::evaluate_contention(&points),
        points,
        failures,
    }
}

/// A process of an experiment: does what it is told over its standard input.
///
/// # Errors
/// If that is not such a line, or breaks.
pub fn main() -> Result<(), Error> {
    let mut channel = Channel::of_standard_input()?;
    let Some(Ask::Be(role)) = channel.receive::<Ask>()? else { return Ok(()) };
    match role {
        Role::Server(serving) => server::run(channel, serving),
        Role::Client { window, bytes, answers } => client::run(channel, window, bytes, answers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_quantiles() {
        let counted = |replies, times: &[(u64, u64)]| Counted { replies, times: times.to_vec() };
        let point = Point::new(Experiment::OneEndpoint, &[counted(300, &[(1000, 250), (9000, 50)]), counted(100, &[(2000, 100)])], 2.0);
        assert_eq!((point.rate, point.rates.clone(), point.slowest), (200.0, vec![150.0, 50.0], 0.5));
        assert!((point.jain - 0.8).abs() < 1e-9);
        assert_eq!((point.response_median_ns, point.response_p99_ns), (1000.0, 9000.0));
    }
}
