// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory for wires whose peers cannot map any: the engine's allocator on the heap, in pages.

use super::Allocation;
use super::MemoryKind;
use std::alloc::{Layout, alloc_zeroed, dealloc};

/// Alignment and granularity of allocations.
const PAGE_BYTES: usize = 4096;
/// Allocations living at a time.
const ALLOCATIONS_MAX: usize = 1 << 16;
/// User memory lies between these, as on the machines this runs on.
const USER_MEMORY: core::ops::Range<u64> = PAGE_BYTES as u64..1 << 47;

/// Allocations of one NIC. Dropping it frees them.
#[derive(Debug, Default)]
pub(super) struct Heap {
    allocations: Vec<Option<(*mut u8, Layout)>>,
}

// SAFETY: the pointers name memory that no thread owns; they are only freed through `&mut self`.
unsafe impl Send for Heap {}

impl Heap {
    pub(super) fn allocate(&mut self, bytes: usize) -> Option<Allocation> {
        let length = bytes.checked_next_multiple_of(PAGE_BYTES)?.max(PAGE_BYTES);
        let layout = Layout::from_size_align(length, PAGE_BYTES).ok()?;
        let slot = match self.allocations.iter().position(Option::is_none) {
            Some(slot) => slot,
            None if self.allocations.len() < ALLOCATIONS_MAX => {
                self.allocations.push(None);
                self.allocations.len() - 1
            }
            None => return None,
        };
        // SAFETY: the layout's size is not zero.
        let base = unsafe { alloc_zeroed(layout) };
        if base.is_null() {
            return None;
        }
        self.allocations[slot] = Some((base, layout));
        Some(Allocation { base, length, segment: slot as u32 + 1 })
    }

    pub(super) fn free(&mut self, segment: u32) {
        let slot = (segment as usize).wrapping_sub(1);
        if let Some((base, layout)) = self.allocations.get_mut(slot).and_then(Option::take) {
            // SAFETY: allocated with this layout by `allocate`; taken out of the table, so never
            // freed again.
            unsafe { dealloc(base, layout) };
        }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        for (base, layout) in self.allocations.drain(..).flatten() {
            // SAFETY: allocated with this layout by `allocate`, and not yet freed: `free` takes it
            // out of the table.
            unsafe { dealloc(base, layout) };
        }
    }
}

/// What a wire that knows nothing of the process's memory says of it: whatever can be user memory
/// passes.
pub(super) fn presumed_kind(address: u64, length: u64) -> MemoryKind {
    let end = address.saturating_add(length);
    if USER_MEMORY.contains(&address) && end <= USER_MEMORY.end { MemoryKind::Writable } else { MemoryKind::Unmapped }
}
