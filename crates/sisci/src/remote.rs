// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remote segments: connections to segments of other processes. Within a host, the owner's memory
//! itself is mapped; that of another host is reached by RDMA.

use crate::error::Error;
use crate::events::{Action, Events};
use crate::far::{Far, Import, Link, Name, News, What, Writes};
use crate::handles::Object;
use crate::library::{Descriptor, Library};
use crate::mapped::{Mapped, tell_peer};
use crate::memory::Memory;
use crate::message::{Notice, Wish, segment_name};
use crate::reason::Reason;
use crate::rendezvous::{Deadline, call};
use crate::service::{Heard, Peer, Source};
use bellwire_memory::atomic::{AtomicU64, Ordering};
use bellwire_memory::bytes::SharedBytes;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// An event of a remote segment, and the error that goes with it.
pub type RemoteEvent = (Reason, Option<Error>);
/// What the program runs for events of a remote segment.
pub type RemoteCallback = Box<dyn FnMut(RemoteEvent) -> Action + Send>;

/// The connection stands.
const CONNECTED: u64 = 0;
/// The owner has ended it.
const ENDED: u64 = 1;
/// The owner's process is gone.
const LOST: u64 = 2;
/// The connection stands, but the owner does not answer for now.
const SILENT: u64 = 3;

/// How the owner's memory is reached.
enum Way {
    Here {
        memory: Arc<Memory>,
        peer: Peer,
        token: AtomicU64,
    },
    /// By a NIC.
    Far {
        link: Link,
    },
}

/// A connection to a segment.
pub struct RemoteSegment {
    pub(crate) descriptor: Arc<Descriptor>,
    library: &'static Library,
    node: u32,
    id: u32,
    way: Way,
    mapped: Mapped,
    state: AtomicU64,
    events: Events<RemoteEvent>,
}

impl Object for RemoteSegment {
    const KIND: u8 = 3;
}

impl RemoteSegment {
    /// Connects, and gives the handle. Waits as long as it is told for a segment that is not there
    /// yet, or not available.
    ///
    /// # Errors
    /// [`Error::NoSuchSegment`], [`Error::ConnectionRefused`], [`Error::Timeout`] after the time;
    /// [`Error::ConnectionRefused`] at once by an owner of another user;
    /// [`Error::NoSuchNodeId`], [`Error::NodeNotResponding`].
    pub fn connect(
        library: &'static Library,
        descriptor: u64,
        node: u32,
        id: u32,
        timeout: Option<Duration>,
        callback: impl FnOnce(u64) -> Option<RemoteCallback>,
    ) -> Result<u64, Error> {
        let descriptor = library.get::<Descriptor>(descriptor)?;
        if let Some((far, host)) = library.far_of(node) {
            let name = Name { what: What::Segment, node, id, slot: 0 };
            let links = far.connect(host, &[name], Deadline::after(timeout), Error::NoSuchSegment)?;
            let link = *links.first().ok_or(Error::System)?;
            let handle = library.insert(|handle| {
                let (way, mapped) = (Way::Far { link }, Mapped::default());
                let segment = Self { descriptor, library, node, id, way, mapped, state: AtomicU64::new(CONNECTED), events: Events::new(callback(handle))? };
                let segment = Arc::new(segment);
                far.follow(link.id, Arc::downgrade(&segment) as Weak<dyn Import>);
                segment.descriptor.hold();
                Ok(segment)
            });
            return handle.inspect_err(|_| far.disconnect(link.id));
        }
        let missing = library.missing(node, Error::NoSuchSegment)?;
        let mut called = call(&segment_name(node, id), Wish::Connect, &library.nodes, Deadline::after(timeout), missing)?;
        let memory = Memory::of_peer(called.fds.pop().ok_or(Error::InconsistentVersions)?, called.answer.size)?;
        library.insert(|handle| {
            let segment = Arc::new(Self {
                descriptor,
                library,
                node,
                id,
                way: Way::Here { memory: Arc::new(memory), peer: called.peer, token: AtomicU64::new(0) },
                mapped: Mapped::default(),
                state: AtomicU64::new(CONNECTED),
                events: Events::new(callback(handle))?,
            });
            if let Way::Here { peer, token, .. } = &segment.way {
                let source = Arc::new(OwnerSource(Arc::downgrade(&segment)));
                let name = library.service.add_peer(peer, source).inspect_err(|_| segment.events.close())?;
                // Relaxed, here and where it is read: published with the handle.
                token.store(name, Ordering::Relaxed);
            }
            segment.descriptor.hold();
            Ok(segment)
        })
    }

    /// The owner's node.
    pub fn node(&self) -> u32 {
        self.node
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its bytes.
    pub fn size(&self) -> usize {
        match &self.way {
            Way::Here { memory, .. } => memory.size(),
            Way::Far { link } => usize::try_from(link.granted.size).unwrap_or(usize::MAX),
        }
    }

    /// The owner's memory, if it is of this host.
    pub(crate) fn memory(&self) -> Option<&Arc<Memory>> {
        match &self.way {
            Way::Here { memory, .. } => Some(memory),
            Way::Far { .. } => None,
        }
    }

    fn far(&self) -> Result<(&Far, Link), Error> {
        match &self.way {
            Way::Far { link } => Ok((self.library.far().ok_or(Error::TransferFailed)?, *link)),
            Way::Here { .. } => Err(Error::System),
        }
    }

    /// Moves `memory` to (or, if `read`, from) a segment of another host; all of it has arrived
    /// when this returns.
    pub(crate) fn transfer(&self, memory: SharedBytes<'_>, offset: usize, read: bool) -> Result<(), Error> {
        let (far, link) = self.far()?;
        far.transfer(link.id, memory, offset, read)
    }

    /// Goes on with writes to a segment of another host; see [`Far::write`].
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn write(&self, source: SharedBytes<'_>, offset: usize, writes: &mut Writes, waits: bool) -> bool {
        let Ok((far, link)) = self.far() else { return false };
        // SAFETY: the caller's.
        unsafe { far.write(link.id, source, offset, writes, waits) }
    }

    /// Whether the owner does not answer for now.
    pub(crate) fn is_silent(&self) -> bool {
        // Acquire: pairs with the release in end().
        self.state.load(Ordering::Acquire) == SILENT
    }

    /// Whether the connection stands.
    ///
    /// # Errors
    /// [`Error::NotConnected`] if the owner has ended it; [`Error::NodeNotResponding`] if the
    /// owner is gone.
    pub fn check(&self) -> Result<(), Error> {
        // Acquire: pairs with the release in end().
        match self.state.load(Ordering::Acquire) {
            CONNECTED | SILENT => Ok(()),
            ENDED => Err(Error::NotConnected),
            _ => Err(Error::NodeNotResponding),
        }
    }

    pub(crate) fn map_made(&self) {
        self.mapped.made(|is_mapped| self.tell_owner(is_mapped));
    }

    pub(crate) fn map_gone(&self) {
        self.mapped.gone(|is_mapped| self.tell_owner(is_mapped));
    }

    fn tell_owner(&self, is_mapped: bool) -> bool {
        match &self.way {
            Way::Here { peer, .. } => tell_peer(peer, is_mapped),
            Way::Far { link } => {
                self.library.far().into_iter().for_each(|far| far.tell_mapped(link.id, is_mapped));
                true
            }
        }
    }

    /// The next event.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::Cancelled`]; [`Error::IllegalOperation`] if a callback takes
    /// the events.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<RemoteEvent, Error> {
        self.events.wait(timeout)
    }

    /// Ends the connection.
    ///
    /// # Errors
    /// [`Error::Busy`] while it is mapped.
    pub fn disconnect(library: &'static Library, handle: u64) -> Result<(), Error> {
        let segment = library.get::<RemoteSegment>(handle)?;
        if segment.mapped.count() > 0 {
            return Err(Error::Busy);
        }
        library.remove::<RemoteSegment>(handle)?;
        if let Way::Here { peer, token, .. } = &segment.way {
            library.service.remove_peer(token.load(Ordering::Relaxed), peer);
            peer.say(Notice::Bye);
        }
        // Release: pairs with the acquire in check(): sequences that are left say so.
        segment.state.store(ENDED, Ordering::Release);
        match &segment.way {
            // The owner sees the end even if a transfer keeps this object.
            Way::Here { peer, .. } => drop(rustix::net::shutdown(&peer.socket, rustix::net::Shutdown::Both)),
            Way::Far { link } => library.far().into_iter().for_each(|far| far.disconnect(link.id)),
        }
        segment.events.close();
        segment.descriptor.release();
        Ok(())
    }

    fn end(&self, state: u64, event: RemoteEvent) {
        // Release: pairs with the acquire in check().
        self.state.store(state, Ordering::Release);
        self.events.post(event);
    }
}

struct OwnerSource(Weak<RemoteSegment>);

impl Source for OwnerSource {
    fn ready(&self, token: u64) {
        let Some(segment) = self.0.upgrade() else { return };
        let Way::Here { peer, .. } = &segment.way else { return };
        match peer.hear() {
            Heard::Nothing => return,
            Heard::Said(Notice::Unavailable) => {
                segment.events.post((Reason::Disconnect, None));
                return;
            }
            Heard::Said(Notice::Gone) => segment.end(ENDED, (Reason::Disconnect, None)),
            Heard::Said(Notice::Bye | Notice::Mapped | Notice::Unmapped) | Heard::End => segment.end(LOST, (Reason::Lost, Some(Error::NodeNotResponding))),
        }
        segment.library.service.remove_peer(token, peer);
    }
}

impl Import for RemoteSegment {
    fn told(&self, news: News) {
        // A connection that is over stays so.
        let now = |from, to| self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok();
        match news {
            News::Unavailable => self.events.post((Reason::Disconnect, None)),
            News::Ended => self.end(ENDED, (Reason::Disconnect, None)),
            News::Lost => self.end(LOST, (Reason::Lost, Some(Error::NodeNotResponding))),
            News::Silent if now(CONNECTED, SILENT) => self.events.post((Reason::NotOperational, Some(Error::NodeNotResponding))),
            News::Answers if now(SILENT, CONNECTED) => self.events.post((Reason::Operational, None)),
            News::Silent | News::Answers => {}
        }
    }
}
