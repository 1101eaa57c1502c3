// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use rustix::fd::AsFd;
use rustix::net::socketpair;

fn pair() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

/// A name that no other test or run has.
fn name(what: &str) -> Vec<u8> {
    format!("bellwire-test-{}-{what}", std::process::id()).into_bytes()
}

#[test]
fn bytes_and_descriptors_arrive_together() {
    let (a, b) = pair();
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    send(a.as_fd(), b"two", &[reader.as_fd(), writer.as_fd()]).unwrap();
    send(a.as_fd(), b"none", &[]).unwrap();
    let mut buffer = [0; 16];
    let got = receive(b.as_fd(), &mut buffer).unwrap();
    assert_eq!((&buffer[..got.len], got.fds.len()), (&b"two"[..], 2));
    rustix::io::write(&got.fds[1], b"x").unwrap();
    assert_eq!(rustix::io::read(&reader, &mut buffer).unwrap(), 1);
    assert!(rustix::io::fcntl_getfd(&got.fds[0]).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    let got = receive(b.as_fd(), &mut buffer).unwrap();
    assert_eq!((&buffer[..got.len], got.fds.len()), (&b"none"[..], 0));
}

#[test]
fn nothing_waits_even_on_blocking_sockets() {
    let (a, b) = pair();
    let mut buffer = [0; 16];
    assert_eq!(receive(b.as_fd(), &mut buffer).unwrap_err(), MemoryError::WouldBlock);
    let big = [0u8; 4096];
    let full = (0..100_000).find_map(|_| send(a.as_fd(), &big, &[]).err());
    assert_eq!(full, Some(MemoryError::WouldBlock));
}

#[test]
fn the_end_is_told() {
    let (a, b) = pair();
    drop(a);
    assert_eq!(receive(b.as_fd(), &mut [0; 4]).unwrap_err(), MemoryError::PeerClosed);
    assert_eq!(send(b.as_fd(), b"x", &[]), Err(MemoryError::PeerClosed));
}

#[test]
fn limits_of_the_sender() {
    let (a, _b) = pair();
    let many = [a.as_fd(); FDS_MAX + 1];
    assert_eq!(send(a.as_fd(), b"x", &many), Err(MemoryError::TooManyDescriptors { given: 9, max: 8 }));
    assert_eq!(send(a.as_fd(), b"", &[]), Err(MemoryError::BadLength { len: 0 }));
    assert_eq!(send(a.as_fd(), b"x", &many[..FDS_MAX]), Ok(()));
}

/// Sends as a peer would that does not keep to the limits.
fn send_anything(socket: &OwnedFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(64))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).unwrap();
}

/// Whether every copy of the pipe's writing end but `ours` is closed: then dropping ours ends the
/// pipe.
fn all_copies_closed(reader: &OwnedFd, ours: OwnedFd) -> bool {
    drop(ours);
    rustix::fs::fcntl_setfl(reader, rustix::fs::OFlags::NONBLOCK).unwrap();
    rustix::io::read(reader, &mut [0; 1]) == Ok(0)
}

#[test]
fn too_much_is_an_error_that_leaks_nothing() {
    for count in [FDS_MAX + 1, FDS_MAX + 2, FDS_MAX + 3, 64] {
        let (a, b) = pair();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        send_anything(&a, b"x", &vec![writer.as_fd(); count]);
        assert_eq!(receive(b.as_fd(), &mut [0; 4]).unwrap_err(), MemoryError::Truncated, "{count} descriptors");
        assert!(all_copies_closed(&reader, writer));
    }
    let (a, b) = pair();
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    send_anything(&a, b"too long", &[writer.as_fd()]);
    assert_eq!(receive(b.as_fd(), &mut [0; 4]).unwrap_err(), MemoryError::Truncated);
    send_anything(&a, b"", &[writer.as_fd()]);
    assert_eq!(receive(b.as_fd(), &mut [0; 4]).unwrap_err(), MemoryError::PeerClosed);
    assert!(all_copies_closed(&reader, writer));
}

#[test]
fn credentials_of_this_process() {
    let (a, _b) = pair();
    let who = peer_credentials(a.as_fd()).unwrap();
    assert_eq!(u32::try_from(who.pid).unwrap(), std::process::id());
    assert_eq!(who.uid, rustix::process::geteuid().as_raw());
    assert_eq!(who.gid, rustix::process::getegid().as_raw());
    assert!(peer_credentials(rustix::pipe::pipe().unwrap().0.as_fd()).is_err());
}

#[test]
fn names() {
    let name = name("names");
    assert_eq!(connect_abstract(&name).unwrap_err(), MemoryError::ConnectionRefused);
    let listener = listen_abstract(&name).unwrap();
    assert_eq!(listen_abstract(&name).unwrap_err(), MemoryError::AddressInUse);
    assert!(accept(listener.as_fd()).unwrap().is_none());
    let here = connect_abstract(&name).unwrap();
    let there = accept(listener.as_fd()).unwrap().unwrap();
    send(here.as_fd(), b"hello", &[]).unwrap();
    let mut buffer = [0; 8];
    assert_eq!(receive(there.as_fd(), &mut buffer).unwrap().len, 5);
    drop(listener);
    assert_eq!(connect_abstract(&name).unwrap_err(), MemoryError::ConnectionRefused);
    assert_eq!(listen_abstract(b"").unwrap_err(), MemoryError::BadName { len: 0, max: NAME_MAX });
    assert_eq!(listen_abstract(&[7; NAME_MAX + 1]).unwrap_err(), MemoryError::BadName { len: 108, max: NAME_MAX });
    assert!(listen_abstract(&[b'n'; NAME_MAX]).is_ok());
}

#[test]
fn a_full_backlog_is_not_a_refusal() {
    let name = name("backlog");
    let _listener = listen_abstract(&name).unwrap();
    let mut kept = Vec::new();
    let error = loop {
        match connect_abstract(&name) {
            Ok(socket) => kept.push(socket),
            Err(error) => break error,
        }
        assert!(kept.len() < 1000);
    };
    assert_eq!(error, MemoryError::WouldBlock);
    assert!(kept.len() >= BACKLOG as usize);
}
