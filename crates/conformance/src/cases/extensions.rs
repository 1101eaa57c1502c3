// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extensions of VIA: waiting for a receive descriptor, inline and unsignalled sends.

use crate::stage::{LEVELS, MEMORIES, Memory, Pair, RELIABLE, Stage, pattern, refused, remote, with_immediate};
use crate::{Fixture, Port};
use bellwire_via::{Error, ReceiveRequest, Reliability, SendRequest, SrqHandle, Status, ViAttributes, ViState, WorkFlags};

fn waiting_pair<F: Fixture>(s: &mut Stage<F>, level: Reliability, srq: Option<SrqHandle>) -> Pair {
    let (na, nb) = (s.side(0), s.side(1));
    let (tag_a, tag_b) = (s.ptag(na), s.ptag(nb));
    let a = s.vi(na, &Stage::<F>::attributes(level, Some(tag_a)));
    let attributes = ViAttributes { rnr_wait: true, ..Stage::<F>::attributes(level, Some(tag_b)) };
    let b = s.vi_with(nb, &attributes, None, None, srq);
    s.connect(a, b);
    Pair { a, b, tag_a: Some(tag_a), tag_b: Some(tag_b), reliability: level }
}

/// Messages wait for receive descriptors: none is lost, doubled or overtaken, and no other VI waits
/// with them.
pub fn waits_for_a_receive_descriptor<F: Fixture>(s: &mut Stage<F>) {
    // Each length twice.
    const MESSAGES: usize = 12;
    for level in RELIABLE {
        let Pair { a, b, .. } = waiting_pair(s, level, None);
        let others = s.pair(level);
        let from = s.buffer(a.nic, Memory::Heap, 60_000, None);
        let to = s.buffer(b.nic, Memory::Heap, 60_000, None);
        let (side_from, side_to) = (s.buffer(a.nic, Memory::Heap, 64, None), s.buffer(b.nic, Memory::Heap, 64, None));
        from.write(0, &pattern(4, 60_000));
        let length = |i: usize| [0usize, 8, 56, 57, 3_000, 20_000][i % 6];
        for i in 0..MESSAGES {
            s.send(a, &[from.segment(i, length(i))], Some(i as u32), i as u64);
        }
        s.settle();
        assert!(s.try_receive_done(b).is_none() && s.state(b) == ViState::Connected);
        for i in 0..MESSAGES {
            s.ping(others.a, others.b, &side_from, &side_to);
            if i % 5 == 4 {
                s.settle();
            }
            s.receive(b, &[to.segment(100, 30_000)], i as u64);
            let c = s.received(b, i as u64);
            assert_eq!((c.immediate, c.length as usize), (i as u32, length(i)));
            assert!(to.read(100, length(i)) == from.read(i, length(i)), "message {i}");
        }
        for i in 0..MESSAGES {
            s.sent(a, i as u64);
        }
        s.no_errors(a);
        s.no_errors(b);
        assert!(s.fixture.with(a.nic, |e| e.vi_counters(a.vi)).expect("there").receiver_not_ready > 0);
    }
}

/// Sends, writes with immediate data, writes and reads behind a message that waits: all in order,
/// each once.
pub fn order_is_kept_while_waiting<F: Fixture>(s: &mut Stage<F>) {
    for level in RELIABLE {
        for memory in MEMORIES {
            let Pair { a, b, tag_a, tag_b, .. } = waiting_pair(s, level, None);
            let from = s.buffer(a.nic, memory, 40_000, tag_a);
            let to = s.buffer(b.nic, memory, 40_000, tag_b);
            for round in 0..6u8 {
                from.write(0, &[round; 10_000]);
                from.write(10_000, &[round + 100; 10_000]);
                from.write(20_000, &[0; 20_000]);
                s.send(a, &[from.segment(0, 10_000)], Some(1), 0);
                s.rdma_write(a, &[from.segment(10_000, 5_000)], remote(&to, 0), None, 1);
                s.rdma_write(a, &[from.segment(10_000, 5_000)], remote(&to, 5_000), Some(2), 2);
                s.rdma_read(a, &[from.segment(20_000, 10_000)], remote(&to, 0), 3);
                s.send(a, &[], Some(3), 4);
                for _ in 0..=round {
                    s.turn();
                }
                s.settle();
                let unchanged = if round == 0 { 0 } else { round + 99 };
                assert!(to.read(0, 10_000) == vec![unchanged; 10_000], "a write does not overtake a message that waits");
                for i in 0..3 {
                    if i > 0 && round % 2 == 0 {
                        s.settle();
                        assert!(s.try_receive_done(b).is_none());
                    }
                    s.receive(b, &[to.segment(20_000, 10_000)], i);
                    if round % 2 == 0 {
                        assert_eq!(u64::from(s.received(b, i).immediate), i + 1);
                    }
                }
                if round % 2 == 1 {
                    for i in 0..3 {
                        assert_eq!(u64::from(s.received(b, i).immediate), i + 1);
                    }
                }
                for i in 0..5 {
                    s.sent(a, i);
                }
                assert!(to.read(0, 10_000) == vec![round + 100; 10_000], "what was written");
                assert!(from.read(20_000, 10_000) == vec![round + 100; 10_000], "what was read after it");
                assert!(to.read(20_000, 10_000) == vec![round; 10_000], "what was sent");
            }
            s.no_errors(a);
            s.no_errors(b);
        }
    }
}

/// The same with a shared receive queue: every waiter gets its turn.
pub fn waits_for_a_shared_descriptor<F: Fixture>(s: &mut Stage<F>) {
    for level in RELIABLE {
        let nb = s.side(1);
        let srq = s.fixture.with(nb, |e| e.create_srq(None)).expect("a queue");
        let pairs: Vec<(Port, Port)> = (0..3).map(|_| waiting_pair(s, level, Some(srq))).map(|p| (p.a, p.b)).collect();
        for i in 0..10u64 {
            for (a, _) in &pairs {
                s.send(*a, &[], Some(i as u32), i);
            }
        }
        s.settle();
        for i in 0..30 {
            s.fixture.with(nb, |e| e.post_shared_receive(srq, &ReceiveRequest { context: i, ..ReceiveRequest::default() })).expect("posted");
            if i % 4 == 0 {
                s.settle();
            }
        }
        for (a, b) in &pairs {
            for i in 0..10 {
                let c = s.receive_done(*b);
                assert!(!c.status.is_error() && c.immediate == i, "{c:?}");
                s.sent(*a, u64::from(i));
            }
        }
    }
    let attributes = ViAttributes { rnr_wait: true, ..Stage::<F>::attributes(Reliability::Unreliable, None) };
    refused(s.fixture.with(0, |e| e.create_vi(&attributes, None, None, None)), Error::InvalidReliability);
}

/// A connection can end while a message waits.
pub fn disconnect_while_waiting<F: Fixture>(s: &mut Stage<F>) {
    for level in RELIABLE {
        for from_sender in [true, false] {
            let Pair { a, b, .. } = waiting_pair(s, level, None);
            for i in 0..10 {
                s.send(a, &[], Some(1), i);
            }
            s.settle();
            let (first, second) = if from_sender { (a, b) } else { (b, a) };
            s.fixture.with(first.nic, |e| e.disconnect(first.vi)).expect("disconnected");
            s.until("the other hears", |s| s.state(second) == ViState::Error);
            let done = s.drain_sends(a);
            assert_eq!(done.iter().map(|c| c.context).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
            assert!(done.iter().all(|c| c.status.contains(Status::FLUSHED)));
            s.part(&[a, b]);
            s.connect(a, b);
            s.receive(b, &[], 1);
            s.send(a, &[], Some(7), 2);
            assert_eq!(s.received(b, 1).immediate, 7);
            s.sent(a, 2);
        }
    }
}

/// Inline sends copy their data at post, registered or not.
pub fn inline_sends<F: Fixture>(s: &mut Stage<F>) {
    for level in LEVELS {
        let p = s.pair(level);
        let to = s.buffer(p.b.nic, Memory::Heap, 500 * 64, p.tag_b);
        let from = s.buffer(p.a.nic, Memory::Heap, 30_000, p.tag_a);
        const MESSAGES: usize = 400;
        for i in 0..MESSAGES {
            s.receive(p.b, &[to.segment(i * 64, 64)], i as u64);
        }
        s.receive(p.b, &[to.segment(0, 64)], MESSAGES as u64);
        for i in 0..MESSAGES {
            // The buffer is used again at once.
            let mut data = pattern(i as u32, i % 49);
            let request = SendRequest { context: i as u64, ..with_immediate((i % 3 == 0).then_some(i as u32)) };
            s.fixture.with(p.a.nic, |e| e.post_send_inline(p.a.vi, &data, &request)).expect("posted");
            data.fill(0);
        }
        for i in 0..MESSAGES {
            s.sent(p.a, i as u64);
            let c = s.received(p.b, i as u64);
            assert_eq!(c.length as usize, i % 49);
            assert_eq!(c.status.contains(Status::IMMEDIATE), i % 3 == 0);
            assert_eq!(to.read(i * 64, i % 49), pattern(i as u32, i % 49), "message {i}");
        }
        let too_long = [0; 49];
        refused(s.fixture.with(p.a.nic, |e| e.post_send_inline(p.a.vi, &too_long, &SendRequest::default())), Error::InvalidParameter);
        let with_segments = [from.segment(0, 8)];
        refused(
            s.fixture.with(p.a.nic, |e| e.post_send_inline(p.a.vi, &[], &SendRequest { segments: &with_segments, ..SendRequest::default() })),
            Error::InvalidParameter,
        );
    }
}

/// Unsignalled requests complete in silence when all is well, and aloud when not.
pub fn unsignalled<F: Fixture>(s: &mut Stage<F>) {
    for level in LEVELS {
        let (na, nb) = (s.side(0), s.side(1));
        let cq = s.fixture.with(na, |e| e.create_cq(512)).expect("a queue");
        let attributes = Stage::<F>::attributes(level, None);
        let (a, b) = (s.vi_with(na, &attributes, Some(cq), None, None), s.vi(nb, &attributes));
        s.connect(a, b);
        let from = s.buffer(na, Memory::Heap, 8192, None);
        let to = s.buffer(nb, Memory::Heap, 8192, None);
        for i in 0..64u64 {
            s.receive(b, &[to.segment(0, 8192)], i);
        }
        for i in 0..60u64 {
            let flags = if i % 4 == 3 { WorkFlags::empty() } else { WorkFlags::UNSIGNALED };
            let segments = [from.segment(0, (i as usize % 7) * 1000)];
            s.post(a, &SendRequest { segments: &segments, flags, context: i, ..SendRequest::default() });
        }
        for i in 0..60 {
            s.received(b, i);
        }
        for i in 0..15 {
            s.sent(a, 4 * i + 3);
        }
        s.settle();
        assert_eq!(s.drain_sends(a), []);
        let mut entries = 0;
        while s.fixture.with(na, |e| e.cq_done(cq)).expect("there").is_some() {
            entries += 1;
        }
        assert_eq!(entries, 15, "one entry per completion that is told");
        let (_, _, empty, _) = s.fixture.with(na, |e| e.query_vi(a.vi)).expect("there");
        assert!(empty, "nothing is left in the queue");
        s.part(&[b]);
        s.until("the other hears", |s| s.state(a) == ViState::Error);
        s.post(a, &SendRequest { flags: WorkFlags::UNSIGNALED, context: 77, ..SendRequest::default() });
        let c = s.send_done(a);
        assert!(c.context == 77 && c.status.contains(Status::FLUSHED), "an error is told");
    }
}
