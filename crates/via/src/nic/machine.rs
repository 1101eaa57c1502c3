// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine: the state of a layer under the NIC's own token, driven by the NIC's own helper thread
//! when the program does not look. So a call of the layer (`driven.rs`) takes one lock, and the
//! layer needs no thread.
//!
//! Invariant N5: the machine in the core of a `Driven<M>` is an `M`. It is put there when the
//! `Driven` is made, nothing else replaces it, and it is dropped with the core.

use crate::engine::Engine;
use crate::time::{Duration, Instant};
use crate::wire::Wire;
use crate::wire::host::HostWire;
use core::ptr::NonNull;
use std::sync::Arc;

/// How long no look of the program may be seen before the helper looks in its place.
pub(super) const TICK: Duration = Duration::from_millis(1);
/// The same when [`STEADY`] looks in a row have found it polling: each interrupts it, for some tens
/// of microseconds on a virtual machine.
pub(super) const TICK_STEADY: Duration = Duration::from_millis(4);
/// See [`TICK_STEADY`].
pub(super) const STEADY: u32 = 64;
/// The same after the helper has found something.
pub(super) const TICK_MIN: Duration = Duration::from_micros(100);

/// The state of a layer above the engine, driven by the helper thread of a NIC or by a simulator.
/// It is told the engine and the time; it has no lock, clock or thread.
pub trait Machine<W: Wire>: Send + 'static {
    /// A look on behalf of a program that does not look itself: takes what has come, sends what
    /// waits, does what is due at `now`. `false`: there was nothing. It makes a turn of the engine.
    fn step(&mut self, engine: &mut Engine<W>, now: Instant) -> bool;

    /// Whether something waits to leave that a station which closes is to send.
    fn has_unsent(&self) -> bool;

    /// Whether somebody sleeps, or is about to, on something that the machine rings: then traffic
    /// is seen to at once, although the program has just polled.
    fn is_armed(&self) -> bool;

    /// When it must be stepped although nothing comes; [`Instant::NEVER`] if it need not.
    fn next_timeout(&self, now: Instant) -> Instant;

    /// Adds what is to be rung for threads of the program, once the NIC's token is free: a thread
    /// that woke while the helper holds it would sleep again for the token. The helper calls this
    /// after each step.
    fn take_rings(&mut self, rings: &mut Vec<Arc<dyn Ring>>) {
        let _ = rings;
    }

    /// Whether the helper steps it for a program that does not look. If not, the helper moves the
    /// engine alone.
    fn stands_in(&self) -> bool {
        true
    }

    /// The NIC is traced, and its token is about to be let go: notes what has changed.
    fn trace(&mut self) {}

    /// The NIC is traced from now on: the machine tells its states, and nothing else of the past.
    fn begin_trace(&mut self) {}

    /// The NIC is traced no more.
    fn end_trace(&mut self) {}

    /// Ends all connections: the engine goes.
    fn close(&mut self, engine: &mut Engine<W>);
}

/// Something that wakes threads of the program.
pub trait Ring: Send + Sync {
    /// Wakes those that sleep on it. It may not call the NIC.
    fn ring(&self);
}

/// A machine that the core owns. A raw pointer, so that it can be seen as what it is (N5).
pub(super) struct Owned(pub(super) NonNull<dyn Machine<HostWire>>);

// SAFETY: it owns the machine, which is Send.
unsafe impl Send for Owned {}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: made of a box, in `new`, and given up here only.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl Owned {
    pub(super) fn new(machine: impl Machine<HostWire>) -> Self {
        let machine: Box<dyn Machine<HostWire>> = Box::new(machine);
        Self(NonNull::from(Box::leak(machine)))
    }

    pub(super) fn get(&self) -> &dyn Machine<HostWire> {
        // SAFETY: N5: it lives as long as this, which owns it.
        unsafe { self.0.as_ref() }
    }

    pub(super) fn get_mut(&mut self) -> &mut dyn Machine<HostWire> {
        // SAFETY: N5: it lives as long as this, which owns it and is borrowed.
        unsafe { self.0.as_mut() }
    }
}
