// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shared-memory wire: NICs of one host.
//!
//! Data path: `link.rs` (frames), `link/direct.rs` (memory that is mapped), `payload.rs`, over `memory::line_queue`. Control: `rendezvous.rs` (finding each other, making links), `message.rs`, `segments.rs` (memory that
//! peers map). Layout: `layout.rs`. Nothing here has a name in the file system; what a killed process leaves, the kernel takes back.

mod half;
mod layout;
mod link;
mod message;
mod payload;
mod probe;
mod proof;
mod rendezvous;
mod segments;

use crate::attributes::NetAddress;
use crate::handle::{Handle, Slab};
use crate::wire::{
    Advertisement, Allocation, Attach, CatalogueEntry, Direct, Frame, LinkFailure, LinkId, LinkInfo, MapAccess, MemoryKind, Peeked, Placement, Received,
    RemoteAccess, Rendezvous, Sent, Wire, WireEvent, WireReason,
};
use bellwire_memory::event::BellSet;
use bellwire_memory::line_queue::Line;
use bellwire_memory::membarrier::{self, Reach};
use bellwire_memory::{MemoryError, pause, pidfd};
use link::{Foreign, Link};
use proof::Proof;
use rendezvous::Control;
use rustix::fd::{AsFd, BorrowedFd};
use segments::Segments;
use std::collections::VecDeque;

/// Links that a NIC may have, and those of them to NICs of one other process: a peer cannot use up all memory and descriptors by making links.
const LINKS_MAX: usize = 1 << 14;
const LINKS_PER_PROCESS_MAX: usize = 64;
/// Longest wait for a peer to leave memory that is taken back. A peer that is stopped in the middle of a copy for longer may still write that memory.
const QUIESCE_MAX: std::time::Duration = std::time::Duration::from_millis(100);
/// Such waits in vain that a peer may cost us before its link is broken: each stops all of the NIC.
const OVERSTAYS_MAX: u32 = 3;

/// How far peers may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtectionMode {
    /// Peers of the same user map memory that the engine allocated and that is registered under a tag they share.
    Mapped,
    /// Peers see queues only; the owner copies and checks every byte.
    Guarded,
}

/// How to open the wire.
#[derive(Clone, Debug)]
pub struct ShmConfig {
    /// Protection mode; a link is mapped only if both ends say so.
    pub mode: ProtectionMode,
    /// This NIC's host address.
    pub host: Vec<u8>,
    /// Cross-memory attach, in mapped mode.
    pub attach: Attach,
}

/// The wire.
#[derive(Debug)]
pub struct ShmWire {
    config: ShmConfig,
    links: Slab<Link>,
    /// Links that are closed while frames of them are read still.
    closed: Vec<(LinkId, Link)>,
    control: Control,
    segments: Segments,
    /// What peers ring: a bell for each link.
    bells: BellSet,
    events: VecDeque<WireEvent>,
    proof: Proof,
    /// Some link has allocations to ask for.
    wants: bool,
    /// What stands in the armed words of all links: 0, [`link::ARMED`], or with [`link::FOR_ROOM`].
    armed: u32,
}

impl ShmWire {
    /// Opens the wire.
    ///
    /// # Errors
    /// The kernel refuses memory or descriptors.
    pub fn open(config: ShmConfig) -> Result<Self, MemoryError> {
        membarrier::register();
        let control = Control::new()?;
        let proof = Proof::new(&control.id, config.attach != Attach::Never && config.mode == ProtectionMode::Mapped)?;
        Ok(Self {
            config,
            links: Slab::new(LINKS_MAX),
            closed: Vec::new(),
            control,
            proof,
            segments: Segments::new()?,
            bells: BellSet::create()?,
            events: VecDeque::new(),
            wants: false,
            armed: 0,
        })
    }

    /// Readable when sockets or pidfds need [`handle_control`](Self::handle_control).
    pub fn control_fd(&self) -> BorrowedFd<'_> {
        self.control.epoll.as_fd()
    }

    /// Handles what is ready; never blocks. What comes of it is told by the engine's next turn.
    pub fn handle_control(&mut self) {
        rendezvous::handle_ready(self);
    }

    /// This NIC's bell: readable when a peer has rung.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bells.fd()
    }

    /// Whether the bell must be silenced before each sleep, else now and then.
    pub fn bell_must_be_cleared(&self) -> bool {
        self.bells.must_be_cleared()
    }

    /// Silences the bell.
    pub fn clear_bell(&mut self) {
        self.bells.clear();
    }

    /// From now on peers ring when they send; with `for_room`, also when they have read what we sent. Then look once more before sleeping: what they published
    /// before is visible after this.
    pub fn arm(&mut self, for_room: bool) {
        self.armed = link::ARMED | if for_room { link::FOR_ROOM } else { 0 };
        let mut registered = false;
        for (_, link) in self.links.iter() {
            link.arm(self.armed);
            registered |= link.reach() == Reach::Registered;
        }
        membarrier::heavy(Reach::Fenced);
        if registered {
            membarrier::heavy(Reach::Registered);
        }
    }

    /// Room is no longer waited for.
    pub fn arm_less(&mut self) {
        if self.is_armed_for_room() {
            self.armed = link::ARMED;
            for (_, link) in self.links.iter() {
                link.arm(self.armed);
            }
        }
    }

    /// Whether peers ring also for room.
    pub fn is_armed_for_room(&self) -> bool {
        self.armed & link::FOR_ROOM != 0
    }

    /// Peers need not ring any more.
    pub fn disarm(&mut self) {
        self.armed = 0;
        for (_, link) in self.links.iter() {
            link.arm(0);
        }
    }

    /// Says to all peers that we let others have this processor; `None`: that we do not.
    pub fn set_away(&self, from: Option<usize>) {
        self.links.iter().for_each(|(_, link)| link.set_away(from));
    }

    /// Whether a peer, by what it says, lets others have this processor, so that we share it; and whether it is for us to go rather than for it (each link has one side that asked for it).
    pub fn shares(&self, processor: usize) -> Option<bool> {
        self.links.iter().filter(|(_, link)| link.has_peer_left(processor)).map(|(_, link)| link.parts.connector).max()
    }

    /// Whether some peer, by what it says, is at work, and may send something any moment; with the number of links.
    pub fn peers_at_work(&self) -> (bool, usize) {
        (self.links.iter().any(|(_, link)| link.is_peer_at_work()), self.links.iter().count())
    }

    /// Rings every peer's bell, armed or not: we wait for something that only its engine can do.
    pub fn kick_peers(&mut self) {
        for (_, link) in self.links.iter() {
            link.ring();
        }
    }

    /// Whether there are links: what comes as frames (all in guarded mode; in mapped mode what is not mapped yet or not permitted) needs this
    /// process even while it computes.
    pub fn has_links(&self) -> bool {
        !self.links.is_empty()
    }

    #[inline(always)]
    pub(super) fn link(&mut self, id: LinkId) -> Option<&mut Link> {
        self.links.get_mut(Handle::from_raw(id.raw()))
    }

    #[inline(always)]
    pub(super) fn is_only_link(&self) -> bool {
        self.links.len() == 1
    }

    /// Runs a direct access; one that fails may have found out that a mapping is wanted.
    #[inline(always)]
    fn direct(&mut self, id: LinkId, access: impl FnOnce(&mut Link) -> Direct) -> Direct {
        let Some(l) = self.link(id) else { return Direct::No };
        let direct = access(l);
        if direct == Direct::No {
            self.wants |= self.link(id).is_some_and(|l| !l.wanted.is_empty());
        }
        direct
    }

    fn add_link(&mut self, link: Link) -> Option<LinkId> {
        link.arm(self.armed);
        self.links.insert(link).map(|h| LinkId::from_raw(h.raw()))
    }

    /// Asks peers for allocations that direct access has missed.
    #[cold]
    fn send_wants(&mut self) {
        self.wants = false;
        for handle in self.links.iter().map(|(h, _)| h).collect::<Vec<_>>() {
            if let Some(link) = self.links.get_mut(handle) {
                for (segment, write) in core::mem::take(&mut link.wanted) {
                    if !rendezvous::life::tell(link, &message::Message::Want { segment, write }, None) {
                        link.foreign.insert(segment, Foreign::Refused { write });
                    }
                }
            }
        }
    }
}

impl Wire for ShmWire {
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
    fn peek_line(&mut self, link: LinkId, looks: u32) -> Peeked {
        self.link(link).map_or(Peeked::Otherwise, |l| l.peek_line(looks))
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
    fn receive(&mut self, link: LinkId) -> Received {
        let is_only = self.is_only_link();
        match self.link(link) {
            Some(l) => l.receive(is_only),
            None => Received::Broken,
        }
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

    fn has_events(&self) -> bool {
        self.wants || !self.events.is_empty()
    }

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

    fn pull_granted(&mut self, link: LinkId, wish: &RemoteAccess, access: impl FnOnce(&mut dyn FnMut(u64, *mut u8, usize) -> bool) -> bool) -> Direct {
        match self.link(link) {
            Some(l) => l.pull_granted(wish, access),
            None => Direct::No,
        }
    }

    fn stopwatch(&self) -> u64 {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64).max(1)
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

    fn publish(&mut self, slot: usize, entry: Option<&CatalogueEntry>) {
        self.segments.publish(slot, entry);
    }

    fn grant(&mut self, link: LinkId, segment: u32, access: Option<MapAccess>) {
        // A peer of a guarded link has no business to ask, whatever it was told of the memory: it sees queues only.
        let mapped = self.link(link).is_some_and(|l| l.parts.mapped);
        let fd = access.filter(|_| mapped).and_then(|a| self.segments.hand_out(segment, link, a));
        let Some(l) = self.link(link) else { return };
        l.given_memory |= fd.is_some();
        let give = message::Message::Give { segment, granted: fd.is_some(), write: access == Some(MapAccess::Write) };
        rendezvous::life::tell(l, &give, fd.as_ref().map(AsFd::as_fd));
    }

    fn probe_memory(&self, address: u64, length: u64) -> MemoryKind {
        probe::probe(address, length)
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
            mapped: l.parts.mapped,
            loopback: l.parts.loopback,
            attaches: l.attaches(),
            segments_mapped: l.foreign.values().filter(|f| matches!(f, Foreign::Mapped(_))).count() as u32,
            wire: self.name(),
            reason: WireReason::SameHost,
            path: None,
        })
    }

    fn peers_mapping(&self, segment: u32) -> u32 {
        self.segments.peers_mapping(segment)
    }
}

/// Why a link could not be made.
fn failure_of(e: &MemoryError) -> LinkFailure {
    match e {
        MemoryError::ConnectionRefused => LinkFailure::NobodyThere,
        // It was there: what it has hung up for may be over soon; if it is gone, the next try says so. A full backlog is somebody's.
        MemoryError::PeerClosed | MemoryError::WouldBlock => LinkFailure::Busy,
        MemoryError::NoMemory { .. } | MemoryError::Os { .. } => LinkFailure::LocalLimit,
        _ => LinkFailure::PeerMisbehaved,
    }
}
