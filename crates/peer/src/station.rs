// SPDX-License-Identifier: MIT OR Apache-2.0
//! A layer's machine on a NIC of its own: what the calls of programs go through.
//!
//! The machine lives under the NIC's token, so a call takes one lock; what one thread does alone
//! costs no locked instruction. The program's own looks move everything. The NIC's helper thread
//! steps the machine when nobody has looked for a millisecond, and at once while the machine is
//! armed ([`Machine::is_armed`]): so peers are served while the program computes or sleeps.
//!
//! In the child of a `fork` calls fail and dropping does nothing: neither the helper thread nor the
//! connections are the child's.

use bellwire_via::nic::{Driven, HeldMachine, Machine};
use bellwire_via::wire::host::HostWire;
use bellwire_via::{Engine, Error, InboxHandle, Nic};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// How long a station that closes tries to send what was posted.
const FAREWELL: Duration = Duration::from_secs(3);
/// Between two tries.
const PAUSE: Duration = Duration::from_micros(50);

/// A machine on a NIC.
#[derive(Debug)]
pub struct Station<M: Machine<HostWire>> {
    driven: Driven<M>,
}

impl<M: Machine<HostWire>> Station<M> {
    /// Makes a machine on a NIC, whose engine knows the time meanwhile.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn open<E>(nic: Nic, make: impl FnOnce(&mut Engine<HostWire>) -> Result<M, E>) -> Result<Self, E> {
        // A connection that breaks comes as a notice.
        nic.ignore_errors();
        nic.now();
        let machine = nic.with(make)?;
        Ok(Self { driven: Driven::new(nic, machine) })
    }

    /// The machine alone: for what needs no engine and gives the helper nothing to do.
    #[inline(always)]
    pub fn machine(&self) -> HeldMachine<'_, M> {
        self.driven.machine()
    }

    /// Runs `f` on the machine and the engine.
    ///
    /// # Errors
    /// Those of `f`; [`Error::InvalidState`] in the child of a `fork`.
    #[inline(always)]
    pub fn with<R, E: From<Error>>(&self, f: impl FnOnce(&mut M, &mut Engine<HostWire>) -> Result<R, E>) -> Result<R, E> {
        self.driven.try_with(f)
    }

    /// A look of the program. After one that found nothing: [`give_way`](Self::give_way).
    ///
    /// # Errors
    /// As [`with`](Self::with).
    #[inline(always)]
    pub fn poll<R, E: From<Error>>(&self, look: impl FnOnce(&mut M, &mut Engine<HostWire>) -> Result<R, E>) -> Result<R, E> {
        self.driven.poll_with(look)
    }

    /// As [`poll`](Self::poll), unless `take` returns something that the machine already has.
    ///
    /// # Errors
    /// As [`with`](Self::with).
    #[inline(always)]
    pub fn take_or_poll<R, E: From<Error>>(
        &self,
        take: impl FnOnce(&mut M) -> Option<Result<R, E>>,
        look: impl FnOnce(&mut M, &mut Engine<HostWire>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.driven.take_or_poll(take, look)
    }

    /// While a descriptor is readable, the helper thread steps the machine, which reads it. It is
    /// closed after [`forget`](Self::forget) only. `false`: the system has no room.
    pub fn attend(&self, fd: BorrowedFd<'_>) -> bool {
        self.driven.attend(fd)
    }

    /// The helper thread forgets a descriptor.
    pub fn forget(&self, fd: BorrowedFd<'_>) {
        self.driven.forget(fd);
    }

    /// Lets others run, if it is time to.
    #[inline]
    pub fn give_way(&self) {
        self.driven.nic().give_way();
    }

    /// Whether [`give_way`](Self::give_way) would let others run.
    #[inline]
    pub fn should_give_way(&self) -> bool {
        self.driven.nic().should_give_way()
    }

    /// Whether a look that found nothing should be followed by a short sleep instead.
    pub fn should_nap(&self) -> bool {
        self.driven.nic().should_nap()
    }

    /// Sleeps until something is in an inbox of the machine, or more connection requests have come
    /// than those `seen`, or `until`, or `timeout` has passed.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::InvalidState`] in the child of a `fork`.
    pub fn sleep(&self, inbox: InboxHandle, seen: u64, timeout: Option<Duration>, until: impl Fn() -> bool) -> Result<(), Error> {
        self.driven.nic().inbox_wait_until(inbox, seen, timeout, until)
    }

    /// Has a program that sleeps look again.
    pub fn wake(&self) {
        self.driven.nic().with(Engine::rouse);
    }

    /// The machine is to be stepped by the helper thread from now on ([`Machine::stands_in`]).
    pub fn stand_in(&self) {
        self.driven.stand_in();
    }

    /// Before a program sleeps on something that the machine rings, and after each change that arms
    /// it: `look` is repeated after peers have been told to ring, until it finds nothing.
    ///
    /// # Errors
    /// As [`with`](Self::with).
    pub fn arm(&self, look: impl FnMut(&mut M, &mut Engine<HostWire>) -> bool) -> Result<(), Error> {
        self.driven.arm(look)
    }

    /// Whether this is the child of a `fork`, where nothing of the station works.
    #[inline]
    pub fn in_child(&self) -> bool {
        self.driven.nic().in_child()
    }
}

impl<M: Machine<HostWire>> Drop for Station<M> {
    /// Sends what was posted, for some seconds at most; then the machine ends its connections.
    fn drop(&mut self) {
        if self.in_child() {
            return;
        }
        let end = Instant::now() + FAREWELL;
        loop {
            let now = self.driven.nic().now();
            let (moved, is_waiting) = self.driven.with(|machine, engine| (machine.step(engine, now), machine.has_unsent()));
            if (!moved && !is_waiting) || Instant::now() >= end {
                break;
            }
            if !moved {
                std::thread::sleep(PAUSE);
            }
        }
        self.driven.with(|machine, engine| machine.close(engine));
    }
}
