// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a character device below `/dev/infiniband` implements.

use core::ffi::{c_int, c_ulong, c_void};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// An error's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub c_int);

/// The implementation of a name.
pub trait DeviceFile: Send + Sync {
    /// The program opens the device. `flags` are those of `open`.
    ///
    /// The descriptor becomes the program's (`O_CLOEXEC` and `O_NONBLOCK` are set from `flags` by
    /// the caller). It must have an inode of its own: an end of a socket pair or of a pipe, or a
    /// memfd, not an eventfd. It is readable whenever `poll` is to say so.
    ///
    /// # Errors
    /// The program's `open` fails with it.
    fn open(&self, flags: c_int) -> Result<(OwnedFd, Arc<dyn OpenFile>), Errno>;
}

/// An opened device: one for each `open`, shared by duplicates of the descriptor. Dropped when the
/// last of them is closed.
///
/// `fd` is the descriptor of the call: its flags (`O_NONBLOCK`) are to be asked of the kernel. Any
/// thread may call at any time. In the child of a `fork` the objects are copies.
pub trait OpenFile: Send + Sync {
    /// `write(fd, from, length)`: how many bytes.
    ///
    /// # Safety
    /// `from` is what the program gave: it is readable if the program keeps to the rules of
    /// `write`.
    ///
    /// # Errors
    /// The program's `errno`.
    unsafe fn write(&self, fd: BorrowedFd<'_>, from: *const c_void, length: usize) -> Result<usize, Errno> {
        let _ = (fd, from, length);
        Err(Errno(libc::EINVAL))
    }

    /// `read(fd, to, length)`: how many bytes.
    ///
    /// # Safety
    /// As for `write`: writable.
    ///
    /// # Errors
    /// As for `write`.
    unsafe fn read(&self, fd: BorrowedFd<'_>, to: *mut c_void, length: usize) -> Result<usize, Errno> {
        let _ = (fd, to, length);
        Err(Errno(libc::EINVAL))
    }

    /// `ioctl(fd, request, argument)`.
    ///
    /// # Safety
    /// `argument` is what the program gave.
    ///
    /// # Errors
    /// As for `write`.
    unsafe fn ioctl(&self, fd: BorrowedFd<'_>, request: c_ulong, argument: *mut c_void) -> Result<c_int, Errno> {
        let _ = (fd, request, argument);
        Err(Errno(libc::ENOTTY))
    }
}
