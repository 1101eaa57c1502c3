// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remote segments: connections to segments of other processes. Within a host, the owner's memory
//! itself is mapped; that of another host is reached by RDMA.

use crate::error::Error;
use crate::events::{Action, Events};
use crate::far::{Far, Flight, Import, Link, Name, News, What, Writes};
use crate::handles::Object;
use crate::library::{Descriptor, Library};
use crate::mapped::{Mapped, tell_peer, tell_stored};
use crate::memory::Memory;
use crate::message::{Notice, Stored, Wish, segment_name};
use crate::reason::Reason;
use crate::rendezvous::{Deadline, call};
use crate::service::{Heard, Peer, Source};
use crate::thread;
use bellwire_memory::atomic::{AtomicU64, Ordering};
use bellwire_memory::bytes::SharedBytes;
use std::sync::{Arc, OnceLock, Weak};
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

/// It is still asked for (SCI_FLAG_ASYNCHRONOUS_CONNECT).
const CONNECTING: u64 = 4;

/// How long one try to connect beside the program may wait, before it looks whether it is wanted.
const TRY: Duration = Duration::from_millis(100);

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
        far: &'static Far,
    },
}

impl Way {
    /// Connects. Waits as long as it is told for a segment that is not there yet, or not
    /// available.
    fn find(library: &'static Library, node: u32, id: u32, deadline: Deadline) -> Result<Self, Error> {
        if let Some((far, host)) = library.far_of(node) {
            let name = Name { what: What::Segment, node, id, slot: 0 };
            let links = far.connect(host, &[name], deadline, Error::NoSuchSegment)?;
            return Ok(Self::Far { link: *links.first().ok_or(Error::System)?, far });
        }
        let missing = library.missing(node, Error::NoSuchSegment)?;
        let mut called = call(&segment_name(node, id), Wish::Connect, &library.nodes, deadline, missing)?;
        let memory = Memory::of_peer(called.fds.pop().ok_or(Error::InconsistentVersions)?, called.answer.size)?;
        Ok(Self::Here { memory: Arc::new(memory), peer: called.peer, token: AtomicU64::new(0) })
    }

    /// Leaves the owner.
    fn leave(&self) {
        match self {
            Self::Here { peer, .. } => {
                peer.say(Notice::Bye);
                // The owner sees the end even if a transfer keeps this object.
                let _ = rustix::net::shutdown(&peer.socket, rustix::net::Shutdown::Both);
            }
            Self::Far { link, far } => far.disconnect(link.id),
        }
    }
}

/// Bytes that go through memory of the library at a time.
const BOUNCED: usize = 1 << 20;

/// A connection to a segment.
pub struct RemoteSegment {
    pub(crate) descriptor: Arc<Descriptor>,
    library: &'static Library,
    node: u32,
    id: u32,
    /// There once the connection stands.
    way: OnceLock<Way>,
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
        let way = Way::find(library, node, id, Deadline::after(timeout))?;
        Self::insert(library, descriptor, (node, id), callback, |segment| segment.join(way))
    }

    /// Begins to connect, and gives the handle at once. How it ends is the first event:
    /// [`Reason::Connect`], without an error if the connection stands. Until then nothing can be
    /// done with it but to wait for events and to disconnect.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`]; [`Error::NoSpace`].
    pub fn begin_to_connect(
        library: &'static Library,
        descriptor: u64,
        node: u32,
        id: u32,
        timeout: Option<Duration>,
        callback: impl FnOnce(u64) -> Option<RemoteCallback>,
    ) -> Result<u64, Error> {
        let descriptor = library.get::<Descriptor>(descriptor)?;
        let deadline = Deadline::after(timeout);
        Self::insert(library, descriptor, (node, id), callback, |segment| {
            let weak = Arc::downgrade(segment);
            thread::spawn(c"bellwire-asks", move || Self::try_until(&weak, library, (node, id), deadline)).map(|_| ())
        })
    }

    /// Makes a segment, has it begin, and gives its handle.
    fn insert(
        library: &'static Library,
        descriptor: Arc<Descriptor>,
        of: (u32, u32),
        callback: impl FnOnce(u64) -> Option<RemoteCallback>,
        begin: impl FnOnce(&Arc<Self>) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        library.insert(|handle| {
            let segment = Arc::new(Self::new(library, descriptor, of, callback(handle))?);
            begin(&segment).inspect_err(|_| segment.events.close())?;
            segment.descriptor.hold();
            Ok(segment)
        })
    }

    fn new(library: &'static Library, descriptor: Arc<Descriptor>, (node, id): (u32, u32), callback: Option<RemoteCallback>) -> Result<Self, Error> {
        let (way, state) = (OnceLock::new(), AtomicU64::new(CONNECTING));
        Ok(Self { descriptor, library, node, id, way, mapped: Mapped::default(), state, events: Events::new(callback)? })
    }

    /// Tries to connect until it is done, the time is over, or nobody wants it any more.
    fn try_until(segment: &Weak<Self>, library: &'static Library, (node, id): (u32, u32), deadline: Deadline) {
        loop {
            let slice = deadline.left().map_or(TRY, |left| left.min(TRY));
            let found = Way::find(library, node, id, Deadline::after(Some(slice)));
            // Acquire: pairs with the exchange in disconnect().
            let wanted = segment.upgrade().filter(|segment| segment.state.load(Ordering::Acquire) == CONNECTING);
            let Some(segment) = wanted else { return found.iter().for_each(Way::leave) };
            let error = match found {
                Ok(way) => match segment.join(way) {
                    Ok(()) => return segment.events.post((Reason::Connect, None)),
                    Err(error) => error,
                },
                Err(Error::NoSuchSegment | Error::ConnectionRefused | Error::Timeout | Error::NodeNotResponding) if !deadline.is_over() => continue,
                Err(error) => error,
            };
            return segment.events.post((Reason::Connect, Some(error)));
        }
    }

    /// The connection stands, unless it was lost or ended meanwhile.
    fn join(self: &Arc<Self>, way: Way) -> Result<(), Error> {
        let Ok(()) = self.way.set(way) else { return Err(Error::System) };
        match self.way.get() {
            Some(Way::Here { peer, token, .. }) => {
                let source = Arc::new(OwnerSource(Arc::downgrade(self)));
                // Relaxed, here and where it is read: published with the state.
                token.store(self.library.service.add_peer(peer, source)?, Ordering::Relaxed);
            }
            Some(Way::Far { link, far }) => far.follow(link.id, Arc::downgrade(self) as Weak<dyn Import>),
            None => {}
        }
        // Release: publishes the token; pairs with the exchange in disconnect(). Acquire: of an
        // end that was told already.
        match self.state.compare_exchange(CONNECTING, CONNECTED, Ordering::AcqRel, Ordering::Acquire) {
            Err(ENDED) => {
                self.leave();
                Err(Error::Cancelled)
            }
            _ => Ok(()),
        }
    }

    /// Leaves the owner of a connection that stands.
    fn leave(&self) {
        if let Some(Way::Here { peer, token, .. }) = self.way.get() {
            self.library.service.remove_peer(token.load(Ordering::Relaxed), peer);
        }
        self.way.get().into_iter().for_each(Way::leave);
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
        match self.way.get() {
            Some(Way::Here { memory, .. }) => memory.size(),
            Some(Way::Far { link, .. }) => usize::try_from(link.granted.size).unwrap_or(usize::MAX),
            None => 0,
        }
    }

    /// The owner's memory, if it is of this host.
    pub(crate) fn memory(&self) -> Option<&Arc<Memory>> {
        match self.way.get() {
            Some(Way::Here { memory, .. }) => Some(memory),
            Some(Way::Far { .. }) | None => None,
        }
    }

    fn far(&self) -> Result<(&Far, Link), Error> {
        match self.way.get() {
            Some(Way::Far { link, far }) => Ok((far, *link)),
            Some(Way::Here { .. }) => Err(Error::System),
            None => Err(Error::NotConnected),
        }
    }

    /// Moves `memory` to (or, if `read`, from) a segment of another host; all of it has arrived
    /// when this returns.
    pub(crate) fn transfer(&self, memory: SharedBytes<'_>, offset: usize, read: bool) -> Result<(), Error> {
        let (far, link) = self.far()?;
        if self.library.nodes.loads.is_none() {
            return far.transfer(link.id, memory, offset, read);
        }
        // The memory may be a map whose pages are fetched when they are touched, and nothing is
        // fetched while a transfer touches it under the NIC's token.
        for at in (0..memory.len()).step_by(BOUNCED) {
            let part = memory.part(at, BOUNCED.min(memory.len() - at))?;
            let mut bytes = vec![0; part.len()];
            if !read {
                part.copy_out(0, &mut bytes)?;
            }
            // SAFETY: B1: the vector, which nobody else has, until the transfer has ended.
            far.transfer(link.id, unsafe { SharedBytes::new(bytes.as_mut_ptr(), bytes.len()) }, offset.checked_add(at).ok_or(Error::OutOfRange)?, read)?;
            if read {
                part.copy_in(0, &bytes)?;
            }
        }
        Ok(())
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

    /// Goes on with writes of `parts` to a segment of another host; see [`Far::fly`].
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn fly(&self, parts: &[(SharedBytes<'_>, usize)], flight: &mut Flight, waits: bool) -> Result<(), Error> {
        let (far, link) = self.far()?;
        // SAFETY: the caller's.
        unsafe { far.fly(link.id, parts, flight, waits) };
        Ok(())
    }

    /// Whether memory of the program may be sent as it is: its pages need not be fetched first.
    pub(crate) fn sends_as_is(&self) -> bool {
        self.library.nodes.loads.is_none()
    }

    /// Tells the owner of a store through a map that interrupts; `bytes` for an owner that does not
    /// have them yet. The owner hears of stores in their order.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]: not now, even after a while if it `waits`; [`Error::NotConnected`].
    pub(crate) fn tell_stored(&self, stored: &Stored, bytes: &[u8], waits: bool) -> Result<(), Error> {
        match self.way.get() {
            Some(Way::Here { peer, .. }) => tell_stored(peer, stored, waits),
            Some(Way::Far { link, far }) => far.tell_stored(link.id, stored, bytes, waits),
            None => Err(Error::NotConnected),
        }
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
            ENDED | CONNECTING => Err(Error::NotConnected),
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
        match self.way.get() {
            Some(Way::Here { peer, .. }) => tell_peer(peer, is_mapped),
            Some(Way::Far { link, far }) => {
                far.tell_mapped(link.id, is_mapped);
                true
            }
            None => false,
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
        // Release: pairs with the acquire in check(): sequences that are left say so. Acquire: of
        // the connection that stands; pairs with join(), which leaves if it comes later.
        if segment.state.swap(ENDED, Ordering::AcqRel) != CONNECTING {
            segment.leave();
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
        let Some(Way::Here { peer, .. }) = segment.way.get() else { return };
        match peer.hear() {
            Heard::Nothing => return,
            Heard::Said(Notice::Unavailable) => {
                segment.events.post((Reason::Disconnect, None));
                return;
            }
            Heard::Said(Notice::Gone) => segment.end(ENDED, (Reason::Disconnect, None)),
            Heard::Said(Notice::Bye | Notice::Mapped | Notice::Unmapped) | Heard::Stored(_) | Heard::End => {
                segment.end(LOST, (Reason::Lost, Some(Error::NodeNotResponding)))
            }
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
