// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who gives figures: each is asked once in a round.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Group, LONG, Options, PERCENT, TYPES, bulk_metric, bulk_sizes, others, series as g, word_metric};
use crate::am::AmJob;
use crate::bench::payload::Touch;
use crate::error::Error;
use crate::job::Job;
use crate::peers::process::{is_executable, run_within};
use crate::pin::Pinning;
use crate::plan::series as s;
use crate::route::Route;
use crate::samples::{Key, Metric, Series};
use crate::session::{Session, SessionConfig};

/// How long a job or a program may take.
pub(super) const TIME_MAX: Duration = Duration::from_secs(60);
/// The graph and the keys of which one process and two do all.
const SPEEDUP_NODES: usize = 80_000;
const SPEEDUP_KEYS: usize = 4_000_000;

type Figures = Vec<(Key, f64)>;
/// Where a line's figure belongs: its name, row, value, and whether it was by packets.
type Read = fn(&str, u64, f64, bool) -> Option<(Key, f64)>;

/// A job of a layer below, which number of its answer counts, and by what it is multiplied; a
/// negative factor divided by it.
pub(super) struct Step {
    job: Job,
    key: Key,
    index: usize,
    factor: f64,
}

impl Step {
    fn new((job, key, index, factor): (Job, Key, usize, f64)) -> Self {
        Self { job, key, index, factor }
    }
}

/// Somebody who gives figures.
pub(super) enum Source {
    /// A job of ours: its words, how many processes, whether they share memory, and how its lines
    /// are read.
    Ours { name: String, words: Vec<String>, processes: u32, packets: bool, read: Read },
    /// Another's program.
    Peer { series: Series, version: String, program: others::Program },
    /// The layers below.
    Below { name: &'static str, session: Box<Session>, steps: Vec<Step> },
}

impl Source {
    pub(super) fn all(options: &Options, missing: &mut Vec<String>) -> Vec<Self> {
        let has = |group| options.groups.contains(&group);
        let mut sources = Vec::new();
        if has(Group::Words) || has(Group::Bulk) {
            sources.extend(Self::of_ours(options));
            sources.extend(below(options));
            if options.compare {
                sources.extend(others::peers(missing));
            }
        }
        if has(Group::Em3d) {
            sources.extend(em3d(options.quick));
        }
        if has(Group::Speedup) {
            sources.extend(speedups());
        }
        if has(Group::Steps) {
            let batches = if options.quick { "8" } else { "40" };
            sources.push(Source::Ours {
                name: "steps of a get by packets".to_owned(),
                words: vec!["steps".to_owned(), batches.to_owned()],
                processes: 2,
                packets: true,
                read: read_step,
            });
        }
        sources
    }

    fn of_ours(options: &Options) -> Vec<Self> {
        let mut all = Vec::new();
        for packets in [false, true] {
            let way = if packets { g::PACKETS } else { g::GLOBAL };
            if options.groups.contains(&Group::Words) {
                all.push(Source::Ours { name: format!("words, {}", way.name), words: vec!["words".into()], processes: 2, packets, read: read_word });
            }
            if options.groups.contains(&Group::Bulk) {
                let sizes: Vec<String> = bulk_sizes(options.quick).iter().map(u64::to_string).collect();
                all.push(Source::Ours {
                    name: format!("bulk, {}", way.name),
                    words: vec!["bulk".into(), sizes.join(",")],
                    processes: 2,
                    packets,
                    read: read_bulk,
                });
            }
        }
        all
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Source::Ours { name, .. } => name,
            Source::Peer { series, .. } => series.name,
            Source::Below { name, .. } => name,
        }
    }

    pub(super) fn is_ours(&self) -> bool {
        !matches!(self, Source::Peer { .. })
    }

    pub(super) fn version(&self) -> Option<String> {
        match self {
            Source::Peer { version, .. } => Some(version.clone()),
            _ => None,
        }
    }

    /// All its figures.
    pub(super) fn measure(&mut self, options: &Options) -> Result<Figures, Error> {
        let budget = if options.quick { "4" } else { "12" };
        let found: Figures = match self {
            Source::Ours { words, processes, packets, read, .. } => {
                let text = run_within(&mut job(&options.session, *processes, *packets, budget, words), TIME_MAX)?;
                text.lines().filter_map(parse).filter_map(|(name, row, value)| read(name, row, value, *packets)).collect()
            }
            Source::Peer { series, program, .. } => {
                let series = *series;
                let text = run_within(&mut program.command(options, budget), TIME_MAX)?;
                text.lines().filter_map(parse).flat_map(|(name, size, ns)| of_peer(series, name, size, ns)).collect()
            }
            Source::Below { session, steps, .. } => {
                let figure = |Step { job, key, index, factor }: &Step| {
                    let answer = session.run(job)?;
                    let value = answer.first.get(*index).copied().ok_or_else(|| Error::failed("no figure in the answer"))?;
                    Ok((*key, if *factor < 0.0 { -*factor / value } else { value * *factor }))
                };
                steps.iter().map(figure).collect::<Result<_, Error>>()?
            }
        };
        if found.is_empty() { Err(Error::failed("no figures in the output")) } else { Ok(found) }
    }
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

/// `bellwire`, which starts jobs: beside this executable, else in PATH.
fn launcher(own: &Path) -> PathBuf {
    let beside = own.with_file_name("bellwire");
    if is_executable(&beside) { beside } else { "bellwire".into() }
}

/// A job of this executable.
fn job(session: &SessionConfig, processes: u32, packets: bool, budget: &str, words: &[String]) -> Command {
    let mut command = Command::new(launcher(&session.worker.0));
    command.args(["run", "-n", &processes.to_string()]).arg(&session.worker.0).arg(super::report::WORKER_COMMAND);
    command.args([cpus(session.pinning).as_str(), budget]).args(words);
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
fn em3d(quick: bool) -> Vec<Source> {
    let mut all = Vec::new();
    for &percent in PERCENT[usize::from(quick)] {
        for (version, packets) in [("read", false), ("get", false), ("bulk", false), ("get", true), ("bulk", true)] {
            let (nodes, steps) = if packets { ("2000", "5") } else { ("20000", "10") };
            let words = ["em3d", version, nodes, "16", &percent.to_string(), steps].map(str::to_owned).to_vec();
            let read = match (version, packets) {
                ("read", _) => |name: &str, row, value, _| (name == "edge").then(|| (Key::new(Metric::Em3d, g::EM3D_READ, row), value)),
                ("get", false) => |name: &str, row, value, _| (name == "edge").then(|| (Key::new(Metric::Em3d, g::EM3D_GET, row), value)),
                ("get", true) => |name: &str, row, value, _| (name == "edge").then(|| (Key::new(Metric::Em3d, g::EM3D_GET_PACKETS, row), value)),
                (_, false) => |name: &str, row, value, _| (name == "edge").then(|| (Key::new(Metric::Em3d, g::EM3D_BULK, row), value)),
                (_, true) => |name: &str, row, value, _| (name == "edge").then(|| (Key::new(Metric::Em3d, g::EM3D_BULK_PACKETS, row), value)),
            };
            let way = if packets { ", by packets" } else { "" };
            all.push(Source::Ours { name: format!("em3d {version}, {percent} %{way}"), words, processes: 2, packets, read });
        }
    }
    all
}

/// The same work by one process and by two.
fn speedups() -> Vec<Source> {
    let mut all = Vec::new();
    for processes in [1, 2] {
        let nodes = (SPEEDUP_NODES / processes as usize).to_string();
        let words = ["em3d", "bulk", &nodes, "16", "10", "20"].map(str::to_owned).to_vec();
        let read = |name: &str, row, value, _| (name == "all").then(|| (Key::new(Metric::Speedup, g::EM3D, row), value));
        all.push(Source::Ours { name: format!("em3d on {processes}"), words, processes, packets: false, read });
    }
    for processes in [1, 2] {
        let words = vec!["sample".to_owned(), (SPEEDUP_KEYS / processes as usize).to_string()];
        let read = |name: &str, row, value, _| (name == "all").then(|| (Key::new(Metric::Speedup, g::SAMPLE, row), value));
        all.push(Source::Ours { name: format!("sample sort on {processes}"), words, processes, packets: false, read });
    }
    let words = vec!["sort".to_owned(), "1".to_owned(), SPEEDUP_KEYS.to_string()];
    let read = |name: &str, row, value, _| (name == "sort").then(|| (Key::new(Metric::Speedup, g::SORT, row), value));
    all.push(Source::Ours { name: "sort_unstable".to_owned(), words, processes: 1, packets: false, read });
    all
}

/// The layers below, over shared memory; of the raw virtual interface also by packets. What waits
/// for an answer stands beside a round trip, what does not beside the gap of a stream.
fn below(options: &Options) -> Vec<Source> {
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
    let mut all = vec![Source::Below {
        name: "raw VI and Active Messages",
        session: Box::new(Session::new(options.session.clone())),
        steps: steps.into_iter().map(Step::new).collect(),
    }];
    if options.groups.contains(&Group::Words) {
        let session = Session::new(SessionConfig { route: Route::loopback(), ..options.session.clone() });
        let half = Job::Latency { size, count: trips / 10, touch: Touch::All };
        let steps = vec![(half, key(Metric::GasRead, g::RAW_UDP), 0, 2.0), (Job::Rate { size, count: trips }, key(Metric::GasStore, g::RAW_UDP), 0, -1e9)];
        all.push(Source::Below { name: "raw VI by packets", session: Box::new(session), steps: steps.into_iter().map(Step::new).collect() });
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
        assert_eq!(em3d(true).len(), 10);
        assert_eq!(speedups().len(), 5);
    }
}
