// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the transport costs by parts: two of them in one thread, with no network between; a packet
//! is handed from one to the other.

use super::{Kind, OptionSpec, Run, Scenario, ScenarioError};
use bellwire_proto::packet::checksum;
use bellwire_proto::{Buffer, Config, Event, NicId, Sent, SessionId, Transport};
use bellwire_report::model::{Cell, Column, Report, Table, Unit};
use bellwire_time::{Duration, Instant};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Instant as Clock;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "parts",
    summary: "what the transport costs for each packet, by parts",
    about: "\
Two transports in one thread, with no network between them, and the processor's time for each packet of data, in nanoseconds. write: a frame into the transmit ring. leave: its packet is completed and \
handed out. take: the receiver's look at it. deliver: to the program, which reads the head of each frame. acknowledge: acknowledgements, made, handed over and taken. timers: alarms that ring. \
seal: checksums on both sides, where the layer below has none.

The first row is the usual one; each of the others differs from it as it says. What a row costs more than the first is what that part of the protocol costs. Copying packets from one side to the other \
is not in it, as it is the network's part. Nothing else should run on the machine.",
    options: &[
        OptionSpec::one("batches", Kind::Count(10, 1_000_000), "2000", "batches of 32 packets for each measurement"),
        OptionSpec::one("rounds", Kind::Count(1, 1000), "9", "measurements, of which the quickest counts"),
    ],
    run,
};

/// Frames in a batch.
const BATCH: usize = 32;
/// Time between two batches, and from a packet to its acknowledgement.
const PAUSE: u64 = 20_000;
const ANSWER: u64 = 10_000;
/// Steps of the handshake, more than enough.
const STEPS: usize = 20;

/// What happens to packets on their way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Straight,
    /// Each comes twice.
    Twice,
    /// Neighbours change places.
    Swapped,
    /// One in fifty is lost.
    Lossy,
}

/// A row: the usual one, changed.
struct Case {
    name: &'static str,
    payload: usize,
    /// Frames leave one by one, each in a packet of its own.
    alone: bool,
    sealed: bool,
    acks: u32,
    channels: usize,
    way: Way,
}

const USUAL: Case = Case { name: "8 B, a packet each", payload: 8, alone: true, sealed: false, acks: 16, channels: 0, way: Way::Straight };

const CASES: &[Case] = &[
    USUAL,
    Case { name: "32 frames a packet", alone: false, ..USUAL },
    Case { name: "1 KiB", payload: 1024, ..USUAL },
    Case { name: "8 KiB, in runs", payload: 8192, alone: false, ..USUAL },
    Case { name: "with a checksum", sealed: true, ..USUAL },
    Case { name: "each acknowledged by a packet", acks: 1, ..USUAL },
    Case { name: "each comes twice", way: Way::Twice, ..USUAL },
    Case { name: "neighbours change places", way: Way::Swapped, ..USUAL },
    Case { name: "1 in 50 lost", way: Way::Lossy, ..USUAL },
    Case { name: "64 stop-and-wait channels", channels: 64, ..USUAL },
];

/// Nanoseconds, by part.
#[derive(Clone, Copy, Default)]
struct Parts {
    write: f64,
    leave: f64,
    take: f64,
    deliver: f64,
    acknowledge: f64,
    timers: f64,
    seal: f64,
    packets: f64,
    frames: f64,
}

impl Parts {
    fn all(&self) -> f64 {
        self.write + self.leave + self.take + self.deliver + self.acknowledge + self.timers + self.seal
    }
}

/// A packet in a buffer that is used again, as a socket's would be.
#[derive(Clone)]
struct Datagram {
    buffer: Rc<Vec<u8>>,
    length: usize,
}

impl AsRef<[u8]> for Datagram {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

impl AsMut<[u8]> for Datagram {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut Rc::make_mut(&mut self.buffer)[..self.length]
    }
}

impl Buffer for Datagram {
    fn truncate(&mut self, length: usize) {
        self.length = length;
    }
}

struct Pair {
    transports: [Transport<Datagram>; 2],
    addresses: [SocketAddr; 2],
    sessions: [Option<SessionId>; 2],
    free: Vec<Rc<Vec<u8>>>,
    sealed: bool,
    now: u64,
    carried: u64,
}

fn run(run: &Run<'_>) -> Result<Report, ScenarioError> {
    let (batches, rounds) = (run.values.count("batches"), run.values.count("rounds"));
    let parts = run.each_alone(CASES, |case| case.name.into(), |case| quickest(case, batches, rounds))?;
    let mut report = Report::new("The transport's parts");
    let time = |name: &str| Column::measured(name, Unit::Nanoseconds);
    let mut columns = vec![Column::plain("case"), Column::plain("frames a packet")];
    columns.extend(["write", "leave", "take", "deliver", "acknowledge", "timers", "seal", "all", "more"].map(time));
    let mut table = Table::new("Time of a packet, both sides", columns);
    let usual = parts[0].all() / parts[0].packets;
    for (case, p) in CASES.iter().zip(&parts) {
        let per = |time: f64| Cell::from(time / p.packets);
        let shares = [p.write, p.leave, p.take, p.deliver, p.acknowledge, p.timers, p.seal, p.all()].map(per);
        let head = [Cell::from(case.name), Cell::from(p.frames / p.packets)];
        table.row(head.into_iter().chain(shares).chain([Cell::from(p.all() / p.packets - usual)]));
    }
    report.tables.push(table);
    Ok(report)
}

fn quickest(case: &Case, batches: usize, rounds: usize) -> Result<Parts, ScenarioError> {
    let clock = clock_cost();
    let mut all = Vec::new();
    for _ in 0..rounds {
        let mut pair = Pair::new(case)?;
        for _ in 0..batches / 10 {
            pair.batch(case, clock, &mut Parts::default())?;
        }
        let mut parts = Parts::default();
        for _ in 0..batches {
            pair.batch(case, clock, &mut parts)?;
        }
        all.push(parts);
    }
    all.sort_by(|a, b| a.all().total_cmp(&b.all()));
    Ok(all[0])
}

/// The cost of asking the clock, which is in every part: the least that many tries in a row showed,
/// as others may take the processor meanwhile.
fn clock_cost() -> f64 {
    const TIMES: u32 = 1000;
    let try_many = |_| {
        let start = Clock::now();
        (0..TIMES).for_each(|_| {
            core::hint::black_box(Clock::now());
        });
        start.elapsed().as_nanos() as f64 / f64::from(TIMES)
    };
    (0..100).map(try_many).fold(f64::MAX, f64::min)
}

/// Does something, and adds the time that it took.
fn timed<R>(sum: &mut f64, clock: f64, what: impl FnOnce() -> R) -> R {
    let start = Clock::now();
    let result = what();
    *sum += start.elapsed().as_nanos() as f64 - clock;
    result
}

impl Pair {
    fn new(case: &Case) -> Result<Self, ScenarioError> {
        let config = |which: u8| Config {
            nic: NicId([which; 16]),
            boot: 1,
            probe_path: false,
            checksum: case.sealed,
            ack_packets: case.acks,
            ack_delay: Duration(ANSWER / 2),
            channels: case.channels,
            window_packets_initial: 256,
            ring_bytes_initial: 1 << 20,
            unsent_bytes_max: 1 << 20,
            receive_bytes: 64 << 20,
            ..Config::default()
        };
        let addresses = [1, 2].map(|host| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)), 1));
        let transports = [Transport::new(config(1), 1), Transport::new(config(2), 2)];
        let mut pair = Self { transports, addresses, sessions: [None; 2], free: Vec::new(), sealed: case.sealed, now: 1_000_000, carried: 0 };
        let failed = |_| ScenarioError("no session".into());
        pair.transports[0].connect(Instant(pair.now), addresses[1], 0).map_err(failed)?;
        for _ in 0..STEPS {
            for side in 0..2 {
                let packets = pair.collect(side, &mut Parts::default(), 0.0);
                pair.hand(1 - side, &packets);
                pair.give_back(packets);
                while let Some(event) = pair.transports[side].poll_event() {
                    if let Event::Up { session, .. } = event {
                        pair.sessions[side] = Some(session);
                    }
                }
            }
            pair.now += 1000;
        }
        Ok(pair)
    }

    /// What a side wants to send, in buffers. Only the transport's part counts, as leaving, and
    /// checksums.
    fn collect(&mut self, from: usize, parts: &mut Parts, clock: f64) -> Vec<Datagram> {
        let mut packets = Vec::new();
        let now = Instant(self.now);
        while let Some(out) = timed(&mut parts.leave, clock, || self.transports[from].poll_transmit(now)) {
            for packet in out.bytes.chunks(out.segment.unwrap_or(out.bytes.len())) {
                let mut buffer = self.free.pop().unwrap_or_default();
                let Some(bytes) = Rc::get_mut(&mut buffer) else { continue };
                bytes.clear();
                bytes.extend_from_slice(packet);
                if self.sealed {
                    timed(&mut parts.seal, clock, || checksum::seal(bytes));
                    timed(&mut parts.seal, clock, || checksum::open(bytes));
                }
                packets.push(Datagram { length: bytes.len(), buffer });
            }
        }
        packets
    }

    fn hand(&mut self, to: usize, packets: &[Datagram]) {
        let (now, from) = (Instant(self.now), self.addresses[1 - to]);
        packets.iter().for_each(|packet| self.transports[to].handle_packet(now, from, packet.clone()));
    }

    /// Buffers that nobody holds any more are used again.
    fn give_back(&mut self, packets: Vec<Datagram>) {
        self.free.extend(packets.into_iter().map(|packet| packet.buffer).filter(|buffer| Rc::strong_count(buffer) == 1));
    }

    /// One batch of frames from the first to the second, and what is said about it.
    fn batch(&mut self, case: &Case, clock: f64, parts: &mut Parts) -> Result<(), ScenarioError> {
        self.pass(PAUSE, clock, parts);
        let mut packets = Vec::new();
        for _ in 0..if case.alone { BATCH } else { 1 } {
            self.write(case, if case.alone { 1 } else { BATCH }, clock, parts)?;
            packets.extend(self.collect(0, parts, clock));
        }
        parts.packets += packets.len() as f64;
        parts.frames += BATCH as f64;
        let packets = self.travel(case.way, packets);
        timed(&mut parts.take, clock, || self.hand(1, &packets));
        timed(&mut parts.deliver, clock, || self.deliver());
        self.give_back(packets);
        self.pass(ANSWER, clock, parts);
        let mut answer = Parts::default();
        let acks = self.collect(1, &mut answer, clock);
        timed(&mut answer.take, clock, || self.hand(0, &acks));
        self.give_back(acks);
        parts.acknowledge += answer.leave + answer.take;
        parts.seal += answer.seal;
        Ok(())
    }

    fn write(&mut self, case: &Case, frames: usize, clock: f64, parts: &mut Parts) -> Result<(), ScenarioError> {
        let (Some(session), now) = (self.sessions[0], Instant(self.now)) else { return Err(ScenarioError("no session".into())) };
        let transport = &mut self.transports[0];
        let fill = |bytes: &mut [u8]| {
            bytes.fill(7);
            true
        };
        let written = timed(&mut parts.write, clock, || (0..frames).all(|_| transport.send(now, session, 5, &[1, 2], case.payload, fill) == Sent::Yes));
        if written { Ok(()) } else { Err(ScenarioError("the transport takes no more".into())) }
    }

    fn travel(&mut self, way: Way, mut packets: Vec<Datagram>) -> Vec<Datagram> {
        match way {
            Way::Straight => packets,
            Way::Twice => packets.into_iter().flat_map(|packet| [packet.clone(), packet]).collect(),
            Way::Swapped => {
                packets.chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
                packets
            }
            Way::Lossy => {
                packets.retain(|_| {
                    self.carried += 1;
                    !self.carried.is_multiple_of(50)
                });
                packets
            }
        }
    }

    fn deliver(&mut self) {
        let mut sum = 0;
        while let Some(session) = self.transports[1].next_delivery() {
            while let Some(delivery) = self.transports[1].poll_deliver(session) {
                delivery.frames().for_each(|frame| sum += frame.payload.len() as u64 + frame.head[0]);
            }
        }
        core::hint::black_box(sum);
    }

    /// Time passes, and alarms ring.
    fn pass(&mut self, time: u64, clock: f64, parts: &mut Parts) {
        self.now += time;
        let now = Instant(self.now);
        timed(&mut parts.timers, clock, || {
            for transport in &mut self.transports {
                if transport.next_timeout() <= now {
                    transport.handle_timeout(now);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_goes_through() {
        for case in CASES {
            let parts = quickest(case, 20, 1).unwrap_or_else(|error| panic!("{}: {error}", case.name));
            assert!(parts.packets >= 20.0 && parts.frames == 640.0 && parts.take > 0.0, "{}", case.name);
        }
    }
}
