// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two nodes: half a round trip and bandwidth against size, and the parameters of LogP.

use super::cluster::{Cluster, EndId, HostCosts};
use super::{Kind, OptionSpec, Run, Scenario, ScenarioError};
use crate::{LinkSpec, Topology, WorldConfig};
use bellwire_report::model::{Axis, Column, Line, Plot, Report, Scale, Table, Unit};
use bellwire_time::{Duration, Instant};
use bellwire_via::{ViAttributes, WorkQueueKind};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "logp",
    summary: "two nodes: half a round trip and bandwidth against size; LogP",
    about: "\
Two nodes and a link. Half a round trip: the mean of many, one message at a time. Bandwidth: many messages outstanding in one direction. Processors take no time.

LogP, with processors that take time for what they do (options): o_s is a processor's time for sending a message (posting it, and taking its completion), o_r for receiving one (taking it, and posting \
the receive for the next). g is the time from one message to the next at the best rate of short messages, whatever sets it. L is what is left of half a round trip of short messages without o_r and the \
posting: link, network interfaces, engines and transports. G is the time of one byte more at the best rate of long messages. o_s and o_r are what the options say; g, L and G are measured.",
    options: &[
        OptionSpec::several("sizes", Kind::Size, "8,64,256,1k,4k,16k,64k", "sizes of messages"),
        OptionSpec::one("latency", Kind::Time, "1us", "latency of the link"),
        OptionSpec::one("rate", Kind::Rate, "10G", "bandwidth of the link"),
        OptionSpec::one("outstanding", Kind::Count(1, 1024), "64", "messages outstanding when bandwidth is measured"),
        OptionSpec::one("post", Kind::Time, "150ns", "LogP: processor's time for posting a message"),
        OptionSpec::one("complete", Kind::Time, "50ns", "LogP: processor's time for the completion of a message sent"),
        OptionSpec::one("take", Kind::Time, "250ns", "LogP: processor's time for taking a message and posting the next receive"),
        OptionSpec::one("messages", Kind::Count(1, 1_000_000), "1000", "messages of each measurement"),
    ],
    run,
};

/// Longest that a measurement may take, in virtual time.
const TIME_MAX: Duration = Duration::from_secs(60);

/// What one size gives.
struct Figures {
    half_round_trip: f64,
    bytes_per_second: f64,
    digest: u64,
}

fn run(run: &Run<'_>) -> Result<Report, ScenarioError> {
    let values = &run.values;
    let sizes = values.numbers("sizes");
    let figures = run.each(sizes, |size| format!("{size} bytes"), |&size| measure(run, size))?;
    let mut report = Report::new("Two nodes");
    let columns = [Column::new("size", Unit::Bytes), Column::new("half round trip", Unit::Microseconds), Column::new("bandwidth", Unit::MegabytesPerSecond)];
    let mut table = Table::new("Latency and bandwidth", columns);
    for (size, figures) in sizes.iter().zip(&figures) {
        table.row([(*size).into(), (figures.half_round_trip / 1e3).into(), (figures.bytes_per_second / 1e6).into()]);
        super::fold(&mut report, figures.digest);
    }
    report.tables.push(table);
    let (logp, digest) = parameters(run)?;
    report.tables.push(logp);
    super::fold(&mut report, digest);
    let line = |name: &str, of: fn(&Figures) -> f64| Line::new(name, sizes.iter().zip(&figures).map(|(size, figures)| (*size as f64, of(figures))));
    let size = Axis::new("size", Unit::Bytes, Scale::Log2);
    report.plots.push(Plot {
        title: "Half round trip".into(),
        x: size.clone(),
        y: Axis::new("half round trip", Unit::Microseconds, Scale::Log10),
        lines: vec![line("one message", |f| f.half_round_trip / 1e3)],
    });
    report.plots.push(Plot {
        title: "Bandwidth".into(),
        x: size,
        y: Axis::new("bandwidth", Unit::MegabytesPerSecond, Scale::Log10),
        lines: vec![line("one direction", |f| f.bytes_per_second / 1e6)],
    });
    Ok(report)
}

/// Bytes of the short and of the long messages of LogP.
const SHORT: u32 = 16;
const LONG: u32 = 16 << 10;

/// The parameters of LogP, and the digest.
fn parameters(run: &Run<'_>) -> Result<(Table, u64), ScenarioError> {
    let values = &run.values;
    let costs = HostCosts { send: values.time("post"), receive: values.time("take"), upkeep: values.time("complete") };
    let (messages, outstanding) = (values.number("messages"), values.count("outstanding"));
    let mut cluster = Cluster::new(Topology::mesh(2, link(run))?, &"".parse().unwrap_or_default(), WorldConfig::default(), costs, LONG, run.seed)?;
    let ends = cluster.connect(&[(0, 1)], &ViAttributes { rnr_wait: true, ..ViAttributes::default() })?[0];
    ping(&mut cluster, ends, SHORT, 100)?;
    let half = ping(&mut cluster, ends, SHORT, messages)?.0 as f64 / messages as f64 / 2.0;
    let gap = stream(&mut cluster, ends, SHORT, messages, outstanding)?.0 as f64 / messages as f64;
    let long = stream(&mut cluster, ends, LONG, messages, outstanding)?.0 as f64 / messages as f64;
    let [send, receive, post] = [costs.send.0 + costs.upkeep.0, costs.receive.0, costs.send.0].map(|ns| ns as f64);
    let columns = [
        ("o_s", Unit::Nanoseconds),
        ("o_r", Unit::Nanoseconds),
        ("g", Unit::Nanoseconds),
        ("L", Unit::Nanoseconds),
        ("half round trip", Unit::Nanoseconds),
        ("G", Unit::NanosecondsPerByte),
    ];
    let mut table = Table::new("LogP", columns.map(|(name, unit)| Column::new(name, unit)));
    table.row([send, receive, gap, half - post - receive, half, long / f64::from(LONG)].map(bellwire_report::model::Cell::from));
    Ok((table, cluster.world().digest()))
}

fn link(run: &Run<'_>) -> LinkSpec {
    LinkSpec { latency: run.values.time("latency"), bits_per_second: run.values.number("rate"), ..LinkSpec::default() }
}

fn measure(run: &Run<'_>, size: u64) -> Result<Figures, ScenarioError> {
    let values = &run.values;
    let size = u32::try_from(size).map_err(|_| ScenarioError("a message is less than 4G".into()))?;
    let mut cluster =
        Cluster::new(Topology::mesh(2, link(run))?, &"".parse().unwrap_or_default(), WorldConfig::default(), HostCosts::default(), size, run.seed)?;
    let ends = cluster.connect(&[(0, 1)], &ViAttributes::default())?[0];
    let messages = values.number("messages");
    // The first exchanges find out what the path carries.
    ping(&mut cluster, ends, size, 100)?;
    let half_round_trip = ping(&mut cluster, ends, size, messages)?.0 as f64 / messages as f64 / 2.0;
    let time = stream(&mut cluster, ends, size, messages, values.count("outstanding"))?;
    Ok(Figures { half_round_trip, bytes_per_second: messages as f64 * f64::from(size) / (time.0 as f64 / 1e9), digest: cluster.world().digest() })
}

/// Time of so many round trips.
pub(super) fn ping(cluster: &mut Cluster, [here, there]: [EndId; 2], size: u32, count: u64) -> Result<Duration, ScenarioError> {
    let start = cluster.now();
    [here, there].into_iter().try_for_each(|end| cluster.receive(end, 0))?;
    cluster.send(here, size, 0)?;
    let mut left = count;
    while let Some(done) = cluster.next(start + TIME_MAX)? {
        if done.kind == WorkQueueKind::Send {
            continue;
        }
        if done.end == here {
            left -= 1;
        }
        if left == 0 {
            return Ok(cluster.now().since(start));
        }
        if done.end == there || left > 0 {
            cluster.receive(done.end, 0)?;
            cluster.send(done.end, size, 0)?;
        }
    }
    Err(ScenarioError("the answers stopped".into()))
}

/// Time of so many messages in one direction, many outstanding.
pub(super) fn stream(cluster: &mut Cluster, [here, there]: [EndId; 2], size: u32, count: u64, outstanding: usize) -> Result<Duration, ScenarioError> {
    let start: Instant = cluster.now();
    for _ in 0..2 * outstanding {
        cluster.receive(there, 0)?;
    }
    let (mut sent, mut received) = (0, 0);
    while sent < count.min(outstanding as u64) {
        cluster.send(here, size, 0)?;
        sent += 1;
    }
    while received < count {
        let Some(done) = cluster.next(start + TIME_MAX)? else { return Err(ScenarioError("the messages stopped".into())) };
        if done.kind == WorkQueueKind::Receive {
            received += 1;
            cluster.receive(there, 0)?;
        } else if sent < count {
            sent += 1;
            cluster.send(here, size, 0)?;
        }
    }
    Ok(cluster.now().since(start))
}
