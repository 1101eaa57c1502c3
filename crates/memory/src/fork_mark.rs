// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells the child of a `fork` from the process that made the mark, without a system call.
//!
//! A page that the kernel gives to children zeroed (`MADV_WIPEONFORK`) holds a word that is not
//! zero. Where the kernel cannot do that (before 4.14), the process id is asked for each time.
//! Asked by the NIC at each call of the data path and before it sleeps: the child has none of its
//! parent's queues and no helper thread, and must not use its parent's sockets.
//!
//! Invariant F1: the page is mapped, readable, for the life of the mark, and its word is written
//! once, before anybody else knows it.

use core::ptr::NonNull;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

const PAGE_BYTES: usize = 4096;
const HERE: u32 = 1;

/// A mark of this process.
#[derive(Debug)]
pub struct ForkMark {
    page: Option<NonNull<u32>>,
    pid: u32,
}

// SAFETY: F1: after its making the page is only read.
unsafe impl Send for ForkMark {}
// SAFETY: F1: after its making the page is only read.
unsafe impl Sync for ForkMark {}

impl ForkMark {
    /// Marks the calling process.
    pub fn new() -> Self {
        Self { page: page(), pid: std::process::id() }
    }

    /// Whether the caller is another process than the one that made the mark: a child of it.
    #[inline]
    pub fn is_elsewhere(&self) -> bool {
        match self.page {
            // SAFETY: F1. Volatile: the kernel changes it, in children.
            Some(page) => unsafe { page.as_ptr().read_volatile() != HERE },
            None => std::process::id() != self.pid,
        }
    }
}

impl Default for ForkMark {
    fn default() -> Self {
        Self::new()
    }
}

fn page() -> Option<NonNull<u32>> {
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let base = unsafe { mmap_anonymous(core::ptr::null_mut(), PAGE_BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) }.ok()?;
    // SAFETY: our own new mapping; the advice concerns children only.
    if unsafe { madvise(base, PAGE_BYTES, Advice::LinuxWipeOnFork) }.is_err() {
        // SAFETY: our own mapping, which nobody knows.
        let _ = unsafe { munmap(base, PAGE_BYTES) };
        return None;
    }
    let word = NonNull::new(base.cast::<u32>())?;
    // SAFETY: the beginning of our own mapping, page-aligned.
    unsafe { word.as_ptr().write_volatile(HERE) };
    Some(word)
}

impl Drop for ForkMark {
    fn drop(&mut self) {
        if let Some(page) = self.page {
            // SAFETY: F1: the mapping that page() made; nobody reads it any more.
            let _ = unsafe { munmap(page.as_ptr().cast(), PAGE_BYTES) };
        }
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn here_it_is_here() {
        let mark = ForkMark::new();
        assert!(mark.page.is_some(), "this kernel wipes pages on fork");
        assert!(!mark.is_elsewhere());
    }
}
