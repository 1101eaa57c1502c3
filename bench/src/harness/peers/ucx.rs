// SPDX-License-Identifier: MIT OR Apache-2.0
//! UCX, measured with its own `ucx_perftest` over its POSIX shared memory and cross-memory attach,
//! or over TCP where the way is one of a network.
//!
//! Received data is never read by these tests. The put tests use memory that UCX allocated and
//! mapped on both sides.

use std::path::PathBuf;
use std::process::Command;

use super::process::{Place, find, free_port, run_pair};
use crate::error::Error;

/// Program that is run.
const PROGRAM: &str = "ucx_perftest";
/// Transports, unless the user has chosen others in `UCX_TLS`.
const TRANSPORTS: &str = "posix,cma,self";
/// Transports over a network.
const NETWORK_TRANSPORTS: &str = "tcp,self";

/// A test of `ucx_perftest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// Tag matching, half round trip.
    TagLatency,
    /// Active messages of the protocol layer, half round trip.
    AmLatency,
    /// Active messages of the transport layer (posix), half round trip.
    UctAmLatency,
    /// Put into mapped memory, polled, half round trip.
    PutLatency,
    /// The same at the transport layer.
    UctPutLatency,
    /// Tag matching, one way.
    TagStream,
    /// Active messages, one way.
    AmStream,
    /// Active messages of the transport layer, one way.
    UctAmStream,
    /// Put into mapped memory, one way.
    PutStream,
}

impl Test {
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Test::TagLatency => &["-t", "tag_lat"],
            Test::AmLatency => &["-t", "ucp_am_lat"],
            Test::UctAmLatency => &["-d", "memory", "-x", "posix", "-t", "am_lat"],
            Test::PutLatency => &["-t", "ucp_put_lat"],
            Test::UctPutLatency => &["-d", "memory", "-x", "posix", "-t", "put_lat", "-D", "short"],
            Test::TagStream => &["-t", "tag_bw"],
            Test::AmStream => &["-t", "ucp_am_bw"],
            Test::UctAmStream => &["-d", "memory", "-x", "posix", "-t", "am_bw"],
            Test::PutStream => &["-t", "ucp_put_bw"],
        }
    }
}

/// Where the program is and which version it has.
#[derive(Debug, Clone)]
pub struct Ucx {
    program: PathBuf,
    /// Version, if `ucx_info` tells.
    pub version: String,
}

impl Ucx {
    /// UCX as installed, or nothing.
    pub fn find() -> Option<Self> {
        let program = find(PROGRAM)?;
        let info = find("ucx_info").and_then(|info| super::process::run(Command::new(info).arg("-v")).ok()).unwrap_or_default();
        Some(Ucx { program, version: parse_version(&info).unwrap_or_default() })
    }

    /// Messages per second of `test` with `size` bytes, over `count` messages. For the latency
    /// tests a message is half a round trip.
    ///
    /// # Errors
    /// If the program fails or prints something else than expected.
    pub fn rate(&self, test: Test, size: usize, count: u64, place: Place<'_>) -> Result<f64, Error> {
        let port = free_port()?;
        let command = |first| {
            let mut command = place.route.command(first, &self.program);
            command.env("UCX_LOG_LEVEL", "error").args(["-f", "-p", &port.to_string()]).args(test.arguments());
            command.args(["-s", &size.to_string(), "-n", &count.to_string(), "-w", &(count / 20 + 10).to_string()]);
            if place.route.is_udp() {
                command.env("UCX_TLS", NETWORK_TRANSPORTS).env("UCX_NET_DEVICES", place.route.interface(first));
            } else if std::env::var_os("UCX_TLS").is_none() {
                command.env("UCX_TLS", TRANSPORTS);
            }
            command
        };
        let text = run_pair(&mut command(false), command(true).arg(place.route.server().to_string()), port, place.pinning)?;
        parse_rate(&text).ok_or_else(|| Error::failed("no figures in the output"))
    }
}

/// The overall message rate: last of the eight numbers of the last line of figures.
pub(crate) fn parse_rate(text: &str) -> Option<f64> {
    let numbers = |line: &str| -> Option<Vec<f64>> {
        let fields = line.trim().trim_start_matches("Final:");
        fields.split_whitespace().map(|field| field.parse().ok()).collect()
    };
    let figures = text.lines().filter_map(numbers).rfind(|numbers| numbers.len() == 8)?;
    figures.last().copied().filter(|rate| *rate > 0.0)
}

/// `1.13.1` out of `# UCT version=1.13.1 revision 09f27c0` or `# Library version: 1.15.0`.
pub(crate) fn parse_version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.contains("ersion"))?;
    let after = line.split_once("ersion")?.1.trim_start_matches([':', '=', ' ']);
    Some(after.split_whitespace().next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: &str = "\
+--------------+--------------+------------------------------+---------------------+-----------------------+
|              |              |        latency (usec)        |   bandwidth (MB/s)  |  message rate (msg/s) |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
|     Test     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
                      200000      0.105     0.103     0.103       73.93      73.93     9690419     9690419
";
    const FINAL: &str = "\
[thread 0]            100000      0.100     0.101     0.101       75.00      75.00     9800000     9800000
Final:                200000      0.101     0.108     0.109       70.80      70.80     9280512     9170000
";

    #[test]
    fn last_figure_of_the_last_line() {
        assert_eq!(parse_rate(LATENCY), Some(9_690_419.0));
        assert_eq!(parse_rate(FINAL), Some(9_170_000.0));
        assert_eq!(parse_rate("UCX  ERROR Failed to run test: Unsupported operation\n"), None);
        assert_eq!(parse_rate(""), None);
    }

    #[test]
    fn versions() {
        assert_eq!(parse_version("# UCT version=1.13.1 revision 09f27c0\n# configured with: x\n").as_deref(), Some("1.13.1"));
        assert_eq!(parse_version("# Library version: 1.15.0\n").as_deref(), Some("1.15.0"));
        assert_eq!(parse_version("nothing"), None);
    }
}
