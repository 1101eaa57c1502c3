// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rendezvous sockets: UNIX sockets of kind SEQPACKET that carry one message with its descriptors
//! at a time.
//!
//! Names are in the abstract namespace: nothing is left behind by a crash, and no directory has to
//! be writable. Anybody in the same network namespace may take a name first, so a name proves
//! nothing: [`peer_credentials`] does. SEQPACKET keeps messages apart, so a partial or merged
//! message is impossible and the end of the connection is distinct.
//!
//! Nothing here waits: every call asks for it, whatever the socket's flags are. All descriptors are
//! close-on-exec. Called when links are made and broken, never on the data path.

mod closing;

pub use closing::Socket;

use crate::error::MemoryError;
use core::mem::MaybeUninit;
use rustix::cmsg_space;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept_with, bind, connect, listen, recvmsg, sendmsg, socket_with,
};

/// Most descriptors in one message.
pub const FDS_MAX: usize = 8;

/// Most descriptors that the kernel carries in one message.
const KERNEL_FDS_MAX: usize = 253;

/// Most bytes of an abstract name: `sun_path` without its leading zero.
pub const NAME_MAX: usize = 107;

/// Connections that the kernel keeps for a listener that has not accepted them yet.
const BACKLOG: i32 = 128;

/// A socket option of Linux 4.13 that the `libc` crate does not have.
const SO_PEERGROUPS: i32 = 59;

/// A message taken from a socket.
#[derive(Debug)]
pub struct Received {
    /// Bytes written to the caller's buffer: at least one.
    pub len: usize,
    /// The descriptors that came with it, in the order sent; at most [`FDS_MAX`].
    pub fds: Vec<OwnedFd>,
}

/// The process that made the socket's other end, as the kernel saw it then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Process id in this pid namespace; 0 if it is in none that we can see.
    pub pid: i32,
    /// Effective user id, mapped to this user namespace.
    pub uid: u32,
    /// Effective group id, mapped to this user namespace.
    pub gid: u32,
}

/// Sends one message, whole or not at all, with copies of up to [`FDS_MAX`] descriptors.
///
/// # Errors
/// [`MemoryError::WouldBlock`]: the peer's queue is full; try again when writable. [`MemoryError::PeerClosed`].
/// [`MemoryError::TooManyDescriptors`]; [`MemoryError::BadLength`] for an empty message, which
/// could not be told from the end.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), MemoryError> {
    if fds.len() > FDS_MAX {
        return Err(MemoryError::TooManyDescriptors { given: fds.len(), max: FDS_MAX });
    }
    if bytes.is_empty() {
        return Err(MemoryError::BadLength { len: 0 });
    }
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        let fits = control.push(SendAncillaryMessage::ScmRights(fds));
        assert!(fits, "the space is made for FDS_MAX descriptors");
    }
    loop {
        match sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(sent) => {
                assert_eq!(sent, bytes.len(), "SEQPACKET sends whole messages");
                return Ok(());
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(MemoryError::os("sendmsg", errno)),
        }
    }
}

/// Takes one message.
///
/// # Errors
/// [`MemoryError::WouldBlock`]: nothing there. [`MemoryError::PeerClosed`]: the end (or an empty message, which nobody may send).
/// [`MemoryError::Truncated`]: more bytes than `buffer` holds, more descriptors than [`FDS_MAX`],
/// or one that is neither pipe nor memory nor pidfd. All of the message is gone, its descriptors
/// closed, by a thread if that may wait.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Received, MemoryError> {
    let Taken { len, flags, fds } = take(socket, buffer).map_err(|errno| MemoryError::os("recvmsg", errno))?;
    if !fds.iter().all(|fd| closing::closes_at_once(fd.as_fd())) {
        fds.into_iter().for_each(closing::close_later);
        return Err(MemoryError::Truncated);
    }
    if flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) || fds.len() > FDS_MAX {
        return Err(MemoryError::Truncated);
    }
    if len == 0 {
        return Err(MemoryError::PeerClosed);
    }
    Ok(Received { len, fds })
}

/// A message off a socket, with all its descriptors.
struct Taken {
    len: usize,
    flags: ReturnFlags,
    fds: Vec<OwnedFd>,
}

/// Takes one message. Its descriptors are owned before anything can return.
fn take(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Taken, Errno> {
    // As many as the kernel carries: those that find no room it would close itself, here.
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(KERNEL_FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT) {
            Err(Errno::INTR) => {}
            result => break result?,
        }
    };
    let mut fds = Vec::new();
    for item in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = item {
            fds.extend(rights);
        }
    }
    Ok(Taken { len: message.bytes, flags: message.flags, fds })
}

/// The process that made the other end: for a connecting side its listener, for an accepted one the
/// process that connected.
///
/// # Errors
/// [`MemoryError::Os`] if `socket` is not a connected UNIX socket.
pub fn peer_credentials(socket: BorrowedFd<'_>) -> Result<Credentials, MemoryError> {
    // By libc, since rustix's type cannot hold the pid 0 that a process of another pid namespace
    // has.
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which `credentials` has, and any bytes are a
    // valid value of it.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut credentials).cast(), &raw mut len) };
    if result != 0 {
        let errno = Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL);
        return Err(MemoryError::os("getsockopt(SO_PEERCRED)", errno));
    }
    Ok(Credentials { pid: credentials.pid, uid: credentials.uid, gid: credentials.gid })
}

/// The supplementary groups of the process that made the other end, mapped to this user namespace;
/// none if the kernel does not tell them.
pub fn peer_groups(socket: BorrowedFd<'_>) -> Vec<u32> {
    let mut groups: Vec<libc::gid_t> = vec![0; 64];
    loop {
        let mut len = size_of_val(groups.as_slice()) as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes, which `groups` has, and any bytes are
        // valid numbers.
        let result = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_PEERGROUPS, groups.as_mut_ptr().cast(), &raw mut len) };
        let there = len as usize / size_of::<libc::gid_t>();
        if result == 0 {
            groups.truncate(there);
            return groups;
        }
        if there <= groups.len() {
            return Vec::new();
        }
        // More than there was room for: the kernel has said how many.
        groups.resize(there, 0);
    }
}

/// Listens under an abstract name of 1 to [`NAME_MAX`] bytes. The name is free again when the last
/// copy of the socket is closed.
///
/// # Errors
/// [`MemoryError::AddressInUse`]; [`MemoryError::BadName`]; [`MemoryError::Os`].
pub fn listen_abstract(name: &[u8]) -> Result<OwnedFd, MemoryError> {
    let address = address_of(name)?;
    let socket = new_socket()?;
    bind(&socket, &address).map_err(MemoryError::from_call("bind"))?;
    listen(&socket, BACKLOG).map_err(MemoryError::from_call("listen"))?;
    Ok(socket)
}

/// Connects to a listener. The connection stands at return, though the listener may not have
/// accepted it yet.
///
/// # Errors
/// [`MemoryError::ConnectionRefused`]: nobody listens there. [`MemoryError::WouldBlock`]: the listener's backlog is full; try again later.
/// [`MemoryError::BadName`]; [`MemoryError::Os`].
pub fn connect_abstract(name: &[u8]) -> Result<Socket, MemoryError> {
    let address = address_of(name)?;
    let socket = new_socket()?;
    loop {
        match connect(&socket, &address) {
            Ok(()) => return Ok(Socket::new(socket)),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(MemoryError::os("connect", errno)),
        }
    }
}

/// Takes the next connection, if there is one.
///
/// # Errors
/// [`MemoryError::Os`], such as no descriptors left; the connection then stays in the backlog.
pub fn accept(listener: BorrowedFd<'_>) -> Result<Option<Socket>, MemoryError> {
    loop {
        match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => return Ok(Some(Socket::new(socket))),
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR | Errno::CONNABORTED) => {}
            Err(errno) => return Err(MemoryError::os("accept4", errno)),
        }
    }
}

fn address_of(name: &[u8]) -> Result<SocketAddrUnix, MemoryError> {
    let bad = MemoryError::BadName { len: name.len(), max: NAME_MAX };
    // An empty name would mean "choose one for me".
    if name.is_empty() || name.len() > NAME_MAX {
        return Err(bad);
    }
    SocketAddrUnix::new_abstract_name(name).map_err(|_| bad)
}

fn new_socket() -> Result<OwnedFd, MemoryError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(MemoryError::from_call("socket"))
}

#[cfg(all(test, not(loom), not(miri)))]
#[path = "fd_passing/tests.rs"]
mod tests;
