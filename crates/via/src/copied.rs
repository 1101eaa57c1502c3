// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sending by copy, at once or not at all: for layers that have a flow control of their own and
//! cannot wait for a completion. Nothing is registered, queued or completed.
//!
//! Invariant U2: what these calls read is the caller's memory, readable throughout the call; a peer
//! may be writing it.

use crate::attributes::ViState;
use crate::engine::Engine;
use crate::error::Error;
use crate::frame::{Bulk, Head, INLINE_BYTES_MAX, Op};
use crate::handles::ViHandle;
use crate::request::SendRequest;
use crate::status::{Operation, WorkFlags};
use crate::user_memory;
use crate::vi::Vi;
use crate::wire::{Direct, RemoteAccess, Sent, Wire};
use crate::work_queue::INLINE_SEND_BYTES_MAX;
use bellwire_memory::line_queue::{HEAD_WORDS, Line};

/// Most bytes of one write by [`Engine::write_copied`]: bounds how long it takes.
pub const WRITE_COPIED_BYTES_MAX: usize = 128 * 1024;

/// Two pieces of memory, one after the other, as one message.
#[derive(Clone, Copy, Debug)]
pub struct Pieces {
    /// The first.
    pub head: (*const u8, usize),
    /// The second.
    pub body: (*const u8, usize),
}

impl Pieces {
    /// Copies bytes `at..at + n` to `to`.
    ///
    /// # Safety
    /// U2; `to` is writable for `n` bytes, which lie within the message.
    #[inline]
    unsafe fn copy(&self, at: usize, n: usize, to: *mut u8) {
        let of_head = self.head.1.saturating_sub(at).min(n);
        // SAFETY: the caller's; both parts lie within their pieces.
        unsafe {
            user_memory::copy(to, self.head.0.wrapping_add(at), of_head);
            if n > of_head {
                user_memory::copy(to.add(of_head), self.body.0.wrapping_add((at + of_head) - self.head.1), n - of_head);
            }
        }
    }
}

impl Vi {
    /// Whether a line with so many bytes after its word 0 may leave now.
    #[inline(always)]
    fn sends_lines_of(&self, length: usize) -> Result<bool, Error> {
        if self.paths.send_limit as usize <= length { Err(Error::InvalidState) } else { Ok(self.send.all_sent()) }
    }

    #[inline(always)]
    fn has_sent_line(&mut self) {
        self.next_message = self.next_message.wrapping_add(1);
        self.counters.sent += 1;
    }
}

impl<W: Wire> Engine<W> {
    /// The longest message, in bytes, that a connected VI sends in one frame: its receiver needs no
    /// copy to put it together. 0: it is not connected.
    pub fn whole_message_bytes(&self, handle: ViHandle) -> usize {
        self.vis.get(handle).filter(|vi| vi.state == ViState::Connected).map_or(0, |vi| self.wire.payload_bytes_max(vi.link))
    }

    /// The same for a message that is one of many: the rest of a packet that has been begun, so
    /// that all packets are full.
    pub fn whole_message_bytes_next(&self, handle: ViHandle) -> usize {
        self.vis.get(handle).filter(|vi| vi.state == ViState::Connected).map_or(0, |vi| self.wire.payload_bytes_next(vi.link, vi.remote_connection))
    }

    /// Sends a message of up to 56 bytes now. `Ok(false)`: it cannot leave now, nothing is done.
    ///
    /// # Errors
    /// [`Error::InvalidState`]: not connected, or not so that sends complete at once.
    ///
    /// # Safety
    /// U2 for `length` bytes at `from`.
    #[inline]
    pub unsafe fn send_line(&mut self, handle: ViHandle, from: *const u8, length: usize) -> Result<bool, Error> {
        let vi = self.vis.get_mut(handle).ok_or(Error::InvalidState)?;
        if !vi.sends_lines_of(length)? || self.connections.control_pending {
            return Ok(false);
        }
        // SAFETY: the caller's; `length` is below the limit.
        let sent = unsafe { self.wire.send_whole(vi.link, vi.paths.whole_out | (length as u64) << 8, from, length) };
        if sent == Sent::Yes {
            vi.has_sent_line();
            return Ok(true);
        }
        self.did_not_send(handle, sent)
    }

    /// As [`send_line`](Self::send_line): the first `words` of `head`, as they lie in memory, and
    /// `length` bytes after them.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// U2 for `length` bytes at `from`; `words` is at most [`HEAD_WORDS`].
    #[inline(always)]
    pub unsafe fn send_headed(&mut self, handle: ViHandle, head: &[u64; HEAD_WORDS], words: usize, from: *const u8, length: usize) -> Result<bool, Error> {
        let vi = self.vis.get_mut(handle).ok_or(Error::InvalidState)?;
        let total = 8 * words + length;
        if !vi.sends_lines_of(total)? || self.connections.control_pending {
            return Ok(false);
        }
        // SAFETY: the caller's; all of it is below the limit.
        let sent = unsafe { self.wire.send_headed(vi.link, vi.paths.whole_out | (total as u64) << 8, head, words, from, length) };
        if sent == Sent::Yes {
            vi.has_sent_line();
            return Ok(true);
        }
        self.did_not_send(handle, sent)
    }

    /// A line has not left.
    #[cold]
    fn did_not_send(&mut self, handle: ViHandle, sent: Sent) -> Result<bool, Error> {
        if sent == Sent::Broken {
            self.link_of_vi_broke(handle.index());
            return Err(Error::InvalidState);
        }
        Ok(false)
    }

    /// Sends what is left, from byte `sent` on, of a message: as much as can leave now. Returns how
    /// many bytes of it have left; nothing else may be sent on the VI before all have.
    ///
    /// # Errors
    /// [`Error::InvalidState`]: not connected, or not so that sends complete at once; [`Error::InvalidParameter`]: too long, or nothing.
    ///
    /// # Safety
    /// U2 for the pieces.
    pub unsafe fn send_copied(&mut self, handle: ViHandle, pieces: &Pieces, sent: usize) -> Result<usize, Error> {
        // SAFETY: the caller's.
        let left = unsafe { self.queue_copied(handle, pieces, sent) };
        self.wire.flush();
        left
    }

    /// Lets what [`queue_copied`](Self::queue_copied) has queued leave.
    #[inline]
    pub fn send_queued(&mut self) {
        self.wire.flush();
    }

    /// As [`send_copied`](Self::send_copied), but what is sent may stay on this side until
    /// [`send_queued`](Self::send_queued) or the next progress: several messages, of a layer that
    /// divides long ones, then leave by one system call.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn queue_copied(&mut self, handle: ViHandle, pieces: &Pieces, sent: usize) -> Result<usize, Error> {
        let total = pieces.head.1 + pieces.body.1;
        let vi = self.vis.get_mut(handle).ok_or(Error::InvalidState)?;
        if vi.state != ViState::Connected || vi.acknowledged {
            return Err(Error::InvalidState);
        }
        if total == 0 || total as u64 > vi.attributes.max_transfer_bytes || sent > total {
            return Err(Error::InvalidParameter);
        }
        if total <= INLINE_BYTES_MAX && sent == 0 {
            let mut line = [0u8; INLINE_BYTES_MAX];
            // SAFETY: the caller's; the line has room.
            unsafe { pieces.copy(0, total, line.as_mut_ptr()) };
            // SAFETY: U2: the line is ours, and `total` bytes of it are written.
            return Ok(if unsafe { self.send_line(handle, line.as_ptr(), total) }? { total } else { 0 });
        }
        if !vi.send.all_sent() || self.connections.control_pending {
            return Ok(sent);
        }
        let max = self.wire.payload_bytes_max(vi.link);
        // A message that fits one frame goes by one, though a packet that has been begun has less
        // room.
        let mut next = if total - sent > max { self.wire.payload_bytes_next(vi.link, vi.remote_connection) } else { max };
        let mut at = sent;
        while at < total {
            let n = (total - at).min(core::mem::replace(&mut next, max));
            let last = at + n == total;
            let mut line = Line::default();
            Bulk { offset: at as u32, total: total as u32, length: n as u32, ..Bulk::default() }
                .store(Head::new(Op::Send, vi.remote_connection).bulk().last(last), &mut line);
            let left = self.wire.send_with_payload(vi.link, &mut line, n, |to| {
                // SAFETY: the caller's; the wire gives `n` bytes.
                unsafe { pieces.copy(at, n, to) };
                true
            });
            match left {
                Sent::Yes => at += n,
                Sent::NoRoom | Sent::Unfilled => break,
                Sent::Broken => {
                    self.link_of_vi_broke(handle.index());
                    return Err(Error::InvalidState);
                }
            }
        }
        if at == total {
            vi.next_message = vi.next_message.wrapping_add(1);
            vi.counters.sent += 1;
            vi.counters.sent_bytes += total as u64;
        }
        Ok(at)
    }

    /// Writes `length` bytes, at most [`WRITE_COPIED_BYTES_MAX`], straight into the peer's memory,
    /// if it is mapped here and permits it and nothing is before it; `remote` is address and handle
    /// there. `false`: nothing done; an RDMA write can do it, or will say why not.
    ///
    /// # Safety
    /// U2 for `length` bytes at `from`.
    pub unsafe fn write_copied(&mut self, handle: ViHandle, from: *const u8, length: usize, remote: (u64, u32)) -> bool {
        let Some(vi) = self.vis.get_mut(handle) else { return false };
        if let Some(mark) = vi.wrote_frames
            && self.wire.is_taken(vi.link, mark)
        {
            vi.wrote_frames = None;
        }
        let first = vi.send.all_sent() && vi.wrote_frames.is_none();
        if vi.state != ViState::Connected
            || !first
            || vi.acknowledged
            || !vi.remote_write
            || vi.remote_ptag == 0
            || length > WRITE_COPIED_BYTES_MAX
            || length == 0
        {
            return false;
        }
        let bytes = length as u64;
        let wish = RemoteAccess { handle: remote.1, ptag: vi.remote_ptag, address: remote.0, length: bytes, write: true, part_offset: 0, part_length: bytes };
        let direct = self.wire.with_granted(vi.link, &wish, |to| {
            // SAFETY: the caller's; the wire gives `length` bytes.
            unsafe { user_memory::copy(to, from, length) };
        });
        if direct == Direct::Done {
            vi.counters.direct += 1;
            vi.counters.sent_bytes += bytes;
        }
        direct == Direct::Done
    }

    /// Has `access` read or change the peer's memory where it lies, if it is mapped here and
    /// permits it: `remote` is address and handle there, for `length` bytes. It is called once,
    /// with a pointer that is good for as many bytes while it runs, or not at all. `false`: nothing
    /// done; not permitted, not mapped, or not mapped yet. Messages sent before may arrive later:
    /// the caller must know that.
    pub fn with_remote_memory(&mut self, handle: ViHandle, remote: (u64, u32), length: u64, write: bool, access: impl FnOnce(*mut u8)) -> bool {
        let Some(vi) = self.vis.get_mut(handle) else { return false };
        let permitted = if write { vi.remote_write } else { vi.remote_read };
        if vi.state != ViState::Connected || !permitted || vi.remote_ptag == 0 || length == 0 {
            return false;
        }
        let wish = RemoteAccess { handle: remote.1, ptag: vi.remote_ptag, address: remote.0, length, write, part_offset: 0, part_length: length };
        let direct = self.wire.with_granted(vi.link, &wish, access);
        if direct == Direct::Done {
            vi.counters.direct += 1;
        }
        direct == Direct::Done
    }

    /// RDMA write with trailer: an RDMA write, and behind it up to [`INLINE_SEND_BYTES_MAX`] bytes
    /// that the peer receives as a message, when all of the write is in its memory. Both are
    /// posted, or neither; the write completes, the trailer only if it fails. Extension.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: not a write, or the trailer is too long or empty; and those of [`post_send`](Self::post_send).
    pub fn post_write_with_trailer(&mut self, handle: ViHandle, request: &SendRequest<'_>, trailer: &[u8]) -> Result<(), Error> {
        let vi = self.vis.get(handle).ok_or(Error::InvalidParameter)?;
        let fits = !trailer.is_empty() && trailer.len() <= INLINE_SEND_BYTES_MAX;
        if request.operation != Operation::RdmaWrite || request.flags.contains(WorkFlags::IMMEDIATE) || !fits {
            return Err(Error::InvalidParameter);
        }
        if vi.send.works.len() + 2 > crate::limits::DESCRIPTORS_PER_QUEUE_MAX {
            return Err(Error::Resource);
        }
        self.post_send(handle, request)?;
        self.post_send_inline(handle, trailer, &SendRequest { flags: WorkFlags::UNSIGNALED, context: request.context, ..SendRequest::default() })
    }
}
