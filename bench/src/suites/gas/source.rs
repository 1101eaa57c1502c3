// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sources of the figures: each is asked once in a round.

use std::process::Command;
use std::time::Duration;

use super::{Group, LONG, Options, PERCENT, TYPES, bulk_metric, bulk_sizes, others, series as g, word_metric};
use crate::am::AmJob;
use crate::bench::payload::Touch;
use crate::error::Error;
use crate::job::Job;
use crate::peers::process::{launcher, run_within};
use crate::pin::Pinning;
use crate::plan::series as s;
use crate::route::Route;
use crate::samples::{Key, Metric, Series};
use crate::session::{Session, SessionConfig};
use crate::turns::{Figures, Turn};

/// How long a job or a program may take.
pub(super) const TIME_MAX: Duration = Duration::from_secs(60);
/// The graph and the keys of which one process and two do all.
const SPEEDUP_NODES: usize = 80_000;
const SPEEDUP_KEYS: usize = 4_000_000;

/// Where a line's figure belongs: its name, row, value, and whether it was by packets.
type Read = Box<dyn Fn(&str, u64, f64, bool) -> Option<(Key, f64)>>;

/// A job of a layer below, its cell, which number of its answer counts, and by what it is
/// multiplied; a negative factor divided by it.
type Step = (Job, Key, usize, f64);

/// A job of ours: its words, how many processes, whether they share memory, and how its lines are
/// read.
fn ours<'o>(options: &'o Options, name: String, words: Vec<String>, (processes, packets): (u32, bool), read: Read) -> Turn<'o> {
    let measure = move || {
        let text = run_within(&mut job(options, processes, packets, &words), TIME_MAX)?;
        some(text.lines().filter_map(parse).filter_map(|(name, row, value)| read(name, row, value, packets)).collect())
    };
    Turn { name, is_ours: true, table: 0, measure: Box::new(measure) }
}

/// Another's program.
fn peer(options: &Options, series: Series, program: others::Program) -> Turn<'_> {
    let measure = move || {
        let text = run_within(&mut program.command(options, budget(options)), TIME_MAX)?;
        some(text.lines().filter_map(parse).flat_map(|(name, size, ns)| of_peer(series, name, size, ns)).collect())
    };
    Turn { name: series.name.to_owned(), is_ours: false, table: 0, measure: Box::new(measure) }
}

/// A layer below.
fn layer<'o>(name: &str, config: SessionConfig, steps: Vec<Step>) -> Turn<'o> {
    let mut session = Session::new(config);
    let measure = move || {
        let figure = |(job, key, index, factor): &Step| {
            let answer = session.run(job)?;
            let value = answer.first.get(*index).copied().ok_or_else(|| Error::failed("no figure in the answer"))?;
            Ok((*key, if *factor < 0.0 { -*factor / value } else { value * *factor }))
        };
        steps.iter().map(figure).collect()
    };
    Turn { name: name.to_owned(), is_ours: true, table: 0, measure: Box::new(measure) }
}

fn budget(options: &Options) -> &'static str {
    if options.quick { "4" } else { "12" }
}

fn some(found: Figures) -> Result<Figures, Error> {
    if found.is_empty() { Err(Error::failed("no figures in the output")) } else { Ok(found) }
}

/// Everything that was asked for; names and versions of others go to `peers`.
pub(super) fn all<'o>(options: &'o Options, peers: &mut Vec<String>, missing: &mut Vec<String>) -> Vec<Turn<'o>> {
    let has = |group| options.groups.contains(&group);
    let mut turns = Vec::new();
    if has(Group::Words) || has(Group::Bulk) {
        for packets in [false, true] {
            let way = if packets { g::PACKETS } else { g::GLOBAL };
            if has(Group::Words) {
                turns.push(ours(options, format!("words, {}", way.name), vec!["words".into()], (2, packets), Box::new(read_word)));
            }
            if has(Group::Bulk) {
                let sizes: Vec<String> = bulk_sizes(options.quick).iter().map(u64::to_string).collect();
                turns.push(ours(options, format!("bulk, {}", way.name), vec!["bulk".into(), sizes.join(",")], (2, packets), Box::new(read_bulk)));
            }
        }
        turns.extend(below(options));
        if options.compare {
            for (series, version, program) in others::peers(missing) {
                peers.push(version);
                turns.push(peer(options, series, program));
            }
        }
    }
    if has(Group::Em3d) {
        turns.extend(em3d(options));
    }
    if has(Group::Speedup) {
        turns.extend(speedups(options));
    }
    if has(Group::Steps) {
        let batches = if options.quick { "8" } else { "40" };
        turns.push(ours(options, "steps of a get by packets".to_owned(), vec!["steps".to_owned(), batches.to_owned()], (2, true), Box::new(read_step)));
    }
    turns
}

/// "name row value".
fn parse(line: &str) -> Option<(&str, u64, f64)> {
    let mut fields = line.split_whitespace();
    let (name, row, value) = (fields.next()?, fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    fields.next().is_none().then_some((name, row, value))
}

fn read_word(name: &str, row: u64, ns: f64, packets: bool) -> Option<(Key, f64)> {
    let ours = if packets { g::PACKETS } else { g::GLOBAL };
    match name {
        "plain" => (!packets).then(|| (Key::new(Metric::GasRead, g::PLAIN, row), ns)),
        "view-read" => Some((Key::new(Metric::GasRead, g::VIEW, row), ns)),
        "view-write" => Some((Key::new(Metric::GasWrite, g::VIEW, row), ns)),
        "sync" => (row == LONG && !packets).then(|| (Key::new(Metric::GasGet, g::SYNC, row), ns)),
        name => Some((Key::new(word_metric(name)?, ours, row), ns)),
    }
}

fn read_step(name: &str, place: u64, ns: f64, _: bool) -> Option<(Key, f64)> {
    let metric = match name {
        "trip" => Metric::GasTrip,
        "leg" => Metric::GasLeg,
        "mark" => Metric::Upkeep,
        _ => return None,
    };
    Some((Key::new(metric, g::PACKETS, place), ns))
}

fn read_bulk(name: &str, bytes: u64, ns: f64, packets: bool) -> Option<(Key, f64)> {
    let ours = if packets { g::PACKETS } else { g::GLOBAL };
    match name {
        "memcpy" => (!packets).then(|| (Key::new(Metric::GasBulkRead, s::MEMCPY, bytes), bytes as f64 / ns)),
        "memcpy-many" => (!packets).then(|| (Key::new(Metric::GasBulkGet, g::MEMCPY_MANY, bytes), bytes as f64 / ns)),
        "get-many" => (!packets).then(|| (Key::new(Metric::GasBulkGet, g::MANY, bytes), bytes as f64 / ns)),
        name => Some((Key::new(bulk_metric(name)?, ours, bytes), bytes as f64 / ns)),
    }
}

/// Others have bytes, not types: a figure stands for the integer of that size.
fn of_peer(series: Series, name: &str, size: u64, ns: f64) -> Option<(Key, f64)> {
    match TYPES.iter().position(|(_, bytes)| *bytes == size) {
        Some(row) => Some((Key::new(word_metric(name)?, series, row as u64 + 1), ns)),
        None => Some((Key::new(bulk_metric(name)?, series, size), size as f64 / ns)),
    }
}

/// A job of this executable.
fn job(options: &Options, processes: u32, packets: bool, words: &[String]) -> Command {
    let own = &options.session.worker.0;
    let mut command = Command::new(launcher(own));
    command.args(["run", "-n", &processes.to_string()]).arg(own).arg(super::WORKER_COMMAND);
    command.args([cpus(options.session.pinning).as_str(), budget(options)]).args(words);
    if packets {
        command.env("BELLWIRE_SHM", "off");
    }
    command
}

pub(super) fn cpus(pinning: Pinning) -> String {
    match pinning {
        Pinning::Pair(a, b) => format!("{a},{b}"),
        Pinning::None => "-".to_owned(),
    }
}

/// em3d by versions and shares; by packets a smaller graph.
fn em3d(options: &Options) -> Vec<Turn<'_>> {
    let mut all = Vec::new();
    for &percent in PERCENT[usize::from(options.quick)] {
        for (version, packets, series) in [
            ("read", false, g::EM3D_READ),
            ("get", false, g::EM3D_GET),
            ("bulk", false, g::EM3D_BULK),
            ("get", true, g::EM3D_GET_PACKETS),
            ("bulk", true, g::EM3D_BULK_PACKETS),
        ] {
            let (nodes, steps) = if packets { ("2000", "5") } else { ("20000", "10") };
            let words = ["em3d", version, nodes, "16", &percent.to_string(), steps].map(str::to_owned).to_vec();
            let way = if packets { ", by packets" } else { "" };
            all.push(ours(options, format!("em3d {version}, {percent} %{way}"), words, (2, packets), named("edge", Metric::Em3d, series)));
        }
    }
    all
}

/// The same work by one process and by two.
fn speedups(options: &Options) -> Vec<Turn<'_>> {
    let mut all = Vec::new();
    for processes in [1, 2] {
        let nodes = (SPEEDUP_NODES / processes as usize).to_string();
        let words = ["em3d", "bulk", &nodes, "16", "10", "20"].map(str::to_owned).to_vec();
        all.push(ours(options, format!("em3d on {processes}"), words, (processes, false), named("all", Metric::Speedup, g::EM3D)));
    }
    for processes in [1, 2] {
        let words = vec!["sample".to_owned(), (SPEEDUP_KEYS / processes as usize).to_string()];
        all.push(ours(options, format!("sample sort on {processes}"), words, (processes, false), named("all", Metric::Speedup, g::SAMPLE)));
    }
    let words = vec!["sort".to_owned(), "1".to_owned(), SPEEDUP_KEYS.to_string()];
    all.push(ours(options, "sort_unstable".to_owned(), words, (1, false), named("sort", Metric::Speedup, g::SORT)));
    all
}

/// Lines of this name are figures of this cell's column.
fn named(line: &'static str, metric: Metric, series: Series) -> Read {
    Box::new(move |name, row, value, _| (name == line).then(|| (Key::new(metric, series, row), value)))
}

/// The layers below, over shared memory; of the raw virtual interface also by packets. What waits
/// for an answer stands beside a round trip, what does not beside the gap of a stream.
fn below(options: &Options) -> Vec<Turn<'_>> {
    let trips = if options.quick { 10_000 } else { 40_000 };
    let size = crate::layer::SHORT as usize;
    let half = Job::Latency { size, count: trips, touch: Touch::All };
    let key = |metric, series| Key::new(metric, series, LONG);
    let gap = |replied| Job::Am(AmJob::Gap { count: 5 * trips, replied });
    let mut steps = Vec::new();
    if options.groups.contains(&Group::Words) {
        let am = Job::Am(AmJob::Latency { count: trips });
        steps.extend([
            (half.clone(), key(Metric::GasRead, g::RAW), 0, 2.0),
            (am.clone(), key(Metric::GasRead, s::AM), 0, 2.0),
            (half.clone(), key(Metric::GasWrite, g::RAW), 0, 2.0),
            (am, key(Metric::GasWrite, s::AM), 0, 2.0),
            (gap(true), key(Metric::GasGet, s::AM), 0, 1.0),
            (gap(true), key(Metric::GasPut, s::AM), 0, 1.0),
            // A rate: turned round.
            (Job::Rate { size, count: 5 * trips }, key(Metric::GasStore, g::RAW), 0, -1e9),
            (gap(false), key(Metric::GasStore, s::AM), 0, 1.0),
        ]);
    }
    if options.groups.contains(&Group::Bulk) {
        for &bytes in bulk_sizes(options.quick) {
            let (size, count) = (bytes as usize, (4_000_000 / bytes).clamp(16, 20_000));
            steps.push((Job::WriteBandwidth { size, count, touch: Touch::Ends }, Key::new(Metric::GasBulkStore, g::RAW, bytes), 0, 1.0));
            steps.push((Job::Am(AmJob::Bulk { size, count }), Key::new(Metric::GasBulkStore, s::AM, bytes), 0, 1.0));
        }
    }
    let mut all = vec![layer("raw VI and Active Messages", options.session.clone(), steps)];
    if options.groups.contains(&Group::Words) {
        let config = SessionConfig { route: Route::loopback(), ..options.session.clone() };
        let half = Job::Latency { size, count: trips / 10, touch: Touch::All };
        let steps = vec![(half, key(Metric::GasRead, g::RAW_UDP), 0, 2.0), (Job::Rate { size, count: trips }, key(Metric::GasStore, g::RAW_UDP), 0, -1e9)];
        all.push(layer("raw VI by packets", config, steps));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_find_their_tables() {
        assert_eq!(parse("read 8 1.25"), Some(("read", 8, 1.25)));
        assert_eq!([parse("a warning of 7"), parse("read 8"), parse("read 8 1 2")], [None; 3]);
        assert_eq!(of_peer(g::MPICH, "get", 8, 2.0), Some((Key::new(Metric::GasGet, g::MPICH, LONG), 2.0)));
        assert_eq!(of_peer(g::MPICH, "put", 4096, 512.0), Some((Key::new(Metric::GasBulkPut, g::MPICH, 4096), 8.0)));
        assert_eq!(of_peer(g::MPICH, "latency", 8, 2.0), None);
        assert_eq!(read_word("store", 6, 3.0, true), Some((Key::new(Metric::GasStore, g::PACKETS, 6), 3.0)));
        assert_eq!(read_word("plain", 6, 3.0, true), None);
        assert_eq!(read_bulk("memcpy", 64, 4.0, false), Some((Key::new(Metric::GasBulkRead, s::MEMCPY, 64), 16.0)));
    }

    #[test]
    fn everything_is_planned() {
        let session = SessionConfig::made_up();
        let options = Options { session, compare: false, groups: vec![Group::Em3d, Group::Speedup], rounds: 1, quick: true, quiet: true };
        assert_eq!(all(&options, &mut vec![], &mut vec![]).len(), 10 + 5);
    }
}
