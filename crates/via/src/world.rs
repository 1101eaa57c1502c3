// SPDX-License-Identifier: MIT OR Apache-2.0
//! Engines on a network in memory, stepped one after the other; time moves to where something
//! happens next.

use crate::engine::Engine;
use crate::time::{Duration, Instant};
use crate::wire::sim::{SimConfig, SimNetwork, SimWire};

/// Many NICs in one process and one thread, in virtual time.
///
/// ```
/// use bellwire_via::time::Duration;
/// use bellwire_via::wire::sim::SimConfig;
/// use bellwire_via::world::World;
/// use bellwire_via::{NetAddress, ViAttributes, ViState};
///
/// let mut world = World::with_nics(SimConfig { latency: Duration(5_000), ..SimConfig::default() }, 2);
/// let vi = [0, 1].map(|nic| {
///     let engine = world.engine(nic);
///     let tag = engine.create_ptag().unwrap();
///     engine.create_vi(&ViAttributes { ptag: Some(tag), ..ViAttributes::default() }, None, None, None).unwrap()
/// });
/// let [here, there] = [1, 2].map(|host| NetAddress::new(&[10, 0, 0, host], b"meeting").unwrap());
/// let deadline = world.now() + Duration::from_micros(1_000);
/// world.engine(0).peer_request(vi[0], &here, &there, deadline).unwrap();
/// world.engine(1).peer_request(vi[1], &there, &here, deadline).unwrap();
///
/// let is_connected = |world: &mut World, nic: usize| world.engine(nic).query_vi(vi[nic]).is_ok_and(|(state, ..)| state == ViState::Connected);
/// assert!(world.run_until(deadline, |world| (0..2).all(|nic| is_connected(world, nic))));
/// ```
#[derive(Debug)]
pub struct World {
    network: SimNetwork,
    seed: u64,
    turn: Duration,
    engines: Vec<Option<Engine<SimWire>>>,
}

impl World {
    /// A network without NICs.
    pub fn new(config: SimConfig) -> Self {
        let (seed, turn) = (config.seed, config.turn);
        Self { network: SimNetwork::new(config), seed, turn, engines: Vec::new() }
    }

    /// A network with `count` NICs at the addresses 10.0.0.1, 10.0.0.2, ...
    pub fn with_nics(config: SimConfig, count: usize) -> Self {
        let mut world = Self::new(config);
        for i in 0..count {
            world.attach(&[10, 0, ((i + 1) >> 8) as u8, (i + 1) as u8]);
        }
        world
    }

    /// Adds a NIC; its number.
    pub fn attach(&mut self, host: &[u8]) -> usize {
        let wire = self.network.attach(host);
        let nic = self.engines.len();
        debug_assert_eq!(nic, wire.nic());
        let mut engine = Engine::new(wire, self.seed.wrapping_add(nic as u64));
        engine.set_now(self.network.now());
        self.engines.push(Some(engine));
        nic
    }

    /// The network.
    pub fn network(&self) -> &SimNetwork {
        &self.network
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.network.now()
    }

    /// A NIC's engine.
    ///
    /// # Panics
    /// When the NIC is gone.
    pub fn engine(&mut self, nic: usize) -> &mut Engine<SimWire> {
        self.engines[nic].as_mut().expect("the NIC lives")
    }

    /// A NIC stops without a word and is gone, with its memory.
    pub fn crash(&mut self, nic: usize) {
        self.network.crash(nic);
        self.engines[nic] = None;
    }

    /// A NIC is closed in good order.
    pub fn close(&mut self, nic: usize) {
        self.engines[nic] = None;
    }

    /// One turn of every NIC, then time moves on: by a turn if somebody was busy, else to the next
    /// arrival or timeout. `false` (and time stands still) when nothing will ever happen unless
    /// somebody calls an engine.
    pub fn step(&mut self) -> bool {
        self.step_at_most(Instant::NEVER)
    }

    /// As [`step`](Self::step), but time does not go beyond `limit`; if nothing happens before, it
    /// goes there.
    pub fn step_at_most(&mut self, limit: Instant) -> bool {
        let now = self.network.now();
        let (mut busy, mut next) = (false, Instant::NEVER);
        for engine in self.engines.iter_mut().flatten() {
            engine.set_now(now);
            busy |= engine.progress();
            next = next.min(engine.next_timeout());
        }
        let soon = now + self.turn;
        let next = next.min(self.network.next_arrival());
        let then = if busy { soon } else { next }.min(limit);
        if then == Instant::NEVER {
            return false;
        }
        self.move_to(then.max(Instant(now.0 + 1)));
        true
    }

    /// Steps until `condition` holds, at most until `deadline`; whether it holds.
    pub fn run_until(&mut self, deadline: Instant, mut condition: impl FnMut(&mut Self) -> bool) -> bool {
        loop {
            if condition(self) {
                return true;
            }
            if self.now() >= deadline {
                return false;
            }
            self.step_at_most(deadline);
        }
    }

    /// Steps until nothing is left to happen, at most until `deadline`; whether all is quiet.
    pub fn run_until_quiet(&mut self, deadline: Instant) -> bool {
        while self.now() < deadline {
            if !self.step() {
                return true;
            }
        }
        false
    }

    /// Lets time pass with all that happens in it.
    pub fn run_for(&mut self, time: Duration) {
        let deadline = self.now() + time;
        self.run_until(deadline, |_| false);
    }

    fn move_to(&mut self, then: Instant) {
        self.network.advance_to(then);
        for engine in self.engines.iter_mut().flatten() {
            engine.set_now(self.network.now());
        }
    }
}
