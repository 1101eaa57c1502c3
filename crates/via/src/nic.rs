// SPDX-License-Identifier: MIT OR Apache-2.0
//! The NIC of a real process: one engine on the shared-memory wire, the progress token, a helper
//! thread, waiting.
//!
//! | file | concern |
//! |---|---|
//! | `nic.rs` | opening, closing, the calls of the data path |
//! | `nic/shared.rs` | what a call does around the engine: token, settling, what a poll does besides |
//! | `nic/waiting.rs`, `nic/connect.rs` | the calls that wait; the calls that connect |
//! | `nic/state.rs` | shared by all threads; under the token: sleepers, and whether peers ring |
//! | `nic/wait.rs` | waits: sleeping, who wakes whom (`target.rs`, `waiters.rs`, `waits.rs`: their types) |
//! | `nic/request_wait.rs`, `callers.rs` | waits for requests for connections: on bells of their own |
//! | `nic/spin.rs` | how long a wait polls before it sleeps |
//! | `nic/crowd.rs` | polls that find nothing let others run |
//! | `nic/watch.rs`, `watches.rs` | completion queues with file descriptors |
//! | `nic/machine.rs`, `driven.rs` | the state of a layer above, under the same token and driven by the helper |
//! | `nic/helper.rs` | the helper thread: control, timers, handlers, work for a process that computes |
//! | `nic/port.rs` | how to wake the helper and the leading waiter, and what they sleep on |
//! | `nic/handlers.rs`, `handler_list.rs` | notify handlers and the error handler |
//! | `nic/stat.rs`, `snapshot.rs`, `identity.rs` | the live view: answers to questions about this NIC |
//! | `nic/trace.rs`, `traced.rs`, `tapped.rs` | what a trace notes; a NIC that is traced; a captured NIC's packets |
//! | `nic/memory.rs` | memory with an owner |
//! | `nic/config.rs` | how to open |
//!
//! Invariants
//! - N1: everything in `Core` is touched only with the token held. A thread that lets the token go
//!   settles first (`Core::settle`): wakes the waiters whose completion is there, and tells the
//!   helper of what only it will see to. So nothing is lost between "register" and "look": both
//!   happen under the token.
//! - N2: handlers run, and are dropped, without the token.
//! - N3: peers ring our bell only while `Core::armed`. Waiters arm it when there are any, else the
//!   helper may, or a thread that arms a completion queue. It stays armed when they wake
//!   (`lingers`), for the next sleep then costs no barrier; the first polls after that disarm it.
//! - N4: `Core::sleepers` says whether anybody sleeps who would have to be told: a waiter, a
//!   thread that waits for a request for a connection, the helper, a program on a completion
//!   queue's descriptor.
//!
//! Budget of a call that finds what it wants: the token (a store and two loads) and about six loads
//! that decide that nothing needs settling.
//!
//! **Fork.** The child of a `fork` must not use its parent's NIC: it has no helper thread, and
//! shares sockets and rings with its parent. Posts, polls, waits and connection calls fail with
//! [`Error::InvalidState`]; dropping the NIC there does nothing. `exec` closes everything.

mod callers;
mod captured;
mod config;
mod connect;
mod crowd;
mod driven;
mod give_way;
mod handler_list;
mod handlers;
mod helper;
mod identity;
mod machine;
mod memory;
mod port;
mod registered;
mod request_wait;
mod shared;
mod snapshot;
mod spin;
mod stat;
mod state;
mod tapped;
mod target;
mod trace;
mod traced;
mod wait;
mod waiters;
mod waiting;
mod waits;
mod watch;
mod watches;

use crate::handles::{CqHandle, ViHandle, WorkQueueKind};
use crate::request::{ReceiveRequest, SendRequest};
pub use crate::wire::clock::clock;
pub use config::{Adoption, AgentNic, ConfigError, NicConfig, OpenError, SPIN_DEFAULT, SPIN_MAX, Udp};
pub use driven::{Driven, HeldMachine};
pub use machine::{Machine, Ring};
pub use memory::Memory;
pub use spin::Spin;

use crate::complete::Completion;
use crate::descriptor::DescriptorRef;
use crate::engine::Engine;
use crate::error::Error;
use crate::event::AsyncError;
use crate::time::Instant;
use crate::wire::Attach;
use crate::wire::agent::AgentPort;
use crate::wire::host::{HostPort, HostWire};
use crate::wire::packet::PacketWire;
use crate::wire::shm::{ProtectionMode, ShmConfig, ShmWire};
use crate::wire::sisci::{SisciConfig, SisciError, SisciWire, Switches};
use crate::wire::udp::{UdpConfig, UdpPort, host_address, socket_address};
use crate::wire::users::Allow;
use bellwire_memory::adopt::Copier;
use bellwire_memory::atomic::{AtomicBool, AtomicU32, Ordering};
use bellwire_memory::fd_table;
use bellwire_memory::fork_mark::ForkMark;
use bellwire_memory::own_thread;
use bellwire_memory::token::Token;
use give_way::Poller;
use handler_list::ErrorHandling;
use identity::Identity;
use port::{CLOSE, Port};
use rustix::time::Timespec;
use state::{Core, OwnLine, Shared};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Descriptors that this process's table holds from the start: those of some hundred links.
const DESCRIPTORS_AHEAD: u32 = 1024;

/// A NIC. `Send` and `Sync`: any thread may call at any time; one that calls most of the time is
/// served without locked instructions.
///
/// Dropping it closes it.
pub struct Nic {
    shared: Arc<Shared>,
    helper: Option<JoinHandle<()>>,
    /// How memory of the program may be exchanged for memory that peers map.
    adoption: Adoption,
    /// The helper copies memory of the program.
    _copier: Copier,
}

/// Caller: a NIC cannot be closed from within one of its handlers. The NIC is given back.
#[derive(Debug)]
pub struct CloseError {
    /// The NIC, still open.
    pub nic: Nic,
}

impl core::fmt::Debug for Nic {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Nic").field("pid", &self.shared.pid).finish_non_exhaustive()
    }
}

/// Shared memory, and UDP or the host's agent if that is wanted. The agent says which address the
/// host has.
fn open_wire(config: &mut NicConfig) -> Result<HostWire, OpenError> {
    if let Some(switches) = config.sisci {
        return open_sisci(config, switches);
    }
    let mut network = 0;
    let by_agent = match &config.agent {
        None => None,
        Some(agent) => {
            let port = AgentPort::open(agent.config(config)).map_err(OpenError::Agent)?;
            network = port.network();
            config.host = host_address(SocketAddr::new(port.address().ip(), 0));
            config.scope = if let SocketAddr::V6(v6) = port.address() { v6.scope_id() } else { 0 };
            Some(port)
        }
    };
    let shm = ShmWire::open(ShmConfig { mode: config.mode, host: config.host.clone(), attach: config.attach, allow: config.allow.clone(), network })?;
    let packet = match (by_agent, config.udp) {
        (Some(port), _) => {
            let transport = port.transport_config()?;
            Some(PacketWire::new(HostPort::Agent(Box::new(port)), transport, &config.host, config.seed))
        }
        (None, None) => None,
        (None, Some(udp)) => {
            let mut address = socket_address(&config.host).ok_or(OpenError::HostAddress)?;
            if let SocketAddr::V6(v6) = &mut address {
                v6.set_scope_id(config.scope);
            }
            let (faults, allow, keys) = (config.faults.clone(), config.allow.clone(), config.keys.clone());
            let udp = UdpConfig { address, directory_port: udp.directory_port, seed: config.seed, faults, tap: tapped::tap(), allow, keys, xdp: udp.xdp };
            let port = UdpPort::open(&udp).map_err(|e| OpenError::Udp(address, e.kind()))?;
            if let Some(Err(why)) = port.xdp() {
                eprintln!("bellwire: BELLWIRE_XDP: {why}; packets go by UDP sockets");
            }
            let transport = port.transport_config()?;
            Some(PacketWire::new(HostPort::Udp(port), transport, &config.host, config.seed))
        }
    };
    Ok(HostWire::new(shm, packet, config.shm)?)
}

/// The wire made of SISCI calls. Shared memory lends it a clock and a set of bells.
fn open_sisci(config: &NicConfig, switches: Switches) -> Result<HostWire, OpenError> {
    let (mode, host) = (ProtectionMode::Guarded, config.host.clone());
    let shm = ShmWire::open(ShmConfig { mode, host: host.clone(), attach: Attach::Never, allow: Allow::NOBODY, network: 0 })?;
    let sisci = SisciWire::open(SisciConfig { host, id: fresh_id(), switches }).map_err(|e| match e {
        SisciError::Library(why) => {
            eprintln!("bellwire: BELLWIRE_WIRE=sisci: {why}");
            OpenError::Sisci(0)
        }
        SisciError::Refused(code) => OpenError::Sisci(code),
        SisciError::Os(e) => e.into(),
    })?;
    Ok(HostWire::of_sisci(shm, sisci)?)
}

/// A number that no other NIC has.
fn fresh_id() -> u128 {
    let mut bytes = [0; 16];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    assert_eq!(got, Ok(bytes.len()), "random bytes of the operating system");
    u128::from_le_bytes(bytes)
}

impl Nic {
    /// Opens a NIC and starts its helper thread.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(mut config: NicConfig) -> Result<Self, OpenError> {
        config.check()?;
        let spin_max_ns = saturating_ns(config.spin.min(SPIN_MAX));
        let wire = open_wire(&mut config)?;
        let identity = Identity::new(config.mode, &config.host);
        let adoption = config.usable_adoption();
        let port = Port::new(&wire)?;
        fd_table::reserve(wire.control_fd(), DESCRIPTORS_AHEAD);
        let mut engine = Engine::new(wire, config.seed);
        engine.set_turn_bytes(config.turn_bytes);
        engine.set_now(clock());
        engine.set_memory_mode(config.memory);
        engine.set_registration_cache(config.registration_cache);
        let shared = Arc::new(Shared {
            polls: OwnLine(AtomicU32::new(0)),
            gives_way: AtomicBool::new(false),
            token: Token::new(Core::new(engine, spin_max_ns)),
            port,
            errors: Mutex::new(ErrorHandling::default()),
            armed_queues: AtomicU32::new(0),
            is_driven: AtomicBool::new(false),
            identity,
            fork: ForkMark::new(),
            pid: std::process::id(),
        });
        if bellwire_trace::here::is_on() {
            traced::begin(&shared);
        }
        let stat = stat::Stat::open(&shared.port, shared.identity.number);
        let copier = Copier::new();
        let helper = own_thread::spawn(c"bellwire", {
            let shared = Arc::clone(&shared);
            move || helper::run(&shared, stat)
        });
        Ok(Self { shared, helper: Some(helper.map_err(|_| OpenError::Thread)?), adoption, _copier: copier })
    }

    /// Closes the NIC: stops the helper (waiting for a handler that runs) and gives everything
    /// back. Peers see its connections lost. Packets that have left by UDP arrive first; the call
    /// waits for that, 3 s at most.
    ///
    /// # Errors
    /// Called from within a handler of this NIC.
    pub fn close(self) -> Result<(), CloseError> {
        if self.is_helper_thread() {
            return Err(CloseError { nic: self });
        }
        drop(self);
        Ok(())
    }

    /// Whether the calling thread is the one that runs this NIC's handlers.
    pub fn is_helper_thread(&self) -> bool {
        self.helper.as_ref().is_some_and(|h| h.thread().id() == std::thread::current().id())
    }

    /// Runs `f` on the engine, for everything that has no call of its own here. `f` must not call
    /// this NIC (it would wait for itself) and should be short.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&mut Engine<HostWire>) -> R) -> R {
        self.shared.with(f)
    }

    // ---- the data path

    /// See [`Engine::post_send_descriptor`].
    #[inline]
    pub fn post_send_descriptor(&self, vi: ViHandle, descriptor: DescriptorRef) -> Result<(), Error> {
        self.shared.try_with(|e| e.post_send_descriptor(vi, descriptor))
    }

    /// See [`Engine::send_inline_now`].
    ///
    /// # Errors
    /// In the child of a fork.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub unsafe fn send_inline_now(&self, vi: ViHandle, from: *const u8, length: usize) -> Result<bool, Error> {
        // SAFETY: the caller's.
        self.shared.try_with(|e| Ok(unsafe { e.send_inline_now(vi, from, length) }))
    }

    /// See [`Engine::post_receive_descriptor`].
    #[inline]
    pub fn post_receive_descriptor(&self, vi: ViHandle, descriptor: DescriptorRef) -> Result<(), Error> {
        self.shared.try_with(|e| e.post_receive_descriptor(vi, descriptor))
    }

    /// See [`Engine::post_send`].
    #[inline]
    pub fn post_send(&self, vi: ViHandle, request: &SendRequest<'_>) -> Result<(), Error> {
        self.shared.try_with(|e| e.post_send(vi, request))
    }

    /// See [`Engine::post_receive`].
    #[inline]
    pub fn post_receive(&self, vi: ViHandle, request: &ReceiveRequest<'_>) -> Result<(), Error> {
        self.shared.try_with(|e| e.post_receive(vi, request))
    }

    /// The oldest completed send-side request, if there is one; never blocks.
    #[inline]
    pub fn send_done(&self, vi: ViHandle) -> Result<Option<Completion>, Error> {
        self.shared.take_or_poll(|e| e.send_done(vi), |e| e.poll_send_any(vi))
    }

    /// The oldest completed receive, if there is one; never blocks.
    #[inline]
    pub fn receive_done(&self, vi: ViHandle) -> Result<Option<Completion>, Error> {
        self.shared.poll(|e| e.poll_receive(vi))
    }

    /// The oldest entry of a completion queue, if there is one; never blocks.
    #[inline]
    pub fn cq_done(&self, cq: CqHandle) -> Result<Option<(ViHandle, WorkQueueKind)>, Error> {
        self.shared.take_or_poll(|e| e.cq_done(cq), |e| e.poll_cq_any(cq))
    }

    /// One look by `poll`, on the terms of the calls above: for layers that take from an inbox
    /// ([`Engine::take`]). `poll` is to look at all links itself, for the whole turn that is due
    /// now and then leaves frames to it; and it is held to what [`with`](Self::with) says. After a
    /// look that finds nothing: [`give_way`](Self::give_way).
    ///
    /// # Errors
    /// Those of `poll`; [`Error::InvalidState`] in the child of a `fork`.
    #[inline]
    pub fn poll_with<R>(&self, poll: impl FnOnce(&mut Engine<HostWire>) -> Result<Option<R>, Error>) -> Result<Option<R>, Error> {
        self.shared.poll_as(Poller::Frames, poll)
    }

    /// After [`poll_with`](Self::poll_with) found nothing: lets others run if it is time to. With
    /// no lock held that other threads may want. (The calls above do it themselves, before they
    /// look.)
    #[inline]
    pub fn give_way(&self) {
        // Relaxed: as at the store in `Shared::besides`.
        if self.shared.gives_way.load(Ordering::Relaxed) && !self.shared.in_child() {
            give_way::give_way(&self.shared, Poller::Frames);
        }
    }

    /// Whether [`give_way`](Self::give_way) would let others run.
    #[inline]
    pub fn should_give_way(&self) -> bool {
        // Relaxed: as at the store in `Shared::besides`.
        self.shared.gives_way.load(Ordering::Relaxed)
    }

    /// Where [`give_way`](Self::give_way) is due: whether the caller should rather sleep for a
    /// moment, until something comes ([`inbox_wait_until`](Self::inbox_wait_until)), as programs
    /// that compute want this processor. If so, that counts as giving way.
    #[cold]
    pub fn should_nap(&self) -> bool {
        !self.shared.in_child() && give_way::should_nap(&self.shared)
    }

    /// Whether this is the child of a `fork`, where this NIC is unusable.
    #[inline]
    pub fn in_child(&self) -> bool {
        self.shared.in_child()
    }

    /// As [`with`](Self::with), but in the child of a `fork` an error.
    ///
    /// # Errors
    /// Those of `f`; [`Error::InvalidState`] in the child of a `fork`.
    #[inline]
    pub fn try_with<R>(&self, f: impl FnOnce(&mut Engine<HostWire>) -> Result<R, Error>) -> Result<R, Error> {
        self.shared.try_with(f)
    }

    /// Now, as the engine is told it.
    pub fn now(&self) -> Instant {
        let now = clock();
        self.shared.with(|e| e.set_now(now));
        now
    }

    // ---- handlers: run on the helper thread, without the token; any call but `close` is allowed
    // in them

    /// Has `handler` called once with the next completion of a work queue, which is taken off the
    /// queue. Several handlers of a queue are served in order.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]; [`Error::Resource`]: too many handlers wait.
    pub fn notify(&self, vi: ViHandle, queue: WorkQueueKind, handler: Box<dyn FnOnce(ViHandle, Completion) + Send>) -> Result<(), Error> {
        handlers::notify(&self.shared, vi, queue, handler)
    }

    /// Has `handler` called once with the next entry of a completion queue, which is taken off it.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]; [`Error::Resource`]: too many handlers wait.
    pub fn notify_cq(&self, cq: CqHandle, handler: Box<dyn FnOnce(ViHandle, WorkQueueKind) + Send>) -> Result<(), Error> {
        handlers::notify_cq(&self.shared, cq, handler)
    }

    /// Sets who is told of asynchronous errors, those that came before included (the last 64).
    /// Without a handler each is one line on standard error.
    pub fn set_error_handler(&self, handler: Option<Arc<dyn Fn(AsyncError) + Send + Sync>>) {
        let watched = handler.is_some();
        handlers::set_error_handler(&self.shared, handler, watched);
    }

    /// Has asynchronous errors dropped: they show in VI states and completions only.
    pub fn ignore_errors(&self) {
        handlers::set_error_handler(&self.shared, Some(Arc::new(|_| ())), false);
    }
}

impl Drop for Nic {
    fn drop(&mut self) {
        let Some(helper) = self.helper.take() else { return };
        if self.shared.in_child() {
            // Not ours: neither the thread nor the sockets. Closing would reach into the parent's
            // epoll set.
            core::mem::forget(helper);
            core::mem::forget(Arc::clone(&self.shared));
            return;
        }
        // Requests that have been posted and fit leave; the others end with the connections.
        self.shared.with(|e| {
            for _ in 0..64 {
                if !e.has_work() || !e.progress() {
                    break;
                }
            }
            e.wire.take_leave();
        });
        self.shared.port.tell(CLOSE);
        if helper.thread().id() == std::thread::current().id() {
            // The last reference went away in a handler: the thread ends by itself after it.
            return;
        }
        let _ = helper.join();
    }
}

fn timespec(d: crate::time::Duration) -> Timespec {
    Timespec { tv_sec: (d.0 / 1_000_000_000) as i64, tv_nsec: (d.0 % 1_000_000_000) as _ }
}

fn saturating_ns(d: Duration) -> u64 {
    crate::time::Duration::from(d).0
}

/// A lock whose holder may have panicked in a way that leaves the value usable.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
