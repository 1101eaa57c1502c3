// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ucx_perftest`: tag matching, active messages and put, over the device by reliable connections,
//! over UCX's tcp and over its shared memory.

use std::path::Path;

use super::way::{Way, pair, ucx_went_by};
use super::{Options, program, said};
use crate::error::Error;
use crate::peers::process::free_port;
use crate::peers::ucx::{parse_rate, parse_version};
use crate::plan::series as s;
use crate::report::size_text;
use crate::samples::{Key, Metric, Series};
use crate::turns::Turn;

/// A way with the columns of tag matching and of active messages, and what UCX must say.
pub(super) struct UcxWay {
    pub way: Way,
    am: Series,
    pub wanted: &'static str,
    pub allowed: &'static [&'static str],
}

/// The name that UCX gives to the device's port.
const PORT: &str = "bellwire0:1";

/// The ways of UCX, for its own program and for MPIs on it.
pub(super) fn ways(bellwire: &Path) -> [UcxWay; 3] {
    let info = ("UCX_LOG_LEVEL", "info");
    [
        UcxWay {
            way: Way::device(bellwire, s::STACK_RC, &[("UCX_TLS", "rc_v,self"), ("UCX_NET_DEVICES", PORT), info]),
            am: s::STACK_RC_AM,
            wanted: "rc_verbs/bellwire0:1",
            allowed: &[],
        },
        UcxWay { way: Way::own(s::UCX_TCP, &[("UCX_TLS", "tcp,self"), ("UCX_NET_DEVICES", "lo"), info]), am: s::STACK_TCP_AM, wanted: "tcp/lo", allowed: &[] },
        UcxWay { way: Way::own(s::STACK_SHM, &[("UCX_TLS", "posix,cma,self"), info]), am: s::STACK_SHM_AM, wanted: "posix/", allowed: &["cma/"] },
    ]
}

/// Tests: name, metric, whether it is one of active messages.
const LATENCY: [(&str, Metric, bool); 3] =
    [("tag_lat", Metric::Latency, false), ("ucp_am_lat", Metric::Latency, true), ("ucp_put_lat", Metric::WriteLatency, false)];
const STREAM: [(&str, Metric, bool); 3] =
    [("tag_bw", Metric::Bandwidth, false), ("ucp_am_bw", Metric::Bandwidth, true), ("ucp_put_bw", Metric::WriteBandwidth, false)];
/// Sizes of both kinds, all and if it is to be quick.
const LATENCY_SIZES: [&[usize]; 2] = [&[8, 512, 4 << 10, 64 << 10], &[8]];
const STREAM_SIZES: [&[usize]; 2] = [&[4 << 10, 64 << 10, 1 << 20], &[1 << 20]];

pub(super) fn turns<'o>(options: &'o Options, bellwire: &Path, peers: &mut Vec<String>) -> Result<Vec<Turn<'o>>, Error> {
    let perftest = program("ucx_perftest", "ucx-utils")?;
    peers.push(format!("UCX {}", parse_version(&said("ucx_info", "-v")).unwrap_or_default()));
    // The ways of a test are next to each other, each with canaries of its own.
    let mut turns = Vec::new();
    for (tests, sizes) in [(LATENCY, LATENCY_SIZES), (STREAM, STREAM_SIZES)] {
        for (test, metric, is_am) in tests {
            for &size in sizes[usize::from(options.quick)] {
                turns.extend(ways(bellwire).map(|UcxWay { way, am, wanted, allowed }| {
                    let (perftest, count) = (perftest.clone(), count(size, options.quick));
                    let (name, is_ours) = (format!("{}, {test} {}", way.series.name, size_text(size as u64)), way.is_ours());
                    let measure = move || {
                        let port = free_port()?;
                        let text = pair(options, port, |_| {
                            let mut command = way.command(&perftest);
                            command.args(["-f", "-p", &port.to_string(), "-t", test, "-s", &size.to_string()]);
                            command.args(["-n", &count.to_string(), "-w", &warm_up(count).to_string()]);
                            command
                        })?;
                        ucx_went_by(&text, wanted, allowed)?;
                        let rate = parse_rate(&text).ok_or_else(|| Error::failed("no figures in the output"))?;
                        let value = if metric.less_is_better() { 1e9 / rate } else { rate * size as f64 / 1e9 };
                        Ok(vec![(Key::new(metric, if is_am { am } else { way.series }, size as u64), value)])
                    };
                    Turn { name, is_ours, table: 0, measure: Box::new(measure) }
                }));
            }
        }
    }
    Ok(turns)
}

/// Messages of a figure: of short ones so many that what happens a few times in a millisecond counts
/// for what it is, of long ones as many as are some MiB.
fn count(size: usize, quick: bool) -> u64 {
    let (bytes, most) = if quick { (64 << 20, 20_000) } else { (256 << 20, 100_000) };
    (bytes / size as u64).clamp(20, most)
}

/// Messages before the timed ones, as many as the engine's figures have: endpoints of UCX settle in
/// their first milliseconds, and 2,000 messages from the start took twice as long as later ones.
fn warm_up(count: u64) -> u64 {
    (count / 10).max(count.min(2000))
}
