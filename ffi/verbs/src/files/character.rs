// SPDX-License-Identifier: MIT OR Apache-2.0
//! Character devices below `/dev/infiniband`. A new one is an implementation of [`DeviceFile`] and
//! an entry in the list of `view::characters`.
//!
//! The program gets a real descriptor of the kernel, which the implementation makes; so `poll`,
//! `select`, `epoll`, `dup`, `fcntl` and `close` are the kernel's. `fstat` says that it is the
//! character device. `read`, `write` and `ioctl` go to the implementation.

use bellwire_cm_device::{DeviceFile, Errno, OpenFile};
use core::ffi::c_int;
use std::os::fd::OwnedFd;
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
