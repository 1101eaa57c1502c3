// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server's side: waits for requests to connect, and what is said to each.

use crate::attributes::{NetAddress, ViState};
use crate::connection::message::ReplyCode;
use crate::connection::{ConnectionRequest, RETRY_MAX, RETRY_MIN, compatible};
use crate::connections::{IncomingHandle, Listening, Timer, Wait, WaitHandle};
use crate::engine::Engine;
use crate::error::Error;
use crate::handles::ViHandle;
use crate::parcel::Notice;
use crate::time::Instant;
use crate::wire::Wire;

impl<W: Wire> Engine<W> {
    /// Begins to wait for a request to `local` (host and discriminator).
    pub fn connect_wait(&mut self, local: &NetAddress, deadline: Instant) -> Result<WaitHandle, Error> {
        let c = &mut self.connections;
        let wait = c.waits.insert(Wait { address: *local, deadline, matched: None }).ok_or(Error::Resource)?;
        c.wait_order.push(wait);
        let listening = c.listening.entry(*local).or_insert(Listening { users: 0, active: false });
        listening.users += 1;
        if !listening.active {
            listening.active = self.wire.listen(local);
            if !listening.active {
                c.schedule(self.now + RETRY_MIN, Timer::Listen);
            }
        }
        Ok(wait)
    }

    /// Whether requests to this address come here. If not, though somebody here waits for it,
    /// somebody else on this host does.
    pub fn is_listening(&self, local: &NetAddress) -> bool {
        self.connections.listening.get(local).is_some_and(|l| l.active)
    }

    /// Whether a process of another user of this host waits for this address, to which a connection
    /// may be made: users do not take addresses from each other.
    #[cold]
    pub fn others_listen(&self, address: &NetAddress) -> bool {
        self.wire.others_listen(address)
    }

    /// Requests for connections that have met a wait since the engine began: a caller that
    /// remembers the number knows whether to ask [`poll_wait`](Self::poll_wait).
    #[inline]
    pub fn connection_requests(&self) -> u64 {
        self.connections.arrived
    }

    /// Whether a request has met this wait, or it is no more.
    pub(crate) fn is_over(&self, wait: WaitHandle) -> bool {
        self.connections.waits.get(wait).is_none_or(|w| w.matched.is_some())
    }

    /// Whether a request has come. After anything but `Ok(None)` the wait is over.
    pub fn poll_wait(&mut self, wait: WaitHandle) -> Result<Option<ConnectionRequest>, Error> {
        let w = self.connections.waits.get(wait).ok_or(Error::InvalidParameter)?;
        let Some(incoming) = w.matched else {
            if w.deadline <= self.now {
                self.cancel_wait(wait);
                return Err(Error::Timeout);
            }
            return Ok(None);
        };
        let found = self.connections.incoming.get(incoming).map(|i| ConnectionRequest { incoming, remote: i.remote, attributes: i.attributes });
        self.end_wait(wait);
        // A request whose requester is gone before anybody saw it: the wait is over all the same.
        found.map(Some).ok_or(Error::Timeout)
    }

    /// Ends a wait; a request that had matched it is refused.
    pub fn cancel_wait(&mut self, wait: WaitHandle) {
        if let Some(incoming) = self.connections.waits.get(wait).and_then(|w| w.matched) {
            let _ = self.reject(incoming);
        }
        self.end_wait(wait);
    }

    fn end_wait(&mut self, wait: WaitHandle) {
        let c = &mut self.connections;
        let Some(w) = c.waits.remove(wait) else { return };
        c.wait_order.retain(|x| *x != wait);
        if let Some(l) = c.listening.get_mut(&w.address) {
            l.users -= 1;
            if l.users == 0 {
                if l.active {
                    self.wire.unlisten(&w.address);
                }
                c.listening.remove(&w.address);
            }
        }
    }

    /// Connects `vi` to the requester. On a mismatch of attributes the request stays, to be
    /// accepted with another VI or rejected.
    pub fn accept(&mut self, incoming: IncomingHandle, vi: ViHandle) -> Result<(), Error> {
        let i = self.connections.incoming.get(incoming).ok_or(Error::InvalidParameter)?;
        let v = self.vis.get(vi).ok_or(Error::InvalidParameter)?;
        if v.state != ViState::Idle {
            return Err(Error::InvalidState);
        }
        if i.gone {
            self.connections.incoming.remove(incoming);
            return Err(Error::Timeout);
        }
        compatible(&v.attributes, &i.attributes)?;
        let (link, to, theirs, ptag, remote) = (i.link, i.their_connection, i.attributes, i.their_ptag, i.remote);
        self.connections.incoming.remove(incoming);
        let own = self.new_connection_id(vi)?;
        self.reply(link, to, ReplyCode::Accepted, Some(vi));
        self.connected(vi, link, to, &theirs, ptag);
        debug_assert_eq!(self.vis.get(vi).and_then(|v| v.connection), Some(own));
        self.notice(vi, Notice::Accepted(theirs.qos, Box::new(remote)));
        Ok(())
    }

    /// Refuses a request.
    pub fn reject(&mut self, incoming: IncomingHandle) -> Result<(), Error> {
        let i = self.connections.incoming.remove(incoming).ok_or(Error::InvalidParameter)?;
        if !i.gone {
            self.reply(i.link, i.their_connection, ReplyCode::Rejected, None);
        }
        Ok(())
    }

    pub(super) fn listen_again(&mut self) {
        let mut again = false;
        for (address, l) in self.connections.listening.iter_mut().filter(|(_, l)| !l.active) {
            l.active = self.wire.listen(address);
            again |= !l.active;
        }
        if again {
            self.connections.schedule(self.now + RETRY_MAX, Timer::Listen);
        }
    }
}
