// SPDX-License-Identifier: MIT OR Apache-2.0
//! GASNet-EX, measured with its own `testam` over the smp conduit: two processes of one host,
//! messages through shared memory.
//!
//! No distribution packages it. The program is taken from `BELLWIRE_GASNET` (a path) or found as
//! `testam`; it must be built for smp with PSHM. It starts its second process itself, so both may
//! run on either of the two processors. Its short requests carry no argument; received data is not
//! read.

use std::path::PathBuf;
use std::process::Command;

use super::process::{Place, find, run_among};
use crate::error::Error;

/// Names the program.
const VARIABLE: &str = "BELLWIRE_GASNET";
/// Program that is run.
const PROGRAM: &str = "testam";
/// Its line of a short request and its short reply.
const SHORT: &str = "AMShort     ping-pong roundtrip ReqRep";

/// Where the program is and which version it has.
#[derive(Debug, Clone)]
pub struct Gasnet {
    program: PathBuf,
    /// Version, if the program tells.
    pub version: String,
}

impl Gasnet {
    /// GASNet's test program, or nothing.
    pub fn find() -> Option<Self> {
        let program = std::env::var_os(VARIABLE).map(PathBuf::from).or_else(|| find(PROGRAM))?;
        let version = std::fs::read(&program).ok().and_then(|bytes| parse_version(&bytes)).unwrap_or_default();
        Some(Gasnet { program, version })
    }

    /// Half round trip in ns of a short request and its reply, over `count` of them.
    ///
    /// # Errors
    /// If the program fails or prints something else than expected.
    pub fn half_round_trip(&self, count: u64, place: Place<'_>) -> Result<f64, Error> {
        let mut command = Command::new(&self.program);
        command.env("GASNET_PSHM_NODES", "2").env("GASNET_QUIET", "1").args([&count.to_string(), "16", "A"]);
        let text = run_among(&mut command, place.pinning)?;
        parse_half_round_trip(&text, count).ok_or_else(|| Error::failed("no figures in the output"))
    }
}

/// Half of the time per round trip; from the total, which has more digits when there are many.
fn parse_half_round_trip(text: &str, count: u64) -> Option<f64> {
    let figures = text.lines().find_map(|line| line.split_once(SHORT))?.1;
    let mut words = figures.trim_start_matches([' ', ':']).split_whitespace();
    let seconds: f64 = words.next()?.parse().ok()?;
    let microseconds: f64 = words.nth(1)?.parse().ok()?;
    // Both have three digits behind the point: the total is a millisecond wrong at most, the mean a
    // nanosecond.
    let round_trip = if seconds * 1e3 > 1e3 { seconds * 1e9 / count as f64 } else { microseconds * 1e3 };
    (round_trip > 0.0).then_some(round_trip / 2.0)
}

/// `2025.8.0` out of the text that every program of GASNet-EX holds: `RELEASE=2025.8.0,SPEC=..`.
fn parse_version(bytes: &[u8]) -> Option<String> {
    let mark = b"RELEASE=";
    let at = bytes.windows(mark.len()).position(|window| window == mark)? + mark.len();
    let text: String = bytes[at..].iter().map(|b| char::from(*b)).take_while(|c| c.is_ascii_digit() || *c == '.').take(16).collect();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_short_messages() {
        let text = "   ------  -----------                             ----------   ---------   ---------\n\
                    A:         AMShort     ping-pong roundtrip ReqRep:  0.021 sec    0.207 us\n\
                    A:         AMShort     ping-pong roundtrip ReqReq:  0.020 sec    0.203 us\n";
        assert_eq!(parse_half_round_trip(text, 100_000), Some(103.5));
        assert_eq!(parse_half_round_trip("A:  AMShort     ping-pong roundtrip ReqRep: 2.100 sec    0.210 us\n", 10_000_000), Some(105.0));
        assert_eq!(parse_half_round_trip("*** FATAL ERROR\n", 10), None);
    }

    #[test]
    fn versions() {
        assert_eq!(parse_version(b"\0testam RELEASE=2025.8.0,SPEC=0.19\0").as_deref(), Some("2025.8.0"));
        assert_eq!(parse_version(b"nothing"), None);
    }
}
