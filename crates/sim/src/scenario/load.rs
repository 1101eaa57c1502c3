// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many NICs, each with messages at a given rate for one other: offered load, delivered load, and
//! delay.

use super::cluster::Cluster;
use super::networks;
use super::{Kind, OptionSpec, Run, Scenario, ScenarioError, traffic};
use bellwire_faults::Random;
use bellwire_report::model::{Axis, Cell, Column, Line, Plot, Report, Scale, Table, Unit};
use bellwire_time::{Duration, Instant};
use bellwire_via::WorkQueueKind;
use core::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "load",
    summary: "many NICs under a pattern of traffic: offered against delivered",
    about: "\
Each NIC has messages for one other (patterns as in traffic), at times drawn around a rate that does not depend on how they fare: the load, of the rate of a NIC's link. A message waits at its sender while \
too many before it are not done; it counts as late from the time it was due. Offered and delivered are for each NIC, after a start. Delivered follows offered until the network, the headers or the \
transport set a limit; then messages wait longer and longer. Processors take no time.",
    options: &[
        traffic::NODES,
        OptionSpec::several("networks", Kind::Word(networks::NAMES), "star,fat-tree,subclusters", "networks"),
        OptionSpec::several("patterns", Kind::Word(traffic::PATTERNS), "cshift,neighbour,bisection", "patterns of traffic"),
        OptionSpec::several("loads", Kind::Count(1, 200), "10,30,50,70,80,90,100", "loads, in hundredths of the rate of a link"),
        OptionSpec::one("size", Kind::Size, "8k", "size of messages"),
        traffic::OUTSTANDING,
        traffic::FULL,
        traffic::LATENCY,
        traffic::RATE,
        traffic::QUEUE,
        OptionSpec::one("start", Kind::Time, "500us", "time before anything counts"),
        OptionSpec::one("time", Kind::Time, "1ms", "time in which is measured"),
        traffic::FAULTS,
    ],
    run,
};

struct Case {
    network: String,
    pattern: String,
    load: u64,
}

struct Figures {
    /// Bytes that were due and that came, of all NICs.
    offered: u64,
    delivered: u64,
    /// Nanoseconds from the time it was due, mean and longest, of those that came.
    mean: f64,
    longest: u64,
    digest: u64,
}

/// What a sender has to do.
#[derive(Default)]
struct Sender {
    /// When messages were due that have not been posted, and that have and have not come.
    waiting: VecDeque<u64>,
    posted: VecDeque<u64>,
    outstanding: usize,
    drawn: u64,
}

fn run(run: &Run<'_>) -> Result<Report, ScenarioError> {
    let values = &run.values;
    let mut cases = Vec::new();
    for network in values.words("networks") {
        for pattern in values.words("patterns") {
            cases.extend(values.numbers("loads").iter().map(|&load| Case { network: network.clone(), pattern: pattern.clone(), load }));
        }
    }
    let figures = run.each(&cases, |case| format!("{}, {}, {} %", case.network, case.pattern, case.load), |case| measure(run, case))?;
    let nodes = values.count("nodes") as f64;
    let per_nic = |bytes: u64| bytes as f64 / nodes / (values.time("time").0 as f64 / 1e9) / 1e6;
    let mut report = Report::new(format!("{} NICs, messages of {} bytes", values.count("nodes"), values.number("size")));
    let rate = |name: &str| Column::new(name, Unit::MegabytesPerSecond);
    let columns = [
        Column::plain("network"),
        Column::plain("pattern"),
        Column::new("load", Unit::Percent),
        rate("offered"),
        rate("delivered"),
        Column::new("mean time", Unit::Microseconds),
        Column::new("longest", Unit::Microseconds),
    ];
    let mut table = Table::new("Offered and delivered, for each NIC", columns);
    for (case, f) in cases.iter().zip(&figures) {
        let cells: [Cell; 7] = [
            case.network.as_str().into(),
            case.pattern.as_str().into(),
            case.load.into(),
            per_nic(f.offered).into(),
            per_nic(f.delivered).into(),
            (f.mean / 1e3).into(),
            (f.longest as f64 / 1e3).into(),
        ];
        table.row(cells);
        super::fold(&mut report, f.digest);
    }
    report.tables.push(table);
    let offered = || Axis::new("offered", Unit::MegabytesPerSecond, Scale::Linear);
    let lines = |y: &dyn Fn(&Figures) -> f64| lines(&cases, &figures, &|f| (per_nic(f.offered), y(f)));
    report.plots = vec![
        Plot {
            title: "Delivered against offered, for each NIC".into(),
            x: offered(),
            y: Axis::new("delivered", Unit::MegabytesPerSecond, Scale::Linear),
            lines: lines(&|f| per_nic(f.delivered)),
        },
        Plot {
            title: "Time of a message against offered".into(),
            x: offered(),
            y: Axis::new("mean time", Unit::Microseconds, Scale::Log10),
            lines: lines(&|f| f.mean / 1e3),
        },
    ];
    Ok(report)
}

/// A line for each network and pattern. Cases of one stand together.
fn lines(cases: &[Case], figures: &[Figures], point: &dyn Fn(&Figures) -> (f64, f64)) -> Vec<Line> {
    let all: Vec<_> = cases.iter().zip(figures).collect();
    let groups = all.chunk_by(|(a, _), (b, _)| (&a.network, &a.pattern) == (&b.network, &b.pattern));
    groups.map(|group| Line::new(format!("{}, {}", group[0].0.network, group[0].0.pattern), group.iter().map(|(_, f)| point(f)))).collect()
}

fn measure(run: &Run<'_>, case: &Case) -> Result<Figures, ScenarioError> {
    let values = &run.values;
    let size = u32::try_from(values.number("size")).map_err(|_| ScenarioError("size: less than 4G".into()))?;
    let (mut cluster, ends) = traffic::open(run, &case.network, &case.pattern, size, 0)?;
    let outstanding = values.count("outstanding");
    for [_, to] in &ends {
        (0..2 * outstanding).try_for_each(|_| cluster.receive(*to, 0))?;
    }
    let start = cluster.now() + values.time("start");
    let end = start + values.time("time");
    // Nanoseconds between two messages of a NIC, on average.
    let gap = (u64::from(size) * 8_000_000_000 / values.number("rate").max(1) * 100 / case.load).max(1);
    let draw = |sender: &mut Sender, pair: usize| {
        sender.drawn += 1;
        gap / 2 + Random::mix(Random::mix(run.seed, pair as u64), sender.drawn) % (gap + 1)
    };
    let mut senders: Vec<Sender> = ends.iter().map(|_| Sender::default()).collect();
    let mut agenda: BinaryHeap<_> = senders.iter_mut().enumerate().map(|(pair, sender)| Reverse((cluster.now().0 + draw(sender, pair), pair))).collect();
    let mut f = Figures { offered: 0, delivered: 0, mean: 0.0, longest: 0, digest: 0 };
    let (mut came, mut total) = (0_u64, 0_u64);
    while cluster.now() < end {
        let due = agenda.peek().map_or(end, |Reverse((at, _))| Instant(*at)).min(end);
        let Some(done) = cluster.next(due)? else {
            while let Some(&Reverse((at, pair))) = agenda.peek()
                && at <= cluster.now().0
            {
                agenda.pop();
                senders[pair].waiting.push_back(at);
                f.offered += if at >= start.0 { u64::from(size) } else { 0 };
                agenda.push(Reverse((at + draw(&mut senders[pair], pair), pair)));
                post(&mut cluster, &mut senders[pair], ends[pair][0], size, outstanding)?;
            }
            continue;
        };
        if done.completion.status.is_error() {
            return Err(ScenarioError(format!("a message failed: {:?}", done.completion.status)));
        }
        // Ends are made in pairs, the second after the first.
        let pair = done.end.0 / 2;
        if done.kind == WorkQueueKind::Send {
            senders[pair].outstanding -= 1;
            post(&mut cluster, &mut senders[pair], done.end, size, outstanding)?;
            continue;
        }
        cluster.receive(done.end, 0)?;
        let due = senders[pair].posted.pop_front().unwrap_or_default();
        if cluster.now() >= start {
            let Duration(time) = cluster.now().since(Instant(due));
            f.delivered += u64::from(size);
            (came, total, f.longest) = (came + 1, total + time, f.longest.max(time));
        }
    }
    f.mean = total as f64 / came.max(1) as f64;
    f.digest = cluster.world().digest();
    Ok(f)
}

/// Posts what waits, as far as it may.
fn post(cluster: &mut Cluster, sender: &mut Sender, end: super::cluster::EndId, size: u32, outstanding: usize) -> Result<(), ScenarioError> {
    while sender.outstanding < outstanding
        && let Some(due) = sender.waiting.pop_front()
    {
        sender.posted.push_back(due);
        sender.outstanding += 1;
        cluster.send(end, size, 0)?;
    }
    Ok(())
}
