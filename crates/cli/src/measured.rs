// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of the commands that measure (`perf`, `logp`): on which processors, which library, at which reliability level.

use std::path::PathBuf;

use bellwire_logp::job::Reliability;
use bellwire_logp::pin::{self, Pinning};
use bellwire_logp::session::SessionConfig;
use clap::{Args, ValueEnum};

use crate::output;

/// What is measured, and where.
#[derive(Debug, Args)]
pub struct Measured {
    /// The two processors to use [default: the first two allowed, on different cores]
    #[arg(long, value_name = "A,B", value_parser = parse_cpus)]
    cpus: Option<Pinning>,

    /// The library to measure
    #[arg(long, value_name = "PATH")]
    lib: Option<PathBuf>,

    /// Device name for VipOpenNic
    #[arg(long, value_name = "NAME", default_value = "nic0")]
    device: String,
}

impl Measured {
    /// Measuring processes for this, polling.
    ///
    /// # Errors
    /// If this executable cannot be found.
    pub fn session(&self, level: Level) -> Result<SessionConfig, String> {
        Ok(SessionConfig {
            library: self.lib.clone(),
            device: self.device.clone(),
            reliability: level.into(),
            ..output::session(self.cpus.unwrap_or_else(pin::choose))?
        })
    }
}

/// The reliability levels of the architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// Messages may be lost
    Unreliable,
    /// Reliable Delivery
    Delivery,
    /// Reliable Reception
    Reception,
}

impl From<Level> for Reliability {
    fn from(level: Level) -> Self {
        match level {
            Level::Unreliable => Reliability::Unreliable,
            Level::Delivery => Reliability::ReliableDelivery,
            Level::Reception => Reliability::ReliableReception,
        }
    }
}

/// Two different processors that are allowed.
pub fn parse_cpus(text: &str) -> Result<Pinning, String> {
    match pin::parse_cpu_list(text)[..] {
        [a, b] if a != b => {
            let allowed = pin::allowed();
            let outside = [a, b].into_iter().find(|cpu| !allowed.contains(cpu));
            outside.map_or(Ok(Pinning::Pair(a, b)), |cpu| Err(format!("processor {cpu} is not among the allowed ones: {allowed:?}")))
        }
        _ => Err("two different processor numbers are expected, such as 0,1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_two_and_different() {
        assert!(parse_cpus("0").is_err());
        assert!(parse_cpus("0,0").is_err());
        assert!(parse_cpus("0,100000").is_err());
    }
}
