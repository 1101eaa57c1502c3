// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forks of a process with adopted memory. Adopted pages are shared, so a child would write into
//! its parent's; it gets private copies of them instead, before `fork` returns in it. Nothing is
//! adopted while a thread forks.

use super::{Place, lock, mappings, places};
use crate::bytes;
use crate::mappings::list;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap_fixed, munmap};
use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Threads that are about to fork. Locked after the list of places.
static FORKS: Mutex<u32> = Mutex::new(0);
/// What a fork is to give the child copies of.
static FORKING: Mutex<Vec<Range<usize>>> = Mutex::new(Vec::new());

/// Whether a thread forks just now; asked with the list of places locked.
pub(super) fn are_under_way() -> bool {
    *lock(&FORKS) != 0
}

/// Takes care of forks from now on, if the C library has memory for that.
pub(super) fn are_watched() -> bool {
    static WATCHED: OnceLock<bool> = OnceLock::new();
    // SAFETY: functions of this library, which the C library drops when it is unloaded.
    *WATCHED.get_or_init(|| unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) } == 0)
}

/// Finds what of the program's memory is shared because it was adopted.
extern "C" fn before() {
    let mut places = places();
    *lock(&FORKS) += 1;
    if places.is_empty() {
        return;
    }
    let Ok(list) = list() else { return };
    let Some(maps) = mappings(&list) else { return };
    let is_there = |p: &Place| p.inode != 0 && maps.iter().any(|m| m.range.start <= p.pages.start && p.pages.end <= m.range.end && m.inode == p.inode);
    places.retain(|p| p.users != 0 || is_there(p));
    let found = places.iter().filter(|p| is_there(p)).map(|p| p.pages.clone()).collect();
    *FORKING.lock().unwrap_or_else(PoisonError::into_inner) = found;
}

/// After a fork, or one that failed.
extern "C" fn in_parent() {
    let mut forks = lock(&FORKS);
    *forks = forks.saturating_sub(1);
}

/// The child gets copies of what was found.
extern "C" fn in_child() {
    // If another thread held it, nothing is adopted in this child.
    if let Ok(mut forks) = FORKS.try_lock() {
        *forks = 0;
    }
    // Nobody else runs in the child; a lock that another thread held at the fork is left alone.
    let Ok(mut found) = FORKING.try_lock() else { return };
    for pages in found.drain(..) {
        let length = pages.len();
        // SAFETY: new memory; the pages are mapped, as was just found out in the parent; the copy
        // takes their place.
        unsafe {
            let Ok(copy) = mmap_anonymous(core::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) else { return };
            let at = core::ptr::with_exposed_provenance_mut::<u8>(pages.start);
            bytes::copy(copy.cast(), at, length);
            if mremap_fixed(copy, length, length, MremapFlags::MAYMOVE, at.cast()).is_err() {
                let _ = munmap(copy, length);
            }
        }
    }
}
