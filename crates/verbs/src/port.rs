// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device that a program has opened: the machine of `core.rs` on a NIC of its own. What programs call. Any thread may call at any time; what one thread does alone costs no locked
//! instruction (the lock is a token biased to it, like the NIC's). Locks are taken in the order core, NIC, channel.
//!
//! Progress: whoever polls a completion queue or waits for an event moves everything. A thread stands in when nobody has for a millisecond, and at once when a completion queue is armed; so a peer's writes, reads and
//! atomics are done while the program computes, and descriptors become readable. While nothing comes it sleeps.

use crate::adopt::{Adopted, adopt, may_adopt, pages_of, release, share};
use crate::channel::Channel;
use crate::core::{AsyncEvent, Core};
use crate::memory::Region;
use crate::modify::Given;
use crate::name::{Name, PLACES, gid_of};
use crate::qp::{QpAttributes, QpInit, SendRequest};
use crate::queue::Listener;
use crate::types::{Access, Completion, Error, Gid, QpState, Sge};
use bellwire_memory::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use bellwire_memory::token::{Claim, Held, Token};
use bellwire_via::nic::NicConfig;
use bellwire_via::wire::shm::ProtectionMode;
use bellwire_via::{Engine, MemAttributes, MemHandle, MemoryMode, Nic};
use rustix::time::{ClockId, clock_gettime};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

type HostWire = bellwire_via::wire::host::HostWire;

/// Most steps in one poll.
const STEPS: u32 = 32;
/// How long a thread that waits for an event looks itself.
const SPIN: Duration = Duration::from_micros(40);
/// How long nobody has polled before the thread does.
const TICK: Duration = Duration::from_millis(1);
/// The same after it had something to do.
const TICK_MIN: Duration = Duration::from_micros(100);
/// Longest sleep; while something waits to leave, which nobody says when it can.
const LOOK: Duration = Duration::from_secs(10);
const SLICE: Duration = Duration::from_millis(1);
/// How long a device that closes tries to send what was posted.
const FAREWELL: Duration = Duration::from_secs(3);

/// Why a device could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The NIC could not.
    Nic(bellwire_via::nic::OpenError),
    /// Its address has a port, for which a GID has no room.
    Address,
    /// No descriptors, no room on the NIC, or all 2047 places of the host are taken.
    Resource,
}

impl core::fmt::Display for OpenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Nic(e) => e.fmt(f),
            Self::Address => f.write_str("the address of an RDMA device must be an IP address without a port (BELLWIRE_ADDRESS)"),
            Self::Resource => f.write_str("no descriptors are left, or too many processes of this host have RDMA devices"),
        }
    }
}

impl std::error::Error for OpenError {}

#[derive(Debug)]
struct Shared {
    // Before the NIC: nothing of it outlives that.
    core: Token<Core>,
    nic: Nic,
    /// Looks of the program.
    polls: AtomicU64,
    /// Completion queues that are armed.
    armed: AtomicU32,
    closing: AtomicBool,
    /// The thread sleeps for long; written with the core held.
    dozing: AtomicBool,
    /// The thread sleeps on it between two looks at whether it is needed.
    pace: Mutex<()>,
    bell: Condvar,
}

/// A device.
#[derive(Debug)]
pub struct Port {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    gid: Gid,
    events: Arc<Channel<AsyncEvent>>,
    /// Memory of the program is exchanged for memory that peers can map.
    adopts: bool,
}

/// Nanoseconds of the monotonic clock.
pub(crate) fn clock() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    #[inline]
    fn core(&self) -> Held<'_, Core> {
        self.core.enter(Claim::Bias)
    }

    /// Runs `f` on the machine and the engine.
    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut Core, &mut Engine<HostWire>) -> Result<R, Error>) -> Result<R, Error> {
        let mut core = self.core();
        let mut outcome = Err(Error::InChild);
        self.nic.try_with(|engine| {
            outcome = f(&mut core, engine);
            Ok(())
        })?;
        self.rouse(&core);
        outcome
    }

    /// What waits to leave or to be said, or for a time, is the thread's business if the program does not look again.
    #[inline]
    fn rouse(&self, core: &Core) {
        // Relaxed: both sides hold the core.
        if !(core.unsent.is_empty() && core.owing.is_empty() && core.timers.is_empty()) && self.dozing.load(Ordering::Relaxed) {
            self.dozing.store(false, Ordering::Relaxed);
            self.wake();
        }
    }

    /// Looks until there is nothing, or `until`. Returns whether anything was there.
    #[inline]
    fn look(&self, core: &mut Core, mut until: impl FnMut(&Core) -> bool) -> Result<bool, Error> {
        let (mut moved, mut requests) = (false, 0);
        self.nic.poll_with(|engine| {
            if !core.timers.is_empty() {
                core.now = clock();
                core.timeouts(engine);
            }
            requests = engine.connection_requests();
            for _ in 0..STEPS {
                if !core.step(engine) {
                    break;
                }
                moved = true;
                if until(core) {
                    break;
                }
            }
            Ok(Some(()))
        })?;
        if requests != core.acceptor.seen() {
            self.nic.now();
            self.nic.with(|engine| core.accept(engine));
            moved = true;
        }
        self.rouse(core);
        // Relaxed: a hint for the thread, which looks again.
        self.armed.store(core.armed, Ordering::Relaxed);
        Ok(moved)
    }

    /// Sleeps until something may have come, or `until`, or `limit`.
    fn sleep(&self, limit: Duration, until: impl Fn() -> bool) -> Result<(), Error> {
        let core = self.core();
        let (inbox, accepted) = (core.inbox, core.acceptor.seen());
        let mut slice = if core.unsent.is_empty() && core.owing.is_empty() { limit } else { limit.min(SLICE) };
        if let Some((at, _)) = core.timers.first() {
            slice = slice.min(Duration::from_nanos(at.saturating_sub(clock()).max(1000)));
        }
        // Relaxed: with the core held.
        self.dozing.store(slice > SLICE, Ordering::Relaxed);
        drop(core);
        // Relaxed: who wakes us has changed it before.
        let roused = || slice > SLICE && !self.dozing.load(Ordering::Relaxed);
        let outcome = self.nic.inbox_wait_until(inbox, accepted, Some(slice), || roused() || until());
        // Relaxed: at worst it is woken once too often.
        self.dozing.store(false, Ordering::Relaxed);
        match outcome {
            Ok(()) | Err(bellwire_via::Error::Timeout) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Has whoever sleeps look again.
    fn wake(&self) {
        self.nic.with(Engine::rouse);
    }

    fn is_closing(&self) -> bool {
        // Relaxed: only says that it ends; who set it wakes us.
        self.closing.load(Ordering::Relaxed)
    }
}

impl Port {
    /// Opens a device.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(config: NicConfig) -> Result<Self, OpenError> {
        let gid = gid_of(&config.host).ok_or(OpenError::Address)?;
        let from = (config.seed as u16) % PLACES;
        let adopts = config.mode == ProtectionMode::Mapped && config.memory == MemoryMode::Trust;
        let nic = Nic::open(config).map_err(OpenError::Nic)?;
        nic.ignore_errors();
        nic.now();
        let events = Arc::new(Channel::new().map_err(|_| OpenError::Resource)?);
        let core = nic.with(|engine| {
            let ptag = engine.create_ptag().map_err(Error::from)?;
            let inbox = engine.create_inbox().map_err(Error::from)?;
            let mut core = Core::new(inbox, ptag, Name { gid, place: 1 }, Arc::clone(&events), clock);
            core.settle(engine, from)?;
            Ok(core)
        });
        let core = Token::new(core.map_err(|_: Error| OpenError::Resource)?);
        let shared = Arc::new(Shared {
            core,
            nic,
            polls: AtomicU64::new(0),
            armed: AtomicU32::new(0),
            closing: AtomicBool::new(false),
            dozing: AtomicBool::new(false),
            pace: Mutex::new(()),
            bell: Condvar::new(),
        });
        Ok(Self { shared, thread: Mutex::new(None), gid, events, adopts })
    }

    /// Its address.
    pub fn gid(&self) -> Gid {
        self.gid
    }

    /// What happens beside the queues.
    pub fn events(&self) -> &Arc<Channel<AsyncEvent>> {
        &self.events
    }

    /// Makes a protection domain.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn create_domain(&self) -> Result<u32, Error> {
        self.shared.core().create_domain()
    }

    /// Ends one that nothing uses.
    ///
    /// # Errors
    /// [`Error::Busy`]; [`Error::Invalid`].
    pub fn destroy_domain(&self, domain: u32) -> Result<(), Error> {
        self.shared.core().destroy_domain(domain)
    }

    /// Registers memory; its key, local and remote.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::Fault`]: it is not mapped, or may not be written although `access` says so; [`Error::NoMemory`].
    pub fn register(&self, region: &Region) -> Result<u32, Error> {
        let writes = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
        if region.length == 0 || (region.access.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC) && !region.access.contains(Access::LOCAL_WRITE)) {
            return Err(Error::Invalid);
        }
        let wants_remote = region.access.intersects(Access::REMOTE_WRITE | Access::REMOTE_READ);
        let pages = pages_of(region.address, region.length).filter(|_| self.adopts && wants_remote && region.access.contains(Access::LOCAL_WRITE));
        // Before the lock: it looks into `/proc`.
        let may_adopt = pages.as_ref().is_some_and(may_adopt);
        self.shared.with(|core, engine| {
            // The engine looks at the memory, brings it in, and gives the key; what peers may do is this layer's business.
            let attributes = MemAttributes { ptag: Some(core.ptag), rdma_write: region.access.intersects(writes), rdma_read: false };
            let handle = engine.register(region.address, region.length, &attributes).map_err(|e| match e {
                bellwire_via::Error::Resource => Error::NoMemory,
                _ => Error::Fault,
            })?;
            let adopted = pages.as_ref().and_then(|pages| self.adopt(core, engine, region, pages, may_adopt));
            core.list_region(handle, Region { adopted, ..*region }).inspect_err(|_| {
                let _ = engine.deregister(region.address, handle);
                self.disown(engine, adopted);
            })?;
            Ok(handle.raw())
        })
    }

    /// Has the engine's memory take the place of whole pages of a region, if that can be.
    fn adopt(&self, core: &Core, engine: &mut Engine<HostWire>, region: &Region, pages: &Range<usize>, may_adopt: bool) -> Option<Adopted> {
        let owner = self.owner();
        let (base, place) = match share(pages, owner) {
            Some(found) => found,
            None if may_adopt => {
                let base = engine.allocate(pages.len()).ok()?.expose_provenance();
                // SAFETY: A1: looked up just before, by the only thread; the engine's memory is new.
                if !unsafe { adopt(pages, base, owner) } {
                    let _ = engine.free(core::ptr::with_exposed_provenance_mut(base));
                    return None;
                }
                (base, pages.clone())
            }
            None => return None,
        };
        let attributes = MemAttributes {
            ptag: Some(core.ptag),
            rdma_write: region.access.contains(Access::REMOTE_WRITE),
            rdma_read: region.access.contains(Access::REMOTE_READ),
        };
        // All of it, so that peers may map it; what of it a peer is told of is the region's part.
        let registered = engine.register(base as u64, place.len() as u64, &attributes);
        let offset = (pages.start - place.start) as u64;
        match registered {
            Ok(handle) => Some(Adopted { start: pages.start as u64, length: pages.len() as u64, base: base as u64 + offset, handle: handle.raw() }),
            Err(_) => {
                if let Some(base) = release(pages.start as u64, owner) {
                    let _ = engine.free(core::ptr::with_exposed_provenance_mut(base));
                }
                None
            }
        }
    }

    /// The engine's memory of a region is given back; the program keeps the pages.
    fn disown(&self, engine: &mut Engine<HostWire>, adopted: Option<Adopted>) {
        let Some(a) = adopted else { return };
        let _ = engine.deregister(a.base, MemHandle::from_raw(a.handle));
        if let Some(base) = release(a.start, self.owner()) {
            let _ = engine.free(core::ptr::with_exposed_provenance_mut(base));
        }
    }

    fn owner(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }

    /// Ends a registration. When it returns, nobody is inside the memory.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn deregister(&self, key: u32) -> Result<(), Error> {
        self.shared.with(|core, engine| {
            let region = core.unlist_region(key)?;
            self.disown(engine, region.adopted);
            Ok(engine.deregister(region.address, MemHandle::from_raw(key))?)
        })
    }

    /// Makes a completion queue; `listener` is told of completions if it is armed, by `cookie`.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::NoMemory`].
    pub fn create_cq(&self, entries: usize, listener: Listener, cookie: u64) -> Result<u32, Error> {
        self.shared.core().create_cq(entries, listener, cookie)
    }

    /// Changes its length.
    ///
    /// # Errors
    /// [`Error::Invalid`]: it holds more.
    pub fn resize_cq(&self, cq: u32, entries: usize) -> Result<(), Error> {
        let mut core = self.shared.core();
        let q = core.cq(cq)?;
        if entries == 0 || entries > crate::queue::CQ_ENTRIES_MAX || entries < q.entries.len() {
            return Err(Error::Invalid);
        }
        q.capacity = entries;
        Ok(())
    }

    /// Ends one that no queue pair uses.
    ///
    /// # Errors
    /// [`Error::Busy`]; [`Error::Invalid`].
    pub fn destroy_cq(&self, cq: u32) -> Result<(), Error> {
        self.shared.core().destroy_cq(cq)
    }

    /// Takes up to `most` entries; how many.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::InChild`].
    #[inline]
    pub fn poll_cq(&self, cq: u32, most: usize, mut take: impl FnMut(&Completion)) -> Result<usize, Error> {
        let mut core = self.shared.core();
        core.polls = core.polls.wrapping_add(1);
        // Relaxed: a hint for the thread.
        self.shared.polls.store(core.polls, Ordering::Relaxed);
        if core.cq(cq)?.entries.is_empty() {
            self.shared.look(&mut core, |core| core.has_entries(cq))?;
        }
        // Its answers may be all that a peer waits for, while this program looks at its memory.
        self.shared.rouse(&core);
        let entries = &mut core.cq(cq)?.entries;
        let n = entries.len().min(most);
        entries.drain(..n).for_each(|c| take(&c));
        if n == 0 {
            drop(core);
            self.shared.nic.give_way();
        }
        Ok(n)
    }

    /// Has the next completion told of. An entry that is there already is none.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn arm_cq(&self, cq: u32, solicited_only: bool) -> Result<(), Error> {
        let mut core = self.shared.core();
        core.arm_cq(cq, solicited_only)?;
        // Relaxed: a hint for the thread, which is woken to look again.
        self.shared.armed.store(core.armed, Ordering::Relaxed);
        drop(core);
        self.shared.bell.notify_all();
        Ok(())
    }

    /// Makes a shared receive queue.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::NoMemory`].
    pub fn create_srq(&self, domain: u32, capacity: usize, pieces_max: usize, limit: usize, cookie: u64) -> Result<u32, Error> {
        if capacity == 0 || capacity > crate::qp::QUEUE_MAX as usize || pieces_max > crate::qp::PIECES_MAX as usize || limit > capacity {
            return Err(Error::Invalid);
        }
        self.shared.core().create_srq(domain, capacity, pieces_max, limit, cookie)
    }

    /// Has an event given when fewer receives than that are posted.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn set_srq_limit(&self, srq: u32, limit: usize) -> Result<(), Error> {
        let mut core = self.shared.core();
        let srq = core.srq(srq)?;
        if limit > srq.queue.capacity {
            return Err(Error::Invalid);
        }
        srq.limit = limit;
        Ok(())
    }

    /// Capacity, pieces of a receive, limit.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn query_srq(&self, srq: u32) -> Result<(usize, usize, usize), Error> {
        let mut core = self.shared.core();
        let srq = core.srq(srq)?;
        Ok((srq.queue.capacity, srq.queue.pieces_max, srq.limit))
    }

    /// Ends one that no queue pair uses.
    ///
    /// # Errors
    /// [`Error::Busy`]; [`Error::Invalid`].
    pub fn destroy_srq(&self, srq: u32) -> Result<(), Error> {
        self.shared.core().destroy_srq(srq)
    }

    /// Posts a receive to a shared queue.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::NoMemory`].
    pub fn post_srq(&self, srq: u32, wr_id: u64, pieces: &[Sge]) -> Result<(), Error> {
        self.shared.core().srq(srq)?.queue.post(wr_id, pieces)
    }

    /// Makes a queue pair; its number.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::NoMemory`].
    pub fn create_qp(&self, init: &QpInit) -> Result<u32, Error> {
        let number = self.shared.core().create_qp(init)?;
        self.start();
        Ok(number)
    }

    /// Ends a queue pair, and what is posted with it.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn destroy_qp(&self, qp: u32) -> Result<(), Error> {
        self.shared.with(|core, engine| {
            core.tell(engine, qp);
            core.destroy_qp(qp)
        })
    }

    /// Changes attributes and state; `to` is the state to move to, `current` the one that it is believed to be in.
    ///
    /// # Errors
    /// [`Error::Invalid`]: no such move, too little or too much is given, or a value is none.
    pub fn modify_qp(&self, qp: u32, to: Option<QpState>, current: Option<QpState>, attributes: &QpAttributes, given: Given) -> Result<(), Error> {
        self.shared.with(|core, engine| core.modify(engine, qp, to, current, attributes, given))
    }

    /// State, attributes, and what it was made with.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn query_qp(&self, qp: u32) -> Result<(QpState, QpAttributes, QpInit), Error> {
        let mut core = self.shared.core();
        let qp = core.qp(qp).ok_or(Error::Invalid)?;
        Ok((qp.state, qp.attributes, qp.init))
    }

    /// Posts a request.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::NoMemory`]: the queue is full; [`Error::InChild`].
    #[inline]
    pub fn post_send(&self, qp: u32, request: &SendRequest<'_>) -> Result<(), Error> {
        self.shared.with(|core, engine| core.post_send(engine, qp, request))
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::NoMemory`]: the queue is full.
    #[inline]
    pub fn post_receive(&self, qp: u32, wr_id: u64, pieces: &[Sge]) -> Result<(), Error> {
        self.shared.core().post_receive(qp, wr_id, pieces)
    }

    /// Tells peers what was done for them and not said yet: to be called before the process ends.
    pub fn settle(&self) {
        let _ = self.shared.with(|core, engine| {
            core.tell_owed(engine);
            Ok(())
        });
    }

    /// Waits until a channel of this device may have something: moves everything for a moment, then sleeps, while the thread does.
    ///
    /// # Errors
    /// A signal came whose handler interrupts calls; in the child of a fork nothing is to be waited for (`EIO`).
    pub fn wait<T>(&self, channel: &Channel<T>) -> rustix::io::Result<()> {
        let end = Instant::now() + SPIN;
        while channel.is_empty() {
            self.shared.look(&mut self.shared.core(), |_| !channel.is_empty()).map_err(|_| rustix::io::Errno::IO)?;
            if Instant::now() >= end {
                return channel.sleep();
            }
        }
        Ok(())
    }

    /// Starts the thread, if it does not run.
    fn start(&self) {
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            *thread = std::thread::Builder::new().name("bellwire-verbs".into()).spawn(move || run(&shared)).ok();
        }
    }
}

/// The thread that stands in.
fn run(shared: &Shared) {
    let (mut seen, mut tick) = (0, TICK);
    while !shared.is_closing() {
        // Relaxed: hints.
        let (polls, armed) = (shared.polls.load(Ordering::Relaxed), shared.armed.load(Ordering::Relaxed));
        let polled = core::mem::replace(&mut seen, polls) != polls;
        if polled && armed == 0 {
            drop(shared.bell.wait_timeout(lock(&shared.pace), tick));
            tick = (2 * tick).min(TICK);
            continue;
        }
        if shared.sleep(LOOK, || shared.is_closing()).is_err() {
            return;
        }
        // Relaxed: a hint.
        while !shared.is_closing() && (armed != 0 || shared.polls.load(Ordering::Relaxed) == seen) {
            let moved = shared.look(&mut shared.core(), |_| false);
            if !matches!(moved, Ok(true)) {
                break;
            }
            // The program looks at its memory, not here, and is waited for.
            tick = TICK_MIN;
        }
    }
}

impl Core {
    #[inline]
    fn has_entries(&self, cq: u32) -> bool {
        self.cqs.get(bellwire_via::handle::Handle::from_raw(cq)).is_none_or(|q| !q.entries.is_empty())
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let thread = lock(&self.thread).take();
        // Relaxed: the thread is woken, and looks.
        self.shared.closing.store(true, Ordering::Relaxed);
        if self.shared.nic.try_with(|_| Ok(())).is_err() {
            // The child of a fork: neither the thread nor the NIC is ours.
            core::mem::forget(thread);
            core::mem::forget(Arc::clone(&self.shared));
            return;
        }
        self.shared.bell.notify_all();
        self.shared.wake();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
        // What was answered and posted leaves.
        let end = Instant::now() + FAREWELL;
        let mut core = self.shared.core();
        while Instant::now() < end {
            let moved = self.shared.look(&mut core, |_| false).unwrap_or(false);
            if !moved && core.unsent.is_empty() && core.owing.is_empty() {
                break;
            }
        }
        let _ = self.shared.nic.try_with(|engine| {
            core.close(engine);
            Ok(())
        });
    }
}
