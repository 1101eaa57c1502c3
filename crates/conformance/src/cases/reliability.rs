// SPDX-License-Identifier: MIT OR Apache-2.0
//! The three service levels where they differ: no receive descriptor, too long, when a send
//! completes.

use crate::Fixture;
use crate::stage::{LEVELS, MEMORIES, Memory, RELIABLE, Stage, pattern};
use bellwire_via::event::AsyncErrorCode;
use bellwire_via::frame::DisconnectReason;
use bellwire_via::{Cause, Reliability, Status, ViState};

/// A message that finds no receive descriptor: dropped and counted, or the connection breaks.
pub fn no_receive_descriptor<F: Fixture>(s: &mut Stage<F>) {
    for length in [0usize, 8, 56, 57, 5_000, 70_000] {
        for level in LEVELS {
            let p = s.pair(level);
            let from = s.buffer(p.a.nic, Memory::Heap, 70_000, p.tag_a);
            let to = s.buffer(p.b.nic, Memory::Heap, 70_000, p.tag_b);
            s.send(p.a, &[from.segment(0, length)], Some(1), 1);
            if level == Reliability::Unreliable {
                s.sent(p.a, 1);
                s.until("a drop", |s| s.fixture.with(p.b.nic, |e| e.vi_counters(p.b.vi)).expect("there").dropped == 1);
                s.settle();
                assert_eq!(s.fixture.with(p.b.nic, |e| e.vi_counters(p.b.vi)).expect("there").dropped, 1);
                s.ping(p.a, p.b, &from, &to);
                s.no_errors(p.a);
                s.no_errors(p.b);
                continue;
            }
            s.broken(p.b, &[AsyncErrorCode::ReceiveQueueEmpty]);
            s.broken(p.a, &[AsyncErrorCode::ConnectionLost]);
            s.broke_because(p.b, Cause::Here(DisconnectReason::ReceiveQueueEmpty));
            s.broke_because(p.a, Cause::Peer(DisconnectReason::ReceiveQueueEmpty));
            let c = s.send_done(p.a);
            assert_eq!(c.context, 1);
            if level == Reliability::ReliableReception {
                assert!(c.status.is_error(), "it is not in the target's memory: {c:?}");
            }
            assert_eq!(s.drain_sends(p.a), []);
        }
    }
}

/// A message longer than its descriptor: that descriptor gets the length error, nothing of the
/// message is written.
pub fn longer_than_the_descriptor<F: Fixture>(s: &mut Stage<F>) {
    for memory in MEMORIES {
        for (length, room) in [(1usize, 0usize), (11, 10), (57, 56), (2049, 2048), (70_000, 69_999), (70_000, 10)] {
            for level in LEVELS {
                let p = s.pair(level);
                let from = s.buffer(p.a.nic, memory, 70_000, p.tag_a);
                let to = s.buffer(p.b.nic, memory, 70_000, p.tag_b);
                from.fill(0xaa);
                to.fill(0x22);
                s.receive(p.b, &[to.segment(0, room)], 1);
                s.receive(p.b, &[to.segment(0, 100)], 2);
                s.send(p.a, &[from.segment(0, length)], None, 3);
                let c = s.receive_done(p.b);
                assert_eq!((c.context, c.status & Status::ERRORS), (1, Status::LENGTH_ERROR), "{c:?}");
                to.expect(0, &[], 0x22, "a message that is too long");
                if level == Reliability::Unreliable {
                    s.sent(p.a, 3);
                    s.send(p.a, &[from.segment(0, 50)], None, 4);
                    s.sent(p.a, 4);
                    assert_eq!(s.received(p.b, 2).length, 50);
                    to.expect(0, &[0xaa; 50], 0x22, "the message after it");
                    assert_eq!((s.state(p.a), s.state(p.b)), (ViState::Connected, ViState::Connected));
                    continue;
                }
                s.broken(p.b, &[AsyncErrorCode::Overrun]);
                s.broken(p.a, &[AsyncErrorCode::ConnectionLost]);
                s.broke_because(p.b, Cause::Here(DisconnectReason::TooLong));
                s.broke_because(p.a, Cause::Peer(DisconnectReason::TooLong));
                let c = s.receive_done(p.b);
                assert_eq!((c.context, c.status & Status::ERRORS), (2, Status::FLUSHED));
                let c = s.send_done(p.a);
                assert!(level == Reliability::ReliableDelivery || c.status.is_error(), "{c:?}");
            }
        }
    }
}

/// At reliable reception a completed send is in the target's memory, and a target that does not
/// move completes nothing.
pub fn reception_means_in_memory<F: Fixture>(s: &mut Stage<F>) {
    for memory in MEMORIES {
        let p = s.pair(Reliability::ReliableReception);
        let from = s.buffer(p.a.nic, memory, 70_000, p.tag_a);
        let to = s.buffer(p.b.nic, memory, 70_000, p.tag_b);
        for length in [0usize, 8, 56, 57, 3_000, 70_000] {
            let data = pattern(length as u32, length);
            from.write(0, &data);
            to.fill(0);
            s.receive(p.b, &[to.segment(0, length)], 1);
            s.send(p.a, &[from.segment(0, length)], None, 2);
            if !s.is_loopback() && length < 2048 {
                for _ in 0..50 {
                    s.fixture.with(p.a.nic, |e| e.progress());
                }
                assert!(s.try_send_done(p.a).is_none(), "the target has not moved");
            }
            s.sent(p.a, 2);
            to.expect(0, &data, 0, "in memory when the send completes");
            assert_eq!(s.received(p.b, 1).length as usize, length);
        }
        // The same for RDMA writes.
        for length in [1usize, 8, 5_000, 70_000] {
            let data = pattern(length as u32 + 1, length);
            from.write(0, &data);
            to.fill(0);
            s.rdma_write(p.a, &[from.segment(0, length)], (to.address(), to.handle.raw()), None, 3);
            s.sent(p.a, 3);
            to.expect(0, &data, 0, "in memory when the write completes");
        }
    }
}

/// Messages accepted before a connection broke have arrived, in order, up to some message and none
/// after it.
pub fn a_broken_connection_delivers_a_prefix<F: Fixture>(s: &mut Stage<F>) {
    for level in RELIABLE {
        for posted in [0u64, 1, 5, 17] {
            let p = s.pair(level);
            let from = s.buffer(p.a.nic, Memory::Heap, 4096, p.tag_a);
            let to = s.buffer(p.b.nic, Memory::Heap, 4096, p.tag_b);
            for i in 0..posted {
                s.receive(p.b, &[to.segment(0, 4096)], i);
            }
            for i in 0..40u64 {
                s.send(p.a, &[from.segment(0, (i as usize % 5) * 700)], Some(i as u32), i);
            }
            s.broken(p.b, &[AsyncErrorCode::ReceiveQueueEmpty]);
            s.broken(p.a, &[AsyncErrorCode::ConnectionLost]);
            for i in 0..posted {
                assert_eq!(s.received(p.b, i).immediate, i as u32);
            }
            assert_eq!(s.drain_receives(p.b), []);
            let sends = s.drain_sends(p.a);
            assert_eq!(sends.iter().map(|c| c.context).collect::<Vec<_>>(), (0..40).collect::<Vec<_>>());
            if level == Reliability::ReliableReception {
                let good = sends.iter().filter(|c| !c.status.is_error()).count() as u64;
                assert_eq!(good, posted, "exactly those that arrived are told as arrived");
            }
        }
    }
}
