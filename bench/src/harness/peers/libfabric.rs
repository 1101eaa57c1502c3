// SPDX-License-Identifier: MIT OR Apache-2.0
//! libfabric, measured with its own `fi_pingpong` over the shm provider, or over TCP and reliable
//! datagrams on UDP.
//!
//! It knows ping-pong only, so its "bandwidth" is that of one message at a time. Received data is
//! not read.

use std::path::PathBuf;
use std::process::Command;

use super::process::{Place, find, free_port, run, run_pair};
use crate::error::Error;

/// Program that is run.
const PROGRAM: &str = "fi_pingpong";

/// What is measured of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Shared memory, messages in order.
    Message,
    /// Shared memory, messages by tag.
    Tagged,
    /// TCP: connected endpoints, its shortest way.
    Tcp,
    /// Reliable datagrams over UDP.
    UdpRxd,
}

/// Kinds of endpoints with their messages.
pub(crate) const CONNECTED: [&str; 4] = ["-e", "msg", "-m", "msg"];
pub(crate) const MESSAGES: [&str; 4] = ["-e", "rdm", "-m", "msg"];
pub(crate) const TAGGED: [&str; 4] = ["-e", "rdm", "-m", "tagged"];

impl Way {
    fn arguments(self) -> (&'static str, [&'static str; 4]) {
        match self {
            Way::Message => ("shm", MESSAGES),
            Way::Tagged => ("shm", TAGGED),
            Way::Tcp => ("tcp", CONNECTED),
            Way::UdpRxd => ("udp;ofi_rxd", MESSAGES),
        }
    }
}

/// The version that `fi_info --version` tells.
pub(crate) fn version_of(said: &str) -> String {
    said.lines().find_map(|line| line.strip_prefix("libfabric:")).unwrap_or("").trim().to_owned()
}

/// Where the program is and which version it has.
#[derive(Debug, Clone)]
pub struct Libfabric {
    program: PathBuf,
    /// Version, if `fi_info` tells.
    pub version: String,
}

impl Libfabric {
    /// libfabric as installed, or nothing.
    pub fn find() -> Option<Self> {
        let program = find(PROGRAM)?;
        let text = find("fi_info").and_then(|info| run(Command::new(info).arg("--version")).ok()).unwrap_or_default();
        Some(Libfabric { program, version: version_of(&text) })
    }

    /// Half round trip in ns of messages of `size` bytes, over `count` of them.
    ///
    /// # Errors
    /// If the program fails or prints something else than expected.
    pub fn half_round_trip(&self, way: Way, size: usize, count: u64, place: Place<'_>) -> Result<f64, Error> {
        let port = free_port()?;
        let command = |first, port_option: &str| {
            let mut command = place.route.command(first, &self.program);
            if place.route.is_udp() {
                let interface = place.route.interface(first);
                command.env("FI_TCP_IFACE", interface).env("FI_UDP_IFACE", interface);
            }
            let (provider, kind) = way.arguments();
            command.args(["-p", provider]).args(kind).args(["-I", &count.to_string(), "-S", &size.to_string(), port_option, &port.to_string()]);
            command
        };
        let text = run_pair(&mut command(false, "-B"), command(true, "-P").arg(place.route.server().to_string()), port, place.pinning)?;
        parse_half_round_trip(&text, size).ok_or_else(|| Error::failed("no figures in the output"))
    }
}

/// Nanoseconds per transfer, from the MB/s column, which has more digits than that of microseconds
/// when messages are small.
pub(crate) fn parse_half_round_trip(text: &str, size: usize) -> Option<f64> {
    let line = text.lines().rev().find(|line| line.split_whitespace().nth(2).is_some_and(|ack| ack.starts_with('=')))?;
    let mut columns = line.split_whitespace().skip(5);
    let megabytes: f64 = columns.next()?.parse().ok()?;
    let microseconds: f64 = columns.next()?.parse().ok()?;
    let half = if megabytes > 0.0 && microseconds < 10.0 { size as f64 * 1e3 / megabytes } else { microseconds * 1e3 };
    (half > 0.0).then_some(half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large() {
        let small = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n\
                     8       100k    =100k    1.5m        0.05s     33.20       0.24       4.15\n";
        assert!((parse_half_round_trip(small, 8).unwrap() - 240.96).abs() < 0.01);
        let large = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n\
                     1m      1k      =1k      1.9g        0.14s  15432.38      67.95       0.01\n";
        assert_eq!(parse_half_round_trip(large, 1 << 20), Some(67_950.0));
        assert_eq!(parse_half_round_trip("fi_getinfo: -61\n", 8), None);
    }
}
