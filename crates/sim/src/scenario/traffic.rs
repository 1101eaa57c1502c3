// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many NICs at once, each in traffic with one other, by a pattern: bandwidth, fairness, round
//! trips.

use super::cluster::{Cluster, Done, EndId, HostCosts};
use super::networks;
use super::{Kind, OptionSpec, Run, Scenario, ScenarioError};
use crate::{FaultPlan, LinkSpec, WhenFull, WorldConfig};
use bellwire_report::model::{Axis, Column, Line, Plot, Report, Scale, Table, Unit};
use bellwire_time::{Duration, Instant};
use bellwire_via::{ViAttributes, WorkQueueKind};

// Options that other scenarios have, too.
pub(super) const NODES: OptionSpec = OptionSpec::one("nodes", Kind::Count(4, 1000), "100", "NICs; an even number");
pub(super) const CHANNELS: OptionSpec = OptionSpec::several("channels", Kind::Count(1, 1024), "8", "stop-and-wait channels between two NICs");
pub(super) const OUTSTANDING: OptionSpec = OptionSpec::one("outstanding", Kind::Count(1, 1024), "16", "messages that a NIC has posted and that are not done");
pub(super) const FULL: OptionSpec = OptionSpec::one("full", Kind::Word(&["hold", "drop"]), "hold", "what a full queue of a switch does");
pub(super) const LATENCY: OptionSpec = OptionSpec::one("latency", Kind::Time, "500ns", "latency of each link");
pub(super) const RATE: OptionSpec = OptionSpec::one("rate", Kind::Rate, "10G", "bandwidth of each link");
pub(super) const QUEUE: OptionSpec = OptionSpec::one("queue", Kind::Size, "64k", "queue of each link");
pub(super) const FAULTS: OptionSpec = OptionSpec::one("faults", Kind::Faults, "", "what goes wrong");

pub(super) const SCENARIO: Scenario = Scenario {
    name: "traffic",
    summary: "many NICs under a pattern of traffic: bandwidth, fairness, round trips",
    about: "\
Each NIC sends to one other, as fast as the transport lets it. cshift: to its right neighbour, around the ring. neighbour: adjacent NICs exchange. bisection: NIC i and NIC i + n/2 exchange.

Bandwidth is what arrived for programs, for each NIC, in a span of virtual time after a start. Jain's index is 1 when all NICs get the same, 1/n when one gets all. Useful: what arrived \
for programs, of all bytes that NICs put on their links, since the start; what was under way at the end does not count. Round trip: one message of 16 bytes at a time to and fro, all NICs at once, in a run of its own. Processors take no time.",
    options: &[
        NODES,
        OptionSpec::several("networks", Kind::Word(networks::NAMES), "star,fat-tree,fat-tree-hash,subclusters", "networks"),
        OptionSpec::several("patterns", Kind::Word(PATTERNS), "cshift,neighbour,bisection", "patterns of traffic"),
        OptionSpec::several("transport", Kind::Word(&["window", "channels"]), "window", "the transport: its window, or stop-and-wait channels"),
        CHANNELS,
        OptionSpec::several("sizes", Kind::Size, "512,8k", "sizes of messages"),
        OUTSTANDING,
        FULL,
        LATENCY,
        RATE,
        QUEUE,
        OptionSpec::one("start", Kind::Time, "1ms", "time before anything counts"),
        OptionSpec::one("time", Kind::Time, "1ms", "time in which bandwidth is measured"),
        FAULTS,
    ],
    run,
};

/// The pairs of senders and receivers.
pub(super) const PATTERNS: &[&str] = &["cshift", "neighbour", "bisection"];
/// Bytes of a message of the round trips.
const SMALL: u32 = 16;

/// One run.
struct Case {
    network: String,
    pattern: String,
    size: u32,
    /// Stop-and-wait channels; 0: the window.
    channels: usize,
}

/// What it gave.
struct Figures {
    /// Bytes a second that came to each NIC's peer.
    rates: Vec<f64>,
    /// Of the bytes on links.
    useful: f64,
    dropped: u64,
    held: u64,
    /// Mean and longest, nanoseconds.
    round_trip: (f64, u64),
    /// Of the two runs.
    digests: [u64; 2],
}

fn run(run: &Run<'_>) -> Result<Report, ScenarioError> {
    let values = &run.values;
    let transports = transports(values);
    let mut cases = Vec::new();
    for network in values.words("networks") {
        for pattern in values.words("patterns") {
            for &size in values.numbers("sizes") {
                let size = u32::try_from(size).map_err(|_| ScenarioError("sizes: less than 4G".into()))?;
                for &channels in &transports {
                    cases.push(Case { network: network.clone(), pattern: pattern.clone(), size, channels });
                }
            }
        }
    }
    let figures =
        run.each(&cases, |case| format!("{}, {}, {} bytes, {}", case.network, case.pattern, case.size, transport(case.channels)), |case| measure(run, case))?;
    let mut report = Report::new(format!("{} NICs, each in traffic with one other", values.count("nodes")));
    let mut table = Table::new("Bandwidth that arrived, for each NIC and for all; round trips of 16 bytes", columns());
    let plot = by_channels(&cases, &figures);
    for (case, figures) in cases.iter().zip(figures) {
        figures.digests.into_iter().for_each(|digest| super::fold(&mut report, digest));
        table.row(row(case, figures));
    }
    report.tables.push(table);
    report.plots.extend(plot);
    Ok(report)
}

/// Numbers of channels to be measured; 0: the window.
pub(super) fn transports(values: &super::Values) -> Vec<usize> {
    let named = values.words("transport").iter();
    named.flat_map(|name| if name == "window" { vec![0] } else { values.numbers("channels").iter().map(|n| *n as usize).collect() }).collect()
}

pub(super) fn transport(channels: usize) -> String {
    if channels == 0 { "window".into() } else { format!("{channels} channels") }
}

/// Bandwidth against the number of channels, if several were measured; the window is a level line.
fn by_channels(cases: &[Case], figures: &[Figures]) -> Option<Plot> {
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    let (least, most) = cases.iter().filter(|case| case.channels > 0).fold((usize::MAX, 0), |(a, b), case| (a.min(case.channels), b.max(case.channels)));
    if least >= most {
        return None;
    }
    for (case, figures) in cases.iter().zip(figures) {
        let kind = if case.channels == 0 { "window" } else { "channels" };
        let name = format!("{}, {}, {} B, {kind}", case.network, case.pattern, case.size);
        let bandwidth = figures.rates.iter().sum::<f64>() / 1e6;
        let points = if case.channels == 0 { vec![least, most] } else { vec![case.channels] };
        let points = points.into_iter().map(|channels| (channels as f64, bandwidth));
        match lines.iter_mut().find(|line| line.0 == name) {
            Some(line) => line.1.extend(points),
            None => lines.push((name, points.collect())),
        }
    }
    Some(Plot {
        title: "Bandwidth of all, against stop-and-wait channels".into(),
        x: Axis::new("channels", Unit::None, Scale::Log2),
        y: Axis::new("bandwidth", Unit::MegabytesPerSecond, Scale::Log10),
        lines: lines.into_iter().map(|(name, points)| Line::new(&name, points)).collect(),
    })
}

fn columns() -> Vec<Column> {
    let rate = |name: &str| Column::new(name, Unit::MegabytesPerSecond);
    vec![
        Column::plain("network"),
        Column::plain("pattern"),
        Column::plain("transport"),
        Column::new("size", Unit::Bytes),
        rate("all"),
        rate("least"),
        rate("median"),
        rate("most"),
        Column::plain("Jain"),
        Column::new("useful", Unit::Percent),
        Column::plain("dropped"),
        Column::plain("held"),
        Column::new("round trip", Unit::Microseconds),
        Column::new("longest", Unit::Microseconds),
    ]
}

fn row(case: &Case, mut figures: Figures) -> Vec<bellwire_report::model::Cell> {
    let rates = &mut figures.rates;
    rates.sort_by(f64::total_cmp);
    let sum: f64 = rates.iter().sum();
    let (least, median, most) = (rates[0], rates[rates.len() / 2], rates[rates.len() - 1]);
    vec![
        case.network.as_str().into(),
        case.pattern.as_str().into(),
        transport(case.channels).into(),
        u64::from(case.size).into(),
        (sum / 1e6).into(),
        (least / 1e6).into(),
        (median / 1e6).into(),
        (most / 1e6).into(),
        jain(rates).into(),
        (figures.useful * 100.0).into(),
        figures.dropped.into(),
        figures.held.into(),
        (figures.round_trip.0 / 1e3).into(),
        (figures.round_trip.1 as f64 / 1e3).into(),
    ]
}

/// Jain's index of fairness; 1 when nobody gets anything.
pub(super) fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), share| (sum + share, squares + share * share));
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

/// The NIC that a NIC sends to.
fn partner(pattern: &str, node: usize, nodes: usize) -> usize {
    match pattern {
        "cshift" => (node + 1) % nodes,
        "neighbour" => node ^ 1,
        _ => (node + nodes / 2) % nodes,
    }
}

/// A network with all its pairs connected, for messages of up to `bytes_max`; with stop-and-wait
/// channels if there are some.
pub(super) fn open(run: &Run<'_>, network: &str, pattern: &str, bytes_max: u32, channels: usize) -> Result<(Cluster, Vec<[EndId; 2]>), ScenarioError> {
    let values = &run.values;
    let nodes = values.count("nodes");
    if !nodes.is_multiple_of(2) {
        return Err(ScenarioError("nodes: an even number, so that all have a partner".into()));
    }
    let link = LinkSpec {
        latency: values.time("latency"),
        bits_per_second: values.number("rate"),
        queue_bytes: values.number("queue"),
        when_full: if values.word("full") == "hold" { WhenFull::Hold } else { WhenFull::Drop },
        mtu_bytes: 0,
    };
    let plan: FaultPlan = values.word("faults").parse().map_err(|error| ScenarioError(format!("faults: {error}")))?;
    let mut config = WorldConfig::default();
    config.transport.channels = channels;
    let topology = networks::network(network, nodes, link)?;
    let mut cluster = Cluster::new(topology, &plan, config, HostCosts::default(), bytes_max, run.seed)?;
    let pairs: Vec<(usize, usize)> = (0..nodes).map(|node| (node, partner(pattern, node, nodes))).collect();
    let ends = cluster.connect(&pairs, &ViAttributes { rnr_wait: true, ..ViAttributes::default() })?;
    Ok((cluster, ends))
}

fn measure(run: &Run<'_>, case: &Case) -> Result<Figures, ScenarioError> {
    let (rates, useful, [dropped, held], first) = stream(run, case)?;
    let (round_trip, second) = ping(run, case)?;
    Ok(Figures { rates, useful, dropped, held, round_trip, digests: [first, second] })
}

/// Bandwidth: rates, useful share, packets dropped and held, digest.
fn stream(run: &Run<'_>, case: &Case) -> Result<(Vec<f64>, f64, [u64; 2], u64), ScenarioError> {
    let values = &run.values;
    let (mut cluster, ends) = open(run, &case.network, &case.pattern, case.size.max(SMALL), case.channels)?;
    let outstanding = values.count("outstanding");
    for [from, to] in &ends {
        for _ in 0..outstanding {
            cluster.receive(*to, 0)?;
            cluster.receive(*to, 0)?;
            cluster.send(*from, case.size, 0)?;
        }
    }
    let begin = cluster.now() + values.time("start");
    let early = keep_sending(&mut cluster, case.size, begin, ends.len())?;
    let before = *cluster.world().fabric().statistics();
    let received = keep_sending(&mut cluster, case.size, begin + values.time("time"), ends.len())?;
    let fabric = *cluster.world().fabric().statistics();
    let useful = early.iter().chain(&received).sum::<u64>() as f64 / sent_bytes(&cluster, ends.len()).max(1) as f64;
    let counts = [fabric.dropped_in_all() - before.dropped_in_all(), fabric.held - before.held];
    let seconds = values.time("time").0 as f64 / 1e9;
    Ok((received.into_iter().map(|bytes| bytes as f64 / seconds).collect(), useful, counts, cluster.world().digest()))
}

/// A send for each that is done, until a time; the bytes that came to the second end of each pair.
fn keep_sending(cluster: &mut Cluster, size: u32, until: Instant, pairs: usize) -> Result<Vec<u64>, ScenarioError> {
    let mut received = vec![0; pairs];
    while let Some(Done { end, kind, completion }) = cluster.next(until)? {
        if completion.status.is_error() {
            return Err(ScenarioError(format!("a message failed: {:?}", completion.status)));
        }
        if kind == WorkQueueKind::Send {
            cluster.send(end, size, 0)?;
        } else {
            // Ends are made in pairs, the second after the first.
            received[end.0 / 2] += u64::from(completion.length);
            cluster.receive(end, 0)?;
        }
    }
    Ok(received)
}

/// Bytes that NICs have put on their links.
fn sent_bytes(cluster: &Cluster, nodes: usize) -> u64 {
    let world = cluster.world();
    (0..nodes).filter_map(|node| world.engine(node)).map(|engine| engine.wire().transport().statistics().bytes_out).sum()
}

/// Round trips: mean and longest, digest.
fn ping(run: &Run<'_>, case: &Case) -> Result<((f64, u64), u64), ScenarioError> {
    let (mut cluster, ends) = open(run, &case.network, &case.pattern, case.size.max(SMALL), case.channels)?;
    let mut asked = vec![Instant(0); ends.len()];
    for (pair, [from, to]) in ends.iter().enumerate() {
        [*from, *to].into_iter().try_for_each(|end| cluster.receive(end, 0))?;
        asked[pair] = cluster.now();
        cluster.send(*from, SMALL, 0)?;
    }
    let begin = cluster.now() + run.values.time("start");
    let end = begin + run.values.time("time");
    let (mut count, mut sum, mut longest) = (0_u64, 0_u64, 0_u64);
    while let Some(done) = cluster.next(end)? {
        if done.kind == WorkQueueKind::Send {
            continue;
        }
        let pair = done.end.0 / 2;
        if done.end == ends[pair][0] {
            let Duration(time) = cluster.now().since(asked[pair]);
            if cluster.now() >= begin {
                (count, sum, longest) = (count + 1, sum + time, longest.max(time));
            }
            asked[pair] = cluster.now();
        }
        cluster.receive(done.end, 0)?;
        cluster.send(done.end, SMALL, 0)?;
    }
    Ok(((sum as f64 / count.max(1) as f64, longest), cluster.world().digest()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partners_and_fairness() {
        for pattern in ["cshift", "neighbour", "bisection"] {
            let mut all: Vec<usize> = (0..10).map(|node| partner(pattern, node, 10)).collect();
            assert!(all.iter().enumerate().all(|(node, other)| node != *other), "{pattern}");
            all.sort_unstable();
            assert_eq!(all, (0..10).collect::<Vec<_>>(), "{pattern}");
        }
        assert!((jain(&[3.0, 3.0, 3.0]) - 1.0).abs() < 1e-9 && (jain(&[5.0, 0.0]) - 0.5).abs() < 1e-9 && (jain(&[]) - 1.0).abs() < 1e-9);
    }
}
