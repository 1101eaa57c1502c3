// SPDX-License-Identifier: MIT OR Apache-2.0
//! The SISCI wire as the engine knows a wire.

use super::message::Message;
use super::{SisciWire, layout};
use crate::address::NetAddress;
use crate::probe::probe;
use crate::{
    Advertisement, Allocation, CatalogueEntry, Direct, DirectMemory, Frame, LinkFailure, LinkId, LinkInfo, MapAccess, MemoryKind, Peeked, Placement, Received,
    RemoteAccess, Rendezvous, Sent, Wire, WireEvent, WireReason,
};
use bellwire_memory::line_queue::Line;
use bellwire_memory::membarrier::{self, Reach};
use bellwire_memory::pause;

/// Longest wait for a peer to leave memory that is taken back, and how many may last that long
/// before its link is broken: each stops all of the NIC.
const QUIESCE_MAX: std::time::Duration = std::time::Duration::from_millis(100);
const OVERSTAYS_MAX: u32 = 3;

// SAFETY: W1: `Allocations` keeps each segment until it is freed. W2: `PayloadFifo::allocate`, in
// the peer's segment or the staging one. W3: a slot and its payload lie in the link's own segment,
// and are not given back before they are consumed. W4: no frame is kept.
unsafe impl Wire for SisciWire {
    fn name(&self) -> &'static str {
        "sisci"
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
        self.link(link).map_or(Sent::Broken, |l| l.send(line, words))
    }

    #[inline(always)]
    unsafe fn send_whole(&mut self, link: LinkId, word0: u64, from: *const u8, length: usize) -> Sent {
        // SAFETY: the caller's.
        self.link(link).map_or(Sent::Broken, |l| unsafe { l.send_whole(word0, from, length) })
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

    #[inline]
    fn send_with_payload<F: FnOnce(*mut u8) -> bool>(&mut self, link: LinkId, line: &mut Line, length: usize, fill: F) -> Sent {
        self.link(link).map_or(Sent::Broken, |l| l.send_with_payload(line, length, fill))
    }

    #[inline(always)]
    unsafe fn receive(&mut self, link: LinkId) -> Received {
        // SAFETY: F2, the caller's.
        self.link(link).map_or(Received::Broken, |l| unsafe { l.receive() })
    }

    #[inline(always)]
    fn consume(&mut self, link: LinkId) {
        if let Some(l) = self.link(link) {
            l.consume();
        }
    }

    #[inline(always)]
    fn may_bring(&self, link: LinkId) -> bool {
        self.look_at(link).is_none_or(super::link::Link::may_bring)
    }

    #[inline(always)]
    fn flush(&mut self) {
        if std::mem::take(&mut self.publishes) {
            self.links.iter_mut().for_each(|(_, link)| link.publish_descriptors());
        }
    }

    #[inline]
    fn sent_mark(&self, link: LinkId) -> u32 {
        self.look_at(link).map_or(0, super::link::Link::sent_mark)
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
        crate::clock::clock().0.max(1)
    }

    fn allocate(&mut self, bytes: usize) -> Option<Allocation> {
        self.allocations.allocate(&self.sisci, bytes)
    }

    fn free(&mut self, segment: u32) {
        for link in self.allocations.free(segment) {
            if let Some(to) = self.look_at(link).map(|l| l.parts().to) {
                self.say(link, &Message::Gone { to, segment });
            }
        }
    }

    fn probe_memory(&self, address: u64, length: u64) -> MemoryKind {
        probe(address, length)
    }

    fn listen(&mut self, local: &NetAddress) -> bool {
        self.open_waiters_door(local)
    }

    fn unlisten(&mut self, local: &NetAddress) {
        self.close_waiters_door(local);
    }

    fn resolve(&mut self, request: u64, how: Rendezvous, local: &NetAddress, remote: &NetAddress) {
        self.begin_to_resolve(request, how, local, remote);
    }

    fn has_found(&self, request: u64) -> bool {
        self.has_knocked(request)
    }

    fn cancel(&mut self, request: u64) {
        self.end_request(request);
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
        self.end_link(link);
    }

    fn link_info(&self, link: LinkId) -> LinkInfo {
        self.look_at(link).map_or_else(LinkInfo::default, |l| LinkInfo {
            wire: self.name(),
            reason: WireReason::OnlyWire,
            mapped: l.parts().mapped,
            loopback: l.parts().loopback,
            segments_mapped: l.held.foreign.len() as u32,
            ..LinkInfo::default()
        })
    }
}

// SAFETY: W2: `Grant::covers` and `Link::mapping` compare the part asked for with the mapping.
unsafe impl DirectMemory for SisciWire {
    #[inline]
    fn with_granted<F: FnOnce(*mut u8)>(&mut self, link: LinkId, wish: &RemoteAccess, access: F) -> Direct {
        self.direct(link, |l| l.with_granted(wish, access))
    }

    #[inline]
    fn with_advertised<F: FnOnce(*mut u8)>(&mut self, link: LinkId, placement: &Placement, access: F) -> Direct {
        self.direct(link, |l| l.with_advertised(placement, access))
    }

    #[inline]
    fn advertise(&mut self, link: LinkId, connection: u32, message: u32, advertisement: &Advertisement) {
        let together = self.config.switches.descriptors;
        if let Some(l) = self.link(link) {
            l.advertise(connection, message, *advertisement, together);
            self.publishes |= together != 1;
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
        if l.parts().loopback || !l.given_memory {
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
        let before = match entry {
            Some(e) => self.allocations.regions.insert(slot, *e),
            None => self.allocations.regions.remove(&slot),
        };
        self.links.iter().for_each(|(_, link)| link.publish(slot, entry, before.as_ref()));
    }

    fn grant(&mut self, link: LinkId, segment: u32, access: Option<MapAccess>) {
        let mapped = self.look_at(link).is_some_and(|l| l.parts().mapped);
        let given = access.filter(|_| mapped).and_then(|_| self.allocations.give(segment, link));
        let Some(l) = self.link(link) else { return };
        l.given_memory |= given.is_some();
        let to = l.parts().to;
        self.say(link, &Message::Give { to, segment, id: given.unwrap_or(0), write: access == Some(MapAccess::Write) });
    }

    fn peers_mapping(&self, segment: u32) -> u32 {
        self.allocations.peers_mapping(segment)
    }
}
