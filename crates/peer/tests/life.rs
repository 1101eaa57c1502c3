// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections begin and end, against a model, over the network in memory: three sides ask each
//! other at random, accept, refuse, end connections and crash; one of them may speak another
//! version. Each attempt has one outcome and each open connection one end, with its reason, and no
//! VI is left behind.

use bellwire_peer::{Channel, Connected, Death, Event, Kind, Mailbox, Patience, listen_alone};
use bellwire_via::frame::DisconnectReason;
use bellwire_via::handle::{Handle, Slab};
use bellwire_via::inbox::LineWords;
use bellwire_via::nic::NicConfig;
use bellwire_via::wire::Wire;
use bellwire_via::wire::sim::SimConfig;
use bellwire_via::world::World;
use bellwire_via::{Acceptor, Came, Cause, Duration, Error, NetAddress, Nic, ViAttributes};
use proptest::prelude::*;
use std::collections::BTreeMap;

const SIDES: usize = 3;
const WAITS: Kind = Kind(*b"PT\x01W");
const ASKS: Kind = Kind(*b"PT\x01A");
const PATIENCE: Patience = Patience { find: Duration(2_000_000), answer: Duration(4_000_000) };

#[derive(Debug, Default)]
struct Link {
    channel: Channel,
    /// The number of the attempt, and whether this side asked.
    attempt: u16,
    asked: bool,
}

impl Connected for Link {
    fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }
}

/// What a side learned of an attempt.
#[derive(Clone, Debug, Default, PartialEq)]
struct Told {
    opened: u32,
    over: Vec<Death>,
    /// This side ended it.
    ended: bool,
}

struct Side {
    version: u64,
    mailbox: Mailbox,
    acceptor: Acceptor,
    links: Slab<Link>,
    /// By the number of the attempt, and whether this side asked.
    told: BTreeMap<(u16, bool), Told>,
}

fn host(side: usize) -> [u8; 4] {
    [10, 0, 0, side as u8 + 1]
}

fn waits_at(side: usize) -> NetAddress {
    WAITS.address(&host(side), &[]).unwrap()
}

impl Side {
    fn new(world: &mut World, side: usize, version: u64) -> Self {
        let engine = world.engine(side);
        let mailbox = Mailbox::create(engine, version, ViAttributes::default(), 8).unwrap();
        let acceptor = listen_alone(engine, waits_at(side)).unwrap().unwrap();
        Self { version, mailbox, acceptor, links: Slab::new(6), told: BTreeMap::new() }
    }

    fn connect(&mut self, world: &mut World, (side, to): (usize, usize), attempt: u16) {
        let from = ASKS.address(&host(side), &[&attempt.to_le_bytes()]).unwrap();
        let link = Link { attempt, asked: true, ..Link::default() };
        let before = self.links.len();
        match self.mailbox.connect_in(world.engine(side), &mut self.links, link, (&from, &waits_at(to)), PATIENCE) {
            Ok(_) => _ = self.told.insert((attempt, true), Told::default()),
            Err(error) => assert_eq!((error, self.links.len()), (Error::Resource, before)),
        }
    }

    fn told(&mut self, context: u64) -> &mut Told {
        let link = self.links.get(Handle::from_raw(context as u32)).expect("a context that this side gave");
        self.told.get_mut(&(link.attempt, link.asked)).unwrap()
    }

    /// Takes the next thing that has come.
    fn look(&mut self, world: &mut World, side: usize) -> bool {
        let engine = world.engine(side);
        let mut line: LineWords = [0; 7];
        let Some(taken) = engine.take(self.mailbox.inbox(), &mut line) else { return false };
        let mut event = None;
        engine.hand::<1>(self.mailbox.inbox(), &line, taken, |engine, came| {
            let Came::Notice(context, vi, notice) = came else { panic!("nobody sends messages") };
            event = self.mailbox.event(engine, context, vi, notice);
        });
        match event {
            None => {}
            Some(Event::Opened(context, version)) => {
                assert_eq!(version, self.version);
                self.told(context).opened += 1;
                self.links.get_mut(Handle::from_raw(context as u32)).unwrap().channel.open();
            }
            Some(Event::Accepted(vi, address)) => {
                let attempt = u16::from_le_bytes(*ASKS.id_of(&address).expect("whom this side admitted"));
                let link = Link { channel: Channel::opened(vi), attempt, asked: false };
                if self.mailbox.enroll(world.engine(side), &mut self.links, link).is_some() {
                    assert_eq!(self.told.insert((attempt, false), Told { opened: 1, ..Told::default() }), None);
                }
            }
            Some(Event::Over(context, death)) => {
                self.told(context).over.push(death);
                self.end(world, side, Handle::from_raw(context as u32));
            }
        }
        true
    }

    fn end(&mut self, world: &mut World, side: usize, id: Handle<Link>) {
        if let Some(mut link) = self.links.remove(id) {
            world.engine(side).end_vi(link.channel.close());
        }
    }

    /// Ends one of the connections.
    fn end_one(&mut self, world: &mut World, side: usize, which: usize) {
        let ids: Vec<Handle<Link>> = self.links.iter().map(|(id, _)| id).collect();
        let Some(id) = ids.get(which % ids.len().max(1)) else { return };
        self.told(u64::from(id.raw())).ended = true;
        self.end(world, side, *id);
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Connect(usize, usize),
    Accept(usize),
    Look(usize),
    End(usize, usize),
    Crash(usize),
    Time,
}

fn steps() -> impl Strategy<Value = Step> {
    let side = 0..SIDES;
    prop_oneof![
        6 => (side.clone(), side.clone()).prop_map(|(from, to)| Step::Connect(from, to)),
        6 => side.clone().prop_map(Step::Accept),
        9 => side.clone().prop_map(Step::Look),
        2 => (side.clone(), 0usize..6).prop_map(|(side, which)| Step::End(side, which)),
        1 => side.prop_map(Step::Crash),
        9 => Just(Step::Time),
    ]
}

/// Whether a side admits an attempt: most of them.
fn admits(attempt: u16) -> bool {
    !attempt.is_multiple_of(5)
}

fn accept(world: &mut World, sides: &mut [Option<Side>], side: usize) -> bool {
    let Some(s) = &mut sides[side] else { return false };
    let is_asked = s.acceptor.is_asked(world.engine(side));
    let now = world.now();
    world.engine(side).set_now(now);
    s.mailbox.accept(world.engine(side), &mut s.acceptor, |address| ASKS.id_of(address).is_some_and(|id| admits(u16::from_le_bytes(*id))));
    is_asked
}

fn check(sides: &[Option<Side>], asked: &[(usize, usize)], versions: [u64; SIDES]) -> Result<(), TestCaseError> {
    for (attempt, (from, to)) in (0u16..).zip(asked) {
        let find = |side: &usize, asked| sides[*side].as_ref().and_then(|s: &Side| s.told.get(&(attempt, asked)));
        let (asker, acceptor) = (find(from, true), find(to, false));
        let crashed = |side: &usize| sides[*side].is_none();
        if let Some(told) = acceptor {
            prop_assert!(admits(attempt) && told.opened == 1 && told.over.len() + usize::from(told.ended) <= 1);
            prop_assert_eq!(versions[*from], versions[*to], "another version is never connected");
            for death in &told.over {
                prop_assert!(matches!(death, Death::Broken(_)), "{death}");
            }
        }
        let Some(told) = asker else { continue };
        // One outcome, then at most one end; nothing after this side has ended it.
        prop_assert!(told.opened <= 1 && told.over.len() + usize::from(told.ended) <= 1, "{told:?}");
        prop_assert!(told.opened + told.over.len() as u32 >= 1 || told.ended, "an attempt without an outcome");
        match told.over.first() {
            Some(Death::Unreachable(Error::Rejected)) => prop_assert!(told.opened == 0 && acceptor.is_none()),
            Some(Death::Unreachable(_)) => prop_assert!(told.opened == 0),
            Some(Death::OtherVersion(version)) => prop_assert!(*version == versions[*to] && *version != versions[*from] && told.opened == 0),
            Some(Death::Broken(cause)) => {
                prop_assert!(told.opened == 1);
                if !crashed(to) {
                    prop_assert_eq!(*cause, Cause::Peer(DisconnectReason::Requested), "only a peer that ends it breaks it");
                    prop_assert!(acceptor.is_none_or(|told| told.ended), "the peer has ended it, or had no room for it");
                }
            }
            Some(Death::Misbehaved) => prop_assert!(false, "nobody sends anything"),
            None => prop_assert!(told.ended || crashed(to) || acceptor.is_some_and(|told| told.over.is_empty() && !told.ended), "a missing end"),
        }
    }
    Ok(())
}

#[test]
fn each_attempt_has_one_outcome_and_each_connection_one_end() {
    let outcomes = std::cell::Cell::new([0u32; 4]);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() });
    let strategy = (any::<bool>(), 0u64..3, prop::collection::vec(steps(), 1..120));
    runner
        .run(&strategy, |(is_mixed, latency, steps)| {
            let mut world = World::with_nics(SimConfig { latency: Duration(latency * 700), ..SimConfig::default() }, SIDES);
            let versions = [7, 7, if is_mixed { 8 } else { 7 }];
            let mut sides: Vec<Option<Side>> = (0..SIDES).map(|side| Some(Side::new(&mut world, side, versions[side]))).collect();
            let mut asked = Vec::new();
            for step in steps {
                match step {
                    Step::Connect(from, to) => {
                        let attempt = asked.len() as u16;
                        asked.push((from, to));
                        if let Some(side) = &mut sides[from] {
                            side.connect(&mut world, (from, to), attempt);
                        }
                    }
                    Step::Accept(side) => _ = accept(&mut world, &mut sides, side),
                    Step::Look(at) => _ = sides[at].as_mut().is_some_and(|side| side.look(&mut world, at)),
                    Step::End(at, which) => {
                        if let Some(side) = &mut sides[at] {
                            side.end_one(&mut world, at, which);
                        }
                    }
                    Step::Crash(at) => {
                        if sides[at].take().is_some() {
                            world.crash(at);
                        }
                    }
                    Step::Time => _ = world.step(),
                }
            }
            // Nobody asks any more: everything that has begun has its outcome.
            for _ in 0..100_000 {
                let mut moved = false;
                for at in 0..SIDES {
                    moved |= accept(&mut world, &mut sides, at) | sides[at].as_mut().is_some_and(|side| side.look(&mut world, at));
                }
                if !world.step() && !moved {
                    break;
                }
            }
            check(&sides, &asked, versions)?;
            let mut counts = outcomes.get();
            for told in sides.iter().flatten().flat_map(|side| side.told.values()) {
                counts[0] += told.opened;
                counts[1] += u32::from(matches!(told.over[..], [Death::Unreachable(_)]));
                counts[2] += u32::from(matches!(told.over[..], [Death::OtherVersion(_)]));
                counts[3] += u32::from(matches!(told.over[..], [Death::Broken(_)]));
            }
            outcomes.set(counts);
            for (at, side) in sides.iter_mut().enumerate().filter_map(|(at, side)| Some((at, side.as_mut()?))) {
                let engine = world.engine(at);
                side.mailbox.close_all(engine, &mut side.acceptor, &mut side.links);
                // They are gone already: an inbox or a tag that a VI uses could not have been
                // destroyed.
                prop_assert_eq!(engine.destroy_inbox(side.mailbox.inbox()), Err(Error::InvalidParameter));
                prop_assert_eq!(side.mailbox.ptag().map(|ptag| engine.destroy_ptag(ptag).is_err()), Some(true));
            }
            Ok(())
        })
        .unwrap();
    assert!(outcomes.get().iter().all(|count| *count > 20), "each outcome is common: {:?}", outcomes.get());
}

#[test]
fn an_address_is_one_nic_s() {
    let nics = [0, 1].map(|_| Nic::open(NicConfig::default()).unwrap());
    let at = nics[0].with(|engine| NetAddress::new(engine.wire().host_address(), b"life.rs, one NIC").unwrap());
    let listen = |nic: usize| nics[nic].with(|engine| listen_alone(engine, at)).unwrap();
    let mut first = listen(0).unwrap();
    assert!(listen(1).is_none());
    nics[0].with(|engine| first.close(engine));
    assert!(listen(1).is_some());
}

#[test]
fn deaths_say_why() {
    for (death, text) in [
        (Death::Unreachable(Error::NoMatch), "nobody waits at the peer's address"),
        (Death::Unreachable(Error::Rejected), "the peer refused the connection"),
        (Death::OtherVersion(16), "the peer's messages have another version, 0x10"),
        (Death::Broken(Cause::Peer(DisconnectReason::Requested)), "the peer disconnected"),
    ] {
        assert_eq!(death.to_string(), text);
    }
}
