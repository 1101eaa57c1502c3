// SPDX-License-Identifier: MIT OR Apache-2.0
//! A VI becomes connected, and ceases to be: by its program, by its peer, by an error.

use crate::attributes::{Reliability, ViAttributes, ViState};
use crate::cause::Cause;
use crate::engine::Engine;
use crate::error::Error;
use crate::event::AsyncErrorCode;
use crate::frame::{self, DisconnectReason, Head, Op};
use crate::handles::ViHandle;
use crate::parcel::Notice;
use crate::vi::Connection;
use crate::wire::{LinkId, Wire};

impl<W: Wire> Engine<W> {
    pub(super) fn new_connection_id(&mut self, vi: ViHandle) -> Result<crate::vi::ConnectionId, Error> {
        let id = self.connection_ids.insert(Connection { vi: vi.index() as u32 }).ok_or(Error::Resource)?;
        match self.vis.get_mut(vi) {
            Some(v) => v.connection = Some(id),
            None => {
                self.connection_ids.remove(id);
                return Err(Error::InvalidParameter);
            }
        }
        Ok(id)
    }

    pub(super) fn drop_connection_id(&mut self, vi: ViHandle) {
        if let Some(id) = self.vis.get_mut(vi).and_then(|v| v.connection.take()) {
            self.connection_ids.remove(id);
        }
    }

    pub(super) fn connected(&mut self, vi: ViHandle, link: LinkId, to: u32, theirs: &ViAttributes, their_ptag: u32) {
        let Some(v) = self.vis.get_mut(vi) else { return };
        v.reset_connection();
        v.cause = None;
        v.set_state(ViState::Connected);
        v.link = link;
        v.remote_connection = to;
        v.remote_ptag = their_ptag;
        v.remote_write = theirs.rdma_write;
        v.remote_read = theirs.rdma_read;
        v.remote_rnr = theirs.rnr_wait;
        let reception = v.attributes.reliability == Reliability::ReliableReception;
        v.acknowledged = reception || theirs.rnr_wait;
        v.acknowledges = reception || v.attributes.rnr_wait;
        v.advertised_to = v.receive.done;
        v.update_paths();
        self.settle_faulty_receives(vi.index());
    }

    /// Ends a connection, or whatever state there is: both queues are flushed and the VI is idle.
    pub fn disconnect(&mut self, vi: ViHandle) -> Result<(), Error> {
        let v = self.vis.get(vi).ok_or(Error::InvalidParameter)?;
        let index = vi.index();
        match v.state {
            ViState::ConnectPending => {
                self.give_up(vi, Error::InvalidState);
            }
            ViState::Connected => {
                self.say_goodbye(index, DisconnectReason::Requested);
                self.flush(index);
                self.drop_connection_id(vi);
            }
            ViState::Idle | ViState::Error => {}
        }
        // An outcome that nobody has asked for must not stand in the way of the next attempt.
        self.connections.forget_attempt(vi);
        self.flush(index);
        self.ready.remove(index);
        if let Some(v) = self.vis.get_mut(vi) {
            v.reset_connection();
            v.set_state(ViState::Idle);
        }
        Ok(())
    }

    /// A connection breaks: the VI is in error state, both queues are flushed, the error handler is
    /// told; and the peer, if this NIC ended it.
    #[cold]
    pub(crate) fn break_connection(&mut self, index: usize, code: Option<AsyncErrorCode>, cause: Cause) {
        let Some(handle) = self.vis.handle_at(index) else { return };
        let Some(v) = self.vis.at(index) else { return };
        if v.state != ViState::Connected {
            return;
        }
        if let Some(reason) = cause.farewell() {
            self.say_goodbye(index, reason);
        }
        if let Some(v) = self.vis.at(index) {
            v.set_state(ViState::Error);
        }
        self.flush(index);
        self.ready.remove(index);
        self.drop_connection_id(handle);
        self.completions += 1;
        if let Some(v) = self.vis.at(index) {
            v.link = LinkId::from_raw(0);
            v.cause = Some(cause);
        }
        self.notice(handle, Notice::Broken(cause));
        if let Some(code) = code {
            self.raise(Some(handle), code, Some(cause));
        }
    }

    /// Tells the peer what it has not heard yet, and that it is over.
    fn say_goodbye(&mut self, index: usize, reason: DisconnectReason) {
        self.send_last_acknowledgement(index);
        let Some(v) = self.vis.at(index) else { return };
        let (link, to) = (v.link, v.remote_connection);
        let mut line = frame::short(Head::new(Op::Disconnect, to), reason as u64, 0);
        self.send_control_line(link, &mut line);
    }

    /// Messages that arrived before an error are acknowledged before the error is told.
    pub(crate) fn send_last_acknowledgement(&mut self, index: usize) {
        let Some(v) = self.vis.at(index) else { return };
        if v.acknowledges && v.acknowledged_sequence != v.expected_sequence {
            v.acknowledged_sequence = v.expected_sequence;
            let (link, mut line) = (v.link, frame::short(Head::new(Op::Ack, v.remote_connection), u64::from(v.expected_sequence), 0));
            self.send_control_line(link, &mut line);
        }
    }
}
