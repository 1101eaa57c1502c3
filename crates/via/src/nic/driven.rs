// SPDX-License-Identifier: MIT OR Apache-2.0
//! A NIC with a machine: the calls of a layer above the engine.

use super::give_way::Poller;
use super::machine::{Machine, Owned};
use super::port::DUTY;
use super::state::Core;
use super::{Nic, clock};
use crate::engine::Engine;
use crate::error::Error;
use crate::wire::host::HostWire;
use bellwire_memory::atomic::Ordering;
use bellwire_memory::token::{Claim, Held};
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use rustix::fd::BorrowedFd;

/// Looks while arming.
const LOOKS: u32 = 8;

/// A NIC with a machine.
#[derive(Debug)]
pub struct Driven<M> {
    nic: Nic,
    machine: PhantomData<fn() -> M>,
}

/// The machine, while the NIC's token is held: no call of the NIC may be made meanwhile.
pub struct HeldMachine<'a, M> {
    core: Held<'a, Core>,
    machine: PhantomData<&'a mut M>,
}

impl<M: Machine<HostWire>> Deref for HeldMachine<'_, M> {
    type Target = M;
    #[inline(always)]
    fn deref(&self) -> &M {
        // SAFETY: N5: `Driven::machine` alone makes these; it is borrowed as this is.
        unsafe { self.core.machine.as_ref().unwrap_unchecked().0.cast::<M>().as_ref() }
    }
}

impl<M: Machine<HostWire>> DerefMut for HeldMachine<'_, M> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut M {
        // SAFETY: N5: `Driven::machine` alone makes these.
        unsafe { self.core.parts::<M>().0 }
    }
}

impl<M: Machine<HostWire>> Driven<M> {
    /// A NIC whose helper drives `machine` from now on. `machine` is of this NIC's engine.
    pub fn new(nic: Nic, machine: M) -> Self {
        let mut core = nic.shared.token.enter(Claim::Bias);
        let before = core.machine.replace(Owned::new(machine));
        debug_assert!(before.is_none(), "N5: the NIC was moved in here, and no call of its own gives it a machine");
        drop(core);
        let driven = Self { nic, machine: PhantomData };
        driven.stand_in();
        driven
    }

    /// What the machine says of [`Machine::stands_in`] is so from now on.
    pub fn stand_in(&self) {
        let stands_in = self.machine().stands_in();
        let shared = &*self.nic.shared;
        // Relaxed: a hint for the helper.
        shared.is_driven.store(stands_in, Ordering::Relaxed);
        // It may be asleep for as long as the engine alone wanted.
        shared.port.tell(DUTY);
    }

    /// The NIC: for what needs no machine.
    pub fn nic(&self) -> &Nic {
        &self.nic
    }

    /// The machine alone.
    #[inline(always)]
    pub fn machine(&self) -> HeldMachine<'_, M> {
        HeldMachine { core: self.nic.shared.token.enter(Claim::Bias), machine: PhantomData }
    }

    /// Runs `f` on the machine and the engine; held to what [`Nic::with`] says.
    #[inline(always)]
    pub fn with<R>(&self, f: impl FnOnce(&mut M, &mut Engine<HostWire>) -> R) -> R {
        let shared = &*self.nic.shared;
        let mut core = shared.token.enter(Claim::Bias);
        // SAFETY: N5.
        let (machine, engine) = unsafe { core.parts::<M>() };
        let result = f(machine, engine);
        if core.needs_settling() {
            core.settle(shared);
        }
        result
    }

    /// As [`with`](Self::with), but in the child of a `fork` an error.
    ///
    /// # Errors
    /// Those of `f`; [`Error::InvalidState`] in the child of a `fork`.
    #[inline(always)]
    pub fn try_with<R, E: From<Error>>(&self, f: impl FnOnce(&mut M, &mut Engine<HostWire>) -> Result<R, E>) -> Result<R, E> {
        self.nic.shared.here()?;
        self.with(f)
    }

    /// While a descriptor is readable, the helper steps the machine, which reads it. `false`: the
    /// system has no room.
    pub fn attend(&self, fd: BorrowedFd<'_>) -> bool {
        self.nic.shared.port.attend(fd)
    }

    /// The helper forgets a descriptor that is about to be closed.
    pub fn forget(&self, fd: BorrowedFd<'_>) {
        self.nic.shared.port.forget(fd);
    }

    /// A look of the program, on the terms of [`Nic::poll_with`].
    ///
    /// # Errors
    /// Those of `poll`; [`Error::InvalidState`] in the child of a `fork`.
    #[inline]
    pub fn poll_with<R, E: From<Error>>(&self, poll: impl FnOnce(&mut M, &mut Engine<HostWire>) -> Result<R, E>) -> Result<R, E> {
        self.take_or_poll(|_| None, poll)
    }

    /// As [`poll_with`](Self::poll_with), unless `take` returns something: the program asks for
    /// what the machine already has. That is no look, since nothing comes in by it.
    ///
    /// # Errors
    /// Those of `take` and `poll`; [`Error::InvalidState`] in the child of a `fork`.
    #[inline(always)]
    pub fn take_or_poll<R, E: From<Error>>(
        &self,
        take: impl FnOnce(&mut M) -> Option<Result<R, E>>,
        poll: impl FnOnce(&mut M, &mut Engine<HostWire>) -> Result<R, E>,
    ) -> Result<R, E> {
        let shared = &*self.nic.shared;
        shared.here()?;
        let mut core = shared.token.enter(Claim::Bias);
        // SAFETY: N5.
        if let Some(taken) = take(unsafe { core.parts::<M>() }.0) {
            return taken;
        }
        if core.begin_poll(shared) {
            core = shared.besides(core, Poller::Frames);
        }
        // SAFETY: N5.
        let (machine, engine) = unsafe { core.parts::<M>() };
        let result = poll(machine, engine);
        shared.note_armed(machine.is_armed());
        if core.needs_settling() {
            core.settle(shared);
        }
        result
    }

    /// Before the program sleeps on something that the machine rings: peers ring from now on, and
    /// `look` is repeated until it finds nothing, so that nothing is missed.
    ///
    /// # Errors
    /// [`Error::InvalidState`] in the child of a `fork`.
    pub fn arm(&self, mut look: impl FnMut(&mut M, &mut Engine<HostWire>) -> bool) -> Result<(), Error> {
        let shared = &*self.nic.shared;
        shared.here()?;
        let mut core = shared.token.enter(Claim::Bias);
        if core.waiters.is_empty() {
            core.arm_for_helper(&shared.port);
        }
        core.engine.set_now(clock());
        // SAFETY: N5.
        let (machine, engine) = unsafe { core.parts::<M>() };
        // The last look comes after arming: what a peer publishes later rings.
        for _ in 0..LOOKS {
            if !look(machine, engine) {
                break;
            }
        }
        shared.note_armed(machine.is_armed());
        if core.needs_settling() {
            core.settle(shared);
        }
        Ok(())
    }
}
