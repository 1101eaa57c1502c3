// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many packets a second of one processor the simulator carries through whole engines: program,
//! `via`, `proto`, fabric and back.

use super::cluster::{Cluster, Done, EndId, HostCosts};
use super::{Kind, OptionSpec, Run, Scenario, ScenarioError};
use crate::{LinkSpec, Topology, WorldConfig};
use bellwire_report::model::{Cell, Column, Report, Table, Unit};
use bellwire_time::{Duration, Instant};
use bellwire_via::{ViAttributes, WorkQueueKind};
use std::time::Instant as Clock;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "speed",
    summary: "how many packets a second of one processor the simulator carries",
    about: "\
Each node sends to the next one or two, or to all others, 32 messages of 48 bytes outstanding on each connection, each in a packet of its own; acknowledgements are packets too. Counted is \
what transports have sent. A packet passes program, engine, transport, each link and switch on its way, and the other side's transport, engine and program. The time is the processor's (what else runs on the machine takes caches all the same). \
The shorter a turn of a NIC is, the less there is to do in it, and the more often the simulator goes from one NIC to another, whose tables a cache has lost meanwhile. \
Packets and their hash depend on options and seed alone, the time that they take does not.",
    options: &[
        OptionSpec::one("packets", Kind::Count(1000, 1_000_000_000), "1000000", "packets of each measurement"),
        OptionSpec::several("networks", Kind::Word(NAMES), "pair,mesh,star,all,faults", "networks"),
        OptionSpec::several("turns", Kind::Time, "200ns,1us", "virtual times that a turn of a NIC takes; what arrives meanwhile is looked at together"),
        OptionSpec::one("faults", Kind::Faults, "loss=0.01,dup=0.01,reorder=0.01", "faults of the last network"),
    ],
    run,
};

/// The networks.
const NAMES: &[&str] = &["pair", "mesh", "star", "all", "faults"];
/// Bytes of a message.
const BYTES: u32 = 48;
/// Messages outstanding on each connection.
const OUTSTANDING: usize = 32;
/// Packets before anything counts, as a part of those that do: tables and buffers have their size
/// then.
const WARM: u64 = 10;
/// Things that programs are told between two looks at the counter.
const BATCH: usize = 1000;

#[derive(Clone)]
struct Case {
    name: &'static str,
    /// Virtual time that a turn of a NIC takes.
    turn: Duration,
    topology: Topology,
    /// Each node sends to so many.
    partners: usize,
    faults: String,
}

struct Figures {
    packets: u64,
    messages: u64,
    turns: u64,
    virtual_seconds: f64,
    seconds: f64,
    digest: u64,
}

fn cases(run: &Run<'_>) -> Result<Vec<Case>, ScenarioError> {
    let link = LinkSpec::default();
    let case = |word: &String| -> Result<Case, ScenarioError> {
        let (name, topology, partners, faults) = match word.as_str() {
            "pair" => ("2 nodes", Topology::mesh(2, link)?, 1, ""),
            "mesh" => ("4 nodes, a link for each two", Topology::mesh(4, link)?, 3, ""),
            "star" => ("16 nodes around a switch, each to two", Topology::star(16, link)?, 2, ""),
            "all" => ("16 nodes around a switch, each to all", Topology::star(16, link)?, 15, ""),
            _ => ("4 nodes, with faults", Topology::mesh(4, link)?, 3, run.values.word("faults")),
        };
        Ok(Case { name, turn: Duration(0), topology, partners, faults: faults.into() })
    };
    let mut cases = Vec::new();
    for word in run.values.words("networks") {
        let case = case(word)?;
        cases.extend(run.values.numbers("turns").iter().map(|turn| Case { turn: Duration(*turn), ..case.clone() }));
    }
    Ok(cases)
}

fn run(run: &Run<'_>) -> Result<Report, ScenarioError> {
    let cases = cases(run)?;
    let figures = run.each_alone(&cases, |case| case.name.into(), |case| measure(run, case))?;
    let mut report = Report::new("The simulator's speed on one processor");
    let columns = [
        Column::plain("network"),
        Column::new("turn", Unit::Nanoseconds),
        Column::plain("packets sent"),
        Column::plain("messages"),
        Column::plain("packets a turn"),
        Column::new("virtual time", Unit::Microseconds),
        Column::measured("packets", Unit::ThousandPerSecond),
        Column::measured("time of one", Unit::Nanoseconds),
    ];
    let mut table = Table::new("Packets", columns);
    for (case, figures) in cases.iter().zip(&figures) {
        let packets = figures.packets as f64;
        let row: [Cell; 8] = [
            case.name.into(),
            case.turn.0.into(),
            figures.packets.into(),
            figures.messages.into(),
            (packets / figures.turns.max(1) as f64).into(),
            (figures.virtual_seconds * 1e6).into(),
            (packets / figures.seconds / 1e3).into(),
            (figures.seconds * 1e9 / packets).into(),
        ];
        table.row(row);
        super::fold(&mut report, figures.digest);
    }
    report.tables.push(table);
    Ok(report)
}

fn measure(run: &Run<'_>, case: &Case) -> Result<Figures, ScenarioError> {
    let plan = case.faults.parse().map_err(|error| ScenarioError(format!("faults: {error}")))?;
    let nodes = case.topology.nodes();
    let mut cluster =
        Cluster::new(case.topology.clone(), &plan, WorldConfig { turn: case.turn, ..WorldConfig::default() }, HostCosts::default(), BYTES, run.seed)?;
    let pairs: Vec<_> = (0..nodes).flat_map(|a| (1..=case.partners).map(move |i| (a, (a + i) % nodes))).collect();
    let ends = cluster.connect(&pairs, &ViAttributes { rnr_wait: true, ..ViAttributes::default() })?;
    for [from, to] in ends {
        for _ in 0..OUTSTANDING {
            cluster.receive(to, 0)?;
            cluster.receive(to, 0)?;
            cluster.send(from, BYTES, 0)?;
        }
    }
    let wanted = run.values.number("packets");
    go_on(&mut cluster, wanted / WARM)?;
    let before = (sent(&cluster), cluster.world().turns(), cluster.now());
    let (start, worked) = (Clock::now(), processor_time());
    let messages = go_on(&mut cluster, wanted)?;
    let elapsed = start.elapsed().as_secs_f64();
    Ok(Figures {
        seconds: processor_time().zip(worked).map_or(elapsed, |(end, start)| (end - start) as f64 / 1e9),
        packets: sent(&cluster) - before.0,
        messages,
        turns: cluster.world().turns() - before.1,
        virtual_seconds: cluster.now().since(before.2).0 as f64 / 1e9,
        digest: cluster.world().digest(),
    })
}

/// Nanoseconds that this thread has had a processor, where the system tells.
fn processor_time() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

fn sent(cluster: &Cluster) -> u64 {
    cluster.world().fabric().statistics().sent
}

/// Goes on until so many packets have left; the messages that came.
fn go_on(cluster: &mut Cluster, packets: u64) -> Result<u64, ScenarioError> {
    let (end, mut messages) = (sent(cluster) + packets, 0);
    while sent(cluster) < end {
        for _ in 0..BATCH {
            let Some(Done { end, kind, completion }) = cluster.next(Instant::NEVER)? else { return Err(ScenarioError("the traffic stopped".into())) };
            if completion.status.is_error() {
                return Err(ScenarioError(format!("a message failed: {:?}", completion.status)));
            }
            post(cluster, end, kind, &mut messages)?;
        }
    }
    Ok(messages)
}

fn post(cluster: &mut Cluster, end: EndId, kind: WorkQueueKind, messages: &mut u64) -> Result<(), ScenarioError> {
    if kind == WorkQueueKind::Send {
        return cluster.send(end, BYTES, 0);
    }
    *messages += 1;
    cluster.receive(end, 0)
}
