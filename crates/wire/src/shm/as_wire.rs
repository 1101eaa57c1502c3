// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shared-memory wire as the engine knows a wire.

use super::link::{Foreign, Link};
use super::{OVERSTAYS_MAX, QUIESCE_MAX, ShmWire};
use super::{layout, message, rendezvous};
use crate::address::NetAddress;
use crate::handle::Handle;
use crate::probe::probe;
use crate::{
    Advertisement, Allocation, Attach, CatalogueEntry, Direct, DirectMemory, Frame, LinkFailure, LinkId, LinkInfo, MapAccess, MemoryKind, Peeked, Placement,
    Received, RemoteAccess, Rendezvous, Sent, Wire, WireEvent, WireReason,
};
use bellwire_memory::line_queue::Line;
use bellwire_memory::membarrier::{self, Reach};
use bellwire_memory::{pause, pidfd};
use rustix::fd::AsFd;

// SAFETY: W1: `Segments` maps each allocation until it is freed. W2: `PayloadFifo::allocate`.
// W3: a slot and its payload lie in the mappings of the link, and are not given back before they
// are consumed. W4: a link that is closed while it keeps frames moves to `closed`, with its
// mappings.
unsafe impl Wire for ShmWire {
    fn name(&self) -> &'static str {
        "shm"
    }

    fn host_address(&self) -> &[u8] {
        &self.config.host
    }

    #[inline]
    fn payload_bytes_max(&self, _link: LinkId) -> usize {
        layout::FRAME_PAYLOAD_MAX as usize
    }

    #[inline(always)]
    fn send(&mut self, link: LinkId, line: &mut Line, words: usize) -> Sent {
        match self.link(link) {
            Some(l) => l.send(line, words),
            None => Sent::Broken,
        }
    }

    #[inline(always)]
    unsafe fn send_whole(&mut self, link: LinkId, word0: u64, from: *const u8, length: usize) -> Sent {
        match self.link(link) {
            // SAFETY: the caller's.
            Some(l) => unsafe { l.send_whole(word0, from, length) },
            None => Sent::Broken,
        }
    }

    #[inline(always)]
    fn take<const PAYLOAD: bool, R>(&mut self, link: LinkId, looks: u32, take: impl FnOnce(&Frame) -> Option<R>) -> Option<R> {
        self.link(link)?.take::<PAYLOAD, R>(looks, take)
    }

    #[inline(always)]
    unsafe fn peek_line(&mut self, link: LinkId, looks: u32) -> Peeked {
        // SAFETY: F2, the caller's.
        self.link(link).map_or(Peeked::Otherwise, |l| unsafe { l.peek_line(looks) })
    }

    #[inline(always)]
    fn consume_peeked(&mut self, link: LinkId) {
        if let Some(l) = self.link(link) {
            l.consume_peeked();
        }
    }

    #[inline]
    fn send_with_payload<F: FnOnce(*mut u8) -> bool>(&mut self, link: LinkId, line: &mut Line, length: usize, fill: F) -> Sent {
        match self.link(link) {
            Some(l) => l.send_with_payload(line, length, fill),
            None => Sent::Broken,
        }
    }

    #[inline(always)]
    unsafe fn receive(&mut self, link: LinkId) -> Received {
        let is_only = self.is_only_link();
        match self.link(link) {
            // SAFETY: F2, the caller's.
            Some(l) => unsafe { l.receive(is_only) },
            None => Received::Broken,
        }
    }

    #[inline(always)]
    fn may_bring(&self, link: LinkId) -> bool {
        Self::may_bring(self, link)
    }

    #[inline]
    fn leaves_out(&mut self, link: LinkId) -> bool {
        Self::leaves_out(self, link)
    }

    #[inline(always)]
    fn consume(&mut self, link: LinkId) {
        if let Some(l) = self.link(link) {
            l.consume();
        }
    }

    fn consume_keeping(&mut self, link: LinkId) -> Option<u32> {
        self.link(link).map(Link::consume_keeping)
    }

    fn release(&mut self, link: LinkId, mark: u32) {
        if let Some(l) = self.link(link) {
            l.release(mark);
        } else if let Some(at) = self.closed.iter_mut().position(|(id, l)| *id == link && l.release(mark)) {
            self.closed.swap_remove(at);
        }
    }

    #[inline]
    fn sent_mark(&self, link: LinkId) -> u32 {
        self.links.get(Handle::from_raw(link.raw())).map_or(0, Link::sent_mark)
    }

    fn is_taken(&mut self, link: LinkId, mark: u32) -> bool {
        self.link(link).is_none_or(|l| l.is_taken(mark))
    }

    fn handle_control(&mut self) {
        Self::handle_control(self);
    }

    fn has_events(&self) -> bool {
        self.wants || !self.events.is_empty()
    }

    fn stopwatch(&self) -> u64 {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64).max(1)
    }

    fn allocate(&mut self, bytes: usize) -> Option<Allocation> {
        self.segments.allocate(bytes)
    }

    fn free(&mut self, segment: u32) {
        for link in self.segments.free(segment) {
            if let Some(l) = self.link(link) {
                rendezvous::life::tell(l, &message::Message::Gone { segment }, None);
            }
        }
    }

    fn probe_memory(&self, address: u64, length: u64) -> MemoryKind {
        probe(address, length)
    }

    fn listen(&mut self, local: &NetAddress) -> bool {
        self.control.listen(local)
    }

    fn unlisten(&mut self, local: &NetAddress) {
        self.control.unlisten(local);
    }

    fn resolve(&mut self, request: u64, how: Rendezvous, local: &NetAddress, remote: &NetAddress) {
        rendezvous::resolve(self, request, how, local, remote);
    }

    fn has_found(&self, request: u64) -> bool {
        self.control.has_knocked(request)
    }

    fn cancel(&mut self, request: u64) {
        self.control.cancel(request);
    }

    fn poll_event(&mut self) -> Option<WireEvent> {
        if self.wants {
            self.send_wants();
        }
        self.events.pop_front()
    }

    fn failure(&mut self, link: LinkId) -> LinkFailure {
        LinkFailure::told(&self.events, link)
    }

    fn close(&mut self, link: LinkId) {
        self.segments.link_closed(link);
        if let Some(l) = self.links.remove(Handle::from_raw(link.raw())) {
            self.control.forget_link(&l);
            self.bells.remove(u64::from(link.raw()));
            if l.keeps() {
                self.closed.push((link, l));
            }
        }
    }

    fn link_info(&self, link: LinkId) -> LinkInfo {
        self.links.get(Handle::from_raw(link.raw())).map_or_else(LinkInfo::default, |l| LinkInfo {
            peer_pid: l.parts.peer_pid,
            peer_uid: Some(l.parts.peer_uid),
            mapped: l.parts.mapped,
            loopback: l.parts.loopback,
            attaches: l.attaches(),
            segments_mapped: l.foreign.values().filter(|f| matches!(f, Foreign::Mapped(_))).count() as u32,
            wire: self.name(),
            reason: WireReason::SameHost,
            path: None,
        })
    }
}

// SAFETY: W2: `Grant::covers` and `Link::mapping` compare the part asked for with the mapping.
unsafe impl DirectMemory for ShmWire {
    #[inline]
    fn with_granted<F: FnOnce(*mut u8)>(&mut self, link: LinkId, wish: &RemoteAccess, access: F) -> Direct {
        self.direct(link, |l| l.with_granted(wish, access))
    }

    #[inline]
    fn with_advertised<F: FnOnce(*mut u8)>(&mut self, link: LinkId, placement: &Placement, access: F) -> Direct {
        self.direct(link, |l| l.with_advertised(placement, access))
    }

    fn attach(&self, link: LinkId) -> Attach {
        if self.links.get(Handle::from_raw(link.raw())).is_some_and(Link::attaches) { self.config.attach } else { Attach::Never }
    }

    fn attach_failed(&mut self, link: LinkId) {
        if let Some(l) = self.link(link) {
            l.attach_failed = true;
        }
    }

    unsafe fn pull(&mut self, link: LinkId, address: u64, to: *mut u8, length: usize) -> bool {
        // SAFETY: the caller's.
        self.link(link).is_some_and(|l| unsafe { l.pull(address, to, length) })
    }

    unsafe fn pull_granted(&mut self, link: LinkId, wish: &RemoteAccess, access: impl FnOnce(&mut dyn FnMut(u64, *mut u8, usize) -> bool) -> bool) -> Direct {
        match self.link(link) {
            // SAFETY: the caller's.
            Some(l) => unsafe { l.pull_granted(wish, access) },
            None => Direct::No,
        }
    }

    #[inline]
    fn advertise(&mut self, link: LinkId, connection: u32, message: u32, advertisement: &Advertisement) {
        if let Some(l) = self.link(link) {
            l.advertise(connection, message, advertisement);
        }
    }

    #[inline]
    fn withdraw(&mut self, link: LinkId, connection: u32, message: u32) {
        if let Some(l) = self.link(link) {
            l.withdraw(connection, message);
        }
    }

    fn quiesce(&mut self, link: LinkId) {
        let Some(l) = self.link(link) else { return };
        if l.parts.loopback || !(l.given_memory || l.attaches()) {
            // Nobody can be inside; in a loopback "the peer" is this very thread.
            return;
        }
        membarrier::heavy(Reach::Fenced);
        if l.reach() == Reach::Registered {
            membarrier::heavy(Reach::Registered);
        }
        let Some(seen) = l.peer_inside() else { return };
        let began = std::time::Instant::now();
        let mut spins = 0u32;
        while !l.peer_has_left(seen) {
            spins += 1;
            if spins < 2000 {
                pause::pause();
                continue;
            }
            let dead = l.parts.pidfd.as_ref().is_some_and(|p| pidfd::has_exited(p.as_fd()).unwrap_or(true));
            if dead {
                return;
            }
            if began.elapsed() > QUIESCE_MAX {
                l.overstays += 1;
                if l.overstays == OVERSTAYS_MAX {
                    self.events.push_back(WireEvent::LinkDown { link, reason: LinkFailure::PeerMisbehaved });
                }
                return;
            }
            std::thread::yield_now();
        }
    }

    fn publish(&mut self, slot: usize, entry: Option<&CatalogueEntry>) {
        self.segments.publish(slot, entry);
    }

    fn grant(&mut self, link: LinkId, segment: u32, access: Option<MapAccess>) {
        // A peer of a guarded link has no business to ask, whatever it was told of the memory: it
        // sees queues only.
        let mapped = self.link(link).is_some_and(|l| l.parts.mapped);
        let fd = access.filter(|_| mapped).and_then(|a| self.segments.hand_out(segment, link, a));
        let Some(l) = self.link(link) else { return };
        l.given_memory |= fd.is_some();
        let give = message::Message::Give { segment, granted: fd.is_some(), write: access == Some(MapAccess::Write) };
        rendezvous::life::tell(l, &give, fd.as_ref().map(AsFd::as_fd));
    }

    fn peers_mapping(&self, segment: u32) -> u32 {
        self.segments.peers_mapping(segment)
    }
}
