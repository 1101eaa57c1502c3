// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use crate::Attach;
use crate::shm::message;
use crate::shm::{ProtectionMode, ShmConfig};
use crate::users::Allow;

fn address(host: &[u8], discriminator: &[u8]) -> NetAddress {
    NetAddress::new(host, discriminator).unwrap()
}

fn wire() -> ShmWire {
    ShmWire::open(ShmConfig { mode: ProtectionMode::Guarded, host: vec![1], attach: Attach::Never, allow: Allow::NOBODY, network: 0 }).unwrap()
}

/// Turns until the wire says something.
fn next_event(wire: &mut ShmWire) -> WireEvent {
    for _ in 0..100 {
        handle_ready(wire);
        if let Some(e) = wire.events.pop_front() {
            return e;
        }
    }
    panic!("the request was never answered");
}

#[test]
fn names_tell_addresses_apart() {
    let a = address;
    let (x, y) = (a(&[127, 0, 0, 1], b"one"), a(&[127, 0, 0, 1], b"two"));
    assert_ne!(name_of_waiter(0, &x).of(0), name_of_waiter(0, &y).of(0));
    assert_ne!(name_of_waiter(0, &x).of(0), name_of_waiter(0, &x).of(1));
    assert_eq!(name_of_pair(0, &x, &y).of(0), name_of_pair(0, &y, &x).of(0));
    assert_ne!(name_of_waiter(0, &a(&[1], &[2, 3])).of(0), name_of_waiter(0, &a(&[1, 2], &[3])).of(0));
    assert_ne!(name_of_waiter(1, &x).of(0), name_of_waiter(0, &x).of(0), "of another network");
    // With a suffix of 16 digits.
    assert!(name_of_waiter(0, &x).of(u32::MAX).len() + 17 <= fd_passing::NAME_MAX);
}

/// The process that answered the knock is gone before our answer to that: the request fails (and is
/// tried again, for somebody was there) instead of waiting for ever.
#[test]
fn a_request_is_answered_when_the_peer_leaves_in_mid_handshake() {
    for linked in [false, true] {
        let mut w = wire();
        let (x, y) = (address(&[1], &std::process::id().to_le_bytes()), address(&[1], &[u8::from(linked); 9]));
        if linked {
            // A link to ourselves, so that "the link there is" exists.
            assert!(w.control.listen(&y));
            resolve(&mut w, 1, Rendezvous::Client, &x, &y);
            for _ in 0..2 {
                assert!(matches!(next_event(&mut w), WireEvent::LinkUp { .. }));
            }
        }
        let leaver = fd_passing::listen_abstract(name_of_waiter(0, &x).of(w.control.user).as_bytes()).unwrap();
        resolve(&mut w, 2, Rendezvous::Client, &y, &x);
        let socket = fd_passing::accept(leaver.as_fd()).unwrap().unwrap();
        let knock = fd_passing::receive(socket.as_fd(), &mut [0; message::BYTES]).unwrap();
        assert_eq!(knock.len, message::BYTES);
        fd_passing::send(socket.as_fd(), &Message::Here { id: w.control.id, linked }.store(), &[]).unwrap();
        drop(socket);
        assert!(matches!(next_event(&mut w), WireEvent::Unresolved { request: 2, reason: LinkFailure::Busy }), "linked: {linked}");
        assert!(w.control.handshakes.is_empty());
    }
}
