// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of the library's own, and how much of it a device has given out.

use bellwire_memory::atomic::{AtomicU64, Ordering};
use core::ffi::c_void;
use core::ptr::NonNull;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Bytes that all memory of a device may have together.
pub(crate) const DEVICE_MEMORY_MAX: u64 = 1 << 20;

/// Bytes of a device's memory that are taken, and what there is, by handles.
#[derive(Default)]
pub(crate) struct Used(AtomicU64, Mutex<BTreeMap<u32, (u64, Weak<Mapped>)>>);

impl Used {
    pub(crate) fn take(&self, n: u64) -> bool {
        // Relaxed: a count.
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| used.checked_add(n).filter(|sum| *sum <= DEVICE_MEMORY_MAX)).is_ok()
    }

    pub(crate) fn all(&self) -> MutexGuard<'_, BTreeMap<u32, (u64, Weak<Mapped>)>> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A handle for device memory.
    pub(crate) fn name(&self, length: u64, memory: &Arc<Mapped>) -> u32 {
        let mut all = self.all();
        // There are at most as many as bytes, so one of the numbers is free.
        let handle = (1..).find(|h| !all.contains_key(h)).unwrap_or(0);
        all.insert(handle, (length, Arc::downgrade(memory)));
        handle
    }

    pub(crate) fn give_back(&self, n: u64) {
        // Relaxed: a count.
        self.0.fetch_sub(n, Ordering::Relaxed);
    }
}

/// Mapped memory; it is unmapped with the last who holds it: its object, and its regions.
pub(crate) struct Mapped {
    pub at: NonNull<c_void>,
    length: usize,
}

// SAFETY: memory that is only copied to and from, by raw pointers.
unsafe impl Send for Mapped {}

// SAFETY: nobody makes references to it; copies of several threads may mix, as on a device.
unsafe impl Sync for Mapped {}

impl Mapped {
    pub(crate) fn new(length: usize) -> Option<Self> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        // SAFETY: new memory, anywhere.
        let at = unsafe { mmap_anonymous(core::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) }.ok()?;
        Some(Self { at: NonNull::new(at)?, length })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and held by nobody else.
        let _ = unsafe { rustix::mm::munmap(self.at.as_ptr(), self.length) };
    }
}
