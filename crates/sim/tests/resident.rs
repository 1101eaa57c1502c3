// SPDX-License-Identifier: MIT OR Apache-2.0
//! More endpoints than frames, on a network that loses, doubles and reorders: each message arrives,
//! or comes back, in time and once; no frame is lost.

use bellwire_faults::Random;
use bellwire_proto::{Config, ReturnReason};
use bellwire_residency::{Config as Frames, EndpointId, Policy, State};
use bellwire_sim::resident::{EndpointNic, EndpointWorld, Message, MoveTimes, NicConfig, NicTimes};
use bellwire_sim::{Duration, Instant, LinkSpec, Topology};
use std::collections::BTreeMap;

/// Replies have this bit in their number.
const REPLY: u64 = 1 << 40;
/// Virtual time after which all must be over.
const LIMIT: Instant = Instant(60_000_000_000);

#[derive(Default)]
struct Fate {
    delivered: u32,
    returned: Option<ReturnReason>,
}

struct Trial {
    seed: u64,
    world: EndpointWorld,
    endpoints: u32,
    frames: usize,
    fates: BTreeMap<u64, Fate>,
    posted: u64,
    random: Random,
}

impl Trial {
    fn new(seed: u64, faults: &str) -> Self {
        let mut random = Random::new(seed, 1);
        let nodes = random.within(2, 4) as u32;
        let (frames, endpoints) = (random.within(1, 4) as usize, random.within(2, 12) as u32);
        let policy = [Policy::LeastRecentlyUsed, Policy::Random, Policy::LongestResident][random.below(3) as usize];
        let topology = Topology::star(nodes as usize, LinkSpec::default()).unwrap();
        let residency = Frames { frames, policy, remaps_max: random.within(1, 2) as usize, ..Frames::default() };
        let times = MoveTimes {
            load: Duration::from_micros(random.within(1, 500)),
            unload: Duration::from_micros(random.within(1, 500)),
            image_bytes: random.below(8192),
        };
        let loiter = random.within(1, 32) as u32;
        let micros = |random: &mut Random, most: u64| Duration(random.below(most * 1000));
        let nic_times = match seed % 2 {
            0 => NicTimes::default(),
            _ => NicTimes {
                packet: micros(&mut random, 5),
                switch: micros(&mut random, 5),
                look: micros(&mut random, 2),
                dma: micros(&mut random, 2),
                bus_bytes_per_second: random.within(10_000_000, 1_000_000_000),
            },
        };
        let inbox_max = random.within(2, 40) as usize;
        let transport = Config { refusals_max: 10_000, ..Config::default() };
        let (transport, residency) = (&transport, &residency);
        let config = |nic| NicConfig {
            nic,
            peers: Vec::new(),
            endpoints,
            inbox_max,
            loiter,
            nic_times,
            transport: transport.clone(),
            residency: residency.clone(),
            times,
        };
        let world = EndpointWorld::new(topology, &faults.parse().unwrap(), seed, config).unwrap();
        Self { seed, world, endpoints, frames, fates: BTreeMap::new(), posted: 0, random }
    }

    fn nics(&self) -> impl Iterator<Item = &EndpointNic> {
        (0..self.world.nics()).map(|nic| self.world.nic(nic))
    }

    fn post(&mut self, from: (u32, EndpointId), to: (u32, EndpointId), id: u64) {
        let payload = id.to_le_bytes().to_vec();
        assert!(self.fates.insert(id, Fate::default()).is_none());
        self.world.with(from.0 as usize, |nic, now| nic.post(now, Message { id, from, to, reply: id & REPLY != 0, payload }));
    }

    fn post_request(&mut self) {
        let nodes = self.world.nics() as u64;
        let from = self.random.below(nodes);
        let to = (from + self.random.within(1, nodes - 1)) % nodes;
        let [a, b] = [0; 2].map(|_: u32| EndpointId(self.random.below(self.endpoints.into()) as u32));
        self.posted += 1;
        self.post((from as u32, a), (to as u32, b), self.posted);
    }

    /// A program looks at its inboxes, and answers requests.
    fn programs(&mut self, nic: usize) {
        for endpoint in (0..self.endpoints).map(EndpointId) {
            while let Some(message) = self.world.nic_mut(nic).take(endpoint) {
                assert_eq!((message.to, message.payload), ((nic as u32, endpoint), message.id.to_le_bytes().to_vec()), "seed {}", self.seed);
                let fate = self.fates.get_mut(&message.id).unwrap();
                fate.delivered += 1;
                assert_eq!(fate.delivered, 1, "seed {}: message {:#x} came twice", self.seed, message.id);
                if message.id & REPLY == 0 {
                    self.post(message.to, message.from, message.id | REPLY);
                }
            }
        }
        while let Some((message, reason)) = self.world.nic_mut(nic).poll_failed() {
            let fate = self.fates.get_mut(&message.id).unwrap();
            assert!(fate.returned.replace(reason).is_none(), "seed {}: came back twice", self.seed);
        }
    }

    fn check(&self, nic: usize) {
        let residency = self.world.nic(nic).residency();
        let states = (0..self.endpoints).map(|e| residency.state(EndpointId(e)));
        let in_frames = states.filter(|s| !matches!(s, State::Host | State::Waiting(_))).count();
        assert!(in_frames <= self.frames, "seed {}: more endpoints than frames", self.seed);
    }

    /// The next thing happens, if there is one until then.
    fn step(&mut self, until: Instant) -> bool {
        let Some(nic) = self.world.step(until) else { return false };
        self.programs(nic);
        self.check(nic);
        true
    }

    fn is_over(&self) -> bool {
        self.nics().all(|n| n.waiting() == 0) && self.fates.values().all(|f| f.delivered == 1 || f.returned.is_some())
    }

    /// Posts messages in bursts, then waits until each has its fate. How many loads there were.
    fn run(&mut self, requests: u64) -> u64 {
        while self.posted < requests {
            (0..self.random.within(1, 20)).for_each(|_| self.post_request());
            let until = self.world.now() + Duration(self.random.below(3_000_000));
            while self.step(until) {}
        }
        while !self.is_over() {
            let goes_on = self.step(LIMIT);
            assert!(goes_on, "seed {}: somebody starves; waiting: {:?}", self.seed, self.nics().map(EndpointNic::waiting).collect::<Vec<_>>());
        }
        // Packets still in flight must not bring anything a second time.
        let until = self.world.now() + Duration::from_millis(500);
        while self.step(until) {}
        let replies = self.fates.iter().filter(|(id, f)| **id & REPLY == 0 && f.delivered == 1).count();
        assert_eq!(replies, self.fates.keys().filter(|id| *id & REPLY != 0).count());
        for (id, fate) in &self.fates {
            let down = matches!(fate.returned, Some(ReturnReason::Down(_)));
            assert!(fate.returned.is_none() || fate.delivered == 0 || down, "seed {}: {id:#x} came back and arrived", self.seed);
        }
        self.nics().map(|n| n.residency().statistics().loads).sum()
    }
}

fn seeds() -> u64 {
    std::env::var("BELLWIRE_RESIDENT_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(16)
}

#[test]
fn nobody_starves_and_no_message_arrives_twice_or_arrives_and_comes_back() {
    let (mut loads, mut refused, mut stale, mut recalled) = (0, 0, 0, 0);
    for seed in 0..seeds() {
        let faults = match seed % 4 {
            0 => "",
            1 => "loss=0.05,dup=0.1,reorder=0.2:1ms",
            2 => "reorder=0.5:500us,dup=0.3",
            _ => "burst=0.02:0.3,jitter=300us,reorder=0.1",
        };
        let mut trial = Trial::new(seed, faults);
        loads += trial.run(150);
        for nic in trial.nics() {
            let s = nic.statistics();
            (refused, stale, recalled) = (refused + s.nacks_in, stale + s.nacks_stale, recalled + s.frames_returned);
        }
    }
    println!("{loads} loads, {refused} refusals followed, {stale} stale, {recalled} frames taken back");
    assert!(loads > 500 && refused > 500 && stale > 10 && recalled > 50, "the trials try nothing: {loads} {refused} {stale} {recalled}");
}
