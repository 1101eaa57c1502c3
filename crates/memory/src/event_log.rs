// SPDX-License-Identifier: MIT OR Apache-2.0
//! A log of events in a file: one thread writes, the oldest are overwritten, and a reader gets
//! whole ones at any time, also after the writer was killed.
//!
//! The file is mapped and shared, so what was written outlives the process. It begins with
//! [`HEADER_BYTES`] of header: two counters; a third for readers ([`TAKEN_AT`]); bytes that the
//! writer's owner fills once. Slots of four words follow, a power of two of them.
//!
//! ```text
//!  writer                                reader
//!  begun = end of what comes             head, acquire
//!  fence, release                        copies the slots of head - capacity .. head
//!  words of the slots                    fence, acquire
//!  head = end of what is there, release  begun: slots below begun - capacity are dropped
//! ```
//!
//! Invariants
//! - L1: slots below `head` and not below `begun - capacity` are whole. The reader's acquire of
//!   `head` sees the words of all slots below it. A word that is of a later lap was written after
//!   the writer's fence, so the reader that saw it, and has passed its own fence, sees that lap's
//!   `begun`.
//! - L2: the mapping lives as long as its `EventLog`, and has the header and all slots.
//!
//! Only the writer's thread has the log (`&mut`). A child of a `fork` has no mapping of it: it
//! would write into its parent's. Somebody who makes the file shorter ends the writer by SIGBUS;
//! the file is made for the user's own eyes, whose other processes could kill it as well.

use crate::atomic::{AtomicU64, Ordering, fence};

/// Words of a slot.
pub const SLOT_WORDS: usize = 4;
/// A slot.
pub type Slot = [u64; SLOT_WORDS];
/// Bytes before the first slot.
pub const HEADER_BYTES: usize = 4096;
/// Where in the header a reader writes the index of the next slot that it will read, at least 1, if
/// the writer is to wait for it.
pub const TAKEN_AT: usize = 16;
/// Where in the header the owner's own bytes begin; the counters come before.
pub const OWN_AT: usize = 64;
/// Most slots that are written at once.
pub const BATCH_MAX: usize = 16;
/// Fewest slots of a log.
const SLOTS_MIN: usize = 2 * BATCH_MAX;

/// The slots of a log that is to have at least `wanted`: a power of two.
pub fn places(wanted: usize) -> usize {
    wanted.max(SLOTS_MIN).next_power_of_two()
}

/// What the writer and models of it write to.
#[derive(Debug)]
pub struct Cells<'a> {
    /// Slots written since the beginning.
    pub head: &'a AtomicU64,
    /// The same with those that are being written.
    pub begun: &'a AtomicU64,
    /// A power of two of slots.
    pub slots: &'a [[AtomicU64; SLOT_WORDS]],
}

impl Cells<'_> {
    /// Writes `count` slots, no more than there are places, from index `at` on; what it returns is
    /// the next index.
    #[inline(always)]
    pub fn write(&self, at: u64, count: usize, slot: impl Fn(usize) -> Slot) -> u64 {
        let end = at.wrapping_add(count as u64);
        // Relaxed: ordered before the words by the fence.
        self.begun.store(end, Ordering::Relaxed);
        // Release: a reader that sees a word of this lap, and passes an acquire fence, sees
        // `begun` (L1).
        if !crate::weakened::is("log_begun") {
            fence(Ordering::Release);
        }
        let mask = self.slots.len() - 1;
        for n in 0..count {
            let place = &self.slots[(at as usize).wrapping_add(n) & mask];
            let words = slot(n);
            for w in 0..SLOT_WORDS {
                // Relaxed: `head` publishes them (L1).
                place[w].store(words[w], Ordering::Relaxed);
            }
        }
        // Release: pairs with the reader's acquire of `head` (L1).
        self.head.store(end, crate::weakened::ordering("log_publish", Ordering::Release));
        end
    }
}

/// Where a reader reads.
pub trait Source {
    /// Why it cannot.
    type Error;
    /// The two counters: `head`, then `begun`.
    ///
    /// # Errors
    /// As the source says.
    fn counters(&mut self) -> Result<(u64, u64), Self::Error>;
    /// Copies the slots `from..to`, indices that have not been reduced to places, which lie within
    /// one lap.
    ///
    /// # Errors
    /// As the source says.
    fn copy(&mut self, from: u64, to: u64) -> Result<Vec<Slot>, Self::Error>;
    /// Slots that there are.
    fn capacity(&self) -> u64;
}

/// The slots from index `since` on that are whole, oldest first, and the index of the first: those
/// between are lost.
///
/// # Errors
/// Those of the source.
pub fn read<S: Source>(source: &mut S, since: u64) -> Result<(u64, Vec<Slot>), S::Error> {
    let capacity = source.capacity();
    let (head, _) = source.counters()?;
    // Acquire, with the load before it: the words of all slots below `head` are seen (L1).
    if !crate::weakened::is("log_read") {
        fence(Ordering::Acquire);
    }
    let from = head.saturating_sub(capacity).max(since.min(head));
    let mut slots = source.copy(from, head)?;
    // Acquire: pairs with the writer's fence (L1).
    if !crate::weakened::is("log_read_fence") {
        fence(Ordering::Acquire);
    }
    let (_, begun) = source.counters()?;
    // Whatever the counters say, no more than was copied is dropped.
    let lost = begun.saturating_sub(capacity).saturating_sub(from).min(slots.len() as u64);
    slots.drain(..lost as usize);
    Ok((from + lost, slots))
}

#[cfg(not(loom))]
mod file {
    use super::{BATCH_MAX, Cells, HEADER_BYTES, OWN_AT, SLOT_WORDS, Slot, TAKEN_AT, places};
    use crate::atomic::{AtomicU64, Ordering};
    use crate::error::MemoryError;
    use core::ffi::c_void;
    use core::ptr::NonNull;
    use rustix::fd::AsFd;
    use rustix::fs::{FallocateFlags, fallocate, ftruncate};
    use rustix::io::Errno;
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

    /// Most slots: two thousand million bytes.
    const SLOTS_MAX: usize = 1 << 26;

    /// The writer's side.
    #[derive(Debug)]
    pub struct EventLog {
        base: NonNull<u8>,
        slots: usize,
        head: u64,
    }

    // SAFETY: it owns its mapping, which is tied to no thread.
    unsafe impl Send for EventLog {}

    impl EventLog {
        /// Makes `file`, which is empty and the caller's own, a log of at least `slots` slots;
        /// `own` goes into its header. The file's blocks are taken at once.
        ///
        /// # Errors
        /// [`MemoryError::BadLength`]; [`MemoryError::Os`]: no space, say.
        pub fn create(file: impl AsFd, slots: usize, own: &[u8]) -> Result<Self, MemoryError> {
            let slots = places(slots);
            if slots > SLOTS_MAX || own.len() > HEADER_BYTES - OWN_AT {
                return Err(MemoryError::BadLength { len: slots });
            }
            let len = HEADER_BYTES + slots * size_of::<Slot>();
            ftruncate(&file, len as u64).map_err(MemoryError::from_call("ftruncate"))?;
            match fallocate(&file, FallocateFlags::empty(), 0, len as u64) {
                // Without it pages are taken at first touch.
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                Err(errno) => return Err(MemoryError::os("fallocate", errno)),
            }
            // SAFETY: a new mapping, at an address that the kernel chooses.
            let base = unsafe { mmap(core::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0) };
            let base: *mut c_void = base.map_err(MemoryError::from_call("mmap"))?;
            let Some(base) = NonNull::new(base.cast::<u8>()) else { return Err(MemoryError::os("mmap", Errno::NOMEM)) };
            let log = Self { base, slots, head: 0 };
            // SAFETY: L2: our own mapping; the advice concerns children alone.
            unsafe { madvise(log.base.as_ptr().cast(), len, Advice::LinuxDontFork) }.map_err(MemoryError::from_call("madvise(MADV_DONTFORK)"))?;
            // SAFETY: L2: room for `own` begins there, checked above.
            let to = unsafe { log.base.as_ptr().add(OWN_AT) };
            // SAFETY: L2, as just said; nobody else writes there.
            unsafe { core::ptr::copy_nonoverlapping(own.as_ptr(), to, own.len()) };
            Ok(log)
        }

        fn cells(&self) -> Cells<'_> {
            let base = self.base.as_ptr();
            // SAFETY: L2: the mapping begins with the header, aligned to a page.
            let head = unsafe { &*base.cast::<AtomicU64>() };
            // SAFETY: L2: the second word of the header.
            let begun = unsafe { &*base.cast::<AtomicU64>().add(1) };
            // SAFETY: L2: the slots follow the header.
            let first = unsafe { base.add(HEADER_BYTES) };
            // SAFETY: L2: all of them, accessed as atomics alone.
            let slots = unsafe { core::slice::from_raw_parts(first.cast::<[AtomicU64; SLOT_WORDS]>(), self.slots) };
            Cells { head, begun, slots }
        }

        fn taken(&self) -> &AtomicU64 {
            // SAFETY: L2: the third word of the header.
            unsafe { &*self.base.as_ptr().add(TAKEN_AT).cast::<AtomicU64>() }
        }

        /// A reader who wants the writer to wait will come.
        pub fn expect_reader(&self) {
            // Relaxed: see `unread`.
            let _ = self.taken().compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
        }

        /// Slots that were written and that the reader who wants the writer to wait has not read; 0
        /// if there is none.
        #[inline]
        pub fn unread(&self) -> u64 {
            // Relaxed: it only says when to go on. Whether slots are whole, readers find out (L1).
            match self.taken().load(Ordering::Relaxed) {
                0 => 0,
                taken => self.head.saturating_sub(taken),
            }
        }

        /// Slots that there are.
        pub fn capacity(&self) -> u64 {
            self.slots as u64
        }

        /// Writes `count` slots, which a reader gets all or none of; beyond [`BATCH_MAX`] the rest
        /// is left out.
        #[inline(always)]
        pub fn push(&mut self, count: usize, slot: impl Fn(usize) -> Slot) {
            self.head = self.cells().write(self.head, count.min(BATCH_MAX), slot);
        }
    }

    impl Drop for EventLog {
        fn drop(&mut self) {
            // SAFETY: L2 ends here.
            let _ = unsafe { munmap(self.base.as_ptr().cast(), HEADER_BYTES + self.slots * size_of::<Slot>()) };
        }
    }
}
#[cfg(not(loom))]
pub use file::EventLog;
