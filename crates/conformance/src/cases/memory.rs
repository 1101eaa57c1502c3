// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registration: refusals and their reasons, handles with generations, use counts.

use crate::Fixture;
use crate::stage::{MEMORIES, Memory, Stage, pattern, refused, remote};
use bellwire_via::{Error, MemAttributes, MemHandle, Reliability, Segment, Status};

/// Memory that cannot be registered.
pub fn registration_errors<F: Fixture>(s: &mut Stage<F>) {
    let nic = s.side(0);
    let b = s.buffer(nic, Memory::Heap, 4096, None);
    let none = MemAttributes::default();
    for (address, length) in [(0, 8), (b.address(), 0), (u64::MAX - 4, 8), (b.address(), u64::MAX), (64, 64)] {
        // SAFETY: U0: it is refused, so nothing is promised.
        refused(s.fixture.with(nic, |e| unsafe { e.register(address, length, &none) }), Error::InvalidParameter);
    }
    let gone = s.ptag(nic);
    s.fixture.with(nic, |e| e.destroy_ptag(gone)).expect("unused");
    let rights = MemAttributes { ptag: Some(gone), ..none };
    // SAFETY: U0: it is refused, so nothing is promised.
    refused(s.fixture.with(nic, |e| unsafe { e.register(b.address(), 8, &rights) }), Error::InvalidPtag);
    assert_eq!(s.fixture.with(nic, |e| e.regions()), 1);
}

/// A handle that was given up names nothing, even when its place has been taken again.
pub fn handles_carry_generations<F: Fixture>(s: &mut Stage<F>) {
    let nic = s.side(0);
    for memory in MEMORIES {
        let b = s.buffer(nic, memory, 4096, None);
        let mut seen = vec![b.handle];
        let mut now = b;
        for _ in 0..300 {
            s.fixture.with(nic, |e| e.deregister(b.address(), now.handle)).expect("unused");
            refused(s.fixture.with(nic, |e| e.deregister(b.address(), now.handle)), Error::InvalidParameter);
            now = s.register(nic, b.base, 4096, MemAttributes::default());
            assert_ne!(now.handle.raw(), 0);
            assert!(!seen.contains(&now.handle), "a handle was given twice");
            seen.push(now.handle);
        }
        for stale in &seen[..300] {
            refused(s.fixture.with(nic, |e| e.query_memory(b.address(), *stale)), Error::InvalidParameter);
        }
        refused(s.fixture.with(nic, |e| e.query_memory(b.address(), MemHandle::from_raw(0))), Error::InvalidParameter);
        refused(s.fixture.with(nic, |e| e.query_memory(b.address() - 1, now.handle)), Error::InvalidParameter);
        refused(s.fixture.with(nic, |e| e.deregister(b.address() + 5000, now.handle)), Error::InvalidParameter);
        s.fixture.with(nic, |e| e.deregister(b.address() + 17, now.handle)).expect("any address inside names it");
    }
}

/// A region, a tag, an allocation in use stays.
pub fn in_use_is_refused<F: Fixture>(s: &mut Stage<F>) {
    let p = s.pair(Reliability::ReliableDelivery);
    for memory in MEMORIES {
        let b = s.buffer(p.b.nic, memory, 8192, p.tag_b);
        let from = s.buffer(p.a.nic, memory, 8192, p.tag_a);
        s.receive(p.b, &[b.segment(0, 10), b.segment(20, 10)], 1);
        let other = MemAttributes { ptag: p.tag_b, rdma_write: false, rdma_read: false };
        refused(s.fixture.with(p.b.nic, |e| e.deregister(b.address(), b.handle)), Error::Resource);
        refused(s.fixture.with(p.b.nic, |e| e.set_memory_attributes(b.address(), b.handle, &other)), Error::Resource);
        if let Some(tag) = p.tag_b {
            refused(s.fixture.with(p.b.nic, |e| e.destroy_ptag(tag)), Error::Resource);
        }
        if memory == Memory::Engine {
            refused(s.fixture.with(p.b.nic, |e| e.free(b.base)), Error::Resource);
        }
        s.send(p.a, &[from.segment(0, 20)], None, 2);
        s.sent(p.a, 2);
        s.received(p.b, 1);
        s.fixture.with(p.b.nic, |e| e.set_memory_attributes(b.address(), b.handle, &other)).expect("no longer in use");
        assert_eq!(s.fixture.with(p.b.nic, |e| e.query_memory(b.address(), b.handle)).expect("there"), other);
        s.fixture.with(p.b.nic, |e| e.deregister(b.address(), b.handle)).expect("no longer in use");
        if memory == Memory::Engine {
            s.fixture.with(p.b.nic, |e| e.free(b.base)).expect("no region in it");
            refused(s.fixture.with(p.b.nic, |e| e.free(b.base)), Error::InvalidParameter);
        }
    }
    refused(s.fixture.with(p.a.nic, |e| e.allocate(0)), Error::InvalidParameter);
}

/// Ranges may overlap; each region has rights of its own.
pub fn overlapping_regions<F: Fixture>(s: &mut Stage<F>) {
    for memory in MEMORIES {
        let p = s.pair(Reliability::ReliableReception);
        let local = s.buffer(p.a.nic, memory, 4096, p.tag_a);
        local.fill(7);
        let writable = s.buffer(p.b.nic, memory, 8192, p.tag_b);
        let readable = s.register(p.b.nic, writable.base, 8192, MemAttributes { ptag: p.tag_b, rdma_write: false, rdma_read: true });
        let inner = s.register(p.b.nic, writable.base, 100, MemAttributes { ptag: p.tag_b, rdma_write: true, rdma_read: true });
        assert!(readable.handle != writable.handle && inner.handle != writable.handle);
        s.rdma_write(p.a, &[local.segment(0, 200)], remote(&writable, 0), None, 1);
        s.sent(p.a, 1);
        s.rdma_read(p.a, &[local.segment(1000, 200)], remote(&readable, 0), 2);
        s.sent(p.a, 2);
        s.rdma_write(p.a, &[local.segment(0, 100)], remote(&inner, 0), None, 3);
        s.sent(p.a, 3);
        s.fixture.with(p.b.nic, |e| e.deregister(writable.address(), writable.handle)).expect("unused");
        s.rdma_write(p.a, &[local.segment(0, 100)], remote(&inner, 0), None, 4);
        s.sent(p.a, 4);
        s.rdma_write(p.a, &[local.segment(0, 100)], remote(&readable, 0), None, 5);
        assert!(s.send_done(p.a).status.is_error());
    }
}

/// Rights and tags that change are what counts from then on.
pub fn changed_attributes<F: Fixture>(s: &mut Stage<F>) {
    for memory in MEMORIES {
        let p = s.pair(Reliability::ReliableReception);
        let local = s.buffer(p.a.nic, memory, 4096, p.tag_a);
        let target = s.buffer(p.b.nic, memory, 4096, p.tag_b);
        for i in 0..20u64 {
            let none = MemAttributes { ptag: p.tag_b, rdma_write: false, rdma_read: false };
            let all = MemAttributes { ptag: p.tag_b, rdma_write: true, rdma_read: true };
            s.fixture.with(p.b.nic, |e| e.set_memory_attributes(target.address(), target.handle, &none)).expect("changed");
            s.fixture.with(p.b.nic, |e| e.set_memory_attributes(target.address(), target.handle, &all)).expect("changed");
            local.fill(i as u8);
            s.rdma_write(p.a, &[local.segment(0, 4096)], remote(&target, 0), None, i);
            s.sent(p.a, i);
            target.expect(0, &[i as u8; 4096], 0, "after rights came back");
        }
        let none = MemAttributes { ptag: p.tag_b, rdma_write: false, rdma_read: true };
        s.fixture.with(p.b.nic, |e| e.set_memory_attributes(target.address(), target.handle, &none)).expect("changed");
        local.fill(99);
        s.rdma_write(p.a, &[local.segment(0, 8)], remote(&target, 0), None, 50);
        assert!(s.send_done(p.a).status.is_error());
        target.expect(0, &[], 19, "without the right");
    }
}

/// A region used again and again is remembered (leased) by a queue. That never keeps it registered,
/// never outlives it, and never stretches what it covers.
pub fn regions_used_again_and_again<F: Fixture>(s: &mut Stage<F>) {
    let p = s.pair(Reliability::ReliableDelivery);
    for memory in MEMORIES {
        let from = [s.buffer(p.a.nic, memory, 4096, p.tag_a), s.buffer(p.a.nic, memory, 4096, p.tag_a)];
        let to = [s.buffer(p.b.nic, memory, 4096, p.tag_b), s.buffer(p.b.nic, memory, 4096, p.tag_b)];
        // The same region in a row, then two in turn, with several receives outstanding in each.
        for i in 0..60u64 {
            let which = if i < 20 { 0 } else { (i / 3 % 2) as usize };
            let length = [8, 56, 57, 0, 2047, 2048][i as usize % 6];
            let data = pattern(i as u32, length);
            from[which].write(0, &data);
            for extra in 0..2 {
                s.receive(p.b, &[to[(which + extra) % 2].segment(extra * 2048, 2048)], 2 * i + extra as u64);
            }
            for extra in 0..2u64 {
                s.send(p.a, &[from[which].segment(0, length)], None, i);
                s.sent(p.a, i);
                let got = s.received(p.b, 2 * i + extra);
                assert_eq!(got.length as usize, length);
                let at = &to[(which + extra as usize) % 2];
                assert_eq!(at.read(extra as usize * 2048, length), data);
            }
        }
        // Nothing is posted: every region can go, whatever is remembered of it.
        for (nic, buffers) in [(p.a.nic, &from), (p.b.nic, &to)] {
            for b in buffers {
                s.fixture.with(nic, |e| e.deregister(b.address(), b.handle)).expect("nothing uses it");
            }
        }
        // And what is gone is gone: a stale handle is a protection error, on both sides.
        let fresh = s.register(p.a.nic, from[0].base, 100, MemAttributes { ptag: p.tag_a, rdma_write: false, rdma_read: false });
        assert_ne!(fresh.handle, from[0].handle);
        s.receive(p.b, &[to[0].segment(0, 8)], 900);
        let refused_receive = s.receive_done(p.b);
        assert!(refused_receive.status.contains(Status::PROTECTION_ERROR), "{refused_receive:?}");
        let there = s.register(p.b.nic, to[0].base, 4096, MemAttributes { ptag: p.tag_b, rdma_write: false, rdma_read: false });
        // A smaller region at the same place covers no more than it says.
        for (offset, length) in [(0, 56), (44, 56), (0, 100)] {
            s.receive(p.b, &[there.segment(0, 4096)], 901);
            s.send(p.a, &[fresh.segment(offset, length)], None, 902);
            s.sent(p.a, 902);
            s.received(p.b, 901);
        }
        s.fixture.with(p.a.nic, |e| e.deregister(fresh.address(), fresh.handle)).expect("nothing uses it");
        s.fixture.with(p.b.nic, |e| e.deregister(there.address(), there.handle)).expect("nothing uses it");
    }
    // One byte past the end of a region that has just been used ends the connection.
    let from = s.buffer(p.a.nic, Memory::Heap, 4096, p.tag_a);
    let part = s.register(p.a.nic, from.base, 100, MemAttributes { ptag: p.tag_a, rdma_write: false, rdma_read: false });
    let to = s.buffer(p.b.nic, Memory::Heap, 4096, p.tag_b);
    for _ in 0..3 {
        s.receive(p.b, &[to.segment(0, 64)], 1);
        s.send(p.a, &[part.segment(92, 8)], None, 2);
        s.sent(p.a, 2);
        s.received(p.b, 1);
    }
    s.receive(p.b, &[to.segment(0, 64)], 3);
    let beyond = Segment { address: part.address() + 93, length: 8, handle: part.handle.raw() };
    s.send(p.a, &[beyond], None, 4);
    let outcome = s.send_done(p.a);
    assert!(outcome.status.contains(Status::PROTECTION_ERROR), "{outcome:?}");
}
