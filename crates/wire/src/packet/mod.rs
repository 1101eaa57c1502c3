// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wire over packets: what a network that loses, duplicates and reorders can be for the engine,
//! by `bellwire-proto`.
//!
//! ```text
//!   Engine  --frames-->  PacketWire  --frames-->  Transport (proto)  --packets-->  PacketPort: a UDP socket, a simulated fabric
//!           <--frames--              <-packets--                     <--packets--
//! ```
//!
//! A link is a session of the transport; a VI's frames are one of its streams (named by the
//! receiver's connection id), so a lost packet stops only the VIs whose frames it held. All memory
//! is reached by frames, and its owner is the judge: the direct calls answer
//! [`Direct::No`](super::Direct::No).
//!
//! Invariants
//! - K1: an arrived packet is looked at in place, in the buffer that the kernel wrote; payload
//!   moves once, to where it belongs.
//! - K2: the port is asked for packets at most once per turn of the engine or poll of a VI
//!   (`begin_turn`), and only when a link has nothing more to deliver; it is asked for no more than
//!   it takes until something can be delivered.
//! - K3: whatever was sent leaves with `flush`, which the engine calls at the end of each call that
//!   sends; packets that were received are answered at the end of each look.
//!
//! `look.rs`: packets in and out; `sessions.rs`: peers that are located, links that come and go;
//! `short.rs`: short messages; `farewell.rs`: the end; `settings.rs`: settings that all NICs in
//! real processes share. Here: frames, and the calls of a wire.

mod farewell;
mod look;
mod port;
mod sessions;
pub(crate) mod settings;
mod short;
#[cfg(test)]
mod tests;

pub use port::{Lent, PacketPort, Pool, StableBytes};

use super::heap::{self, Heap};
use super::{Allocation, DirectMemory, Frame, LinkFailure, LinkId, LinkInfo, MemoryKind, PAYLOAD_BYTES_MIN, Received, Rendezvous, Sent, Wire, WireEvent};
use crate::address::NetAddress;
use crate::frame;
use crate::handle::{Handle, Slab};
use crate::time::Instant;
use bellwire_memory::line_queue::Line;
use bellwire_proto::{Config, Delivery, Head, Seed, SessionId, SessionInfo, Transport};
use core::net::SocketAddr;
use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Links of one NIC.
const LINKS_MAX: usize = 1 << 14;
/// Words of the longest frame head that has payload beside it: that of [`frame::Bulk`].
const BULK_WORDS: usize = 5;
/// Turns between two looks of a NIC that polls and only waits for strangers to come.
const TURNS_PER_LOOK: u32 = 256;
/// Packets up to this give their buffers back at once; longer ones together, up to so many.
const SHORT_BYTES: usize = 512;
const SPENT_MAX: usize = 64;
/// One session, as the engine sees it.
#[derive(Debug)]
struct Link<B> {
    session: SessionId,
    peer: SocketAddr,
    loopback: bool,
    /// The session is over; the engine has been told.
    down: bool,
    /// The packet being delivered, and where its next frame begins (0: not yet looked at).
    current: Option<(Delivery<B>, usize)>,
    /// Where the frame after the one shown last begins.
    after: usize,
    /// The last frame sent is not the last of its message.
    more: bool,
}

/// A wire over packets.
#[derive(Debug)]
pub struct PacketWire<P: PacketPort> {
    port: P,
    transport: Transport<P::Buffer>,
    host: Vec<u8>,
    links: Slab<Link<P::Buffer>>,
    by_session: BTreeMap<SessionId, LinkId>,
    /// Requests whose session is being made; their number is also the transport's context.
    connecting: BTreeSet<u64>,
    /// Requests that are told of before a session is made, and where their peer is, once that is
    /// known.
    held: BTreeMap<u64, Option<SocketAddr>>,
    /// Of those, found and not told yet.
    found: VecDeque<(u64, SocketAddr)>,
    events: VecDeque<WireEvent>,
    heap: Heap,
    /// Long packets whose frames have been taken: their buffers go back together.
    spent: Vec<Delivery<P::Buffer>>,
    /// The words of the frame received last: frames point into it.
    words: Box<Line>,
    /// The port has been asked in this turn.
    looked: bool,
    /// .. and before it, by a poller of a VI.
    took: bool,
    /// Somebody sleeps, or is about to: each turn may be the last for long.
    armed: bool,
    turns: u32,
    /// The clock when it was read last.
    now: Instant,
    /// The last look ended with its first message.
    hasty: bool,
    /// The last looks followed closely on one another and found nothing: somebody does nothing
    /// else.
    spins: bool,
}

impl<P: PacketPort> PacketWire<P> {
    /// A NIC at `host` whose packets go through `port`.
    pub fn new(port: P, config: Config, host: &[u8], seed: impl Into<Seed>) -> Self {
        Self {
            port,
            transport: Transport::new(config, seed),
            host: host.to_vec(),
            links: Slab::new(LINKS_MAX),
            by_session: BTreeMap::new(),
            connecting: BTreeSet::new(),
            held: BTreeMap::new(),
            found: VecDeque::new(),
            events: VecDeque::new(),
            spent: Vec::with_capacity(SPENT_MAX),
            heap: Heap::default(),
            words: Box::default(),
            looked: false,
            took: false,
            armed: false,
            turns: 0,
            now: Instant(0),
            hasty: false,
            spins: false,
        }
    }

    /// The port.
    pub fn port(&self) -> &P {
        &self.port
    }

    /// The port.
    pub fn port_mut(&mut self) -> &mut P {
        &mut self.port
    }

    /// The transport, to look at.
    pub fn transport(&self) -> &Transport<P::Buffer> {
        &self.transport
    }

    /// The links that there are.
    pub fn links(&self) -> Vec<LinkId> {
        self.links.iter().map(|(link, _)| LinkId::from_raw(link.raw())).collect()
    }

    /// The state of a link's path.
    pub fn path(&self, link: LinkId) -> Option<SessionInfo> {
        self.transport.session_info(self.find(link)?.session)
    }

    /// Whether somebody sleeps until packets come.
    pub fn set_armed(&mut self, armed: bool) {
        self.armed = armed;
        self.port.set_armed(armed);
    }

    /// Whether packets may come: there are links, sessions are being made, or somebody may look for
    /// this NIC.
    pub fn has_links(&self) -> bool {
        !self.links.is_empty() || !self.connecting.is_empty() || self.port.is_busy()
    }

    fn find(&self, id: LinkId) -> Option<&Link<P::Buffer>> {
        self.links.get(Handle::from_raw(id.raw()))
    }

    fn find_mut(&mut self, id: LinkId) -> Option<&mut Link<P::Buffer>> {
        self.links.get_mut(Handle::from_raw(id.raw()))
    }

    /// Whether something is under way that its receiver has not acknowledged.
    pub fn has_outstanding(&self) -> bool {
        self.by_session.keys().any(|session| self.transport.session_info(*session).is_some_and(|info| info.outstanding > 0))
    }

    /// The caller is about to sleep: an acknowledgement that it would wake for in a moment leaves.
    pub fn acknowledge_before_sleep(&mut self) {
        let now = self.port.now();
        if let Some(session) = self.transport.hasten_acknowledgement(now) {
            self.transmit(now);
            self.transport.has_hastened(now, session);
        }
    }

    // ---- sessions

    // ---- frames

    fn send_frame(&mut self, link: LinkId, line: &Line, words: usize, length: usize, fill: impl FnOnce(*mut u8) -> bool) -> Sent {
        let Some(l) = self.links.get_mut(Handle::from_raw(link.raw())).filter(|l| !l.down) else { return Sent::Broken };
        let head = frame::Head(line.0[0]);
        if l.more == head.is_last() {
            l.more = !l.more;
            self.transport.set_more(l.session, l.more);
        }
        // Its time is that of its leaving, by `flush`.
        match self.transport.send(self.now, l.session, head.to(), &line.0[..words], length, |to| fill(to.as_mut_ptr())) {
            bellwire_proto::Sent::Yes => Sent::Yes,
            bellwire_proto::Sent::Unfilled => Sent::Unfilled,
            // The path carries less than it did: the engine asks again how much.
            bellwire_proto::Sent::NoRoom | bellwire_proto::Sent::TooLong => Sent::NoRoom,
            bellwire_proto::Sent::Broken => Sent::Broken,
        }
    }

    /// The next frame of what has been taken for a link; where it lies.
    fn next_frame(&mut self, link: LinkId) -> Option<(Head, Range<usize>)> {
        let l = self.links.get_mut(Handle::from_raw(link.raw()))?;
        loop {
            if let Some((delivery, at)) = &l.current {
                let mut frames = if *at == 0 { delivery.frames() } else { delivery.frames_from(*at) };
                if let Some(f) = frames.next() {
                    l.after = f.place.end;
                    return Some((f.head, f.place));
                }
            }
            // A NIC has many links, of which few have something.
            if !self.transport.has_delivery(l.session) {
                return None;
            }
            l.current = Some((self.transport.poll_deliver(l.session)?, 0));
        }
    }

    /// The frame that [`next_frame`](Self::next_frame) has found.
    ///
    /// # Safety
    /// F2 of [`Wire::receive`].
    unsafe fn show(&mut self, link: LinkId, head: Head, place: Range<usize>) -> Received {
        self.words.0 = *head.padded();
        let Some((delivery, _)) = self.find(link).and_then(|l| l.current.as_ref()) else { return Received::Broken };
        let payload = &delivery.buffer().as_ref()[place];
        // SAFETY: F1: as long as F2 lets the caller use the frame, `words`, which is boxed, does
        // not change, and `current` keeps the buffer, whose bytes do not move (K4).
        Received::Frame(unsafe { Frame::new(self.words.0[0], self.words.0.as_ptr(), payload.as_ptr(), payload.len()) })
    }
}

impl<P: PacketPort> Drop for PacketWire<P> {
    /// Peers are told, as far as one packet can do it. A program that wants to be sure that its
    /// messages arrive takes leave before (`farewell.rs`).
    fn drop(&mut self) {
        let now = self.port.now();
        for session in self.by_session.keys() {
            let _ = self.transport.close(now, *session);
        }
        self.transmit(now);
    }
}

// SAFETY: W1: `Heap`. W2: the transport gives a slice of its ring. W3: `words` is boxed and changes
// when the next frame is shown; the payload lies in the packet's buffer, whose bytes stay where
// they are (K4), and `current` keeps the buffer until the frame is consumed or its link is closed.
// W4: nothing is kept.
unsafe impl<P: PacketPort> Wire for PacketWire<P> {
    fn name(&self) -> &'static str {
        self.port.name()
    }

    fn host_address(&self) -> &[u8] {
        &self.host
    }

    fn payload_bytes_max(&self, link: LinkId) -> usize {
        let max = self.find(link).map_or(0, |l| self.transport.payload_max(l.session, BULK_WORDS));
        max.max(PAYLOAD_BYTES_MIN)
    }

    fn payload_bytes_next(&self, link: LinkId, to: u32) -> usize {
        let next = self.find(link).map_or(0, |l| self.transport.payload_next(l.session, to, BULK_WORDS, PAYLOAD_BYTES_MIN));
        next.max(PAYLOAD_BYTES_MIN)
    }

    fn send(&mut self, link: LinkId, line: &mut Line, words: usize) -> Sent {
        self.send_frame(link, line, words, 0, |_| true)
    }

    unsafe fn send_whole(&mut self, link: LinkId, word0: u64, from: *const u8, length: usize) -> Sent {
        // SAFETY: the caller's.
        unsafe { self.send_short(link, word0, from, length) }
    }

    #[inline(never)]
    fn take<const PAYLOAD: bool, R>(&mut self, link: LinkId, _looks: u32, take: impl FnOnce(&Frame) -> Option<R>) -> Option<R> {
        self.take_next(link, take)
    }

    fn send_with_payload<F: FnOnce(*mut u8) -> bool>(&mut self, link: LinkId, line: &mut Line, length: usize, fill: F) -> Sent {
        self.send_frame(link, line, BULK_WORDS, length, fill)
    }

    unsafe fn receive(&mut self, link: LinkId) -> Received {
        let Some(l) = self.find(link) else { return Received::Broken };
        if l.down && l.current.is_none() {
            return Received::Empty;
        }
        // Nothing taken is the usual case of a poller.
        let mut found = if l.current.is_some() || self.transport.next_delivery().is_some() { self.next_frame(link) } else { None };
        if found.is_none() && !self.looked {
            self.look();
            if self.transport.next_delivery().is_some() {
                found = self.next_frame(link);
            }
        }
        match found {
            // SAFETY: F2, the caller's.
            Some((head, place)) => unsafe { self.show(link, head, place) },
            None => Received::Empty,
        }
    }

    fn consume(&mut self, link: LinkId) {
        if let Some(l) = self.links.get_mut(Handle::from_raw(link.raw())) {
            let after = l.after;
            match &mut l.current {
                Some((delivery, at)) if after < delivery.buffer().as_ref().len() => *at = after,
                // The last frame's end is the packet's: its buffer is given back at once; a long
                // one's before the next look. To give it back is a locked instruction, which waits
                // until the bytes that were just copied have left the processor.
                _ => match l.current.take() {
                    Some((delivery, _)) if delivery.buffer().as_ref().len() > SHORT_BYTES => {
                        if self.spent.len() == SPENT_MAX {
                            self.spent.clear();
                        }
                        self.spent.push(delivery);
                    }
                    _ => {}
                },
            }
        }
    }

    fn flush(&mut self) {
        if self.transport.has_transmit() {
            // Nothing is asked of the port while there is nothing to send.
            self.now = self.port.now();
            self.transmit(self.now);
        }
    }

    fn next_timeout(&self) -> Instant {
        self.transport.next_timeout().min(self.port.next_timeout())
    }

    fn begin_turn(&mut self) {
        // A caller that is about to sleep looks in any case.
        self.looked = core::mem::take(&mut self.took) && !self.armed;
        // Without a link there is no receive() to look. A NIC that only waits for strangers need
        // not look at each turn, while it makes many.
        if self.links.is_empty() {
            self.turns = self.turns.wrapping_add(1);
            let seldom = self.turns.is_multiple_of(TURNS_PER_LOOK) && self.has_links();
            if seldom || (self.armed && self.has_links()) || !self.connecting.is_empty() || self.port.is_asking() {
                self.look();
            }
        }
    }

    fn handle_control(&mut self) {
        self.port.handle_control();
    }

    fn has_events(&self) -> bool {
        !self.events.is_empty() || !self.found.is_empty()
    }

    fn allocate(&mut self, bytes: usize) -> Option<Allocation> {
        self.heap.allocate(bytes)
    }

    fn free(&mut self, segment: u32) {
        self.heap.free(segment);
    }

    fn probe_memory(&self, address: u64, length: u64) -> MemoryKind {
        heap::presumed_kind(address, length)
    }

    fn listen(&mut self, local: &NetAddress) -> bool {
        self.port.listen(local)
    }

    fn unlisten(&mut self, local: &NetAddress) {
        self.port.unlisten(local);
    }

    fn resolve(&mut self, request: u64, how: Rendezvous, local: &NetAddress, remote: &NetAddress) {
        self.port.locate(request, how, local, remote);
        // Some addresses need no search.
        let now = self.port.now();
        self.take_located(now);
        self.transmit(now);
    }

    /// While a session is being made with the peer that was found: a peer that gets little of its
    /// processors answers late, and the transport says if it does not.
    fn has_found(&self, request: u64) -> bool {
        self.connecting.contains(&request)
    }

    fn cancel(&mut self, request: u64) {
        // A session that is being made may come about; others may want it.
        self.connecting.remove(&request);
        self.held.remove(&request);
        self.found.retain(|(r, _)| *r != request);
        self.port.forget(request);
    }

    fn poll_event(&mut self) -> Option<WireEvent> {
        self.events.pop_front()
    }

    fn failure(&mut self, link: LinkId) -> LinkFailure {
        // The transport may know more than the engine has been told.
        let now = self.now;
        while let Some(event) = self.transport.poll_event() {
            self.handle_event(now, event);
        }
        LinkFailure::told(&self.events, link)
    }

    fn close(&mut self, link: LinkId) {
        let now = self.port.now();
        if let Some(l) = self.links.remove(Handle::from_raw(link.raw())) {
            self.by_session.remove(&l.session);
            if !l.down {
                let _ = self.transport.close(now, l.session);
                self.transmit(now);
                self.port.session_down(l.peer);
            }
        }
    }

    fn link_info(&self, link: LinkId) -> LinkInfo {
        LinkInfo { wire: self.name(), path: self.path(link), loopback: self.find(link).is_some_and(|l| l.loopback), ..LinkInfo::default() }
    }
}

// SAFETY: nothing is reached directly.
unsafe impl<P: PacketPort> DirectMemory for PacketWire<P> {}
