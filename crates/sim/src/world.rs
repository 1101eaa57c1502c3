// SPDX-License-Identifier: MIT OR Apache-2.0
//! Engines on a fabric, one for each node, under one seed. Called by programs in virtual time:
//! tests, checkers, the `bellwire` command.
//!
//! ```text
//!   World::step -> Engine<PacketWire<FabricPort>> -> proto -> FabricPort -> Fabric -> FabricPort of another node -> ...
//! ```
//!
//! Invariants
//! - W1: what happens is a function of topology, plan, settings, seed and the calls.
//! - W2: an engine has a turn only when packets came, room came, its timer is due, it was called,
//!   or its last turn left something to do. Turns of one engine are [`WorldConfig::turn`] apart.
//! - W3: an engine is told the time of its node's clock, and no other.
//! - W4: a node that crashes loses its engine without a word; one that restarts has a new engine,
//!   with a new transport, at the same address.

use crate::fabric::hash;
use crate::port::{self, FabricPort};
use crate::{Fabric, FabricError, FabricEvent, FaultPlan, NodeId, Topology};
use bellwire_faults::Random;
use bellwire_proto::{Config, NicId};
use bellwire_time::{Duration, Instant};
use bellwire_via::wire::Wire as _;
use bellwire_via::wire::packet::PacketWire;
use bellwire_via::wire::udp::host_address;
use bellwire_via::{Engine, NetAddress};
use core::cmp::Reverse;
use core::net::SocketAddr;
use std::cell::{Ref, RefCell, RefMut};
use std::collections::BinaryHeap;
use std::rc::Rc;

/// An engine on a fabric.
pub type FabricEngine = Engine<PacketWire<FabricPort>>;

/// Port number of all NICs of a fabric.
pub const NIC_PORT: u16 = 4791;

/// What a world is like, besides its fabric.
#[derive(Clone, Debug)]
pub struct WorldConfig {
    /// Time that a turn of an engine takes; at least 1 ns.
    pub turn: Duration,
    /// Settings of all transports; name and life are set for each.
    pub transport: Config,
}

impl Default for WorldConfig {
    fn default() -> Self {
        // The fabric takes packets one by one, and knows no system calls: nothing is gained by runs
        // or by sharing packets, so neither is waited for. (Trials draw their settings themselves,
        // and have both.)
        Self { turn: Duration(200), transport: Config { run_packets_max: 1, join_delay: Duration(0), ..Config::default() } }
    }
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// The engine of this NIC had a turn: its programs should look.
    Turn(usize),
    /// This NIC is gone, with its engine.
    Crashed(usize),
    /// This NIC has a new engine.
    Restarted(usize),
    /// It is as late as it may become.
    Limit,
    /// Nothing will ever happen unless somebody calls an engine. It is as late as it may become.
    Quiet,
}

struct Nic {
    engine: Option<FabricEngine>,
    address: SocketAddr,
    host: Vec<u8>,
    /// How often it has been started.
    life: u64,
    /// When its next turn is; entries of the agenda with another time do not count.
    due: u64,
    /// When its last turn is over.
    free: u64,
    /// The time of its own clock for which it was put on the agenda last, as its timer.
    timer: Instant,
}

/// Many NICs in one process and one thread, in virtual time. See the crate's documentation for an
/// example.
pub struct World {
    fabric: Rc<RefCell<Fabric>>,
    config: WorldConfig,
    seed: u64,
    nics: Vec<Nic>,
    agenda: BinaryHeap<Reverse<(u64, u32)>>,
    /// Of what programs saw.
    seen: u64,
    turns: u64,
}

impl World {
    /// A NIC on each node of a topology, at the node's address and [`NIC_PORT`].
    ///
    /// # Errors
    /// As [`Fabric::new`].
    pub fn new(topology: Topology, plan: &FaultPlan, config: WorldConfig, seed: u64) -> Result<Self, FabricError> {
        let addresses: Vec<_> = (0..topology.nodes() as u32).map(|n| SocketAddr::new(topology.address(NodeId(n)), NIC_PORT)).collect();
        let fabric = Rc::new(RefCell::new(Fabric::new(topology, plan, seed)?));
        let nic = |address| Nic { engine: None, address, host: host_address(address), life: 0, due: u64::MAX, free: 0, timer: Instant::NEVER };
        let nics = addresses.into_iter().map(nic).collect();
        let config = WorldConfig { turn: Duration(config.turn.0.max(1)), ..config };
        let mut world = Self { fabric, config, seed, nics, agenda: BinaryHeap::new(), seen: seed, turns: 0 };
        (0..world.nics.len()).for_each(|nic| world.start(nic));
        Ok(world)
    }

    /// How many NICs there are, dead ones included.
    pub fn nics(&self) -> usize {
        self.nics.len()
    }

    /// Whether a NIC lives.
    pub fn lives(&self, nic: usize) -> bool {
        self.nics[nic].engine.is_some()
    }

    /// How often a NIC has been started.
    pub fn life(&self, nic: usize) -> u64 {
        self.nics[nic].life
    }

    /// The host address of a NIC.
    pub fn host(&self, nic: usize) -> &[u8] {
        &self.nics[nic].host
    }

    /// An address at a NIC.
    ///
    /// # Panics
    /// When the discriminator is longer than `via` allows.
    pub fn address(&self, nic: usize, discriminator: &[u8]) -> NetAddress {
        NetAddress::new(&self.nics[nic].host, discriminator).expect("a short discriminator")
    }

    /// The time, as no clock of a node shows it.
    pub fn now(&self) -> Instant {
        self.fabric.borrow().now()
    }

    /// Turns that engines have had.
    pub const fn turns(&self) -> u64 {
        self.turns
    }

    /// The fabric, to look at.
    pub fn fabric(&self) -> Ref<'_, Fabric> {
        self.fabric.borrow()
    }

    /// The fabric: crashes, partitions, links down, healing. What it does to NICs is told by
    /// [`step`](Self::step).
    pub fn fabric_mut(&mut self) -> RefMut<'_, Fabric> {
        self.fabric.borrow_mut()
    }

    /// A point of a node's clock, some time from now.
    pub fn after(&self, nic: usize, time: Duration) -> Instant {
        let fabric = self.fabric.borrow();
        port::local_time(&fabric, NodeId(nic as u32)) + time
    }

    /// Calls a NIC's engine, which has been told the time.
    ///
    /// # Panics
    /// When the NIC is dead.
    pub fn with<R>(&mut self, nic: usize, f: impl FnOnce(&mut FabricEngine) -> R) -> R {
        let fabric = self.fabric.borrow();
        let (now, local) = (fabric.now().0, port::local_time(&fabric, NodeId(nic as u32)));
        drop(fabric);
        let engine = self.nics[nic].engine.as_mut().expect("the NIC lives");
        engine.set_now(local);
        let before = engine.ready_vis();
        let result = f(engine);
        // A VI that waited for room before the call waits for packets, not for a turn.
        let has_work = engine.ready_vis() > before || engine.wire().has_events();
        // Since its last turn, which looked at the timer, most calls do not change it.
        if engine.next_timeout() != self.nics[nic].timer {
            self.wake_at_timeout(nic);
        }
        if has_work {
            self.wake(nic, now);
        }
        result
    }

    /// A NIC's engine, to look at; `None` if it is dead.
    pub fn engine(&self, nic: usize) -> Option<&FabricEngine> {
        self.nics[nic].engine.as_ref()
    }

    /// Something that a program saw goes into the digest.
    pub fn note(&mut self, word: u64) {
        self.seen = hash::fold(self.seen, word);
    }

    /// Of all packets, and of all that programs have [noted](Self::note). Runs with equal digests
    /// did the same.
    pub fn digest(&self) -> u64 {
        hash::fold(self.fabric.borrow().digest(), self.seen)
    }

    /// Does the next thing, which is at `limit` at the latest; time goes on to it.
    pub fn step(&mut self, limit: Instant) -> Happened {
        loop {
            if let Some(event) = self.poll_fabric() {
                return event;
            }
            let now = self.now();
            if let Some(nic) = self.pop_due(now.0) {
                self.turn(nic);
                return Happened::Turn(nic);
            }
            let next = self.next_turn().min(self.fabric.borrow().next_event());
            if next > limit || next == Instant::NEVER {
                if limit > now && limit != Instant::NEVER {
                    self.fabric.borrow_mut().advance_to(limit);
                }
                return if next == Instant::NEVER { Happened::Quiet } else { Happened::Limit };
            }
            self.fabric.borrow_mut().advance_to(next);
        }
    }

    /// Steps until a condition holds, at most until `deadline`; whether it holds.
    pub fn run_until(&mut self, deadline: Instant, mut condition: impl FnMut(&mut Self) -> bool) -> bool {
        loop {
            if condition(self) {
                return true;
            }
            if matches!(self.step(deadline), Happened::Limit | Happened::Quiet) {
                return condition(self);
            }
        }
    }

    /// Lets time pass with all that happens in it.
    pub fn run_for(&mut self, time: Duration) {
        let deadline = self.now() + time;
        self.run_until(deadline, |_| false);
    }

    // ---- inside

    /// Handles the fabric's events: nodes that died, nodes that live again, arrived packets, ports
    /// that can send.
    fn poll_fabric(&mut self) -> Option<Happened> {
        let mut fabric = self.fabric.borrow_mut();
        let now = fabric.now().0;
        while let Some(port) = fabric.poll_readable().or_else(|| fabric.poll_writable()) {
            if let Some(node) = fabric.node_of(port) {
                let nic = &mut self.nics[node.0 as usize];
                wake(&mut self.agenda, nic, node.0, now);
            }
        }
        let event = fabric.poll_event()?;
        drop(fabric);
        Some(match event {
            FabricEvent::Crashed(node) => {
                let nic = &mut self.nics[node.0 as usize];
                nic.engine = None;
                nic.due = u64::MAX;
                Happened::Crashed(node.0 as usize)
            }
            FabricEvent::Restarted(node) => {
                self.start(node.0 as usize);
                Happened::Restarted(node.0 as usize)
            }
        })
    }

    /// A new engine. If the node has crashed again meanwhile, another restart will come.
    fn start(&mut self, nic: usize) {
        let node = NodeId(nic as u32);
        let attached = self.fabric.borrow_mut().attach(self.nics[nic].address);
        let Ok(port) = attached else { return };
        let n = &mut self.nics[nic];
        n.life += 1;
        let mut name = [0; 16];
        name[..8].copy_from_slice(&Random::mix(self.seed, nic as u64).to_le_bytes());
        name[8..].copy_from_slice(&(nic as u64 + 1).to_le_bytes());
        let transport = Config { nic: NicId(name), boot: n.life, checksum: self.config.transport.keys.is_none(), ..self.config.transport.clone() };
        let seed = Random::mix(Random::mix(self.seed, 0xe_96_1e), (nic as u64) << 32 | n.life);
        let port = FabricPort::new(Rc::clone(&self.fabric), node, port, self.config.transport.keys.is_none());
        let mut engine = Engine::new(PacketWire::new(port, transport, &n.host, seed), seed);
        let fabric = self.fabric.borrow();
        engine.set_now(port::local_time(&fabric, node));
        n.engine = Some(engine);
        n.timer = Instant::NEVER;
    }

    fn turn(&mut self, nic: usize) {
        let fabric = self.fabric.borrow();
        let (now, local) = (fabric.now().0, port::local_time(&fabric, NodeId(nic as u32)));
        drop(fabric);
        let n = &mut self.nics[nic];
        n.free = now + self.config.turn.0;
        let Some(engine) = &mut n.engine else { return };
        self.turns += 1;
        engine.set_now(local);
        let moved = engine.progress();
        // A turn takes a bounded number of packets.
        let again = moved || engine.wire().has_events() || self.fabric.borrow().is_readable(engine.wire().port().port());
        self.wake_at_timeout(nic);
        if again {
            self.wake(nic, now);
        }
    }

    fn wake(&mut self, nic: usize, at: u64) {
        wake(&mut self.agenda, &mut self.nics[nic], nic as u32, at);
    }

    fn wake_at_timeout(&mut self, nic: usize) {
        let Some(engine) = &self.nics[nic].engine else { return };
        let timer = engine.next_timeout();
        self.nics[nic].timer = timer;
        let at = port::global_time(&self.fabric.borrow(), NodeId(nic as u32), timer);
        self.wake(nic, at.0);
    }

    fn next_turn(&mut self) -> Instant {
        while let Some(Reverse((at, nic))) = self.agenda.peek() {
            if self.nics[*nic as usize].due == *at {
                return Instant(*at);
            }
            self.agenda.pop();
        }
        Instant::NEVER
    }

    fn pop_due(&mut self, now: u64) -> Option<usize> {
        if self.next_turn().0 > now {
            return None;
        }
        let Reverse((_, nic)) = self.agenda.pop()?;
        self.nics[nic as usize].due = u64::MAX;
        Some(nic as usize)
    }
}

/// A NIC has a turn at a time, or when its last one is over.
fn wake(agenda: &mut BinaryHeap<Reverse<(u64, u32)>>, nic: &mut Nic, number: u32, at: u64) {
    if at == u64::MAX {
        return;
    }
    let at = at.max(nic.free);
    if nic.engine.is_some() && at < nic.due {
        nic.due = at;
        agenda.push(Reverse((at, number)));
    }
}

impl core::fmt::Debug for World {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("World").field("now", &self.now()).field("nics", &self.nics.len()).field("turns", &self.turns).finish_non_exhaustive()
    }
}
