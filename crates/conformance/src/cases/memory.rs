// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registration: what is refused and why, handles with generations, use counts.

use crate::Fixture;
use crate::stage::{MEMORIES, Memory, Stage, refused, remote};
use bellwire_via::{Error, MemAttributes, MemHandle, Reliability};

/// What cannot be registered.
pub fn registration_errors<F: Fixture>(s: &mut Stage<F>) {
    let nic = s.side(0);
    let b = s.buffer(nic, Memory::Heap, 4096, None);
    let none = MemAttributes::default();
    for (address, length) in [(0, 8), (b.address(), 0), (u64::MAX - 4, 8), (b.address(), u64::MAX), (64, 64)] {
        refused(s.fixture.with(nic, |e| e.register(address, length, &none)), Error::InvalidParameter);
    }
    let gone = s.ptag(nic);
    s.fixture.with(nic, |e| e.destroy_ptag(gone)).expect("unused");
    refused(s.fixture.with(nic, |e| e.register(b.address(), 8, &MemAttributes { ptag: Some(gone), ..none })), Error::InvalidPtag);
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
