// SPDX-License-Identifier: MIT OR Apache-2.0
//! libfabric's `fi_pingpong`: over its verbs provider on the device, connected and by tags
//! (`ofi_rxm`), over Bellwire's provider, over tcp and shm. libfabric may use no other provider
//! than the one that is measured.

use std::path::Path;

use super::way::{Way, pair};
use super::{Options, program, said};
use crate::bench::payload::SMALL_MAX;
use crate::error::Error;
use crate::peers::libfabric::{CONNECTED, MESSAGES, TAGGED, parse_half_round_trip, version_of};
use crate::peers::process::free_port;
use crate::plan::series as s;
use crate::report::size_text;
use crate::samples::{Key, Metric};
use crate::turns::Turn;

/// Sizes, all and if it is to be quick.
const SIZES: [&[usize]; 2] = [&[8, 512, 4 << 10, 64 << 10, 1 << 20], &[8, 1 << 20]];
/// Starts of a pair. The last message of `ofi_rxm`, after the figures, is flushed in a tenth of
/// runs on a busy machine, since its server ends first.
const TRIES: usize = 3;

pub(super) fn turns<'o>(options: &'o Options, bellwire: &Path, peers: &mut Vec<String>, missing: &mut Vec<String>) -> Result<Vec<Turn<'o>>, Error> {
    let pingpong = program("fi_pingpong", "libfabric-bin")?;
    peers.push(format!("libfabric {}", version_of(&said("fi_info", "--version"))));
    let mut ways = vec![
        (Way::device(bellwire, s::STACK_VERBS, &[("FI_PROVIDER", "verbs")]), "verbs", CONNECTED),
        (Way::device(bellwire, s::STACK_RXM, &[("FI_PROVIDER", "verbs")]), "verbs;ofi_rxm", TAGGED),
        (Way::own(s::FABRIC_TCP, &[("FI_PROVIDER", "tcp"), ("FI_TCP_IFACE", "lo")]), "tcp", CONNECTED),
        (Way::own(s::SHM_TAGGED, &[("FI_PROVIDER", "shm")]), "shm", TAGGED),
        (Way::own(s::SHM_MESSAGE, &[("FI_PROVIDER", "shm")]), "shm", MESSAGES),
    ];
    match &options.provider {
        Ok(variables) => ways.insert(2, (Way::told(s::STACK_PROVIDER, variables.clone()), "bellwire", TAGGED)),
        Err(why) => missing.push(format!("Bellwire's libfabric provider: {why}")),
    }
    let mut turns = Vec::new();
    for &size in SIZES[usize::from(options.quick)] {
        let count = ((if options.quick { 32 << 20 } else { 128 << 20 }) / size as u64).clamp(20, if options.quick { 2000 } else { 20_000 });
        turns.extend(ways.iter().cloned().map(|(way, provider, kind)| {
            let pingpong = pingpong.clone();
            let (name, is_ours) = (format!("{}, {}", way.series.name, size_text(size as u64)), way.is_ours());
            let once = move || {
                let port = free_port()?;
                let text = pair(options, port, |is_client| {
                    let mut command = way.command(&pingpong);
                    command.args(["-p", provider]).args(kind).args(["-I", &count.to_string(), "-S", &size.to_string()]);
                    command.args([if is_client { "-P" } else { "-B" }, &port.to_string()]);
                    command
                })?;
                let half = parse_half_round_trip(&text, size).ok_or_else(|| Error::failed("no figures in the output"))?;
                let mut figures = vec![(Key::new(Metric::Latency, way.series, size as u64), half)];
                if size > SMALL_MAX {
                    figures.push((Key::new(Metric::Bandwidth, way.series, size as u64), size as f64 / half));
                }
                Ok(figures)
            };
            let measure = move || (1..TRIES).fold(once(), |result, _| result.or_else(|_: Error| once()));
            Turn { name, is_ours, table: 0, measure: Box::new(measure) }
        }));
    }
    Ok(turns)
}
