// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole transport: two of them with a network that the input steers, packets made up or bent by the input, calls of the program, and time.

use crate::input::Input;
use bellwire_proto::seal::{Keys, Limits};
use bellwire_proto::{Config, Duration, Event, Frame, Instant, NicId, Refusal, SessionId, Transport};
use std::net::SocketAddr;
use std::sync::Arc;

const STEPS_MAX: usize = 600;
const WIRE_MAX: usize = 64;

struct Side {
    transport: Transport<Vec<u8>>,
    sessions: Vec<SessionId>,
}

struct Stage {
    /// Packets are authenticated: only the two sides can have made what is delivered.
    keyed: bool,
    sides: [Side; 2],
    now: Instant,
    /// Packets on their way, with their receiver.
    wire: Vec<(usize, Vec<u8>)>,
    /// An early one of each, to be said again.
    old: Vec<(usize, Vec<u8>)>,
}

fn address(which: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, which as u8], 9))
}

impl Stage {
    fn new(input: &mut Input<'_>, keyed: bool) -> Self {
        let form = input.u8();
        let side = |which: u8| {
            let small = form & 1 != 0;
            let config = Config {
                nic: NicId([which; 16]),
                boot: 1,
                sessions_max: if form & 2 == 0 { 4096 } else { 3 },
                window_packets: if small { 8 } else { 1024 },
                ring_bytes: 36_000,
                ring_bytes_initial: 2_500,
                kept_packets_max: if form & 4 == 0 { 1024 } else { 3 },
                kept_bytes_max: 1 << 16,
                kept_bytes_total_max: 1 << 17,
                refusals_max: 3,
                probe_path: form & 8 == 0,
                keys: keyed.then(|| Arc::new(Keys::shared([7; 32]))),
                key_limits: Limits { packets: 1 << (form >> 5), ..Limits::default() },
                ..Config::default()
            };
            Side { transport: Transport::new(config, u64::from(form)), sessions: Vec::new() }
        };
        let mut stage = Self { keyed, sides: [side(0), side(1)], now: Instant(1_000_000), wire: Vec::new(), old: Vec::new() };
        if form & 16 == 0 {
            stage.sides[0].transport.connect(stage.now, address(1), 0).unwrap();
            for _ in 0..6 {
                stage.collect();
                while !stage.wire.is_empty() {
                    stage.arrive(0);
                }
                (0..2).for_each(|i| stage.program(i, None));
            }
            assert!(stage.sides.iter().all(|s| s.sessions.len() == 1), "an undisturbed handshake ends well");
        }
        stage
    }

    /// What both sides send goes onto the wire.
    fn collect(&mut self) {
        for which in 0..2 {
            let mut packets = 0;
            while let Some(t) = self.sides[which].transport.poll_transmit(self.now) {
                let to = usize::from(t.to == address(1));
                packets += t.packets();
                assert!(packets < 5000, "it does not send for ever");
                for packet in t.bytes.chunks(t.segment.unwrap_or(t.bytes.len())) {
                    if self.wire.len() < WIRE_MAX {
                        self.wire.push((to, packet.to_vec()));
                    }
                }
            }
        }
    }

    fn arrive(&mut self, index: usize) {
        if index >= self.wire.len() {
            return;
        }
        let (to, packet) = self.wire.remove(index);
        if self.old.len() < WIRE_MAX {
            self.old.push((to, packet.clone()));
        }
        self.sides[to].transport.handle_packet(self.now, address(1 - to), packet);
    }

    /// The program takes what there is; `refuse`: and refuses some.
    fn program(&mut self, which: usize, mut refuse: Option<&mut Input<'_>>) {
        let side = &mut self.sides[which];
        while let Some(session) = side.transport.next_delivery() {
            while let Some(d) = side.transport.poll_deliver(session) {
                let frames = d.frames().count();
                let is_ours = |f: Frame<'_>| *f.head == [1, 2, 3] && f.payload.iter().all(|b| *b == 9);
                assert!(!self.keyed || d.frames().all(is_ours), "a frame that nobody sent");
                if let Some(input) = refuse.as_deref_mut()
                    && !input.is_empty()
                {
                    let reason = [Refusal::NotResident, Refusal::NoReceive, Refusal::NoStream][usize::from(input.u8() % 3)];
                    let consumed = usize::from(input.u8()) % (frames + 1);
                    side.transport.refuse(self.now, d, consumed, reason).expect("in time");
                }
            }
        }
        while let Some(event) = side.transport.poll_event() {
            match event {
                Event::Up { session, .. } if !side.sessions.contains(&session) => side.sessions.push(session),
                Event::Down { session, .. } => {
                    while side.transport.poll_returned(session).is_some() {}
                    side.sessions.retain(|s| *s != session);
                }
                Event::Returned { session } => while side.transport.poll_returned(session).is_some() {},
                _ => {}
            }
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let (what, which) = (input.u8(), usize::from(input.u8() & 1));
        let session = self.sides[which].sessions.last().copied();
        match what % 16 {
            0..=3 => self.arrive(usize::from(input.u8()) % WIRE_MAX),
            4 => {
                // Bent.
                let index = usize::from(input.u8()) % self.wire.len().max(1);
                if let Some((_, packet)) = self.wire.get_mut(index) {
                    let at = usize::from(input.u8()) % packet.len();
                    packet[at] ^= input.u8();
                    if input.u8() & 1 != 0 {
                        packet.truncate(usize::from(input.u8()));
                    }
                }
                self.arrive(index);
            }
            5 => {
                // Made up: a header that fits, and any content.
                let session = session.map_or(0, SessionId::raw);
                let mut packet = vec![0x10 | (input.u8() % 16), input.u8(), input.u8(), input.u8()];
                packet.extend((input.number() as u32).to_le_bytes());
                packet.extend((if input.u8() & 3 == 0 { input.number() } else { session }).to_le_bytes());
                packet.extend((0..input.u8()).map(|_| input.u8()));
                self.sides[which].transport.handle_packet(self.now, address(1 - which), packet);
            }
            6 => {
                // From the past.
                if let Some((to, packet)) = self.old.get(usize::from(input.u8()) % WIRE_MAX).cloned() {
                    self.sides[to].transport.handle_packet(self.now, address(1 - to), packet);
                }
            }
            7 => self.wire.clear(),
            8 | 9 => {
                let (stream, length) = (u32::from(input.u8() % 8), input.number() as usize % 2000);
                if let Some(session) = session {
                    for _ in 0..input.u8() % 32 {
                        if length.is_multiple_of(16)
                            && let Some(packet) = self.sides[which].transport.send_alone(self.now, session, stream, &[1, 2, 3])
                        {
                            let packet = packet.bytes.to_vec();
                            if self.wire.len() < WIRE_MAX {
                                self.wire.push((1 - which, packet));
                            }
                            continue;
                        }
                        let _ = self.sides[which].transport.send(self.now, session, stream, &[1, 2, 3], length, |b| {
                            b.fill(9);
                            length % 7 != 6
                        });
                    }
                }
            }
            10 => self.program(which, Some(input)),
            11 => self.program(which, None),
            12 => self.control(which, session, input),
            _ => {
                let passed = input.number().min(1 << 40);
                self.now = self.now + Duration(passed << (input.u8() % 20));
                self.sides.iter_mut().for_each(|s| s.transport.handle_timeout(self.now));
            }
        }
    }

    fn control(&mut self, which: usize, session: Option<SessionId>, input: &mut Input<'_>) {
        let side = &mut self.sides[which];
        match (input.u8() % 5, session) {
            (0, _) => drop(side.transport.connect(self.now, address(usize::from(input.u8() % 3)), 1)),
            (1, Some(s)) => drop(side.transport.close(self.now, s)),
            (2, Some(s)) => side.transport.set_depended(self.now, s, input.u8() & 1 != 0),
            (3, _) => side.transport.handle_too_big(self.now, address(1 - which), usize::from(input.u16())),
            (_, Some(s)) => drop(side.transport.session_info(s)),
            _ => side.transport.hurry(),
        }
    }
}

/// Runs one input.
pub fn run(data: &[u8]) {
    run_with(data, false);
}

/// Runs one input on authenticated sessions.
pub fn run_with(data: &[u8], keyed: bool) {
    let mut input = Input(data);
    let mut stage = Stage::new(&mut input, keyed);
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        stage.step(&mut input);
        stage.collect();
    }
    // Left alone, it comes to rest: nobody depends on anything, and what has no answer ends.
    for turn in 0.. {
        stage.wire.clear();
        (0..2).for_each(|i| stage.program(i, None));
        for side in &mut stage.sides {
            side.sessions.iter().for_each(|s| side.transport.set_depended(stage.now, *s, false));
        }
        let next = stage.sides.iter().map(|s| s.transport.next_timeout()).min().unwrap_or(Instant::NEVER);
        // A size that did not get through is tried again every now and then.
        if next == Instant::NEVER || next.0 > stage.now.0 + 60_000_000_000 {
            break;
        }
        stage.now = stage.now.max(next);
        stage.sides.iter_mut().for_each(|s| s.transport.handle_timeout(stage.now));
        stage.collect();
        assert!(turn < 20_000, "it does not come to rest");
    }
    for side in &stage.sides {
        assert!(side.transport.sessions() <= side.sessions.len(), "{} places are taken, {} sessions are up", side.transport.sessions(), side.sessions.len());
    }
}
