// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two nodes: the transport's window and stop-and-wait channels, over what a link holds.

use super::cluster::{Cluster, HostCosts};
use super::logp;
use super::{Kind, OptionSpec, Run, Scenario, ScenarioError, traffic};
use crate::stopwait::{ChannelWorld, Config};
use crate::{FaultPlan, LinkSpec, Topology, WorldConfig};
use bellwire_report::model::{Axis, Column, Line, Plot, Report, Scale, Table, Unit};
use bellwire_time::Instant;
use bellwire_via::ViAttributes;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "channels",
    summary: "two nodes: stop-and-wait channels against the window, over latency and rate",
    about: "\
Bandwidth in one direction, many messages outstanding. Channels: those of the paper, with a header of 8 bytes, one packet and one timer each, an acknowledgement for each packet; a message is a packet. \
Imitated: the transport's window of a fixed size with a timer for each packet, under an engine; its acknowledgements may share packets. The window acknowledges \
selectively, finds losses by what overtakes them, and puts several messages into a packet. The link holds its rate times a round trip: channels fill it when they hold as much.",
    options: &[
        OptionSpec::several("channels", Kind::Count(1, 256), "1,2,4,8,16,32,64,128,256", "stop-and-wait channels"),
        OptionSpec::several("latencies", Kind::Time, "1us,10us,100us", "latencies of the link"),
        OptionSpec::several("rates", Kind::Rate, "1G,10G,100G", "bandwidths of the link"),
        OptionSpec::one("size", Kind::Size, "1k", "size of messages"),
        OptionSpec::one("messages", Kind::Count(1, 1_000_000), "2000", "messages of each measurement"),
        traffic::FAULTS,
    ],
    run,
};

/// Messages outstanding.
const OUTSTANDING: usize = 1024;

/// A link, and a transport over it: so many channels, 0 for the window.
struct Case {
    link: LinkSpec,
    channels: usize,
    /// The channels of the paper themselves (`stopwait.rs`), not the window that imitates them.
    own: bool,
}

impl Case {
    /// Bytes that the link holds in a round trip.
    fn held(&self) -> f64 {
        2.0 * self.link.latency.0 as f64 / 1e9 * self.link.bits_per_second as f64 / 8.0
    }

    fn transport(&self) -> String {
        match (self.channels, self.own) {
            (0, _) => "window".into(),
            (n, false) => format!("{n} imitated"),
            (n, true) => format!("{n} channels"),
        }
    }

    fn link(&self) -> String {
        format!("{} us, {} Gbit/s", self.link.latency.0 as f64 / 1e3, self.link.bits_per_second as f64 / 1e9)
    }
}

fn run(run: &Run<'_>) -> Result<Report, ScenarioError> {
    let values = &run.values;
    let mut cases = Vec::new();
    for &latency in values.numbers("latencies") {
        for &bits_per_second in values.numbers("rates") {
            let link = LinkSpec { latency: bellwire_time::Duration(latency), bits_per_second, ..LinkSpec::default() };
            cases.push(Case { link, channels: 0, own: false });
            for own in [true, false] {
                cases.extend(values.numbers("channels").iter().map(|&n| Case { link, channels: n as usize, own }));
            }
        }
    }
    let figures = run.each(&cases, |case| format!("{}, {}", case.link(), case.transport()), |case| measure(run, case))?;
    let mut report = Report::new(format!("Two nodes, messages of {} bytes", values.number("size")));
    let columns = [
        Column::new("latency", Unit::Microseconds),
        Column::new("rate", Unit::MegabytesPerSecond),
        Column::new("link holds", Unit::Bytes),
        Column::plain("transport"),
        Column::new("bandwidth", Unit::MegabytesPerSecond),
        Column::new("of the rate", Unit::Percent),
    ];
    let mut table = Table::new("Bandwidth in one direction", columns);
    for (case, (bandwidth, digest)) in cases.iter().zip(&figures) {
        let rate = case.link.bits_per_second as f64 / 8.0;
        let latency = case.link.latency.0 as f64 / 1e3;
        table.row([
            latency.into(),
            (rate / 1e6).into(),
            (case.held() as u64).into(),
            case.transport().into(),
            (bandwidth / 1e6).into(),
            (bandwidth / rate * 100.0).into(),
        ]);
        super::fold(&mut report, *digest);
    }
    report.tables.push(table);
    let bandwidths: Vec<f64> = figures.iter().map(|(bandwidth, _)| *bandwidth).collect();
    report.plots = vec![over_channels(&cases, &bandwidths), over_link(&cases, &bandwidths)];
    Ok(report)
}

/// For each link a line over the number of channels.
fn over_channels(cases: &[Case], bandwidths: &[f64]) -> Plot {
    let lines = group(cases, bandwidths, |case| (case.channels > 0 && case.own).then(|| (case.link(), case.channels as f64)), |_, bandwidth| bandwidth / 1e6);
    let y = Axis::new("bandwidth", Unit::MegabytesPerSecond, Scale::Log10);
    Plot { title: "Bandwidth against channels".into(), x: Axis::new("channels", Unit::None, Scale::Log2), y, lines }
}

/// For each transport a line over what the link holds.
fn over_link(cases: &[Case], bandwidths: &[f64]) -> Plot {
    let share = |case: &Case, bandwidth: f64| bandwidth * 800.0 / case.link.bits_per_second as f64;
    let lines = group(cases, bandwidths, |case| Some((case.transport(), case.held())), share);
    let y = Axis::new("of the rate", Unit::Percent, Scale::Log10);
    Plot { title: "Share of the rate against latency times rate".into(), x: Axis::new("link holds", Unit::Bytes, Scale::Log10), y, lines }
}

/// Lines by name, each in the order of its first axis.
fn group(cases: &[Case], bandwidths: &[f64], place: impl Fn(&Case) -> Option<(String, f64)>, value: impl Fn(&Case, f64) -> f64) -> Vec<Line> {
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for (case, &bandwidth) in cases.iter().zip(bandwidths) {
        let Some((name, x)) = place(case) else { continue };
        let point = (x, value(case, bandwidth));
        match lines.iter_mut().find(|line| line.0 == name) {
            Some(line) => line.1.push(point),
            None => lines.push((name, vec![point])),
        }
    }
    lines.iter_mut().for_each(|line| line.1.sort_by(|a, b| a.0.total_cmp(&b.0)));
    lines.into_iter().map(|(name, points)| Line::new(name, points)).collect()
}

/// Bytes a second, and the digest.
fn measure(run: &Run<'_>, case: &Case) -> Result<(f64, u64), ScenarioError> {
    let values = &run.values;
    let size = u32::try_from(values.number("size")).map_err(|_| ScenarioError("a message is less than 4G".into()))?;
    let plan: FaultPlan = values.word("faults").parse().map_err(|error| ScenarioError(format!("faults: {error}")))?;
    if case.own {
        return stream(run, case, &plan, size as usize);
    }
    let mut config = WorldConfig::default();
    config.transport.channels = case.channels;
    let mut cluster = Cluster::new(Topology::mesh(2, case.link)?, &plan, config, HostCosts::default(), size, run.seed)?;
    let ends = cluster.connect(&[(0, 1)], &ViAttributes::default())?[0];
    logp::ping(&mut cluster, ends, size, 100)?;
    let messages = values.number("messages");
    let time = logp::stream(&mut cluster, ends, size, messages, OUTSTANDING)?;
    Ok((messages as f64 * f64::from(size) / (time.0 as f64 / 1e9), cluster.world().digest()))
}

/// The same with the paper's channels, a packet for each message.
fn stream(run: &Run<'_>, case: &Case, plan: &FaultPlan, size: usize) -> Result<(f64, u64), ScenarioError> {
    /// Nothing takes longer.
    const LIMIT: Instant = Instant(3_600_000_000_000);
    let config = Config { channels: case.channels, ..Config::default() };
    let mut world = ChannelWorld::new(Topology::mesh(2, case.link)?, plan, config, 0, run.seed)?;
    let (payload, messages) = (vec![0; size], run.values.number("messages"));
    let (mut sent, mut arrived) = (0, 0);
    while arrived < messages {
        while sent < messages && world.send(0, 1, &payload) {
            sent += 1;
        }
        if !world.step(LIMIT) {
            return Err(ScenarioError("the messages do not arrive".into()));
        }
        while world.poll_arrived().is_some() {
            arrived += 1;
        }
    }
    Ok((messages as f64 * size as f64 / (world.now().0.max(1) as f64 / 1e9), world.digest()))
}
