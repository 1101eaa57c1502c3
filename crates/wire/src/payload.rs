// SPDX-License-Identifier: MIT OR Apache-2.0
//! The payload FIFO beside a line queue: contiguous pieces, given back together with the slots that
//! refer to them.
//!
//! Positions run freely; `tail - freed <= size`. Which piece goes with which slot is kept here, in
//! private memory, so the reader needs no word of its own to release bytes, and nothing it writes
//! can make us overwrite what it has not read yet.

use std::collections::VecDeque;

/// Pieces begin at cache lines.
const ALIGN: u32 = 64;

/// The writer's side.
#[derive(Debug)]
pub(crate) struct PayloadFifo {
    base: *mut u8,
    size: u32,
    tail: u32,
    freed: u32,
    /// The tail that `commit` will make final.
    pending_tail: u32,
    /// (slot index, tail after its piece), oldest first.
    pieces: VecDeque<(u32, u32)>,
}

impl PayloadFifo {
    /// A FIFO over `size` bytes (a power of two) at `base`.
    ///
    /// # Safety
    /// L2 (of the link): mapped and ours to write for as long as the value lives.
    pub(crate) unsafe fn new(base: *mut u8, size: u32) -> Self {
        assert!(size.is_power_of_two());
        Self { base, size, tail: 0, freed: 0, pending_tail: 0, pieces: VecDeque::with_capacity(256) }
    }

    /// Room for `length` contiguous bytes: their position and address. `head` is the reader's
    /// position in the line queue.
    #[inline]
    pub(crate) fn allocate(&mut self, length: u32, head: u32) -> Option<(u32, *mut u8)> {
        while let Some(&(slot, end)) = self.pieces.front() {
            if head.wrapping_sub(slot) as i32 <= 0 {
                break;
            }
            self.freed = end;
            self.pieces.pop_front();
        }
        let length = length.next_multiple_of(ALIGN);
        let at = self.tail & (self.size - 1);
        // Not across the end: skip to the start instead.
        let skip = if at + length > self.size { self.size - at } else { 0 };
        let end = self.tail.wrapping_add(skip + length);
        if end.wrapping_sub(self.freed) > self.size {
            return None;
        }
        self.pending_tail = end;
        let position = if skip == 0 { at } else { 0 };
        // SAFETY: position + length <= size.
        Some((position, unsafe { self.base.add(position as usize) }))
    }

    /// The piece last allocated goes with slot `slot`.
    #[inline]
    pub(crate) fn commit(&mut self, slot: u32) {
        self.tail = self.pending_tail;
        self.pieces.push_back((slot, self.tail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_never_overlap_what_is_not_released() {
        let mut memory = vec![0u8; 4096];
        // SAFETY: the vector outlives the FIFO.
        let mut f = unsafe { PayloadFifo::new(memory.as_mut_ptr(), 4096) };
        let mut live: VecDeque<(u32, u32, u32)> = VecDeque::new();
        let (mut slot, mut head, mut x) = (u32::MAX - 50, u32::MAX - 50, 9u64);
        for _ in 0..50_000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let n = (x >> 33) as u32 % 1500;
            if x >> 62 != 0 {
                if let Some((at, _)) = f.allocate(n, head) {
                    assert!(at + n <= 4096);
                    for &(_, a, m) in &live {
                        assert!(at + n <= a || a + m <= at || n == 0 || m == 0, "overlap");
                    }
                    f.commit(slot);
                    live.push_back((slot, at, n));
                    slot = slot.wrapping_add(1);
                } else {
                    assert!(!live.is_empty(), "an empty FIFO takes any piece of a third of its size");
                }
            } else if live.pop_front().is_some() {
                head = head.wrapping_add(1);
            }
        }
    }
}
