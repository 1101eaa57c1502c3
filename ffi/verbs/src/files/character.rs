// SPDX-License-Identifier: MIT OR Apache-2.0
//! Character devices below `/dev/infiniband`. A new one is an implementation of [`DeviceFile`] and
//! an entry in the list of `view::characters`.
//!
//! The program gets a real descriptor of the kernel, which the implementation makes; so `poll`,
//! `select`, `epoll`, `dup`, `fcntl` and `close` are the kernel's. `fstat` says that it is the
//! character device. `read`, `write` and `ioctl` go to the implementation.

use super::real::Errno;
use core::ffi::{c_int, c_ulong, c_void};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A name below `/dev/infiniband`.
pub(crate) struct Character {
    /// As `rdma_cm`.
    pub name: String,
    /// Major and minor number, for `st_rdev` and the file `dev`.
    pub number: (u32, u32),
    /// The implementation.
    pub file: Arc<dyn DeviceFile>,
}

/// The implementation of a name.
pub(crate) trait DeviceFile: Send + Sync {
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
pub(crate) trait OpenFile: Send + Sync {
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

/// The file of a verbs device. Programs look whether it is there; what they would write belongs to
/// the kernel's interface, which nothing here speaks.
pub(crate) struct Uverbs;

struct OpenUverbs {
    /// Keeps the program's end silent, not hung up.
    _other: OwnedFd,
}

impl OpenFile for OpenUverbs {}

impl DeviceFile for Uverbs {
    fn open(&self, _flags: c_int) -> Result<(OwnedFd, Arc<dyn OpenFile>), Errno> {
        let (own, other) = pair()?;
        Ok((own, Arc::new(OpenUverbs { _other: other })))
    }
}

/// A socket pair: the program's end, which is readable while something is in it, and the other.
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).map_err(|e| Errno(e.raw_os_error()))
}
