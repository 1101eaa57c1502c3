// SPDX-License-Identifier: MIT OR Apache-2.0
//! How messages leave: at once, or in order behind what waits.

use crate::acceptor::LIMIT;
use crate::connection::{CREDITS_DEFAULT, Connection, ConnectionId, Out, State};
use crate::core::Core;
use crate::header::{HEAD_BYTES_MAX, Head, Kind};
use crate::status::{Error, Status};
use bellwire_via::frame::INLINE_BYTES_MAX;
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, Pieces};

/// Requests handled that a client is told of at once, if no reply has done so.
const TELL_AFTER: u32 = CREDITS_DEFAULT / 4;

impl Connection {
    /// Sends what can leave of a message; returns how many bytes. `None`: the connection is broken.
    #[inline]
    pub(crate) fn send<W: Wire>(&self, engine: &mut Engine<W>, head: &[u8], payload: &[u8]) -> Option<usize> {
        if payload.is_empty() && head.len() <= INLINE_BYTES_MAX {
            // SAFETY: U2: `head` is ours and outlives the call.
            let left = unsafe { engine.send_line(self.vi, head.as_ptr(), head.len()) };
            return left.ok().map(|left| if left { head.len() } else { 0 });
        }
        let pieces = Pieces { head: (head.as_ptr(), head.len()), body: (payload.as_ptr(), payload.len()) };
        // SAFETY: U2: both slices outlive the call.
        unsafe { engine.send_copied(self.vi, &pieces, 0) }.ok()
    }

    /// Keeps a copy of a message of which `sent` bytes have left.
    pub(crate) fn keep_rest(&mut self, head: &[u8], payload: &[u8], sent: usize) {
        self.out.push_back(Out { bytes: [head, payload].concat(), sent });
    }

    /// Sends what waits. `false`: not all of it could leave.
    fn send_waiting<W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        while let Some(first) = self.out.front_mut() {
            let pieces = Pieces { head: (first.bytes.as_ptr(), first.bytes.len()), body: (first.bytes.as_ptr(), 0) };
            // SAFETY: U2: `first` outlives the call.
            match unsafe { engine.send_copied(self.vi, &pieces, first.sent) } {
                Ok(sent) if sent == first.bytes.len() => drop(self.out.pop_front()),
                Ok(sent) => {
                    first.sent = sent;
                    return false;
                }
                // The notice of the end is on its way, and clears what is left.
                Err(_) => return true,
            }
        }
        true
    }
}

impl<H> Core<H> {
    /// Sends a message of a server; what cannot leave waits, in order. It tells of all that was handled.
    #[inline]
    pub(crate) fn answer<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, head: &mut Head, payload: &[u8]) -> Result<(), Error> {
        let Some(connection) = self.connections.get_mut(id).filter(|c| c.state == State::Open) else { return Err(Error::NotSent) };
        head.handled = connection.handled;
        connection.told = connection.handled;
        let mut bytes = [0; HEAD_BYTES_MAX];
        let head_bytes = head.store(&mut bytes);
        let head = &bytes[..head_bytes];
        let sent = if connection.out.is_empty() { connection.send(engine, head, payload).ok_or(Error::NotSent)? } else { 0 };
        if sent == head.len() + payload.len() {
            return Ok(());
        }
        if connection.out.len() >= LIMIT as usize {
            self.malformed(engine, id);
            return Err(Error::NotSent);
        }
        connection.keep_rest(head, payload, sent);
        if !connection.is_unsent {
            connection.is_unsent = true;
            self.unsent.push(id);
        }
        Ok(())
    }

    /// A request is handled and has no reply: the client hears of it with the next message, or when there is nothing else to do.
    #[inline]
    pub(crate) fn owe<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.handled.wrapping_sub(connection.told) >= TELL_AFTER {
            let _ = self.answer(engine, id, &mut Head::new(Kind::Ack, 0, &[]), &[]);
        } else if !connection.is_untold {
            connection.is_untold = true;
            self.untold.push(id);
        }
    }

    /// Tells clients what they have not heard.
    #[cold]
    pub(crate) fn tell<W: Wire>(&mut self, engine: &mut Engine<W>) {
        while let Some(id) = self.untold.pop() {
            let Some(connection) = self.connections.get_mut(id) else { continue };
            connection.is_untold = false;
            if connection.handled != connection.told {
                let _ = self.answer(engine, id, &mut Head::new(Kind::Ack, 0, &[]), &[]);
            }
        }
    }

    /// Sends what waits, of all connections.
    #[cold]
    pub(crate) fn send_waiting<W: Wire>(&mut self, engine: &mut Engine<W>) {
        let connections = &mut self.connections;
        self.unsent.retain(|id| {
            let Some(connection) = connections.get_mut(*id) else { return false };
            connection.is_unsent = !connection.send_waiting(engine);
            connection.is_unsent
        });
    }

    /// A peer has sent what cannot be: its connection ends.
    #[cold]
    pub(crate) fn malformed<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId) {
        let Some(endpoint) = self.connections.get(id).map(|c| c.endpoint) else { return };
        if let Ok(endpoint) = self.endpoint_mut(endpoint) {
            endpoint.counters.malformed += 1;
        }
        self.broken(engine, id, Status::Unreachable);
    }
}
