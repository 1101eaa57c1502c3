// SPDX-License-Identifier: MIT OR Apache-2.0
//! perftest over the device, beside the engine: `ib_send_lat` and its like. Each names the device
//! that it found.

use std::path::Path;

use super::way::{Way, pair};
use super::{Options, program, said};
use crate::error::Error;
use crate::peers::process::{find, free_port};
use crate::plan::series as s;
use crate::samples::{Key, Metric};
use crate::turns::Turn;

/// Programs, and where their figures go.
const PROGRAMS: [(&str, Metric); 7] = [
    ("ib_send_lat", Metric::Latency),
    ("ib_write_lat", Metric::WriteLatency),
    ("ib_read_lat", Metric::ReadLatency),
    ("ib_atomic_lat", Metric::AtomicLatency),
    ("ib_send_bw", Metric::Bandwidth),
    ("ib_write_bw", Metric::WriteBandwidth),
    ("ib_read_bw", Metric::ReadBandwidth),
];
/// The line in which a program names the device.
const DEVICE: &str = ": bellwire0";
/// Bytes of a MB as perftest counts it.
const MIB: f64 = 1_048_576.0;

pub(super) fn turns<'o>(options: &'o Options, bellwire: &Path, peers: &mut Vec<String>, missing: &mut Vec<String>) -> Result<Vec<Turn<'o>>, Error> {
    program(PROGRAMS[0].0, "perftest")?;
    let version = said(PROGRAMS[0].0, "--version");
    peers.push(format!("perftest {}", version.split_whitespace().last().unwrap_or("")));
    let mut turns = Vec::new();
    for (name, metric) in PROGRAMS {
        let Some(file) = find(name) else {
            missing.push(format!("{name}: package perftest"));
            continue;
        };
        let way = Way::device(bellwire, s::STACK_PERFTEST, &[]);
        let measure = move || {
            let port = free_port()?;
            let is_stream = !metric.less_is_better();
            let (size, count) = if is_stream { (1 << 20, if options.quick { 200 } else { 1000 }) } else { (8, if options.quick { 2000 } else { 20_000 }) };
            let text = pair(options, port, |_| {
                let mut command = way.command(&file);
                command.args(["-F", "-p", &port.to_string(), "-n", &count.to_string()]);
                if metric != Metric::AtomicLatency {
                    command.args(["-s", &size.to_string()]);
                }
                command
            })?;
            if !text.contains(DEVICE) {
                return Err(Error::failed("the program does not say that it used bellwire0"));
            }
            let value = parse(&text, is_stream).ok_or_else(|| Error::failed("no figures in the output"))?;
            Ok(vec![(Key::new(metric, s::STACK_PERFTEST, size as u64), value)])
        };
        turns.push(Turn { name: name.to_owned(), is_ours: true, table: 0, measure: Box::new(measure) });
    }
    Ok(turns)
}

/// The figure of the last line of numbers. perftest writes the mean time in us, or the mean rate in
/// MB/s; this returns ns, or GB/s.
fn parse(text: &str, is_stream: bool) -> Option<f64> {
    let numbers = |line: &str| -> Option<Vec<f64>> { line.split_whitespace().map(|field| field.parse().ok()).collect() };
    let figures = text.lines().filter_map(numbers).rfind(|numbers| numbers.len() >= 4)?;
    let value = if is_stream { figures[3] * MIB / 1e9 } else { *figures.get(5)? * 1e3 };
    (value > 0.0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rates() {
        let latency = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]\n \
                       8       2000          0.40           9.61         0.43                0.45             0.10            0.60                    9.61\n---\n";
        assert_eq!(parse(latency, false), Some(450.0));
        let rate = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n 1048576    200              9000.00            8000.00              0.008000\n";
        assert!(parse(rate, true).is_some_and(|value| (value - 8.388_608).abs() < 1e-9));
        assert_eq!(parse("nothing of 4 numbers", true), None);
    }
}
