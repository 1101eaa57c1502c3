// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two transports and a bad network between them, in virtual time, from one seed; and a ledger of
//! every frame.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod puppet;

use bellwire_proto::packet::Packet;
use bellwire_proto::seal::{Keys, Limits};
use bellwire_proto::{Config, Delivery, DownReason, Duration, Event, Instant, NicId, Refusal, ReturnReason, Sent, SessionId, Transport};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

/// What the network does. Probabilities are in parts of 1000.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub loss: u64,
    pub duplication: u64,
    pub reordering: u64,
    pub corruption: u64,
    /// Whether the lower layer finds corrupted packets, as UDP's checksum does.
    pub checksum: bool,
    /// One way, in ns.
    pub delay: u64,
    /// Largest datagram that gets through.
    pub carries: usize,
}

impl Faults {
    pub const NONE: Self = Self { loss: 0, duplication: 0, reordering: 0, corruption: 0, checksum: true, delay: 10_000, carries: 1 << 20 };
}

/// What the program above does.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Frames that each side sends.
    pub frames: u64,
    pub streams: u32,
    pub payload_max: u64,
    /// Packets refused, in parts of 1000; and those refused for good.
    pub refused: u64,
    pub refused_for_good: u64,
}

pub struct Fate {
    pub delivered: u32,
    pub returned: Option<ReturnReason>,
    pub returns: u32,
}

pub struct Node {
    pub transport: Transport<Vec<u8>>,
    pub address: SocketAddr,
    pub session: Option<SessionId>,
    pub config: Config,
    pub life: u64,
    pub left: u64,
    pub blocked: bool,
    pub downs: Vec<DownReason>,
    pub ups: u32,
    next_index: BTreeMap<u32, u64>,
}

pub struct World {
    pub nodes: Vec<Node>,
    pub now: Instant,
    pub rng: Pcg64Mcg,
    pub faults: Faults,
    pub load: Load,
    pub wire: BTreeMap<(u64, u64), (SocketAddr, SocketAddr, Vec<u8>)>,
    pub ledger: BTreeMap<u64, Fate>,
    /// Of the last frame delivered, by sender's session, its life, and stream.
    order: BTreeMap<(usize, u64, u64, u32), u64>,
    serial: u64,
    next_frame: u64,
    pub hash: u64,
    /// Nothing gets through from this side.
    pub cut: [bool; 2],
    pub reconnect: bool,
    /// Every packet that was ever on the wire, if wanted.
    pub recorded: Option<Vec<(SocketAddr, SocketAddr, Vec<u8>)>>,
}

pub fn address(which: usize) -> SocketAddr {
    format!("10.0.0.{}:7000", which + 1).parse().unwrap()
}

pub fn config(which: usize) -> Config {
    Config { nic: NicId([which as u8 + 1; 16]), boot: 1, ..Config::default() }
}

/// With a key that both have, which changes soon.
pub fn keyed(config: Config) -> Config {
    let key_limits = Limits { packets: 40, ..Limits::default() };
    Config { keys: Some(Arc::new(Keys::shared([7; 32]))), key_limits, ..config }
}

fn payload_byte(frame: u64, i: usize) -> u8 {
    (frame as u8).wrapping_mul(31).wrapping_add(i as u8)
}

impl World {
    pub fn new(seed: u64, faults: Faults, load: Load, configs: [Config; 2]) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut which = 0;
        let nodes = configs.map(|config| {
            which += 1;
            let left = load.frames;
            let transport = Transport::new(config.clone(), rng.next_u64());
            Node {
                transport,
                address: address(which - 1),
                session: None,
                config,
                life: 0,
                left,
                blocked: false,
                downs: Vec::new(),
                ups: 0,
                next_index: BTreeMap::new(),
            }
        });
        Self {
            nodes: nodes.into(),
            now: Instant(1_000_000),
            rng,
            faults,
            load,
            wire: BTreeMap::new(),
            ledger: BTreeMap::new(),
            order: BTreeMap::new(),
            serial: 0,
            next_frame: 1,
            hash: 0xcbf2_9ce4_8422_2325,
            cut: [false; 2],
            reconnect: false,
            recorded: None,
        }
    }

    fn chance(&mut self, thousandths: u64) -> bool {
        thousandths > 0 && self.rng.next_u64() % 1000 < thousandths
    }

    fn mix(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.hash = (self.hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        }
    }

    pub fn connect(&mut self, which: usize) {
        let to = address(1 - which);
        self.nodes[which].transport.connect(self.now, to, 7).unwrap();
        self.pump(which);
    }

    /// A NIC dies and comes back with nothing but its name.
    pub fn restart(&mut self, which: usize) {
        let seed = self.rng.next_u64();
        let node = &mut self.nodes[which];
        node.life += 1;
        node.config.boot += 1;
        node.transport = Transport::new(node.config.clone(), seed);
        (node.session, node.blocked) = (None, false);
        node.next_index.clear();
        if self.reconnect {
            self.connect(which);
        }
    }

    /// Whatever a side has to do now.
    pub fn pump(&mut self, which: usize) {
        self.deliver(which);
        self.events(which);
        self.send(which);
        self.transmit(which);
    }

    fn transmit(&mut self, which: usize) {
        let now = self.now;
        let mut out = Vec::new();
        while let Some(t) = self.nodes[which].transport.poll_transmit(now) {
            let size = t.segment.unwrap_or(t.bytes.len());
            assert!(t.bytes.len() <= 70_000);
            assert!(t.segment.is_none() || t.bytes.len() > size);
            assert!(!t.fragment || t.segment.is_none(), "what must be fragmented leaves alone");
            for packet in t.bytes.chunks(size) {
                out.push((t.to, packet.to_vec(), t.fragment));
            }
        }
        self.carry(which, out);
    }

    /// Packets that leave a side, and whether they may be fragmented, on their way.
    fn carry(&mut self, which: usize, out: Vec<(SocketAddr, Vec<u8>, bool)>) {
        let (now, from) = (self.now, address(which));
        for (to, packet, fragment) in out {
            let is_sealed = packet[1] & bellwire_proto::packet::header::AUTH != 0;
            assert!(is_sealed || Packet::parse(&packet).is_ok(), "what we send can be read");
            self.mix(&now.0.to_le_bytes());
            self.mix(&packet);
            if let Some(recorded) = &mut self.recorded {
                recorded.push((from, to, packet.clone()));
            }
            let too_big = packet.len() > self.faults.carries && !fragment;
            if self.cut[which] || too_big || self.chance(self.faults.loss) {
                continue;
            }
            let copies = 1 + u64::from(self.chance(self.faults.duplication));
            for _ in 0..copies {
                self.put(from, to, packet.clone());
            }
        }
    }

    fn put(&mut self, from: SocketAddr, to: SocketAddr, mut packet: Vec<u8>) {
        let mut delay = self.faults.delay + self.rng.next_u64() % (1 + self.faults.delay / 16);
        if self.chance(self.faults.reordering) {
            delay += self.rng.next_u64() % (4 * self.faults.delay);
        }
        if self.chance(self.faults.corruption) {
            if self.faults.checksum {
                return;
            }
            let at = self.rng.next_u64() as usize % packet.len();
            match self.rng.next_u64() % 3 {
                0 => packet.truncate(at),
                1 => packet[at] ^= 1 << (self.rng.next_u64() % 8),
                _ => packet[at % 32] = self.rng.next_u64() as u8,
            }
        }
        self.serial += 1;
        self.wire.insert((self.now.0 + delay, self.serial), (from, to, packet));
    }

    fn send(&mut self, which: usize) {
        let now = self.now;
        while let Some(session) = self.nodes[which].session {
            if self.nodes[which].left == 0 || self.nodes[which].blocked {
                return;
            }
            let stream = (self.rng.next_u64() % u64::from(self.load.streams)) as u32;
            let words = 4 + (self.rng.next_u64() % 5) as usize;
            let small = self.rng.next_u64().is_multiple_of(2);
            let length = (self.rng.next_u64() % (1 + if small { self.load.payload_max.min(64) } else { self.load.payload_max })) as usize;
            let node = &mut self.nodes[which];
            let length = length.min(node.transport.payload_max(session, words));
            let frame = self.next_frame;
            let index = *node.next_index.get(&stream).unwrap_or(&0);
            let head = [frame, u64::from(stream) << 32 | index, session.raw(), node.life, 5, 6, 7, 8];
            let fill = |b: &mut [u8]| {
                b.iter_mut().enumerate().for_each(|(i, b)| *b = payload_byte(frame, i));
                true
            };
            // Now and then by the path for short frames that have the way for themselves.
            let may_leave_alone = length == 0 && self.rng.next_u64().is_multiple_of(2) && node.transport.is_idle(session);
            if may_leave_alone && let Some(packet) = node.transport.send_alone(now, session, stream, &head[..words]) {
                let packet = packet.bytes.to_vec();
                node.left -= 1;
                self.next_frame += 1;
                node.next_index.insert(stream, index + 1);
                self.ledger.insert(frame, Fate { delivered: 0, returned: None, returns: 0 });
                self.carry(which, vec![(address(1 - which), packet, false)]);
                continue;
            }
            match node.transport.send(now, session, stream, &head[..words], length, fill) {
                Sent::Unfilled => unreachable!("it is always filled"),
                Sent::Yes => {
                    node.left -= 1;
                    self.next_frame += 1;
                    node.next_index.insert(stream, index + 1);
                    self.ledger.insert(frame, Fate { delivered: 0, returned: None, returns: 0 });
                }
                Sent::NoRoom => node.blocked = true,
                Sent::Broken => {
                    node.session = None;
                    return;
                }
                Sent::TooLong => panic!("payload_max is what fits"),
            }
            // Not everything at once.
            if self.rng.next_u64().is_multiple_of(8) {
                self.transmit(which);
            }
        }
    }

    fn deliver(&mut self, which: usize) {
        while let Some(session) = self.nodes[which].transport.next_delivery() {
            let Some(delivery) = self.nodes[which].transport.poll_deliver(session) else { continue };
            let (passing, for_good) = (self.chance(self.load.refused), self.chance(self.load.refused_for_good));
            if passing || for_good {
                let reason = if for_good { Refusal::NoStream } else { Refusal::NoReceive };
                let consumed = (self.rng.next_u64() % 2) as usize;
                let consumed = consumed.min(delivery.frames().count());
                self.take(which, &delivery, consumed);
                self.nodes[which].transport.refuse(self.now, delivery, consumed, reason).unwrap();
            } else {
                self.take(which, &delivery, usize::MAX);
            }
        }
    }

    /// Checks the first frames of a delivery and enters them.
    fn take(&mut self, which: usize, delivery: &Delivery<Vec<u8>>, count: usize) {
        for f in delivery.frames().take(count) {
            let [frame, place, session, life] = f.head[..4] else { panic!("a head as it was sent") };
            let (stream, index) = ((place >> 32) as u32, place & 0xffff_ffff);
            assert!(f.head[4..].iter().zip(5u64..).all(|(a, b)| *a == b));
            assert!(f.payload.iter().enumerate().all(|(i, b)| *b == payload_byte(frame, i)), "payload as it was sent");
            assert_eq!(&delivery.buffer()[f.place.clone()], f.payload);
            let fate = self.ledger.get_mut(&frame).expect("a frame that was sent");
            fate.delivered += 1;
            assert_eq!(fate.delivered, 1, "frame {frame} came twice");
            assert!(!matches!(fate.returned, Some(ReturnReason::Refused(_))), "frame {frame} was refused for good and came all the same");
            if let Some(last) = self.order.insert((which, session, life, stream), index) {
                assert!(index > last, "stream {stream}: {index} after {last}");
            }
            self.mix(&frame.to_le_bytes());
        }
    }

    fn events(&mut self, which: usize) {
        while let Some(event) = self.nodes[which].transport.poll_event() {
            let node = &mut self.nodes[which];
            match event {
                Event::Up { session, peer, .. } => {
                    assert_eq!(peer, NicId([2 - which as u8; 16]));
                    if node.session != Some(session) {
                        node.next_index.clear();
                    }
                    (node.session, node.blocked) = (Some(session), false);
                    node.ups += 1;
                }
                Event::Down { session, reason } => {
                    node.downs.push(reason);
                    if node.session == Some(session) {
                        node.session = None;
                    }
                    self.fetch(which, session);
                    if self.reconnect && self.nodes[which].session.is_none() {
                        let _ = self.nodes[which].transport.connect(self.now, address(1 - which), 8);
                    }
                }
                Event::Returned { session } => self.fetch(which, session),
                Event::Room { session } => node.blocked &= node.session != Some(session),
                Event::Failed { .. } if self.reconnect => {
                    let _ = node.transport.connect(self.now, address(1 - which), 9);
                }
                _ => {}
            }
        }
    }

    fn fetch(&mut self, which: usize, session: SessionId) {
        while let Some(returned) = self.nodes[which].transport.poll_returned(session) {
            let frame = returned.head[0];
            assert!(returned.payload.iter().enumerate().all(|(i, b)| *b == payload_byte(frame, i)));
            let fate = self.ledger.get_mut(&frame).expect("a frame that was sent");
            fate.returns += 1;
            fate.returned = Some(returned.reason);
            assert_eq!(fate.returns, 1, "frame {frame} returned twice");
            assert!(fate.delivered == 0 || matches!(returned.reason, ReturnReason::Down(_)));
        }
    }

    /// The next thing that happens, if it does before `until`.
    pub fn step(&mut self, until: Instant) -> bool {
        let arrival = self.wire.keys().next().map_or(u64::MAX, |k| k.0);
        let alarm = (0..2).map(|i| self.nodes[i].transport.next_timeout().0).min().unwrap();
        let at = arrival.min(alarm);
        if at > until.0 {
            self.now = until;
            return false;
        }
        self.now = Instant(self.now.0.max(at));
        let mut touched = BTreeSet::new();
        while let Some(entry) = self.wire.first_entry()
            && entry.key().0 <= self.now.0
        {
            let (from, to, packet) = entry.remove();
            if let Some(which) = (0..2).find(|i| address(*i) == to) {
                self.nodes[which].transport.handle_packet(self.now, from, packet);
                touched.insert(which);
            }
        }
        for which in 0..2 {
            if self.nodes[which].transport.next_timeout() <= self.now {
                self.nodes[which].transport.handle_timeout(self.now);
                touched.insert(which);
            }
        }
        touched.into_iter().for_each(|which| self.pump(which));
        true
    }

    pub fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        while self.step(until) {}
    }

    /// Until every frame has its fate, or the time is over; whether it has.
    pub fn run_until_settled(&mut self, time: Duration) -> bool {
        let until = self.now + time;
        let mut turns = 0;
        loop {
            turns += 1;
            if turns % 64 == 0 && self.is_settled() {
                return true;
            }
            if !self.step(until) {
                return self.is_settled();
            }
        }
    }

    pub fn is_settled(&self) -> bool {
        self.nodes.iter().all(|n| n.left == 0) && self.ledger.values().all(|f| f.delivered + f.returns > 0)
    }

    pub fn delivered(&self) -> usize {
        self.ledger.values().filter(|f| f.delivered == 1).count()
    }
}
