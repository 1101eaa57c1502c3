// SPDX-License-Identifier: MIT OR Apache-2.0
//! The character device of connection management, `/dev/infiniband/rdma_cm`, beneath the genuine
//! librdmacm: each opened file is an event channel, each `write` a command of the kernel's user
//! interface (version 4), whose answer goes to an address that the command names.
//!
//! | file | concern |
//! |---|---|
//! | `commands.rs` | the commands |
//! | `parts.rs` | the devices of a channel, and which of them has an identifier |
//! | `shapes.rs`, `address.rs` | bytes of commands and answers; addresses, and what the host says of them |
//! | `memory.rs` | the program's memory, by addresses that may be wrong |
//! | `kern.rs` | conversions that librdmacm asks of libibverbs |
//!
//! Each device of a process manages the identifiers of its address, on a port that the program has
//! opened, or one that is opened for this and that the program's next `ibv_open_device` takes over.
//! So connections are made by the token and thread of the device that they are for. A channel has a
//! part on each device that it needs; the first device has the identifiers without an address.
//!
//! Invariant
//! - M1: memory that a command names is only touched by calls of the kernel that check the address.

mod address;
mod commands;
mod kern;
mod memory;
mod parts;
mod shapes;
mod ways;

use crate::device_file::{DeviceFile, Errno, OpenFile};
use bellwire_verbs::Bell;
use core::ffi::{c_int, c_void};
use parts::CmFile;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// `rdma_cm`.
pub(crate) struct RdmaCm;

/// The open files, by their inodes: for commands that name another file by a descriptor.
static FILES: Mutex<Vec<(u64, Weak<CmFile>)>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn errno(e: rustix::io::Errno) -> Errno {
    Errno(e.raw_os_error())
}

fn inode(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    rustix::fs::fstat(fd).map(|s| s.st_ino).map_err(errno)
}

/// The file behind a descriptor.
fn file_of(fd: c_int) -> Option<Arc<CmFile>> {
    if fd < 0 {
        return None;
    }
    // SAFETY: `fstat` alone uses the descriptor, during this call; a closed one gives EBADF.
    let inode = inode(unsafe { BorrowedFd::borrow_raw(fd) }).ok()?;
    lock(&FILES).iter().find(|(i, _)| *i == inode).and_then(|(_, file)| file.upgrade())
}

impl DeviceFile for RdmaCm {
    fn open(&self, _flags: c_int) -> Result<(OwnedFd, Arc<dyn OpenFile>), Errno> {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
        let (own, other) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).map_err(errno)?;
        let bell = Bell::new(own.try_clone().map_err(|_| Errno(libc::EMFILE))?, other);
        let number = inode(own.as_fd())?;
        let file = Arc::new(CmFile::new(bell)?);
        let mut files = lock(&FILES);
        files.retain(|(_, f)| f.strong_count() != 0);
        files.push((number, Arc::downgrade(&file)));
        Ok((own, file))
    }
}

impl OpenFile for CmFile {
    unsafe fn write(&self, fd: BorrowedFd<'_>, from: *const c_void, length: usize) -> Result<usize, Errno> {
        let mut room = [0; shapes::COMMAND_MAX];
        if length < shapes::HEAD {
            return Err(Errno(libc::EINVAL));
        }
        // The longest command bounds the bytes that are read.
        let command = &mut room[..length.min(shapes::COMMAND_MAX)];
        memory::copy_in(command, from.expose_provenance() as u64)?;
        commands::run(self, fd, command, length)?;
        Ok(length)
    }
}
