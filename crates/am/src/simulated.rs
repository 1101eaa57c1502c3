// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thousand endpoints on simulated hosts, in virtual time, while packets are lost, doubled and
//! overtaken: the bundles' machines as they are, driven as `poll.rs`, `send.rs` and `message.rs`
//! drive them. Every request is handled once, with what was sent, and answered once, or told of if
//! its handler does not reply.
//!
//! `BELLWIRE_AM_SEEDS=n` for more runs than one.

use crate::acceptor::Acceptor;
use crate::arrive::Step;
use crate::bulk::{Bulk, Source};
use crate::core::{Core, Request, Sent};
use crate::delivery::Delivery;
use crate::header::{Answer, Kind};
use crate::name::{EndpointId, Name};
use crate::payload::{Data, NO_DATA};
use crate::probe::Off;
use crate::tables::Slot;
use bellwire_sim::memory::Memory;
use bellwire_sim::{Duration, FabricEngine, Happened, LinkSpec, Topology, World, WorldConfig};
use std::collections::BTreeMap;

const HOSTS: usize = 20;
const ENDPOINTS_EACH: usize = 50;
/// Others that an endpoint asks.
const PEERS: usize = 3;
/// Requests of each endpoint.
const REQUESTS: u32 = 8;
/// Requests that an endpoint may have out.
const WINDOW: usize = 4;
const TAG: u64 = 77;
const LONGEST: usize = 3000;
/// Bytes of a bulk message: the first endpoint of each host sends them, to the first of others,
/// each to a place of its own there.
const BULK: usize = 5000;

const ASK: u8 = 1;
const ASK_BULK: u8 = 2;
const ANSWER: u8 = 3;
/// Of so many requests one gets no reply.
const UNANSWERED: u32 = 5;

fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn payload(id: u32, length: usize) -> Vec<u8> {
    (0..length).map(|i| mix(u64::from(id) << 32 | (i / 8) as u64).to_le_bytes()[i % 8]).collect()
}

/// How long the payload of request `id` is, if it has one.
fn length_of(id: u32) -> Option<usize> {
    let random = mix(u64::from(id) ^ 0xfeed);
    random.is_multiple_of(3).then_some((random >> 8) as usize % LONGEST)
}

fn answer_to(id: u32) -> i32 {
    mix(u64::from(id) ^ 0xa5) as i32
}

/// What happened to a request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Fate {
    handled: u32,
    answered: u32,
}

/// An endpoint's program.
struct Program {
    endpoint: EndpointId,
    sent: u32,
    out: usize,
    /// Its bulk data, while the engine reads it.
    data: Vec<u8>,
}

/// A host: a device with one bundle.
struct Host {
    acceptor: Acceptor,
    core: Core<u8>,
    programs: Vec<Program>,
    segment: Memory,
}

struct Net {
    world: World,
    hosts: Vec<Host>,
    fates: BTreeMap<u32, Fate>,
}

/// The number of a request: of its host, its program, and among that program's.
fn id_of(host: usize, program: usize, number: u32) -> u32 {
    ((host * ENDPOINTS_EACH + program) as u32) * REQUESTS + number
}

impl Host {
    fn new(engine: &mut FabricEngine, number: usize) -> (Self, Vec<Name>) {
        let mut acceptor = Acceptor::new(engine, [number as u8 + 1; 16]).unwrap();
        let inbox = engine.create_inbox().unwrap();
        let (mut core, mut programs, mut names) = (Core::new(inbox), Vec::new(), Vec::new());
        let segment = Memory::new(HOSTS * BULK);
        for program in 0..ENDPOINTS_EACH {
            let ptag = engine.create_ptag().unwrap();
            let name = acceptor.list(inbox, ptag).unwrap();
            let endpoint = core.add_endpoint(name, ptag).unwrap();
            core.endpoint_mut(endpoint).unwrap().tag = TAG;
            for handler in [ASK, ASK_BULK, ANSWER] {
                *core.endpoint_mut(endpoint).unwrap().handlers.slot_to_set(handler) = Slot::Here(handler);
            }
            if program == 0 {
                core.set_segment(engine, endpoint, Some((segment.address(), segment.len() as u64, None))).unwrap();
            }
            programs.push(Program { endpoint, sent: 0, out: 0, data: Vec::new() });
            names.push(name);
        }
        (Self { acceptor, core, programs, segment }, names)
    }

    /// Sends request `number` of a program. `false`: it cannot leave now.
    fn send(&mut self, engine: &mut FabricEngine, host: usize, program: usize, number: u32) -> bool {
        let id = id_of(host, program, number);
        let index = mix(u64::from(id)) as u32 % PEERS as u32;
        let p = &mut self.programs[program];
        let args = [id as i32, host as i32];
        let sent = if program == 0 {
            p.data = payload(id, BULK);
            let source = Source { from: p.data.as_ptr(), length: BULK, region: None };
            let bulk = Bulk { endpoint: p.endpoint, index, handler: ASK_BULK, args: &args, offset: (host * BULK) as u64, source };
            self.core.request_bulk::<_, Off>(engine, &bulk, &mut Default::default())
        } else {
            let bytes = length_of(id).map(|length| payload(id, length));
            let medium: Option<Data> = bytes.as_ref().map(|bytes| (bytes.as_ptr(), bytes.len()));
            self.core.request::<_, Off>(engine, &Request { endpoint: p.endpoint, index, handler: ASK, args: &args, medium })
        };
        match sent.unwrap() {
            Sent::Yes | Sent::Posted(..) => true,
            Sent::Connect(connection) => {
                self.core.connect(engine, connection).unwrap();
                false
            }
            Sent::Wait | Sent::More => false,
        }
    }

    /// What a handler does. The request that was handled, or the one that was answered.
    fn handle(&mut self, engine: &mut FabricEngine, mut delivery: Box<Delivery>, handler: u8) -> (u32, bool) {
        let id = delivery.head.args()[0] as u32;
        let is_request = delivery.is_request();
        if is_request {
            let mut bytes = vec![0; delivery.payload_len()];
            if let Some(place) = &delivery.place {
                place.read(delivery.start, &mut bytes);
            }
            let expected = if handler == ASK_BULK { Some(BULK) } else { length_of(id) };
            assert!(bytes == payload(id, expected.unwrap_or(0)), "request {id} has what was sent");
            if !id.is_multiple_of(UNANSWERED) {
                self.core.connections.get_mut(delivery.connection).unwrap().credits.has_handled();
                let args = [id as i32, answer_to(id)];
                let answer = Answer { kind: Kind::ReplyShort, handler: ANSWER, words: [0; 3], args: &args };
                self.core.answer::<_, Off>(engine, delivery.connection, &answer, NO_DATA).expect("the requester is there");
                delivery.has_replied = true;
            }
        } else {
            assert_eq!(delivery.head.args()[1], answer_to(id), "the answer to {id}");
        }
        assert!(self.core.put_back(delivery.endpoint, delivery.head.handler, handler).is_none());
        if is_request && !delivery.has_replied && self.core.owes(delivery.connection) {
            self.core.tell_one(engine, delivery.connection);
        }
        let inbox = self.core.inbox;
        if let Some(place) = delivery.place.take() {
            place.give_back(engine, inbox);
        }
        self.core.spare = Some(delivery);
        (id, is_request)
    }
}

impl Net {
    fn new(seed: u64) -> Self {
        let plan = "loss=0.02,dup=0.02,reorder=0.05:20us".parse().unwrap();
        let mut world = World::new(Topology::star(HOSTS, LinkSpec::default()).unwrap(), &plan, WorldConfig::default(), seed).unwrap();
        let (mut hosts, names): (Vec<Host>, Vec<Vec<Name>>) = (0..HOSTS).map(|host| world.with(host, |engine| Host::new(engine, host))).unzip();
        for (number, host) in hosts.iter_mut().enumerate() {
            for program in 0..ENDPOINTS_EACH {
                for peer in 0..PEERS {
                    let random = mix(seed ^ (number * ENDPOINTS_EACH + program) as u64 ^ (peer as u64) << 40) as usize;
                    // Endpoints with a segment ask each other.
                    let other = if program == 0 { 0 } else { 1 + (random >> 20) % (ENDPOINTS_EACH - 1) };
                    let endpoint = host.programs[program].endpoint;
                    host.core.map(endpoint, peer as u32, names[random % HOSTS][other], TAG).unwrap();
                }
            }
        }
        Self { world, hosts, fates: BTreeMap::new() }
    }

    /// All that a host can do now.
    fn turn(&mut self, number: usize) {
        let (host, world) = (&mut self.hosts[number], &mut self.world);
        loop {
            let step = world.with(number, |engine| {
                if host.acceptor.is_asked(engine) {
                    host.acceptor.accept(engine);
                }
                host.core.step::<_, Off>(engine)
            });
            match step {
                Step::Nothing => break,
                Step::Moved => {}
                Step::Run(delivery, handler) => {
                    let (id, is_request) = world.with(number, |engine| host.handle(engine, delivery, handler));
                    let fate = self.fates.entry(id).or_default();
                    if is_request {
                        fate.handled += 1;
                    } else {
                        fate.answered += 1;
                        host.programs[(id / REQUESTS) as usize % ENDPOINTS_EACH].out -= 1;
                    }
                }
                Step::Return(_, _, returned) => panic!("{returned:?}"),
                Step::Departure(..) => panic!("nobody listens for departures"),
                Step::Elsewhere(..) => panic!("nobody has moved"),
            }
        }
        for program in 0..ENDPOINTS_EACH {
            loop {
                let p = &host.programs[program];
                // Bulk data is not touched before it was answered for.
                let window = if program == 0 { 1 } else { WINDOW };
                if p.sent == REQUESTS || p.out >= window {
                    break;
                }
                let sent = p.sent;
                if !world.with(number, |engine| host.send(engine, number, program, sent)) {
                    break;
                }
                let p = &mut host.programs[program];
                p.sent += 1;
                // A program that gets no reply cannot wait for it; of bulk the next one would
                // overwrite it.
                p.out += usize::from(!id_of(number, program, sent).is_multiple_of(UNANSWERED) || program == 0);
            }
        }
        // A bulk message without reply is over when it is counted as handled.
        let p = &mut host.programs[0];
        if p.out == 1 && p.sent > 0 && id_of(number, 0, p.sent - 1).is_multiple_of(UNANSWERED) {
            let endpoint = p.endpoint;
            p.out = usize::from(host.core.connections.iter().any(|(_, c)| c.endpoint == endpoint && c.credits.outstanding() > 0));
        }
    }

    fn is_done(&self) -> bool {
        let sent = |host: &Host| host.programs.iter().all(|p| p.sent == REQUESTS && p.out == 0);
        self.hosts.iter().all(sent) && self.hosts.iter().all(|host| host.core.connections.iter().all(|(_, c)| c.credits.outstanding() == 0))
    }

    fn run(&mut self) {
        (0..HOSTS).for_each(|host| self.turn(host));
        let deadline = self.world.now() + Duration::from_secs(120);
        let mut events = 0u64;
        while !(events.is_multiple_of(1024) && self.is_done()) {
            events += 1;
            match self.world.step(deadline) {
                Happened::Turn(host) => self.turn(host),
                Happened::Limit | Happened::Quiet => break,
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_thousand_endpoints_under_loss() {
    let seeds = std::env::var("BELLWIRE_AM_SEEDS").map_or(1, |n| n.parse::<u64>().expect("a number"));
    for seed in 1..=seeds {
        let mut net = Net::new(seed);
        net.run();
        assert!(net.is_done(), "seed {seed}: something waits at {:?}", net.world.now());
        assert_eq!(net.fates.len(), HOSTS * ENDPOINTS_EACH * REQUESTS as usize, "seed {seed}");
        for (id, fate) in &net.fates {
            let answered = u32::from(!id.is_multiple_of(UNANSWERED));
            assert_eq!(*fate, Fate { handled: 1, answered }, "seed {seed}, request {id}");
        }
        let fabric = net.world.fabric();
        let statistics = fabric.statistics();
        println!("seed {seed}: {} requests in {:?} of virtual time; {statistics:?}", net.fates.len(), net.world.now());
        assert!(net.hosts.iter().all(|host| !host.segment.is_empty()));
    }
}
