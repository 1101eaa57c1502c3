// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the scenarios of clients and a server have in common: options, one run, and its row.

use super::endpoints::{Costs, Programs, Shape};
use super::traffic::{jain, transport};
use super::{Kind, OptionSpec, Run, ScenarioError};
use crate::resident::{EndpointWorld, MoveTimes, NicConfig, NicTimes};
use crate::{FaultPlan, LinkSpec, Topology, WhenFull};
use bellwire_faults::Random;
use bellwire_proto::Config;
use bellwire_report::model::{Axis, Cell, Column, Line, Plot, Report, Scale, Table, Unit};
use bellwire_residency::{Config as Frames, Policy};
use bellwire_time::{Duration, Instant};

/// Clients begin within this time.
const SPREAD: Duration = Duration::from_millis(1);

pub(super) const CLIENTS: OptionSpec = OptionSpec::several("clients", Kind::Count(1, 1000), "1,2,4,7,8,10,16,32,64,100", "clients, each on a node of its own");
pub(super) const TRANSPORT: OptionSpec =
    OptionSpec::several("transport", Kind::Word(&["window", "channels"]), "window,channels", "the transport: its window, or stop-and-wait channels");
pub(super) const OUTSTANDING: OptionSpec = OptionSpec::one("outstanding", Kind::Count(1, 256), "4", "requests that a client has outstanding");
pub(super) const INBOX: OptionSpec =
    OptionSpec::one("inbox", Kind::Count(1, 1 << 20), "16", "messages that an endpoint holds until they are taken; more are refused");
pub(super) const FRAMES: OptionSpec = OptionSpec::one("frames", Kind::Count(1, 1000), "7", "endpoints that a NIC holds at once");
pub(super) const TAKE: OptionSpec = OptionSpec::one("take", Kind::Time, "6us", "processor time of taking a message");
pub(super) const WRITE: OptionSpec = OptionSpec::one("write", Kind::Time, "6us", "processor time of writing one");
pub(super) const SWITCH: OptionSpec = OptionSpec::one("switch", Kind::Time, "10us", "processor time of going to another thread");
pub(super) const LOAD: OptionSpec = OptionSpec::one("load", Kind::Time, "200us", "time of loading an endpoint into a frame");
pub(super) const UNLOAD: OptionSpec = OptionSpec::one("unload", Kind::Time, "200us", "time of unloading one");
pub(super) const STAY: OptionSpec = OptionSpec::one("stay", Kind::Time, "5ms", "how long an endpoint keeps its frame at least; once to twice this, drawn");
pub(super) const LOITER: OptionSpec =
    OptionSpec::several("loiter", Kind::Count(1, 4096), "16", "attempts to send that an endpoint has in a turn of the NIC: K");
pub(super) const PACKET: OptionSpec = OptionSpec::one("packet", Kind::Time, "1us", "time of a NIC's processor for a packet, in or out");
pub(super) const NIC_SWITCH: OptionSpec = OptionSpec::one("nic-switch", Kind::Time, "1us", "time of a NIC's processor to go to another endpoint");
pub(super) const LOOK: OptionSpec = OptionSpec::one("look", Kind::Time, "300ns", "time of a NIC's processor to look at an empty queue");
pub(super) const DMA: OptionSpec = OptionSpec::one("dma", Kind::Time, "1us", "time to begin a transfer over the host's bus");
pub(super) const BUS: OptionSpec = OptionSpec::one("bus", Kind::Rate, "480M", "bits that cross the host's bus in a second");
pub(super) const IMAGE: OptionSpec = OptionSpec::one("image", Kind::Size, "8k", "image of an endpoint, which crosses the bus to be loaded or unloaded");
pub(super) const VICTIM: OptionSpec = OptionSpec::one("victim", Kind::Word(&["lru", "random", "longest"]), "lru", "which endpoint makes room");

/// One run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) clients: usize,
    pub(super) own_endpoint: bool,
    pub(super) threads: bool,
    pub(super) bytes: usize,
    /// Attempts of an endpoint in a turn of the NIC.
    pub(super) loiter: u32,
    /// Stop-and-wait channels; 0: the window.
    pub(super) channels: usize,
}

impl Case {
    pub(super) fn server(&self) -> &'static str {
        if self.threads { "threads" } else { "single" }
    }
}

/// What it gave, in the span that counts.
#[derive(Debug)]
pub(super) struct Figures {
    /// Requests answered, for each client, a second; from least to most.
    pub(super) rates: Vec<f64>,
    /// Mean and longest, nanoseconds.
    pub(super) response: (f64, u64),
    /// Of the server's NIC.
    pub(super) loads: u64,
    pub(super) unloads: u64,
    /// Messages refused, and packets sent again, by all NICs.
    pub(super) refused: u64,
    pub(super) again: u64,
    pub(super) digest: u64,
}

impl Figures {
    /// Requests answered for all clients, a second.
    pub(super) fn all(&self) -> f64 {
        self.rates.iter().sum()
    }

    pub(super) fn mean(&self) -> f64 {
        self.all() / self.rates.len() as f64
    }
}

/// Measures all cases: the table of `columns` and `row`, and what `plots` makes of it.
pub(super) fn report(
    run: &Run<'_>,
    title: impl Into<String>,
    cases: Vec<Case>,
    name: impl Fn(&Case) -> String + Sync,
    columns: Vec<Column>,
    row: fn(&Case, &Figures) -> Vec<Cell>,
    plots: fn(&[(Case, Figures)]) -> Vec<Plot>,
) -> Result<Report, ScenarioError> {
    let figures = run.each(&cases, name, |case| measure(run, case))?;
    let done: Vec<(Case, Figures)> = cases.into_iter().zip(figures).collect();
    let mut report = Report::new(title);
    let mut table = Table::new("Requests answered", columns);
    for (case, figures) in &done {
        super::fold(&mut report, figures.digest);
        table.row(row(case, figures));
    }
    report.tables.push(table);
    report.plots = plots(&done);
    Ok(report)
}

/// Those columns that both scenarios have.
pub(super) fn columns() -> Vec<Column> {
    let rate = |name: &str| Column::new(name, Unit::ThousandPerSecond);
    vec![
        Column::plain("transport"),
        Column::plain("K"),
        rate("all"),
        rate("least"),
        rate("mean"),
        rate("most"),
        Column::plain("Jain"),
        Column::new("response", Unit::Microseconds),
        Column::new("longest", Unit::Microseconds),
        Column::plain("refused"),
        Column::plain("sent again"),
    ]
}

/// Their cells.
pub(super) fn row(case: &Case, figures: &Figures) -> Vec<Cell> {
    let rates = &figures.rates;
    vec![
        transport(case.channels).into(),
        u64::from(case.loiter).into(),
        (figures.all() / 1e3).into(),
        (rates[0] / 1e3).into(),
        (figures.mean() / 1e3).into(),
        (rates[rates.len() - 1] / 1e3).into(),
        jain(rates).into(),
        (figures.response.0 / 1e3).into(),
        (figures.response.1 as f64 / 1e3).into(),
        figures.refused.into(),
        figures.again.into(),
    ]
}

/// Lines over the number of clients, by name.
pub(super) fn plot(title: &str, y: Axis, cases: &[(Case, Figures)], name: impl Fn(&Case) -> String, value: impl Fn(&Figures) -> f64) -> Plot {
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    let several = cases.iter().any(|(case, _)| case.loiter != cases[0].0.loiter);
    for (case, figures) in cases {
        let point = (case.clients as f64, value(figures));
        let name = if several { format!("{}, K {}", name(case), case.loiter) } else { name(case) };
        match lines.iter_mut().find(|line| line.0 == name) {
            Some(line) => line.1.push(point),
            None => lines.push((name, vec![point])),
        }
    }
    let lines = lines.into_iter().map(|(name, points)| Line::new(name, points)).collect();
    Plot { title: title.to_owned(), x: Axis::new("clients", Unit::None, Scale::Log2), y, lines }
}

fn shape(run: &Run<'_>, case: &Case) -> Shape {
    let values = &run.values;
    let costs = Costs { take: values.time("take"), write: values.time("write"), switch: values.time("switch") };
    let &Case { clients, own_endpoint, threads, bytes, .. } = case;
    Shape { clients, own_endpoint, threads, outstanding: values.count("outstanding"), bytes, costs }
}

fn open(run: &Run<'_>, case: &Case) -> Result<Programs, ScenarioError> {
    let values = &run.values;
    let shape = shape(run, case);
    let plan: FaultPlan = values.word("faults").parse().map_err(|error| ScenarioError(format!("faults: {error}")))?;
    let link = LinkSpec { latency: values.time("latency"), bits_per_second: values.number("rate"), when_full: WhenFull::Hold, ..LinkSpec::default() };
    let policy = match values.word("victim") {
        "random" => Policy::Random,
        "longest" => Policy::LongestResident,
        _ => Policy::LeastRecentlyUsed,
    };
    let residency = Frames { frames: values.count("frames"), policy, stay: values.time("stay"), ..Frames::default() };
    let times = MoveTimes { load: values.time("load"), unload: values.time("unload"), image_bytes: values.number("image") };
    let nic_times = NicTimes {
        packet: values.time("packet"),
        switch: values.time("nic-switch"),
        look: values.time("look"),
        dma: values.time("dma"),
        bus_bytes_per_second: values.number("bus") / 8,
    };
    // A client waits as long as it takes.
    let transport = Config { channels: case.channels, refusals_max: u32::from(u16::MAX), ..Config::default() };
    let config = |nic: u32| NicConfig {
        nic,
        peers: Vec::new(),
        endpoints: if nic == 0 { shape.endpoints() as u32 } else { 1 },
        inbox_max: values.count("inbox"),
        loiter: case.loiter,
        nic_times,
        transport: transport.clone(),
        residency: residency.clone(),
        times,
    };
    let world = EndpointWorld::new(Topology::star(case.clients + 1, link)?, &plan, run.seed, config)?;
    let mut random = Random::new(run.seed, case.clients as u64);
    let starts: Vec<Instant> = (0..case.clients).map(|_| Instant(random.below(SPREAD.0))).collect();
    Ok(Programs::new(world, shape, &starts))
}

/// Loads, unloads; refused, sent again.
fn counts(programs: &Programs) -> [u64; 4] {
    let world = programs.world();
    let server = world.nic(0).residency().statistics();
    let (mut refused, mut again) = (0, 0);
    for nic in 0..world.nics() {
        let statistics = world.nic(nic).statistics();
        (refused, again) = (refused + statistics.nacks_out, again + statistics.retransmitted);
    }
    [server.loads, server.unloads, refused, again]
}

/// One run.
pub(super) fn measure(run: &Run<'_>, case: &Case) -> Result<Figures, ScenarioError> {
    let (start, time) = (run.values.time("start"), run.values.time("time"));
    let mut programs = open(run, case)?;
    let begin = Instant(0) + start;
    programs.run(begin)?;
    programs.take_figures();
    let before = counts(&programs);
    programs.run(begin + time)?;
    let got = programs.take_figures();
    let mut after = counts(&programs);
    after.iter_mut().zip(before).for_each(|(after, before)| *after -= before);
    let [loads, unloads, refused, again] = after;
    let mut rates: Vec<f64> = got.iter().map(|got| got.replies as f64 / (time.0.max(1) as f64 / 1e9)).collect();
    rates.sort_by(f64::total_cmp);
    let (replies, sum) = got.iter().fold((0, 0), |(replies, sum), got| (replies + got.replies, sum + got.time));
    let longest = got.iter().map(|got| got.longest).max().unwrap_or(0);
    let response = (sum as f64 / replies.max(1) as f64, longest);
    Ok(Figures { rates, response, loads, unloads, refused, again, digest: programs.world().digest() })
}
