// SPDX-License-Identifier: MIT OR Apache-2.0
//! `stat` and its relatives, under new and old names.

use super::{Found, Target, number, taken, target, target_at};
use crate::files::real::{self, device_number};
use crate::files::table::opened;
use crate::files::tree::Node;
use crate::files::view::tree;
use bellwire_cm_device::Errno;
use core::ffi::{c_char, c_int, c_uint};
use libc::{stat as Stat, statx as Statx};

/// The number of the device that holds the tree: none has it.
const FILE_SYSTEM: (u32, u32) = (0, 0xb311);

/// A node's `stat`.
fn describe(found: &Found) -> Stat {
    // SAFETY: numbers only, for which zero is one.
    let mut s: Stat = unsafe { core::mem::zeroed() };
    s.st_dev = device_number(FILE_SYSTEM);
    s.st_ino = found.tree.inode(&found.path);
    s.st_nlink = 1;
    s.st_blksize = 4096;
    let (mode, size) = match found.node() {
        Node::Folder => (libc::S_IFDIR | 0o755, 0),
        Node::File(text) => (libc::S_IFREG | 0o444, text().len()),
        Node::Link(target) => (libc::S_IFLNK | 0o777, target.len()),
        Node::Device(number, _) => {
            s.st_rdev = device_number(*number);
            (libc::S_IFCHR | 0o666, 0)
        }
    };
    s.st_mode = mode;
    s.st_size = size as i64;
    let made = found.tree.made;
    (s.st_atime, s.st_mtime, s.st_ctime) = (made, made, made);
    s
}

fn describe_extended(found: &Found) -> Statx {
    let s = describe(found);
    // SAFETY: numbers only, for which zero is one.
    let mut x: Statx = unsafe { core::mem::zeroed() };
    x.stx_mask = libc::STATX_BASIC_STATS;
    x.stx_blksize = s.st_blksize as u32;
    x.stx_nlink = s.st_nlink as u32;
    x.stx_mode = s.st_mode as u16;
    x.stx_ino = s.st_ino;
    x.stx_size = s.st_size as u64;
    (x.stx_dev_major, x.stx_dev_minor) = FILE_SYSTEM;
    (x.stx_rdev_major, x.stx_rdev_minor) = (libc::major(s.st_rdev), libc::minor(s.st_rdev));
    (x.stx_atime.tv_sec, x.stx_mtime.tv_sec, x.stx_ctime.tv_sec) = (s.st_atime, s.st_mtime, s.st_ctime);
    x
}

/// A descriptor of ours.
#[inline(always)]
fn of_descriptor(fd: c_int) -> Option<Found> {
    opened(fd).map(|opened| Found { tree: tree(), path: opened.path().to_owned() })
}

/// # Safety
/// F1: room for the answer.
unsafe fn tell(outcome: Result<Stat, Errno>, to: *mut Stat) -> c_int {
    number(outcome.map(|stat| {
        // SAFETY: F1.
        unsafe { to.write(stat) };
        0
    }))
}

/// A path that is empty means the folder itself.
///
/// # Safety
/// F1.
#[inline(always)]
unsafe fn means_folder(path: *const c_char, flags: c_int) -> bool {
    // SAFETY: F1.
    flags & libc::AT_EMPTY_PATH != 0 && (path.is_null() || unsafe { *path == 0 })
}

taken! {
    [stat, stat64](path: *const c_char, to: *mut Stat) -> c_int {
        // SAFETY: F1, F2.
        unsafe {
            match target(path, true) {
                Ok(Target::Theirs) => real::stat(path, to),
                Ok(Target::Outside(path)) => real::stat(path.as_ptr(), to),
                Ok(Target::Ours(found)) => tell(Ok(describe(&found)), to),
                Err(error) => number(Err(error)),
            }
        }
    }
}

taken! {
    [lstat, lstat64](path: *const c_char, to: *mut Stat) -> c_int {
        // SAFETY: F1, F2.
        unsafe {
            match target(path, false) {
                Ok(Target::Theirs) => real::lstat(path, to),
                Ok(Target::Outside(path)) => real::lstat(path.as_ptr(), to),
                Ok(Target::Ours(found)) => tell(Ok(describe(&found)), to),
                Err(error) => number(Err(error)),
            }
        }
    }
}

taken! {
    [fstat, fstat64](fd: c_int, to: *mut Stat) -> c_int {
        // SAFETY: F1, F2.
        unsafe {
            match of_descriptor(fd) {
                None => real::fstat(fd, to),
                Some(found) => tell(Ok(describe(&found)), to),
            }
        }
    }
}

taken! {
    [fstatat, fstatat64](folder: c_int, path: *const c_char, to: *mut Stat, flags: c_int) -> c_int {
        // SAFETY: F1, F2.
        unsafe {
            if means_folder(path, flags) && let Some(found) = of_descriptor(folder) {
                return tell(Ok(describe(&found)), to);
            }
            match target_at(folder, path, flags & libc::AT_SYMLINK_NOFOLLOW == 0) {
                Ok(Target::Theirs) => real::fstatat(folder, path, to, flags),
                Ok(Target::Outside(path)) => real::fstatat(libc::AT_FDCWD, path.as_ptr(), to, flags),
                Ok(Target::Ours(found)) => tell(Ok(describe(&found)), to),
                Err(error) => number(Err(error)),
            }
        }
    }
}

taken! {
    [__xstat, __xstat64](version: c_int, path: *const c_char, to: *mut Stat) -> c_int {
        // SAFETY: F1, F2.
        unsafe {
            match target(path, true) {
                Ok(Target::Theirs) => real::__xstat(version, path, to),
                Ok(Target::Outside(path)) => real::__xstat(version, path.as_ptr(), to),
                Ok(Target::Ours(found)) => tell(Ok(describe(&found)), to),
                Err(error) => number(Err(error)),
            }
        }
    }
}

taken! {
    [__lxstat, __lxstat64](version: c_int, path: *const c_char, to: *mut Stat) -> c_int {
        // SAFETY: F1, F2.
        unsafe {
            match target(path, false) {
                Ok(Target::Theirs) => real::__lxstat(version, path, to),
                Ok(Target::Outside(path)) => real::__lxstat(version, path.as_ptr(), to),
                Ok(Target::Ours(found)) => tell(Ok(describe(&found)), to),
                Err(error) => number(Err(error)),
            }
        }
    }
}

taken! {
    [__fxstat, __fxstat64](version: c_int, fd: c_int, to: *mut Stat) -> c_int {
        // SAFETY: F1, F2.
        unsafe {
            match of_descriptor(fd) {
                None => real::__fxstat(version, fd, to),
                Some(found) => tell(Ok(describe(&found)), to),
            }
        }
    }
}

taken! {
    [__fxstatat, __fxstatat64](version: c_int, folder: c_int, path: *const c_char, to: *mut Stat, flags: c_int) -> c_int {
        // SAFETY: F1, F2.
        unsafe {
            if means_folder(path, flags) && let Some(found) = of_descriptor(folder) {
                return tell(Ok(describe(&found)), to);
            }
            match target_at(folder, path, flags & libc::AT_SYMLINK_NOFOLLOW == 0) {
                Ok(Target::Theirs) => real::__fxstatat(version, folder, path, to, flags),
                Ok(Target::Outside(path)) => real::__fxstatat(version, libc::AT_FDCWD, path.as_ptr(), to, flags),
                Ok(Target::Ours(found)) => tell(Ok(describe(&found)), to),
                Err(error) => number(Err(error)),
            }
        }
    }
}

taken! {
    [statx](folder: c_int, path: *const c_char, flags: c_int, mask: c_uint, to: *mut Statx) -> c_int {
        // SAFETY: F1, F2.
        unsafe {
            if means_folder(path, flags) && let Some(found) = of_descriptor(folder) {
                to.write(describe_extended(&found));
                return 0;
            }
            match target_at(folder, path, flags & libc::AT_SYMLINK_NOFOLLOW == 0) {
                Ok(Target::Theirs) => real::statx(folder, path, flags, mask, to),
                Ok(Target::Outside(path)) => real::statx(libc::AT_FDCWD, path.as_ptr(), flags, mask, to),
                Ok(Target::Ours(found)) => {
                    to.write(describe_extended(&found));
                    0
                }
                Err(error) => number(Err(error)),
            }
        }
    }
}
