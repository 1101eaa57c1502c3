// SPDX-License-Identifier: MIT OR Apache-2.0
//! Channels and credits against a model, over the network in memory: two sides that send messages
//! of random lengths on links with little room, take them at random times, and tell their counts.
//! Each message that a channel accepts arrives whole, once and in order, although the sides do no
//! more than a layer's look does; nothing else arrives.

use bellwire_peer::{Channel, Credits, Put, Unsent};
use bellwire_via::Notice;
use bellwire_via::inbox::LineWords;
use bellwire_via::wire::sim::{SimConfig, SimWire};
use bellwire_via::world::World;
use bellwire_via::{Acceptor, Came, Duration, Engine, InboxHandle, NetAddress, ViAttributes};
use proptest::prelude::*;
use std::collections::VecDeque;

const WINDOW: u32 = 8;
const TELL_AFTER: u32 = 2;
const INBOX_LIMIT: u32 = 2 * WINDOW;
/// Word 0 of a message: the count, and whether it needs no credit.
const FREE: u64 = 1 << 32;

struct Side {
    nic: usize,
    inbox: InboxHandle,
    channel: Channel,
    credits: Credits,
    unsent: Unsent<()>,
    /// What the peer is to receive, and what this side has received.
    accepted: VecDeque<Vec<u8>>,
    received: VecDeque<Vec<u8>>,
    next: u8,
    broken: bool,
}

impl Side {
    /// Sends a message of `length` bytes behind its head, if it may.
    fn send(&mut self, world: &mut World, length: usize) -> Result<(), TestCaseError> {
        if !self.credits.has_credit() {
            return Ok(());
        }
        let body: Vec<u8> = (0..length).map(|i| self.next.wrapping_add(i as u8)).collect();
        let had_rest = self.channel.has_rest();
        let head = u64::from(self.credits.handled()).to_le_bytes();
        // SAFETY: a vector of ours.
        let put = unsafe { self.channel.put(self.engine(world), &head, (body.as_ptr(), length)) };
        prop_assert!(!had_rest || put == Put::Stuck);
        prop_assert_eq!(put == Put::Kept || had_rest, self.channel.has_rest());
        if put.has_begun() {
            self.credits.has_sent();
            self.credits.has_told();
            self.accepted.push_back(body);
            self.next = self.next.wrapping_add(17);
        }
        if put == Put::Kept {
            self.unsent.mark(&mut self.channel, ());
        }
        Ok(())
    }

    fn engine<'a>(&self, world: &'a mut World) -> &'a mut Engine<SimWire> {
        world.engine(self.nic)
    }

    /// A look: sends what waits, takes the next thing.
    fn look(&mut self, world: &mut World) -> bool {
        let engine = world.engine(self.nic);
        for () in self.unsent.take() {
            self.channel.seen();
            self.leave(engine);
        }
        self.channel.flush(engine);
        let mut line: LineWords = [0; 7];
        let Some(taken) = engine.take(self.inbox, &mut line) else { return false };
        engine.hand::<1>(self.inbox, &line, taken, |engine, came| match came {
            Came::Message(_, words, lies) => {
                assert!(self.credits.acknowledge(words[0] as u32).is_some(), "a count that cannot be");
                if words[0] & FREE == 0 {
                    let mut body = vec![0; lies.1 - 8];
                    // SAFETY: a message is readable while it is handed.
                    unsafe { bellwire_memory::bytes::copy(body.as_mut_ptr(), lies.0.add(8), body.len()) };
                    self.received.push_back(body);
                    self.credits.has_handled();
                }
                self.leave(engine);
            }
            Came::Notice(_, _, Notice::Broken(_)) => self.broken = true,
            Came::Notice(..) => {}
        });
        true
    }

    /// Sends the rest of a message, then a count that is due.
    fn leave(&mut self, engine: &mut Engine<SimWire>) {
        if self.channel.push(engine) && self.credits.owes() {
            let head = (u64::from(self.credits.handled()) | FREE).to_le_bytes();
            // SAFETY: no body.
            if unsafe { self.channel.put(engine, &head, (core::ptr::null(), 0)) }.has_begun() {
                self.credits.has_told();
            }
        }
        if self.channel.has_rest() || self.credits.owes() {
            self.unsent.mark(&mut self.channel, ());
        }
    }
}

fn connect(world: &mut World) -> [Side; 2] {
    let at = NetAddress::new(&[10, 0, 0, 1], b"waits").unwrap();
    let asks = NetAddress::new(&[10, 0, 0, 2], b"asks").unwrap();
    let mut sides = [0, 1].map(|nic| {
        let engine = world.engine(nic);
        let inbox = engine.create_inbox().unwrap();
        let ptag = engine.create_ptag().unwrap();
        let attributes = ViAttributes { ptag: Some(ptag), ..ViAttributes::default() };
        let vi = engine.create_vi_for_inbox(&attributes, inbox, INBOX_LIMIT, 0).unwrap();
        Side {
            nic,
            inbox,
            channel: Channel::new(vi),
            credits: Credits::new(WINDOW, TELL_AFTER).starting_at(u32::MAX - 3),
            unsent: Unsent::default(),
            accepted: VecDeque::new(),
            received: VecDeque::new(),
            next: 0,
            broken: false,
        }
    });
    let mut acceptor = Acceptor::new(world.engine(0), at).unwrap();
    let deadline = world.now() + Duration::from_micros(10_000);
    let vi = sides[1].channel.vi();
    world.engine(1).connect_request(vi, &asks, &at, deadline).unwrap();
    let vi = sides[0].channel.vi();
    let mut is_open = [false; 2];
    while is_open != [true; 2] {
        assert!(world.step_at_most(deadline));
        acceptor.accept(world.engine(0), |_, _| Some(vi));
        for (side, open) in sides.iter_mut().zip(&mut is_open) {
            let mut line: LineWords = [0; 7];
            let engine = world.engine(side.nic);
            if let Some(taken) = engine.take(side.inbox, &mut line) {
                engine.hand::<1>(side.inbox, &line, taken, |_, came| {
                    assert!(matches!(came, Came::Notice(_, _, Notice::Accepted(..) | Notice::Connected(Ok(_)))));
                });
                side.channel.open();
                *open = true;
            }
        }
    }
    sides
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Send(usize, usize),
    Look(usize),
    Time,
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0usize..2, prop_oneof![0usize..60, 40usize..8000]).prop_map(|(side, bytes)| Step::Send(side, bytes)),
        3 => (0usize..2).prop_map(Step::Look),
        2 => Just(Step::Time),
    ]
}

/// How often a message left in part, over all cases: the test is about that.
static KEPT: bellwire_memory::atomic::AtomicUsize = bellwire_memory::atomic::AtomicUsize::new(0);

#[test]
fn messages_arrive_whole_and_in_order() {
    let strategy = (1usize..12, 64usize..2000, 0u64..3, prop::collection::vec(steps(), 1..250));
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() });
    runner
        .run(&strategy, |(frames, frame, latency, steps)| {
            let config =
                SimConfig { queue_frames_max: frames, payload_bytes_max: frame, latency: Duration(latency * 700), bits_per_second: 0, ..SimConfig::default() };
            let mut world = World::with_nics(config, 2);
            let mut sides = connect(&mut world);
            for step in steps {
                match step {
                    Step::Send(side, bytes) => {
                        sides[side].send(&mut world, bytes)?;
                        // Relaxed: a count.
                        KEPT.fetch_add(usize::from(sides[side].channel.has_rest()), bellwire_memory::atomic::Ordering::Relaxed);
                    }
                    Step::Look(side) => _ = sides[side].look(&mut world),
                    Step::Time => _ = world.step(),
                }
            }
            // Nobody sends anything new: looks alone complete what has begun.
            for _ in 0..100_000 {
                let moved = [0, 1].map(|side| sides[side].look(&mut world));
                if !world.step() && moved == [false; 2] && sides.iter().all(|side| side.unsent.is_empty()) {
                    break;
                }
            }
            for (from, to) in [(0, 1), (1, 0)] {
                prop_assert!(!sides[from].broken && !sides[from].channel.has_rest());
                prop_assert_eq!(&sides[from].accepted, &sides[to].received);
            }
            Ok(())
        })
        .unwrap();
    assert!(KEPT.load(bellwire_memory::atomic::Ordering::Relaxed) > 100, "the links have too much room for this test");
}
