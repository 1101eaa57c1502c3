// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inboxes: messages of many VIs taken by one consumer, where they lie. Extension, for layers with
//! a message format and a flow control of their own.
//!
//! A VI with an inbox has no receive descriptors. A poller of the inbox ([`Engine::take`]) gets
//! each message straight from the wire: a short one as the words of its line, a longer one, if the
//! wire can keep it, as bytes in the wire's own memory ([`Kept`]), without a copy. A message that
//! arrives while somebody else moves frames (another inbox's poll, the helper thread), or that
//! comes in pieces, waits in the inbox as a copy; so no VI stops another one. The immediate data of
//! an RDMA write is a message of four bytes, little-endian, behind its data. What happens to the
//! connection of such a VI comes the same way, in order with its messages ([`Notice`]).
//!
//! Invariants
//! - I1: messages of one VI are given in the order in which they were sent. A frame is taken from
//!   the wire only while the inbox is empty and no piece of a message waits for its rest.
//! - I2: a VI has at most `limit` messages waiting; a peer that sends more breaks the connection,
//!   as one that finds no receive descriptor does.
//! - I3: a message that is kept (W4 of the wire) stays readable while the engine that kept it has
//!   it; [`Kept`] names that engine, and each use of it here compares the name.
//!
//! Budget of a message in a line: one turn's comparisons, two look-ups (connection, VI), seven
//! words copied.

mod take;

use crate::arrive::{Source, send_arrival};
use crate::attributes::{Reliability, ViState};
use crate::cause::Cause;
use crate::engine::{Engine, EngineId};
use crate::error::Error;
use crate::event::AsyncErrorCode;
use crate::frame::{DisconnectReason, Head};
use crate::handles::InboxHandle;
use crate::handles::ViHandle;
use crate::parcel::{Inbox, InboxEnd, Notice, Parcel};
use crate::user_memory;
use crate::wire::{Frame, LinkId, Wire};
use std::collections::VecDeque;

/// Longest message that an inbox takes, bytes.
pub const INBOX_MESSAGE_BYTES_MAX: u32 = 1 << 17;
/// Frames that one look takes from a link.
const FRAMES_PER_LOOK: u32 = 16;
/// Looks at the only link in one poll.
const LOOKS: usize = 4;
/// Messages taken from a link before the others are looked at again: with many links of which few
/// have something, looking for them is what a message costs.
const LOITER: u32 = 16;
/// Buffers kept for later messages, and the longest that is.
const SPARE_BUFFERS: usize = 16;
const SPARE_BYTES_MAX: usize = 8192;

/// Words of a message in a line.
pub type LineWords = [u64; 7];

/// A message that lies in the wire's memory, where its sender may still write. To be given back to
/// [`Engine::release`]; until then its place does not go back to the sender.
#[derive(Debug)]
pub struct Kept {
    engine: EngineId,
    link: LinkId,
    mark: u32,
    at: *const u8,
    length: u32,
}

// SAFETY: names memory of the wire, which stays until it is released; a reader holds the NIC.
unsafe impl Send for Kept {}

impl Kept {
    /// First byte. Readable for [`len`](Self::len) bytes until it is released, as long as the
    /// engine lives; never to be made a slice of.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.at
    }

    /// Copies the bytes from `at` on to `to`.
    ///
    /// # Safety
    /// The engine lives and the message is not released (which would have used it up);
    /// `at + to.len()` is at most [`len`](Self::len).
    #[inline]
    pub unsafe fn read(&self, at: usize, to: &mut [u8]) {
        // SAFETY: the caller's; the sender may be writing, which the copy allows.
        unsafe { user_memory::copy(to.as_mut_ptr(), self.at.add(at), to.len()) };
    }

    /// Bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// The outcome of [`Engine::take_line`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked<R> {
    /// A message, and what was made of it.
    Took(R),
    /// Nothing is there; a turn was made.
    Nothing,
    /// Nothing is done, not even a turn: [`Engine::take_otherwise`] knows more.
    Otherwise,
}

/// The outcome of [`Engine::take`], with the context of the VI.
#[derive(Debug)]
pub enum Taken {
    /// A message of so many bytes, in the caller's words.
    Line(u64, u32),
    /// A message in the wire's memory.
    Kept(u64, Kept),
    /// A message that waited. The buffer may be given back by [`Engine::recycle`].
    Waited(u64, Vec<u8>),
    /// Something happened to the VI.
    Notice(u64, ViHandle, Notice),
}

#[cold]
#[inline(never)]
fn kept_elsewhere() -> ! {
    panic!("the message was kept by another engine")
}

impl<W: Wire> Engine<W> {
    /// An inbox.
    pub fn create_inbox(&mut self) -> Result<InboxHandle, Error> {
        self.inboxes.insert(Inbox::with_room(SPARE_BUFFERS)).ok_or(Error::Resource)
    }

    /// Destroys an inbox that no VI uses.
    pub fn destroy_inbox(&mut self, inbox: InboxHandle) -> Result<(), Error> {
        if self.inboxes.get(inbox).ok_or(Error::InvalidParameter)?.users != 0 {
            return Err(Error::Resource);
        }
        self.inboxes.remove(inbox);
        self.completions += 1;
        Ok(())
    }

    /// Has the waiters for this NIC's inboxes look again, as if something had come.
    pub fn rouse(&mut self) {
        self.completions += 1;
    }

    /// Has the messages of a VI go to an inbox, at most `limit` waiting there at a time, each given
    /// with `context`. For an idle VI without receive descriptors of its own, with Reliable
    /// Delivery and no RNR wait; or, to move it, for one that has an inbox already: its waiting
    /// messages move with it.
    pub fn set_inbox(&mut self, vi: ViHandle, inbox: InboxHandle, limit: u32, context: u64) -> Result<(), Error> {
        let v = self.vis.get_mut(vi).ok_or(Error::InvalidParameter)?;
        if self.inboxes.get(inbox).is_none() {
            return Err(Error::InvalidParameter);
        }
        let Some(end) = &mut v.inbox else {
            let plain = v.state == ViState::Idle && v.receive.works.is_empty() && v.srq.is_none() && !v.attributes.rnr_wait;
            if !plain || v.attributes.reliability != Reliability::ReliableDelivery {
                return Err(Error::InvalidState);
            }
            v.inbox = Some(Box::new(InboxEnd { inbox, context, limit, waiting: 0, partial: Vec::new(), total: 0 }));
            v.update_paths();
            self.inboxes.get_mut(inbox).ok_or(Error::InvalidParameter)?.users += 1;
            return Ok(());
        };
        let old = core::mem::replace(&mut end.inbox, inbox);
        (end.context, end.limit) = (context, limit);
        if old != inbox {
            let mut moved = VecDeque::new();
            if let Some(from) = self.inboxes.get_mut(old) {
                from.users -= 1;
                let (of_vi, rest) = core::mem::take(&mut from.waiting).into_iter().partition(|p| p.vi() == vi);
                (moved, from.waiting) = (of_vi, rest);
            }
            if let Some(to) = self.inboxes.get_mut(inbox) {
                to.users += 1;
                to.waiting.extend(moved);
            }
            self.completions += 1;
        }
        Ok(())
    }

    /// A message that was kept is no longer read.
    ///
    /// # Panics
    /// Another engine has kept it.
    #[inline]
    #[allow(clippy::needless_pass_by_value, reason = "it is used up")]
    pub fn release(&mut self, kept: Kept) {
        self.check_kept(&kept);
        self.wire.release(kept.link, kept.mark);
    }

    /// I3.
    ///
    /// # Panics
    /// Another engine has kept the message.
    #[inline(always)]
    pub(crate) fn check_kept(&self, kept: &Kept) {
        if kept.engine != self.id {
            kept_elsewhere();
        }
    }

    /// Gives a buffer back for later messages.
    pub fn recycle(&mut self, inbox: InboxHandle, mut buffer: Vec<u8>) {
        if let Some(i) = self.inboxes.get_mut(inbox)
            && i.spare.len() < SPARE_BUFFERS
            && buffer.capacity() <= SPARE_BYTES_MAX
        {
            buffer.clear();
            i.spare.push(buffer);
        }
    }

    /// A send for a VI with an inbox that was not taken from the wire: it waits, as a copy.
    pub(crate) fn deliver_to_inbox(&mut self, index: usize, head: Head, frame: &Frame) {
        let Some(a) = send_arrival(head, frame) else { return self.protocol_error(index) };
        let Some(handle) = self.vis.handle_at(index) else { return };
        let Some(vi) = self.vis.at(index) else { return };
        let Some(end) = &mut vi.inbox else { return };
        let Source::Here(from) = a.from else { return };
        let inbox = end.inbox;
        let Some(i) = self.inboxes.get_mut(inbox) else { return };
        let fits = a.total <= INBOX_MESSAGE_BYTES_MAX && a.offset as usize == end.partial.len() && (a.offset == 0 || a.total == end.total);
        if !fits || a.immediate.is_some() {
            return self.protocol_error(index);
        }
        if a.offset == 0 && end.waiting >= end.limit {
            return self.break_connection(index, Some(AsyncErrorCode::ReceiveQueueEmpty), Cause::Here(DisconnectReason::ReceiveQueueEmpty));
        }
        if a.offset == 0 {
            end.partial = i.spare.pop().unwrap_or_default();
            end.partial.reserve_exact(a.total as usize);
            end.total = a.total;
        }
        let (at, n) = (a.offset as usize, a.length as usize);
        end.partial.resize(at + n, 0);
        // SAFETY: `n` bytes are there, just made; `from` is readable for as many (send_arrival),
        // and may be written by a peer: the copy allows it.
        unsafe { user_memory::copy(end.partial.as_mut_ptr().add(at), from, n) };
        if a.last {
            let data = core::mem::take(&mut end.partial);
            end.waiting += 1;
            vi.message = vi.message.wrapping_add(1);
            vi.counters.received += 1;
            vi.counters.received_bytes += u64::from(a.total);
            i.waiting.push_back(Parcel::Message(handle, data));
            self.completions += 1;
        }
    }

    /// The data of an RDMA write is in memory: its immediate data is a message of four bytes.
    pub(crate) fn deliver_immediate_to_inbox(&mut self, index: usize, immediate: u32) {
        let Some(handle) = self.vis.handle_at(index) else { return };
        let Some(vi) = self.vis.at(index) else { return };
        let Some(end) = &mut vi.inbox else { return };
        let Some(i) = self.inboxes.get_mut(end.inbox) else { return };
        if !end.partial.is_empty() {
            return self.protocol_error(index);
        }
        if end.waiting >= end.limit {
            return self.break_connection(index, Some(AsyncErrorCode::ReceiveQueueEmpty), Cause::Here(DisconnectReason::ReceiveQueueEmpty));
        }
        let mut data = i.spare.pop().unwrap_or_default();
        data.extend_from_slice(&immediate.to_le_bytes());
        end.waiting += 1;
        vi.message = vi.message.wrapping_add(1);
        vi.counters.received += 1;
        vi.counters.received_bytes += size_of::<u32>() as u64;
        i.waiting.push_back(Parcel::Message(handle, data));
        self.completions += 1;
    }

    /// Something happened to the connection of a VI, which may have an inbox.
    pub(crate) fn notice(&mut self, vi: ViHandle, notice: Notice) {
        let Some(end) = self.vis.get_mut(vi).and_then(|v| v.inbox.as_mut()) else { return };
        end.partial.clear();
        if let Some(i) = self.inboxes.get_mut(end.inbox) {
            i.waiting.push_back(Parcel::Notice(vi, notice));
            self.completions += 1;
        }
    }

    /// Gives a notice once more, before all that waits: to be called for a VI that has been moved
    /// to the inbox of whom it concerns.
    pub fn notice_again(&mut self, vi: ViHandle, notice: Notice) {
        let inbox = self.vis.get(vi).and_then(|v| v.inbox.as_ref()).map(|end| end.inbox);
        if let Some(i) = inbox.and_then(|inbox| self.inboxes.get_mut(inbox)) {
            i.waiting.push_front(Parcel::Notice(vi, notice));
            self.completions += 1;
        }
    }

    /// A VI is destroyed: its messages and notices that wait are dropped.
    pub(crate) fn leave_inbox(&mut self, vi: ViHandle) {
        let Some(end) = self.vis.get_mut(vi).and_then(|v| v.inbox.take()) else { return };
        if let Some(i) = self.inboxes.get_mut(end.inbox) {
            i.users -= 1;
            i.waiting.retain(|p| p.vi() != vi);
        }
    }
}
