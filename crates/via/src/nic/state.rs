// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the threads of a NIC share (`Shared`), and what its token protects (`Core`): the engine,
//! sleepers, and whether peers ring. Used by all of `nic/`; the invariants N1 to N5 are in
//! `nic.rs`.

use super::callers::Callers;
use super::clock;
use super::crowd::Crowd;
use super::handler_list::{ErrorHandling, Handlers};
use super::identity::Identity;
use super::machine::{Machine, Owned, Ring};
use super::port::{EVENTS, Port, WORK};
use super::spin::Adaptive;
use super::trace::Tracer;
use super::waiters::Waiters;
use super::watches::Watches;
use crate::engine::Engine;
use crate::error::Error;
use crate::time::Instant;
use crate::wire::host::HostWire;
use bellwire_memory::atomic::{AtomicBool, AtomicU32, Ordering};
use bellwire_memory::fork_mark::ForkMark;
use bellwire_memory::token::Token;
use std::sync::{Arc, Mutex};

/// Polls between two looks at the clock while no timer is running.
const POLLS_PER_CLOCK: u32 = 1024;
/// Polls after a sleep that leave the bell armed: a program that looks at something else between
/// two waits does not pay for arming again.
const LINGERING_POLLS: u32 = 16;
/// The same while the machine is armed: a program may poll a while before it sleeps. One that polls
/// on does not sleep, although a queue of its own may stay armed for ever (UCX's of datagrams), and
/// each frame would ring. If it sleeps after all, the helper's next tick arms the bell.
const LINGERING_POLLS_ARMED: u32 = 1024;
/// Polls between two whole turns of the engine: completions that are found again and again without
/// one must not starve frames that come in.
pub(super) const POLLS_PER_TURN: u32 = 64;
/// VIs that are looked at before the helper goes to sleep.
const VIS_LOOKED_AT: usize = 1024;

/// A word on a line of its own.
#[repr(align(128))]
pub(super) struct OwnLine(pub(super) AtomicU32);

/// What the NIC, its helper and its waiters share.
pub(super) struct Shared {
    // line 0: written at each turn by a poller; read by the helper at its ticks
    pub(super) polls: OwnLine,
    /// Whether a poller of an inbox should let others run when it finds nothing; read by each poll
    /// that finds nothing.
    pub(super) gives_way: AtomicBool,
    pub(super) token: Token<Core>,
    pub(super) port: Port,
    pub(super) errors: Mutex<ErrorHandling>,
    /// Completion queues are armed: the helper must not take an application that has just polled
    /// for one that goes on polling.
    pub(super) armed_queues: AtomicU32,
    /// There is a machine.
    pub(super) is_driven: AtomicBool,
    pub(super) identity: Identity,
    pub(super) fork: ForkMark,
    pub(super) pid: u32,
}

impl Shared {
    /// Says whether the machine is armed.
    #[inline(always)]
    pub(super) fn note_armed(&self, is_armed: bool) {
        // Relaxed: a hint for the helper, which looks again under the token.
        self.armed_queues.store(u32::from(is_armed), Ordering::Relaxed);
    }

    /// Whether this is the child of a `fork`.
    #[inline(always)]
    pub(super) fn in_child(&self) -> bool {
        self.fork.is_elsewhere()
    }

    /// An error in the child of a `fork`.
    #[inline(always)]
    pub(super) fn here(&self) -> Result<(), Error> {
        if self.in_child() { Err(Error::InvalidState) } else { Ok(()) }
    }
}

/// What the token protects (N1).
pub(super) struct Core {
    pub(super) engine: Engine<HostWire>,
    /// Polls that the application has made.
    pub(super) polls: u32,
    /// Peers ring our bell.
    pub(super) armed: bool,
    /// It is armed, and no waiter needs it now.
    pub(super) lingers: bool,
    /// Polls since it began to linger.
    pub(super) lingering_polls: u32,
    /// Polls have something to do besides: `lingers`, or a crowd.
    pub(super) attentive: bool,
    /// The bell wakes waiters, not the helper.
    pub(super) bell_is_waiters: bool,
    /// The helper knows that there are events.
    pub(super) events_told: bool,
    /// N4.
    pub(super) sleepers: bool,
    /// Until when the helper sleeps unless it is told; 0 while it is awake or ticks.
    pub(super) deep_until: Instant,
    /// Completions for which waiters have been woken.
    pub(super) seen_completions: u64,
    /// Until when the leading waiter sleeps unless it is woken.
    pub(super) leader_until: Instant,
    /// When its alarm rings.
    pub(super) alarm_at: Instant,
    pub(super) waiters: Waiters,
    /// Threads that wait for requests for connections.
    pub(super) callers: Callers,
    pub(super) watches: Watches,
    pub(super) handlers: Handlers,
    pub(super) spin: Adaptive,
    pub(super) crowd: Crowd,
    /// Somebody wants to hear of errors.
    pub(super) watched: bool,
    /// N5: a layer's state that lives here.
    pub(super) machine: Option<Owned>,
    /// Times that the helper left the bell armed when it slept.
    pub(super) helper_sleeps: u64,
    /// Of a NIC that is traced.
    pub(super) tracer: Option<Box<Tracer>>,
}

impl Core {
    pub(super) fn new(engine: Engine<HostWire>, spin_max_ns: u64) -> Self {
        Self {
            engine,
            polls: 0,
            armed: false,
            lingers: false,
            lingering_polls: 0,
            attentive: false,
            bell_is_waiters: false,
            events_told: false,
            sleepers: false,
            deep_until: Instant(0),
            seen_completions: 0,
            leader_until: Instant::NEVER,
            alarm_at: Instant(0),
            waiters: Waiters::default(),
            callers: Callers::default(),
            watches: Watches::default(),
            handlers: Handlers::default(),
            spin: Adaptive::new(spin_max_ns),
            crowd: Crowd::default(),
            watched: false,
            machine: None,
            helper_sleeps: 0,
            tracer: None,
        }
    }

    /// The application polls and looks at the wire: a sign of life, the time if somebody needs it.
    /// True if [`Shared::besides`] is due.
    #[inline]
    pub(super) fn begin_poll(&mut self, shared: &Shared) -> bool {
        let is_due = self.begin_take();
        self.tell_look(shared);
        is_due
    }

    /// As [`begin_poll`](Self::begin_poll), without the sign of life: a poll that finds what is
    /// already complete moves nothing, so the helper is not to leave the wire to such polls.
    #[inline(always)]
    pub(super) fn begin_take(&mut self) -> bool {
        self.polls = self.polls.wrapping_add(1);
        if self.engine.has_timers() || self.polls.is_multiple_of(POLLS_PER_CLOCK) {
            self.engine.set_now(clock());
        }
        self.attentive | self.polls.is_multiple_of(POLLS_PER_TURN)
    }

    #[inline(always)]
    pub(super) fn count_poll(&mut self, shared: &Shared) {
        self.polls = self.polls.wrapping_add(1);
        self.tell_look(shared);
    }

    /// The application looks at the wire.
    #[inline(always)]
    pub(super) fn tell_look(&self, shared: &Shared) {
        // Relaxed: a sign of life for the helper, nothing is published by it; written under the
        // token only.
        shared.polls.0.store(self.polls, Ordering::Relaxed);
    }

    /// What a poll does while it is not as usual.
    pub(super) fn attend(&mut self, shared: &Shared) {
        if self.lingers {
            // Relaxed: a hint, which this thread or the helper has stored.
            let is_armed = self.machine.is_some() && shared.armed_queues.load(Ordering::Relaxed) != 0;
            self.lingering_polls += 1;
            if self.lingering_polls > if is_armed { LINGERING_POLLS_ARMED } else { LINGERING_POLLS } {
                self.disarm_for_polling(&shared.port);
            }
        }
        if self.crowd.is_crowded() {
            let wire = self.engine.wire();
            self.crowd.poll(self.engine.completions(), || wire.peers_at_work());
        }
        self.note_attention();
    }

    pub(super) fn note_attention(&mut self) {
        self.attentive = self.lingers || self.crowd.is_crowded();
    }

    /// Whether [`settle`](Self::settle) has something to do.
    #[inline]
    pub(super) fn needs_settling(&self) -> bool {
        (self.engine.has_events() && !self.events_told) || (self.sleepers && self.somebody_needs_telling())
    }

    /// Of those that sleep.
    #[inline(never)]
    pub(super) fn somebody_needs_telling(&self) -> bool {
        let news = self.engine.completions() != self.seen_completions;
        let waiters = !self.waiters.is_empty() && (news || self.engine.next_timeout() < self.leader_until);
        let helper = self.deep_until != Instant(0) && (self.engine.has_work() || self.next_timeout() < self.deep_until);
        waiters || helper || (news && self.watches.any_armed()) || self.callers.is_asked(&self.engine)
    }

    /// N4, after a change.
    pub(super) fn note_sleepers(&mut self) {
        self.sleepers = !self.waiters.is_empty() || !self.callers.is_empty() || self.deep_until != Instant(0) || self.watches.any_armed();
    }

    /// How deeply the helper sleeps; see `deep_until`.
    pub(super) fn set_deep(&mut self, until: Instant) {
        self.deep_until = until;
        self.note_sleepers();
    }

    /// Before the token is let go (N1).
    #[cold]
    #[inline(never)]
    pub(super) fn settle(&mut self, shared: &Shared) {
        let timer = self.engine.next_timeout();
        if self.engine.completions() != self.seen_completions {
            self.seen_completions = self.engine.completions();
            self.waiters.wake_ready(&self.engine, &shared.port);
            if self.watches.any_armed() {
                self.watches.ring_ready(&self.engine);
                self.note_watches(shared);
            }
        }
        if self.callers.is_asked(&self.engine) {
            self.callers.wake_asked(&self.engine);
        }
        if timer < self.leader_until {
            self.leader_until = timer;
            self.waiters.wake_leader(&shared.port);
        }
        if self.engine.has_events() && !self.events_told {
            self.events_told = true;
            self.tell(&shared.port, EVENTS);
        }
        if self.deep_until != Instant(0) && (self.engine.has_work() || self.next_timeout() < self.deep_until) {
            self.tell(&shared.port, WORK);
        }
    }

    /// Wakes the helper.
    pub(super) fn tell(&mut self, port: &Port, reason: u32) {
        self.set_deep(Instant(0));
        port.tell(reason);
    }

    /// Whether [`arm`](Self::arm) has something to do: work that waits for room on a link is to be
    /// told of room, too.
    pub(super) fn needs_arming(&self) -> bool {
        !self.armed || (self.engine.has_work() && !self.engine.wire().is_armed_for_room())
    }

    /// Peers ring from now on; look again before sleeping.
    pub(super) fn arm(&mut self) {
        if self.needs_arming() {
            let for_room = self.engine.has_work();
            self.engine.wire.arm(for_room);
            self.armed = true;
        }
    }

    pub(super) fn disarm(&mut self) {
        if self.armed {
            self.engine.wire.disarm();
            self.armed = false;
        }
        self.lingers = false;
        self.note_attention();
    }

    /// Waiters need the bell no longer, or the helper has just been given it: it stays armed until
    /// the application polls.
    pub(super) fn linger(&mut self) {
        if !self.engine.has_work() {
            self.engine.wire.arm_less();
        }
        self.lingers = self.armed;
        self.lingering_polls = 0;
        self.note_attention();
    }

    /// Arms the bell on the helper's behalf; there is no waiter.
    pub(super) fn arm_for_helper(&mut self, port: &Port) {
        if core::mem::take(&mut self.bell_is_waiters) {
            port.listen_to_bell(true);
        }
        self.engine.wire.watch_all();
        self.arm();
        self.linger();
    }

    /// The application polls: peers need not ring, and the helper watches for the end of that.
    pub(super) fn disarm_for_polling(&mut self, port: &Port) {
        self.disarm();
        if self.deep_until != Instant(0) {
            self.tell(port, WORK);
        }
    }

    /// Whether peers may need this processor while the application computes.
    pub(super) fn has_duties(&self) -> bool {
        self.watched || self.watches.any_armed() || !self.handlers.is_empty() || self.engine.wire().has_links() || self.may_have_to_resend()
    }

    /// Whether a peer may ask for a message again, which only this side can send.
    pub(super) fn may_have_to_resend(&self) -> bool {
        self.engine.vis.iter().take(VIS_LOOKED_AT).any(|(_, v)| v.remote_rnr && v.send.done != v.send.works.tail())
    }

    /// A turn: of the machine, if there is one, else of the engine.
    pub(super) fn turn(&mut self, shared: &Shared, now: Instant) -> bool {
        let Some(machine) = &mut self.machine else { return self.engine.progress() };
        let machine = machine.get_mut();
        let before = self.engine.delivered_beside;
        // A machine takes messages; the engine has moved the data of RDMA beside them.
        let moved = machine.step(&mut self.engine, now) || self.engine.delivered_beside != before;
        shared.note_armed(machine.is_armed() || self.watches.any_armed());
        moved
    }

    /// What the machine has for threads of the program.
    pub(super) fn take_rings(&mut self, rings: &mut Vec<Arc<dyn Ring>>) {
        if let Some(machine) = &mut self.machine {
            machine.get_mut().take_rings(rings);
        }
    }

    /// Whether somebody sleeps on a descriptor that a completion rings.
    pub(super) fn is_armed(&self) -> bool {
        self.watches.any_armed() || self.machine.as_ref().is_some_and(|machine| machine.get().is_armed())
    }

    /// When the engine or the machine wants a turn although nothing comes.
    pub(super) fn next_timeout(&self) -> Instant {
        let of_engine = self.engine.next_timeout();
        self.machine.as_ref().map_or(of_engine, |machine| of_engine.min(machine.get().next_timeout(self.engine.now())))
    }

    /// The machine and the engine.
    ///
    /// # Safety
    /// N5: this is the core of a `Driven<M>`.
    #[inline(always)]
    pub(super) unsafe fn parts<M: Machine<HostWire>>(&mut self) -> (&mut M, &mut Engine<HostWire>) {
        debug_assert!(self.machine.is_some(), "N5");
        // SAFETY: N5: there is one, and it is an M; it is borrowed as the core is.
        let machine = unsafe { self.machine.as_mut().unwrap_unchecked().0.cast::<M>().as_mut() };
        (machine, &mut self.engine)
    }

    /// After the set of armed queues has changed.
    pub(super) fn note_watches(&mut self, shared: &Shared) {
        self.note_sleepers();
        // Relaxed: a hint for the helper, which looks again under the token.
        shared.armed_queues.store(u32::from(self.watches.any_armed()), Ordering::Relaxed);
    }
}
