// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bells that ring, and peers that spoil theirs.
use super::*;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{fcntl_getfl, fcntl_setfl};

fn rings(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
}

#[test]
fn rings_until_cleared() {
    let bell = Bell::create().unwrap();
    assert!(!bell.clear().unwrap());
    bell.ring().unwrap();
    bell.ring().unwrap();
    assert!(bell.clear().unwrap());
    assert!(!bell.clear().unwrap());
}

/// A set with one bell, the bell as its peer has it, and the raw end that was sent.
fn one(reads: bool) -> (BellSet, PeerBell, OwnedFd) {
    let mut set = BellSet::create().unwrap();
    set.reads |= reads;
    let (listener, ringer) = pipe_of_bell().unwrap();
    set.add(7, listener).unwrap();
    let bell = PeerBell::from_fd(ringer.try_clone().unwrap()).unwrap();
    (set, bell, ringer)
}

#[test]
fn every_ring_is_heard_however_many_there_are() {
    for reads in [false, true] {
        let (set, bell, _raw) = one(reads);
        assert!(!rings(set.fd()) && !set.clear());
        // More than a pipe holds.
        for _ in 0..3 * PIPE_BYTES {
            bell.ring().unwrap();
            assert!(rings(set.fd()) && set.clear());
            assert!(!rings(set.fd()) && !set.clear());
        }
        for _ in 0..3 * PIPE_BYTES {
            bell.ring().unwrap();
        }
        assert!(rings(set.fd()) && set.clear() && !rings(set.fd()));
        bell.ring().unwrap();
        assert!(set.clear());
    }
}

#[test]
fn a_bell_rung_before_it_is_added_is_heard() {
    let mut set = BellSet::create().unwrap();
    let (listener, ringer) = pipe_of_bell().unwrap();
    PeerBell::from_fd(ringer).unwrap().ring().unwrap();
    set.add(1, listener).unwrap();
    assert!(set.clear() && !set.clear());
}

#[test]
fn a_peer_that_spoils_its_bell_stops_nobody() {
    let (mut set, bell, raw) = one(false);
    let (listener, ringer) = pipe_of_bell().unwrap();
    set.add(8, listener).unwrap();
    let honest = PeerBell::from_fd(ringer).unwrap();
    // Full, and blocking as far as the peer's open file goes.
    while write(&raw, &[1; 100]).is_ok() {}
    fcntl_setfl(&raw, OFlags::empty()).unwrap();
    for _ in 0..3 {
        bell.ring().unwrap();
    }
    set.clear();
    assert!(fcntl_getfl(&bell.pipe).unwrap().contains(OFlags::NONBLOCK));
    honest.ring().unwrap();
    assert!(set.clear());
    // It reads what there is, and closes.
    empty(raw.as_fd());
    drop(raw);
    bell.ring().unwrap();
    set.remove(7);
    bell.ring().unwrap();
    assert!(!set.clear());
    honest.ring().unwrap();
    assert!(set.clear());
}

#[test]
fn a_full_pipe_still_wakes() {
    let (set, bell, raw) = one(false);
    while write(&raw, &[1; 64]).is_ok() {}
    set.clear();
    bell.ring().unwrap();
    assert!(rings(set.fd()) && set.clear());
}

#[test]
fn other_descriptors_are_refused() {
    let refused = |fd: OwnedFd| assert_eq!(PeerBell::from_fd(fd).map(|_| ()), Err(MemoryError::NotBell));
    refused(crate::pidfd::own().unwrap());
    refused(Bell::create().unwrap().eventfd);
    refused(std::fs::File::open("/dev/null").unwrap().into());
    refused(std::fs::File::open("/").unwrap().into());
}
