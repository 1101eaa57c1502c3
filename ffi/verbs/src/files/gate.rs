// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells our paths and descriptors from foreign ones. A foreign path costs a comparison of its
//! first bytes, a foreign descriptor one load.

use bellwire_memory::atomic::{AtomicU8, Ordering};
use core::cell::Cell;
use core::ffi::{CStr, c_char, c_int};

thread_local! {
    /// The thread sees the system's files alone.
    static SEES_REAL: Cell<bool> = const { Cell::new(false) };
}

/// Does something that sees none of our files.
pub(crate) fn as_the_system_has_them<T>(f: impl FnOnce() -> T) -> T {
    let before = SEES_REAL.try_with(|sees| sees.replace(true)).unwrap_or(false);
    let outcome = f();
    let _ = SEES_REAL.try_with(|sees| sees.set(before));
    outcome
}

/// Descriptors with higher numbers are never ours.
pub(super) const FDS_MAX: usize = 1 << 16;

// Relaxed everywhere: a mark is set before the program learns the number of the descriptor, and
// looked up again in the table, under its lock.
static MARKS: [AtomicU8; FDS_MAX] = [const { AtomicU8::new(0) }; FDS_MAX];

/// Whether a descriptor may be ours.
#[inline(always)]
pub(super) fn has_mark(fd: c_int) -> bool {
    (fd as usize) < FDS_MAX && MARKS[fd as usize].load(Ordering::Relaxed) != 0
}

pub(super) fn mark(fd: c_int, is_ours: bool) {
    if let Some(mark) = MARKS.get(fd as usize) {
        mark.store(u8::from(is_ours), Ordering::Relaxed);
    }
}

/// Beginnings of our paths, without links. All other paths are the system's.
pub(super) const ROOTS: [&str; 5] =
    ["/dev/infiniband", "/sys/class/infiniband", "/sys/class/misc/rdma_cm", "/sys/devices/pcib311:", "/sys/bus/pci/devices/b311:"];

/// A path that may be ours: it begins as all of ours do. Most paths end here.
///
/// # Safety
/// F1: NULL, or a text that ends.
#[inline(always)]
pub(super) unsafe fn begins_like_ours(path: *const c_char) -> bool {
    if path.is_null() {
        return false;
    }
    // SAFETY: F1: no byte behind the end is read, since a comparison with it fails.
    unsafe {
        let at = |i: usize| *path.add(i) as u8;
        at(0) == b'/'
            && ((at(1) == b's' && at(2) == b'y' && at(3) == b's' && at(4) == b'/')
                || (at(1) == b'd' && at(2) == b'e' && at(3) == b'v' && at(4) == b'/' && at(5) == b'i')
                || at(1) == b'/')
    }
}

/// The path of a call, if it may be ours: it lies below a root, or has to be followed to know.
///
/// # Safety
/// F1: NULL, or a text that ends.
#[inline(always)]
pub(super) unsafe fn candidate<'a>(path: *const c_char) -> Option<&'a str> {
    // SAFETY: F1.
    unsafe { if begins_like_ours(path) { look_closer(path) } else { None } }
}

/// # Safety
/// F1: a text that ends.
#[cold]
unsafe fn look_closer<'a>(path: *const c_char) -> Option<&'a str> {
    // SAFETY: F1.
    let path = unsafe { CStr::from_ptr(path) }.to_str().ok()?;
    if SEES_REAL.try_with(Cell::get).unwrap_or(false) {
        return None;
    }
    (is_below_root(path) || path.contains("//") || path.contains("/.")).then_some(path)
}

/// Whether a path without `.`, `..` and empty parts is ours.
pub(super) fn is_below_root(path: &str) -> bool {
    ROOTS.iter().any(|root| path.starts_with(root))
}
