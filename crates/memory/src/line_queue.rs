// SPDX-License-Identifier: MIT OR Apache-2.0
//! The coherent queue: one writer, one reader, 64-byte slots, payload and flag in the same cache
//! line.
//!
//! ```text
//!  writer's region                                   reader's region
//!  +--------+--------+--------+-- .. --+             +------------------+
//!  | line 0 | line 1 | line 2 |        |  -- reads ->| head (published  |
//!  +--------+--------+--------+-- .. --+             |  lazily)         |
//!   word 0 = [ lap bit | 63 bits of the caller ]     +------------------+
//! ```
//!
//! After Mukherjee and Hill (HPCA 1998): a *valid bit in the message*, *sense reverse* (the meaning
//! of the bit flips each lap, so nobody has to clear it) and *lazy pointers* (the writer looks at
//! the reader's head only when its cached copy says "full"). A small message moves one cache line
//! and nothing else.
//!
//! Invariants
//! - Q1: words 1..8 of a slot are written before word 0, which is written once per use, with
//!   release; a reader that has seen the lap bit in word 0 with acquire sees the words that go with
//!   it.
//! - Q2: a slot is written again only after the reader has published (release) a head beyond it and
//!   the writer has read it (acquire).
//! - Q3: both indices run freely in `u32`; `tail - head <= capacity` always. A published head that
//!   breaks this is a lie of the peer: [`Corrupt`].
//!
//! Budget: one 16-byte store for a message of up to 8 bytes, four for a full line; no locked
//! instruction, no fence.

use crate::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::bytes;

/// Bytes of a slot.
pub const LINE_BYTES: usize = 64;
/// Words of 8 bytes of a slot.
pub const LINE_WORDS: usize = 8;
/// The bit of word 0 that belongs to the queue; the other 63 are the caller's.
pub const LAP_BIT: u64 = 1;

// Orderings are functions so that the negative models can weaken one at a time (tests/run_loom.sh).
#[inline(always)]
fn publish_line() -> Ordering {
    crate::weakened::ordering("line_publish", Ordering::Release)
}
#[inline(always)]
fn read_line() -> Ordering {
    crate::weakened::ordering("line_read", Ordering::Acquire)
}
#[inline(always)]
fn publish_head() -> Ordering {
    crate::weakened::ordering("head_publish", Ordering::Release)
}
#[inline(always)]
fn read_head() -> Ordering {
    crate::weakened::ordering("head_read", Ordering::Acquire)
}

/// One slot's content.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line(pub [u64; LINE_WORDS]);

const _: () = assert!(size_of::<Line>() == LINE_BYTES && align_of::<Line>() == LINE_BYTES);

/// The peer published an index that cannot be: the queue must not be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

/// Where the slots live: mapped memory in use, model cells under loom.
pub trait Slots {
    /// Loads word 0 of slot `index` (acquire).
    fn load_word0(&self, index: u32) -> u64;
    /// Loads words 1.. of slot `index` into `line`, after `load_word0` has shown it valid.
    fn load_rest(&self, index: u32, line: &mut Line);
    /// Stores `word0` and words 1.. of the first `words` words of `line`, word 0 last (release).
    /// (Word 0 comes in a register: stored to `line` first and loaded again together with word 1,
    /// it would wait for both to leave the store buffer.)
    fn store(&self, index: u32, word0: u64, line: &Line, words: usize);
    /// Stores `word0` (last, release) and after it `length` bytes from `from`.
    ///
    /// # Safety
    /// `from` is readable for `length` bytes, at most 56.
    #[inline]
    unsafe fn store_bytes(&self, index: u32, word0: u64, from: *const u8, length: usize) {
        let mut line = Line::default();
        // SAFETY: the caller's; the line has room for 56 bytes after word 0.
        unsafe { bytes::copy_small(line.0.as_mut_ptr().add(1).cast(), from, length) };
        self.store(index, word0, &line, 1 + length.div_ceil(8));
    }
    /// Stores `word0` (last, release), after it the first `words` of `head`, and after those
    /// `length` bytes from `from`. (Put together elsewhere first, the words would have to leave the
    /// store buffer before they can be loaded again as the halves of vectors.)
    ///
    /// # Safety
    /// `from` is readable for `length` bytes; `8 * words + length` is at most 56, `words` at most
    /// [`HEAD_WORDS`].
    #[inline]
    unsafe fn store_headed(&self, index: u32, word0: u64, head: &[u64; HEAD_WORDS], words: usize, from: *const u8, length: usize) {
        let mut line = Line::default();
        line.0[1..=words].copy_from_slice(&head[..words]);
        // SAFETY: the caller's; the line has room for 56 bytes after word 0.
        unsafe { bytes::copy_small(line.0.as_mut_ptr().add(1 + words).cast(), from, length) };
        self.store(index, word0, &line, 1 + words + length.div_ceil(8));
    }
}

/// Most words that go before the bytes of a line written in two parts.
pub const HEAD_WORDS: usize = 3;

/// A word by which the reader tells the writer how far it has come.
pub trait HeadWord {
    /// Reads the published head (acquire).
    fn read(&self) -> u32;
    /// Publishes a head (release).
    fn publish(&self, head: u32);
}

/// The writing end.
#[derive(Debug)]
pub struct Producer<S, H> {
    slots: S,
    head_word: H,
    capacity: u32,
    tail: u32,
    head_seen: u32,
}

impl<S: Slots, H: HeadWord> Producer<S, H> {
    /// A producer at index 0 over zeroed slots. `capacity` is a power of two.
    pub fn new(slots: S, head_word: H, capacity: u32) -> Self {
        assert!(capacity.is_power_of_two() && capacity >= 2, "capacity must be a power of two, at least 2");
        Self { slots, head_word, capacity, tail: 0, head_seen: 0 }
    }

    /// The index of the next slot to be written (free-running).
    #[inline]
    pub fn tail(&self) -> u32 {
        self.tail
    }

    /// The reader's head as last seen.
    #[inline]
    pub fn head_seen(&self) -> u32 {
        self.head_seen
    }

    /// Slots in the queue.
    #[inline]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Whether a slot is free, looking at the reader's head only when the cached one says no.
    #[inline(always)]
    pub fn has_room(&mut self) -> Result<bool, Corrupt> {
        if self.tail.wrapping_sub(self.head_seen) < self.capacity {
            return Ok(true);
        }
        self.refresh()
    }

    /// Reads the reader's published head; true if there is room now.
    #[cold]
    #[inline(never)]
    pub fn refresh(&mut self) -> Result<bool, Corrupt> {
        let head = self.head_word.read();
        let used = self.tail.wrapping_sub(head);
        // Q3. The head may also never move backwards: `used` only shrinks for a fixed tail.
        if used > self.capacity || used > self.tail.wrapping_sub(self.head_seen) {
            return Err(Corrupt);
        }
        self.head_seen = head;
        Ok(used < self.capacity)
    }

    /// Writes one line; the caller has seen [`has_room`](Self::has_room). `words` counts the words
    /// in use, word 0 included; bit 0 of word 0 is ours.
    #[inline(always)]
    pub fn push(&mut self, line: &Line, words: usize) {
        debug_assert!(self.tail.wrapping_sub(self.head_seen) < self.capacity, "push without room");
        debug_assert!((1..=LINE_WORDS).contains(&words));
        let word0 = (line.0[0] & !LAP_BIT) | valid_bit(self.tail, self.capacity);
        self.slots.store(self.tail & (self.capacity - 1), word0, line, words);
        self.tail = self.tail.wrapping_add(1);
    }
}

impl<S: Slots, H: HeadWord> Producer<S, H> {
    /// Writes one line of `word0` and `length` bytes after it, straight from where they are; the
    /// caller has seen [`has_room`](Self::has_room).
    ///
    /// # Safety
    /// `from` is readable for `length` bytes, at most 56.
    #[inline(always)]
    pub unsafe fn push_bytes(&mut self, word0: u64, from: *const u8, length: usize) {
        debug_assert!(self.tail.wrapping_sub(self.head_seen) < self.capacity, "push without room");
        debug_assert!(length <= LINE_BYTES - 8);
        let word0 = (word0 & !LAP_BIT) | valid_bit(self.tail, self.capacity);
        // SAFETY: the caller's.
        unsafe { self.slots.store_bytes(self.tail & (self.capacity - 1), word0, from, length) };
        self.tail = self.tail.wrapping_add(1);
    }

    /// As [`push_bytes`](Self::push_bytes), with the first `words` of `head` before the bytes.
    ///
    /// # Safety
    /// `from` is readable for `length` bytes; `8 * words + length` is at most 56, `words` at most
    /// [`HEAD_WORDS`].
    #[inline(always)]
    pub unsafe fn push_headed(&mut self, word0: u64, head: &[u64; HEAD_WORDS], words: usize, from: *const u8, length: usize) {
        debug_assert!(self.tail.wrapping_sub(self.head_seen) < self.capacity, "push without room");
        debug_assert!(words <= HEAD_WORDS && 8 * words + length <= LINE_BYTES - 8);
        let word0 = (word0 & !LAP_BIT) | valid_bit(self.tail, self.capacity);
        // SAFETY: the caller's.
        unsafe { self.slots.store_headed(self.tail & (self.capacity - 1), word0, head, words, from, length) };
        self.tail = self.tail.wrapping_add(1);
    }
}

/// The reading end.
#[derive(Debug)]
pub struct Consumer<S, H> {
    slots: S,
    head_word: H,
    capacity: u32,
    head: u32,
    published: u32,
}

impl<S: Slots, H: HeadWord> Consumer<S, H> {
    /// A consumer at index 0.
    pub fn new(slots: S, head_word: H, capacity: u32) -> Self {
        assert!(capacity.is_power_of_two() && capacity >= 2, "capacity must be a power of two, at least 2");
        Self { slots, head_word, capacity, head: 0, published: 0 }
    }

    /// The index of the next slot to be read (free-running).
    #[inline]
    pub fn head(&self) -> u32 {
        self.head
    }

    /// Word 0 of the line at the head, if it is there. The other words may be read from the slot
    /// until [`consume`](Self::consume).
    #[inline(always)]
    pub fn peek_word0(&self) -> Option<u64> {
        let word0 = self.slots.load_word0(self.head & (self.capacity - 1));
        (word0 & LAP_BIT == valid_bit(self.head, self.capacity)).then_some(word0)
    }

    /// A copy of the line at the head, if it is there: what the models and tests read by. It stays
    /// until [`consume`](Self::consume).
    #[inline]
    pub fn peek(&self) -> Option<Line> {
        let index = self.head & (self.capacity - 1);
        let word0 = self.slots.load_word0(index);
        if word0 & LAP_BIT != valid_bit(self.head, self.capacity) {
            return None;
        }
        let mut line = Line::default();
        self.slots.load_rest(index, &mut line);
        line.0[0] = word0;
        Some(line)
    }

    /// The slots.
    #[inline]
    pub fn slots(&self) -> &S {
        &self.slots
    }

    /// Where the slot at the head is.
    #[inline]
    pub fn slot_index(&self) -> u32 {
        self.head & (self.capacity - 1)
    }

    /// Gives up the slot at the head. The writer learns of it by [`publish`](Self::publish).
    #[inline]
    pub fn consume(&mut self) {
        self.head = self.head.wrapping_add(1);
    }

    /// Slots consumed and not yet published.
    #[inline]
    pub fn unpublished(&self) -> u32 {
        self.head.wrapping_sub(self.published)
    }

    /// Tells the writer how far we are. Once per batch: a quarter of the capacity, or when idle.
    #[inline]
    pub fn publish(&mut self) {
        self.publish_before(self.head);
    }

    /// As [`publish`](Self::publish), but not beyond slot `end` (consumed, not yet published): it
    /// and those after it are read still.
    #[inline]
    pub fn publish_before(&mut self, end: u32) {
        debug_assert!(end.wrapping_sub(self.published) <= self.unpublished());
        if self.published != end {
            self.head_word.publish(end);
            self.published = end;
        }
    }
}

/// The sense of the lap bit for `index`: 1 in the first lap, so that zeroed memory reads as empty.
#[inline]
fn valid_bit(index: u32, capacity: u32) -> u64 {
    u64::from(index & capacity == 0)
}

/// Slots in mapped memory.
#[derive(Clone, Copy, Debug)]
pub struct MappedSlots {
    base: *mut Line,
}

// SAFETY: M1 (see `MappedSlots::new`): the memory outlives the value and is reached by atomic or
// opaque accesses only.
unsafe impl Send for MappedSlots {}

impl MappedSlots {
    /// Slots at `base`.
    ///
    /// # Safety
    /// M1: `base` is 64-byte aligned and stays mapped, for as many lines as the queue's capacity,
    /// while the value lives; writable if it is given to a [`Producer`].
    pub unsafe fn new(base: *mut u8) -> Self {
        assert!(base.addr().is_multiple_of(LINE_BYTES), "lines must be cache-line aligned");
        Self { base: base.cast() }
    }

    /// The address of slot `index`: to read words from, once [`Consumer::peek_word0`] has shown it
    /// valid.
    #[inline]
    pub fn address(&self, index: u32) -> *const Line {
        self.base.wrapping_add(index as usize)
    }

    #[inline]
    fn word(&self, index: u32, word: usize) -> &AtomicU64 {
        // SAFETY: M1: index is masked by the queue, word < 8; other processes access these words
        // atomically or by whole aligned vector stores.
        unsafe { &*self.base.add(index as usize).cast::<AtomicU64>().add(word) }
    }
}

impl Slots for MappedSlots {
    #[inline]
    fn load_word0(&self, index: u32) -> u64 {
        // Acquire (Q1): pairs with the release of word 0 in store().
        self.word(index, 0).load(read_line())
    }

    #[inline]
    fn load_rest(&self, index: u32, line: &mut Line) {
        #[cfg(all(target_arch = "x86_64", not(loom), not(miri), not(bellwire_portable)))]
        {
            x86::load(self.base.wrapping_add(index as usize), line);
        }
        #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri), not(bellwire_portable))))]
        {
            for w in 1..LINE_WORDS {
                // Relaxed: ordered by the acquire of word 0 (Q1).
                line.0[w] = self.word(index, w).load(Ordering::Relaxed);
            }
        }
    }

    #[cfg(not(any(loom, miri)))]
    #[inline(always)]
    unsafe fn store_bytes(&self, index: u32, word0: u64, from: *const u8, length: usize) {
        let slot = self.base.wrapping_add(index as usize).cast::<u8>();
        // SAFETY: M1, and Q2: the slot is ours, 56 bytes after word 0; `from` is the caller's.
        unsafe { bytes::copy_small(slot.add(8), from, length) };
        // Release (Q1): publishes the bytes; pairs with load_word0().
        self.word(index, 0).store(word0, publish_line());
    }

    #[cfg(not(any(loom, miri)))]
    #[inline(always)]
    unsafe fn store_headed(&self, index: u32, word0: u64, head: &[u64; HEAD_WORDS], words: usize, from: *const u8, length: usize) {
        for (i, word) in head.iter().enumerate().take(words) {
            // Relaxed: published by the release of word 0 below (Q1).
            self.word(index, i + 1).store(*word, Ordering::Relaxed);
        }
        let slot = self.base.wrapping_add(index as usize).cast::<u8>();
        // SAFETY: M1, and Q2: the slot is ours, with room behind the words; `from` is the caller's.
        unsafe { bytes::copy_small(slot.add(8 + 8 * words), from, length) };
        // Release (Q1): publishes the bytes; pairs with load_word0().
        self.word(index, 0).store(word0, publish_line());
    }

    #[inline]
    fn store(&self, index: u32, word0: u64, line: &Line, words: usize) {
        #[cfg(all(target_arch = "x86_64", not(loom), not(miri), not(bellwire_portable)))]
        {
            x86::store(self.base.wrapping_add(index as usize), word0, line, words);
        }
        #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri), not(bellwire_portable))))]
        {
            for w in 1..words {
                // Relaxed: published by the release of word 0 below (Q1).
                self.word(index, w).store(line.0[w], Ordering::Relaxed);
            }
            // Release (Q1): publishes words 1..; pairs with load_word0().
            self.word(index, 0).store(word0, publish_line());
        }
    }
}

/// Whole-vector access to a line. x86-64 keeps stores in program order and an aligned 16-byte
/// vector store is single-copy atomic on every processor with AVX (Intel SDM 3A 9.1.1, AMD APM 2
/// 7.3.2), so word 0, written last together with word 1, is the release of Q1. Without AVX word 0
/// is still an aligned 8-byte half of that store, and its own atomicity is all that Q1 needs when
/// word 1 is written once before.
#[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
mod x86 {
    use super::Line;
    use core::arch::x86_64::__m128i;

    #[cfg(not(bellwire_portable))]
    #[inline]
    pub(super) fn load(from: *const Line, line: &mut Line) {
        let (a, b, c, d): (__m128i, __m128i, __m128i, __m128i);
        // SAFETY: M1: a whole aligned line is mapped. Assembly, because another process may write
        // it meanwhile and no Rust reference or plain read may touch such memory.
        unsafe {
            core::arch::asm!(
                "movdqa {a}, [{p}]", "movdqa {b}, [{p} + 16]", "movdqa {c}, [{p} + 32]", "movdqa {d}, [{p} + 48]",
                p = in(reg) from, a = out(xmm_reg) a, b = out(xmm_reg) b, c = out(xmm_reg) c, d = out(xmm_reg) d,
                options(nostack, preserves_flags, readonly)
            );
        }
        // SAFETY: Line is 64 plain bytes.
        *line = unsafe { core::mem::transmute::<[__m128i; 4], Line>([a, b, c, d]) };
    }

    #[cfg(not(bellwire_portable))]
    #[inline]
    pub(super) fn store(to: *mut Line, word0: u64, line: &Line, words: usize) {
        // From words, not from the memory of `line`: a 16-byte load of two words just stored would
        // wait until both have left the store buffer, that is, for the misses of the messages
        // before.
        let pair = |i: usize| {
            // SAFETY: SSE2 is part of x86-64.
            unsafe { core::arch::x86_64::_mm_set_epi64x(line.0[i + 1].cast_signed(), line.0[i].cast_signed()) }
        };
        // SAFETY: SSE2 is part of x86-64.
        let a = unsafe { core::arch::x86_64::_mm_set_epi64x(line.0[1].cast_signed(), word0.cast_signed()) };
        if words <= 2 {
            // SAFETY: M1, and Q2: the slot is ours. One store carries flag and payload.
            unsafe { core::arch::asm!("movdqa [{p}], {a}", p = in(reg) to, a = in(xmm_reg) a, options(nostack, preserves_flags)) };
            return;
        }
        let (b, c, d) = (pair(2), pair(4), pair(6));
        // SAFETY: M1, and Q2: the slot is ours. Program order of the stores is Q1's order.
        unsafe {
            core::arch::asm!(
                "movdqa [{p} + 48], {d}", "movdqa [{p} + 32], {c}", "movdqa [{p} + 16], {b}", "movdqa [{p}], {a}",
                p = in(reg) to, a = in(xmm_reg) a, b = in(xmm_reg) b, c = in(xmm_reg) c, d = in(xmm_reg) d,
                options(nostack, preserves_flags)
            );
        }
    }
}

/// A head word in mapped memory.
#[derive(Clone, Copy, Debug)]
pub struct MappedHead {
    word: *const AtomicU32,
}

// SAFETY: M2 (see `MappedHead::new`).
unsafe impl Send for MappedHead {}

impl MappedHead {
    /// A head word at `word`.
    ///
    /// # Safety
    /// M2: `word` is 4-byte aligned and stays mapped while the value lives; writable if given to a
    /// [`Consumer`].
    pub unsafe fn new(word: *mut u8) -> Self {
        assert!(word.addr().is_multiple_of(4));
        Self { word: word.cast() }
    }
}

impl HeadWord for MappedHead {
    #[inline]
    fn read(&self) -> u32 {
        // SAFETY: M2. Acquire (Q2): pairs with publish(); the reader's loads of the slots happen
        // before we overwrite them.
        unsafe { (*self.word).load(read_head()) }
    }

    #[inline]
    fn publish(&self, head: u32) {
        // SAFETY: M2. Release (Q2): our loads of the slots are done; pairs with read().
        unsafe { (*self.word).store(head, publish_head()) }
    }
}

/// The orderings, for models that bring their own storage.
pub mod orderings {
    use crate::atomic::Ordering;
    /// Store of word 0.
    pub fn publish_line() -> Ordering {
        super::publish_line()
    }
    /// Load of word 0.
    pub fn read_line() -> Ordering {
        super::read_line()
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
mod tests;
