// SPDX-License-Identifier: MIT OR Apache-2.0
//! RDMA between memory of this process and a segment of another host. A short transfer goes through
//! a slot of registered memory; a long one registers the memory itself, and the engine may keep
//! that for the next one.
//!
//! A read ends with its bytes. A write ends with a fence: when the owner has counted it, all bytes
//! have arrived. The last write of several is its own fence, by immediate data, if no message waits
//! that would have to be counted before it; else a message behind it is one. Of a connection that
//! breaks, transfers fail, and the engine no longer touches the memory.

use super::session::{Session, SessionId};
use crate::error::Error;
use crate::memory::Memory;
use bellwire_memory::bytes::SharedBytes;
use bellwire_via::handle::{Handle, Slab};
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, MemAttributes, MemHandle, Operation, PtagHandle, Segment, SendRequest, WorkFlags};
use core::ops::Range;
use std::collections::VecDeque;

/// Longest transfer.
pub(crate) const BYTES_MAX: usize = 1 << 26;
/// Transfers at a time.
const TRANSFERS_MAX: usize = 1 << 12;
/// Slots for short transfers, and their bytes.
const SLOTS: usize = 16;
const SLOT_BYTES: usize = 16 << 10;

/// Writes of one source that are under way at a time. Fences have credits of their own; some are
/// left to others.
pub(super) const UNDER_WAY: usize = 32;

/// Names a transfer.
pub(crate) type TransferId = Handle<Transfer>;

/// The registered memory of a transfer.
enum Lent {
    Nothing,
    Slot(usize),
    Region(u64, MemHandle),
}

/// A transfer.
pub(crate) struct Transfer {
    session: SessionId,
    lent: Lent,
    /// Requests that have not ended.
    left: u32,
    fence: u32,
    failed: bool,
}

/// All transfers of a process.
pub(crate) struct Transfers {
    all: Slab<Transfer>,
    slots: Memory,
    handle: MemHandle,
    free: Vec<usize>,
}

impl Transfers {
    pub fn new<W: Wire>(engine: &mut Engine<W>, attributes: &MemAttributes) -> Result<Self, Error> {
        let slots = Memory::create(SLOTS * SLOT_BYTES)?;
        let address = slots.part(0, slots.size())?.as_ptr().expose_provenance() as u64;
        // SAFETY: U0: shared memory, kept beside its registration in the machine, which goes with
        // its engine.
        let handle = unsafe { engine.register(address, slots.size() as u64, attributes) }?;
        Ok(Self { all: Slab::new(TRANSFERS_MAX), slots, handle, free: (0..SLOTS).collect() })
    }

    /// Whether none is under way.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn slot(&self, slot: usize, len: usize) -> Result<SharedBytes<'_>, Error> {
        self.slots.part(slot * SLOT_BYTES, len)
    }

    /// A request of a transfer has ended.
    pub fn completed(&mut self, context: u64, is_error: bool) {
        if let Some(transfer) = self.all.get_mut(TransferId::from_raw(context as u32)) {
            transfer.left = transfer.left.saturating_sub(1);
            transfer.failed |= is_error;
        }
    }

    /// The connection of these is over, and its VI has ended.
    pub fn fail(&mut self, session: SessionId) {
        for (_, transfer) in self.all.iter_mut().filter(|(_, t)| t.session == session) {
            (transfer.left, transfer.failed) = (0, true);
        }
    }

    /// Begins a transfer of `memory` to (or, if it is read, from) an offset of the segment of a
    /// connection, which a fence is to follow. The last of several may be the fence. `None`: not
    /// now.
    ///
    /// # Safety
    /// `memory` stays mapped until [`end`](Self::end) has returned a result.
    pub unsafe fn begin<W: Wire>(
        &mut self,
        engine: &mut Engine<W>,
        (id, session): (SessionId, &mut Session),
        ptag: Option<PtagHandle>,
        memory: SharedBytes<'_>,
        (offset, read, is_last): (usize, bool, bool),
    ) -> Result<Option<TransferId>, Error> {
        let granted = session.granted().map_err(|_| Error::TransferFailed)?;
        let len = memory.len();
        if len > BYTES_MAX || (offset as u64).checked_add(len as u64).is_none_or(|end| end > granted.size) {
            return Err(Error::OutOfRange);
        }
        if !session.credits.has_credit() {
            return Ok(None);
        }
        let fence = if read { session.credits.acked() } else { session.credits.sent().wrapping_add(1) };
        let is_fence = is_last && !read && !session.has_unsent();
        // Short of names, this one waits for others.
        let begun = Transfer { session: id, lent: Lent::Nothing, left: 1, fence, failed: false };
        let Some(name) = self.all.insert(begun) else { return Ok(None) };
        let lent = match self.lend(engine, ptag, memory, read) {
            Ok(lent) => lent,
            Err(error) => {
                self.all.remove(name);
                return Err(error);
            }
        };
        let (address, handle) = match lent {
            Lent::Slot(slot) => (self.slot(slot, len)?.as_ptr().expose_provenance() as u64, self.handle),
            Lent::Region(address, handle) => (address, handle),
            Lent::Nothing => return Err(Error::System),
        };
        let segments = [Segment { address, length: len as u32, handle: handle.raw() }];
        let request = SendRequest {
            operation: if read { Operation::RdmaRead } else { Operation::RdmaWrite },
            segments: &segments,
            remote_address: granted.address.wrapping_add(offset as u64),
            remote_handle: granted.handle,
            context: u64::from(name.raw()),
            flags: if is_fence { WorkFlags::IMMEDIATE } else { WorkFlags::empty() },
            ..SendRequest::default()
        };
        let is_posted = engine.post_send(session.channel.vi(), &request).is_ok();
        if let Some(transfer) = self.all.get_mut(name) {
            transfer.lent = lent;
            // The queue is full, or the connection has just broken.
            if !is_posted {
                (transfer.left, transfer.failed) = (0, true);
            }
        }
        session.posted += u32::from(is_posted);
        if is_posted && is_fence {
            session.has_said();
        } else if is_posted && !read {
            session.wants_fence = true;
        }
        Ok(Some(name))
    }

    /// Registered memory for a transfer.
    fn lend<W: Wire>(&mut self, engine: &mut Engine<W>, ptag: Option<PtagHandle>, memory: SharedBytes<'_>, read: bool) -> Result<Lent, Error> {
        let slot = if memory.len() <= SLOT_BYTES { self.free.pop() } else { None };
        let Some(slot) = slot else {
            let address = memory.as_ptr().expose_provenance() as u64;
            let attributes = MemAttributes { ptag, ..MemAttributes::default() };
            // SAFETY: U0: the caller's of `begin`; it is reached by copies alone.
            let handle = unsafe { engine.register_cached(address, memory.len() as u64, &attributes) }.map_err(|_| Error::IllegalAddress)?;
            return Ok(Lent::Region(address, handle));
        };
        if !read && let Err(error) = self.slot(slot, memory.len()).and_then(|bytes| Ok(bytes.copy_from(0, memory)?)) {
            self.free.push(slot);
            return Err(error);
        }
        Ok(Lent::Slot(slot))
    }

    /// How a transfer ended, once; `None` while it goes on.
    pub fn end<W: Wire>(
        &mut self,
        engine: &mut Engine<W>,
        sessions: &Slab<Session>,
        name: TransferId,
        memory: SharedBytes<'_>,
        read: bool,
    ) -> Option<Result<(), Error>> {
        let transfer = self.all.get(name)?;
        let session = sessions.get(transfer.session).filter(|s| s.granted().is_ok());
        let has_arrived = session.is_none_or(|s| s.has_counted(transfer.fence));
        if transfer.left > 0 || !(transfer.failed || has_arrived) {
            return None;
        }
        let mut result = if transfer.failed || session.is_none() { Err(Error::TransferFailed) } else { Ok(()) };
        match transfer.lent {
            Lent::Slot(slot) => {
                if read && result.is_ok() {
                    result = self.slot(slot, memory.len()).and_then(|bytes| Ok(memory.copy_from(0, bytes)?));
                }
                self.free.push(slot);
            }
            // While the engine uses it, it is not given back.
            Lent::Region(address, handle) => engine.release_cached(address, handle).ok()?,
            Lent::Nothing => {}
        }
        self.all.remove(name);
        Some(result)
    }
}

/// Writes of parts of one source, in their order: those that wait, and those on their way. When one
/// has failed, those behind it are not begun.
#[derive(Default)]
pub(crate) struct Writes {
    waiting: VecDeque<Range<usize>>,
    begun: VecDeque<(TransferId, Range<usize>)>,
    failed: Option<Error>,
}

impl Writes {
    /// Adds a part.
    pub fn add(&mut self, part: Range<usize>) {
        let pieces = part.clone().step_by(BYTES_MAX).map(|at| at..part.end.min(at + BYTES_MAX));
        self.waiting.extend(pieces);
    }

    /// Whether none waits or is on its way.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.begun.is_empty()
    }

    /// Whether the next to begin is the last that waits.
    pub(super) fn is_at_last(&self) -> bool {
        self.waiting.len() == 1
    }

    /// The bytes of all of them.
    pub fn bytes(&self) -> usize {
        self.waiting.iter().chain(self.begun.iter().map(|(_, part)| part)).map(|part| part.len()).sum()
    }

    /// Why one has failed, if one has since the last call.
    pub fn take_failure(&mut self) -> Option<Error> {
        self.failed.take()
    }

    /// Nothing is known of them any more.
    pub(super) fn give_up(&mut self) {
        self.begun.clear();
        self.has_failed(Error::TransferFailed);
    }

    pub(super) fn oldest<'a>(&self, source: SharedBytes<'a>) -> Option<(TransferId, SharedBytes<'a>)> {
        let (name, part) = self.begun.front()?;
        Some((*name, source.part(part.start, part.len()).ok()?))
    }

    pub(super) fn has_ended(&mut self, result: Result<(), Error>) {
        self.begun.pop_front();
        if let Err(error) = result {
            self.has_failed(error);
        }
    }

    /// The next to begin, and where it lies.
    pub(super) fn next<'a>(&mut self, source: SharedBytes<'a>) -> Option<(usize, SharedBytes<'a>)> {
        let part = self.waiting.front().filter(|_| self.begun.len() < UNDER_WAY)?;
        Some((part.start, source.part(part.start, part.len()).ok()?))
    }

    pub(super) fn has_begun(&mut self, name: TransferId) {
        self.begun.extend(self.waiting.pop_front().map(|part| (name, part)));
    }

    pub(super) fn has_failed(&mut self, error: Error) {
        self.failed.get_or_insert(error);
        self.waiting.clear();
    }
}

/// Writes of some parts of memory, in their order. When one has failed, those behind it are not
/// begun.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// The part to begin next.
    pub(super) next: usize,
    pub(super) begun: VecDeque<TransferId>,
    pub(super) failed: Option<Error>,
}

impl Flight {
    /// Whether all of so many have begun, so that whatever is sent later arrives later.
    pub fn has_left(&self, parts: usize) -> bool {
        self.failed.is_none() && self.next == parts
    }

    /// Whether one has begun.
    pub fn has_begun(&self) -> bool {
        self.next != 0
    }

    /// How all of them ended; `None` while some have not.
    pub fn end(&self, parts: usize) -> Option<Result<(), Error>> {
        let is_over = self.begun.is_empty() && (self.failed.is_some() || self.next == parts);
        is_over.then(|| self.failed.map_or(Ok(()), Err))
    }

    /// Nothing is known of them any more.
    pub(super) fn give_up(&mut self) {
        self.begun.clear();
        self.failed = Some(Error::TransferFailed);
    }
}
