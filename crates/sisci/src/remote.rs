// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remote segments: connections to segments of other processes. Within a host, the owner's memory
//! itself is mapped.

use crate::error::Error;
use crate::events::{Action, Events};
use crate::handles::Object;
use crate::library::{Descriptor, Library};
use crate::local::Reason;
use crate::mapped::Mapped;
use crate::memory::Memory;
use crate::message::{Notice, Wish, segment_name};
use crate::rendezvous::{Deadline, call};
use crate::service::{Heard, Peer, Source};
use bellwire_memory::atomic::{AtomicU64, Ordering};
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

/// A connection to a segment.
pub struct RemoteSegment {
    pub(crate) descriptor: Arc<Descriptor>,
    library: &'static Library,
    node: u32,
    id: u32,
    pub(crate) memory: Arc<Memory>,
    peer: Peer,
    token: AtomicU64,
    state: AtomicU64,
    mapped: Mapped,
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
        let missing = library.missing(node, Error::NoSuchSegment)?;
        let mut called = call(&segment_name(node, id), Wish::Connect, &library.nodes, Deadline::after(timeout), missing)?;
        let memory = Memory::of_peer(called.fds.pop().ok_or(Error::InconsistentVersions)?, called.answer.size)?;
        library.insert(|handle| {
            let segment = Arc::new(Self {
                descriptor,
                library,
                node,
                id,
                memory: Arc::new(memory),
                peer: called.peer,
                token: AtomicU64::new(0),
                state: AtomicU64::new(CONNECTED),
                mapped: Mapped::default(),
                events: Events::new(callback(handle))?,
            });
            let source = Arc::new(OwnerSource(Arc::downgrade(&segment)));
            let token = library.service.add_peer(&segment.peer, source).inspect_err(|_| segment.events.close())?;
            // Relaxed, here and where it is read: published with the handle.
            segment.token.store(token, Ordering::Relaxed);
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
        self.memory.size()
    }

    /// Whether the connection stands.
    ///
    /// # Errors
    /// [`Error::NotConnected`] if the owner has ended it; [`Error::NodeNotResponding`] if the
    /// owner is gone.
    pub fn check(&self) -> Result<(), Error> {
        // Acquire: pairs with the release in end().
        match self.state.load(Ordering::Acquire) {
            CONNECTED => Ok(()),
            ENDED => Err(Error::NotConnected),
            _ => Err(Error::NodeNotResponding),
        }
    }

    pub(crate) fn map_made(&self) {
        self.mapped.made(&self.peer);
    }

    pub(crate) fn map_gone(&self) {
        self.mapped.gone(&self.peer);
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
        library.service.remove_peer(segment.token.load(Ordering::Relaxed), &segment.peer);
        segment.peer.say(Notice::Bye);
        // Release: pairs with the acquire in check(): sequences that are left say so.
        segment.state.store(ENDED, Ordering::Release);
        // The owner sees the end even if a transfer keeps this object.
        let _ = rustix::net::shutdown(&segment.peer.socket, rustix::net::Shutdown::Both);
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
        match segment.peer.hear() {
            Heard::Nothing => return,
            Heard::Said(Notice::Unavailable) => {
                segment.events.post((Reason::Disconnect, None));
                return;
            }
            Heard::Said(Notice::Gone) => segment.end(ENDED, (Reason::Disconnect, None)),
            Heard::Said(Notice::Bye | Notice::Mapped | Notice::Unmapped) | Heard::End => segment.end(LOST, (Reason::Lost, Some(Error::NodeNotResponding))),
        }
        segment.library.service.remove_peer(token, &segment.peer);
    }
}
