// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of a NIC that make connections: the engine's attempts, waited for.

use crate::attributes::{NetAddress, ViAttributes, ViState};
use crate::connection::ConnectionRequest;
use crate::error::Error;
use crate::handles::ViHandle;
use crate::nic::spin::Spin;
use crate::nic::target::Target;
use crate::nic::{Nic, clock};
use crate::nic::{request_wait, wait};
use crate::time::Instant;
use std::time::Duration;

/// Least time of a connection request: its handshake takes some.
const HANDSHAKE_MIN: Duration = Duration::from_millis(10);

impl Nic {
    /// Waits for a request for a connection to `local`. Accept or reject it through
    /// [`with`](Self::with).
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::Resource`]; [`Error::InvalidState`] in the child of a `fork`.
    pub fn connect_wait(&self, local: &NetAddress, timeout: Option<Duration>) -> Result<ConnectionRequest, Error> {
        let (mut now, deadline) = self.shared.deadline(timeout)?;
        loop {
            let wait = self.with(|e| e.connect_wait(local, deadline))?;
            let outcome = request_wait::wait_for_request(&self.shared, wait, now, deadline);
            if outcome.is_ok() {
                return outcome;
            }
            self.with(|e| e.cancel_wait(wait));
            // A requester that went away before anybody saw its request: the time is not over yet.
            now = clock();
            if outcome.as_ref().err() != Some(&Error::Timeout) || now >= deadline {
                return outcome;
            }
        }
    }

    /// Connects `vi` to the waiter at `remote`; returns the peer's attributes. A `timeout` of
    /// zero means one try.
    ///
    /// # Errors
    /// [`Error::NoMatch`]: nobody waited there in that time; [`Error::Timeout`]: a waiter did not answer; and the refusals of either side.
    pub fn connect_request(&self, vi: ViHandle, local: &NetAddress, remote: &NetAddress, timeout: Option<Duration>) -> Result<ViAttributes, Error> {
        let (_, deadline) = self.shared.deadline(timeout.map(|t| t.max(HANDSHAKE_MIN)))?;
        self.with(|e| e.connect_request(vi, local, remote, deadline))?;
        self.await_connection(vi)
    }

    /// Begins to connect `vi` to a VI whose owner makes the mirrored call; see
    /// [`peer_done`](Self::peer_done) and [`peer_wait`](Self::peer_wait).
    ///
    /// # Errors
    /// [`Error::InvalidState`] if `vi` is not idle, or in the child of a `fork`.
    pub fn peer_request(&self, vi: ViHandle, local: &NetAddress, remote: &NetAddress, timeout: Option<Duration>) -> Result<(), Error> {
        let (_, deadline) = self.shared.deadline(timeout.map(|t| t.max(HANDSHAKE_MIN)))?;
        self.with(|e| e.peer_request(vi, local, remote, deadline))
    }

    /// How a peer request ended: the peer's attributes, or the error; `Ok(None)` while it goes on.
    ///
    /// # Errors
    /// [`Error::InvalidState`] if there is none; else why it failed.
    pub fn peer_done(&self, vi: ViHandle) -> Result<Option<ViAttributes>, Error> {
        self.shared.poll(|e| {
            e.progress();
            e.connect_status(vi)
        })
    }

    /// As [`peer_done`](Self::peer_done), waiting for the end; the request's timeout governs.
    ///
    /// # Errors
    /// As [`peer_done`](Self::peer_done).
    pub fn peer_wait(&self, vi: ViHandle) -> Result<ViAttributes, Error> {
        self.shared.deadline(None)?;
        self.await_connection(vi)
    }

    /// The engine's own timers end the attempt.
    fn await_connection(&self, vi: ViHandle) -> Result<ViAttributes, Error> {
        let outcome = wait::wait_for(&self.shared, Target::Connect, clock(), Instant::NEVER, Spin::Nic, &mut |e| {
            e.progress();
            e.connect_status(vi)
        });
        if outcome.is_err() {
            self.with(|e| {
                // The wait itself failed (no descriptor to sleep on): nobody will ask for the
                // outcome.
                if e.query_vi(vi).is_ok_and(|(state, ..)| state == ViState::ConnectPending) {
                    let _ = e.disconnect(vi);
                }
            });
        }
        outcome
    }
}
