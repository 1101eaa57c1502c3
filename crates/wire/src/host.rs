// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wire of a NIC in a real process: shared memory to peers of this host, UDP to others, chosen
//! by itself. In UDP's place may be the host's agent (`port.rs`), which reaches other users of this
//! host, too.
//!
//! A link of shared memory is found by one look-up, as without this layer; only when that fails is
//! the link a packet link (`PACKET` in its id) or none. So what is fast on shared memory pays
//! nothing for the choice.
//!
//! The NIC at an address: shared memory is asked first, whatever the address, since any process of
//! the host may have it. If nobody is there, or another user's process that is not allowed, UDP is
//! asked, also at this NIC's own address, where other users' processes may be. A NIC that is found
//! so may have begun to wait meanwhile, on this host, so shared memory is asked
//! once more before a session is made. Two peers look for each other both ways at a time; the first
//! link that comes is taken, but a peer whose address is this host's gets some time to come by
//! shared memory. That is in `host/finding.rs`; the needs of sleepers of both wires are in
//! `host/waiting.rs`.
//!
//! Or all of it is the wire made of SISCI (`sisci`), in place of both: then nobody is looked for
//! otherwise. Its links have `SISCI` in their ids.

mod by_sisci;
mod finding;
mod port;
mod waiting;

use super::packet::PacketWire;
use super::shm::ShmWire;
use super::sisci::SisciWire;
use super::udp;
use super::udp::Tap;
use super::{
    Advertisement, Allocation, Attach, CatalogueEntry, Direct, DirectMemory, Frame, LinkFailure, LinkId, LinkInfo, MapAccess, MemoryKind, Peeked, Placement,
    Received, RemoteAccess, Rendezvous, Sent, Wire, WireEvent, WireReason,
};
use crate::address::NetAddress;
use crate::host::finding::Request;
pub use crate::host::port::HostPort;
use crate::time::Instant;
use bellwire_memory::MemoryError;
use bellwire_memory::line_queue::{HEAD_WORDS, Line};
use rustix::event::epoll;
use std::collections::{BTreeMap, VecDeque};

/// In the id of a packet link: beyond every link of shared memory.
const PACKET: u32 = 1 << 19;
/// In the id of a link of SISCI, likewise.
const SISCI: u32 = 1 << 18;

/// The wire.
#[derive(Debug)]
pub struct HostWire {
    shm: ShmWire,
    packet: Option<PacketWire<HostPort>>,
    sisci: Option<Box<SisciWire>>,
    /// Peers of this host are looked for by shared memory.
    prefers_shm: bool,
    /// Only while there is a packet wire.
    requests: BTreeMap<u64, Request>,
    /// Requests of two peers that UDP found on this host, and until when shared memory has time; in
    /// order.
    expected: VecDeque<(Instant, u64)>,
}

fn packet_link(link: LinkId) -> LinkId {
    LinkId::from_raw(link.raw() & !PACKET)
}

fn host_link(link: LinkId) -> LinkId {
    LinkId::from_raw(link.raw() | PACKET)
}

/// Whether an id is of a link of SISCI. Asked first where that wire would be looked for before
/// shared memory: a bit of a register, where programs without that wire pay for the question.
#[inline(always)]
fn is_sisci(link: LinkId) -> bool {
    link.raw() & SISCI != 0
}

/// An id as the SISCI wire has it: of another wire's link, one that names nothing.
#[inline]
fn sisci_link(link: LinkId) -> LinkId {
    LinkId::from_raw(link.raw() ^ SISCI)
}

/// In the sets of descriptors of the shared-memory half: those of the other.
const OTHERS: u64 = u64::MAX;

impl HostWire {
    /// Shared memory, and UDP if there is a port; without `prefers_shm`, UDP to peers of this host,
    /// too.
    ///
    /// # Errors
    /// [`MemoryError::Os`]: no descriptors left.
    pub fn new(shm: ShmWire, packet: Option<PacketWire<HostPort>>, prefers_shm: bool) -> Result<Self, MemoryError> {
        if let Some(p) = &packet {
            let data = epoll::EventData::new_u64(OTHERS);
            epoll::add(shm.control_fd(), p.port().control_fd(), data, epoll::EventFlags::IN).map_err(|e| MemoryError::os("epoll_ctl", e))?;
        }
        let prefers_shm = prefers_shm || packet.is_none();
        Ok(Self { shm, packet, sisci: None, prefers_shm, requests: BTreeMap::new(), expected: VecDeque::new() })
    }

    /// The wire made of SISCI, in place of the others: `shm` is there for its clock and its set of
    /// bells, and has no links.
    ///
    /// # Errors
    /// [`MemoryError::Os`]: no descriptors left.
    pub fn of_sisci(shm: ShmWire, sisci: SisciWire) -> Result<Self, MemoryError> {
        let data = epoll::EventData::new_u64(OTHERS);
        epoll::add(shm.control_fd(), sisci.control_fd(), data, epoll::EventFlags::IN).map_err(|e| MemoryError::os("epoll_ctl", e))?;
        Ok(Self { shm, packet: None, sisci: Some(Box::new(sisci)), prefers_shm: true, requests: BTreeMap::new(), expected: VecDeque::new() })
    }

    /// The half between hosts.
    pub fn packet(&self) -> Option<&PacketWire<HostPort>> {
        self.packet.as_ref()
    }

    // ---- as in ShmWire, for both

    /// Has packets told of that leave by UDP, or no more.
    pub fn set_tap(&mut self, tap: Option<Tap>) {
        if let Some(HostPort::Udp(port)) = self.packet.as_mut().map(PacketWire::port_mut) {
            port.set_tap(tap);
        }
    }

    fn packet_of(&mut self, link: LinkId) -> Option<(&mut PacketWire<HostPort>, LinkId)> {
        if link.raw() & PACKET == 0 {
            return None;
        }
        self.packet.as_mut().map(|p| (p, packet_link(link)))
    }

    /// As [`send_headed`](Wire::send_headed), on another wire; not inlined, so that the way by
    /// shared memory is.
    ///
    /// # Safety
    /// As there.
    #[inline(never)]
    unsafe fn send_headed_otherwise(&mut self, link: LinkId, word0: u64, head: &[u64; HEAD_WORDS], words: usize, from: *const u8, length: usize) -> Sent {
        if let Some((p, link)) = self.packet_of(link) {
            // SAFETY: the caller's.
            return unsafe { p.send_headed(link, word0, head, words, from, length) };
        }
        // SAFETY: the caller's.
        self.sisci.as_mut().map_or(Sent::Broken, |s| unsafe { s.send_headed(sisci_link(link), word0, head, words, from, length) })
    }
}

// SAFETY: W1 to W4: those of the wire whose link it is; each call goes to that one, or to none.
unsafe impl Wire for HostWire {
    fn name(&self) -> &'static str {
        match self.packet.as_ref().map(PacketWire::port) {
            None if self.sisci.is_some() => "sisci",
            None => "shm",
            Some(HostPort::Udp(_)) => "shm+udp",
            Some(HostPort::Agent(_)) => "shm+agent",
        }
    }

    fn host_address(&self) -> &[u8] {
        self.shm.host_address()
    }

    #[inline]
    fn payload_bytes_max(&self, link: LinkId) -> usize {
        match &self.packet {
            Some(p) if link.raw() & PACKET != 0 => p.payload_bytes_max(packet_link(link)),
            _ => self.shm.payload_bytes_max(link),
        }
    }

    #[inline]
    fn payload_bytes_next(&self, link: LinkId, to: u32) -> usize {
        match &self.packet {
            Some(p) if link.raw() & PACKET != 0 => p.payload_bytes_next(packet_link(link), to),
            _ => self.shm.payload_bytes_max(link),
        }
    }

    #[inline(always)]
    fn send(&mut self, link: LinkId, line: &mut Line, words: usize) -> Sent {
        match self.shm.link(link) {
            Some(l) => l.send(line, words),
            None => match self.packet_of(link) {
                Some((p, link)) => p.send(link, line, words),
                None => self.send_by_sisci(link, line, words),
            },
        }
    }

    #[inline(always)]
    unsafe fn send_whole(&mut self, link: LinkId, word0: u64, from: *const u8, length: usize) -> Sent {
        match self.shm.link(link) {
            // SAFETY: the caller's.
            Some(l) => unsafe { l.send_whole(word0, from, length) },
            None => match self.packet_of(link) {
                // SAFETY: the caller's.
                Some((p, link)) => unsafe { p.send_whole(link, word0, from, length) },
                // SAFETY: the caller's.
                None => unsafe { self.send_whole_by_sisci(link, word0, from, length) },
            },
        }
    }

    #[inline(always)]
    unsafe fn send_headed(&mut self, link: LinkId, word0: u64, head: &[u64; HEAD_WORDS], words: usize, from: *const u8, length: usize) -> Sent {
        match self.shm.link(link) {
            // SAFETY: the caller's.
            Some(l) => unsafe { l.send_headed(word0, head, words, from, length) },
            // SAFETY: the caller's.
            None => unsafe { self.send_headed_otherwise(link, word0, head, words, from, length) },
        }
    }

    #[inline(always)]
    fn take<const PAYLOAD: bool, R>(&mut self, link: LinkId, looks: u32, take: impl FnOnce(&Frame) -> Option<R>) -> Option<R> {
        match self.shm.link(link) {
            Some(l) => l.take::<PAYLOAD, R>(looks, take),
            None => match self.packet_of(link) {
                Some((p, link)) => p.take::<PAYLOAD, R>(link, looks, take),
                None => self.take_by_sisci::<PAYLOAD, R>(link, looks, take),
            },
        }
    }

    #[inline(always)]
    unsafe fn peek_line(&mut self, link: LinkId, looks: u32) -> Peeked {
        match self.shm.link(link) {
            // SAFETY: F2, the caller's.
            Some(l) => unsafe { l.peek_line(looks) },
            None if !is_sisci(link) => Peeked::Otherwise,
            // SAFETY: F2, the caller's.
            None => unsafe { self.peek_line_by_sisci(link, looks) },
        }
    }

    #[inline(always)]
    fn consume_peeked(&mut self, link: LinkId) {
        match self.shm.link(link) {
            Some(l) => l.consume_peeked(),
            None => self.consume_by_sisci(link),
        }
    }

    #[inline]
    fn send_with_payload<F: FnOnce(*mut u8) -> bool>(&mut self, link: LinkId, line: &mut Line, length: usize, fill: F) -> Sent {
        match self.shm.link(link) {
            Some(l) => l.send_with_payload(line, length, fill),
            None => match self.packet_of(link) {
                Some((p, link)) => p.send_with_payload(link, line, length, fill),
                None => self.send_with_payload_by_sisci(link, line, length, fill),
            },
        }
    }

    #[inline(always)]
    unsafe fn receive(&mut self, link: LinkId) -> Received {
        let is_only = self.shm.is_only_link();
        match self.shm.link(link) {
            // SAFETY: F2, the caller's.
            Some(l) => unsafe { l.receive(is_only) },
            None => match self.packet_of(link) {
                // SAFETY: F2, the caller's.
                Some((p, link)) => unsafe { p.receive(link) },
                // SAFETY: F2, the caller's.
                None => unsafe { self.receive_by_sisci(link) },
            },
        }
    }

    #[inline(always)]
    fn may_bring(&self, link: LinkId) -> bool {
        if is_sisci(link)
            && let Some(s) = &self.sisci
        {
            s.may_bring(sisci_link(link))
        } else {
            self.shm.may_bring(link)
        }
    }

    #[inline]
    fn leaves_out(&mut self, link: LinkId) -> bool {
        self.shm.leaves_out(link)
    }

    #[inline(always)]
    fn consume(&mut self, link: LinkId) {
        match self.shm.link(link) {
            Some(l) => l.consume(),
            None => {
                if let Some((p, link)) = self.packet_of(link) {
                    p.consume(link);
                } else {
                    self.consume_by_sisci(link);
                }
            }
        }
    }

    #[inline]
    fn consume_keeping(&mut self, link: LinkId) -> Option<u32> {
        self.shm.consume_keeping(link)
    }

    #[inline]
    fn release(&mut self, link: LinkId, mark: u32) {
        self.shm.release(link, mark);
    }

    #[inline(always)]
    fn begin_turn(&mut self) {
        if let Some(p) = &mut self.packet {
            p.begin_turn();
            if !self.expected.is_empty() {
                self.expect_no_longer();
            }
        }
    }

    #[inline(always)]
    fn flush(&mut self) {
        if let Some(p) = &mut self.packet {
            p.flush();
        } else if let Some(s) = &mut self.sisci {
            s.flush();
        }
    }

    #[inline(always)]
    fn next_timeout(&self) -> Instant {
        let expected = self.expected.front().map_or(Instant::NEVER, |(until, _)| *until);
        self.packet.as_ref().map_or(Instant::NEVER, |p| p.next_timeout().min(expected))
    }

    #[inline]
    fn sent_mark(&self, link: LinkId) -> u32 {
        self.sisci.as_ref().map_or_else(|| self.shm.sent_mark(link), |s| s.sent_mark(sisci_link(link)))
    }

    fn is_taken(&mut self, link: LinkId, mark: u32) -> bool {
        match &mut self.sisci {
            Some(s) => s.is_taken(sisci_link(link), mark),
            None => self.shm.is_taken(link, mark),
        }
    }

    fn handle_control(&mut self) {
        Self::handle_control(self);
    }

    #[inline(always)]
    fn has_events(&self) -> bool {
        match &self.packet {
            Some(p) => self.shm.has_events() || p.has_events(),
            None => self.shm.has_events() || self.sisci.as_ref().is_some_and(|s| s.has_events()),
        }
    }

    fn stopwatch(&self) -> u64 {
        self.shm.stopwatch()
    }

    fn allocate(&mut self, bytes: usize) -> Option<Allocation> {
        match &mut self.sisci {
            Some(s) => s.allocate(bytes),
            None => self.shm.allocate(bytes),
        }
    }

    fn free(&mut self, segment: u32) {
        match &mut self.sisci {
            Some(s) => s.free(segment),
            None => self.shm.free(segment),
        }
    }

    fn probe_memory(&self, address: u64, length: u64) -> MemoryKind {
        self.shm.probe_memory(address, length)
    }

    fn others_listen(&self, address: &NetAddress) -> bool {
        let by_udp = self.packet.is_some();
        let has_socket = matches!(self.packet.as_ref().map(PacketWire::port), Some(HostPort::Udp(_)));
        (has_socket && udp::others_listen(address)) || ((by_udp || self.shm.allows_others()) && self.shm.others_listen(address))
    }
    fn listen(&mut self, local: &NetAddress) -> bool {
        if let Some(s) = &mut self.sisci {
            return s.listen(local);
        }
        let here = !self.prefers_shm || self.shm.listen(local);
        match &mut self.packet {
            // Somebody else's on UDP: still found within the host.
            Some(p) if here => p.listen(local) || self.prefers_shm,
            _ => here,
        }
    }

    fn unlisten(&mut self, local: &NetAddress) {
        if let Some(s) = &mut self.sisci {
            return s.unlisten(local);
        }
        self.shm.unlisten(local);
        if let Some(p) = &mut self.packet {
            p.unlisten(local);
        }
    }

    fn resolve(&mut self, request: u64, how: Rendezvous, local: &NetAddress, remote: &NetAddress) {
        if let Some(s) = &mut self.sisci {
            return s.resolve(request, how, local, remote);
        }
        if let Some(p) = &mut self.packet {
            if !self.prefers_shm {
                return p.resolve(request, how, local, remote);
            }
            // Of the same address it may still be another user's.
            let both = how == Rendezvous::Peer && local != remote;
            let request_of_both = Request { how, local: *local, remote: *remote, shm: true, udp: both, found: false, asked: both, refusal: None };
            self.requests.insert(request, request_of_both);
            // Shared memory has thus been asked before a NIC is found by UDP.
            self.shm.resolve(request, how, local, remote);
            if both {
                p.locate(request, how, local, remote);
            }
            return;
        }
        self.shm.resolve(request, how, local, remote);
    }

    fn has_found(&self, request: u64) -> bool {
        self.sisci.as_ref().is_some_and(|s| s.has_found(request)) || self.shm.has_found(request) || self.packet.as_ref().is_some_and(|p| p.has_found(request))
    }

    fn cancel(&mut self, request: u64) {
        if let Some(s) = &mut self.sisci {
            return s.cancel(request);
        }
        self.requests.remove(&request);
        self.expected.retain(|(_, r)| *r != request);
        self.shm.cancel(request);
        if let Some(p) = &mut self.packet {
            p.cancel(request);
        }
    }

    fn poll_event(&mut self) -> Option<WireEvent> {
        if let Some(s) = &mut self.sisci {
            return s.poll_event().map(|event| event.about(sisci_link));
        }
        while let Some((request, at)) = self.packet.as_mut().and_then(PacketWire::poll_found) {
            self.found(request, at);
        }
        while let Some(event) = self.shm.poll_event() {
            if let Some(event) = self.translate(event, true) {
                return Some(event);
            }
        }
        while let Some(event) = self.packet.as_mut().and_then(Wire::poll_event) {
            if let Some(event) = self.translate(event, false) {
                return Some(event);
            }
        }
        None
    }

    fn failure(&mut self, link: LinkId) -> LinkFailure {
        if let Some(s) = &mut self.sisci {
            return s.failure(sisci_link(link));
        }
        match self.packet_of(link) {
            Some((p, link)) => p.failure(link),
            None => self.shm.failure(link),
        }
    }

    fn close(&mut self, link: LinkId) {
        if let Some(s) = &mut self.sisci {
            return s.close(sisci_link(link));
        }
        match self.packet_of(link) {
            Some((p, link)) => p.close(link),
            None => self.shm.close(link),
        }
    }

    fn link_info(&self, link: LinkId) -> LinkInfo {
        if let Some(s) = &self.sisci {
            return s.link_info(sisci_link(link));
        }
        match &self.packet {
            Some(p) if link.raw() & PACKET != 0 => {
                let reason = if self.prefers_shm { WireReason::NotOnThisHost } else { WireReason::SharedMemoryOff };
                LinkInfo { reason, ..p.link_info(packet_link(link)) }
            }
            _ => self.shm.link_info(link),
        }
    }
}

// SAFETY: W2: that of the wire whose link it is; a packet link has no direct access.
unsafe impl DirectMemory for HostWire {
    #[inline]
    fn with_granted<F: FnOnce(*mut u8)>(&mut self, link: LinkId, wish: &RemoteAccess, access: F) -> Direct {
        if is_sisci(link)
            && let Some(s) = &mut self.sisci
        {
            s.with_granted(sisci_link(link), wish, access)
        } else {
            self.shm.with_granted(link, wish, access)
        }
    }

    #[inline]
    fn with_advertised<F: FnOnce(*mut u8)>(&mut self, link: LinkId, placement: &Placement, access: F) -> Direct {
        if is_sisci(link)
            && let Some(s) = &mut self.sisci
        {
            s.with_advertised(sisci_link(link), placement, access)
        } else {
            self.shm.with_advertised(link, placement, access)
        }
    }

    fn attach(&self, link: LinkId) -> Attach {
        self.shm.attach(link)
    }

    fn attach_failed(&mut self, link: LinkId) {
        self.shm.attach_failed(link);
    }

    unsafe fn pull(&mut self, link: LinkId, address: u64, to: *mut u8, length: usize) -> bool {
        // SAFETY: the caller's.
        unsafe { self.shm.pull(link, address, to, length) }
    }

    unsafe fn pull_granted(&mut self, link: LinkId, wish: &RemoteAccess, access: impl FnOnce(&mut dyn FnMut(u64, *mut u8, usize) -> bool) -> bool) -> Direct {
        // SAFETY: the caller's.
        unsafe { self.shm.pull_granted(link, wish, access) }
    }

    #[inline]
    fn advertise(&mut self, link: LinkId, connection: u32, message: u32, advertisement: &Advertisement) {
        if is_sisci(link)
            && let Some(s) = &mut self.sisci
        {
            s.advertise(sisci_link(link), connection, message, advertisement)
        } else {
            self.shm.advertise(link, connection, message, advertisement)
        }
    }

    #[inline]
    fn withdraw(&mut self, link: LinkId, connection: u32, message: u32) {
        if is_sisci(link)
            && let Some(s) = &mut self.sisci
        {
            s.withdraw(sisci_link(link), connection, message)
        } else {
            self.shm.withdraw(link, connection, message)
        }
    }

    fn quiesce(&mut self, link: LinkId) {
        if is_sisci(link)
            && let Some(s) = &mut self.sisci
        {
            s.quiesce(sisci_link(link))
        } else {
            self.shm.quiesce(link)
        }
    }

    fn publish(&mut self, slot: usize, entry: Option<&CatalogueEntry>) {
        match &mut self.sisci {
            None => self.shm.publish(slot, entry),
            Some(s) => s.publish(slot, entry),
        }
    }

    fn grant(&mut self, link: LinkId, segment: u32, access: Option<MapAccess>) {
        if is_sisci(link)
            && let Some(s) = &mut self.sisci
        {
            s.grant(sisci_link(link), segment, access)
        } else {
            self.shm.grant(link, segment, access)
        }
    }

    fn peers_mapping(&self, segment: u32) -> u32 {
        self.sisci.as_ref().map_or_else(|| self.shm.peers_mapping(segment), |s| s.peers_mapping(segment))
    }
}
