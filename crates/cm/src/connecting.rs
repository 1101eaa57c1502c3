// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program's commands about connections.

use crate::cm::Cm;
use crate::host::Host;
use crate::id::State;
use crate::message::{Kind, Message};
use crate::types::{Channel, Error, EventBody, EventKind, Gid, Parameters, QpKind, REJECTED_BY_CONSUMER, Service, UDP_QKEY};

impl Cm {
    /// Asks the peer for a connection, or for the queue pair of its service. An event tells.
    ///
    /// # Errors
    /// [`Error::Invalid`]: there is no route, or too much data.
    pub fn connect<H: Host>(&mut self, host: &mut H, channel: Channel, id: u32, parameters: Parameters, now: u64) -> Result<(), Error> {
        self.now = now;
        let state = self.of(channel, id)?;
        let kind = if state.kind == QpKind::Datagram { Kind::Resolve } else { Kind::Request };
        let (Some(gid), Some(to)) = (state.peer_gid, state.destination) else { return Err(Error::Invalid) };
        if state.state != State::Routed || parameters.data.len() > kind.data_bytes() {
            return Err(Error::Invalid);
        }
        let first = (self.draw() & 0xff_ffff) as u32;
        let state = self.of(channel, id)?;
        state.numbers.1 = first;
        state.ours = parameters.clone();
        (state.state, state.asked_at) = (State::Requested, now);
        state.pending = Some(Message { parameters, ..state.message(id, kind) });
        self.ask(host, id, gid, to.port());
        Ok(())
    }

    /// Sends a request, by the link to its service. An event tells of a failure.
    pub(crate) fn ask<H: Host>(&mut self, host: &mut H, id: u32, gid: Gid, port: u16) {
        let Some(space) = self.ids.get(&id).map(|state| state.space) else { return };
        match self.link_to(host, gid, Service { space, port }) {
            Some(link) => {
                self.put_on(id, link);
                self.send_pending(host, id);
                self.begin(id);
            }
            None => self.lost(host, id, false, true),
        }
    }

    /// Accepts a peer's request (then `uid` is the identifier's name from now on), or confirms that
    /// the peer accepted.
    ///
    /// # Errors
    /// [`Error::Invalid`]: there is nothing to accept, or too much data.
    pub fn accept<H: Host>(&mut self, host: &mut H, channel: Channel, id: u32, named: Option<(u64, Parameters)>, now: u64) -> Result<(), Error> {
        self.now = now;
        let state = self.of(channel, id)?;
        match (state.state, named) {
            (State::Answered, _) => {
                (state.state, state.pending) = (State::Established, None);
                self.say(host, id, Kind::Ready, 0, &[]);
                self.settle(id);
                Ok(())
            }
            (State::Asked, Some((uid, mut parameters))) => {
                let is_datagram = state.kind == QpKind::Datagram;
                let kind = if is_datagram { Kind::Resolved } else { Kind::Reply };
                if parameters.data.len() > kind.data_bytes() {
                    return Err(Error::Invalid);
                }
                if is_datagram && parameters.qkey == 0 {
                    parameters.qkey = UDP_QKEY;
                }
                (state.uid, state.unclaimed) = (uid, false);
                state.ours = parameters.clone();
                state.state = if is_datagram { State::Established } else { State::Replied };
                state.pending = Some(Message { parameters, ..state.message(id, kind) });
                self.send_pending(host, id);
                if !is_datagram {
                    self.begin(id);
                }
                Ok(())
            }
            _ => Err(Error::Invalid),
        }
    }

    /// Refuses a peer's request, or its acceptance.
    ///
    /// # Errors
    /// [`Error::Invalid`]: there is none, or too much data.
    pub fn reject<H: Host>(&mut self, host: &mut H, channel: Channel, id: u32, reason: u32, data: &[u8]) -> Result<(), Error> {
        let state = self.of(channel, id)?;
        let is_datagram = state.kind == QpKind::Datagram;
        let kind = if is_datagram { Kind::Resolved } else { Kind::Reject };
        if !matches!(state.state, State::Asked | State::Answered | State::Replied) || data.len() > kind.data_bytes() {
            return Err(Error::Invalid);
        }
        let reason = match reason {
            _ if is_datagram => 2,
            0 => REJECTED_BY_CONSUMER,
            other => other,
        };
        self.say(host, id, kind, reason, data);
        self.finish(id, State::Over);
        Ok(())
    }

    /// Ends a connection, or confirms that the peer ended it.
    ///
    /// # Errors
    /// [`Error::Invalid`]: there never was one.
    pub fn disconnect<H: Host>(&mut self, host: &mut H, channel: Channel, id: u32, now: u64) -> Result<(), Error> {
        self.now = now;
        let state = self.of(channel, id)?;
        if state.kind == QpKind::Datagram {
            return Err(Error::Invalid);
        }
        match state.state {
            State::Established | State::Replied | State::Answered => {
                state.state = State::Leaving;
                // Whose connection ends, as InfiniBand says it.
                let parameters = Parameters { qp: state.theirs.qp, ..Parameters::default() };
                state.pending = Some(Message { parameters, ..state.message(id, Kind::Leave) });
                if state.link.is_none() {
                    self.left(host, id, 0);
                    return Ok(());
                }
                self.send_pending(host, id);
                self.begin(id);
                Ok(())
            }
            State::Left => {
                self.say(host, id, Kind::Left, 0, &[]);
                self.time_wait(id);
                Ok(())
            }
            State::Leaving | State::TimeWait | State::Over => Ok(()),
            _ => Err(Error::Invalid),
        }
    }

    /// The program saw the first message of a connection before its confirmation.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the identifier does not wait for one.
    pub fn notify<H: Host>(&mut self, host: &mut H, channel: Channel, id: u32) -> Result<(), Error> {
        let state = self.of(channel, id)?;
        match state.state {
            State::Replied => {
                self.established(host, id);
                Ok(())
            }
            State::Established => Ok(()),
            _ => Err(Error::Invalid),
        }
    }

    /// A passive side's connection is confirmed.
    pub(crate) fn established<H: Host>(&mut self, host: &mut H, id: u32) {
        let Some(state) = self.ids.get_mut(&id) else { return };
        (state.state, state.pending) = (State::Established, None);
        self.settle(id);
        self.tell(host, id, EventKind::Established, 0, EventBody::Nothing);
    }

    /// The connection is over, and the peer knows.
    pub(crate) fn left<H: Host>(&mut self, host: &mut H, id: u32, status: i32) {
        self.time_wait(id);
        self.tell(host, id, EventKind::Disconnected, status, EventBody::Nothing);
    }
}
