// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the protocol costs: nanoseconds per packet and side, by parts, and bytes per second from memory to memory. No network in between: a packet is handed from one transport to the other.
//!
//! `cargo run --release -p bellwire-proto --example cost [-- --json]`

use bellwire_proto::{Config, Event, Instant, NicId, Sent, SessionId, Transport};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant as Clock;

const ROUNDS: usize = 4000;
const BATCH: usize = 32;
const REPEATS: usize = 9;

/// A datagram in a buffer that is used again and again, as a socket's would be.
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

/// Nanoseconds spent by part.
#[derive(Clone, Copy, Default)]
struct Parts {
    send: f64,
    transmit: f64,
    data: f64,
    deliver: f64,
    acknowledge: f64,
    packets: f64,
    frames: f64,
    bytes: f64,
}

struct Pair {
    transports: [Transport<Datagram>; 2],
    addresses: [SocketAddr; 2],
    sessions: [Option<SessionId>; 2],
    pool: Vec<Rc<Vec<u8>>>,
    turn: usize,
    now: u64,
}

impl Pair {
    fn new(datagram: usize) -> Self {
        let config = |which: u8| Config {
            nic: NicId([which; 16]),
            boot: 1,
            datagram_max: datagram,
            probe_path: false,
            window_packets_initial: 256,
            ring_bytes_initial: 1 << 20,
            receive_bytes: 64 << 20,
            ..Config::default()
        };
        let addresses = ["10.0.0.1:1".parse().unwrap(), "10.0.0.2:1".parse().unwrap()];
        let transports = [Transport::new(config(1), 1), Transport::new(config(2), 2)];
        let pool = (0..4 * BATCH).map(|_| Rc::new(vec![0; datagram])).collect();
        let mut pair = Self { transports, addresses, sessions: [None; 2], pool, turn: 0, now: 1_000_000 };
        pair.transports[0].connect(Instant(pair.now), addresses[1], 0).unwrap();
        for _ in 0..20 {
            for which in 0..2 {
                let moved = pair.carry(which);
                pair.hand(1 - which, moved);
                while let Some(event) = pair.transports[which].poll_event() {
                    if let Event::Up { session, .. } = event {
                        pair.sessions[which] = Some(session);
                    }
                }
            }
            pair.now += 1000;
        }
        pair
    }

    /// Copies what a side wants to send into buffers: the network's part, not the protocol's.
    fn carry(&mut self, from: usize) -> Vec<Datagram> {
        let mut moved = Vec::with_capacity(4 * BATCH);
        while let Some(t) = self.transports[from].poll_transmit(Instant(self.now)) {
            for packet in t.bytes.chunks(t.segment.unwrap_or(t.bytes.len())) {
                self.turn = (self.turn + 1) % self.pool.len();
                let buffer = Rc::get_mut(&mut self.pool[self.turn]).expect("nobody holds it any more");
                buffer[..packet.len()].copy_from_slice(packet);
                moved.push(Datagram { buffer: Rc::clone(&self.pool[self.turn]), length: packet.len() });
            }
        }
        moved
    }

    fn hand(&mut self, to: usize, packets: Vec<Datagram>) {
        let from = self.addresses[1 - to];
        for packet in packets {
            self.transports[to].handle_packet(Instant(self.now), from, packet);
        }
    }

    /// One batch of frames from the first to the second; `alone`: each in a packet of its own.
    fn batch(&mut self, payload: usize, alone: bool, source: &[u8], parts: &mut Parts) {
        let session = self.sessions[0].expect("up");
        let mut all = Vec::with_capacity(4 * BATCH);
        self.now += 20_000;
        let now = Instant(self.now);
        self.transports.iter_mut().for_each(|t| t.handle_timeout(now));
        let mut send_and_transmit = |pair: &mut Self, count: usize, all: &mut Vec<Datagram>| {
            let start = Clock::now();
            for _ in 0..count {
                let sent = pair.transports[0].send(now, session, 5, &[1, 2], payload, |b| {
                    b.copy_from_slice(&source[..payload]);
                    true
                });
                assert_eq!(sent, Sent::Yes);
            }
            parts.send += start.elapsed().as_nanos() as f64;
            let start = Clock::now();
            let mut runs = [(0usize, 0usize); BATCH];
            let mut n = 0;
            while let Some(t) = pair.transports[0].poll_transmit(now) {
                runs[n] = (t.bytes.as_ptr().addr(), t.packets());
                std::hint::black_box(&runs[n]);
                n += 1;
                for packet in t.bytes.chunks(t.segment.unwrap_or(t.bytes.len())) {
                    pair.turn = (pair.turn + 1) % pair.pool.len();
                    let buffer = Rc::get_mut(&mut pair.pool[pair.turn]).expect("nobody holds it any more");
                    buffer[..packet.len()].copy_from_slice(packet);
                    all.push(Datagram { buffer: Rc::clone(&pair.pool[pair.turn]), length: packet.len() });
                }
            }
            parts.transmit += start.elapsed().as_nanos() as f64;
        };
        if alone {
            (0..BATCH).for_each(|_| send_and_transmit(self, 1, &mut all));
        } else {
            send_and_transmit(self, BATCH, &mut all);
        }
        parts.packets += all.len() as f64;
        parts.frames += BATCH as f64;
        parts.bytes += (BATCH * payload) as f64;
        let start = Clock::now();
        self.hand(1, all);
        parts.data += start.elapsed().as_nanos() as f64;
        let start = Clock::now();
        let mut sum = 0usize;
        while let Some(s) = self.transports[1].next_delivery() {
            while let Some(delivery) = self.transports[1].poll_deliver(s) {
                delivery.frames().for_each(|f| sum += f.payload.len() + f.head[0] as usize);
            }
        }
        std::hint::black_box(sum);
        parts.deliver += start.elapsed().as_nanos() as f64;
        let start = Clock::now();
        self.now += 10_000;
        let acks = self.carry(1);
        self.hand(0, acks);
        parts.acknowledge += start.elapsed().as_nanos() as f64;
    }
}

/// What asking the clock twice costs, which is in every part.
fn clock_cost() -> f64 {
    let start = Clock::now();
    (0..100_000).for_each(|_| {
        std::hint::black_box(Clock::now().elapsed());
    });
    start.elapsed().as_nanos() as f64 / 200_000.0
}

fn measure(datagram: usize, payload: usize, alone: bool) -> Parts {
    let source = vec![7u8; 1 << 16];
    let mut all: Vec<Parts> = (0..REPEATS)
        .map(|_| {
            let mut pair = Pair::new(datagram);
            let mut parts = Parts::default();
            (0..ROUNDS / 10).for_each(|_| pair.batch(payload, alone, &source, &mut Parts::default()));
            (0..ROUNDS).for_each(|_| pair.batch(payload, alone, &source, &mut parts));
            let clock = clock_cost() * (ROUNDS * if alone { BATCH } else { 1 }) as f64;
            (parts.send, parts.transmit) = (parts.send - clock, parts.transmit - clock);
            parts
        })
        .collect();
    let total = |p: &Parts| p.send + p.transmit + p.data + p.deliver + p.acknowledge;
    all.sort_by(|a, b| total(a).total_cmp(&total(b)));
    all[REPEATS / 2]
}

/// Bytes per second from the sender's memory into the receiver's: written into the ring, and copied out of it as the receiving program would.
fn bulk(datagram: usize) -> f64 {
    let mut rates: Vec<f64> = (0..REPEATS)
        .map(|_| {
            let mut pair = Pair::new(datagram);
            let session = pair.sessions[0].expect("up");
            let payload = pair.transports[0].payload_max(session, 2);
            let source = vec![7u8; payload];
            let mut target = vec![0u8; payload];
            // The receiver reads the packet where it lies: the only copy on its side.
            let mut bytes = 0usize;
            let start = Clock::now();
            for _ in 0..ROUNDS {
                pair.now += 50_000;
                let now = Instant(pair.now);
                pair.transports.iter_mut().for_each(|t| t.handle_timeout(now));
                for _ in 0..BATCH {
                    assert_eq!(
                        pair.transports[0].send(now, session, 5, &[1, 2], payload, |b| {
                            b.copy_from_slice(&source);
                            true
                        }),
                        Sent::Yes
                    );
                }
                let moved = pair.carry(0);
                pair.hand(1, moved);
                while let Some(delivery) = pair.transports[1].poll_deliver(pair.sessions[1].expect("up")) {
                    delivery.frames().for_each(|f| {
                        target.copy_from_slice(f.payload);
                        bytes += f.payload.len();
                    });
                }
                pair.now += 10_000;
                let acks = pair.carry(1);
                pair.hand(0, acks);
            }
            std::hint::black_box(&target);
            bytes as f64 / start.elapsed().as_secs_f64()
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates[REPEATS / 2]
}

fn main() {
    let json = std::env::args().any(|a| a == "--json");
    let cases = [
        ("8-byte frames, one per packet", 8952, 8, true),
        ("8-byte frames, coalesced", 8952, 8, false),
        ("1 KiB frames, one per packet", 1200, 1024, false),
        ("8.9 KB frames, in runs", 8952, 8900, false),
    ];
    let mut rows = Vec::new();
    for (name, datagram, payload, alone) in cases {
        let p = measure(datagram, payload, alone);
        let per = |ns: f64| ns / p.packets;
        rows.push((name, p.frames / p.packets, per(p.send), per(p.transmit), per(p.data), per(p.deliver), per(p.acknowledge)));
    }
    let rate = bulk(8952);
    if json {
        let cases: Vec<_> = rows
            .iter()
            .map(|(name, frames, send, transmit, data, deliver, acknowledge)| {
                serde_json::json!({ "case": name, "frames_per_packet": frames, "send_ns": send, "transmit_ns": transmit, "handle_data_ns": data, "deliver_ns": deliver,
                    "acknowledge_ns": acknowledge, "sender_ns": send + transmit + acknowledge / 2.0, "receiver_ns": data + deliver + acknowledge / 2.0 })
            })
            .collect();
        println!("{}", serde_json::json!({ "per_packet": cases, "bulk_bytes_per_second": rate }));
        return;
    }
    println!("ns per packet; 'transmit' and 'acknowledge' include the copy into the receiver's buffer that a network would do");
    println!("{:32} {:>12} {:>8} {:>9} {:>8} {:>8} {:>12}", "", "frames/packet", "send", "transmit", "data", "deliver", "acknowledge");
    for (name, frames, send, transmit, data, deliver, acknowledge) in rows {
        println!("{name:32} {frames:12.1} {send:9.1} {transmit:9.1} {data:8.1} {deliver:8.1} {acknowledge:12.1}");
    }
    println!("bulk, 8952-byte packets, three copies in all: {:.1} GB/s", rate / 1e9);
}
