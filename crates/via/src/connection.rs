// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections: client/server and peer-to-peer, told by frames on a link that the wire finds or
//! makes.
//!
//! ```text
//!  client                          server                       peer A                     peer B
//!  connect_request                 connect_wait                 peer_request               peer_request
//!    wire.resolve -> link            wire.listen                  wire.resolve (Peer) on both sides -> link
//!    ConnectRequest  ------------->  match: Pending   (or NoMatch: tried again until the deadline)
//!                    <-------------  accept / reject            PeerRequest <------------> PeerRequest
//!  Connected                       Connected                    whoever has a matching request of its own is
//!                                                               connected, and says PeerAccept (of two crossed
//!                                                               requests, the side with the greater address)
//! ```
//!
//! A connection id is made for each attempt and never used again; frames for an id that is gone are
//! dropped. Times are deadlines given by the caller.
//!
//! `connection/serve.rs`: the server; `attempt.rs`: the client, and peers; `arrival.rs`: frames
//! about connections; `message.rs`: those frames; `ending.rs`: connected, and no longer. Here:
//! attempts under way, and their times.

use crate::attributes::{NetAddress, ViAttributes};
use crate::cause::Cause;
use crate::connections::{IncomingHandle, Timer};
use crate::engine::Engine;
use crate::error::Error;
use crate::event::{AsyncError, AsyncErrorCode, Event};
use crate::handles::ViHandle;
use crate::time::Duration;
use crate::wire::Wire;

mod arrival;
mod attempt;
mod ending;
mod message;
mod serve;

/// Errors that wait to be told: more than one for each VI.
const EVENTS_MAX: usize = 1 << 17;
/// First and longest pause between two tries of a request that found nobody.
const RETRY_MIN: Duration = Duration::from_micros(200);
const RETRY_MAX: Duration = Duration::from_millis(8);

/// The outcome of `connect_wait`.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionRequest {
    /// To accept or reject.
    pub incoming: IncomingHandle,
    /// The requester's address and discriminator.
    pub remote: NetAddress,
    /// The requester's VI.
    pub attributes: ViAttributes,
}

impl<W: Wire> Engine<W> {
    #[cold]
    pub(crate) fn handle_timeout(&mut self) {
        while let Some(timer) = self.connections.pop_due(self.now) {
            match timer {
                Timer::NotReady(index) => self.ready.insert(index),
                Timer::Listen => self.listen_again(),
                Timer::Attempt(vi) => {
                    let now = self.now;
                    let Some(a) = self.connections.attempts.get(&vi).filter(|a| a.outcome.is_none()) else { continue };
                    if a.deadline <= now {
                        let why = if a.matched { Error::Timeout } else { a.not_found() };
                        self.give_up(vi, why);
                    } else if a.found_by <= now && a.link.is_none() && !a.busy && a.request.is_some_and(|request| !self.wire.has_found(request)) {
                        let why = a.not_found();
                        self.give_up(vi, why);
                    } else if (a.retry_at <= now || a.found_by <= now) && a.request.is_none() && a.link.is_none() {
                        // Also when the time to be found has passed: a process that gets little of
                        // the processors has hardly tried. If nobody is there now, that ends it.
                        self.resolve(vi);
                    }
                }
            }
        }
    }

    pub(crate) fn raise(&mut self, vi: Option<ViHandle>, code: AsyncErrorCode, cause: Option<Cause>) {
        // A peer can raise errors faster than they are handled; beyond this many at a time they are
        // not told one by one.
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(Event::AsyncError(AsyncError { vi, cq: None, code, cause }));
        }
    }
}

/// Whether two VIs can be connected.
fn compatible(a: &ViAttributes, b: &ViAttributes) -> Result<(), Error> {
    if a.reliability != b.reliability {
        return Err(Error::InvalidReliability);
    }
    if a.max_transfer_bytes != b.max_transfer_bytes {
        return Err(Error::InvalidMtu);
    }
    Ok(())
}
