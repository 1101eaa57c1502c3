// SPDX-License-Identifier: MIT OR Apache-2.0
//! A ring of packets between two processes that do not trust each other: one writer, one reader,
//! records of any length, each contiguous.
//!
//! ```text
//!   0                     head               tail               capacity
//!   +----------------------+------------------+-----------------------+
//!   | free                 | records          | free                  |
//!   +----------------------+------------------+-----------------------+
//!   record: | length (4) | tag (4) | bytes .. | up to a multiple of 16 |
//! ```
//!
//! The writer publishes the tail, the reader the head; each keeps its own index to itself and
//! checks the other's. A record that does not fit before the end of the ring is written at its
//! start, behind a record of length [`PAD`] that fills the rest. A writer that finds the ring empty
//! goes back to the start, every [`HOME_BYTES`]: so a ring touches about as many bytes as it has
//! ever held at once, and a calm one touches one page. It skips the rest of the ring without a
//! record, and sets the lowest bit of the tail ([`HOME`]) until the reader has followed: the whole
//! ring is free at once. Pages that a longer burst has touched are given back by
//! [`Writer::release`], while the ring is empty.
//!
//! Invariants
//! - P1: a record is written before the tail that covers it is published (release); a reader that
//!   has read that tail (acquire) sees the record.
//! - P2: bytes are written again only after the reader has published (release) a head beyond them
//!   and the writer has read it (acquire).
//! - P3: indices are multiples of 16 and run freely in `u32`; `tail - head <= capacity`. A peer's
//!   index that breaks this, or a record that leaves what is published, is a lie: [`Corrupt`].
//!   Bytes that the writer skips on its way home do not count.
//! - P5: a tail with [`HOME`] means: a reader whose head is before the ring's start (the last
//!   multiple of the capacity before the tail) has taken all there was, and goes on at that start.
//!   The writer does not reach the end of the ring before it has seen a head behind that start.
//! - P6: while the reader has taken everything, all bytes of the ring are the writer's (P2): it may
//!   take their pages away.
//! - P4: nothing is decided by bytes of the ring but by a copy of them, which is checked.

use crate::atomic::{AtomicU32, Ordering};
use crate::bytes;
pub use crate::line_queue::Corrupt;
use crate::region::RemoteRegion;
use std::sync::Arc;

/// Records begin at multiples of this.
pub const UNIT: u32 = 16;
/// Bytes in front of a record's own.
pub const RECORD_HEADER: u32 = 8;
/// The length of a record that fills the end of the ring.
pub const PAD: u32 = u32::MAX;
/// A writer looks each time that it crosses a multiple of this whether the ring is empty, and then
/// goes back to its start. In the models that is before its end.
pub const HOME_BYTES: u32 = if cfg!(loom) { 64 } else { 1024 };
/// A ring that never held more than some short records at once has touched no more than this.
pub const CALM_BYTES: u32 = 3 * HOME_BYTES;
/// In a published tail: the records before it begin at the start of the ring.
pub const HOME: u32 = 1;

// Orderings are functions so that the negative models can weaken one at a time (tests/run_loom.sh).
#[inline(always)]
fn publish_tail() -> Ordering {
    crate::weakened::ordering("ring_tail_publish", Ordering::Release)
}
#[inline(always)]
fn read_tail() -> Ordering {
    crate::weakened::ordering("ring_tail_read", Ordering::Acquire)
}
#[inline(always)]
fn publish_head() -> Ordering {
    crate::weakened::ordering("ring_head_publish", Ordering::Release)
}
#[inline(always)]
fn read_head() -> Ordering {
    crate::weakened::ordering("ring_head_read", Ordering::Acquire)
}

/// Where a ring lives: mapped memory in use, model cells under loom.
pub trait Storage {
    /// Reads the published tail (acquire).
    fn read_tail(&self) -> u32;
    /// Publishes a tail (release).
    fn publish_tail(&self, tail: u32);
    /// Reads the published head (acquire).
    fn read_head(&self) -> u32;
    /// Publishes a head (release).
    fn publish_head(&self, head: u32);
    /// Writes bytes at an offset; they fit before the end.
    fn write(&self, at: u32, from: &[u8]);
    /// Copies `length` bytes from memory that others may write meanwhile; they fit before the end.
    ///
    /// # Safety
    /// `from` is readable for `length` bytes.
    unsafe fn write_from(&self, at: u32, from: *const u8, length: usize);
    /// Copies bytes out.
    fn read(&self, at: u32, to: &mut [u8]);
    /// Gives back the memory of the first bytes, except for the first page: they may read as zeros.
    fn release(&self, _bytes: u32) {}
}

/// A record at the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The writer's word.
    pub tag: u32,
    /// Where the bytes begin.
    pub at: u32,
    /// How many there are.
    pub length: u32,
}

/// The bytes that a record of `length` bytes takes.
#[inline]
pub const fn room_of(length: u32) -> u32 {
    (RECORD_HEADER + length).next_multiple_of(UNIT)
}

/// The writing end.
#[derive(Debug)]
pub struct Writer<S> {
    storage: S,
    capacity: u32,
    tail: u32,
    head_seen: u32,
    /// The index of the ring's start, to which the reader has not followed yet (P5).
    home: Option<u32>,
    /// Bytes from the start of the ring that have been written since the last release.
    touched: u32,
}

impl<S: Storage> Writer<S> {
    /// A writer that goes on at `tail`, 0 for a new ring. `capacity` is a power of two; a record
    /// takes at most half of it.
    pub fn new(storage: S, capacity: u32, tail: u32) -> Self {
        let (tail, is_home) = (tail & !HOME, tail & HOME != 0);
        assert!(capacity.is_power_of_two() && capacity >= 4 * UNIT && tail.is_multiple_of(UNIT));
        let home = is_home.then_some(tail & !(capacity - 1));
        // As if it were full: the first push looks.
        Self { storage, capacity, tail, head_seen: home.unwrap_or(tail).wrapping_sub(capacity), home, touched: if tail == 0 { 0 } else { capacity } }
    }

    /// Where the next writer goes on: the tail as it is published.
    pub fn tail(&self) -> u32 {
        self.tail | if self.home.is_some() { HOME } else { 0 }
    }

    /// Whether the reader has taken everything.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn is_empty(&mut self) -> Result<bool, Corrupt> {
        self.refresh()?;
        Ok(self.head_seen == self.tail || self.home == Some(self.tail))
    }

    /// Whether the ring has held more at once than a calm one does, since the last release.
    #[inline]
    pub fn has_spare(&self) -> bool {
        self.touched > CALM_BYTES
    }

    /// Gives back the pages of an empty ring, but for the first, where it goes on. `false`: it is
    /// not empty.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn release(&mut self) -> Result<bool, Corrupt> {
        if !self.is_empty()? {
            return Ok(false);
        }
        let offset = self.tail & (self.capacity - 1);
        if offset >= HOME_BYTES {
            self.tail = self.tail.wrapping_add(self.capacity - offset);
            self.home = Some(self.tail);
        }
        // P6.
        self.storage.release(self.touched);
        self.touched = 0;
        Ok(true)
    }

    fn refresh(&mut self) -> Result<(), Corrupt> {
        let head = self.storage.read_head();
        let used = self.tail.wrapping_sub(head);
        // P3. A head never moves backwards: for a fixed tail `used` only shrinks.
        if used > self.tail.wrapping_sub(self.head_seen) || !head.is_multiple_of(UNIT) {
            return Err(Corrupt);
        }
        self.head_seen = head;
        self.home = self.home.filter(|home| used > self.tail.wrapping_sub(*home));
        Ok(())
    }

    /// Whether so many bytes more are free, and may be written (P5).
    fn has_room(&self, offset: u32, bytes: u32) -> bool {
        let start = self.home.unwrap_or(self.head_seen);
        let stays = self.home.is_none() || offset + bytes < self.capacity;
        stays && self.tail.wrapping_sub(start) + bytes <= self.capacity
    }

    /// Makes room for a record, and gives the place where it begins. `None`: the ring is full.
    fn place(&mut self, length: u32) -> Result<Option<u32>, Corrupt> {
        if length > self.capacity / 2 - RECORD_HEADER - UNIT {
            return Ok(None);
        }
        let room = room_of(length);
        let mut offset = self.tail & (self.capacity - 1);
        let goes_beyond = offset >= HOME_BYTES && (offset ^ (offset + room)) >= HOME_BYTES;
        if goes_beyond && self.head_seen != self.tail {
            self.refresh()?;
        }
        if goes_beyond && self.head_seen == self.tail {
            self.tail = self.tail.wrapping_add(self.capacity - offset);
            self.home = Some(self.tail);
            return Ok(Some(0));
        }
        let skip = if offset + room > self.capacity { self.capacity - offset } else { 0 };
        if !self.has_room(offset, skip + room) {
            self.refresh()?;
            if !self.has_room(offset, skip + room) {
                return Ok(None);
            }
        }
        if skip > 0 {
            self.storage.write(offset, &PAD.to_ne_bytes());
            self.touched = self.capacity;
            self.tail = self.tail.wrapping_add(skip);
            offset = 0;
        }
        Ok(Some(offset))
    }

    fn finish(&mut self, offset: u32, length: u32, tag: u32) {
        let mut header = [0; RECORD_HEADER as usize];
        header[..4].copy_from_slice(&length.to_ne_bytes());
        header[4..].copy_from_slice(&tag.to_ne_bytes());
        self.storage.write(offset, &header);
        self.tail = self.tail.wrapping_add(room_of(length));
        self.touched = self.touched.max(offset + room_of(length));
        self.storage.publish_tail(self.tail());
    }

    /// Writes a record of `head` and `body`, and publishes it. `false`: there is no room now, or it
    /// is longer than half of the ring.
    ///
    /// # Errors
    /// [`Corrupt`]: the reader's index cannot be.
    #[inline]
    pub fn push(&mut self, tag: u32, head: &[u8], body: &[u8]) -> Result<bool, Corrupt> {
        // SAFETY: a slice is readable.
        unsafe { self.push_from(tag, head, body.as_ptr(), body.len()) }
    }

    /// As [`push`](Self::push), with the body in memory that others may write meanwhile.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// `from` is readable for `length` bytes.
    #[inline]
    pub unsafe fn push_from(&mut self, tag: u32, head: &[u8], from: *const u8, length: usize) -> Result<bool, Corrupt> {
        let Some(whole) = u32::try_from(head.len() + length).ok() else { return Ok(false) };
        let Some(offset) = self.place(whole)? else { return Ok(false) };
        let at = offset + RECORD_HEADER;
        self.storage.write(at, head);
        // SAFETY: the caller's.
        unsafe { self.storage.write_from(at + head.len() as u32, from, length) };
        self.finish(offset, whole, tag);
        Ok(true)
    }
}

/// The reading end.
#[derive(Debug)]
pub struct Reader<S> {
    storage: S,
    capacity: u32,
    head: u32,
    tail_seen: u32,
    published: u32,
}

impl<S: Storage> Reader<S> {
    /// A reader whose next record is at `head`, 0 for a new ring.
    pub fn new(storage: S, capacity: u32, head: u32) -> Self {
        assert!(capacity.is_power_of_two() && capacity >= 4 * UNIT && head.is_multiple_of(UNIT));
        Self { storage, capacity, head, tail_seen: head, published: head }
    }

    /// The index of the next record.
    pub fn head(&self) -> u32 {
        self.head
    }

    /// The storage.
    pub fn storage(&self) -> &S {
        &self.storage
    }

    /// Whether nothing has been published that was not consumed. Looks.
    pub fn is_empty(&self) -> bool {
        self.storage.read_tail() & !HOME == self.head
    }

    /// The record at the head, if there is one. It stays until [`consume`](Self::consume); its
    /// bytes may change under a reader that does not copy them (P4).
    ///
    /// # Errors
    /// [`Corrupt`]: the writer's index or record cannot be.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<Record>, Corrupt> {
        loop {
            if self.head == self.tail_seen {
                let read = self.storage.read_tail();
                let (tail, is_home) = (read & !HOME, read & HOME != 0);
                let ahead = (tail & !(self.capacity - 1)).wrapping_sub(self.head);
                if is_home && ahead < self.capacity {
                    // P5.
                    self.head = self.head.wrapping_add(ahead);
                }
                if tail == self.head {
                    return Ok(None);
                }
                if tail.wrapping_sub(self.head) > self.capacity || !tail.is_multiple_of(UNIT) {
                    return Err(Corrupt);
                }
                self.tail_seen = tail;
            }
            let (offset, there) = (self.head & (self.capacity - 1), self.tail_seen.wrapping_sub(self.head));
            let mut header = [0; RECORD_HEADER as usize];
            self.storage.read(offset, &mut header);
            let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
            let rest = self.capacity - offset;
            if length == PAD {
                // At the start it would fill the ring and lead back here.
                if offset == 0 || rest > there {
                    return Err(Corrupt);
                }
                self.head = self.head.wrapping_add(rest);
                continue;
            }
            if length > self.capacity || room_of(length) > there.min(rest) {
                return Err(Corrupt);
            }
            let tag = u32::from_ne_bytes([header[4], header[5], header[6], header[7]]);
            return Ok(Some(Record { tag, at: offset + RECORD_HEADER, length }));
        }
    }

    /// Copies bytes of a record out, `from` bytes behind its beginning, as many as `to` holds.
    ///
    /// # Panics
    /// If the record does not have them.
    #[inline]
    pub fn copy_out(&self, record: &Record, from: u32, to: &mut [u8]) {
        assert!(from as usize + to.len() <= record.length as usize, "beyond the record");
        self.storage.read(record.at + from, to);
    }

    /// Gives up a record that [`peek`](Self::peek) gave.
    #[inline]
    pub fn consume(&mut self, record: &Record) {
        self.head = self.head.wrapping_add(room_of(record.length));
    }

    /// Whether something was consumed and not published.
    #[inline]
    pub fn is_unpublished(&self) -> bool {
        self.published != self.head
    }

    /// Tells the writer how far we are.
    #[inline]
    pub fn publish(&mut self) {
        if self.published != self.head {
            self.published = self.head;
            self.storage.publish_head(self.head);
        }
    }
}

/// A ring in mapped memory.
///
/// M1: the memory stays mapped while the value lives, for it holds the region; the words are
/// aligned, and all is within it, which [`new`](Self::new) has checked. Nothing makes a Rust
/// reference to it but to the two words.
#[derive(Clone, Debug)]
pub struct MappedRing {
    _memory: Arc<RemoteRegion>,
    tail: *const AtomicU32,
    head: *const AtomicU32,
    bytes: *mut u8,
    capacity: u32,
}

// SAFETY: M1: the memory outlives the value and is reached by atomics and by copies only.
unsafe impl Send for MappedRing {}

impl MappedRing {
    /// A ring of `capacity` bytes at the offset `bytes` of a region, with its two words at others.
    ///
    /// # Panics
    /// If the region is not mapped for writing, or ends before, or a word is not aligned.
    pub fn new(memory: &Arc<RemoteRegion>, tail: usize, head: usize, bytes: usize, capacity: u32) -> Self {
        let base = memory.base_mut().expect("a ring's memory is mapped for writing");
        let fits = |at: usize, length: usize| at <= memory.len() && length <= memory.len() - at;
        let is_word = |at: usize| at.is_multiple_of(align_of::<AtomicU32>()) && fits(at, size_of::<AtomicU32>());
        assert!(is_word(tail) && is_word(head) && fits(bytes, capacity as usize), "beyond the region");
        let at = |offset: usize| base.wrapping_add(offset);
        Self { _memory: Arc::clone(memory), tail: at(tail).cast(), head: at(head).cast(), bytes: at(bytes), capacity }
    }

    /// Where a record's bytes lie: readable for its length while this value lives.
    ///
    /// # Panics
    /// If it is no record of this ring.
    pub fn address(&self, record: &Record) -> *const u8 {
        self.range(record.at, record.length as usize)
    }

    fn range(&self, at: u32, length: usize) -> *mut u8 {
        assert!(at <= self.capacity && length <= (self.capacity - at) as usize, "beyond the ring");
        self.bytes.wrapping_add(at as usize)
    }
}

impl Storage for MappedRing {
    #[inline]
    fn read_tail(&self) -> u32 {
        // SAFETY: M1. Acquire: pairs with publish_tail() of the other process (P1).
        unsafe { (*self.tail).load(read_tail()) }
    }

    #[inline]
    fn publish_tail(&self, tail: u32) {
        // SAFETY: M1. Release: the record is written (P1).
        unsafe { (*self.tail).store(tail, publish_tail()) }
    }

    #[inline]
    fn read_head(&self) -> u32 {
        // SAFETY: M1. Acquire: pairs with publish_head() of the other process (P2).
        unsafe { (*self.head).load(read_head()) }
    }

    #[inline]
    fn publish_head(&self, head: u32) {
        // SAFETY: M1. Release: the reads of what is given up are done (P2).
        unsafe { (*self.head).store(head, publish_head()) }
    }

    #[inline]
    fn write(&self, at: u32, from: &[u8]) {
        let to = self.range(at, from.len());
        // SAFETY: M1 and the check; `from` is ours, so they do not overlap.
        unsafe { bytes::copy(to, from.as_ptr(), from.len()) };
    }

    #[inline]
    unsafe fn write_from(&self, at: u32, from: *const u8, length: usize) {
        let to = self.range(at, length);
        // SAFETY: M1, the check, and the caller's; another ring or private memory, so they do not
        // overlap.
        unsafe { bytes::copy(to, from, length) };
    }

    #[inline]
    fn read(&self, at: u32, to: &mut [u8]) {
        let from = self.range(at, to.len());
        // SAFETY: M1 and the check; `to` is exclusively ours.
        unsafe { bytes::copy(to.as_mut_ptr(), from, to.len()) };
    }

    fn release(&self, bytes: u32) {
        let page = rustix::param::page_size();
        let start = self.bytes.addr();
        let from = (start + 1).next_multiple_of(page);
        // The page at the ring's end may hold other things, too.
        let end = start + self.capacity as usize;
        let to = (start + bytes as usize).next_multiple_of(page).min(end - end % page);
        if from < to {
            let first = self.bytes.wrapping_add(from - start).cast();
            // SAFETY: M1: whole pages of the ring, which stay mapped, and of shared memory: they
            // read as zeros afterwards. Nobody needs their bytes (P6), and a copy that a lying
            // peer makes meanwhile finds memory all the same.
            let _ = unsafe { rustix::mm::madvise(first, to - from, rustix::mm::Advice::LinuxRemove) };
        }
    }
}

/// For the models, which have their own storage.
#[doc(hidden)]
pub mod orderings {
    use crate::atomic::Ordering;
    /// Store of the tail.
    pub fn publish_tail() -> Ordering {
        super::publish_tail()
    }
    /// Load of the tail.
    pub fn read_tail() -> Ordering {
        super::read_tail()
    }
    /// Store of the head.
    pub fn publish_head() -> Ordering {
        super::publish_head()
    }
    /// Load of the head.
    pub fn read_head() -> Ordering {
        super::read_head()
    }
}

#[cfg(all(test, not(loom)))]
#[path = "packet_ring/tests.rs"]
mod tests;
