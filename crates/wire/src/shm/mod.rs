// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shared-memory wire: NICs of one host.
//!
//! Data path: `link.rs` (frames), `link/direct.rs` (memory that is mapped), `payload.rs`, over
//! `memory::line_queue`. Control: `rendezvous.rs` (finding each other, making links), `message.rs`,
//! `segments.rs` (memory that peers map). Layout: `layout.rs`. Nothing here has a name in the file
//! system; what a killed process leaves, the kernel takes back.

mod as_wire;
mod half;
mod layout;
mod link;
mod message;
mod proof;
mod rendezvous;
mod segments;

use crate::handle::{Handle, Slab};
use crate::users::Allow;
use crate::{Attach, Direct, LinkFailure, LinkId, WireEvent};
use bellwire_memory::MemoryError;
use bellwire_memory::event::BellSet;
use bellwire_memory::membarrier::{self, Reach};
use link::{Foreign, Link};
use proof::Proof;
use rendezvous::Control;
use rustix::fd::{AsFd, BorrowedFd};
use segments::Segments;
use std::collections::VecDeque;

/// Links that a NIC may have, and those of them to NICs of one other process: a peer cannot use up
/// all memory and descriptors by making links.
const LINKS_MAX: usize = 1 << 14;
const LINKS_PER_PROCESS_MAX: usize = 64;
/// Longest wait for a peer to leave memory that is taken back. A peer that is stopped in the middle
/// of a copy for longer may still write that memory.
const QUIESCE_MAX: std::time::Duration = std::time::Duration::from_millis(100);
/// Such waits that a peer may cost us before its link is broken: each stops all of the NIC.
const OVERSTAYS_MAX: u32 = 3;

/// How far peers may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtectionMode {
    /// Peers of the same user map memory that the engine allocated and that is registered under a
    /// tag they share.
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
    /// Other users with whom there may be links, all of them guarded, if they allow this one's.
    pub allow: Allow,
    /// The tag of the virtual network whose NICs there may be links with; 0: the default one.
    pub network: u64,
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
    /// The bells that peers ring, one for each link.
    bells: BellSet,
    events: VecDeque<WireEvent>,
    proof: Proof,
    /// Some link has allocations to ask for.
    wants: bool,
    /// The value of the armed words of all links: 0, [`link::ARMED`], or with [`link::FOR_ROOM`].
    armed: u32,
}

impl ShmWire {
    /// Opens the wire.
    ///
    /// # Errors
    /// The kernel refuses memory or descriptors.
    pub fn open(config: ShmConfig) -> Result<Self, MemoryError> {
        membarrier::register();
        let control = Control::new(config.allow.clone(), config.network)?;
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

    /// Handles what is ready; never blocks. The outcome is told by the engine's next turn.
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

    /// From now on peers ring when they send; with `for_room`, also when they have read what we
    /// sent. Then look once more before sleeping: what they published before is visible after this.
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

    /// Whether a peer, by what it says, lets others have this processor, so that we share it; and
    /// whether it is for us to go rather than for it (each link has one side that asked for it).
    pub fn shares(&self, processor: usize) -> Option<bool> {
        self.links.iter().filter(|(_, link)| link.has_peer_left(processor)).map(|(_, link)| link.parts.connector).max()
    }

    /// Whether some peer, by what it says, is at work, and may send something any moment; with the
    /// number of links.
    pub fn peers_at_work(&self) -> (bool, usize) {
        (self.links.iter().any(|(_, link)| link.is_peer_at_work()), self.links.iter().count())
    }

    /// Rings every peer's bell, armed or not: we wait for something that only its engine can do.
    pub fn kick_peers(&mut self) {
        for (_, link) in self.links.iter() {
            link.ring();
        }
    }

    /// Whether there are links: requests that come as frames (all in guarded mode; in mapped mode
    /// those for memory that is not mapped yet or not permitted) need this process even while it
    /// computes.
    pub fn has_links(&self) -> bool {
        !self.links.is_empty()
    }

    #[inline(always)]
    pub(super) fn link(&mut self, id: LinkId) -> Option<&mut Link> {
        self.links.get_mut(Handle::from_raw(id.raw()))
    }

    /// See [`Wire::may_bring`](super::Wire::may_bring); `true` for other wires' links.
    #[inline(always)]
    pub(super) fn may_bring(&self, id: LinkId) -> bool {
        self.links.get(Handle::from_raw(id.raw())).is_none_or(Link::may_bring)
    }

    /// See [`Wire::leaves_out`](super::Wire::leaves_out).
    #[inline]
    pub(super) fn leaves_out(&mut self, id: LinkId) -> bool {
        self.link(id).is_some_and(Link::leaves_out)
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

/// Why a link could not be made.
impl From<MemoryError> for LinkFailure {
    fn from(e: MemoryError) -> Self {
        match e {
            MemoryError::ConnectionRefused => Self::NobodyThere,
            // It was there: what it has hung up for may be over soon; if it is gone, the next try
            // says so. A full backlog is somebody's.
            MemoryError::PeerClosed | MemoryError::WouldBlock => Self::Busy,
            MemoryError::NoMemory { .. } | MemoryError::Os { .. } => Self::LocalLimit,
            _ => Self::PeerMisbehaved,
        }
    }
}
