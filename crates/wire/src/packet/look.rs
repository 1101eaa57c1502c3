// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrivals: the port is asked, datagrams go to the transport, others to the search for peers; and
//! packets that are due leave.

use crate::packet::PacketWire;
use crate::packet::port::PacketPort;
use crate::time::{Duration, Instant};
use core::net::SocketAddr;

/// The most that is taken in one look, so that a turn of the engine stays short, and the peer soon
/// hears how far it may go on: so many datagrams (joined ones count as one), or so many bytes.
const LOOK_MAX: u32 = 64;

const LOOK_BYTES_MAX: usize = 96 << 10;

/// Looks that find nothing and are no further apart are those of a caller that only waits.
const SPINS_WITHIN: Duration = Duration::from_micros(2);

/// What a look began with.
enum Arrived {
    Nothing,
    /// A message waits to be delivered, and the rest of the look has time until the next one.
    Message,
    Packets,
}

impl<P: PacketPort> PacketWire<P> {
    /// Takes what has arrived, does what is due, and answers.
    #[inline(never)]
    pub(super) fn look(&mut self) {
        self.looked = true;
        self.spent.clear();
        if self.armed && self.transport.is_joining() {
            self.transport.hurry();
        }
        match self.take_arrived() {
            Arrived::Message => return,
            // The usual case of a poller: nothing came, and nothing is due.
            Arrived::Nothing
                if !self.port.has_news() && !self.transport.has_transmit() && !self.transport.has_events() && self.now < self.transport.next_timeout() =>
            {
                return;
            }
            Arrived::Nothing | Arrived::Packets => {}
        }
        let now = self.now;
        while let Some((to, bytes)) = self.port.poll_too_big() {
            self.transport.handle_too_big(now, to, bytes);
        }
        while let Some(to) = self.port.poll_refused() {
            self.transport.handle_refused(now, to);
        }
        if self.transport.next_timeout() <= now {
            self.transport.handle_timeout(now);
        }
        self.take_located(now);
        while let Some(event) = self.transport.poll_event() {
            self.handle_event(now, event);
        }
        self.transmit(now);
    }

    /// Takes what has arrived, and reads the clock.
    #[inline(always)]
    fn take_arrived(&mut self) -> Arrived {
        let mut first = self.port.receive();
        if first.is_none() && self.spins {
            first = (0..self.port.looks_again()).find_map(|_| self.port.receive());
        }
        // Read after it came: the sender may have sent it while this look was under way, and
        // the peer is told how long it has waited here.
        let before = core::mem::replace(&mut self.now, self.port.now());
        let mut next = match first {
            Some(first) => first,
            None => {
                self.spins = self.now.since(before) < SPINS_WITHIN;
                return Arrived::Nothing;
            }
        };
        let (mut bytes, mut datagrams) = (0, 1);
        loop {
            bytes += self.take_datagram(next);
            // A message that can be delivered is delivered before the port is asked again: a waiter
            // for one message does not wait for the answer that there is no other. A caller that
            // delivered something looks again before sleeping. Of two messages in a row, the second
            // waits for the rest of the look, so that timers are not forgotten.
            if !self.port.expects_more() && self.transport.next_delivery().is_some() {
                self.hasty = !self.hasty;
                return if self.hasty { Arrived::Message } else { Arrived::Packets };
            }
            if bytes >= LOOK_BYTES_MAX || datagrams == LOOK_MAX {
                break;
            }
            datagrams += 1;
            next = match self.port.receive() {
                Some(next) => next,
                None => break,
            };
            self.now = self.port.now();
        }
        self.hasty = false;
        Arrived::Packets
    }

    /// Takes a datagram and what came with it; how many bytes.
    #[inline(always)]
    fn take_datagram(&mut self, first: (SocketAddr, P::Buffer)) -> usize {
        let (mut bytes, mut next) = (0, Some(first));
        while let Some((from, buffer)) = next.take() {
            bytes += buffer.as_ref().len();
            next = self.port.receive_joined();
            if next.is_some() {
                self.transport.handle_joined(self.now, from, buffer);
            } else {
                self.transport.handle_packet(self.now, from, buffer);
            }
        }
        bytes
    }

    pub(super) fn transmit(&mut self, now: Instant) {
        while self.port.is_ready()
            && let Some(packets) = self.transport.poll_transmit(now)
        {
            self.port.send(&packets);
        }
        if self.transport.is_joining() {
            self.port.note_waiting();
        }
    }
}
