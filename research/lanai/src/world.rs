// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two hosts, a NIC each, and their virtual time.
//!
//! The program of each host is a thread. One of them runs at a time: the one that runs goes on
//! until it is so far ahead of the other that a packet of the other could have reached it. So what
//! it sees is what it would see in time's order, however the threads are scheduled, and a run gives
//! the same figures each time.
//!
//! A call first lets its time pass, and then looks or acts. Before time runs (`Costs` are not set)
//! everything happens at once: connections are made so.

use crate::costs::Costs;
use crate::nic::{Nic, Packet, Posted, Time, ahead, gathered, scatter};
use bellwire_amvia::probe::{Probe, Stage};
use bellwire_vipl_abi::Descriptor;
use std::alloc::Layout;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A request for a connection.
#[derive(Debug)]
pub struct Ask {
    /// Its number.
    pub id: usize,
    /// Where it is for.
    pub to: Vec<u8>,
    /// The asker's host, VI and address.
    pub host: usize,
    /// See `host`.
    pub vi: usize,
    /// See `host`.
    pub from: bellwire_vipl_calls::Address,
    /// Somebody has taken it.
    pub is_taken: bool,
    /// The answer: the peer's offer, or that it is refused.
    pub answer: Option<Option<usize>>,
}

/// A host.
#[derive(Debug, Default)]
pub struct Host {
    /// Its NIC.
    pub nic: Nic,
    /// Registered memory: handle, first byte and bytes.
    pub regions: BTreeMap<u32, (u64, u64)>,
    /// Memory that the library has given.
    pub blocks: BTreeMap<usize, Layout>,
    /// The NIC is closed.
    pub is_closed: bool,
    last: u32,
    /// Its program is so far, or over.
    clock: Time,
    is_done: bool,
}

impl Host {
    /// Registers memory.
    pub fn register(&mut self, address: u64, length: u64) -> u32 {
        self.last += 1;
        self.regions.insert(self.last, (address, length));
        self.last
    }

    fn holds(&self, address: u64, length: u64, handle: u32) -> bool {
        let end = address.checked_add(length);
        self.regions.get(&handle).is_some_and(|(first, bytes)| address >= *first && end.is_some_and(|end| end <= first + bytes))
    }

    /// Whether a descriptor may be posted: a send or a receive in registered memory.
    ///
    /// # Safety
    /// Memory that is registered is mapped.
    pub unsafe fn may_post(&self, address: usize, handle: u32) -> bool {
        if !self.holds(address as u64, size_of::<Descriptor>() as u64, handle) {
            return false;
        }
        // SAFETY: registered memory, as the caller has promised.
        let made = unsafe { std::ptr::with_exposed_provenance::<Descriptor>(address).read() };
        let segments = made.segments.get(..usize::from(made.segment_count));
        made.control == 0 && segments.is_some_and(|all| all.iter().all(|one| self.holds(one.address, u64::from(one.length), one.handle)))
    }
}

/// What both threads use.
#[derive(Debug, Default)]
pub struct World {
    /// The hosts.
    pub hosts: [Host; 2],
    /// Requests for connections.
    pub asks: Vec<Ask>,
    /// Requests so far.
    pub ask_count: usize,
    /// The costs; `None`: time does not run.
    pub costs: Option<Arc<Costs>>,
    running: usize,
}

impl World {
    /// A send before time runs: it is there at once. `false`: its receiver has no receive posted.
    pub fn carry(&mut self, host: usize, vi: usize, address: usize) -> bool {
        let posted = Posted { address, at: 0 };
        // SAFETY: N1 of `nic.rs`.
        let bytes = gathered(&unsafe { std::ptr::with_exposed_provenance::<Descriptor>(address).read() });
        let Some(peer) = self.hosts[host].nic.vis[vi].peer else { return false };
        let Some(receive) = self.hosts[1 - host].nic.vis[peer].posted[1].pop_front() else { return false };
        scatter(receive, &bytes);
        self.hosts[host].nic.finish(vi, false, posted.address);
        self.hosts[1 - host].nic.finish(peer, true, receive.address);
        true
    }

    /// Has time begin.
    ///
    /// # Panics
    /// If something of before is on its way.
    pub fn begin(&mut self, costs: Costs) {
        assert!(self.hosts.iter().all(|host| host.nic.is_quiet()), "something is on its way");
        for host in &mut self.hosts {
            host.nic.restart();
            (host.clock, host.is_done) = (0, false);
        }
        (self.costs, self.running) = (Some(Arc::new(costs)), 0);
    }

    /// Both NICs do all that they begin before their hosts' time, unless a packet that is not known
    /// yet could come before.
    fn advance(&mut self, costs: &Costs) {
        loop {
            // A host that is done does nothing any more.
            let clock = |host: usize| if self.hosts[host].is_done { Time::MAX } else { self.hosts[host].clock };
            // What the other host has not done yet can arrive from then on.
            let bound = |host: usize| clock(host).min(clock(1 - host).saturating_add(ahead(costs)));
            let due = (0..2).filter(|host| self.hosts[*host].nic.at < bound(*host)).min_by_key(|host| self.hosts[*host].nic.at);
            let Some(host) = due else { return };
            if let Some(packet) = self.hosts[host].nic.step(costs) {
                self.arrive(1 - host, packet);
            }
        }
    }

    fn arrive(&mut self, host: usize, packet: Packet) {
        self.hosts[host].nic.arrivals.push_back(packet);
    }

    /// Time stops, and packets under way arrive.
    fn settle(&mut self, costs: &Costs) {
        let end = self.hosts.iter().map(|host| host.clock).max().unwrap_or(0) + 1_000_000;
        for host in &mut self.hosts {
            (host.clock, host.is_done) = (end, false);
        }
        self.advance(costs);
    }
}

/// Two hosts with their time.
#[derive(Debug)]
pub struct Cluster {
    /// Names it among all that there are.
    pub id: usize,
    world: Mutex<World>,
    turn: Condvar,
    /// A request for a connection is new or answered, or a NIC is closed.
    pub met: Condvar,
}

static CLUSTERS: Mutex<(usize, BTreeMap<usize, Arc<Cluster>>)> = Mutex::new((0, BTreeMap::new()));

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A cluster that can be found by its number while this lives.
#[derive(Debug)]
pub struct Found(Arc<Cluster>);

impl Found {
    /// Two hosts.
    pub fn new() -> Self {
        let mut all = lock(&CLUSTERS);
        all.0 += 1;
        let id = all.0;
        let cluster = Arc::new(Cluster { id, world: Mutex::default(), turn: Condvar::new(), met: Condvar::new() });
        all.1.insert(id, Arc::clone(&cluster));
        Self(cluster)
    }
}

impl Default for Found {
    fn default() -> Self {
        Self::new()
    }
}

impl std::ops::Deref for Found {
    type Target = Arc<Cluster>;

    fn deref(&self) -> &Arc<Cluster> {
        &self.0
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        lock(&CLUSTERS).1.remove(&self.0.id);
    }
}

/// The time of the program that runs on this thread, and where it went.
#[derive(Debug, Default, Clone)]
struct Tally {
    code: [Time; Stage::COUNT],
    spent: [Time; Stage::COUNT],
    last: Time,
}

thread_local! {
    static NOW: Cell<Time> = const { Cell::new(0) };
    static TALLY: RefCell<Tally> = RefCell::default();
}

impl Cluster {
    /// The one of that number.
    pub fn find(id: usize) -> Option<Arc<Self>> {
        lock(&CLUSTERS).1.get(&id).cloned()
    }

    /// The state, beside time.
    pub fn lock(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    /// Waits for [`Self::met`].
    pub fn wait<'a>(&self, world: MutexGuard<'a, World>) -> MutexGuard<'a, World> {
        self.met.wait(world).unwrap_or_else(PoisonError::into_inner)
    }

    /// A call of a host's program that takes `cost` of these: the state at its end, and the costs.
    /// No costs: time does not run.
    pub fn enter(&self, host: usize, cost: impl FnOnce(&Costs) -> Time) -> (MutexGuard<'_, World>, Option<Arc<Costs>>) {
        let mut world = self.lock();
        let Some(costs) = world.costs.clone() else { return (world, None) };
        pass(cost(&costs));
        let (now, ahead) = (now(), ahead(&costs));
        world.hosts[host].clock = now;
        loop {
            if world.running == host {
                let other = &world.hosts[1 - host];
                if other.is_done || now <= other.clock + ahead {
                    break;
                }
                world.running = 1 - host;
                self.turn.notify_all();
            }
            world = self.turn.wait(world).unwrap_or_else(PoisonError::into_inner);
        }
        world.advance(&costs);
        (world, Some(costs))
    }

    /// Runs the hosts' programs with these costs, and gives what the first one gives.
    ///
    /// # Panics
    /// If a program panics.
    pub fn run<T: Send>(self: &Arc<Self>, costs: &Costs, first: impl FnOnce() -> T + Send, second: impl FnOnce() + Send) -> T {
        self.lock().begin(costs.clone());
        let found = std::thread::scope(|scope| {
            scope.spawn(|| {
                let _program = Program::begin(self, 1, costs);
                second();
            });
            let _program = Program::begin(self, 0, costs);
            first()
        });
        let mut world = self.lock();
        world.settle(costs);
        world.costs = None;
        found
    }
}

/// A host's program: when it ends, the other one goes on alone.
struct Program<'a>(&'a Cluster, usize);

impl<'a> Program<'a> {
    fn begin(cluster: &'a Cluster, host: usize, costs: &Costs) -> Self {
        NOW.set(0);
        TALLY.set(Tally { code: costs.host.code, ..Tally::default() });
        Self(cluster, host)
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        let mut world = self.0.lock();
        world.hosts[self.1].is_done = true;
        world.running = 1 - self.1;
        self.0.turn.notify_all();
    }
}

/// The time of this thread's program.
pub fn now() -> Time {
    NOW.get()
}

/// The program of this thread computes for so long.
pub fn pass(time: Time) {
    NOW.set(NOW.get() + time);
}

/// Where the program's time has gone since this was asked last, by the step that it was spent for.
pub fn spent() -> [Time; Stage::COUNT] {
    TALLY.with_borrow_mut(|tally| {
        tally.last = now();
        std::mem::replace(&mut tally.spent, [0; Stage::COUNT])
    })
}

/// Lets the mapping's own code take its time: what each step costs passes at its mark.
#[derive(Debug)]
pub enum Charged {}

impl Probe<Stage> for Charged {
    fn mark(stage: Stage) {
        TALLY.with_borrow_mut(|tally| {
            pass(tally.code[stage as usize]);
            tally.spent[stage as usize] += now() - tally.last;
            tally.last = now();
        });
    }
}
