// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sending side of one connection: a VI whose messages come by an inbox at the other end.
//!
//! The engine takes a message by copy, at once, and may take only the beginning of a long one.
//! Nothing else may leave on the VI before the rest has. So a channel keeps a copy of that rest and
//! sends it before anything else.
//!
//! Invariants
//! - W1: a message of which a part has left leaves whole, before any other message of its channel.
//! - W2: while there is a rest, [`Channel::put`] and the layers' own short ways send nothing: they
//!   ask [`Channel::is_ready`] first.
//! - W3: [`Put::Kept`] obliges the layer to call [`Channel::push`] again: it lists the channel in
//!   [`Unsent`], where each of its looks begins.

use bellwire_memory::bytes;
use bellwire_via::frame::INLINE_BYTES_MAX;
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, Pieces, ViHandle};

/// How far a message came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// All of it has left.
    Left,
    /// A part has left; the channel keeps the rest and sends it before anything else.
    Kept,
    /// Nothing of it has left, and nothing has changed.
    Stuck,
    /// The connection is broken. The notice of it is in the inbox.
    Broken,
}

impl Put {
    /// Whether the message is the channel's business from now on.
    #[inline]
    pub fn has_begun(self) -> bool {
        matches!(self, Self::Left | Self::Kept)
    }
}

/// A message of which a part has left.
#[derive(Debug)]
struct Rest {
    bytes: Vec<u8>,
    left: usize,
}

/// The sending side of a connection.
#[derive(Debug)]
pub struct Channel {
    vi: ViHandle,
    is_open: bool,
    /// Open, and without a rest.
    is_ready: bool,
    is_unsent: bool,
    /// Bytes that the wire has taken and may keep until it is flushed.
    queued: usize,
    rest: Option<Box<Rest>>,
}

impl Default for Channel {
    fn default() -> Self {
        Self::new(ViHandle::from_raw(0))
    }
}

impl Channel {
    /// A channel on a VI that is not connected yet.
    pub fn new(vi: ViHandle) -> Self {
        Self { vi, is_open: false, is_ready: false, is_unsent: false, queued: 0, rest: None }
    }

    /// A channel on a connected VI.
    pub fn opened(vi: ViHandle) -> Self {
        let mut channel = Self::new(vi);
        channel.open();
        channel
    }

    /// The VI.
    #[inline(always)]
    pub fn vi(&self) -> ViHandle {
        self.vi
    }

    /// Moves a channel that has sent nothing to a VI.
    pub fn set_vi(&mut self, vi: ViHandle) {
        self.vi = vi;
    }

    /// The VI is connected.
    pub fn open(&mut self) {
        self.is_open = true;
        self.is_ready = self.rest.is_none();
    }

    /// The connection is over: nothing leaves any more. Returns the VI, which the caller ends.
    pub fn close(&mut self) -> ViHandle {
        (self.is_open, self.is_ready, self.queued, self.rest) = (false, false, 0, None);
        core::mem::replace(&mut self.vi, ViHandle::from_raw(0))
    }

    /// Whether the connection is up.
    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether a message may leave: the connection is up, and no other message has left in part.
    #[inline(always)]
    pub fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Whether a message has left in part.
    #[inline(always)]
    pub fn has_rest(&self) -> bool {
        self.rest.is_some()
    }

    /// Whether the channel is listed in its layer's [`Unsent`].
    #[inline(always)]
    pub fn is_unsent(&self) -> bool {
        self.is_unsent
    }

    /// Bytes of long messages that may wait on this side for [`flush`](Self::flush).
    #[inline(always)]
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Sends a message: `head`, then `body`. A long one may stay on this side until
    /// [`flush`](Self::flush) or the engine's next turn: several then leave by one system call.
    ///
    /// # Safety
    /// `body` is readable for its length (U2 of the engine).
    #[inline]
    pub unsafe fn put<W: Wire>(&mut self, engine: &mut Engine<W>, head: &[u8], body: (*const u8, usize)) -> Put {
        if !self.is_ready {
            return Put::Stuck;
        }
        let total = head.len() + body.1;
        if total > INLINE_BYTES_MAX {
            // SAFETY: the caller's.
            return unsafe { self.put_long(engine, head, body) };
        }
        if body.1 == 0 {
            // SAFETY: U2: `head` is borrowed throughout the call.
            return unsafe { self.put_line(engine, head.as_ptr(), total) };
        }
        let mut line = [0u8; INLINE_BYTES_MAX];
        // SAFETY: the caller's; the line has room for both.
        unsafe {
            bytes::copy_small(line.as_mut_ptr(), head.as_ptr(), head.len());
            bytes::copy_small(line.as_mut_ptr().add(head.len()), body.0, body.1);
        }
        // SAFETY: U2: the line outlives the call.
        unsafe { self.put_line(engine, line.as_ptr(), total) }
    }

    /// # Safety
    /// U2 for `length` bytes at `line`.
    #[inline(always)]
    unsafe fn put_line<W: Wire>(&mut self, engine: &mut Engine<W>, line: *const u8, length: usize) -> Put {
        // SAFETY: the caller's.
        match unsafe { engine.send_line(self.vi, line, length) } {
            Ok(true) => Put::Left,
            Ok(false) => Put::Stuck,
            Err(_) => Put::Broken,
        }
    }

    /// # Safety
    /// As for [`put`](Self::put).
    unsafe fn put_long<W: Wire>(&mut self, engine: &mut Engine<W>, head: &[u8], body: (*const u8, usize)) -> Put {
        let total = head.len() + body.1;
        let pieces = Pieces { head: (head.as_ptr(), head.len()), body };
        // SAFETY: U2: `head` is borrowed throughout the call; `body` is the caller's.
        let left = match unsafe { engine.queue_copied(self.vi, &pieces, 0) } {
            Ok(0) => return Put::Stuck,
            Ok(left) => left,
            Err(_) => return Put::Broken,
        };
        self.queued += left;
        if left == total {
            return Put::Left;
        }
        let mut bytes = vec![0; total];
        // SAFETY: the caller's; the vector has room for both.
        unsafe {
            bytes::copy(bytes.as_mut_ptr(), head.as_ptr(), head.len());
            bytes::copy(bytes.as_mut_ptr().add(head.len()), body.0, body.1);
        }
        self.rest = Some(Box::new(Rest { bytes, left }));
        self.is_ready = false;
        Put::Kept
    }

    /// Sends the rest of a message, if there is one. `false`: some of it is still here, or the
    /// connection is not up.
    #[inline]
    pub fn push<W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        self.is_ready || self.push_rest(engine)
    }

    #[cold]
    fn push_rest<W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        let Some(rest) = self.rest.as_mut().filter(|_| self.is_open) else { return false };
        let pieces = Pieces { head: (rest.bytes.as_ptr(), rest.bytes.len()), body: (core::ptr::null(), 0) };
        // SAFETY: U2: the vector outlives the call.
        let Ok(left) = (unsafe { engine.queue_copied(self.vi, &pieces, rest.left) }) else { return false };
        self.queued += left - rest.left;
        rest.left = left;
        if left < rest.bytes.len() {
            return false;
        }
        self.rest = None;
        self.is_ready = true;
        true
    }

    /// Lets long messages leave that the wire has taken and kept.
    #[inline]
    pub fn flush<W: Wire>(&mut self, engine: &mut Engine<W>) {
        if self.queued != 0 {
            self.queued = 0;
            engine.send_queued();
        }
    }

    /// The longest message, in bytes, that leaves in whole frames and is at most `limit` long. A
    /// layer that divides a long message makes parts of that length: a frame with a few bytes
    /// behind a full one costs as much as the full one, and breaks a run of equal packets.
    /// `is_begun`: other messages precede it in the same call, so that the first frame is what is
    /// left of a packet.
    pub fn part_bytes<W: Wire>(&self, engine: &Engine<W>, limit: usize, is_begun: bool) -> usize {
        let frame = engine.whole_message_bytes(self.vi);
        whole_frames(if is_begun { engine.whole_message_bytes_next(self.vi) } else { frame }, frame, limit)
    }
}

/// The longest message of at most `limit` bytes whose frames are all full: the first one takes
/// `next` bytes, the others `frame`. 0 as `next`: there is no link.
pub fn whole_frames(next: usize, frame: usize, limit: usize) -> usize {
    if next == 0 || next >= limit { limit } else { next + (limit - next) / frame * frame }
}

/// The connections of a layer that have something to send, each listed once. Each look of the layer
/// begins with them.
#[derive(Debug)]
pub struct Unsent<K>(Vec<K>);

impl<K> Default for Unsent<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Copy> Unsent<K> {
    /// Lists a connection.
    #[inline]
    pub fn mark(&mut self, channel: &mut Channel, id: K) {
        if !core::mem::replace(&mut channel.is_unsent, true) {
            self.0.push(id);
        }
    }

    /// Lists a connection that has come from another layer object, if it was listed there.
    pub fn adopt(&mut self, channel: &Channel, id: K) {
        if channel.is_unsent {
            self.0.push(id);
        }
    }

    /// Whether none is listed.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes all: each is to be [`seen`](Channel::seen) and marked again if something is left.
    #[inline]
    pub fn take(&mut self) -> Vec<K> {
        core::mem::take(&mut self.0)
    }
}

impl Channel {
    /// The channel was taken from the list.
    #[inline]
    pub fn seen(&mut self) {
        self.is_unsent = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fill_whole_frames() {
        const LIMIT: usize = 16_384;
        // Shared memory; loopback with an empty and a begun packet; Ethernet, the same; no link.
        for (next, frame, part) in
            [(LIMIT, LIMIT, LIMIT), (16_250, 16_250, 16_250), (9_000, 16_250, 9_000), (1_400, 1_400, 15_400), (500, 1_400, 15_900), (0, 1_400, LIMIT)]
        {
            assert_eq!(whole_frames(next, frame, LIMIT), part, "{next} {frame}");
        }
        assert!((1..=LIMIT).all(|frame| (LIMIT / 2 + 1..=LIMIT).contains(&whole_frames(frame, frame, LIMIT))));
    }
}
