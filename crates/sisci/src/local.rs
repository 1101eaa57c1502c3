// SPDX-License-Identifier: MIT OR Apache-2.0
//! Local segments: memory of this process that others may connect to.
//!
//! ```text
//! create -> (register) -> prepare -> available <-> unavailable -> remove
//! ```
//! The id is taken at the creation: it is the name of a socket, so a node has it once, and a crash
//! gives it back.

use crate::error::Error;
use crate::events::{Action, Events};
use crate::far::{Export, ExportId, Handled, Name, Said, What};
use crate::flags::{self, Flags, Triggered};
use crate::handles::Object;
use crate::library::{Descriptor, Library};
use crate::mapped::{Mapped, tell_peer};
use crate::memory::Memory;
use crate::message::{Answer, Hello, Notice, Stored, Wish, segment_name};
use crate::reason::Reason;
use crate::rendezvous::{Deadline, Listener, Owner, call};
use crate::service::{Heard, Peer, Source};
use bellwire_memory::adopted::Adopted;
use bellwire_memory::atomic::{AtomicBool, Ordering};
use bellwire_memory::{MemoryError, fd_passing};
use rustix::fd::AsFd;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Connections to a segment at a time.
const USERS_MAX: usize = 1 << 16;
/// How long a removal waits for users that have the segment mapped: they may be leaving.
const LEAVING: Duration = Duration::from_millis(500);

/// An event of a local segment: the reason, and the node of the user.
pub type LocalEvent = (Reason, u32);
/// What the program runs for events of a local segment.
pub type LocalCallback = Box<dyn FnMut(LocalEvent) -> Action + Send>;

/// What a segment is to be.
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentKind {
    /// Has no memory until the program registers its own.
    pub empty: bool,
    /// Has no id; nobody connects to it.
    pub private: bool,
    /// Is never made available: a source or destination of transfers only.
    pub dma_only: bool,
    /// The library chooses the id.
    pub auto_id: bool,
}

struct User {
    peer: Peer,
    node: u32,
    attached: bool,
    /// It has the segment mapped, as far as it has told. Changed under the segment's lock.
    mapped: AtomicBool,
}

#[derive(Default)]
struct State {
    memory: Option<Arc<Memory>>,
    prepared: bool,
    available: bool,
    shared: bool,
    removed: bool,
    maps: usize,
    users: BTreeMap<u64, Arc<User>>,
    flags: Flags,
    /// Users of other hosts, and whether they have it mapped.
    far_users: BTreeMap<u32, bool>,
}

impl State {
    fn is_mapped_by_users(&self) -> bool {
        // Relaxed: under the lock.
        self.users.values().any(|user| user.mapped.load(Ordering::Relaxed)) || self.far_users.values().any(|is_mapped| *is_mapped)
    }

    /// A user has stored through a map that interrupts. A store that comes after the removal of the
    /// segment has no effect.
    fn stored(&self, stored: &Stored) -> Result<(), Error> {
        self.memory.as_ref().map_or(Ok(()), |memory| self.flags.stored(memory, stored))
    }

    /// The same of a user of another host: the bytes are with its message.
    fn store(&self, stored: &Stored, bytes: &[u8]) -> Result<(), Error> {
        if let (Some(memory), Stored::Bytes(range)) = (&self.memory, stored) {
            let offset = usize::try_from(range.start).map_err(|_| Error::OutOfRange)?;
            memory.part(offset, bytes.len())?.copy_in(0, bytes)?;
        }
        self.stored(stored)
    }
}

/// A local segment.
pub struct LocalSegment {
    pub(crate) descriptor: Arc<Descriptor>,
    library: &'static Library,
    id: u32,
    size: usize,
    kind: SegmentKind,
    state: Mutex<State>,
    /// A user has left, or has no map any more.
    left: Condvar,
    /// Of a second owner: its maps.
    mapped: Mapped,
    events: Events<LocalEvent>,
    listener: OnceLock<Arc<Listener>>,
    /// The object that users of other hosts connect to.
    export: OnceLock<ExportId>,
    me: Weak<Self>,
    /// The connection to the process that owns it, if it is another one.
    owner: Option<Peer>,
}

impl Object for LocalSegment {
    const KIND: u8 = 2;
}

impl LocalSegment {
    /// Creates a segment and gives its handle.
    ///
    /// # Errors
    /// [`Error::SegmentIdUsed`]; [`Error::SizeAlignment`] for no bytes; [`Error::NoSpace`].
    pub fn create(
        library: &'static Library,
        descriptor: u64,
        id: u32,
        size: usize,
        kind: SegmentKind,
        callback: impl FnOnce(u64) -> Option<LocalCallback>,
    ) -> Result<u64, Error> {
        let descriptor = library.get::<Descriptor>(descriptor)?;
        if size == 0 || isize::try_from(size).is_err() {
            return Err(Error::SizeAlignment);
        }
        let memory = if kind.empty { None } else { Some(Arc::new(Memory::create(size)?)) };
        library.insert(|handle| {
            let events = Events::new(callback(handle))?;
            let state = Mutex::new(State { memory, ..State::default() });
            let make = |id| {
                Arc::new_cyclic(|me: &Weak<Self>| Self {
                    descriptor: Arc::clone(&descriptor),
                    library,
                    id,
                    size,
                    kind,
                    state,
                    left: Condvar::new(),
                    mapped: Mapped::default(),
                    events,
                    listener: OnceLock::new(),
                    export: OnceLock::new(),
                    me: me.clone(),
                    owner: None,
                })
            };
            // Until the chosen id has its name, no other thread chooses.
            static CHOOSING: Mutex<()> = Mutex::new(());
            let chooses = kind.auto_id && !kind.private;
            let _one = chooses.then(|| CHOOSING.lock().unwrap_or_else(PoisonError::into_inner));
            let segment = if chooses {
                // From a place of this process's own; the name decides.
                let first = std::process::id().wrapping_mul(0x9E37_79B1) | 0x8000_0000;
                let mut candidates = (0..1 << 16).map(|n: u32| first.wrapping_add(n.wrapping_mul(0x101)) | 0x8000_0000);
                let id = candidates.find(|id| call_is_free(library, *id)).ok_or(Error::SegmentIdUsed)?;
                make(id)
            } else {
                make(id)
            };
            if !kind.private {
                let owner: Weak<dyn Owner> = segment.me.clone();
                let name = segment_name(library.nodes.own, segment.id);
                let listener = Listener::open(&name, owner, &library.service, &library.nodes, Error::SegmentIdUsed);
                let listener = listener.inspect_err(|_| segment.events.close())?;
                let _ = segment.listener.set(listener);
            }
            segment.descriptor.hold();
            Ok(segment)
        })
    }

    /// Makes this process a second owner of a segment that another process of the node shares.
    ///
    /// # Errors
    /// [`Error::NoSuchSegment`]; [`Error::Access`] if it is not shared.
    pub fn attach(library: &'static Library, descriptor: u64, id: u32) -> Result<u64, Error> {
        let descriptor = library.get::<Descriptor>(descriptor)?;
        let name = segment_name(library.nodes.own, id);
        let mut called = call(&name, Wish::Attach, &library.nodes, Deadline::after(Some(Duration::ZERO)), Error::NoSuchSegment)?;
        let memory = Memory::of_peer(called.fds.pop().ok_or(Error::InconsistentVersions)?, called.answer.size)?;
        let size = memory.size();
        library.insert(|_| {
            descriptor.hold();
            Ok(Arc::new_cyclic(|me| Self {
                descriptor: Arc::clone(&descriptor),
                library,
                id,
                size,
                kind: SegmentKind::default(),
                state: Mutex::new(State { memory: Some(Arc::new(memory)), ..State::default() }),
                left: Condvar::new(),
                mapped: Mapped::default(),
                events: Events::new(None).unwrap_or_else(|_| unreachable!("no callback, no thread")),
                listener: OnceLock::new(),
                export: OnceLock::new(),
                me: me.clone(),
                owner: Some(called.peer),
            }))
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The object that users of other hosts connect to.
    pub(crate) fn as_export(&self) -> Weak<dyn Export> {
        self.me.clone()
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Its memory.
    pub(crate) fn memory(&self) -> Result<Arc<Memory>, Error> {
        self.state().memory.clone().ok_or(Error::IllegalOperation)
    }

    /// Has stores of others to a word of it interrupt. A conditional flag is disabled.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; [`Error::OffsetAlignment`]; [`Error::IllegalOperation`] without
    /// memory, or for a second owner, which hears of no stores.
    pub(crate) fn add_flag(&self, offset: usize, is_conditional: bool, interrupt: Weak<dyn Triggered>) -> Result<(), Error> {
        if self.owner.is_some() {
            return Err(Error::IllegalOperation);
        }
        let mut state = self.state();
        let memory = state.memory.clone().ok_or(Error::IllegalOperation)?;
        let word = flags::word(&memory, offset)?;
        if is_conditional {
            word.disable();
        }
        state.flags.add(offset, is_conditional, interrupt);
        Ok(())
    }

    /// Counts a map of it.
    pub(crate) fn map_made(&self) -> Result<(), Error> {
        let mut state = self.state();
        if state.removed {
            return Err(Error::IllegalParameter);
        }
        state.maps += 1;
        drop(state);
        self.owner.iter().for_each(|owner| self.mapped.made(|is_mapped| tell_peer(owner, is_mapped)));
        Ok(())
    }

    pub(crate) fn map_gone(&self) {
        self.state().maps -= 1;
        self.owner.iter().for_each(|owner| self.mapped.gone(|is_mapped| tell_peer(owner, is_mapped)));
    }

    /// The program's own pages become the segment's memory.
    ///
    /// # Errors
    /// [`Error::IllegalOperation`] unless it is an empty segment without memory;
    /// [`Error::SizeAlignment`] for parts of pages; [`Error::OutOfRange`] for less than the
    /// segment's size; [`Error::IllegalAddress`] for what is no private memory of the program.
    ///
    /// # Safety
    /// No Rust reference reaches into the pages, and no other thread writes them during the call.
    pub unsafe fn register(&self, address: usize, size: usize) -> Result<(), Error> {
        let page = rustix::param::page_size();
        if address == 0 {
            return Err(Error::IllegalAddress);
        }
        if !address.is_multiple_of(page) {
            return Err(Error::OffsetAlignment);
        }
        let mut state = self.state();
        if !self.kind.empty || state.memory.is_some() || state.prepared {
            return Err(Error::IllegalOperation);
        }
        if size < self.size {
            return Err(Error::OutOfRange);
        }
        // SAFETY: the caller's promise.
        let adopted = unsafe { Adopted::new(address, size) }?;
        state.memory = Some(Arc::new(Memory::of_program(adopted)?));
        Ok(())
    }

    /// Makes it ready for an adapter.
    ///
    /// # Errors
    /// [`Error::IllegalOperation`] for an empty segment, or twice.
    pub fn prepare(&self) -> Result<(), Error> {
        let mut state = self.state();
        if self.owner.is_some() || state.memory.is_none() || state.prepared {
            return Err(Error::IllegalOperation);
        }
        state.prepared = true;
        Ok(())
    }

    /// Lets others connect.
    ///
    /// # Errors
    /// [`Error::SegmentNotPrepared`]; [`Error::IllegalOperation`] for a private one, or if it is
    /// available already.
    pub fn set_available(&self) -> Result<(), Error> {
        let check = |state: &State| {
            if self.kind.private || self.kind.dma_only || self.owner.is_some() || state.available || state.removed {
                return Err(Error::IllegalOperation);
            }
            if state.prepared { Ok(()) } else { Err(Error::SegmentNotPrepared) }
        };
        let memory = {
            let state = self.state();
            check(&state)?;
            state.memory.clone()
        };
        if let Some(far) = self.library.far()
            && self.export.get().is_none()
        {
            let name = Name { what: What::Segment, node: self.library.nodes.own, id: self.id, slot: 0 };
            let id = far.export(name, self.as_export(), memory)?;
            if self.export.set(id).is_err() {
                far.withdraw(id);
            }
        }
        let mut state = self.state();
        if let Err(error) = check(&state) {
            let removed = state.removed;
            drop(state);
            // By another thread, which may not have seen the export.
            if removed {
                self.library.withdraw(self.export.get().copied());
            }
            return Err(error);
        }
        state.available = true;
        Ok(())
    }

    /// Asks users of other hosts to leave, or ends their connections. Not under the state's lock.
    fn send_away(&self, force: bool) {
        if let (Some(far), Some(id)) = (self.library.far(), self.export.get()) {
            far.send_away(*id, force);
        }
    }

    /// Lets no others connect. With `notify`, those that are connected are asked to leave; with
    /// `force`, their connections end.
    ///
    /// # Errors
    /// [`Error::IllegalOperation`] if it is not available.
    pub fn set_unavailable(&self, notify: bool, force: bool) -> Result<(), Error> {
        let mut state = self.state();
        if !state.available {
            return Err(Error::IllegalOperation);
        }
        state.available = false;
        if notify && !force {
            state.users.values().for_each(|u| u.peer.say(Notice::Unavailable));
        }
        if force {
            self.end_users(&mut state);
        }
        drop(state);
        if notify || force {
            self.send_away(force);
        }
        Ok(())
    }

    fn end_users(&self, state: &mut State) {
        state.far_users.clear();
        for (token, user) in core::mem::take(&mut state.users) {
            user.peer.say(Notice::Gone);
            self.library.service.remove_peer(token, &user.peer);
        }
    }

    /// Lets other processes of this node attach to it.
    ///
    /// # Errors
    /// [`Error::IllegalOperation`] for a private one, or without memory.
    pub fn share(&self) -> Result<(), Error> {
        let mut state = self.state();
        if self.kind.private || self.owner.is_some() || state.memory.is_none() {
            return Err(Error::IllegalOperation);
        }
        state.shared = true;
        Ok(())
    }

    /// The next event.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::Cancelled`]; [`Error::IllegalOperation`] if a callback takes
    /// the events.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<LocalEvent, Error> {
        self.events.wait(timeout)
    }

    /// Removes it; connections that have not mapped it end.
    ///
    /// # Errors
    /// [`Error::Busy`] while it is mapped here, or by a user unless `force`; of users, after a
    /// short wait for those that are leaving.
    pub fn remove(library: &'static Library, handle: u64, force: bool) -> Result<(), Error> {
        let segment = library.get::<LocalSegment>(handle)?;
        // A user that left before this call has left, though the library's thread may not have
        // heard of it yet.
        let users: Vec<_> = segment.state().users.iter().map(|(token, user)| (*token, Arc::clone(user))).collect();
        users.into_iter().for_each(|(token, user)| segment.hear(token, &user));
        let deadline = Instant::now() + LEAVING;
        {
            let mut state = segment.state();
            loop {
                if state.removed {
                    return Err(Error::IllegalParameter);
                }
                let left = deadline.saturating_duration_since(Instant::now());
                let in_use = !force && state.is_mapped_by_users();
                if state.maps > 0 || (in_use && left.is_zero()) {
                    return Err(Error::Busy);
                }
                if !in_use {
                    break;
                }
                state = segment.left.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            }
            state.removed = true;
            state.available = false;
            segment.end_users(&mut state);
        }
        library.remove::<LocalSegment>(handle)?;
        if let Some(listener) = segment.listener.get() {
            listener.close();
        }
        library.withdraw(segment.export.get().copied());
        if let Some(owner) = &segment.owner {
            owner.say(Notice::Bye);
        }
        // Registered memory is the program's alone again when this returns, unless a transfer
        // still runs.
        segment.state().memory = None;
        segment.events.close();
        segment.descriptor.release();
        Ok(())
    }
}

impl LocalSegment {
    /// Hears whether a user has left. The library's thread and a thread that removes the segment
    /// may both ask: what one takes from the connection, it acts on before the other asks.
    fn hear(&self, token: u64, user: &User) {
        let mut state = self.state();
        let reason = loop {
            match user.peer.hear() {
                Heard::Nothing => return,
                Heard::Said(notice @ (Notice::Mapped | Notice::Unmapped)) => {
                    // Relaxed, here and where it is read: under the lock.
                    user.mapped.store(notice == Notice::Mapped, Ordering::Relaxed);
                    self.left.notify_all();
                }
                Heard::Stored(stored) => {
                    if state.stored(&stored).is_err() {
                        break Reason::Lost;
                    }
                }
                Heard::Said(Notice::Bye) => break Reason::Disconnect,
                Heard::Said(_) | Heard::End => break Reason::Lost,
            }
        };
        let known = state.users.remove(&token).is_some();
        self.left.notify_all();
        self.library.service.remove_peer(token, &user.peer);
        drop(state);
        if known && !user.attached {
            self.events.post((reason, user.node));
        }
    }
}

/// Whether nobody has the id yet. (Another may take it at once; then creation says so.)
fn call_is_free(library: &Library, id: u32) -> bool {
    matches!(fd_passing::connect_abstract(segment_name(library.nodes.own, id).as_bytes()), Err(MemoryError::ConnectionRefused))
}

impl Owner for LocalSegment {
    fn admit(&self, hello: Hello, caller: Peer) {
        let mut state = self.state();
        let attached = hello.wish == Wish::Attach;
        let result = match hello.wish {
            _ if state.removed || state.users.len() >= USERS_MAX => Err(Error::NotAvailable),
            Wish::Connect if !state.available => Err(Error::NotAvailable),
            Wish::Attach if !state.shared => Err(Error::Access),
            Wish::Connect | Wish::Attach => state.memory.clone().ok_or(Error::NotAvailable),
            _ => Err(Error::IllegalParameter),
        };
        let refuse = |caller: &Peer, error| {
            let _ = fd_passing::send(caller.socket.as_fd(), &Answer { result: Err(error), size: 0 }.bytes(), &[]);
        };
        let memory = match result {
            Ok(memory) => memory,
            Err(error) => return refuse(&caller, error),
        };
        let user = Arc::new(User { peer: caller, node: hello.node, attached, mapped: AtomicBool::new(false) });
        let source = Arc::new(UserSource { segment: self.me.clone(), user: Arc::clone(&user) });
        let Ok(token) = self.library.service.add_peer(&user.peer, source) else {
            return refuse(&user.peer, Error::NoSpace);
        };
        let answer = Answer { result: Ok(()), size: self.size as u64 };
        if fd_passing::send(user.peer.socket.as_fd(), &answer.bytes(), &[memory.fd()]).is_err() {
            self.library.service.remove_peer(token, &user.peer);
            return;
        }
        state.users.insert(token, user);
        drop(state);
        if !attached {
            self.events.post((Reason::Connect, hello.node));
        }
    }
}

impl Export for LocalSegment {
    fn admit(&self, user: u32, node: u32) -> Result<(), Error> {
        let mut state = self.state();
        if state.removed || !state.available || state.far_users.len() >= USERS_MAX {
            return Err(Error::NotAvailable);
        }
        state.far_users.insert(user, false);
        drop(state);
        self.events.post((Reason::Connect, node));
        Ok(())
    }

    fn hear(&self, user: u32, node: u32, said: Said<'_>) -> Handled {
        match said {
            Said::Mapped(is_mapped) => {
                if let Some(user) = self.state().far_users.get_mut(&user) {
                    *user = is_mapped;
                }
            }
            Said::Is(reason) => {
                if matches!(reason, Reason::Disconnect | Reason::Lost) {
                    self.state().far_users.remove(&user);
                }
                self.events.post((reason, node));
            }
            Said::Flag(offset) => {
                if self.state().stored(&Stored::Flag(offset)).is_err() {
                    return Handled::Nonsense;
                }
            }
            Said::Store(offset, bytes) => {
                let stored = Stored::Bytes(offset..offset.saturating_add(bytes.len() as u64));
                if self.state().store(&stored, bytes).is_err() {
                    return Handled::Nonsense;
                }
            }
            Said::Trigger | Said::Data(_) => return Handled::Nonsense,
        }
        self.left.notify_all();
        Handled::Done
    }
}

struct UserSource {
    segment: Weak<LocalSegment>,
    user: Arc<User>,
}

impl Source for UserSource {
    fn ready(&self, token: u64) {
        if let Some(segment) = self.segment.upgrade() {
            segment.hear(token, &self.user);
        }
    }
}
