// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that need two real processes: descriptors handed over, seals against a peer that holds the
//! descriptor, bells, death, fork.
//!
//! A test starts this program again as its peer, which runs [`peer`] in the role given by the
//! environment and talks over a rendezvous socket.
#![cfg(not(loom))]

use bellwire_memory::MemoryError;
use bellwire_memory::event::{BellSet, PeerBell, pipe_of_bell};
use bellwire_memory::fd_passing::{self, Credentials, Received, Socket};
use bellwire_memory::pidfd;
use bellwire_memory::region::{Access, Region, RegionKind, RemoteRegion};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, ftruncate, open};
use rustix::io::Errno;
use std::os::fd::AsRawFd;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const ROLE: &str = "BELLWIRE_TEST_ROLE";
const NAME: &str = "BELLWIRE_TEST_NAME";
const PATIENCE: Duration = Duration::from_secs(20);
const LEN: usize = 1 << 16;

/// Waits until `fd` is readable.
fn wait_for(fd: BorrowedFd<'_>) {
    let limit = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    assert_eq!(poll(&mut fds, Some(&limit)), Ok(1), "nothing came");
}

fn receive(socket: &Socket) -> (Vec<u8>, Vec<OwnedFd>) {
    wait_for(socket.as_fd());
    let mut buffer = [0; 64];
    let Received { len, fds } = fd_passing::receive(socket.as_fd(), &mut buffer).unwrap();
    (buffer[..len].to_vec(), fds)
}

/// A peer process and the connection to it; killed when dropped.
struct Peer {
    process: Child,
    socket: Socket,
}

impl Peer {
    fn start(role: &str) -> Self {
        let name = format!("bellwire-os-{}-{role}", std::process::id());
        let listener = fd_passing::listen_abstract(name.as_bytes()).unwrap();
        let process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "peer", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(NAME, &name)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        wait_for(listener.as_fd());
        let socket = fd_passing::accept(listener.as_fd()).unwrap().unwrap();
        Self { process, socket }
    }

    fn ends_well(mut self) {
        fd_passing::send(self.socket.as_fd(), b"end", &[]).unwrap();
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Both fail if it has ended already, which is as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Not a test of its own: the other process of the tests below.
#[test]
fn peer() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let socket = fd_passing::connect_abstract(std::env::var(NAME).unwrap().as_bytes()).unwrap();
    match role.as_str() {
        "gives" => gives(&socket),
        "takes" => takes(&socket),
        "forks" => forks(&socket),
        other => panic!("no such role: {other}"),
    }
}

/// Gives a region, a pidfd and a bell, and answers the first ring.
fn gives(socket: &Socket) {
    let region = Region::create("given", LEN, RegionKind::WriterOwned).unwrap();
    region.bytes().copy_in(0, b"before").unwrap();
    let mut bells = BellSet::create().unwrap();
    let (listener, ringer) = pipe_of_bell().unwrap();
    bells.add(1, listener).unwrap();
    let me = pidfd::own().unwrap();
    fd_passing::send(socket.as_fd(), b"hello", &[region.fd(), me.as_fd(), ringer.as_fd()]).unwrap();
    wait_for(bells.fd());
    assert!(bells.clear());
    region.bytes().copy_in(0, b"after!").unwrap();
    fd_passing::send(socket.as_fd(), b"written", &[]).unwrap();
    assert_eq!(receive(socket).0, b"end");
}

/// Takes shared memory, tries to resize it, writes into it.
fn takes(socket: &Socket) {
    let (bytes, mut fds) = receive(socket);
    assert_eq!((bytes.as_slice(), fds.len()), (&b"memory"[..], 1));
    let memfd = fds.remove(0);
    for len in [0, 2 * LEN as u64] {
        assert_eq!(ftruncate(&memfd, len), Err(Errno::PERM));
    }
    let memory = RemoteRegion::map(memfd, LEN, LEN, Access::ReadWrite).unwrap();
    memory.bytes().copy_in(LEN - 5, b"there").unwrap();
    fd_passing::send(socket.as_fd(), b"written", &[]).unwrap();
    assert_eq!(receive(socket).0, b"end");
}

/// Leaves a child behind that keeps the socket open, then waits to be killed.
fn forks(socket: &Socket) {
    let me = pidfd::own().unwrap();
    // SAFETY: the child calls nothing but poll and _exit, which are async-signal-safe.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let mut hang_up = libc::pollfd { fd: socket.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd; the process ends at once after.
        unsafe {
            libc::poll(&raw mut hang_up, 1, 20_000);
            libc::_exit(0);
        }
    }
    fd_passing::send(socket.as_fd(), b"forked", &[me.as_fd()]).unwrap();
    std::thread::sleep(PATIENCE);
}

#[test]
fn a_peers_region_pidfd_and_bell() {
    let peer = Peer::start("gives");
    let (bytes, mut fds) = receive(&peer.socket);
    assert_eq!((bytes.as_slice(), fds.len()), (&b"hello"[..], 3));
    let bell = PeerBell::from_fd(fds.pop().unwrap()).unwrap();
    let their_pidfd = fds.pop().unwrap();
    let memfd = fds.pop().unwrap();

    let Credentials { pid, uid, .. } = fd_passing::peer_credentials(peer.socket.as_fd()).unwrap();
    assert_eq!(pid as u32, peer.process.id());
    assert_eq!(uid, rustix::process::getuid().as_raw());
    assert_eq!(pidfd::process_id(their_pidfd.as_fd()), Ok(Some(pid)));

    refuses_writers(&memfd);
    let region = RemoteRegion::map(memfd, LEN, LEN, Access::ReadOnly).unwrap();
    let mut text = [0; 6];
    region.bytes().copy_out(0, &mut text).unwrap();
    assert_eq!(&text, b"before");
    bell.ring().unwrap();
    assert_eq!(receive(&peer.socket).0, b"written");
    region.bytes().copy_out(0, &mut text).unwrap();
    assert_eq!(&text, b"after!");

    assert!(!pidfd::has_exited(their_pidfd.as_fd()).unwrap());
    peer.ends_well();
    assert!(pidfd::has_exited(their_pidfd.as_fd()).unwrap());
    region.bytes().copy_out(0, &mut text).unwrap();
    assert_eq!(&text, b"after!", "the mapping outlives its maker");
    bell.ring().unwrap();
}

/// Everything that the holder of a `WriterOwned` region's descriptor could try against its content.
fn refuses_writers(memfd: &OwnedFd) {
    let again = || memfd.try_clone().unwrap();
    let refused = RemoteRegion::map(again(), LEN, LEN, Access::ReadWrite).map(|_| ());
    assert!(matches!(refused, Err(MemoryError::Os { call: "mmap", .. })), "{refused:?}");
    let anew = open(format!("/proc/self/fd/{}", memfd.as_raw_fd()), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
    for fd in [memfd, &anew] {
        assert_eq!(fallocate(fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, 4096), Err(Errno::PERM));
        assert_eq!(rustix::io::pwrite(fd, b"x", 0), Err(Errno::PERM));
        assert_eq!(ftruncate(fd, 0), Err(Errno::PERM));
    }
    assert!(RemoteRegion::map(anew, LEN, LEN, Access::ReadWrite).is_err());
    for (min, max) in [(LEN + 1, LEN * 2), (1, LEN - 1)] {
        let refused = RemoteRegion::map(again(), min, max, Access::ReadOnly).map(|_| ());
        assert_eq!(refused, Err(MemoryError::WrongSize { len: LEN as u64, min: min as u64, max: max as u64 }));
    }
}

#[test]
fn memory_shared_with_a_peer() {
    let region = Region::create("shared", LEN, RegionKind::Shared).unwrap();
    let peer = Peer::start("takes");
    fd_passing::send(peer.socket.as_fd(), b"memory", &[region.fd()]).unwrap();
    assert_eq!(receive(&peer.socket).0, b"written");
    let mut text = [0; 5];
    region.bytes().copy_out(LEN - 5, &mut text).unwrap();
    assert_eq!(&text, b"there");
    peer.ends_well();
}

#[test]
fn death_is_told_at_once_though_a_child_keeps_the_socket() {
    let mut peer = Peer::start("forks");
    let (_, mut fds) = receive(&peer.socket);
    let their_pidfd = fds.pop().unwrap();
    assert!(!pidfd::has_exited(their_pidfd.as_fd()).unwrap());
    let killed = Instant::now();
    peer.process.kill().unwrap();
    wait_for(their_pidfd.as_fd());
    let told = killed.elapsed();
    assert!(pidfd::has_exited(their_pidfd.as_fd()).unwrap());
    assert!(told < Duration::from_secs(10), "told after {told:?}");
    let silence = fd_passing::receive(peer.socket.as_fd(), &mut [0; 8]).map(|_| ());
    assert_eq!(silence, Err(MemoryError::WouldBlock), "the child keeps the connection open");
}

/// How a forked child ends that reads the first byte at `at`: its exit code, or the signal that
/// killed it.
fn child_reads(at: *const u8) -> Result<i32, i32> {
    // SAFETY: the child calls nothing but async-signal-safe functions; the read may kill it, which
    // is the point.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: in the child, nothing but async-signal-safe functions. The handler of the Rust
        // runtime is taken off so that it dies silently, and leaves no core.
        unsafe {
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
            libc::_exit(i32::from(at.read_volatile()));
        }
    }
    let mut status = 0;
    // SAFETY: our own child, and a valid place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    if libc::WIFSIGNALED(status) { Err(libc::WTERMSIG(status)) } else { Ok(libc::WEXITSTATUS(status)) }
}

#[test]
fn children_inherit_user_memory_but_no_lines() {
    let lines = Region::create("lines", LEN, RegionKind::WriterOwned).unwrap();
    let user = Region::create("user", LEN, RegionKind::Shared).unwrap();
    let remote = RemoteRegion::map(user.fd().try_clone_to_owned().unwrap(), LEN, LEN, Access::ReadWrite).unwrap();
    user.bytes().copy_in(0, &[42]).unwrap();
    assert_eq!(child_reads(user.base()), Ok(42));
    assert_eq!(child_reads(lines.base()), Err(libc::SIGSEGV));
    assert_eq!(child_reads(remote.base()), Err(libc::SIGSEGV));
}
