// SPDX-License-Identifier: MIT OR Apache-2.0
//! The five calls of bpf(2) that are needed: a map of sockets, a program, and its link to an
//! interface, which ends with its descriptor.

use super::filter::Instruction;
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::io;

const MAP_CREATE: i64 = 0;
const MAP_UPDATE: i64 = 2;
const PROG_LOAD: i64 = 5;
const LINK_CREATE: i64 = 28;
const LINK_DETACH: i64 = 34;

const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;

/// The argument of bpf(2): as much of it as these calls use. The kernel takes bytes that it does
/// not know if they are zero.
#[repr(C, align(8))]
struct Attributes([u8; 72]);

impl Attributes {
    fn new() -> Self {
        Self([0; 72])
    }

    fn u32(mut self, at: usize, value: u32) -> Self {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn address<T: ?Sized>(mut self, at: usize, of: &T) -> Self {
        self.0[at..at + 8].copy_from_slice(&(core::ptr::from_ref(of).cast::<u8>().expose_provenance() as u64).to_ne_bytes());
        self
    }

    /// # Safety
    /// What the call reads by an address in here lives, and is what the call takes it for.
    unsafe fn call(&self, command: i64) -> io::Result<i32> {
        // SAFETY: the caller's; the kernel reads these bytes.
        let result = unsafe { libc::syscall(libc::SYS_bpf, command, self.0.as_ptr(), self.0.len()) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
    }

    /// The same for a call that makes a descriptor.
    ///
    /// # Safety
    /// As there.
    unsafe fn make(&self, command: i64) -> io::Result<OwnedFd> {
        // SAFETY: the caller's.
        let fd = unsafe { self.call(command) }?;
        // SAFETY: the call has just made it, for nobody else.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// A map from queues to AF_XDP sockets.
pub(super) fn map_of_sockets(queues: u32) -> io::Result<OwnedFd> {
    let attributes = Attributes::new().u32(0, MAP_TYPE_XSKMAP).u32(4, 4).u32(8, 4).u32(12, queues);
    // SAFETY: there is no address in it.
    unsafe { attributes.make(MAP_CREATE) }
}

/// Puts the socket of a queue into the map.
pub(super) fn put(map: BorrowedFd<'_>, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
    let value = socket.as_raw_fd();
    let attributes = Attributes::new().u32(0, map.as_raw_fd() as u32).address(8, &queue).address(16, &value);
    // SAFETY: key and value of four bytes, as the map has them, live here.
    unsafe { attributes.call(MAP_UPDATE) }.map(drop)
}

/// Loads a program. What the kernel finds wrong with it is in the error.
pub(super) fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    let license = *b"Dual MIT/GPL\0";
    let attributes = Attributes::new().u32(0, PROG_TYPE_XDP).u32(4, program.len() as u32).address(8, program).address(16, &license);
    // SAFETY: the instructions, as many as said, and a string with its end live here.
    unsafe { attributes.make(PROG_LOAD) }
}

/// Has an interface run a program until the descriptor is closed. `flags` are those of
/// `XDP_FLAGS_*`.
pub(super) fn attach(program: BorrowedFd<'_>, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    let attributes = Attributes::new().u32(0, program.as_raw_fd() as u32).u32(4, interface).u32(8, ATTACH_XDP).u32(12, flags);
    // SAFETY: there is no address in it.
    unsafe { attributes.make(LINK_CREATE) }
}

/// Has the interface no longer run the program, whoever has the link's descriptor.
pub(super) fn detach(link: BorrowedFd<'_>) {
    let attributes = Attributes::new().u32(0, link.as_raw_fd() as u32);
    // SAFETY: there is no address in it.
    let _ = unsafe { attributes.call(LINK_DETACH) };
}
