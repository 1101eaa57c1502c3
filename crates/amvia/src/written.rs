// SPDX-License-Identifier: MIT OR Apache-2.0
//! v2: messages by RDMA write with immediate data, into a ring of the receiver's memory that the
//! sender manages.
//!
//! ```text
//! first message of each side, a send:   where its ring is
//! a message in the ring:                | bytes, u32 | read so far, u32 | head | payload |
//! immediate data:                       0, where in the ring | 1, read so far
//! ```
//!
//! A receive carries no data, so it is posted again when its message has been seen. If `w` requests
//! may be out each way, there may come at a time `w` requests, `w` answers, `CONTROL`, the place of
//! the ring, and `TELLS` times how far has been read.
//!
//! Invariants
//! - A1: the ring is [`Written::arena`], and `OVER` bytes behind it, where a message's words may be
//!   looked for. Peers write it at any time: it is only copied from, and a copy is what is checked.
//! - A2: the copy of a message lies at its place in the room for copies, which is as long as the
//!   ring. It stays until its write has completed (`Filling::has_left`).
//! - A3: a descriptor in `free` is not posted.

use crate::carrying::{CONTROL, Data, Slot, Taken, Target, Write, send_of, write_of};
use crate::head::{HEAD_BYTES_MAX, Head};
use crate::mapping::Shape;
use crate::probe::Off;
use crate::queues::Queues;
use crate::ring::{Draining, Filling, UNIT};
use crate::shared::Shared;
use crate::vi::{Memory, Vi};
use crate::vipl::{CONTROL_IMMEDIATE, CONTROL_RDMA_WRITE, CONTROL_SEND, Descriptor, Handle, STATUS_OP_MASK, STATUS_WRITTEN, Segment};
use bellwire_am::Error;
use bellwire_memory::bytes;
use std::sync::Arc;

/// Bytes before a message's head.
const FRAME_BYTES: usize = 8;
/// Largest messages that a ring has room for, at least: so much is free when all is read and less
/// than a quarter is not told of that the largest one fits wherever the tail is.
pub(crate) const LONGEST_MIN: usize = 4;
/// Times that it may be told how far has been read and not be heard: four quarters, and some more.
const TELLS: usize = 6;
/// Bytes behind the ring.
const OVER: usize = HEAD_BYTES_MAX.next_multiple_of(UNIT);
/// Immediate data that tells how far has been read.
const IS_READ: u32 = 1 << 31;
/// The message that says where the ring is: these words, address, bytes and handle.
const GREETING: [u64; 2] = [u64::from_le_bytes(*b"AMVIA v2"), 1];
const GREETING_BYTES: usize = 40;

/// Units of a message of so many bytes, head and payload.
#[inline]
fn units(bytes: usize) -> u64 {
    (FRAME_BYTES + bytes).div_ceil(UNIT) as u64
}

/// Both rings, once the peer has said where its own is.
struct Rings {
    address: u64,
    handle: u32,
    out: Filling,
    come: Draining,
}

/// A VI's memory for written messages.
pub(crate) struct Written {
    arena: Arc<Memory>,
    /// Units of the ring.
    size: u64,
    rings: Option<Rings>,
    free: Vec<u16>,
    /// By descriptor: where its message ends in the ring, or 0; what it reads.
    ends: Vec<u64>,
    writes: Vec<Option<Write>>,
}

impl Written {
    /// A VI with all its receives posted.
    pub(crate) fn new(shared: &Arc<Shared>, queues: &Arc<Queues>, ptag: Handle, shape: Shape) -> Result<(Vi, Self), Error> {
        let requests = shape.credits;
        let (sends, receives) = (2 * (2 * requests + CONTROL) + TELLS + 1, 2 * requests + CONTROL + TELLS + 1);
        let size = units(shape.bytes) * shape.longest.max(LONGEST_MIN) as u64;
        let ring = size as usize * UNIT;
        let arena = Arc::new(Memory::new(shared, ring + OVER, ptag, true)?);
        let vi = Vi::new(shared, queues, ptag, (sends, receives), 2 * UNIT + ring)?;
        let greeting = send_of(vi.segment(vi.room(UNIT), GREETING_BYTES));
        // SAFETY: it is not posted; the room for the peer's greeting is the library's from now on.
        unsafe { vi.post_receive::<Off>(0, greeting) };
        for receive in 1..receives {
            post_empty(&vi, receive);
        }
        let free = (0..sends as u16).rev().collect();
        Ok((vi, Self { arena, size, rings: None, free, ends: vec![0; sends], writes: (0..sends).map(|_| None).collect() }))
    }

    /// Tells the peer where the ring is, on a VI that is connected.
    pub(crate) fn greet(&mut self, vi: &mut Vi) {
        let ring = self.arena.segment(self.arena.at(0), self.size as usize * UNIT);
        let words = [GREETING[0], GREETING[1], ring.address, u64::from(ring.length), u64::from(ring.handle)];
        let at = vi.room(0);
        // SAFETY: the first unit of the room is the greeting's.
        unsafe { bytes::copy(at, words.as_ptr().cast(), GREETING_BYTES) };
        let made = send_of(vi.segment(at, GREETING_BYTES));
        self.post_next(vi, made, 0, None);
    }

    /// Posts by a free descriptor, of which callers know that there is one.
    #[inline]
    fn post_next(&mut self, vi: &mut Vi, made: Descriptor, end: u64, write: Option<Write>) {
        let Some(at) = self.free.pop().map(usize::from) else { return };
        (self.ends[at], self.writes[at]) = (end, write);
        // SAFETY: A3; A2, or L3 of `carrying.rs`, says that what it names stays.
        unsafe { vi.post_send::<Off>(at, made) };
    }

    /// The next thing that has come.
    #[inline]
    pub(crate) fn take(&mut self, vi: &mut Vi) -> Taken {
        let (receive, done) = match vi.take_receive::<Off>() {
            None => return Taken::Nothing,
            Some(None) => return Taken::Ended,
            Some(Some(taken)) => taken,
        };
        post_empty(vi, receive);
        let Some(rings) = &mut self.rings else { return if self.greeted(vi, &done) { Taken::Moved } else { Taken::Wrong } };
        if done.status & STATUS_OP_MASK != STATUS_WRITTEN {
            return Taken::Wrong;
        }
        if done.immediate & IS_READ != 0 {
            return if rings.out.learn(done.immediate & !IS_READ) { Taken::Moved } else { Taken::Wrong };
        }
        let at = u64::from(done.immediate);
        if at >= self.size {
            return Taken::Wrong;
        }
        let from = self.arena.at(at as usize * UNIT);
        let mut frame = [0_u32; 2];
        // SAFETY: A1.
        unsafe { bytes::copy(frame.as_mut_ptr().cast(), from, FRAME_BYTES) };
        let [length, read] = frame;
        if !rings.out.learn(read) {
            return Taken::Wrong;
        }
        match rings.come.arrive(at, units(length as usize)) {
            Some(receive) => Taken::Message { receive, at: from.wrapping_add(FRAME_BYTES), length: length as usize },
            None => Taken::Wrong,
        }
    }

    /// The peer has said where its ring is. `false`: that cannot be.
    #[cold]
    fn greeted(&mut self, vi: &Vi, done: &Descriptor) -> bool {
        let mut words = [0_u64; GREETING_BYTES / 8];
        // SAFETY: the second unit of the room is the peer's greeting's, and has come.
        unsafe { bytes::copy(words.as_mut_ptr().cast(), vi.room(UNIT), GREETING_BYTES) };
        let [magic, version, address, length, handle] = words;
        let least = LONGEST_MIN as u64 * units(crate::head::MESSAGE_BYTES_MAX);
        let is_right = done.status & STATUS_OP_MASK != STATUS_WRITTEN
            && done.length as usize == GREETING_BYTES
            && [magic, version] == GREETING
            && length / UNIT as u64 >= least
            && length <= u64::from(u32::MAX)
            && address.checked_add(length).is_some();
        let Ok(handle) = u32::try_from(handle) else { return false };
        // Both sides use what both have.
        let size = self.size.min(length / UNIT as u64);
        if is_right {
            self.rings = Some(Rings { address, handle, out: Filling::new(size), come: Draining::new(size) });
        }
        is_right
    }

    /// A message is no longer read.
    #[inline]
    pub(crate) fn recycle(&mut self, vi: &mut Vi, receive: usize) {
        if let Some(rings) = &mut self.rings {
            rings.come.read(receive);
        }
        self.tell(vi);
    }

    /// Tells the peer how far has been read, if no message has for long.
    #[inline]
    fn tell(&mut self, vi: &mut Vi) {
        let Some(rings) = &mut self.rings else { return };
        if !rings.come.has_to_tell() || self.free.is_empty() {
            return;
        }
        let immediate = IS_READ | rings.come.tell();
        let remote = Segment { address: rings.address, handle: rings.handle, length: 0 };
        let made = Descriptor {
            segment_count: 1,
            control: CONTROL_RDMA_WRITE | CONTROL_IMMEDIATE,
            immediate,
            segments: [remote, Segment::default()],
            ..Descriptor::default()
        };
        self.post_next(vi, made, 0, None);
    }

    /// The memory that keeps messages which have come.
    pub(crate) fn keeper(&self) -> &Arc<Memory> {
        &self.arena
    }

    /// Whether a message of so many bytes can leave, and a write before it.
    #[inline]
    pub(crate) fn room(&self, bytes: usize) -> Slot {
        match &self.rings {
            Some(rings) if rings.out.has_room(units(bytes)) && self.free.len() >= 2 => Slot::Free(0),
            Some(_) => Slot::Posted,
            None => Slot::None,
        }
    }

    /// Posts a message, for which there is room.
    ///
    /// # Safety
    /// `payload` is readable.
    #[inline]
    pub(crate) unsafe fn post(&mut self, vi: &mut Vi, head: &Head, payload: Data) {
        let start = head.start();
        let length = start + payload.1;
        let Some(rings) = &mut self.rings else { return };
        let Some((place, end)) = rings.out.take(units(length)) else {
            debug_assert!(false, "there is room, as callers have found");
            return;
        };
        let (at, words) = (vi.room(2 * UNIT + place as usize * UNIT), head.to_words());
        let frame = [length as u32, rings.come.tell()];
        // SAFETY: A2: so many units at this place are free.
        unsafe { bytes::copy(at, frame.as_ptr().cast(), FRAME_BYTES) };
        // SAFETY: A2: so many units at this place are free.
        unsafe { bytes::copy(at.wrapping_add(FRAME_BYTES), words.as_ptr().cast(), start) };
        if payload.1 > 0 {
            // SAFETY: A2, and the caller's promise; the copy allows that others write the payload.
            unsafe { bytes::copy(at.wrapping_add(FRAME_BYTES + start), payload.0, payload.1) };
        }
        let remote = Segment { address: rings.address + place * UNIT as u64, handle: rings.handle, length: 0 };
        let made = Descriptor {
            segment_count: 2,
            control: CONTROL_RDMA_WRITE | CONTROL_IMMEDIATE,
            immediate: place as u32,
            length: (FRAME_BYTES + length) as u32,
            segments: [remote, vi.segment(at, FRAME_BYTES + length)],
            ..Descriptor::default()
        };
        self.post_next(vi, made, end, None);
    }

    /// Posts a write, to be followed by a message.
    ///
    /// # Safety
    /// L3 of `carrying.rs`.
    pub(crate) unsafe fn post_write(&mut self, vi: &mut Vi, from: (u64, u32), to: Target, write: Write) {
        self.post_next(vi, write_of(from, to), 0, Some(write));
    }

    /// Send descriptor `at` has completed.
    #[inline]
    pub(crate) fn retired(&mut self, vi: &mut Vi, at: usize) -> Option<Write> {
        let end = core::mem::take(self.ends.get_mut(at)?);
        self.free.push(at as u16);
        if let Some(rings) = &mut self.rings {
            rings.out.has_left(end);
        }
        self.tell(vi);
        self.writes[at].take()
    }

    /// The writes that have not completed.
    pub(crate) fn writes(&mut self) -> impl Iterator<Item = Write> + '_ {
        self.writes.iter_mut().filter_map(Option::take)
    }
}

/// Posts a receive that takes immediate data alone.
#[inline]
fn post_empty(vi: &Vi, receive: usize) {
    let made = Descriptor { control: CONTROL_SEND, ..Descriptor::default() };
    // SAFETY: it is not posted, and names nothing.
    unsafe { vi.post_receive::<Off>(receive, made) };
}
