// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every rule of protection, tried from the wrong side: nothing moves, and each side hears what it
//! should.

use crate::stage::{LEVELS, MEMORIES, Memory, Stage, refused, remote};
use crate::{Buffer, Fixture, Port};
use bellwire_via::event::AsyncErrorCode;
use bellwire_via::{Error, MemAttributes, PtagHandle, Reliability, Status, ViAttributes, ViState};

/// The fault of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Tag,
    NullTagOfRegion,
    NullTagOfVi,
    NullTagOfBoth,
    RightOfRegion,
    RightOfVi,
    StaleHandle,
    NoHandle,
    MadeUpHandle,
    OneBefore,
    OneAfter,
    FarBehind,
    WrapsAround,
}

const ALL: [Wrong; 13] = [
    Wrong::Tag,
    Wrong::NullTagOfRegion,
    Wrong::NullTagOfVi,
    Wrong::NullTagOfBoth,
    Wrong::RightOfRegion,
    Wrong::RightOfVi,
    Wrong::StaleHandle,
    Wrong::NoHandle,
    Wrong::MadeUpHandle,
    Wrong::OneBefore,
    Wrong::OneAfter,
    Wrong::FarBehind,
    Wrong::WrapsAround,
];

/// How it is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Try {
    Write,
    WriteImmediate,
    Read,
}

const SPACE: usize = 24 * 4096;
const FIRST: usize = 8192;

/// Two connected VIs, a target region with something wrong about it, and where to aim.
struct Scene {
    a: Port,
    b: Port,
    local: Buffer,
    /// All of the target's memory.
    whole: Buffer,
    aim: (u64, u32),
}

fn scene<F: Fixture>(s: &mut Stage<F>, wrong: Wrong, attempt: Try, level: Reliability, memory: Memory, length: usize) -> Scene {
    let (na, nb) = (s.side(0), s.side(1));
    let (tag_a, tag, other) = (s.ptag(na), s.ptag(nb), s.ptag(nb));
    let vi_tag = (!matches!(wrong, Wrong::NullTagOfVi | Wrong::NullTagOfBoth)).then_some(tag);
    let reads = attempt == Try::Read;
    let vi_right = wrong != Wrong::RightOfVi;
    let base = Stage::<F>::attributes(level, vi_tag);
    let attributes = ViAttributes { rdma_write: vi_right || reads, rdma_read: level.is_reliable() && (vi_right || !reads), ..base };
    let a = s.vi(na, &Stage::<F>::attributes(level, Some(tag_a)));
    let b = s.vi(nb, &attributes);
    s.connect(a, b);
    let local = s.buffer(na, memory, length, Some(tag_a));
    let memory = s.memory(nb, memory, SPACE);
    let whole = Buffer { nic: nb, base: memory, len: SPACE, handle: bellwire_via::MemHandle::from_raw(0) };
    let region_tag: Option<PtagHandle> = match wrong {
        Wrong::Tag => Some(other),
        Wrong::NullTagOfRegion | Wrong::NullTagOfBoth => None,
        _ => Some(tag),
    };
    let right = wrong != Wrong::RightOfRegion;
    let rights = MemAttributes { ptag: region_tag, rdma_write: right || reads, rdma_read: right || !reads };
    // The region begins and ends within pages that belong to others, so that one byte more is
    // memory like any other. SAFETY: inside the allocation.
    let at = unsafe { memory.add(FIRST) };
    let mut region = s.register(nb, at, length, rights);
    if wrong == Wrong::StaleHandle {
        s.fixture.with(nb, |e| e.deregister(region.address(), region.handle)).expect("nothing uses it");
        let stale = region.handle;
        region = s.register(nb, at, length, rights);
        assert_ne!(stale, region.handle);
        region.handle = stale;
    }
    let handle = match wrong {
        Wrong::NoHandle => 0,
        Wrong::MadeUpHandle => region.handle.raw() ^ 0x0030_0007,
        _ => region.handle.raw(),
    };
    let address = match wrong {
        Wrong::OneBefore => region.address() - 1,
        Wrong::OneAfter => region.address() + 1,
        Wrong::FarBehind => region.address() + length as u64 + 4096,
        Wrong::WrapsAround => u64::MAX - 3,
        _ => region.address(),
    };
    Scene { a, b, local, whole, aim: (address, handle) }
}

/// Writes and reads that are not allowed: at every level, small and in many frames, into memory of
/// either origin.
pub fn remote_access<F: Fixture>(s: &mut Stage<F>) {
    for memory in MEMORIES {
        for attempt in [Try::Write, Try::WriteImmediate, Try::Read] {
            for level in LEVELS.into_iter().filter(|l| l.is_reliable() || attempt != Try::Read) {
                for wrong in ALL {
                    for length in [8usize, 50_000] {
                        one_attempt(s, wrong, attempt, level, memory, length);
                    }
                }
            }
        }
    }
}

fn one_attempt<F: Fixture>(s: &mut Stage<F>, wrong: Wrong, attempt: Try, level: Reliability, memory: Memory, length: usize) {
    let x = scene(s, wrong, attempt, level, memory, length);
    let what = format!("{attempt:?} with wrong {wrong:?} at {level:?}, {memory:?}, {length} bytes");
    x.whole.fill(0x3d);
    x.local.fill(0xc2);
    s.receive(x.b, &[], 7);
    let segments = [x.local.segment(0, length)];
    match attempt {
        Try::Write => s.rdma_write(x.a, &segments, x.aim, None, 1),
        Try::WriteImmediate => s.rdma_write(x.a, &segments, x.aim, Some(5), 1),
        Try::Read => s.rdma_read(x.a, &segments, x.aim, 1),
    }
    let told = if attempt == Try::Read { AsyncErrorCode::RdmaReadProtection } else { AsyncErrorCode::RdmaWriteProtection };
    s.until(&what, |s| s.state(x.b) == ViState::Error || level == Reliability::Unreliable);
    let c = s.send_done(x.a);
    s.settle();
    assert_eq!(s.take_errors(x.b), [told], "{what}: the target's owner hears once");
    x.whole.expect(0, &[], 0x3d, &what);
    x.local.expect(0, &[], 0xc2, &what);
    assert_eq!(c.context, 1, "{what}");
    if level == Reliability::Unreliable {
        assert!(!c.status.is_error(), "{what}: {c:?}");
        assert_eq!((s.state(x.a), s.state(x.b)), (ViState::Connected, ViState::Connected), "{what}");
        assert!(s.try_receive_done(x.b).is_none(), "{what}: no receive is taken");
        s.send(x.a, &[], Some(1), 2);
        s.sent(x.a, 2);
        s.received(x.b, 7);
    } else {
        if attempt == Try::Read || level == Reliability::ReliableReception {
            assert_eq!(c.status & Status::ERRORS, Status::RDMA_PROTECTION_ERROR, "{what}: {c:?}");
        }
        assert_eq!(s.state(x.a), ViState::Error, "{what}");
        assert_eq!(s.take_errors(x.a), [AsyncErrorCode::ConnectionLost], "{what}");
        assert!(s.receive_done(x.b).status.contains(Status::FLUSHED), "{what}");
    }
    s.part(&[x.a, x.b]);
    for p in [x.a, x.b] {
        s.fixture.with(p.nic, |e| e.destroy_vi(p.vi)).expect("destroyed");
    }
}

/// The last byte of a region can be reached, and so can a single byte.
pub fn to_the_last_byte<F: Fixture>(s: &mut Stage<F>) {
    for memory in MEMORIES {
        let p = s.pair(Reliability::ReliableReception);
        let local = s.buffer(p.a.nic, memory, 4096, p.tag_a);
        local.fill(0x99);
        let base = s.memory(p.b.nic, memory, 4096);
        let whole = Buffer { nic: p.b.nic, base, len: 4096, handle: bellwire_via::MemHandle::from_raw(0) };
        // SAFETY: inside the allocation.
        let region = s.register(p.b.nic, unsafe { base.add(100) }, 50, MemAttributes { ptag: p.tag_b, rdma_write: true, rdma_read: true });
        s.rdma_write(p.a, &[local.segment(0, 1)], remote(&region, 0), None, 1);
        s.rdma_write(p.a, &[local.segment(0, 1)], remote(&region, 49), None, 2);
        s.sent(p.a, 1);
        s.sent(p.a, 2);
        let mut expected = vec![0; 50];
        (expected[0], expected[49]) = (0x99, 0x99);
        whole.expect(100, &expected, 0, "the first and the last byte");
        s.rdma_read(p.a, &[local.segment(10, 50)], remote(&region, 0), 3);
        s.sent(p.a, 3);
        assert_eq!(local.read(10, 50), expected);
    }
}

/// A region that is deregistered while writes into it are under way: after the call returns nothing
/// moves any more.
pub fn deregistered_in_flight<F: Fixture>(s: &mut Stage<F>) {
    for memory in MEMORIES {
        for level in LEVELS {
            for turns in [0, 1, 2, 3, 5, 8, 13, 21, 34] {
                let p = s.pair(level);
                let local = s.buffer(p.a.nic, memory, 60_000, p.tag_a);
                local.fill(0x55);
                let target = s.buffer(p.b.nic, memory, 60_000, p.tag_b);
                for i in 0..6 {
                    s.rdma_write(p.a, &[local.segment(0, 60_000)], remote(&target, 0), None, i);
                }
                for _ in 0..turns {
                    s.turn();
                }
                s.fixture.with(p.b.nic, |e| e.deregister(target.address(), target.handle)).expect("a region that only peers use can go");
                target.fill(0x10);
                s.settle();
                target.expect(0, &[], 0x10, "written after it was deregistered");
                s.part(&[p.a, p.b]);
                for port in [p.a, p.b] {
                    s.take_errors(port);
                }
            }
        }
    }
}

/// The same for reads, and for rights taken away.
pub fn rights_taken_in_flight<F: Fixture>(s: &mut Stage<F>) {
    for memory in MEMORIES {
        for turns in [0, 1, 2, 4, 7, 12, 20] {
            let p = s.pair(Reliability::ReliableDelivery);
            let local = s.buffer(p.a.nic, memory, 60_000, p.tag_a);
            let target = s.buffer(p.b.nic, memory, 60_000, p.tag_b);
            target.fill(0x10);
            for i in 0..4 {
                s.rdma_read(p.a, &[local.segment(0, 60_000)], remote(&target, 0), i);
            }
            for _ in 0..turns {
                s.turn();
            }
            let none = MemAttributes { ptag: p.tag_b, rdma_write: false, rdma_read: false };
            s.fixture.with(p.b.nic, |e| e.set_memory_attributes(target.address(), target.handle, &none)).expect("changed");
            target.fill(0xee);
            s.settle();
            assert!(local.bytes().iter().all(|b| *b == 0x10 || *b == 0), "read after the right was taken away, {turns} turns");
            assert_eq!([0; 4].map(|_| s.send_done(p.a).context), [0, 1, 2, 3]);
            s.part(&[p.a, p.b]);
        }
    }
}

/// A wrong tag or a right missing on the local side is refused in the same way by a wire that could
/// do without asking.
pub fn local_tags<F: Fixture>(s: &mut Stage<F>) {
    let nic = s.side(0);
    let (tag, other) = (s.ptag(nic), s.ptag(nic));
    let tagged = s.buffer(nic, Memory::Heap, 4096, Some(tag));
    let others = s.buffer(nic, Memory::Heap, 4096, Some(other));
    let open = s.buffer(nic, Memory::Heap, 4096, None);
    for (vi_tag, buffer, allowed) in
        [(Some(tag), &tagged, true), (Some(tag), &others, false), (Some(tag), &open, true), (None, &tagged, true), (None, &others, true), (None, &open, true)]
    {
        let vi = s.vi(nic, &Stage::<F>::attributes(Reliability::ReliableDelivery, vi_tag));
        s.receive(vi, &[buffer.segment(0, 8)], 1);
        let c = s.try_receive_done(vi);
        assert_eq!(c.is_none(), allowed, "VI {vi_tag:?}");
        if let Some(c) = c {
            assert_eq!(c.status & Status::ERRORS, Status::PROTECTION_ERROR);
        }
    }
    // An unknown tag.
    let gone = s.ptag(nic);
    s.fixture.with(nic, |e| e.destroy_ptag(gone)).expect("unused");
    refused(s.fixture.with(nic, |e| e.destroy_ptag(gone)), Error::InvalidParameter);
    let attributes = Stage::<F>::attributes(Reliability::ReliableDelivery, Some(gone));
    refused(s.fixture.with(nic, |e| e.create_vi(&attributes, None, None, None)), Error::InvalidPtag);
    refused(s.fixture.with(nic, |e| e.destroy_ptag(tag)), Error::Resource);
}
