// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls on descriptors: reading and writing devices, closing and duplicating.

use super::{number, taken};
use crate::files::gate::has_mark;
use crate::files::real;
use crate::files::table::{self, Opened, duplicate, forget, opened};
use bellwire_cm_device::{Errno, OpenFile};
use core::ffi::{c_int, c_ulong, c_void};
use libc::{size_t, ssize_t};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// The device behind a descriptor.
#[inline(always)]
fn device(fd: c_int) -> Option<Arc<dyn OpenFile>> {
    match table::opened(fd)? {
        Opened::Device(_, device) => Some(device),
        Opened::Node(_) => None,
    }
}

/// # Safety
/// The descriptor is open: it was just looked at.
unsafe fn borrow<'a>(fd: c_int) -> BorrowedFd<'a> {
    // SAFETY: the caller's; the program may close it meanwhile in another thread, which harms only
    // the program.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

taken! {
    [read](fd: c_int, to: *mut c_void, length: size_t) -> ssize_t {
        // SAFETY: F1, F2.
        unsafe {
            match device(fd) {
                None => real::read(fd, to, length),
                Some(device) => number(device.read(borrow(fd), to, length).map(|n| n as ssize_t)),
            }
        }
    }
}

taken! {
    [__read_chk](fd: c_int, to: *mut c_void, length: size_t, size: size_t) -> ssize_t {
        // SAFETY: F1, F2: the C library ends the program if there is too little room.
        unsafe {
            match device(fd) {
                Some(device) if length <= size => number(device.read(borrow(fd), to, length).map(|n| n as ssize_t)),
                _ => real::__read_chk(fd, to, length, size),
            }
        }
    }
}

taken! {
    [write](fd: c_int, from: *const c_void, length: size_t) -> ssize_t {
        // SAFETY: F1, F2.
        unsafe {
            match device(fd) {
                None => real::write(fd, from, length),
                Some(device) => number(device.write(borrow(fd), from, length).map(|n| n as ssize_t)),
            }
        }
    }
}

taken! {
    [ioctl](fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
        // SAFETY: F1, F2.
        unsafe {
            match device(fd) {
                None => real::ioctl(fd, request, argument),
                Some(device) => number(device.ioctl(borrow(fd), request, argument)),
            }
        }
    }
}

taken! {
    [close](fd: c_int) -> c_int {
        if !has_mark(fd) {
            // SAFETY: F1, F2.
            return unsafe { real::close(fd) };
        }
        // Out of the table before the number is free for others; dropped when the kernel has closed
        // it.
        let gone = opened(fd).and_then(|_| forget(fd));
        // SAFETY: F1, F2.
        let outcome = unsafe { real::close(fd) };
        drop(gone);
        outcome
    }
}

taken! {
    [dup](fd: c_int) -> c_int {
        // SAFETY: F1, F2.
        let new = unsafe { real::dup(fd) };
        if new >= 0 && has_mark(fd) {
            duplicate(fd, new);
        }
        new
    }
}

/// What a number stood for before it was made another's.
fn replaced(to: c_int) -> Option<Opened> {
    if has_mark(to) { forget(to) } else { None }
}

taken! {
    [dup2](fd: c_int, to: c_int) -> c_int {
        // SAFETY: F1, F2.
        let new = unsafe { real::dup2(fd, to) };
        if new >= 0 && fd != to && (has_mark(fd) || has_mark(to)) {
            drop(replaced(to));
            duplicate(fd, to);
        }
        new
    }
}

taken! {
    [dup3](fd: c_int, to: c_int, flags: c_int) -> c_int {
        // SAFETY: F1, F2.
        let new = unsafe { real::dup3(fd, to, flags) };
        if new >= 0 && (has_mark(fd) || has_mark(to)) {
            drop(replaced(to));
            duplicate(fd, to);
        }
        new
    }
}

taken! {
    [fcntl, fcntl64](fd: c_int, command: c_int, argument: c_ulong) -> c_int {
        // SAFETY: F1, F2: an argument that was not given is whatever was in the register, which the
        // C library does not look at then.
        let outcome = unsafe { real::fcntl(fd, command, argument) };
        if outcome >= 0 && has_mark(fd) && matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
            duplicate(fd, outcome);
        }
        outcome
    }
}

/// `NETLINK_RDMA`.
const NETLINK_RDMA: c_int = 20;

taken! {
    [socket](family: c_int, kind: c_int, protocol: c_int) -> c_int {
        if family == libc::AF_NETLINK && protocol == NETLINK_RDMA && !crate::files::view::tree_shows_real() {
            // The kernel would tell of real devices there.
            return number(Err(Errno(libc::EPROTONOSUPPORT)));
        }
        // SAFETY: F1, F2.
        unsafe { real::socket(family, kind, protocol) }
    }
}
