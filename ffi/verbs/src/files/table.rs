// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptors of ours, and what they are. The kernel may close one without our hearing of it
//! (`fclose`, a system call by hand), and give its number to something else; so an entry holds only
//! while the descriptor is still the file that it was made for, by its inode.

use super::gate::{FDS_MAX, has_mark, mark};
use super::real;
use bellwire_cm_device::{Errno, OpenFile};
use core::cell::UnsafeCell;
use core::ffi::c_int;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::sync::{Arc, Once};

/// What a descriptor is.
#[derive(Clone)]
pub(super) enum Opened {
    /// A folder or a file, by its path in the tree.
    Node(String),
    /// A character device.
    Device(String, Arc<dyn OpenFile>),
}

impl Opened {
    pub fn path(&self) -> &str {
        match self {
            Self::Node(path) | Self::Device(path, _) => path,
        }
    }
}

struct Entry {
    opened: Opened,
    /// Device and inode of the kernel's file.
    is: (u64, u64),
}

/// The entries, and whose they are.
struct Inside {
    entries: BTreeMap<c_int, Entry>,
    process: u32,
}

/// A mutex that may be held over a `fork`, so that the child finds the table whole.
struct Table {
    lock: UnsafeCell<libc::pthread_mutex_t>,
    inside: UnsafeCell<Inside>,
}

// SAFETY: `inside` is used with the mutex held only.
unsafe impl Sync for Table {}

/// Recursive: other handlers of a `fork` may use descriptors while `lock` holds it.
const FREE: libc::pthread_mutex_t = libc::PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static TABLE: Table = Table { lock: UnsafeCell::new(FREE), inside: UnsafeCell::new(Inside { entries: BTreeMap::new(), process: 0 }) };

unsafe extern "C" fn lock() {
    // SAFETY: a mutex that stays.
    unsafe { libc::pthread_mutex_lock(TABLE.lock.get()) };
}

unsafe extern "C" fn unlock() {
    // SAFETY: held by this thread: by `with`, or since before the fork.
    unsafe { libc::pthread_mutex_unlock(TABLE.lock.get()) };
}

unsafe extern "C" fn unlock_in_child() {
    // SAFETY: the child has one thread, and only the parent's could unlock the mutex that it held.
    unsafe {
        (*TABLE.inside.get()).process = std::process::id();
        TABLE.lock.get().write(FREE);
    }
}

/// Runs `f` on the entries. The child of a `vfork` has none: they are its parent's.
fn with<R>(f: impl FnOnce(&mut BTreeMap<c_int, Entry>) -> R) -> Option<R> {
    static FORKS: Once = Once::new();
    // SAFETY: functions that stay.
    FORKS.call_once(|| unsafe {
        (*TABLE.inside.get()).process = std::process::id();
        libc::pthread_atfork(Some(lock), Some(unlock), Some(unlock_in_child));
    });
    // SAFETY: `f` is ours and does not come back here.
    unsafe {
        lock();
        let inside = &mut *TABLE.inside.get();
        let result = (inside.process == std::process::id()).then(|| f(&mut inside.entries));
        unlock();
        result
    }
}

/// Which file of the kernel's a descriptor is.
fn identity(fd: c_int) -> Option<(u64, u64)> {
    let mut stat = core::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: F2: room for the answer, which is there if the call went well.
    unsafe { (real::fstat(fd, stat.as_mut_ptr()) == 0).then(|| stat.assume_init_ref()).map(|s| (s.st_dev, s.st_ino)) }
}

/// Gives a descriptor to the program.
pub(super) fn give(fd: OwnedFd, opened: Opened) -> Result<c_int, Errno> {
    let is = identity(fd.as_raw_fd()).ok_or(Errno(libc::EIO))?;
    if fd.as_raw_fd() as usize >= FDS_MAX {
        return Err(Errno(libc::EMFILE));
    }
    let fd = fd.into_raw_fd();
    // The old entry is dropped without the lock: its `drop` may run any code.
    let before = with(|entries| {
        mark(fd, true);
        entries.insert(fd, Entry { opened, is })
    });
    drop(before);
    Ok(fd)
}

/// What a descriptor is, if it is ours.
#[inline(always)]
pub(super) fn opened(fd: c_int) -> Option<Opened> {
    if has_mark(fd) { look(fd) } else { None }
}

#[cold]
fn look(fd: c_int) -> Option<Opened> {
    let is = identity(fd);
    let (found, stale) = with(|entries| match entries.get(&fd) {
        Some(entry) if Some(entry.is) == is => (Some(entry.opened.clone()), None),
        _ => {
            mark(fd, false);
            (None, entries.remove(&fd))
        }
    })?;
    drop(stale);
    found
}

/// The program closes a descriptor. The caller drops the result after the kernel has closed it.
#[cold]
pub(super) fn forget(fd: c_int) -> Option<Opened> {
    let entry = with(|entries| {
        mark(fd, false);
        entries.remove(&fd)
    })?;
    entry.map(|e| e.opened)
}

/// A descriptor was duplicated.
#[cold]
pub(super) fn duplicate(from: c_int, to: c_int) {
    let Some(opened) = opened(from) else { return };
    let (Some(is), true) = (identity(to), (to as usize) < FDS_MAX) else { return };
    drop(with(|entries| {
        mark(to, true);
        entries.insert(to, Entry { opened, is })
    }));
}
