// SPDX-License-Identifier: MIT OR Apache-2.0
//! LogP of stop-and-wait channels in builds with more and more of the protocol: in virtual time,
//! between two NICs whose processors take time, and the time of this machine's processor for the
//! code itself.

use super::{Kind, OptionSpec, Run, Scenario, ScenarioError, traffic};
use crate::fabric::hash;
use crate::stopwait::{Build, Channels, Config};
use bellwire_report::model::{Cell, Column, Report, Table, Unit};
use bellwire_time::{Duration, Instant};
use core::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Instant as Clock;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "builds",
    summary: "LogP of stop-and-wait channels in four builds: bare, + protection, + reliability, + timers",
    about: "\
Bare: a packet is delivered, and that is all. Protection: it carries its receiver's tag, which is compared. Reliability: it is numbered, kept, and acknowledged by a packet. Timers: it is sent again if it is \
not acknowledged. The last row has the bare build and what each part adds to it alone (timers: to reliability), added up: it is the whole if the parts do not disturb each other.

LogP in virtual time: two NICs, each with a processor that does one thing at a time, in the times that the options say. o_s and o_r are the hosts' times, g is from one message to the next at the best rate, L is what \
is left of half a round trip without o_s and o_r.

Code: nanoseconds of this machine's processor for each message, of the same channels in one thread without a network: send, receive, acknowledge (made and taken), timers (looked at once for 64 messages).",
    options: &[
        OptionSpec::one("post", Kind::Time, "500ns", "the host's time for writing a message: o_s"),
        OptionSpec::one("take", Kind::Time, "500ns", "the host's time for taking one: o_r"),
        OptionSpec::one("send", Kind::Time, "1us", "the NIC's time for sending a message"),
        OptionSpec::one("receive", Kind::Time, "1us", "the NIC's time for receiving one"),
        OptionSpec::one("check", Kind::Time, "200ns", "protection, on each side"),
        OptionSpec::one("book", Kind::Time, "300ns", "reliability, on each side: numbers, and the copy that is kept"),
        OptionSpec::one("ack", Kind::Time, "500ns", "reliability: an acknowledgement, made or taken"),
        OptionSpec::one("timer", Kind::Time, "20ns", "timers: set, or deleted"),
        OptionSpec::one("channels", Kind::Count(1, 256), "8", "stop-and-wait channels"),
        traffic::LATENCY,
        OptionSpec::one("messages", Kind::Count(10, 1_000_000), "1000", "messages of each measurement"),
        OptionSpec::one("rounds", Kind::Count(1, 1000), "9", "measurements of the code, of which the quickest counts"),
    ],
    run,
};

/// Bytes of a message.
const BYTES: usize = 16;
/// Messages between two looks at the timers, and channels, where the code is measured.
const BATCH: usize = 64;

const fn build(protection: bool, reliability: bool, timers: bool) -> Build {
    Build { protection, reliability, timers }
}

/// The four builds of the table, then those with a part alone.
const BUILDS: [(&str, Build); 6] = [
    ("bare", build(false, false, false)),
    ("+ protection", build(true, false, false)),
    ("+ reliability", build(true, true, false)),
    ("+ timers: the whole", build(true, true, true)),
    ("reliability alone", build(false, true, false)),
    ("reliability and timers", build(false, true, true)),
];
/// The last row.
const SUM: &str = "bare and parts alone, added up";

/// What the bare build and each part alone come to: from figures in the order of [`BUILDS`].
fn sum<const N: usize>(rows: &[[f64; N]]) -> [f64; N] {
    // Bare, + protection less bare, + reliability alone less bare, + timers less reliability alone.
    core::array::from_fn(|at| rows[1][at] + rows[5][at] - rows[0][at])
}

fn table<const N: usize>(title: &str, columns: [Column; N], rows: &[[f64; N]]) -> Table {
    let mut table = Table::new(title, core::iter::once(Column::plain("build")).chain(columns));
    let names = BUILDS.iter().map(|(name, _)| *name).chain([SUM]);
    for (name, row) in names.zip(rows.iter().chain([&sum(rows)])) {
        table.row(core::iter::once(Cell::from(name)).chain(row.map(Cell::from)));
    }
    table
}

fn run(run: &Run<'_>) -> Result<Report, ScenarioError> {
    let mut report = Report::new("Stop-and-wait channels in builds");
    let costs = Costs::new(run);
    let (mut logp, mut digest) = (Vec::new(), run.seed);
    for (_, build) in BUILDS {
        let (row, of) = costs.logp(build, run.seed, run.values.count("channels"), run.values.number("messages"))?;
        digest = hash::fold(digest, of);
        logp.push(row);
    }
    super::fold(&mut report, digest);
    let ns = |name: &str| Column::new(name, Unit::Nanoseconds);
    report.tables.push(table("LogP in virtual time", ["o_s", "o_r", "g", "L", "round trip"].map(ns), &logp));
    let rounds = run.values.count("rounds");
    let batches = run.values.count("messages").div_ceil(BATCH);
    // The quickest of each part, the builds by turns.
    let mut code = vec![[f64::INFINITY; 4]; BUILDS.len()];
    for _ in 0..rounds {
        for ((_, build), best) in BUILDS.iter().zip(&mut code) {
            let times = code_of(*build, batches)?;
            best.iter_mut().zip(times).for_each(|(best, time)| *best = best.min(time));
        }
    }
    let code: Vec<[f64; 5]> =
        code.into_iter().map(|[send, receive, acknowledge, timers]| [send, receive, acknowledge, timers, send + receive + acknowledge + timers]).collect();
    let measured = |name: &str| Column::measured(name, Unit::Nanoseconds);
    report.tables.push(table("The code, for each message", ["send", "receive", "acknowledge", "timers", "all"].map(measured), &code));
    Ok(report)
}

/// Nanoseconds for each message: sending, receiving, acknowledging, looking at timers.
fn code_of(build: Build, batches: usize) -> Result<[f64; 4], ScenarioError> {
    let config = Config { build, tag: 0x6265_6c6c, channels: BATCH, ..Config::default() };
    let (mut here, mut there) = (Channels::new(config, 2, 1), Channels::new(config, 2, 2));
    let (payload, mut times, mut arrived) = ([7; BYTES], [0; 4], 0);
    for batch in 0..batches as u64 {
        let now = Instant(1_000_000 * batch);
        let begin = Clock::now();
        for _ in 0..BATCH {
            here.send(now, 1, &payload);
        }
        let sent = Clock::now();
        while let Some((_, packet)) = here.poll_transmit() {
            there.handle_packet(0, &packet, |payload| {
                arrived += usize::from(core::hint::black_box(payload).len() == BYTES);
                true
            });
        }
        let received = Clock::now();
        while let Some((_, packet)) = there.poll_transmit() {
            here.handle_packet(1, &packet, |_| false);
        }
        let acknowledged = Clock::now();
        if build.timers && here.next_timeout() <= now {
            here.handle_timeout(now);
        }
        let looked = Clock::now();
        let spans = [(begin, sent), (sent, received), (received, acknowledged), (acknowledged, looked)];
        times.iter_mut().zip(spans).for_each(|(sum, (from, to))| *sum += (to - from).as_nanos());
    }
    if arrived != batches * BATCH {
        return Err(ScenarioError(format!("{arrived} messages of {} arrived", batches * BATCH)));
    }
    Ok(times.map(|time| time as f64 / (batches * BATCH) as f64))
}

/// Times of the hosts and of the NICs.
struct Costs {
    post: Duration,
    take: Duration,
    send: Duration,
    receive: Duration,
    check: Duration,
    book: Duration,
    ack: Duration,
    timer: Duration,
    latency: Duration,
}

impl Costs {
    fn new(run: &Run<'_>) -> Self {
        let time = |name| run.values.time(name);
        Self {
            post: time("post"),
            take: time("take"),
            send: time("send"),
            receive: time("receive"),
            check: time("check"),
            book: time("book"),
            ack: time("ack"),
            timer: time("timer"),
            latency: time("latency"),
        }
    }

    /// The NIC's time for something.
    fn of(&self, work: &Work, build: Build) -> Duration {
        let if_there = |is_there: bool, time: Duration| if is_there { time.0 } else { 0 };
        let of_message = if_there(build.protection, self.check) + if_there(build.reliability, self.book);
        let timer = if_there(build.timers, self.timer);
        Duration(match work {
            Work::Send => self.send.0 + of_message + timer,
            Work::Receive(_) => self.receive.0 + of_message,
            Work::Acknowledge(_) => self.ack.0,
            Work::TakeAck(_) => self.ack.0 + timer,
        })
    }

    /// o_s, o_r, g, L and the round trip, and a digest of both runs.
    fn logp(&self, build: Build, seed: u64, channels: usize, messages: u64) -> Result<([f64; 5], u64), ScenarioError> {
        let config = Config { build, tag: 0x6265_6c6c, channels, ..Config::default() };
        let (round_trip, first) = Two::new(self, config, seed, true).time(messages)?;
        let (gap, second) = Two::new(self, config, seed, false).time(messages)?;
        let [post, take] = [self.post, self.take].map(|time| time.0 as f64);
        Ok(([post, take, gap, round_trip / 2.0 - post - take, round_trip], hash::fold(first, second)))
    }
}

/// What a NIC's processor does.
enum Work {
    Send,
    Receive(Vec<u8>),
    Acknowledge(Vec<u8>),
    TakeAck(Vec<u8>),
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    /// The host has written a message.
    Posted,
    /// A packet has come.
    Arrived(Vec<u8>),
    /// The NIC's processor is done.
    Done,
}

struct Nic {
    channels: Channels,
    /// Messages that the host has written and the NIC has not taken.
    posted: u64,
    work: VecDeque<Work>,
    current: Option<Work>,
    host_free: Instant,
}

/// Two NICs and their hosts.
struct Two<'a> {
    costs: &'a Costs,
    config: Config,
    /// A message to and fro; else messages in one direction.
    answers: bool,
    nics: [Nic; 2],
    agenda: BinaryHeap<Reverse<(u64, u64, usize, Happens)>>,
    count: u64,
    now: Instant,
    /// When each message was taken by the program that counts them.
    taken: Vec<Instant>,
    digest: u64,
}

impl<'a> Two<'a> {
    fn new(costs: &'a Costs, config: Config, seed: u64, answers: bool) -> Self {
        let nic = |seed| Nic { channels: Channels::new(config, 2, seed), posted: 0, work: VecDeque::new(), current: None, host_free: Instant(0) };
        let nics = [nic(seed), nic(seed + 1)];
        Self { costs, config, answers, nics, agenda: BinaryHeap::new(), count: 0, now: Instant(0), taken: Vec::new(), digest: seed }
    }

    fn at(&mut self, time: Instant, nic: usize, what: Happens) {
        self.count += 1;
        self.agenda.push(Reverse((time.0, self.count, nic, what)));
    }

    /// The time of a message, of so many after as many others as there are channels.
    fn time(mut self, messages: u64) -> Result<(f64, u64), ScenarioError> {
        let first = self.config.channels;
        let last = first + messages as usize;
        self.at(Instant(self.costs.post.0), 0, Happens::Posted);
        while self.taken.len() <= last {
            let Some(Reverse((time, _, nic, what))) = self.agenda.pop() else { return Err(ScenarioError("the messages stopped".into())) };
            self.now = Instant(time);
            self.digest = hash::fold(self.digest, time << 1 | nic as u64);
            self.happen(nic, what);
            self.begin(nic);
        }
        Ok((self.taken[last].since(self.taken[first]).0 as f64 / messages as f64, self.digest))
    }

    fn happen(&mut self, nic: usize, what: Happens) {
        match what {
            Happens::Posted => {
                self.nics[nic].posted += 1;
                if !self.answers && self.nics[nic].posted < 2 * self.config.channels as u64 {
                    self.at(self.now + self.costs.post, nic, Happens::Posted);
                }
            }
            // A packet without a payload is an acknowledgement.
            Happens::Arrived(packet) if packet.len() <= crate::stopwait::HEADER_BYTES => self.nics[nic].work.push_back(Work::TakeAck(packet)),
            Happens::Arrived(packet) => self.nics[nic].work.push_back(Work::Receive(packet)),
            Happens::Done => self.finish(nic),
        }
    }

    /// Gives an idle processor something to do. Packets that have come are first.
    fn begin(&mut self, nic: usize) {
        let this = &mut self.nics[nic];
        if this.current.is_some() {
            return;
        }
        let is_free = !self.config.build.reliability || this.channels.unacknowledged(1 - nic as u32) < self.config.channels;
        let work = this.work.pop_front().or((this.posted > 0 && is_free).then_some(Work::Send));
        let Some(work) = work else { return };
        let done = self.now + self.costs.of(&work, self.config.build);
        this.current = Some(work);
        self.at(done, nic, Happens::Done);
    }

    fn finish(&mut self, nic: usize) {
        let (other, now) = (1 - nic, self.now);
        let arrival = now + self.costs.latency;
        match self.nics[nic].current.take() {
            Some(Work::Send) => {
                let this = &mut self.nics[nic];
                this.channels.send(now, other as u32, &[7; BYTES]);
                // A full queue has kept the host from writing more.
                let was_full = this.posted == 2 * self.config.channels as u64;
                this.posted -= 1;
                if !self.answers && was_full {
                    self.at(now + self.costs.post, nic, Happens::Posted);
                }
                self.leave(nic, arrival);
            }
            Some(Work::Acknowledge(packet)) => self.at(arrival, other, Happens::Arrived(packet)),
            Some(Work::TakeAck(packet)) => self.nics[nic].channels.handle_packet(other as u32, &packet, |_| false),
            Some(Work::Receive(packet)) => {
                let mut came = false;
                self.nics[nic].channels.handle_packet(other as u32, &packet, |_| {
                    came = true;
                    true
                });
                let acks: Vec<Work> = core::iter::from_fn(|| self.nics[nic].channels.poll_transmit()).map(|(_, ack)| Work::Acknowledge(ack)).collect();
                self.nics[nic].work.extend(acks);
                if came {
                    self.take(nic);
                }
            }
            None => {}
        }
    }

    /// The packet of a message is on its way.
    fn leave(&mut self, nic: usize, arrival: Instant) {
        while let Some((_, packet)) = self.nics[nic].channels.poll_transmit() {
            self.at(arrival, 1 - nic, Happens::Arrived(packet));
        }
    }

    /// A host takes a message, and answers if it is to.
    fn take(&mut self, nic: usize) {
        let taken = self.now.max(self.nics[nic].host_free) + self.costs.take;
        let counts = if self.answers { 0 } else { 1 };
        if nic == counts {
            self.taken.push(taken);
        }
        self.nics[nic].host_free = taken;
        if self.answers {
            self.nics[nic].host_free = taken + self.costs.post;
            self.at(taken + self.costs.post, nic, Happens::Posted);
        }
    }
}
