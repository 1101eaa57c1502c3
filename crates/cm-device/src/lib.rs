// SPDX-License-Identifier: MIT OR Apache-2.0
//! The character device of connection management, `/dev/infiniband/rdma_cm`, beneath the genuine
//! librdmacm: each opened file is an event channel, each `write` a command of the kernel's user
//! interface (version 4), whose answer goes to an address that the command names.
//!
//! | file | concern |
//! |---|---|
//! | `commands.rs` | the commands |
//! | `parts.rs` | the devices of a channel, and which of them has an identifier |
//! | `shapes.rs`, `address.rs` | bytes of commands and answers; addresses in them |
//! | `memory.rs` | the program's memory, by addresses that may be wrong |
//! | `ways.rs` | what the host says of addresses |
//! | `device_file.rs` | the trait of a character device below `/dev/infiniband` |
//!
//! It says nothing of how a program's calls come here (`ffi/verbs/src/files.rs`), nor of which
//! devices there are ([`Devices`]).
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
mod device_file;
mod memory;
mod parts;
mod shapes;
mod ways;

use bellwire_verbs::{Bell, Gid, Port};
use core::ffi::{c_int, c_void};
pub use device_file::{DeviceFile, Errno, OpenFile};
use parts::{CmFile, Ports};
pub use shapes::QP_ATTRIBUTES;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A device of this process, on which connections are managed.
pub trait Device: Send + Sync {
    /// Its address, which stays the same.
    fn gid(&self) -> Gid;
    /// Its identifier, in the order of this machine.
    fn guid(&self) -> u64;
    /// The payload of its packets: 1 for 256 bytes to 5 for 4096.
    fn mtu_code(&self) -> u8;
    /// Whether it was taken out.
    fn is_removed(&self) -> bool;
    /// A NIC that is open, or one that is opened for this.
    ///
    /// # Errors
    /// It cannot be opened. The reason has been told to the user.
    fn open_port(&'static self) -> Result<Arc<Port>, Errno>;
}

/// The devices of this process, by their numbers from 0 on. The list stays the same.
pub trait Devices: Send + Sync {
    /// The device of a number. `None`: there are fewer.
    fn device(&self, index: usize) -> Option<&'static dyn Device>;
}

impl dyn Devices + '_ {
    /// Those that are there, and their numbers.
    fn present(&self) -> impl Iterator<Item = (usize, &'static dyn Device)> {
        (0..).map_while(|index| Some((index, self.device(index)?))).filter(|(_, device)| !device.is_removed())
    }

    /// The number of the device that has an address.
    fn at(&self, gid: &Gid) -> Option<usize> {
        self.present().find(|(_, device)| device.gid() == *gid).map(|(index, _)| index)
    }
}

/// `rdma_cm`.
pub struct RdmaCm {
    host: Arc<Host>,
}

/// What the open files have in common.
struct Host {
    devices: &'static dyn Devices,
    ports: Ports,
    /// By their inodes: for commands that name another file by a descriptor.
    files: Mutex<Vec<(u64, Weak<CmFile>)>>,
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn errno(e: rustix::io::Errno) -> Errno {
    Errno(e.raw_os_error())
}

fn inode(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    rustix::fs::fstat(fd).map(|s| s.st_ino).map_err(errno)
}

impl Host {
    /// The file behind a descriptor.
    fn file_of(&self, fd: c_int) -> Option<Arc<CmFile>> {
        if fd < 0 {
            return None;
        }
        // SAFETY: `fstat` alone uses the descriptor, during this call; a closed one gives EBADF.
        let inode = inode(unsafe { BorrowedFd::borrow_raw(fd) }).ok()?;
        lock(&self.files).iter().find(|(i, _)| *i == inode).and_then(|(_, file)| file.upgrade())
    }
}

impl RdmaCm {
    /// The device file of a process's devices.
    pub fn new(devices: &'static dyn Devices) -> Self {
        Self { host: Arc::new(Host { devices, ports: Ports::default(), files: Mutex::default() }) }
    }
}

impl DeviceFile for RdmaCm {
    fn open(&self, _flags: c_int) -> Result<(OwnedFd, Arc<dyn OpenFile>), Errno> {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
        let (own, other) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).map_err(errno)?;
        let bell = Bell::new(own.try_clone().map_err(|_| Errno(libc::EMFILE))?, other);
        let number = inode(own.as_fd())?;
        let file = Arc::new(CmFile::new(Arc::clone(&self.host), bell)?);
        let mut files = lock(&self.host.files);
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
