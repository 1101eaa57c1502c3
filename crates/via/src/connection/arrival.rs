// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connection frames, and the answers to them.

use super::compatible;
use super::message::{Message, ReplyCode};
use crate::attributes::ViState;
use crate::connections::{Attempt, Incoming};
use crate::engine::Engine;
use crate::error::Error;
use crate::frame::{self, DisconnectReason, Head, Op};
use crate::handle::Handle;
use crate::handles::ViHandle;
use crate::time::Instant;
use crate::wire::{Frame, LinkId, Rendezvous, Wire};
use bellwire_memory::line_queue::Line;

impl<W: Wire> Engine<W> {
    /// Frames to nobody in particular. `false`: nonsense.
    pub(crate) fn deliver_control(&mut self, link: LinkId, op: Op, frame: &Frame) -> bool {
        let Some(m) = Message::load(frame) else { return false };
        match op {
            Op::ConnectRequest => self.incoming_request(link, &m),
            Op::PeerRequest => self.incoming_peer(link, &m),
            Op::ConnectCancel => {
                let found = self.connections.incoming.iter().find(|(_, i)| i.link == link && i.their_connection == m.connection).map(|(h, _)| h);
                if let Some(i) = found.and_then(|h| self.connections.incoming.get_mut(h)) {
                    i.gone = true;
                }
            }
            _ => return false,
        }
        true
    }

    pub(super) fn incoming_request(&mut self, link: LinkId, m: &Message) {
        let c = &mut self.connections;
        let waiting = c.wait_order.iter().copied().find(|w| c.waits.get(*w).is_some_and(|w| w.matched.is_none() && w.address == m.to && w.deadline > self.now));
        let Some(wait) = waiting else {
            let code = if c.listening.contains_key(&m.to) { ReplyCode::Busy } else { ReplyCode::NoMatch };
            return self.reply(link, m.connection, code, None);
        };
        let incoming = Incoming { link, their_connection: m.connection, remote: m.from, attributes: m.attributes, their_ptag: m.ptag, gone: false };
        let Some(handle) = c.incoming.insert(incoming) else { return self.reply(link, m.connection, ReplyCode::NoMatch, None) };
        if let Some(w) = c.waits.get_mut(wait) {
            w.matched = Some(handle);
        }
        c.arrived += 1;
        self.completions += 1;
        self.reply(link, m.connection, ReplyCode::Pending, None);
    }

    /// Of two crossed requests only one may decide who meets whom, else several VIs with the same
    /// two addresses find different partners on the two sides: the side with the greater address
    /// decides. To the other a request only says "ask again": ours may have come there too early.
    pub(super) fn incoming_peer(&mut self, link: LinkId, m: &Message) {
        if m.to < m.from {
            return self.ask_peer_again(link, m);
        }
        if self.vis.iter().any(|(_, v)| v.state == ViState::Connected && v.link == link && v.remote_connection == m.connection) {
            return; // Asked twice, and answered already.
        }
        // Our own request to the same peer, not yet answered. On a link to ourselves a request must
        // not meet itself.
        let own = self.connections.attempts.iter().find(|(vi, a)| {
            a.how == Rendezvous::Peer
                && a.outcome.is_none()
                && a.local == m.to
                && a.remote == m.from
                && self.vis.get(**vi).and_then(|v| v.connection).is_some_and(|c| !(self.wire.link_info(link).loopback && c.raw() == m.connection))
        });
        // Told that nobody has asked yet, the peer looks for us again: what its wire has found once
        // may not be found by ours later.
        let Some((vi, _)) = own else { return self.reply_as(Op::PeerAccept, link, m.connection, ReplyCode::NoMatch, None) };
        let vi = *vi;
        let Some(v) = self.vis.get(vi) else { return };
        match compatible(&v.attributes, &m.attributes) {
            Ok(()) => {
                self.reply_as(Op::PeerAccept, link, m.connection, ReplyCode::Accepted, Some(vi));
                self.connected(vi, link, m.connection, &m.attributes, m.ptag);
                self.attempt_ends(vi, Ok(m.attributes));
            }
            Err(e) => {
                self.reply_as(Op::PeerAccept, link, m.connection, ReplyCode::from_error(e), None);
                self.attempt_ends(vi, Err(e));
            }
        }
    }

    fn ask_peer_again(&mut self, link: LinkId, m: &Message) {
        let waiting =
            |a: &Attempt| a.how == Rendezvous::Peer && a.outcome.is_none() && a.link.is_none_or(|l| l == link) && a.local == m.to && a.remote == m.from;
        let asking: Vec<ViHandle> = self.connections.attempts.iter().filter(|(_, a)| waiting(a)).map(|(vi, _)| *vi).collect();
        if asking.is_empty() {
            return self.reply_as(Op::PeerAccept, link, m.connection, ReplyCode::NoMatch, None);
        }
        for vi in asking {
            // The peer has come to us: what the wire is still looking for is found.
            if let Some(a) = self.connections.attempts.get_mut(&vi) {
                a.link = Some(link);
                a.retry_at = Instant::NEVER;
                if let Some(request) = a.request.take() {
                    self.connections.requests.remove(&request);
                    self.wire.cancel(request);
                }
            }
            self.send_message(link, Head::new(Op::PeerRequest, 0), vi, ReplyCode::Accepted);
        }
    }

    /// Frames for a connection that is being made.
    #[cold]
    pub(crate) fn deliver_to_pending(&mut self, link: LinkId, index: usize, op: Op, frame: &Frame) -> bool {
        let Some(vi) = self.vis.handle_at(index) else { return true };
        let awaited = self.connections.attempts.get(&vi).is_some_and(|a| a.outcome.is_none() && (a.link == Some(link) || op == Op::PeerAccept));
        if !matches!(op, Op::ConnectReply | Op::PeerAccept) || !awaited {
            self.stale_frames += 1;
            return true;
        }
        let Some(m) = Message::load(frame) else { return false };
        // From a link on which we have not asked: only the peer that was asked knows both
        // addresses. (Connection ids can be guessed.)
        let from_asked = |a: &Attempt| a.link == Some(link) || (m.from == a.remote && m.to == a.local);
        if !self.connections.attempts.get(&vi).is_some_and(from_asked) {
            self.stale_frames += 1;
            return true;
        }
        match m.code {
            ReplyCode::Accepted => {
                let own = self.vis.get(vi).map(|v| v.attributes);
                match own.map(|own| compatible(&own, &m.attributes)) {
                    Some(Ok(())) => {
                        self.connected(vi, link, m.connection, &m.attributes, m.ptag);
                        self.attempt_ends(vi, Ok(m.attributes));
                    }
                    Some(Err(e)) => self.attempt_ends(vi, Err(e)),
                    None => {}
                }
            }
            ReplyCode::Pending => {
                if let Some(a) = self.connections.attempts.get_mut(&vi) {
                    a.matched = true;
                }
            }
            ReplyCode::NoMatch | ReplyCode::Busy => {
                if let Some(a) = self.connections.attempts.get_mut(&vi).filter(|a| a.link == Some(link)) {
                    a.busy = m.code == ReplyCode::Busy;
                    if a.busy {
                        self.found(vi);
                    }
                    self.try_later(vi);
                }
            }
            ReplyCode::Rejected => self.attempt_ends(vi, Err(Error::Rejected)),
            ReplyCode::BadReliability => self.attempt_ends(vi, Err(Error::InvalidReliability)),
            ReplyCode::BadMtu => self.attempt_ends(vi, Err(Error::InvalidMtu)),
        }
        true
    }

    /// An acceptance for a request that has been given up: the acceptor believes to be connected,
    /// and is told that it is not.
    #[cold]
    pub(crate) fn decline_late_acceptance(&mut self, link: LinkId, op: Op, frame: &Frame) {
        if !matches!(op, Op::ConnectReply | Op::PeerAccept) {
            return;
        }
        if let Some(m) = Message::load(frame)
            && m.code == ReplyCode::Accepted
            && m.connection != 0
        {
            let mut line = frame::short(Head::new(Op::Disconnect, m.connection), DisconnectReason::Requested as u64, 0);
            self.send_control_line(link, &mut line);
        }
    }

    pub(super) fn reply(&mut self, link: LinkId, to: u32, code: ReplyCode, vi: Option<ViHandle>) {
        self.reply_as(Op::ConnectReply, link, to, code, vi);
    }

    pub(super) fn reply_as(&mut self, op: Op, link: LinkId, to: u32, code: ReplyCode, vi: Option<ViHandle>) {
        if to == 0 {
            return;
        }
        let m = self.message_of(vi, code);
        let mut line = Line::default();
        let (bytes, length) = m.store(Head::new(op, to), &mut line);
        self.send_control(link, &mut line, &bytes[..length]);
    }

    pub(super) fn send_message(&mut self, link: LinkId, head: Head, vi: ViHandle, code: ReplyCode) {
        let m = self.message_of(Some(vi), code);
        let mut line = Line::default();
        let (bytes, length) = m.store(head, &mut line);
        self.send_control(link, &mut line, &bytes[..length]);
    }

    pub(super) fn message_of(&self, vi: Option<ViHandle>, code: ReplyCode) -> Message {
        let mut m = Message::empty(code);
        if let Some(v) = vi.and_then(|vi| self.vis.get(vi)) {
            m.connection = v.connection.map_or(0, Handle::raw);
            m.attributes = v.attributes;
            m.ptag = v.ptag;
        }
        if let Some(a) = vi.and_then(|vi| self.connections.attempts.get(&vi)) {
            m.from = a.local;
            m.to = a.remote;
        }
        m
    }
}
