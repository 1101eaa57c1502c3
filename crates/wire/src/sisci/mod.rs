// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wire made of SISCI: nothing but the public calls of `sisci_api.h`, which
//! `bellwire-sisci-calls` loads at run time, moves data, finds peers or wakes them. `xtask tidy`
//! holds it to that. What a peer stores is ordered by this machine's own means (atomics, barriers).
//!
//! | file | what |
//! |---|---|
//! | `switches.rs` | the choices of the report |
//! | `layout.rs`, `link.rs` | a link's segments; frames |
//! | `link/direct.rs`, `allocations.rs` | memory of the peer; memory for the peer |
//! | `meeting.rs`, `message.rs` | doors and links; messages by data interrupt |
//! | `worker.rs`, `outcome.rs`, `notes.rs` | calls that take time; notes of threads, and the event manager |
//! | `as_wire.rs` | all of that as the engine knows a wire |

mod allocations;
mod as_wire;
mod layout;
mod link;
mod meeting;
mod message;
mod notes;
mod outcome;
mod switches;
mod worker;

pub use switches::{Events, Memory, Switches};

use crate::address::NetAddress;
use crate::handle::{Handle, Slab};
use crate::{Direct, LinkId, WireEvent};
use allocations::Allocations;
use bellwire_memory::MemoryError;
use bellwire_memory::membarrier::{self, Reach};
use bellwire_sisci_calls::{DataInterrupt, Interrupt, Segment, Sisci, Told};
use link::Link;
use meeting::Meetings;
use message::{Message, NicId};
use notes::{Manager, Note, Notes};
use outcome::Place;
use rustix::fd::BorrowedFd;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use worker::{Job, Worker};

/// Links that a NIC may have.
const LINKS_MAX: usize = 1 << 12;

/// How to open the wire.
#[derive(Clone, Debug)]
pub struct SisciConfig {
    /// This NIC's host address, of which the library knows the node.
    pub host: Vec<u8>,
    /// The NIC's number among all NICs: drawn at random.
    pub id: u128,
    /// The report's choices.
    pub switches: Switches,
}

/// Why the wire cannot be opened.
#[derive(Debug)]
pub enum SisciError {
    /// The library is not found, or does not start: a text for people.
    Library(String),
    /// The library has no room.
    Refused(u32),
    /// The kernel has no room.
    Os(MemoryError),
}

impl From<MemoryError> for SisciError {
    fn from(e: MemoryError) -> Self {
        Self::Os(e)
    }
}

impl From<bellwire_sisci_calls::Error> for SisciError {
    fn from(e: bellwire_sisci_calls::Error) -> Self {
        Self::Refused(e.0)
    }
}

/// The wire.
///
/// Fields are dropped in this order: doors, then interrupts, then the worker, when it has given up
/// all links.
#[derive(Debug)]
pub struct SisciWire {
    config: SisciConfig,
    meetings: Meetings,
    links: Slab<Link>,
    allocations: Allocations,
    events: VecDeque<WireEvent>,
    /// Nodes of host addresses.
    nodes: BTreeMap<Vec<u8>, Option<Place>>,
    /// Some link has allocations to ask for, or descriptors to publish.
    wants: bool,
    publishes: bool,
    /// The value of the armed words of all links.
    armed: u32,
    manager: Option<Manager>,
    bell: Option<Interrupt>,
    control: DataInterrupt,
    /// There as long as this NIC is.
    hub: Segment,
    worker: Worker,
    notes: Arc<Notes>,
    sisci: Arc<Sisci>,
}

impl SisciWire {
    /// Opens the wire.
    ///
    /// # Errors
    /// See [`SisciError`].
    pub fn open(config: SisciConfig) -> Result<Self, SisciError> {
        membarrier::register();
        let sisci = Sisci::open().map_err(SisciError::Library)?;
        let notes = Arc::new(Notes::new()?);
        let no_thread = || SisciError::Library("no thread can be started".to_owned());
        let worker = Worker::start(&sisci, &notes).ok_or_else(no_thread)?;
        let hub = Segment::create(&sisci, None, 64)?;
        hub.open()?;
        let control = DataInterrupt::create(&sisci, {
            let notes = Arc::clone(&notes);
            Arc::new(move |told| {
                if let Told::Data(bytes) = told {
                    notes.add(Note::Said(bytes.to_vec()));
                }
            })
        })?;
        let (bell, manager) = match config.switches.events {
            Events::Interrupt => {
                let notes = Arc::clone(&notes);
                (Some(Interrupt::create(&sisci, Arc::new(move |_| notes.wake()))?), None)
            }
            Events::Memory => (None, Some(Manager::start(&notes).ok_or_else(no_thread)?)),
        };
        Ok(Self {
            meetings: Meetings::default(),
            links: Slab::new(LINKS_MAX),
            allocations: Allocations::new(config.switches.memory == Memory::Allocate),
            events: VecDeque::new(),
            nodes: BTreeMap::new(),
            wants: false,
            publishes: false,
            armed: 0,
            manager,
            bell,
            control,
            hub,
            worker,
            notes,
            sisci,
            config,
        })
    }

    /// Readable when [`handle_control`](Self::handle_control) has something to do.
    pub fn control_fd(&self) -> BorrowedFd<'_> {
        self.notes.control.fd()
    }

    /// To sleep on, edge-triggered: readable when a peer has woken us.
    pub fn bell_fd(&self) -> BorrowedFd<'_> {
        self.notes.bell.fd()
    }

    /// Handles what threads have told; never blocks. The outcome is told by the engine's next turn.
    pub fn handle_control(&mut self) {
        // Relaxed: a hint; the list has a lock.
        if self.notes.is_noted.load(bellwire_memory::atomic::Ordering::Relaxed) {
            for note in self.notes.take() {
                self.handle(note);
            }
        }
    }

    fn links_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        self.links.iter_mut().map(|(_, link)| link)
    }

    /// From now on peers wake us when they send; with `for_room`, also when they have read what we
    /// sent. Then look once more before sleeping.
    pub fn arm(&mut self, for_room: bool) {
        self.armed = link::ARMED | if for_room { link::FOR_ROOM } else { 0 };
        let armed = self.armed;
        let mut registered = false;
        for link in self.links_mut() {
            link.arm(armed);
            registered |= link.reach() == Reach::Registered;
        }
        membarrier::heavy(Reach::Fenced);
        if registered {
            membarrier::heavy(Reach::Registered);
        }
        if let Some(manager) = &self.manager {
            manager.arm(true);
        }
    }

    /// Room is no longer waited for.
    pub fn arm_less(&mut self) {
        if self.is_armed_for_room() {
            self.armed = link::ARMED;
            self.links_mut().for_each(|link| link.arm(link::ARMED));
        }
    }

    /// Whether peers wake us also for room.
    pub fn is_armed_for_room(&self) -> bool {
        self.armed & link::FOR_ROOM != 0
    }

    /// Peers need not wake us any more.
    pub fn disarm(&mut self) {
        self.armed = 0;
        self.links_mut().for_each(|link| link.arm(0));
        if let Some(manager) = &self.manager {
            manager.arm(false);
        }
    }

    /// Says to all peers of this node that we let others have this processor; `None`: that we do
    /// not.
    pub fn set_away(&self, from: Option<usize>) {
        self.links.iter().for_each(|(_, link)| link.set_away(from));
    }

    /// Whether a peer lets others have this processor, so that we share it; and whether it is for
    /// us to go rather than for it.
    pub fn shares(&self, processor: usize) -> Option<bool> {
        self.links.iter().filter(|(_, link)| link.has_peer_left(processor)).map(|(_, link)| link.parts().connector).max()
    }

    /// Whether some peer is at work, and may send something any moment; with the number of links.
    pub fn peers_at_work(&self) -> (bool, usize) {
        (self.links.iter().any(|(_, link)| link.is_peer_at_work()), self.links.len())
    }

    /// Wakes every peer: we wait for something that only its engine can do.
    pub fn kick_peers(&mut self) {
        self.links_mut().for_each(Link::wake);
    }

    /// Whether there are links.
    pub fn has_links(&self) -> bool {
        !self.links.is_empty()
    }

    #[inline(always)]
    pub(crate) fn link(&mut self, id: LinkId) -> Option<&mut Link> {
        self.links.get_mut(Handle::from_raw(id.raw()))
    }

    #[inline(always)]
    pub(crate) fn look_at(&self, id: LinkId) -> Option<&Link> {
        self.links.get(Handle::from_raw(id.raw()))
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

    /// Says something on a link, now or when there is room.
    fn say(&self, id: LinkId, message: &Message) {
        if let Some(link) = self.look_at(id)
            && let Err(bytes) = link.say(message)
        {
            self.worker.give(Job::Say { control: Arc::clone(&link.parts().control), bytes });
        }
    }

    /// Asks peers for allocations that direct access has missed.
    #[cold]
    fn send_wants(&mut self) {
        self.wants = false;
        for handle in self.links.iter().map(|(h, _)| h).collect::<Vec<_>>() {
            let Some(link) = self.links.get_mut(handle) else { continue };
            let (to, wanted) = (link.parts().to, std::mem::take(&mut link.wanted));
            for (segment, write) in wanted {
                self.say(LinkId::from_raw(handle.raw()), &Message::Want { to, segment, write });
            }
        }
    }

    /// The node of an address, which the library knows. A name that is no host's address is of this
    /// node.
    fn place_of(&mut self, address: &NetAddress) -> Option<Place> {
        let host = crate::address::without_port(address.host());
        if let Some(place) = self.nodes.get(host) {
            return *place;
        }
        let own = self.sisci.node();
        let text = match host.len() {
            4 => <[u8; 4]>::try_from(host).ok().map(|a| core::net::Ipv4Addr::from(a).to_string()),
            16 => <[u8; 16]>::try_from(host).ok().map(|a| core::net::Ipv6Addr::from(a).to_string()),
            _ => None,
        };
        let node = match text {
            Some(text) => self.sisci.node_of(&text).ok(),
            None => Some(own),
        };
        let place = node.map(|node| Place { node, near: node == own });
        self.nodes.insert(host.to_vec(), place);
        place
    }

    fn id(&self) -> NicId {
        self.config.id
    }
}

impl Drop for SisciWire {
    fn drop(&mut self) {
        for handle in self.links.iter().map(|(h, _)| h).collect::<Vec<_>>() {
            self.end_link(LinkId::from_raw(handle.raw()));
        }
    }
}
