// SPDX-License-Identifier: MIT OR Apache-2.0
//! Closing what a stranger can make slow to close.
//!
//! The last `close` of a TCP socket with `SO_LINGER` and unsent data waits as long as its owner has
//! said, whatever the flags of the descriptor; that of a file in user space waits for its server.
//! A process can send such a descriptor to any listener and close its own copy. The receiver then
//! waits when it closes the descriptor, and also when it closes a socket in whose queue the
//! descriptor lies unread. So a thread of their own closes descriptors of a kind that no message of
//! ours carries, and sockets whose other end is another user's. Before it closes a socket it takes
//! from it what makes it wait: the lingering, and the descriptors in its queue.
//!
//! Invariants
//! - C1: no call here waits, and none asks a file system, whose server may be a stranger's.
//! - C2: there are at most [`THREADS_MAX`] threads, each only while there is something to close. A
//!   stranger that keeps all of them waiting costs descriptors, not time.

use super::{Taken, take};
use crate::own_thread;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::fcntl_get_seals;
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown, sockopt};
use rustix::pipe::fcntl_getpipe_size;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Threads that close at a time.
const THREADS_MAX: usize = 16;
/// Messages that are taken from the queue of one socket. Our end of it is shut; the queue of a
/// socket that was in it may be filled for ever.
const MESSAGES_MAX: usize = 1024;

#[derive(Debug)]
struct Closers {
    waiting: VecDeque<OwnedFd>,
    threads: usize,
}

static CLOSERS: Mutex<Closers> = Mutex::new(Closers { waiting: VecDeque::new(), threads: 0 });

/// Closes a descriptor, some time (C1).
pub(super) fn close_later(descriptor: OwnedFd) {
    let mut closers = CLOSERS.lock().unwrap_or_else(PoisonError::into_inner);
    closers.waiting.push_back(descriptor);
    if closers.threads < THREADS_MAX && own_thread::spawn(c"bellwire-close", close_waiting).is_ok() {
        closers.threads += 1;
    }
}

fn close_waiting() {
    loop {
        let mut closers = CLOSERS.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(next) = closers.waiting.pop_front() else {
            closers.threads -= 1;
            return;
        };
        drop(closers);
        close(next);
    }
}

/// Closes a descriptor and, if it is a socket, what lies in its queue. May wait.
fn close(descriptor: OwnedFd) {
    let mut open = vec![descriptor];
    let mut bytes = vec![0; 1 << 16];
    while let Some(next) = open.pop() {
        // If its owner lets it linger again, this waits; that he has to do between these lines.
        let _ = sockopt::set_socket_linger(&next, None);
        for _ in 0..MESSAGES_MAX {
            // An error: it is no socket, or its queue is empty.
            let Ok(Taken { len, fds, .. }) = take(next.as_fd(), &mut bytes) else { break };
            if len == 0 && fds.is_empty() {
                break;
            }
            open.extend(fds);
        }
    }
}

/// Whether closing a descriptor cannot wait: memory, a pipe, or a pidfd. Each call here is answered
/// by the kernel from the descriptor alone (C1).
pub(super) fn closes_at_once(descriptor: BorrowedFd<'_>) -> bool {
    let is_pidfd = || {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(waitid(WaitId::PidFd(descriptor), look), Ok(_) | Err(Errno::CHILD))
    };
    fcntl_get_seals(descriptor).is_ok() || fcntl_getpipe_size(descriptor).is_ok() || is_pidfd()
}

/// One end of a connection. If the other end is another user's, a thread closes it (C1).
#[derive(Debug)]
pub struct Socket {
    /// Only gone while it is dropped.
    descriptor: Option<OwnedFd>,
    is_strangers: bool,
}

impl Socket {
    /// A connected socket. What it is not, or whose peer is not known, counts as a stranger's.
    pub fn new(descriptor: OwnedFd) -> Self {
        // Root, and this user, can stop the process in other ways, too.
        let own = rustix::process::geteuid().as_raw();
        let is_strangers = super::peer_credentials(descriptor.as_fd()).map_or(true, |peer| peer.uid != own && peer.uid != 0);
        Self { descriptor: Some(descriptor), is_strangers }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_ref().expect("open until it is dropped").as_fd()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let (Some(descriptor), true) = (self.descriptor.take(), self.is_strangers) {
            // The peer sees the end now, and sends nothing more.
            let _ = shutdown(&descriptor, Shutdown::Both);
            close_later(descriptor);
        }
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::super::{receive, send};
    use super::*;
    use crate::error::MemoryError;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    /// A TCP socket whose last `close` waits for an hour, and its peer.
    fn lingering() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, _) = listener.accept().unwrap();
        sockopt::set_socket_linger(&socket, Some(std::time::Duration::from_secs(3600))).unwrap();
        socket.set_nonblocking(true).unwrap();
        while socket.write(&[0; 1 << 16]).is_ok() {}
        (socket, peer)
    }

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn a_socket_that_lingers_keeps_no_receiver() {
        let (a, b) = pair();
        let (socket, _peer) = lingering();
        send(a.as_fd(), b"mine", &[socket.as_fd()]).unwrap();
        drop(socket);
        assert_eq!(receive(b.as_fd(), &mut [0; 16]).unwrap_err(), MemoryError::Truncated);
    }

    #[test]
    fn nor_does_one_that_was_not_received() {
        let (a, b) = pair();
        let (socket, _peer) = lingering();
        send(a.as_fd(), b"mine", &[socket.as_fd()]).unwrap();
        drop((socket, a));
        drop(Socket { descriptor: Some(b), is_strangers: true });
    }

    /// The threads end, because the lingering is taken from what they close: in its queue is
    /// another socket, in whose queue is one that lingers.
    #[test]
    fn what_lingers_in_queues_is_closed() {
        let ((a, b), (c, d)) = (pair(), pair());
        let (socket, mut peer) = lingering();
        send(c.as_fd(), b"inner", &[socket.as_fd()]).unwrap();
        send(a.as_fd(), b"outer", &[d.as_fd()]).unwrap();
        drop((socket, a, c, d));
        close(b);
        // It is closed: its peer reads what was sent, and the end.
        assert!(std::io::copy(&mut peer, &mut std::io::sink()).unwrap() > 0);
    }

    #[test]
    fn what_our_messages_carry_closes_at_once() {
        let memory = crate::region::Region::create("test", 4096, crate::region::RegionKind::Shared).unwrap();
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        let own = crate::pidfd::own().unwrap();
        assert!([memory.fd(), reader.as_fd(), own.as_fd()].into_iter().all(closes_at_once));
        let ended = std::process::Command::new("true").spawn().unwrap();
        let child = crate::pidfd::open(ended.id() as i32).unwrap();
        assert!(closes_at_once(child.as_fd()));
        assert!({ ended }.wait().unwrap().success(), "it was not waited for");
        assert!(closes_at_once(child.as_fd()));
        let device = std::fs::File::open("/dev/null").unwrap();
        let folder = std::fs::File::open("/dev/shm").unwrap();
        let process = std::fs::File::open("/proc/self").unwrap();
        let (socket, _) = pair();
        assert!(![device.as_fd(), folder.as_fd(), process.as_fd(), socket.as_fd()].into_iter().any(closes_at_once));
    }
}
