// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients of a server as processes with agents of hosts.

use std::time::Duration;

use super::steps::{BULK_BYTES, FRAMES, OUTSTANDING, REAL, Shape, What};
use crate::contend::{self, Experiment};
use crate::error::Error;
use crate::papers::Options;
use crate::peers::agent::Agent;
use bellwire_inspect::agent;

/// Frames of the clients' agent: enough for all.
const FRAMES_MANY: usize = 256;
/// How long a point is measured; longer if a client has had no reply, as on a busy machine.
const TIME: Duration = Duration::from_millis(200);
const TIME_QUICK: Duration = Duration::from_millis(40);
const TIME_MAX: Duration = Duration::from_secs(5);

/// Measures a point: the figures of [`REAL`]. All processes share all processors.
pub fn clients(options: &Options, shape: Shape, clients: usize, loiter: u32) -> Result<Vec<f64>, Error> {
    let own = &options.session.worker.0;
    let agents = [Agent::start(own, 0, FRAMES, loiter)?, Agent::start(own, 1, FRAMES_MANY, loiter)?];
    let experiment = match shape {
        Shape::Short | Shape::Bulk => Experiment::OneEndpoint,
        Shape::Single => Experiment::Networks,
        Shape::Threads => Experiment::Threads,
    };
    let mut contention = contend::Options {
        worker: (own.clone(), vec![contend::MEMBER_COMMAND.to_owned()]),
        experiments: vec![experiment],
        clients: vec![clients],
        window: OUTSTANDING,
        bytes: if shape == Shape::Bulk { BULK_BYTES } else { 0 },
        nics: true,
        environment: agents.each_ref().map(Agent::environment),
        time: if options.quick { TIME_QUICK } else { TIME },
        cpus: Vec::new(),
        together: true,
        quiet: true,
    };
    let (point, status) = loop {
        let before = agents[0].status()?;
        let point = contend::point(&contention, experiment, clients)?;
        let after = agents[0].status()?;
        let all_were_served = point.rates.iter().all(|rate| *rate > 0.0);
        if all_were_served || contention.time > TIME_MAX {
            break (point, agent::Status { loads: after.loads - before.loads, not_resident: after.not_resident - before.not_resident, ..after });
        }
        contention.time *= 2;
    };
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
