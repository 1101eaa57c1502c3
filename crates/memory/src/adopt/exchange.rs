// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exchanging pages of a program that has several threads: nobody sees them half exchanged.
//!
//! The pages are moved away in one step. A thread that touches them from then on, itself or by a
//! system call, waits in the kernel (`userfaultfd`) until the new pages with the same content are
//! in their place. That needs a descriptor that stops system calls too, which root gets, and others
//! if `vm.unprivileged_userfaultfd` is 1. While pages are away this thread takes no lock and no
//! memory, and runs no signal handler: those that wait may hold any lock but the caller's, and a
//! handler that touched the pages would wait for itself.

use crate::bytes;
use crate::signals::Blocked;
use crate::userfault::{Faults, Mode, Userfault};
use core::ffi::c_void;
use rustix::io::Errno;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap_fixed, munmap};
use std::ops::Range;

/// Of the kernel's pages, bytes.
pub(super) const PAGE: usize = 4096;

/// A descriptor that stops all who touch memory that is away; `None`: the system gives none.
pub(super) fn stopper() -> Option<Userfault> {
    Userfault::open(Faults::All, 0)
}

/// Puts a second mapping of the memory at `base` in the place of the pages, with their content.
/// `false`: everything is as it was.
///
/// # Safety
/// The pages are private, anonymous, readable and writable; this thread uses them for nothing, and
/// nobody else changes what is mapped there. `base` is mapped for as many bytes, shared, and nobody
/// uses it yet. The caller holds no lock that somebody else waits for while touching the pages
/// would keep from being released.
pub(super) unsafe fn exchange(stopper: Userfault, pages: &Range<usize>, base: usize) -> bool {
    let (length, at) = (pages.len(), core::ptr::with_exposed_provenance_mut::<c_void>(pages.start));
    let new = core::ptr::with_exposed_provenance_mut::<c_void>(base);
    let _mask = Blocked::new();
    // SAFETY: a new mapping, of nothing.
    let Ok(away) = (unsafe { mmap_anonymous(core::ptr::null_mut(), length, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE) }) else {
        return false;
    };
    // By its number: rustix on libc, as Miri needs it, has no name for it.
    let stays_mapped = MremapFlags::from_bits_retain(libc::MREMAP_DONTUNMAP as u32);
    // SAFETY: the range is the caller's. Moving keeps the content, and takes the place of the new
    // mapping; the old place stays mapped, empty, and stops who touches it.
    let has_moved = stopper.register(&(pages.start as u64..pages.end as u64), &[Mode::Missing])
        && unsafe { mremap_fixed(at, length, length, MremapFlags::MAYMOVE | stays_mapped, away) }.is_ok();
    if !has_moved {
        // SAFETY: the new mapping, which nobody uses.
        let _ = unsafe { munmap(away, length) };
        return false;
    }
    // SAFETY: nobody else knows where the pages are; the caller's for `base`. An old length of zero
    // makes a second mapping of shared pages, in the place of the empty ones.
    let done = unsafe {
        bytes::copy(new.cast(), away.cast::<u8>().cast_const(), length);
        mremap_fixed(new, 0, length, MremapFlags::MAYMOVE, at)
    };
    if done.is_ok() {
        // SAFETY: the pages that were moved away, of which nobody else knows.
        let _ = unsafe { munmap(away, length) };
    } else {
        // SAFETY: the pages that were moved away go back, in the place of the empty ones.
        put_back(unsafe { mremap_fixed(away, length, length, MremapFlags::MAYMOVE, at) });
    }
    // All that wait look again at the place.
    drop(stopper);
    done.is_ok()
}

/// Without the pages the program cannot go on.
fn put_back(done: Result<*mut c_void, Errno>) {
    if done.is_err() {
        std::process::abort();
    }
}

/// Puts a second mapping of the memory at `base` in the place of the pages, with their content, in
/// one step. It takes no lock and no memory.
///
/// # Safety
/// As [`exchange`], while no other thread of the process runs.
pub(super) unsafe fn exchange_alone(pages: &Range<usize>, base: usize) -> bool {
    let (length, from) = (pages.len(), core::ptr::with_exposed_provenance_mut::<u8>(pages.start));
    let own = core::ptr::with_exposed_provenance_mut::<u8>(base);
    // SAFETY: the caller's; both are mapped for as many bytes. An old length of zero makes a second
    // mapping of shared pages, which takes the place of the first ones.
    unsafe {
        bytes::copy(own, from, length);
        mremap_fixed(own.cast(), 0, length, MremapFlags::MAYMOVE, from.cast()).is_ok()
    }
}

#[cfg(test)]
pub(in crate::adopt) mod tests {
    use super::*;
    use crate::atomic::{AtomicBool, AtomicU64, Ordering};
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};

    pub(in crate::adopt) const LENGTH: usize = 64 * 4096;
    const ROUNDS: u64 = 60;

    #[test]
    fn threads_notice_nothing() {
        if stopper().is_none() {
            eprintln!("SKIPPED: this user gets no userfaultfd that stops system calls");
            return;
        }
        // SAFETY: a private mapping and a shared one of as many bytes; no locks are held.
        threads_count(|pages, base| unsafe {
            let done = exchange(stopper().unwrap(), pages, base);
            assert!(done);
            done
        });
    }

    /// Threads that count in pages that are exchanged, one of them by system calls, lose nothing
    /// and see no error, whether it can be done or not.
    pub(in crate::adopt) fn threads_count(mut exchange: impl FnMut(&Range<usize>, usize) -> bool) {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        for round in 0..ROUNDS {
            let fd = memfd_create("exchange", MemfdFlags::CLOEXEC).unwrap();
            ftruncate(&fd, LENGTH as u64).unwrap();
            // SAFETY: new mappings.
            let at = unsafe { mmap_anonymous(core::ptr::null_mut(), LENGTH, rights, MapFlags::PRIVATE) }.unwrap();
            // SAFETY: a new mapping.
            let base = unsafe { mmap(core::ptr::null_mut(), LENGTH, rights, MapFlags::SHARED, &fd, 0) }.unwrap();
            // SAFETY: mapped until the end of the round.
            let words = unsafe { core::slice::from_raw_parts(at.cast::<AtomicU64>(), LENGTH / 8) };
            let (over, zero) = (AtomicBool::new(false), std::fs::File::open("/dev/zero").unwrap());
            let done = std::thread::scope(|scope| {
                let counting = [0, 1].map(|own| {
                    let over = &over;
                    scope.spawn(move || {
                        let mut count = 0;
                        // Relaxed: each word has one writer, and the flag says nothing of others.
                        while !over.load(Ordering::Relaxed) {
                            count += 1;
                            for word in words.iter().skip(own).step_by(256) {
                                assert_eq!(word.swap(count, Ordering::Relaxed), count - 1);
                            }
                        }
                        count
                    })
                });
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        for word in words.iter().skip(2).step_by(512) {
                            // SAFETY: a word that nobody else uses.
                            let to = unsafe { core::slice::from_raw_parts_mut(word.as_ptr().cast::<u8>(), 8) };
                            assert_eq!(rustix::io::read(&zero, to), Ok(8));
                        }
                    }
                });
                while words[0].load(Ordering::Relaxed) < 1 + round % 7 {
                    std::thread::yield_now();
                }
                let done = exchange(&(at.addr()..at.addr() + LENGTH), base.addr());
                let before = words[1].load(Ordering::Relaxed);
                while words[1].load(Ordering::Relaxed) < before + 2 {
                    std::thread::yield_now();
                }
                over.store(true, Ordering::Relaxed);
                for (own, count) in counting.map(|c| c.join().unwrap()).into_iter().enumerate() {
                    assert!(words.iter().skip(own).step_by(256).all(|w| w.load(Ordering::Relaxed) == count));
                }
                done
            });
            // SAFETY: the second mapping of the pages, which are shared now.
            let shared = unsafe { core::slice::from_raw_parts(base.cast::<AtomicU64>(), LENGTH / 8) };
            assert!(!done || shared[256].load(Ordering::Relaxed) == words[256].load(Ordering::Relaxed));
            // SAFETY: nobody uses them any more.
            unsafe {
                munmap(at, LENGTH).unwrap();
                munmap(base, LENGTH).unwrap();
            }
        }
    }
}
