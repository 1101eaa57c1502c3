// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which endpoints of a NIC are in its few frames: loaded on demand, unloaded to make room. A state
//! machine without clock, memory or transport; called by the driver of a NIC, between the
//! transport's deliveries and its endpoints (the simulator; later a daemon that serves the
//! endpoints of many users).
//!
//! ```text
//!              demand             Load, loaded()
//!   Host ------------> Waiting -------------------> Resident
//!     ^                                                | Quiesce
//!     |       Unload, unloaded()         settled()     v
//!     +--------------------- Unloading <----------- Quiescing
//! ```
//!
//! [`Residency::access`] is the one gate: a send or an arrived message asks whether the endpoint is
//! resident, and if not, it is demanded. What the caller has to do comes as [`Action`]s; it says
//! when they are done.
//!
//! Invariants
//! - R1: a frame belongs to at most one endpoint, and none is lost.
//! - R2: demands are met in their order, each endpoint being in the queue at most once.
//! - R3: while somebody waits, an action is under way, or [`Residency::next_timeout`] says when one
//!   will be.
//! - R4: an endpoint keeps its frame for [`Config::stay`] and a part of it that is drawn: what it
//!   was loaded for gets its chance. With equal stays the turns of busy NICs fall into step, and a
//!   sender and its receiver are never resident at once; with drawn ones they are, in the end. An
//!   endpoint that has done what it was loaded for ([`Residency::done`]) makes room before that.
//! - R5: an endpoint that cannot settle does not stop the others: after [`Config::patience`]
//!   another one quiesces, in the end all of them.
//! - R6: owners share the frames ([`Residency::set_owner`]). The owner with the fewest frames is
//!   served first, and takes from the one with the most: of an owner that has more than its share
//!   it need not wait for the end of a stay. One alone may have all frames.
//!
//! An endpoint settles when each message that it has sent is known to be taken or known not to be
//! (the transport's `recall`); by R5 and since every message is answered, that comes.

#![forbid(unsafe_code)]

mod choice;
mod config;
mod idle;
mod queue;

pub use bellwire_time::{Duration, Instant};
pub use config::{Config, Policy};

use idle::Idle;
use queue::Queue;
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeSet, VecDeque};

/// An endpoint: its place in the caller's numbering from 0, which should have no large gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub u32);

/// A frame of the NIC, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub u32);

/// Where an endpoint stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// In host memory, and nobody wants it.
    #[default]
    Host,
    /// In host memory, wanted since then.
    Waiting(Instant),
    /// Its image is on the way into the frame.
    Loading(FrameId),
    /// In the frame: it sends and receives.
    Resident(FrameId),
    /// In the frame, to be unloaded: it does not send, what comes for it is refused, until what it
    /// has sent is settled.
    Quiescing(FrameId),
    /// Its image is on the way out.
    Unloading(FrameId),
}

/// What the caller has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Take back what the endpoint has sent and nobody took, until nothing is open; then
    /// [`Residency::settled`].
    Quiesce(EndpointId),
    /// Move the endpoint out of the frame; then [`Residency::unloaded`].
    Unload(EndpointId, FrameId),
    /// Move the endpoint into the frame; then [`Residency::loaded`].
    Load(EndpointId, FrameId),
}

/// The counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Endpoints loaded.
    pub loads: u64,
    /// Endpoints unloaded.
    pub unloads: u64,
    /// Accesses to endpoints that were not resident.
    pub faults: u64,
    /// Victims chosen because the one before could not settle in time.
    pub impatient: u64,
    /// Time that endpoints waited from the first demand until they were resident: all together, and
    /// the longest.
    pub waited: Duration,
    /// See [`Statistics::waited`].
    pub waited_max: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) state: State,
    /// The first demand of the load under way.
    wanted: Instant,
    pub(crate) loaded: Instant,
    /// It keeps its frame until then.
    pub(crate) kept: Instant,
    pub(crate) used: Option<Instant>,
    /// It has nothing to do now.
    pub(crate) done: bool,
    pub(crate) owner: u32,
    quiescing_since: Instant,
    /// Its quiescing took too long, and no longer counts as the remap under way.
    late: bool,
    /// Somebody wanted it while it was leaving.
    missed: bool,
}

/// The frames of a NIC, and the endpoints in them. Times must not go backward.
#[derive(Debug)]
pub struct Residency {
    pub(crate) config: Config,
    pub(crate) entries: Vec<Entry>,
    /// The endpoint in each frame.
    pub(crate) frames: Vec<Option<EndpointId>>,
    /// Frames without one.
    free: BTreeSet<u32>,
    /// The endpoints whose remaps are under way, in the order in which they began.
    moving: Vec<EndpointId>,
    /// The resident ones that have done their work.
    idle: Idle,
    /// Nobody made room for this owner: until then, and while the count of changes is this.
    refused: Option<(u32, u64, Instant)>,
    /// Changes of what is resident, idle, wanted or whose.
    changes: u64,
    waiting: Queue,
    actions: VecDeque<Action>,
    pub(crate) rng: Pcg64Mcg,
    statistics: Statistics,
    now: Instant,
    timeout: Instant,
}

impl Residency {
    /// All frames are empty. `seed` draws how long endpoints stay, and victims under
    /// [`Policy::Random`]; it should differ between NICs.
    pub fn new(config: Config, seed: u64) -> Self {
        let config = config.bounded();
        Self {
            frames: vec![None; config.frames],
            free: (0..config.frames as u32).collect(),
            moving: Vec::new(),
            idle: Idle::default(),
            refused: None,
            changes: 0,
            config,
            entries: Vec::new(),
            waiting: Queue::default(),
            actions: VecDeque::new(),
            rng: Pcg64Mcg::seed_from_u64(seed),
            statistics: Statistics::default(),
            now: Instant(0),
            timeout: Instant::NEVER,
        }
    }

    /// Where an endpoint stands; one that was never named is in host memory.
    pub fn state(&self, endpoint: EndpointId) -> State {
        self.entries.get(endpoint.0 as usize).map_or(State::Host, |e| e.state)
    }

    /// Whose endpoint this is; 0 if nothing is said. To be called while it is in host memory and
    /// nobody wants it.
    pub fn set_owner(&mut self, endpoint: EndpointId, owner: u32) {
        self.grow(endpoint);
        debug_assert_eq!(self.state(endpoint), State::Host, "the frames of owners are counted");
        self.entry(endpoint).owner = owner;
    }

    fn grow(&mut self, endpoint: EndpointId) {
        let place = endpoint.0 as usize;
        if place >= self.entries.len() {
            self.entries.resize(place + 1, Entry::default());
        }
    }

    /// A resident endpoint has done what it was loaded for, and may make room at once, until it is
    /// accessed again.
    pub fn done(&mut self, now: Instant, endpoint: EndpointId) {
        self.now = self.now.max(now);
        let now = self.now;
        if let Some(entry) = self.entries.get_mut(endpoint.0 as usize)
            && matches!(entry.state, State::Resident(_))
        {
            if !entry.done {
                entry.done = true;
                entry.kept = entry.kept.min(now);
                self.idle.insert(self.config.policy, endpoint, entry);
                self.changes += 1;
            }
            if !self.waiting.is_empty() {
                self.plan();
            }
        }
    }

    /// A resident endpoint keeps its frame until then at least: what it was loaded for comes later.
    pub fn keep(&mut self, endpoint: EndpointId, until: Instant) {
        if let Some(entry) = self.entries.get_mut(endpoint.0 as usize)
            && matches!(entry.state, State::Resident(_))
        {
            entry.kept = entry.kept.max(until);
            self.changes += 1;
        }
    }

    /// The endpoint sends, or a message has come for it: its frame, if it is resident. If not, it
    /// is demanded; a sender waits, a message is refused as not resident.
    pub fn access(&mut self, now: Instant, endpoint: EndpointId) -> Option<FrameId> {
        self.now = self.now.max(now);
        let now = self.now;
        self.grow(endpoint);
        let entry = &mut self.entries[endpoint.0 as usize];
        if let State::Resident(frame) = entry.state {
            if entry.done {
                self.idle.remove(self.config.policy, endpoint, entry);
            }
            (entry.used, entry.done) = (Some(now), false);
            return Some(frame);
        }
        match entry.state {
            State::Host => {
                self.wait(endpoint);
                self.plan();
            }
            State::Quiescing(_) | State::Unloading(_) => entry.missed = true,
            _ => {}
        }
        self.statistics.faults += 1;
        None
    }

    fn wait(&mut self, endpoint: EndpointId) {
        let now = self.now;
        let entry = self.entry(endpoint);
        entry.state = State::Waiting(now);
        let owner = entry.owner;
        let is_new = self.waiting.push(owner, endpoint);
        self.changes += u64::from(is_new);
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The image of an endpoint has come into its frame.
    ///
    /// # Panics
    /// If that was not asked for.
    pub fn loaded(&mut self, now: Instant, endpoint: EndpointId) {
        self.now = self.now.max(now);
        let now = self.now;
        let kept = now + self.draw_stay();
        let entry = self.entry(endpoint);
        let State::Loading(frame) = entry.state else { panic!("{endpoint:?} is loaded, but was {:?}", entry.state) };
        *entry = Entry { state: State::Resident(frame), loaded: now, kept, used: None, done: false, ..*entry };
        let waited = now.since(entry.wanted);
        self.has_moved(endpoint);
        self.statistics.loads += 1;
        self.statistics.waited = Duration(self.statistics.waited.0 + waited.0);
        self.statistics.waited_max = self.statistics.waited_max.max(waited);
        self.plan();
    }

    /// Nothing that a quiescing endpoint has sent is open any more.
    ///
    /// # Panics
    /// If it does not quiesce.
    pub fn settled(&mut self, now: Instant, endpoint: EndpointId) {
        self.now = self.now.max(now);
        let entry = self.entry(endpoint);
        let State::Quiescing(frame) = entry.state else { panic!("{endpoint:?} is settled, but was {:?}", entry.state) };
        (entry.state, entry.late) = (State::Unloading(frame), false);
        self.actions.push_back(Action::Unload(endpoint, frame));
    }

    /// The image of an endpoint has left its frame. It waits again if it has more to send
    /// (`wanted`), or was accessed since it began to quiesce.
    ///
    /// # Panics
    /// If that was not asked for.
    pub fn unloaded(&mut self, now: Instant, endpoint: EndpointId, wanted: bool) {
        self.now = self.now.max(now);
        let entry = self.entry(endpoint);
        let State::Unloading(frame) = entry.state else { panic!("{endpoint:?} is unloaded, but was {:?}", entry.state) };
        let wanted = wanted || entry.missed;
        let owner = entry.owner;
        *entry = Entry { owner, ..Entry::default() };
        self.vacate(frame, owner);
        self.has_moved(endpoint);
        self.statistics.unloads += 1;
        if wanted {
            self.wait(endpoint);
        }
        self.plan();
    }

    /// The endpoint is no more: its frame is free, and nothing more is to be done about it. Its
    /// number may be used again.
    pub fn remove(&mut self, now: Instant, endpoint: EndpointId) {
        self.now = self.now.max(now);
        let Some(entry) = self.entries.get_mut(endpoint.0 as usize) else { return };
        let owner = entry.owner;
        if entry.done {
            self.idle.remove(self.config.policy, endpoint, entry);
        }
        *entry = Entry::default();
        self.waiting.remove(owner, endpoint);
        self.has_moved(endpoint);
        self.actions.retain(|action| !matches!(action, Action::Quiesce(e) | Action::Unload(e, _) | Action::Load(e, _) if *e == endpoint));
        if let Some(frame) = self.frames.iter().position(|f| *f == Some(endpoint)) {
            self.vacate(FrameId(frame as u32), owner);
        }
        self.plan();
    }

    /// Does what is due. Calling it early or late is harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.plan();
    }

    /// When [`Residency::handle_timeout`] is to be called.
    pub fn next_timeout(&self) -> Instant {
        self.timeout
    }

    /// The counters.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Endpoints in frames that quiesce now.
    pub fn quiescing(&self) -> impl Iterator<Item = EndpointId> {
        self.frames.iter().flatten().copied().filter(|e| matches!(self.state(*e), State::Quiescing(_)))
    }

    /// Endpoints that wait for a frame.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// A frame of `owner` is free.
    fn vacate(&mut self, frame: FrameId, owner: u32) {
        self.frames[frame.0 as usize] = None;
        self.free.insert(frame.0);
        self.waiting.has_given(owner);
    }

    /// A remap has ended, if one was under way.
    fn has_moved(&mut self, endpoint: EndpointId) {
        self.moving.retain(|e| *e != endpoint);
        self.changes += 1;
    }

    fn entry(&mut self, endpoint: EndpointId) -> &mut Entry {
        &mut self.entries[endpoint.0 as usize]
    }

    /// Remaps under way: each a quiescing, an unloading or a loading; those that do not settle are
    /// left out.
    fn under_way(&self) -> usize {
        let counts = |e: &EndpointId| match self.entries[e.0 as usize] {
            Entry { state: State::Loading(_) | State::Unloading(_), .. } => true,
            Entry { state: State::Quiescing(_), late, .. } => !late,
            _ => false,
        };
        self.moving.iter().filter(|e| counts(e)).count()
    }

    /// Frames that will be free without another victim.
    fn vacating(&self) -> usize {
        self.moving.iter().filter(|e| matches!(self.state(**e), State::Quiescing(_) | State::Unloading(_)) && !self.entries[e.0 as usize].late).count()
    }

    /// Begins what can begin, and finds out when to look again.
    fn plan(&mut self) {
        self.timeout = Instant::NEVER;
        self.lose_patience();
        while self.under_way() < self.config.remaps_max {
            let Some((owner, endpoint)) = self.waiting.first() else { return };
            if let Some(free) = self.free.pop_first() {
                self.waiting.take(owner);
                self.begin_load(endpoint, FrameId(free));
                continue;
            }
            if self.vacating() >= self.waiting.len() {
                return;
            }
            match self.choose(self.now, owner) {
                Ok(victim) => self.begin_quiesce(victim),
                Err(at) => {
                    self.timeout = self.timeout.min(at);
                    return;
                }
            }
        }
    }

    /// Those that have not settled in time count no more, as long as somebody waits.
    fn lose_patience(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        for place in 0..self.moving.len() {
            let endpoint = self.moving[place];
            let (now, patience) = (self.now, self.config.patience);
            let entry = self.entry(endpoint);
            if !matches!(entry.state, State::Quiescing(_)) || entry.late {
                continue;
            }
            let until = entry.quiescing_since + patience;
            if until <= now {
                entry.late = true;
                self.statistics.impatient += 1;
            } else {
                self.timeout = self.timeout.min(until);
            }
        }
    }

    fn begin_load(&mut self, endpoint: EndpointId, frame: FrameId) {
        let entry = self.entry(endpoint);
        let State::Waiting(since) = entry.state else { unreachable!("only waiting ones are in the queue") };
        *entry = Entry { state: State::Loading(frame), wanted: since, owner: entry.owner, ..Entry::default() };
        self.frames[frame.0 as usize] = Some(endpoint);
        self.moving.push(endpoint);
        self.changes += 1;
        self.actions.push_back(Action::Load(endpoint, frame));
    }

    fn begin_quiesce(&mut self, endpoint: EndpointId) {
        let (now, patience) = (self.now, self.config.patience);
        self.moving.push(endpoint);
        self.changes += 1;
        let entry = &mut self.entries[endpoint.0 as usize];
        let State::Resident(frame) = entry.state else { unreachable!("only resident ones are chosen") };
        if entry.done {
            self.idle.remove(self.config.policy, endpoint, entry);
            entry.done = false;
        }
        (entry.state, entry.quiescing_since, entry.late) = (State::Quiescing(frame), now, false);
        self.timeout = self.timeout.min(now + patience);
        self.actions.push_back(Action::Quiesce(endpoint));
    }
}
