// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients of a server as processes with agents of hosts.

use std::time::Duration;

use super::steps::{BULK_BYTES, FRAMES, LOITER_USUAL, NAMESPACES, OUTSTANDING, RATE, REAL, Shape, What, Wire, hosts};
use crate::contend::{self, Experiment, Point};
use crate::error::Error;
use crate::papers::Options;
use crate::peers::agent::Agent;
use crate::route::Route;
use crate::route::namespaces::cluster::Cluster;

/// Frames of the clients' agent: enough for all.
const FRAMES_MANY: usize = 256;
/// How long a point is measured; longer if a client has had no reply, as on a busy machine.
const TIME: Duration = Duration::from_millis(200);
const TIME_QUICK: Duration = Duration::from_millis(40);
const TIME_MAX: Duration = Duration::from_secs(5);

/// Requests that a client has outstanding where the gap is measured.
const OUTSTANDING_MANY: usize = 32;
/// The key of both sides, where there is one: of the measurement alone.
const KEY: &str = "0004000400040004000400040004000400040004000400040004000400040004";

/// A measurement of clients and a server, on all processors.
fn contention(options: &Options, window: usize, bytes: usize, environment: [Vec<(&'static str, String)>; 2]) -> contend::Options {
    contend::Options {
        worker: (options.session.worker.0.clone(), vec![contend::MEMBER_COMMAND.to_owned()]),
        experiments: Vec::new(),
        clients: Vec::new(),
        window,
        bytes,
        nics: true,
        environment,
        time: if options.quick { TIME_QUICK } else { TIME },
        cpus: Vec::new(),
        together: true,
        quiet: true,
    }
}

/// Measures until each client has had a reply.
fn served(contention: &mut contend::Options, experiment: Experiment, clients: usize) -> Result<Point, Error> {
    loop {
        let point = contend::point(contention, experiment, clients)?;
        if point.rates.iter().all(|rate| *rate > 0.0) || contention.time > TIME_MAX {
            return Ok(point);
        }
        contention.time *= 2;
    }
}

/// Measures a wire with one client: the figures of [`WIRE`](super::steps::WIRE).
pub fn wire(options: &Options, wire: Wire) -> Result<Vec<f64>, Error> {
    let own = &options.session.worker.0;
    let agents = match wire {
        Wire::Agents => Some([Agent::start(own, 0, FRAMES, LOITER_USUAL)?, Agent::start(own, 1, FRAMES_MANY, LOITER_USUAL)?]),
        Wire::Direct | Wire::Sealed => None,
    };
    let mut environment = match &agents {
        Some(agents) => agents.each_ref().map(Agent::environment),
        None => [true, false].map(|first| Route::loopback().environment(first)),
    };
    if wire == Wire::Sealed {
        environment.iter_mut().for_each(|variables| variables.push(("BELLWIRE_KEY", KEY.to_owned())));
    }
    let point = |window| served(&mut contention(options, window, 0, environment.clone()), Experiment::OneEndpoint, 1);
    Ok(vec![point(1)?.response_median_ns / 2e3, 1e6 / point(OUTSTANDING_MANY)?.rate])
}

/// How long a permutation is measured.
const EXCHANGE: Duration = Duration::from_millis(1000);
const EXCHANGE_QUICK: Duration = Duration::from_millis(300);
/// Requests that a host has outstanding where bandwidth is measured.
const OUTSTANDING_BULK: usize = 8;

/// Measures a pattern over namespaces: the figures of [`PERMUTED`](super::steps::PERMUTED). The
/// first one makes the namespaces.
pub fn permutation(options: &Options, cluster: &mut Option<Cluster>, pattern: &str) -> Result<Vec<f64>, Error> {
    let hosts = hosts(NAMESPACES, options.quick);
    if cluster.is_none() {
        *cluster = Some(Cluster::create(hosts, RATE)?);
    }
    let partners: Vec<usize> = (0..hosts)
        .map(|host| match pattern {
            "cshift" => (host + 1) % hosts,
            "neighbour" => host ^ 1,
            _ => (host + hosts / 2) % hosts,
        })
        .collect();
    let measured = |window, bytes| {
        let programs = (0..hosts).filter_map(|host| Some(cluster.as_ref()?.command(host, &options.session.worker.0))).collect();
        let time = if options.quick { EXCHANGE_QUICK } else { EXCHANGE };
        contend::exchange(&contend::Options { time, ..contention(options, window, bytes, Default::default()) }, programs, &partners)
    };
    let bulk = measured(OUTSTANDING_BULK, BULK_BYTES)?;
    Ok(vec![bulk.rate * BULK_BYTES as f64 / hosts as f64 / 1e6, bulk.jain, measured(1, 0)?.response_median_ns / 1e3])
}

/// Measures a point: the figures of [`REAL`]. All processes share all processors.
pub fn clients(options: &Options, shape: Shape, clients: usize, loiter: u32) -> Result<Vec<f64>, Error> {
    let own = &options.session.worker.0;
    let agents = [Agent::start(own, 0, FRAMES, loiter)?, Agent::start(own, 1, FRAMES_MANY, loiter)?];
    let experiment = match shape {
        Shape::Short | Shape::Bulk => Experiment::OneEndpoint,
        Shape::Single => Experiment::Networks,
        Shape::Threads => Experiment::Threads,
    };
    let bytes = if shape == Shape::Bulk { BULK_BYTES } else { 0 };
    let mut contention = contention(options, OUTSTANDING, bytes, agents.each_ref().map(Agent::environment));
    let point = served(&mut contention, experiment, clients)?;
    let status = agents[0].status()?;
    let extreme = |pick: fn(f64, f64) -> f64, start: f64| point.rates.iter().copied().fold(start, pick) / 1e3;
    Ok(REAL
        .map(|what| match what {
            What::All => point.rate / 1e3,
            What::Least => extreme(f64::min, f64::INFINITY),
            What::Most => extreme(f64::max, 0.0),
            What::Jain => point.jain,
            What::Response => point.response_median_ns / 1e3,
            What::Refused => status.not_resident as f64,
            What::Loads => status.loads as f64,
        })
        .into())
}
