// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wire of a NIC in a real process: shared memory to peers of this host, UDP to others, chosen by itself.
//!
//! A link of shared memory is found by one look-up, as without this layer; only when that fails is the link a packet link (`PACKET` in its id) or none. So what is fast on
//! shared memory pays nothing for the choice.
//!
//! Who is meant by an address: shared memory is asked first, whatever the address, since any process of the host may have it. If nobody is there, and the address is not
//! this NIC's own, UDP is asked; who is found so may have begun to wait meanwhile, on this host, so shared memory is asked once more before a session is made. Two peers look
//! for each other both ways at a time; the first link that comes is taken, but a peer whose address is this host's gets some time to come by shared memory.

use super::packet::{PacketPort as _, PacketWire};
use super::shm::ShmWire;
use super::udp::UdpPort;
use super::{
    Advertisement, Allocation, Attach, CatalogueEntry, Direct, Frame, LinkFailure, LinkId, LinkInfo, MapAccess, MemoryKind, Placement, Received, RemoteAccess,
    Rendezvous, Sent, Wire, WireEvent, WireReason,
};
use crate::attributes::{NetAddress, without_port};
use crate::time::{Duration, Instant};
use bellwire_memory::MemoryError;
use bellwire_memory::line_queue::{HEAD_WORDS, Line};
use rustix::event::{PollFd, PollFlags, epoll, poll};
use rustix::fd::BorrowedFd;
use std::collections::{BTreeMap, VecDeque};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

/// In the id of a packet link: beyond every link of shared memory.
const PACKET: u32 = 1 << 19;

/// How long one of two peers that UDP found on this host is waited for by shared memory: their handshake is under way, or the peer is another user's.
const HANDSHAKE_TIME: Duration = Duration::from_secs(1);

/// Longest sleep of a NIC that is being closed.
const FAREWELL_SLEEP_MAX: Duration = Duration::from_millis(100);

/// A request that both wires may answer.
#[derive(Debug)]
struct Request {
    how: Rendezvous,
    local: NetAddress,
    remote: NetAddress,
    /// Still asked: shared memory, UDP.
    shm: bool,
    udp: bool,
    /// UDP found the peer, and shared memory has been asked again.
    found: bool,
}

/// The wire.
#[derive(Debug)]
pub struct HostWire {
    shm: ShmWire,
    packet: Option<PacketWire<UdpPort>>,
    /// Peers of this host are looked for by shared memory.
    prefers_shm: bool,
    /// Only while there is a packet wire.
    requests: BTreeMap<u64, Request>,
    /// Requests of two peers that UDP found on this host, and until when shared memory has time; in order.
    expected: VecDeque<(Instant, u64)>,
}

fn packet_link(link: LinkId) -> LinkId {
    LinkId::from_raw(link.raw() & !PACKET)
}

fn host_link(link: LinkId) -> LinkId {
    LinkId::from_raw(link.raw() | PACKET)
}

/// Whether the two may be on different hosts. Those at one IP address are not, whatever their ports.
fn is_elsewhere(local: &NetAddress, remote: &NetAddress) -> bool {
    without_port(local.host()) != without_port(remote.host())
}

/// Whether an address is one of this host's, or of this network namespace's: abstract sockets, by which shared memory is found, end there, too.
fn is_of_this_host(mut at: SocketAddr) -> bool {
    at.set_port(0);
    UdpSocket::bind(at).is_ok()
}

/// In the sets of descriptors of the shared-memory half: those of the other.
const OTHERS: u64 = u64::MAX;

impl HostWire {
    /// Shared memory, and UDP if there is a port; without `prefers_shm`, UDP to peers of this host, too.
    ///
    /// # Errors
    /// [`MemoryError::Os`]: no descriptors left.
    pub fn new(shm: ShmWire, packet: Option<PacketWire<UdpPort>>, prefers_shm: bool) -> Result<Self, MemoryError> {
        if let Some(p) = &packet {
            let data = epoll::EventData::new_u64(OTHERS);
            epoll::add(shm.control_fd(), p.port().control_fd(), data, epoll::EventFlags::IN).map_err(|e| MemoryError::os("epoll_ctl", e))?;
        }
        let prefers_shm = prefers_shm || packet.is_none();
        Ok(Self { shm, packet, prefers_shm, requests: BTreeMap::new(), expected: VecDeque::new() })
    }

    /// The half between hosts.
    pub fn packet(&self) -> Option<&PacketWire<UdpPort>> {
        self.packet.as_ref()
    }

    // ---- as in ShmWire, for both

    /// Readable when [`handle_control`](Self::handle_control) has something to do.
    pub fn control_fd(&self) -> BorrowedFd<'_> {
        self.shm.control_fd()
    }

    /// Handles what is ready on control descriptors; never blocks. What comes of it is told by the engine's next turn.
    pub fn handle_control(&mut self) {
        self.shm.handle_control();
        if let Some(p) = &mut self.packet {
            p.port_mut().handle_control();
        }
    }

    /// Readable, edge-triggered, when somebody must look every so often, for frames wait to share a packet; if there are such.
    pub fn guard_fd(&self) -> Option<BorrowedFd<'_>> {
        self.packet.as_ref().map(|p| p.port().guard_fd())
    }

    /// Whether that is over.
    pub fn guard_may_go(&mut self) -> bool {
        self.packet.as_mut().is_none_or(|p| p.port_mut().guard_may_go())
    }

    /// To sleep on: readable when a peer has rung, or (while armed) a packet has come.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.shm.bell()
    }

    /// Whether the bell must be silenced before each sleep, else now and then.
    pub fn bell_must_be_cleared(&self) -> bool {
        self.shm.bell_must_be_cleared()
    }

    /// Silences the bell.
    pub fn clear_bell(&mut self) {
        self.shm.clear_bell();
    }

    /// Peers ring from now on, and packets wake. Then look once more before sleeping.
    pub fn arm(&mut self, for_room: bool) {
        if let Some(p) = &mut self.packet {
            p.set_armed(true);
            // Edge-triggered, and only while somebody sleeps: who polls is not to wake the helper with each packet. Added already: then it stays.
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            let _ = epoll::add(self.shm.bell(), p.port().socket_fd(), epoll::EventData::new_u64(OTHERS), flags);
        }
        self.shm.arm(for_room);
    }

    /// While armed: what a sleeper watches itself beside [`bell`](Self::bell), which does not tell of it from now on; if there is such.
    pub fn watch_apart(&mut self) -> Option<Arc<UdpSocket>> {
        self.packet.as_mut()?.port_mut().watch_only_peer()
    }

    /// The [`bell`](Self::bell) tells of everything.
    pub fn watch_all(&mut self) {
        if let Some(p) = &mut self.packet {
            p.port_mut().watch_all();
        }
    }

    /// The [`bell`](Self::bell) has told of something.
    pub fn look_everywhere(&mut self) {
        if let Some(p) = &mut self.packet {
            p.port_mut().look_everywhere();
        }
    }

    /// Room is no longer waited for.
    pub fn arm_less(&mut self) {
        self.shm.arm_less();
    }

    /// Whether peers ring also for room.
    pub fn is_armed_for_room(&self) -> bool {
        self.shm.is_armed_for_room()
    }

    /// Peers need not ring any more.
    pub fn disarm(&mut self) {
        if let Some(p) = &mut self.packet {
            p.set_armed(false);
            let _ = epoll::delete(self.shm.bell(), p.port().socket_fd());
        }
        self.shm.disarm();
    }

    /// Says to the peers of this host whether we let others have our processor.
    pub fn set_away(&self, away: bool) {
        self.shm.set_away(away);
    }

    /// Whether some peer of this host is at work, and may send something any moment; with the number of links to such. Of other hosts that is not known.
    pub fn peers_at_work(&self) -> (bool, usize) {
        self.shm.peers_at_work()
    }

    /// Rings every peer's bell, armed or not.
    pub fn kick_peers(&mut self) {
        self.shm.kick_peers();
    }

    /// Whether there is something that needs this process even while it computes.
    pub fn has_links(&self) -> bool {
        self.shm.has_links() || self.packet.as_ref().is_some_and(PacketWire::has_links)
    }

    /// The NIC is being closed: returns when everything sent by UDP has been acknowledged, or after 3 s (`close_time` of the transport) without that. Peers hear of the end.
    pub fn take_leave(&mut self) {
        let Some(p) = &mut self.packet else { return };
        p.begin_farewell();
        p.port_mut().watch_all();
        p.set_armed(true);
        let mut settled = None;
        while let Some(until) = p.farewell_turn(&mut settled) {
            let port = p.port();
            let wait = until.since(port.now()).0.clamp(1, FAREWELL_SLEEP_MAX.0);
            let wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: wait as i64 };
            let mut fds = [PollFd::from_borrowed_fd(port.socket_fd(), PollFlags::IN)];
            // Interrupted: the loop looks again.
            let _ = poll(&mut fds, Some(&wait));
        }
    }

    #[cold]
    #[inline(never)]
    fn packet_of(&mut self, link: LinkId) -> Option<(&mut PacketWire<UdpPort>, LinkId)> {
        if link.raw() & PACKET == 0 {
            return None;
        }
        self.packet.as_mut().map(|p| (p, packet_link(link)))
    }

    /// What one of the two says about a request that may be both's. `None`: not the last word.
    fn settle(&mut self, request: u64, from_shm: bool, answer: Result<LinkId, LinkFailure>) -> Option<WireEvent> {
        let Some(r) = self.requests.get_mut(&request) else {
            // Asked of one only.
            return Some(match answer {
                Ok(link) => WireEvent::LinkUp { link, request: Some(request) },
                Err(reason) => WireEvent::Unresolved { request, reason },
            });
        };
        let other = if from_shm {
            r.shm = false;
            r.udp
        } else {
            r.udp = false;
            r.shm
        };
        match answer {
            Ok(link) => {
                self.requests.remove(&request);
                self.expected.retain(|(_, r)| *r != request);
                if other && let Some(p) = self.packet.as_mut().filter(|_| from_shm) {
                    p.cancel(request);
                } else if other {
                    self.shm.cancel(request);
                }
                Some(WireEvent::LinkUp { link, request: Some(request) })
            }
            Err(_) if r.found && from_shm => {
                r.found = false;
                if let Some(p) = &mut self.packet {
                    p.proceed(request);
                }
                None
            }
            Err(_) if other => None,
            Err(LinkFailure::NobodyThere) if from_shm && r.how == Rendezvous::Client && is_elsewhere(&r.local, &r.remote) => {
                r.udp = true;
                let (local, remote) = (r.local, r.remote);
                if let Some(p) = &mut self.packet {
                    p.locate(request, Rendezvous::Client, &local, &remote);
                }
                None
            }
            Err(reason) => {
                self.requests.remove(&request);
                Some(WireEvent::Unresolved { request, reason })
            }
        }
    }

    /// UDP has found whom a request is for, at an address: shared memory first, if it may be on this host.
    #[cold]
    fn found(&mut self, request: u64, at: SocketAddr) {
        let (Some(p), Some(r)) = (&mut self.packet, self.requests.get_mut(&request)) else { return };
        match r.how {
            Rendezvous::Client => {
                (r.shm, r.found) = (true, true);
                let (local, remote) = (r.local, r.remote);
                self.shm.resolve(request, Rendezvous::Client, &local, &remote);
            }
            Rendezvous::Peer if is_of_this_host(at) => self.expected.push_back((p.port().now() + HANDSHAKE_TIME, request)),
            Rendezvous::Peer => p.proceed(request),
        }
    }

    /// Those who did not come by shared memory in time are talked to by UDP.
    #[cold]
    fn expect_no_longer(&mut self) {
        let Some(p) = &mut self.packet else { return };
        let now = p.port().now();
        while self.expected.front().is_some_and(|(until, _)| *until <= now)
            && let Some((_, request)) = self.expected.pop_front()
        {
            p.proceed(request);
        }
    }

    fn translate(&mut self, event: WireEvent, from_shm: bool) -> Option<WireEvent> {
        let name = |link| if from_shm { link } else { host_link(link) };
        match event {
            WireEvent::LinkUp { link, request: Some(request) } => self.settle(request, from_shm, Ok(name(link))),
            WireEvent::Unresolved { request, reason } => self.settle(request, from_shm, Err(reason)),
            WireEvent::LinkUp { link, request: None } => Some(WireEvent::LinkUp { link: name(link), request: None }),
            WireEvent::LinkDown { link, reason } => Some(WireEvent::LinkDown { link: name(link), reason }),
            WireEvent::MapRequest { .. } => Some(event),
        }
    }
}

impl Wire for HostWire {
    fn name(&self) -> &'static str {
        if self.packet.is_some() { "shm+udp" } else { "shm" }
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
            None => self.packet_of(link).map_or(Sent::Broken, |(p, link)| p.send(link, line, words)),
        }
    }

    #[inline(always)]
    unsafe fn send_whole(&mut self, link: LinkId, word0: u64, from: *const u8, length: usize) -> Sent {
        match self.shm.link(link) {
            // SAFETY: the caller's.
            Some(l) => unsafe { l.send_whole(word0, from, length) },
            // SAFETY: the caller's.
            None => self.packet_of(link).map_or(Sent::Broken, |(p, link)| unsafe { p.send_whole(link, word0, from, length) }),
        }
    }

    #[inline(always)]
    unsafe fn send_headed(&mut self, link: LinkId, word0: u64, head: &[u64; HEAD_WORDS], words: usize, from: *const u8, length: usize) -> Sent {
        match self.shm.link(link) {
            // SAFETY: the caller's.
            Some(l) => unsafe { l.send_headed(word0, head, words, from, length) },
            // SAFETY: the caller's.
            None => self.packet_of(link).map_or(Sent::Broken, |(p, link)| unsafe { p.send_headed(link, word0, head, words, from, length) }),
        }
    }

    #[inline(always)]
    fn take<const PAYLOAD: bool, R>(&mut self, link: LinkId, looks: u32, take: impl FnOnce(&Frame) -> Option<R>) -> Option<R> {
        match self.shm.link(link) {
            Some(l) => l.take::<PAYLOAD, R>(looks, take),
            None => self.packet_of(link).and_then(|(p, link)| p.take::<PAYLOAD, R>(link, looks, take)),
        }
    }

    #[inline]
    fn send_with_payload<F: FnOnce(*mut u8) -> bool>(&mut self, link: LinkId, line: &mut Line, length: usize, fill: F) -> Sent {
        match self.shm.link(link) {
            Some(l) => l.send_with_payload(line, length, fill),
            None => self.packet_of(link).map_or(Sent::Broken, |(p, link)| p.send_with_payload(link, line, length, fill)),
        }
    }

    #[inline(always)]
    fn receive(&mut self, link: LinkId) -> Received {
        let is_only = self.shm.is_only_link();
        match self.shm.link(link) {
            Some(l) => l.receive(is_only),
            None => self.packet_of(link).map_or(Received::Broken, |(p, link)| p.receive(link)),
        }
    }

    #[inline(always)]
    fn consume(&mut self, link: LinkId) {
        match self.shm.link(link) {
            Some(l) => l.consume(),
            None => {
                if let Some((p, link)) = self.packet_of(link) {
                    p.consume(link);
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
        }
    }

    #[inline(always)]
    fn next_timeout(&self) -> Instant {
        let expected = self.expected.front().map_or(Instant::NEVER, |(until, _)| *until);
        self.packet.as_ref().map_or(Instant::NEVER, |p| p.next_timeout().min(expected))
    }

    #[inline]
    fn sent_mark(&self, link: LinkId) -> u32 {
        self.shm.sent_mark(link)
    }

    fn is_taken(&mut self, link: LinkId, mark: u32) -> bool {
        self.shm.is_taken(link, mark)
    }

    #[inline(always)]
    fn has_events(&self) -> bool {
        self.shm.has_events() || self.packet.as_ref().is_some_and(Wire::has_events)
    }

    #[inline]
    fn with_granted<F: FnOnce(*mut u8)>(&mut self, link: LinkId, wish: &RemoteAccess, access: F) -> Direct {
        self.shm.with_granted(link, wish, access)
    }

    #[inline]
    fn with_advertised<F: FnOnce(*mut u8)>(&mut self, link: LinkId, placement: &Placement, access: F) -> Direct {
        self.shm.with_advertised(link, placement, access)
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

    fn pull_granted(&mut self, link: LinkId, wish: &RemoteAccess, access: impl FnOnce(&mut dyn FnMut(u64, *mut u8, usize) -> bool) -> bool) -> Direct {
        self.shm.pull_granted(link, wish, access)
    }

    fn stopwatch(&self) -> u64 {
        self.shm.stopwatch()
    }

    #[inline]
    fn advertise(&mut self, link: LinkId, connection: u32, message: u32, advertisement: &Advertisement) {
        self.shm.advertise(link, connection, message, advertisement);
    }

    #[inline]
    fn withdraw(&mut self, link: LinkId, connection: u32, message: u32) {
        self.shm.withdraw(link, connection, message);
    }

    fn quiesce(&mut self, link: LinkId) {
        self.shm.quiesce(link);
    }

    fn allocate(&mut self, bytes: usize) -> Option<Allocation> {
        self.shm.allocate(bytes)
    }

    fn free(&mut self, segment: u32) {
        self.shm.free(segment);
    }

    fn publish(&mut self, slot: usize, entry: Option<&CatalogueEntry>) {
        self.shm.publish(slot, entry);
    }

    fn grant(&mut self, link: LinkId, segment: u32, access: Option<MapAccess>) {
        self.shm.grant(link, segment, access);
    }

    fn probe_memory(&self, address: u64, length: u64) -> MemoryKind {
        self.shm.probe_memory(address, length)
    }

    fn listen(&mut self, local: &NetAddress) -> bool {
        let here = !self.prefers_shm || self.shm.listen(local);
        match &mut self.packet {
            // Somebody else's on UDP: still found within the host.
            Some(p) if here => p.listen(local) || self.prefers_shm,
            _ => here,
        }
    }

    fn unlisten(&mut self, local: &NetAddress) {
        self.shm.unlisten(local);
        if let Some(p) = &mut self.packet {
            p.unlisten(local);
        }
    }

    fn resolve(&mut self, request: u64, how: Rendezvous, local: &NetAddress, remote: &NetAddress) {
        if let Some(p) = &mut self.packet {
            if !self.prefers_shm {
                return p.resolve(request, how, local, remote);
            }
            let both = how == Rendezvous::Peer && is_elsewhere(local, remote);
            self.requests.insert(request, Request { how, local: *local, remote: *remote, shm: true, udp: both, found: false });
            // Who is found by UDP has thus asked shared memory before.
            self.shm.resolve(request, how, local, remote);
            if both {
                p.locate(request, how, local, remote);
            }
            return;
        }
        self.shm.resolve(request, how, local, remote);
    }

    fn has_found(&self, request: u64) -> bool {
        self.shm.has_found(request) || self.packet.as_ref().is_some_and(|p| p.has_found(request))
    }

    fn cancel(&mut self, request: u64) {
        self.requests.remove(&request);
        self.expected.retain(|(_, r)| *r != request);
        self.shm.cancel(request);
        if let Some(p) = &mut self.packet {
            p.cancel(request);
        }
    }

    fn poll_event(&mut self) -> Option<WireEvent> {
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

    fn close(&mut self, link: LinkId) {
        match self.packet_of(link) {
            Some((p, link)) => p.close(link),
            None => self.shm.close(link),
        }
    }

    fn link_info(&self, link: LinkId) -> LinkInfo {
        match &self.packet {
            Some(p) if link.raw() & PACKET != 0 => {
                let reason = if self.prefers_shm { WireReason::NotOnThisHost } else { WireReason::SharedMemoryOff };
                LinkInfo { reason, ..p.link_info(packet_link(link)) }
            }
            _ => self.shm.link_info(link),
        }
    }

    fn peers_mapping(&self, segment: u32) -> u32 {
        self.shm.peers_mapping(segment)
    }
}
