// SPDX-License-Identifier: MIT OR Apache-2.0
//! States of a VI, and what flushing does: each descriptor completes exactly once, in order.

use crate::stage::{LEVELS, Memory, RELIABLE, Stage, pattern, refused};
use crate::{Fixture, Port};
use bellwire_via::event::AsyncErrorCode;
use bellwire_via::frame::DisconnectReason;
use bellwire_via::wire::LinkFailure;
use bellwire_via::{Cause, Error, Instant, Reliability, Status, ViState};

/// Idle, pending, connected, error, idle; and what may be posted in each.
pub fn states_of_a_vi<F: Fixture>(s: &mut Stage<F>) {
    for level in LEVELS {
        let (na, nb) = (s.side(0), s.side(1));
        let a = s.vi(na, &Stage::<F>::attributes(level, None));
        let b = s.vi(nb, &Stage::<F>::attributes(level, None));
        let (from, to) = (s.buffer(na, Memory::Heap, 4096, None), s.buffer(nb, Memory::Heap, 4096, None));
        assert_eq!(s.state(a), ViState::Idle);
        s.send(a, &[from.segment(0, 8)], None, 1);
        let c = s.try_send_done(a).expect("a send on an idle VI completes at once");
        assert_eq!((c.context, c.status), (1, Status::DONE | Status::FLUSHED));
        // A receive may be posted in every state, and stays.
        s.receive(b, &[to.segment(0, 64)], 2);
        assert!(s.try_receive_done(b).is_none());
        s.connect(a, b);
        from.write(0, b"eight by");
        s.send(a, &[from.segment(0, 8)], None, 3);
        s.sent(a, 3);
        assert_eq!(s.received(b, 2).length, 8);
        to.expect(0, b"eight by", 0, "a receive posted before the connection");
        for p in [a, b] {
            refused(s.fixture.with(p.nic, |e| e.destroy_vi(p.vi)), Error::InvalidState);
        }
        s.fixture.with(a.nic, |e| e.disconnect(a.vi)).expect("disconnected");
        assert_eq!(s.state(a), ViState::Idle);
        s.broken(b, &[AsyncErrorCode::ConnectionLost]);
        s.broke_because(b, Cause::Peer(DisconnectReason::Requested));
        s.no_errors(a);
        posting_in_error_flushes(s, b, to.segment(0, 64));
        refused(s.fixture.with(b.nic, |e| e.destroy_vi(b.vi)), Error::InvalidState);
        s.fixture.with(b.nic, |e| e.disconnect(b.vi)).expect("disconnected");
        assert_eq!(s.state(b), ViState::Idle);
        for p in [a, b] {
            s.fixture.with(p.nic, |e| e.destroy_vi(p.vi)).expect("destroyed");
            refused(s.fixture.with(p.nic, |e| e.query_vi(p.vi)), Error::InvalidParameter);
        }
    }
}

fn posting_in_error_flushes<F: Fixture>(s: &mut Stage<F>, b: Port, segment: bellwire_via::Segment) {
    s.send(b, &[segment], None, 4);
    s.receive(b, &[segment], 5);
    let (sent, received) = (s.try_send_done(b).expect("at once"), s.try_receive_done(b).expect("at once"));
    assert_eq!((sent.context, sent.status), (4, Status::DONE | Status::FLUSHED));
    assert_eq!((received.context, received.status), (5, Status::DONE | Status::FLUSHED | Status::OP_RECEIVE));
    assert_eq!(s.state(b), ViState::Error);
}

/// While a request is under way the VI is pending, takes receives, flushes sends; disconnect ends
/// it.
pub fn connect_pending<F: Fixture>(s: &mut Stage<F>) {
    let (na, nb) = (s.side(0), s.side(1));
    let a = s.vi(na, &Stage::<F>::attributes(Reliability::ReliableDelivery, None));
    let buffer = s.buffer(na, Memory::Heap, 4096, None);
    let (local, remote) = (s.fresh_address(na), s.fresh_address(nb));
    s.fixture.with(na, |e| e.connect_request(a.vi, &local, &remote, Instant::NEVER)).expect("begun");
    assert_eq!(s.state(a), ViState::ConnectPending);
    refused(s.fixture.with(na, |e| e.connect_request(a.vi, &local, &remote, Instant::NEVER)), Error::InvalidState);
    refused(s.fixture.with(na, |e| e.peer_request(a.vi, &local, &remote, Instant::NEVER)), Error::InvalidState);
    refused(s.fixture.with(na, |e| e.destroy_vi(a.vi)), Error::InvalidState);
    let attributes = Stage::<F>::attributes(Reliability::ReliableReception, None);
    refused(s.fixture.with(na, |e| e.set_vi_attributes(a.vi, &attributes)), Error::InvalidState);
    s.receive(a, &[buffer.segment(0, 8)], 1);
    s.send(a, &[buffer.segment(0, 8)], None, 2);
    assert!(s.try_send_done(a).expect("at once").status.contains(Status::FLUSHED));
    s.settle();
    assert!(s.try_receive_done(a).is_none());
    assert_eq!(s.state(a), ViState::ConnectPending);
    s.fixture.with(na, |e| e.disconnect(a.vi)).expect("given up");
    assert_eq!(s.state(a), ViState::Idle);
    assert!(s.receive_done(a).status.contains(Status::FLUSHED));
    s.fixture.with(na, |e| e.set_vi_attributes(a.vi, &attributes)).expect("idle again");
    s.fixture.with(na, |e| e.destroy_vi(a.vi)).expect("destroyed");
}

/// Disconnecting in mid-traffic completes every descriptor of both sides once, in order.
pub fn disconnect_in_traffic<F: Fixture>(s: &mut Stage<F>) {
    const MESSAGES: u64 = 30;
    for level in LEVELS {
        for (round, length) in [(0, 8usize), (3, 8), (1, 30_000), (4, 30_000), (9, 70_000), (25, 70_000)] {
            for from_sender in [true, false] {
                let p = s.pair(level);
                let from = s.buffer(p.a.nic, Memory::Heap, length, p.tag_a);
                let to = s.buffer(p.b.nic, Memory::Heap, length, p.tag_b);
                for i in 0..MESSAGES {
                    s.receive(p.b, &[to.segment(0, length)], i);
                    s.receive(p.a, &[from.segment(0, length)], i);
                    s.send(p.a, &[from.segment(0, length)], None, i);
                }
                for _ in 0..round {
                    s.turn();
                }
                let (first, second) = if from_sender { (p.a, p.b) } else { (p.b, p.a) };
                s.fixture.with(first.nic, |e| e.disconnect(first.vi)).expect("disconnected");
                s.broken(second, &[AsyncErrorCode::ConnectionLost]);
                s.no_errors(first);
                for port in [p.a, p.b] {
                    once_and_in_order(s, port, MESSAGES, port == p.a);
                }
                s.part(&[p.a, p.b]);
                for port in [p.a, p.b] {
                    s.fixture.with(port.nic, |e| e.destroy_vi(port.vi)).expect("destroyed");
                }
                for b in [from, to] {
                    s.fixture.with(b.nic, |e| e.deregister(b.address(), b.handle)).expect("nothing uses it any more");
                }
            }
        }
    }
}

/// All contexts 0..count, in order, good ones before flushed ones.
#[track_caller]
fn once_and_in_order<F: Fixture>(s: &mut Stage<F>, p: Port, count: u64, sends_too: bool) {
    let receives = s.drain_receives(p);
    let sends = s.drain_sends(p);
    for (what, list, expected) in [("receives", receives, count), ("sends", sends, if sends_too { count } else { 0 })] {
        let contexts: Vec<u64> = list.iter().map(|c| c.context).collect();
        assert_eq!(contexts, (0..expected).collect::<Vec<_>>(), "{what}: each once, in order");
        let good = list.iter().take_while(|c| !c.status.is_error()).count();
        for c in &list[good..] {
            assert!(c.status.contains(Status::DONE | Status::FLUSHED), "{what}: {c:?}");
        }
    }
}

/// A message still in flight when a connection ends does not reach the next connection of the same
/// VIs.
pub fn old_frames_do_not_reach_a_new_connection<F: Fixture>(s: &mut Stage<F>) {
    for level in LEVELS {
        let p = s.pair(level);
        let from = s.buffer(p.a.nic, Memory::Heap, 8192, p.tag_a);
        let to = s.buffer(p.b.nic, Memory::Heap, 8192, p.tag_b);
        for round in 0..12u32 {
            from.fill(0xbb);
            for i in 0..40 {
                let length = if i % 3 == 0 { 3000 } else { 16 };
                s.send(p.a, &[from.segment(0, length)], None, i);
            }
            for _ in 0..round % 4 {
                s.turn();
            }
            s.part(&[p.a]);
            if round % 2 == 0 {
                s.until("the other side hears", |s| s.state(p.b) == ViState::Error);
            }
            s.part(&[p.b]);
            s.take_errors(p.b);
            s.take_errors(p.a);
            to.fill(0);
            s.connect(p.a, p.b);
            let data = pattern(round, 100);
            from.write(0, &data);
            s.receive(p.b, &[to.segment(0, 8192)], 900);
            s.send(p.a, &[from.segment(0, 100)], None, 901);
            s.sent(p.a, 901);
            assert_eq!(s.received(p.b, 900).length, 100);
            to.expect(0, &data, 0, "the new connection's message alone");
            assert_eq!((s.state(p.a), s.state(p.b)), (ViState::Connected, ViState::Connected));
        }
    }
}

/// A VI with posted receives can be destroyed; its memory is free then.
pub fn destroy_gives_posted_receives_back<F: Fixture>(s: &mut Stage<F>) {
    let nic = s.side(0);
    let buffer = s.buffer(nic, Memory::Heap, 4096, None);
    let vi = s.vi(nic, &Stage::<F>::attributes(Reliability::ReliableDelivery, None));
    for i in 0..10 {
        s.receive(vi, &[buffer.segment(i, 8), buffer.segment(100, 0), buffer.segment(200, 9)], i as u64);
    }
    refused(s.fixture.with(nic, |e| e.deregister(buffer.address(), buffer.handle)), Error::Resource);
    s.fixture.with(nic, |e| e.destroy_vi(vi.vi)).expect("destroyed");
    s.fixture.with(nic, |e| e.deregister(buffer.address(), buffer.handle)).expect("free");
    // The slot's next VI has another handle.
    let next = s.vi(nic, &Stage::<F>::attributes(Reliability::ReliableDelivery, None));
    assert_ne!(next.vi, vi.vi);
    refused(s.fixture.with(nic, |e| e.send_done(vi.vi)), Error::InvalidParameter);
    refused(s.fixture.with(nic, |e| e.destroy_vi(vi.vi)), Error::InvalidParameter);
}

/// The death of a peer reaches every VI connected to it, once, with everything flushed.
pub fn death_of_a_peer<F: Fixture>(s: &mut Stage<F>) {
    /// More than any wire takes before it is acknowledged.
    const MESSAGES: u64 = 60;
    if s.is_loopback() {
        return;
    }
    let mut pairs = Vec::new();
    for level in LEVELS.into_iter().chain(RELIABLE) {
        let p = s.pair(level);
        let from = s.buffer(p.a.nic, Memory::Heap, 40_000, p.tag_a);
        for i in 0..5 {
            s.receive(p.a, &[from.segment(0, 100)], i);
        }
        pairs.push((p, from));
    }
    let pending = s.vi(s.side(0), &Stage::<F>::attributes(Reliability::ReliableDelivery, None));
    for (p, from) in &pairs {
        for i in 0..MESSAGES {
            s.send(p.a, &[from.segment(0, 40_000)], None, i);
        }
    }
    for _ in 0..3 {
        s.turn();
    }
    let dead = s.side(1);
    if !s.fixture.crash(dead) {
        return;
    }
    for (p, _) in &pairs {
        s.until("news of the death", |s| s.state(p.a) == ViState::Error);
    }
    s.settle();
    for (p, from) in &pairs {
        assert_eq!(s.take_errors(p.a), [AsyncErrorCode::ConnectionLost], "once");
        let cause = s.fixture.with(p.a.nic, |e| e.vi_cause(p.a.vi));
        // Of messages that found no receive, the peer may still have told before.
        let died = Cause::Link(LinkFailure::PeerDied);
        let others = [LinkFailure::PeerSilent, LinkFailure::PeerClosed].map(Cause::Link);
        let told = Cause::Peer(DisconnectReason::ReceiveQueueEmpty);
        assert!(cause.is_ok_and(|c| c.is_some_and(|c| c == died || others.contains(&c) || c == told)), "{cause:?}");
        let sends = s.drain_sends(p.a);
        assert_eq!(sends.iter().map(|c| c.context).collect::<Vec<_>>(), (0..MESSAGES).collect::<Vec<_>>());
        assert!(sends.last().is_some_and(|c| c.status.contains(Status::FLUSHED)));
        let receives = s.drain_receives(p.a);
        assert_eq!(receives.iter().map(|c| c.context).collect::<Vec<_>>(), (0..5).collect::<Vec<_>>());
        s.fixture.with(p.a.nic, |e| e.disconnect(p.a.vi)).expect("idle again");
        s.fixture.with(p.a.nic, |e| e.destroy_vi(p.a.vi)).expect("destroyed");
        s.fixture.with(p.a.nic, |e| e.deregister(from.address(), from.handle)).expect("free");
    }
    assert_eq!(s.state(pending), ViState::Idle);
}
