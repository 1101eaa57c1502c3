// SPDX-License-Identifier: MIT OR Apache-2.0
//! More than there is room for: everything arrives, in order, and everybody gets a turn.

use crate::stage::{LEVELS, Memory, Stage, remote};
use crate::{Fixture, Port};
use bellwire_via::{Error, ReceiveRequest, Reliability, SendRequest, ViState};

/// Thousands of sends posted at once drain in order.
pub fn thousands_of_sends<F: Fixture>(s: &mut Stage<F>) {
    const MESSAGES: u64 = 5_000;
    for level in LEVELS {
        let p = s.pair(level);
        let from = s.buffer(p.a.nic, Memory::Heap, 4096, p.tag_a);
        let to = s.buffer(p.b.nic, Memory::Heap, 4096, p.tag_b);
        for i in 0..MESSAGES {
            s.receive(p.b, &[to.segment(0, 128)], i);
        }
        for i in 0..MESSAGES {
            s.send(p.a, &[from.segment(0, (i % 100) as usize)], Some(i as u32), i);
        }
        for i in 0..MESSAGES {
            let c = s.received(p.b, i);
            assert_eq!((u64::from(c.immediate), u64::from(c.length)), (i, i % 100));
        }
        for i in 0..MESSAGES {
            s.sent(p.a, i);
        }
        s.no_errors(p.a);
        s.no_errors(p.b);
    }
}

/// A VI with very much to send does not keep the others waiting.
pub fn everybody_gets_a_turn<F: Fixture>(s: &mut Stage<F>) {
    const QUIET: usize = 60;
    let loud = s.pair(Reliability::ReliableDelivery);
    let from = s.buffer(loud.a.nic, Memory::Heap, 200_000, loud.tag_a);
    let to = s.buffer(loud.b.nic, Memory::Heap, 200_000, loud.tag_b);
    let attributes = Stage::<F>::attributes(Reliability::ReliableDelivery, None);
    let quiet: Vec<(Port, Port)> = (0..QUIET)
        .map(|_| {
            let pair = (s.vi(loud.a.nic, &attributes), s.vi(loud.b.nic, &attributes));
            s.connect(pair.0, pair.1);
            pair
        })
        .collect();
    const LOUD: u64 = 60;
    for i in 0..LOUD {
        s.receive(loud.b, &[to.segment(0, 200_000)], i);
        s.send(loud.a, &[from.segment(0, 200_000)], None, i);
    }
    for (a, b) in &quiet {
        for i in 0..5 {
            s.receive(*b, &[to.segment(0, 100)], i);
            s.send(*a, &[from.segment(0, 100)], Some(i as u32), i);
        }
    }
    for (_, b) in &quiet {
        for i in 0..5 {
            assert_eq!(u64::from(s.received(*b, i).immediate), i);
        }
    }
    let (mut done, mut good) = (0, 0);
    while s.try_receive_done(loud.b).is_some_and(|c| !c.status.is_error()) {
        done += 1;
    }
    assert!(done < LOUD, "the quiet ones came before the loud one had finished");
    good += done;
    for i in good..LOUD {
        s.received(loud.b, i);
    }
    for i in 0..LOUD {
        s.sent(loud.a, i);
    }
}

/// Many VIs at once, all kinds of requests.
pub fn many_vis<F: Fixture>(s: &mut Stage<F>) {
    const VIS: usize = 200;
    let (na, nb) = (s.side(0), s.side(1));
    let (ta, tb) = (s.ptag(na), s.ptag(nb));
    let from = s.buffer(na, Memory::Heap, VIS * 64, Some(ta));
    let to = s.buffer(nb, Memory::Heap, VIS * 64, Some(tb));
    let pairs: Vec<(Port, Port)> = (0..VIS)
        .map(|i| {
            let level = LEVELS[i % 3];
            let pair = (s.vi(na, &Stage::<F>::attributes(level, Some(ta))), s.vi(nb, &Stage::<F>::attributes(level, Some(tb))));
            s.connect(pair.0, pair.1);
            pair
        })
        .collect();
    for round in 0..5u8 {
        for (i, (a, b)) in pairs.iter().enumerate() {
            from.write(i * 64, &[round.wrapping_mul(31).wrapping_add(i as u8); 64]);
            s.receive(*b, &[], 1);
            s.rdma_write(*a, &[from.segment(i * 64, 64)], remote(&to, i * 64), None, 2);
            s.send(*a, &[], Some(i as u32), 3);
        }
        for (i, (a, b)) in pairs.iter().enumerate() {
            assert_eq!(s.received(*b, 1).immediate, i as u32);
            assert_eq!(to.read(i * 64, 64), [round.wrapping_mul(31).wrapping_add(i as u8); 64]);
            s.sent(*a, 2);
            s.sent(*a, 3);
        }
    }
    // One connection's end is nobody else's.
    s.part(&[pairs[7].0]);
    s.until("the partner hears", |s| s.state(pairs[7].1) == ViState::Error);
    for (i, (a, b)) in pairs.iter().enumerate().filter(|(i, _)| *i != 7) {
        assert_eq!((s.state(*a), s.state(*b)), (ViState::Connected, ViState::Connected), "VI {i}");
    }
}

/// Queues have an end; a request that does not fit is refused, and nothing else is harmed.
pub fn queues_are_bounded<F: Fixture>(s: &mut Stage<F>) {
    let p = s.pair(Reliability::Unreliable);
    let limit = bellwire_via::limits::DESCRIPTORS_PER_QUEUE_MAX as usize;
    let buffer = s.buffer(p.a.nic, Memory::Heap, 64, p.tag_a);
    let segments = [buffer.segment(0, 8)];
    let (mut sends, mut receives) = (0, 0);
    for _ in 0..limit + 100 {
        sends += usize::from(s.fixture.with(p.a.nic, |e| e.post_send(p.a.vi, &SendRequest { segments: &segments, ..SendRequest::default() })).is_ok());
        receives +=
            usize::from(s.fixture.with(p.a.nic, |e| e.post_receive(p.a.vi, &ReceiveRequest { segments: &segments, ..ReceiveRequest::default() })).is_ok());
    }
    assert_eq!((sends, receives), (limit, limit));
    let again = s.fixture.with(p.a.nic, |e| e.post_send(p.a.vi, &SendRequest::default()));
    assert_eq!(again, Err(Error::Resource));
    for _ in 0..limit {
        assert!(!s.send_done(p.a).status.is_error());
    }
    s.send(p.a, &segments, None, 5);
    s.sent(p.a, 5);
}
