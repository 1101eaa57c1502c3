// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests that are wrong in themselves: they complete with what is wrong, in their turn.

use crate::stage::{LEVELS, Memory, Stage, refused};
use crate::{Buffer, Fixture};
use bellwire_via::descriptor::DescriptorRef;
use bellwire_via::event::AsyncErrorCode;
use bellwire_via::{Error, Reliability, Segment, Status, ViAttributes, ViState};

/// Segments that a VI may not use, and why.
fn bad_segments<F: Fixture>(s: &mut Stage<F>, good: &Buffer) -> Vec<(Vec<Segment>, Status)> {
    let tag = s.ptag(good.nic);
    let others = s.buffer(good.nic, Memory::Heap, 4096, Some(tag));
    let gone = s.buffer(good.nic, Memory::Heap, 4096, None);
    s.fixture.with(good.nic, |e| e.deregister(gone.address(), gone.handle)).expect("unused");
    let end = good.len;
    let one = |segment: Segment| vec![segment];
    vec![
        (one(Segment { handle: 0, ..good.segment(0, 8) }), Status::PROTECTION_ERROR),
        (one(gone.segment(0, 8)), Status::PROTECTION_ERROR),
        (one(others.segment(0, 8)), Status::PROTECTION_ERROR),
        (one(Segment { address: good.address() - 1, ..good.segment(0, 8) }), Status::PROTECTION_ERROR),
        (one(Segment { address: good.address() + end as u64 - 7, ..good.segment(0, 8) }), Status::PROTECTION_ERROR),
        (one(Segment { address: u64::MAX - 3, ..good.segment(0, 8) }), Status::PROTECTION_ERROR),
        (one(Segment { length: u32::MAX, ..good.segment(0, 8) }), Status::PROTECTION_ERROR),
        (vec![good.segment(0, 8), others.segment(0, 8)], Status::PROTECTION_ERROR),
        (vec![good.segment(0, 1); 33], Status::FORMAT_ERROR),
    ]
}

/// A faulty send completes in its turn; the unreliable connection stays, a reliable one breaks.
pub fn faulty_sends<F: Fixture>(s: &mut Stage<F>) {
    for level in LEVELS {
        for case in 0..9 {
            let p = s.pair(level);
            let good = s.buffer(p.a.nic, Memory::Heap, 4096, p.tag_a);
            let to = s.buffer(p.b.nic, Memory::Heap, 4096, p.tag_b);
            to.fill(0x31);
            let (bad, status) = bad_segments(s, &good).swap_remove(case);
            for i in 0..3 {
                s.receive(p.b, &[to.segment(1000 * i, 64)], i as u64);
            }
            s.send(p.a, &[good.segment(0, 16)], None, 10);
            s.send(p.a, &bad, None, 11);
            s.send(p.a, &[good.segment(0, 16)], None, 12);
            s.sent(p.a, 10);
            let c = s.send_done(p.a);
            assert!(c.context == 11 && c.status.contains(Status::DONE | status), "case {case}: {c:?}");
            s.received(p.b, 0);
            if level == Reliability::Unreliable {
                s.sent(p.a, 12);
                s.received(p.b, 1);
                assert_eq!(s.state(p.a), ViState::Connected);
            } else {
                let c = s.send_done(p.a);
                assert!(c.context == 12 && c.status.contains(Status::FLUSHED), "case {case}: {c:?}");
                s.broken(p.b, &[AsyncErrorCode::ConnectionLost]);
                assert_eq!(s.state(p.a), ViState::Error);
            }
        }
    }
}

/// A faulty receive completes in its turn and takes no message.
pub fn faulty_receives<F: Fixture>(s: &mut Stage<F>) {
    for level in LEVELS {
        for case in 0..9 {
            for connected_first in [true, false] {
                let (na, nb) = (s.side(0), s.side(1));
                let (tag_a, tag_b) = (s.ptag(na), s.ptag(nb));
                let a = s.vi(na, &Stage::<F>::attributes(level, Some(tag_a)));
                let b = s.vi(nb, &Stage::<F>::attributes(level, Some(tag_b)));
                let from = s.buffer(na, Memory::Heap, 4096, Some(tag_a));
                let good = s.buffer(nb, Memory::Heap, 4096, Some(tag_b));
                let (bad, status) = bad_segments(s, &good).swap_remove(case);
                if connected_first {
                    s.connect(a, b);
                }
                s.receive(b, &[good.segment(0, 64)], 0);
                s.receive(b, &bad, 1);
                s.receive(b, &bad, 2);
                s.receive(b, &[good.segment(64, 64)], 3);
                assert!(s.try_receive_done(b).is_none(), "a fault waits for its turn");
                if !connected_first {
                    s.connect(a, b);
                }
                for i in 0..2 {
                    s.send(a, &[from.segment(0, 33)], None, i);
                    s.sent(a, i);
                }
                s.received(b, 0);
                for context in [1, 2] {
                    let c = s.receive_done(b);
                    assert!(c.context == context && c.status.contains(Status::DONE | status) && c.length == 0, "case {case}: {c:?}");
                }
                s.received(b, 3);
                assert_eq!((s.state(a), s.state(b)), (ViState::Connected, ViState::Connected));
            }
        }
    }
}

/// A request over the connection's maximum transfer size.
pub fn over_the_maximum_transfer_size<F: Fixture>(s: &mut Stage<F>) {
    for level in LEVELS {
        for length in [101usize, 4000] {
            let (na, nb) = (s.side(0), s.side(1));
            let attributes = ViAttributes { max_transfer_bytes: 100, ..Stage::<F>::attributes(level, None) };
            let (a, b) = (s.vi(na, &attributes), s.vi(nb, &attributes));
            s.connect(a, b);
            let from = s.buffer(na, Memory::Heap, 4096, None);
            let to = s.buffer(nb, Memory::Heap, 4096, None);
            s.receive(b, &[to.segment(0, 4096)], 1);
            s.send(a, &[from.segment(0, 100)], None, 2);
            s.sent(a, 2);
            assert_eq!(s.received(b, 1).length, 100);
            s.send(a, &[from.segment(0, length)], None, 3);
            let c = s.send_done(a);
            assert_eq!((c.context, c.status & Status::ERRORS), (3, Status::LENGTH_ERROR));
        }
    }
    let nic = s.side(0);
    for bytes in [0, u64::MAX, (1 << 30) + 1] {
        let attributes = ViAttributes { max_transfer_bytes: bytes, ..ViAttributes::default() };
        refused(s.fixture.with(nic, |e| e.create_vi(&attributes, None, None, None)), Error::InvalidMtu);
    }
    let attributes = ViAttributes { reliability: Reliability::Unreliable, rdma_read: true, ..ViAttributes::default() };
    refused(s.fixture.with(nic, |e| e.create_vi(&attributes, None, None, None)), Error::InvalidRdmaRead);
}

/// VIA descriptors in memory: parsed, checked, completed in place.
pub fn descriptors_in_memory<F: Fixture>(s: &mut Stage<F>) {
    let p = s.pair(Reliability::ReliableDelivery);
    let a = s.buffer(p.a.nic, Memory::Heap, 8192, p.tag_a);
    let b = s.buffer(p.b.nic, Memory::Heap, 8192, p.tag_b);
    a.write(4096, b"descriptor data");
    let send = lay_descriptor(&a, 0, 4, 0x600d, &[a.segment(4096, 11), a.segment(4107, 4)]);
    let receive = lay_descriptor(&b, 64, 0, 0, &[b.segment(4096, 100)]);
    s.fixture.with(p.b.nic, |e| e.post_receive_descriptor(p.b.vi, receive)).expect("posted");
    refused(s.fixture.with(p.b.nic, |e| e.deregister(b.address(), b.handle)), Error::Resource);
    s.fixture.with(p.a.nic, |e| e.post_send_descriptor(p.a.vi, send)).expect("posted");
    let c = s.send_done(p.a);
    assert_eq!(c.descriptor, send.address);
    let c = s.receive_done(p.b);
    assert_eq!((c.descriptor, c.length, c.immediate), (receive.address, 15, 0x600d));
    assert_eq!(word(&b, 64 + 24), 15, "length");
    assert_eq!(word(&b, 64 + 20), 0x600d, "immediate data");
    assert_eq!(word(&b, 64 + 28), (Status::DONE | Status::OP_RECEIVE | Status::IMMEDIATE).bits(), "status");
    assert_eq!(word(&a, 28), Status::DONE.bits(), "status");
    assert_eq!(b.read(4096, 15), b"descriptor data");

    // Malformed ones are not posted, or complete with the format error; the unreliable level shows
    // several in a row.
    for (address, handle) in
        [(0, a.handle.raw()), (a.address() as usize + 32, a.handle.raw()), (a.address() as usize, 0), (a.address() as usize + (1 << 20), a.handle.raw())]
    {
        refused(s.fixture.with(p.a.nic, |e| e.post_send_descriptor(p.a.vi, DescriptorRef { address, handle })), Error::InvalidParameter);
    }
    let u = s.pair(Reliability::Unreliable);
    let a = s.buffer(u.a.nic, Memory::Heap, 8192, u.tag_a);
    for (control, count) in [(3u16, 1u16), (0x10, 1), (0x8000, 1), (1, 0), (2, 0), (0, 40), (0, u16::MAX)] {
        let d = lay_descriptor(&a, 128, control, 0, &[a.segment(4096, 8)]);
        a.write(128 + 12, &count.to_le_bytes());
        s.fixture.with(u.a.nic, |e| e.post_send_descriptor(u.a.vi, d)).expect("posted");
        let c = s.send_done(u.a);
        assert_eq!(c.status & Status::ERRORS, Status::FORMAT_ERROR, "control {control:#x}, {count} segments");
        assert_eq!(word(&a, 128 + 28), c.status.bits());
    }
}

/// Writes a descriptor at an offset of a buffer.
fn lay_descriptor(b: &Buffer, at: usize, control: u16, immediate: u32, segments: &[Segment]) -> DescriptorRef {
    let mut d = vec![0u8; 32];
    d[12..14].copy_from_slice(&(segments.len() as u16).to_le_bytes());
    d[14..16].copy_from_slice(&control.to_le_bytes());
    d[20..24].copy_from_slice(&immediate.to_le_bytes());
    d[28..32].copy_from_slice(&0xffff_ffffu32.to_le_bytes());
    for s in segments {
        d.extend_from_slice(&s.address.to_le_bytes());
        d.extend_from_slice(&s.handle.to_le_bytes());
        d.extend_from_slice(&s.length.to_le_bytes());
    }
    b.write(at, &d);
    DescriptorRef { address: b.address() as usize + at, handle: b.handle.raw() }
}

fn word(b: &Buffer, at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&b.read(at, 4));
    u32::from_le_bytes(bytes)
}
