// SPDX-License-Identifier: MIT OR Apache-2.0
//! How messages leave: at once, or in order behind what waits.

use crate::acceptor::LIMIT;
use crate::connection::{Connection, ConnectionId, Out, State};
use crate::core::Core;
use crate::header::{Answer, HeadBytes, Kind};
use crate::payload::{Data, NO_DATA};
use crate::probe::{Off, Probe, Stage, mark};
use crate::status::Error;
use bellwire_memory::bytes;
use bellwire_peer::{Death, Put};
use bellwire_via::wire::Wire;
use bellwire_via::work_queue::INLINE_SEND_BYTES_MAX;
use bellwire_via::{Engine, Operation, SendRequest};

impl Connection {
    /// Sends a message, or nothing of it.
    #[inline]
    pub(crate) fn send<W: Wire>(&mut self, engine: &mut Engine<W>, head: &[u8], payload: Data) -> Put {
        // SAFETY: U2: the payload outlives the call, as the caller says.
        let put = unsafe { self.channel.put(engine, head, payload) };
        self.channel.flush(engine);
        put
    }

    /// Keeps a copy of a message until it can leave.
    fn keep(&mut self, head: &[u8], payload: Data) {
        let mut message = vec![0; head.len() + payload.1];
        message[..head.len()].copy_from_slice(head);
        // SAFETY: U2; there is room for as many bytes behind the head.
        unsafe { bytes::copy(message[head.len()..].as_mut_ptr(), payload.0, payload.1) };
        self.out.push_back(Out { write: None, bytes: message });
    }

    /// Has a message with a write before it leave when it can.
    pub(crate) fn queue(&mut self, out: Out) {
        self.writes_queued = self.writes_queued.wrapping_add(1);
        self.out.push_back(out);
    }

    /// Posts the write before the first message that waits, and with it the message, if that is
    /// short. `None`: not now; else whether the message has left.
    fn post_first<W: Wire>(&mut self, engine: &mut Engine<W>) -> Option<bool> {
        let first = self.out.front_mut()?;
        let write = first.write.take()?;
        let segments = [write.from];
        let (remote_address, remote_handle) = write.remote;
        let request = SendRequest { operation: Operation::RdmaWrite, segments: &segments, remote_address, remote_handle, ..SendRequest::default() };
        let has_trailer = first.bytes.len() <= INLINE_SEND_BYTES_MAX;
        let posted =
            if has_trailer { engine.post_write_with_trailer(self.channel.vi(), &request, &first.bytes) } else { engine.post_send(self.channel.vi(), &request) };
        if posted.is_err() {
            // No descriptor is free: later. Broken: the notice of it is on its way, and clears what
            // is left.
            first.write = Some(write);
            return None;
        }
        self.writes.push_back(write);
        Some(has_trailer)
    }

    /// Sends what waits. `false`: not all of it could leave.
    fn send_waiting<W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        let all = self.queue_waiting(engine);
        self.channel.flush(engine);
        all
    }

    fn queue_waiting<W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        if !self.channel.push(engine) {
            return false;
        }
        while let Some(first) = self.out.front() {
            if first.write.is_some() {
                match self.post_first(engine) {
                    None => return false,
                    Some(true) => drop(self.out.pop_front()),
                    Some(false) => {}
                }
                continue;
            }
            // SAFETY: no body.
            match unsafe { self.channel.put(engine, &first.bytes, (core::ptr::null(), 0)) } {
                Put::Left => drop(self.out.pop_front()),
                Put::Kept => {
                    self.out.pop_front();
                    return false;
                }
                Put::Stuck => return false,
                // The notice of the end is on its way, and clears what is left.
                Put::Broken => return true,
            }
        }
        true
    }
}

impl<H> Core<H> {
    /// Sends a message that needs no credit: of a server, or of a segment; one that cannot leave
    /// waits, in order. It tells of all that was handled.
    #[inline]
    pub(crate) fn answer<W: Wire, P: Probe<Stage>>(
        &mut self,
        engine: &mut Engine<W>,
        id: ConnectionId,
        answer: &Answer<'_>,
        payload: Data,
    ) -> Result<(), Error> {
        mark!(P, ReplyEntered);
        let Some(connection) = self.connections.get_mut(id).filter(|c| c.state == State::Open) else { return Err(Error::NotSent) };
        connection.credits.has_told();
        let mut bytes = HeadBytes::new();
        let head = answer.store(connection.credits.handled(), &mut bytes);
        mark!(P, ReplyBuilt);
        let put = if connection.is_clear() { connection.send(engine, head, payload) } else { Put::Stuck };
        mark!(P, ReplySent);
        match put {
            Put::Left => return Ok(()),
            Put::Broken => return Err(Error::NotSent),
            Put::Kept => {}
            Put::Stuck if connection.out.len() >= LIMIT as usize => {
                self.malformed(engine, id);
                return Err(Error::NotSent);
            }
            Put::Stuck => connection.keep(head, payload),
        }
        self.mark_unsent(id);
        self.count_copied(id);
        Ok(())
    }

    /// A message was copied once more than usual.
    #[cold]
    pub(crate) fn count_copied(&mut self, id: ConnectionId) {
        let endpoint = self.connections.get(id).map(|c| c.endpoint);
        if let Some(endpoint) = endpoint.and_then(|id| self.endpoint_mut(id).ok()) {
            endpoint.counters.copied += 1;
        }
    }

    fn mark_unsent(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id) {
            self.unsent.mark(&mut connection.channel, id);
        }
    }

    /// Sends what waits of a connection, and notes what has to wait on.
    pub(crate) fn leave<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id).filter(|c| c.channel.is_open()) else { return };
        let all = connection.is_clear() || connection.send_waiting(engine);
        if !connection.writes.is_empty() && !connection.is_writing {
            connection.is_writing = true;
            self.writing.push(id);
        }
        if !all {
            self.mark_unsent(id);
        }
    }

    /// A request is handled and has no reply: the client hears of it with the next message, or when
    /// there is nothing else to do; or now, if this returns true.
    #[inline]
    pub(crate) fn owes(&mut self, id: ConnectionId) -> bool {
        let Some(connection) = self.connections.get_mut(id) else { return false };
        connection.credits.has_handled();
        if connection.credits.owes() {
            return true;
        }
        if !connection.is_untold {
            connection.is_untold = true;
            self.untold.push(id);
        }
        false
    }

    /// Tells a client how many of its requests are handled.
    pub(crate) fn tell_one<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId) {
        let _ = self.answer::<W, Off>(engine, id, &Answer::of(Kind::Ack, 0), NO_DATA);
    }

    /// Tells clients what they have not heard.
    #[cold]
    pub(crate) fn tell<W: Wire>(&mut self, engine: &mut Engine<W>) {
        while let Some(id) = self.untold.pop() {
            let Some(connection) = self.connections.get_mut(id) else { continue };
            connection.is_untold = false;
            if connection.credits.untold() != 0 {
                self.tell_one(engine, id);
            }
        }
    }

    /// Sends what waits, of all connections.
    #[cold]
    pub(crate) fn send_waiting<W: Wire>(&mut self, engine: &mut Engine<W>) {
        for id in self.unsent.take() {
            if let Some(connection) = self.connections.get_mut(id) {
                connection.channel.seen();
                self.leave(engine, id);
            }
        }
    }

    /// A peer has sent what cannot be: its connection ends.
    #[cold]
    pub(crate) fn malformed<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId) {
        let Some(endpoint) = self.connections.get(id).map(|c| c.endpoint) else { return };
        if let Ok(endpoint) = self.endpoint_mut(endpoint) {
            endpoint.counters.malformed += 1;
        }
        self.broken(engine, id, Death::Misbehaved);
    }
}
