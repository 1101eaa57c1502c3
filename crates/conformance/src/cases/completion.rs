// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion queues, notifications, shared receive queues.

use crate::stage::{LEVELS, Memory, Stage, refused};
use crate::{Fixture, Port};
use bellwire_via::event::{AsyncError, AsyncErrorCode};
use bellwire_via::{CqHandle, Error, Event, ReceiveRequest, Reliability, ViHandle, ViState, WorkQueueKind};

fn entries<F: Fixture>(s: &mut Stage<F>, nic: usize, cq: CqHandle) -> Vec<(ViHandle, WorkQueueKind)> {
    s.fixture.with(nic, |e| core::iter::from_fn(|| e.cq_done(cq).expect("the queue is there")).collect())
}

/// Many queues share one completion queue: one entry per completion, in the order of each queue.
pub fn one_entry_per_completion<F: Fixture>(s: &mut Stage<F>) {
    const VIS: usize = 10;
    const MESSAGES: u64 = 30;
    for level in LEVELS {
        let (na, nb) = (s.side(0), s.side(1));
        let cq = s.fixture.with(nb, |e| e.create_cq(4096)).expect("a queue");
        let send_cq = s.fixture.with(na, |e| e.create_cq(4096)).expect("a queue");
        let from = s.buffer(na, Memory::Heap, 4096, None);
        let to = s.buffer(nb, Memory::Heap, 4096, None);
        let attributes = Stage::<F>::attributes(level, None);
        let mut pairs = Vec::new();
        for _ in 0..VIS {
            let a = s.vi_with(na, &attributes, Some(send_cq), None, None);
            // Both queues of the server's VI are bound to the same completion queue.
            let b = s.vi_with(nb, &attributes, Some(cq), Some(cq), None);
            s.connect(a, b);
            pairs.push((a, b));
        }
        for i in 0..MESSAGES {
            for (a, b) in &pairs {
                s.receive(*b, &[to.segment(0, 4096)], i);
                s.receive(*a, &[from.segment(0, 4096)], i);
                s.send(*a, &[from.segment(0, (i as usize * 97) % 3000)], Some(i as u32), i);
                s.send(*b, &[to.segment(0, 5)], Some(i as u32), i);
            }
        }
        let (mut at_b, mut at_a) = (Vec::new(), Vec::new());
        s.until("all entries", |s| {
            at_b.extend(entries(s, nb, cq));
            at_a.extend(entries(s, na, send_cq));
            at_b.len() >= 2 * VIS * MESSAGES as usize && at_a.len() >= VIS * MESSAGES as usize
        });
        s.settle();
        at_b.extend(entries(s, nb, cq));
        at_a.extend(entries(s, na, send_cq));
        assert_eq!((at_b.len(), at_a.len()), (2 * VIS * MESSAGES as usize, VIS * MESSAGES as usize));
        for (a, b) in &pairs {
            let count = |list: &[(ViHandle, WorkQueueKind)], vi, kind| list.iter().filter(|e| **e == (vi, kind)).count() as u64;
            assert_eq!(count(&at_b, b.vi, WorkQueueKind::Receive), MESSAGES);
            assert_eq!(count(&at_b, b.vi, WorkQueueKind::Send), MESSAGES);
            assert_eq!(count(&at_a, a.vi, WorkQueueKind::Send), MESSAGES);
            for i in 0..MESSAGES {
                // An entry stands for a completion that can be taken.
                let c = s.try_receive_done(*b).expect("told by an entry");
                assert_eq!((c.context, c.immediate), (i, i as u32));
                s.try_send_done(*b).expect("told by an entry");
                s.try_send_done(*a).expect("told by an entry");
            }
            refused(s.fixture.with(nb, |e| e.destroy_cq(cq)), Error::Resource);
            s.part(&[*a, *b]);
            for p in [a, b] {
                s.fixture.with(p.nic, |e| e.destroy_vi(p.vi)).expect("destroyed");
            }
        }
        s.fixture.with(nb, |e| e.destroy_cq(cq)).expect("nobody is bound to it");
        refused(s.fixture.with(nb, |e| e.cq_done(cq)), Error::InvalidParameter);
    }
}

/// A queue that overflows: its owner hears of it, once; no work queue loses a completion.
pub fn overflow<F: Fixture>(s: &mut Stage<F>) {
    let nic = s.side(0);
    let cq = s.fixture.with(nic, |e| e.create_cq(4)).expect("a queue");
    let vi = s.vi_with(nic, &Stage::<F>::attributes(Reliability::ReliableDelivery, None), Some(cq), None, None);
    s.take_events(nic);
    for i in 0..10 {
        s.send(vi, &[], None, i);
    }
    let events = s.take_events(nic);
    assert_eq!(events, [Event::AsyncError(AsyncError { vi: Some(vi.vi), cq: Some(cq), code: AsyncErrorCode::Catastrophic, cause: None })]);
    assert_eq!(entries(s, nic, cq).len(), 4);
    assert_eq!(s.drain_sends(vi).len(), 10);
}

/// Sizes of completion queues.
pub fn resize<F: Fixture>(s: &mut Stage<F>) {
    let nic = s.side(0);
    refused(s.fixture.with(nic, |e| e.create_cq(0)), Error::InvalidParameter);
    refused(s.fixture.with(nic, |e| e.create_cq(usize::MAX)), Error::InvalidParameter);
    let cq = s.fixture.with(nic, |e| e.create_cq(2)).expect("a queue");
    let vi = s.vi_with(nic, &Stage::<F>::attributes(Reliability::ReliableDelivery, None), Some(cq), None, None);
    refused(s.fixture.with(nic, |e| e.resize_cq(cq, 0)), Error::InvalidParameter);
    s.fixture.with(nic, |e| e.resize_cq(cq, 6)).expect("larger");
    for i in 0..6 {
        s.send(vi, &[], None, i);
    }
    refused(s.fixture.with(nic, |e| e.resize_cq(cq, 5)), Error::Resource);
    assert_eq!(entries(s, nic, cq).len(), 6);
    s.fixture.with(nic, |e| e.resize_cq(cq, 1)).expect("smaller");
    assert_eq!(s.take_events(nic), []);
    refused(
        s.fixture.with(nic, |e| e.create_vi(&Stage::<F>::attributes(Reliability::Unreliable, None), Some(CqHandle::from_raw(77)), None, None)),
        Error::InvalidParameter,
    );
}

/// A notification is one event for one call, at once if there is something already.
pub fn notifications<F: Fixture>(s: &mut Stage<F>) {
    let p = s.pair(Reliability::ReliableDelivery);
    let cq = s.fixture.with(p.b.nic, |e| e.create_cq(64)).expect("a queue");
    let a = s.vi(p.a.nic, &Stage::<F>::attributes(Reliability::ReliableDelivery, None));
    let b = s.vi_with(p.b.nic, &Stage::<F>::attributes(Reliability::ReliableDelivery, None), None, Some(cq), None);
    s.connect(a, b);
    for i in 0..6 {
        s.receive(p.b, &[], i);
        s.receive(b, &[], i);
    }
    s.take_events(p.b.nic);
    let wanted = |events: Vec<Event>| events.into_iter().filter(|e| matches!(e, Event::Notify(..) | Event::NotifyCq(..))).collect::<Vec<_>>();
    s.fixture.with(p.b.nic, |e| e.notify(p.b.vi, WorkQueueKind::Receive)).expect("asked");
    s.fixture.with(p.b.nic, |e| e.notify_cq(cq)).expect("asked");
    s.settle();
    assert_eq!(wanted(s.take_events(p.b.nic)), [], "nothing has completed");
    for i in 0..2 {
        s.send(p.a, &[], Some(1), i);
        s.sent(p.a, i);
    }
    s.settle();
    assert_eq!(wanted(s.take_events(p.b.nic)), [Event::Notify(p.b.vi, WorkQueueKind::Receive)], "once");
    for i in 0..2 {
        s.send(a, &[], Some(1), i);
        s.sent(a, i);
    }
    s.settle();
    assert_eq!(wanted(s.take_events(p.b.nic)), [Event::NotifyCq(cq)], "once");
    s.fixture.with(p.b.nic, |e| e.notify(p.b.vi, WorkQueueKind::Receive)).expect("asked");
    s.fixture.with(p.b.nic, |e| e.notify_cq(cq)).expect("asked");
    assert_eq!(wanted(s.take_events(p.b.nic)), [Event::Notify(p.b.vi, WorkQueueKind::Receive), Event::NotifyCq(cq)], "at once");
    assert_eq!(s.drain_receives(p.b).len(), 2);
    refused(s.fixture.with(p.b.nic, |e| e.notify_cq(CqHandle::from_raw(5000))), Error::InvalidParameter);
}

fn shared_receive<F: Fixture>(s: &mut Stage<F>, nic: usize, srq: bellwire_via::SrqHandle, segments: &[bellwire_via::Segment], context: u64) {
    s.fixture.with(nic, |e| e.post_shared_receive(srq, &ReceiveRequest { segments, context, descriptor: None })).expect("posted");
}

/// Several VIs draw from one queue, in the order of arrival.
pub fn shared_receive_queue<F: Fixture>(s: &mut Stage<F>) {
    const MESSAGES: usize = 40;
    for level in LEVELS {
        let (na, nb) = (s.side(0), s.side(1));
        let srq = s.fixture.with(nb, |e| e.create_srq(None)).expect("a queue");
        let from = s.buffer(na, Memory::Heap, 20_000, None);
        let to = s.buffer(nb, Memory::Heap, 4096 * 200, None);
        let attributes = Stage::<F>::attributes(level, None);
        let pairs: Vec<(Port, Port)> = (0..4)
            .map(|_| {
                let (a, b) = (s.vi(na, &attributes), s.vi_with(nb, &attributes, None, None, Some(srq)));
                s.connect(a, b);
                (a, b)
            })
            .collect();
        for i in 0..4 * MESSAGES {
            let at = i * 4096;
            shared_receive(s, nb, srq, &[to.segment(at, 1000), to.segment(at, 0), to.segment(at + 1000, 3000)], i as u64);
        }
        refused(s.fixture.with(nb, |e| e.post_receive(pairs[0].1.vi, &ReceiveRequest::default())), Error::InvalidState);
        refused(s.fixture.with(nb, |e| e.destroy_srq(srq)), Error::Resource);
        for i in 0..MESSAGES {
            for (k, (a, _)) in pairs.iter().enumerate() {
                from.write(k * 4000, &[(i + k) as u8; 4000]);
                s.send(*a, &[from.segment(k * 4000, i * 97)], Some(i as u32), i as u64);
                s.sent(*a, i as u64);
            }
        }
        let mut used = std::collections::BTreeSet::new();
        for (k, (_, b)) in pairs.iter().enumerate() {
            for i in 0..MESSAGES {
                let c = s.receive_done(*b);
                assert!(!c.status.is_error() && c.immediate == i as u32 && c.length as usize == i * 97, "{c:?}");
                assert!(to.read(c.context as usize * 4096, i * 97).iter().all(|x| *x == (i + k) as u8) || level != Reliability::ReliableReception);
                assert!(used.insert(c.context), "each request once");
            }
        }
        assert_eq!(used.len(), 4 * MESSAGES);
        // None left: as with any receive queue.
        s.send(pairs[0].0, &[], Some(1), 99);
        if level == Reliability::Unreliable {
            s.sent(pairs[0].0, 99);
        } else {
            s.broken(pairs[0].1, &[AsyncErrorCode::ReceiveQueueEmpty]);
            assert_eq!(s.state(pairs[1].1), ViState::Connected);
        }
        s.settle();
        // Posted receives that belong to no VI yet survive the VIs.
        shared_receive(s, nb, srq, &[to.segment(0, 8)], 500);
        s.settle();
        for (a, b) in &pairs {
            s.part(&[*a, *b]);
            assert!(s.try_receive_done(*b).is_none());
            s.fixture.with(nb, |e| e.destroy_vi(b.vi)).expect("destroyed");
        }
        refused(s.fixture.with(nb, |e| e.deregister(to.address(), to.handle)), Error::Resource);
        s.fixture.with(nb, |e| e.destroy_srq(srq)).expect("destroyed");
        s.fixture.with(nb, |e| e.deregister(to.address(), to.handle)).expect("given back");
        refused(s.fixture.with(nb, |e| e.destroy_srq(srq)), Error::InvalidParameter);
    }
}

/// A faulty request to a shared queue is refused.
pub fn shared_queue_refuses_faults<F: Fixture>(s: &mut Stage<F>) {
    let nic = s.side(0);
    let (tag, other) = (s.ptag(nic), s.ptag(nic));
    let srq = s.fixture.with(nic, |e| e.create_srq(Some(tag))).expect("a queue");
    let bad = s.buffer(nic, Memory::Heap, 4096, Some(other));
    let segments = [bad.segment(0, 8)];
    refused(s.fixture.with(nic, |e| e.post_shared_receive(srq, &ReceiveRequest { segments: &segments, ..ReceiveRequest::default() })), Error::InvalidParameter);
    refused(s.fixture.with(nic, |e| e.destroy_ptag(tag)), Error::Resource);
    s.fixture.with(nic, |e| e.destroy_srq(srq)).expect("destroyed");
    s.fixture.with(nic, |e| e.destroy_ptag(tag)).expect("free");
}
