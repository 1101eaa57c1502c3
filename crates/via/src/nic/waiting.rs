// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of a NIC that wait (`None`: for ever), and the descriptors that programs wait on. How
//! they sleep: `wait.rs`, `watch.rs`.

use crate::complete::Completion;
use crate::engine::Engine;
use crate::error::Error;
use crate::handles::{CqHandle, InboxHandle, ViHandle, WorkQueueKind};
use crate::nic::config::SPIN_MAX;
use crate::nic::spin::{Adaptive, Spin};
use crate::nic::target::Target;
use crate::nic::wait;
use crate::nic::{Nic, saturating_ns, watch};
use crate::wire::host::HostWire;
use bellwire_memory::token::Claim;
use rustix::fd::OwnedFd;
use std::time::Duration;

impl Nic {
    /// Waits until something is in an inbox, or more than `requests` connection requests have come
    /// ([`Engine::connection_requests`]). Takes nothing.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::InvalidState`] in the child of a `fork`.
    pub fn inbox_wait(&self, inbox: InboxHandle, requests: u64, timeout: Option<Duration>) -> Result<(), Error> {
        self.inbox_wait_until(inbox, requests, timeout, || false)
    }

    /// As [`inbox_wait`](Self::inbox_wait); also until `until`, which is asked whenever something
    /// has happened on this NIC, and held to what [`with`](Self::with) says.
    ///
    /// # Errors
    /// As there.
    pub fn inbox_wait_until(&self, inbox: InboxHandle, requests: u64, timeout: Option<Duration>, until: impl Fn() -> bool) -> Result<(), Error> {
        self.wait(Target::Inbox, timeout, Spin::Nic, |_| Ok(None), |e| Ok((e.has_come(inbox) || e.connection_requests() != requests || until()).then_some(())))
    }

    /// As [`send_done`](Self::send_done), waiting. [`Error::Timeout`] when the time is over.
    pub fn send_wait(&self, vi: ViHandle, timeout: Option<Duration>) -> Result<Completion, Error> {
        self.send_wait_with(vi, timeout, Spin::Nic)
    }

    /// As [`receive_done`](Self::receive_done), waiting. [`Error::Timeout`] when the time is over.
    pub fn receive_wait(&self, vi: ViHandle, timeout: Option<Duration>) -> Result<Completion, Error> {
        self.receive_wait_with(vi, timeout, Spin::Nic)
    }

    /// As [`cq_done`](Self::cq_done), waiting. [`Error::Timeout`] when the time is over.
    pub fn cq_wait(&self, cq: CqHandle, timeout: Option<Duration>) -> Result<(ViHandle, WorkQueueKind), Error> {
        self.cq_wait_with(cq, timeout, Spin::Nic)
    }

    /// As [`send_wait`](Self::send_wait), polling for a time of its own before it sleeps.
    pub fn send_wait_with(&self, vi: ViHandle, timeout: Option<Duration>, spin: Spin) -> Result<Completion, Error> {
        self.wait(Target::Send(vi), timeout, spin, |e| e.send_done(vi), |e| e.poll_send(vi))
    }

    /// As [`receive_wait`](Self::receive_wait), polling for a time of its own before it sleeps.
    pub fn receive_wait_with(&self, vi: ViHandle, timeout: Option<Duration>, spin: Spin) -> Result<Completion, Error> {
        self.wait(Target::Receive(vi), timeout, spin, |e| e.receive_done(vi), |e| e.poll_receive(vi))
    }

    /// As [`cq_wait`](Self::cq_wait), polling for a time of its own before it sleeps.
    pub fn cq_wait_with(&self, cq: CqHandle, timeout: Option<Duration>, spin: Spin) -> Result<(ViHandle, WorkQueueKind), Error> {
        self.wait(Target::Cq(cq), timeout, spin, |e| e.cq_done(cq), |e| e.poll_cq(cq))
    }

    #[inline]
    fn wait<R>(
        &self,
        target: Target,
        timeout: Option<Duration>,
        spin: Spin,
        done: impl FnOnce(&mut Engine<HostWire>) -> Result<Option<R>, Error>,
        mut take: impl FnMut(&mut Engine<HostWire>) -> Result<Option<R>, Error>,
    ) -> Result<R, Error> {
        // Before the first look: in a child the peers' memory is not mapped.
        self.shared.here()?;
        if let Some(found) = self.shared.take_or_poll(|e| wait::look_once(e, done), |e| wait::look_once(e, &mut take))? {
            return Ok(found);
        }
        let (now, deadline) = self.shared.deadline(timeout)?;
        wait::wait_for(&self.shared, target, now, deadline, spin, &mut take)
    }

    /// How long waits that say nothing else poll at most before they sleep, from now on; at most
    /// [`SPIN_MAX`]. Experience with spinning is forgotten.
    pub fn set_spin(&self, spin: Duration) {
        self.shared.token.enter(Claim::Bias).spin = Adaptive::new(saturating_ns(spin.min(SPIN_MAX)));
    }

    /// How long waits that say nothing else poll at most before they sleep.
    pub fn spin(&self) -> Duration {
        Duration::from_nanos(self.shared.token.enter(Claim::Bias).spin.max_ns())
    }

    /// The file descriptor of a completion queue, to sleep on with `epoll` or `poll`, level- or
    /// edge-triggered: see [`cq_arm`](Self::cq_arm). Each call gives another duplicate, which
    /// belongs to the caller; it may be closed at any time, and outlives the queue and the NIC,
    /// silent. Nobody need read from it.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]; [`Error::Resource`]: no descriptors left; [`Error::InvalidState`] in the child of a `fork`.
    pub fn cq_fd(&self, cq: CqHandle) -> Result<OwnedFd, Error> {
        watch::descriptor(&self.shared, cq)
    }

    /// Silences the descriptor of a completion queue and makes it readable once more when an entry
    /// is there. `true`: there is none now, sleep. `false`: there is one already (and the
    /// descriptor is readable): take it, and all others, then arm again. Call it each time before
    /// sleeping, and at no other time: polling and the messages themselves make no system call for
    /// it.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]; [`Error::InvalidState`]: [`cq_fd`](Self::cq_fd) has never been called for it, or this is the child of a `fork`.
    pub fn cq_arm(&self, cq: CqHandle) -> Result<bool, Error> {
        watch::arm(&self.shared, cq)
    }

    /// See [`Engine::destroy_cq`]. A sleeper on its descriptor is woken.
    ///
    /// # Errors
    /// As there.
    pub fn destroy_cq(&self, cq: CqHandle) -> Result<(), Error> {
        self.shared.with(|e| e.destroy_cq(cq))?;
        watch::forget(&self.shared);
        Ok(())
    }
}
