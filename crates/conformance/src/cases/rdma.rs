// SPDX-License-Identifier: MIT OR Apache-2.0
//! RDMA write and read: sizes, immediate data, order, fences.

use crate::cases::transfer::sizes;
use crate::stage::{LEVELS, MEMORIES, Memory, RELIABLE, Stage, pattern, remote};
use crate::{Buffer, Fixture};
use bellwire_via::{Operation, Reliability, SendRequest, Status, ViState, WorkFlags};

/// Writes of every size land where they should, and nowhere else; no receive is consumed.
pub fn write_every_size<F: Fixture>(s: &mut Stage<F>) {
    let sizes = sizes(s);
    let longest = sizes.last().copied().unwrap_or(0) + 64;
    for level in LEVELS {
        for (source, target) in [(Memory::Heap, Memory::Heap), (Memory::Heap, Memory::Engine), (Memory::Engine, Memory::Engine)] {
            let p = s.pair(level);
            let from = s.buffer(p.a.nic, source, longest, p.tag_a);
            let to = s.buffer(p.b.nic, target, longest, p.tag_b);
            s.receive(p.b, &[to.segment(0, 8)], 70);
            for (i, size) in sizes.iter().copied().enumerate() {
                let data = pattern(i as u32 + 3, size);
                from.write(i % 7, &data);
                to.write(0, &vec![0x77; size + 32]);
                s.rdma_write(p.a, &[from.segment(i % 7, size)], remote(&to, 5), None, 1);
                let c = s.sent(p.a, 1);
                assert_eq!((c.status, c.length), (Status::DONE | Status::OP_RDMA_WRITE, size as u32));
                s.until("the data", |_| to.read(5, size) == data);
                let around = to.read(0, size + 32);
                assert!(around[..5].iter().chain(&around[5 + size..]).all(|b| *b == 0x77), "{size} bytes: something beside was written");
            }
            assert!(s.try_receive_done(p.b).is_none(), "a write takes no receive descriptor");
            s.no_errors(p.a);
            s.no_errors(p.b);
        }
    }
}

/// A write with immediate data takes a receive descriptor of any size and reports length and
/// immediate data there, when the data is in memory.
pub fn write_with_immediate<F: Fixture>(s: &mut Stage<F>) {
    let sizes = sizes(s);
    let longest = sizes.last().copied().unwrap_or(0) + 64;
    for level in LEVELS {
        for memory in MEMORIES {
            let p = s.pair(level);
            let from = s.buffer(p.a.nic, memory, longest, p.tag_a);
            let to = s.buffer(p.b.nic, memory, longest, p.tag_b);
            for (i, size) in sizes.iter().copied().enumerate() {
                let data = pattern(i as u32 + 3, size);
                from.write(0, &data);
                to.write(0, &vec![0x66; size + 32]);
                let room = [0usize, 1, longest][i % 3];
                if room == 0 {
                    s.receive(p.b, &[], 7);
                } else {
                    s.receive(p.b, &[to.segment(0, room)], 7);
                }
                s.rdma_write(p.a, &[from.segment(0, size)], remote(&to, 1), Some(i as u32), 8);
                let c = s.received(p.b, 7);
                assert_eq!((c.status, c.length, c.immediate), (Status::DONE | Status::OP_REMOTE_RDMA_WRITE | Status::IMMEDIATE, size as u32, i as u32));
                let around = to.read(0, size + 32);
                assert!(around[1..1 + size] == data[..], "{size} bytes: in memory when it is told");
                assert!(around[..1].iter().chain(&around[1 + size..]).all(|b| *b == 0x66), "{size} bytes: something beside was written");
                s.sent(p.a, 8);
            }
        }
    }
}

/// Reads of every size.
pub fn read_every_size<F: Fixture>(s: &mut Stage<F>) {
    let sizes = sizes(s);
    let longest = sizes.last().copied().unwrap_or(0) + 64;
    for level in RELIABLE {
        for (source, target) in [(Memory::Heap, Memory::Heap), (Memory::Engine, Memory::Heap), (Memory::Engine, Memory::Engine)] {
            let p = s.pair(level);
            let into = s.buffer(p.a.nic, target, longest, p.tag_a);
            let from = s.buffer(p.b.nic, source, longest, p.tag_b);
            for (i, size) in sizes.iter().copied().enumerate() {
                let data = pattern(i as u32 + 5, size);
                from.write(i % 5, &data);
                into.write(0, &vec![0x44; size + 32]);
                let half = size / 2;
                s.rdma_read(p.a, &[into.segment(2, half), into.segment(2 + half, size - half)], remote(&from, i % 5), 1);
                let c = s.sent(p.a, 1);
                assert_eq!((c.status, c.length), (Status::DONE | Status::OP_RDMA_READ, size as u32));
                let around = into.read(0, size + 32);
                assert!(around[2..2 + size] == data[..], "{size} bytes: the data differs");
                assert!(around[..2].iter().chain(&around[2 + size..]).all(|b| *b == 0x44), "{size} bytes: something beside was written");
            }
        }
    }
}

/// RDMA read needs a reliable level: at the unreliable one the descriptor is malformed, and the
/// connection stays.
pub fn no_read_at_the_unreliable_level<F: Fixture>(s: &mut Stage<F>) {
    let p = s.pair(Reliability::Unreliable);
    let into = s.buffer(p.a.nic, Memory::Heap, 4096, p.tag_a);
    let from = s.buffer(p.b.nic, Memory::Heap, 4096, p.tag_b);
    from.fill(9);
    s.rdma_read(p.a, &[into.segment(0, 100)], remote(&from, 0), 1);
    let c = s.send_done(p.a);
    assert_eq!(c.status & Status::ERRORS, Status::FORMAT_ERROR);
    into.expect(0, &[], 0, "nothing moves");
    s.ping(p.a, p.b, &into, &from);
}

/// What a write has written is there when a later send is received.
pub fn write_then_send<F: Fixture>(s: &mut Stage<F>) {
    for level in LEVELS {
        for memory in MEMORIES {
            let p = s.pair(level);
            let from = s.buffer(p.a.nic, memory, 40_000, p.tag_a);
            let to = s.buffer(p.b.nic, memory, 40_000, p.tag_b);
            for round in 0..40u32 {
                let length = [8usize, 100, 2_000, 5_000, 40_000][round as usize % 5];
                let data = pattern(round, length);
                from.write(0, &data);
                s.receive(p.b, &[], 1);
                s.rdma_write(p.a, &[from.segment(0, length)], remote(&to, 0), None, 2);
                s.send(p.a, &[], Some(round), 3);
                assert_eq!(s.received(p.b, 1).immediate, round);
                assert!(to.read(0, length) == data, "round {round}: the write comes before the send");
                s.sent(p.a, 2);
                s.sent(p.a, 3);
            }
        }
    }
}

/// Requests of one VI are done in order: the last of many writes to one place wins, and a read
/// after them sees it.
pub fn writes_and_reads_in_order<F: Fixture>(s: &mut Stage<F>) {
    for level in RELIABLE {
        for memory in MEMORIES {
            // Fresh memory each time: a wire may change its way of reaching it after the first
            // access.
            for round in 0..8u8 {
                let p = s.pair(level);
                let from = s.buffer(p.a.nic, memory, 8 * 4096, p.tag_a);
                let back = s.buffer(p.a.nic, memory, 4096, p.tag_a);
                let to = s.buffer(p.b.nic, memory, 4096, p.tag_b);
                for turn in 0..8u8 {
                    from.write(usize::from(turn) * 4096, &[turn + 1; 4096]);
                }
                for turn in 0..8u8 {
                    let length = if turn % 2 == 0 { 4096 } else { 4095 };
                    s.rdma_write(p.a, &[from.segment(usize::from(turn) * 4096, length)], remote(&to, 0), None, u64::from(turn));
                    for _ in 0..round {
                        s.turn();
                    }
                }
                s.rdma_read(p.a, &[back.segment(0, 4096)], remote(&to, 0), 8);
                for turn in 0..9 {
                    s.sent(p.a, turn);
                }
                let mut expected = vec![8; 4095];
                expected.push(7);
                assert!(back.bytes() == expected, "{level:?} {memory:?}: a read sees the writes before it: {:?}", back.read(4090, 6));
                s.settle();
                assert!(to.bytes() == expected, "{level:?} {memory:?}: the last write wins: {:?}", to.read(4090, 6));
            }
        }
    }
}

/// A fenced request does not begin before the reads before it are done: it may use what they
/// brought.
pub fn fence<F: Fixture>(s: &mut Stage<F>) {
    for level in RELIABLE {
        for memory in MEMORIES {
            // A short read has left when post returns, a long one may not.
            for (operation, length, read) in [
                (Operation::Send, 8usize, 40_000usize),
                (Operation::Send, 8, 4_000),
                (Operation::Send, 40, 4_000),
                (Operation::Send, 30_000, 40_000),
                (Operation::RdmaWrite, 30_000, 40_000),
                (Operation::RdmaWrite, 8, 40_000),
                (Operation::RdmaWrite, 8, 4_000),
            ] {
                let p = s.pair(level);
                let local = s.buffer(p.a.nic, memory, 40_000, p.tag_a);
                let source = s.buffer(p.b.nic, memory, 40_000, p.tag_b);
                let target = s.buffer(p.b.nic, memory, 40_000, p.tag_b);
                let data = pattern(99, 40_000);
                source.write(0, &data);
                s.receive(p.b, &[target.segment(0, 40_000)], 1);
                let from = 40_000 - read;
                s.rdma_read(p.a, &[local.segment(from, read)], remote(&source, from), 2);
                let segments = [local.segment(40_000 - length, length)];
                s.post(
                    p.a,
                    &SendRequest {
                        operation,
                        segments: &segments,
                        flags: WorkFlags::FENCE | WorkFlags::IMMEDIATE,
                        remote_address: target.address(),
                        remote_handle: target.handle.raw(),
                        context: 3,
                        ..SendRequest::default()
                    },
                );
                s.sent(p.a, 2);
                s.sent(p.a, 3);
                s.received(p.b, 1);
                assert!(target.read(0, length) == data[40_000 - length..], "{operation:?} of {length}: what the read brought");
            }
        }
    }
}

/// More reads than a wire will have under way at a time, with sends between them: all complete in
/// order.
pub fn many_reads<F: Fixture>(s: &mut Stage<F>) {
    for level in RELIABLE {
        let p = s.pair(level);
        let into = s.buffer(p.a.nic, Memory::Heap, 100 * 600, p.tag_a);
        let from = s.buffer(p.b.nic, Memory::Heap, 100 * 600, p.tag_b);
        let data = pattern(5, 100 * 600);
        from.write(0, &data);
        for i in 0..100usize {
            s.receive(p.b, &[], i as u64);
        }
        for i in 0..100usize {
            s.rdma_read(p.a, &[into.segment(i * 600, 600)], remote(&from, i * 600), 2 * i as u64);
            s.send(p.a, &[], Some(i as u32), 2 * i as u64 + 1);
        }
        for i in 0..200 {
            s.sent(p.a, i);
        }
        for i in 0..100 {
            assert_eq!(s.received(p.b, i).immediate, i as u32);
        }
        assert!(into.read(0, 60_000) == data, "all that was read");
        assert_eq!((s.state(p.a), s.state(p.b)), (ViState::Connected, ViState::Connected));
    }
}

/// Writes gather; empty requests are done without looking at the address.
pub fn gather_and_empty<F: Fixture>(s: &mut Stage<F>) {
    for level in LEVELS {
        for memory in MEMORIES {
            let p = s.pair(level);
            let from = s.buffer(p.a.nic, memory, 8192, p.tag_a);
            let to: Buffer = s.buffer(p.b.nic, memory, 8192, p.tag_b);
            let data = pattern(1, 8192);
            from.write(0, &data);
            s.rdma_write(p.a, &[from.segment(0, 5), from.segment(0, 0), from.segment(100, 3_000), from.segment(7, 1)], remote(&to, 9), None, 1);
            s.sent(p.a, 1);
            let mut expected = data[..5].to_vec();
            expected.extend_from_slice(&data[100..3_100]);
            expected.push(data[7]);
            s.until("the data", |_| to.read(9, expected.len()) == expected);
            to.expect(9, &expected, 0, "a gathered write");
            s.rdma_write(p.a, &[], (0, 0), None, 2);
            s.sent(p.a, 2);
            s.rdma_write(p.a, &[from.segment(0, 0)], (u64::MAX, u32::MAX), None, 3);
            s.sent(p.a, 3);
            if level.is_reliable() {
                s.rdma_read(p.a, &[], (u64::MAX, 77), 4);
                s.sent(p.a, 4);
            }
            s.ping(p.a, p.b, &from, &to);
        }
    }
}

/// Posts a request of a kind.
type Post<F> = fn(&mut Stage<F>, &crate::stage::Pair, &Buffer, &Buffer);

/// Where memory can be mapped, it is: after the first accesses RDMA and large sends go straight
/// into the peer's memory; elsewhere nothing does. Heap memory never goes that way.
pub fn the_direct_way<F: Fixture>(s: &mut Stage<F>) {
    for level in RELIABLE {
        for memory in MEMORIES {
            let p = s.pair(level);
            let from = s.buffer(p.a.nic, memory, 20_000, p.tag_a);
            let to = s.buffer(p.b.nic, memory, 20_000, p.tag_b);
            let direct = |s: &mut Stage<F>| s.fixture.with(p.a.nic, |e| e.vi_counters(p.a.vi)).expect("there").direct;
            let expected = s.fixture.is_direct() && memory == Memory::Engine;
            let kinds: [(&str, Post<F>); 3] = [
                ("write", |s, p, from, to| s.rdma_write(p.a, &[from.segment(0, 20_000)], remote(to, 0), None, 1)),
                ("read", |s, p, from, to| s.rdma_read(p.a, &[from.segment(0, 20_000)], remote(to, 0), 1)),
                ("send", |s, p, from, to| {
                    s.receive(p.b, &[to.segment(0, 20_000)], 2);
                    s.send(p.a, &[from.segment(0, 20_000)], None, 1);
                }),
            ];
            for (what, post) in kinds {
                for _ in 0..4 {
                    post(s, &p, &from, &to);
                    s.sent(p.a, 1);
                    s.settle();
                }
                let before = direct(s);
                for round in 0..10u32 {
                    let data = pattern(round, 20_000);
                    (if what == "read" { &to } else { &from }).write(0, &data);
                    post(s, &p, &from, &to);
                    s.sent(p.a, 1);
                    if what == "send" {
                        // Posted before: those of the rounds before are used up.
                        s.until("the message", |_| to.bytes()[..20_000] == data[..]);
                        s.settle();
                    }
                    s.until("the data", |_| to.read(0, 20_000) == from.read(0, 20_000));
                }
                let went = direct(s) - before;
                if what == "send" && expected && !s.fixture.publishes_at_once() {
                    continue;
                }
                assert!(went == if expected { 10 } else { 0 }, "{level:?} {memory:?} {what}: {went} of 10 went directly");
                s.drain_receives(p.b);
            }
        }
    }
}

/// Many writes to one place, posted while the wire may be changing its way of reaching it: the last
/// one wins, and a read sees at least all before it.
pub fn order_while_the_way_changes<F: Fixture>(s: &mut Stage<F>) {
    for level in RELIABLE {
        for length in [8usize, 3_000] {
            for (chunk, reads) in [(20u32, true), (60, true), (150, true), (20, false), (60, false), (150, false)] {
                let p = s.pair(level);
                let from = s.buffer(p.a.nic, Memory::Engine, 600 * 3_000, p.tag_a);
                let back = s.buffer(p.a.nic, Memory::Engine, 64 * 3_000, p.tag_a);
                // Fresh memory: nothing of it is mapped yet.
                let to = s.buffer(p.b.nic, Memory::Engine, 4096, p.tag_b);
                let (mut written, mut read, mut expected) = (0u32, 0usize, Vec::new());
                while written < 600 {
                    for _ in 0..chunk.min(600 - written) {
                        let at = written as usize * 3_000;
                        written += 1;
                        from.write(at, &written.to_le_bytes());
                        s.rdma_write(p.a, &[from.segment(at, length)], remote(&to, 0), None, 1);
                    }
                    if reads {
                        s.rdma_read(p.a, &[back.segment(read * 3_000, length)], remote(&to, 0), 1);
                        expected.push(written);
                        read += 1;
                    }
                    s.turn();
                }
                for _ in 0..600 + read {
                    s.sent(p.a, 1);
                }
                let seen: Vec<u32> = (0..read).map(|i| u32::from_le_bytes(back.read(i * 3_000, 4).try_into().expect("four bytes"))).collect();
                // Later writes may overtake a read: that is what the fence is for.
                let in_order = seen.is_sorted() && seen.iter().zip(&expected).all(|(s, e)| s >= e);
                assert!(in_order, "{level:?}, {length} bytes, {chunk} at a time: reads see the writes before them: {seen:?} for {expected:?}");
                // Hundreds of writes may still be on their way into memory; on a busy machine that
                // takes a while.
                for _ in 0..100 {
                    s.settle();
                    if to.read(0, 4) == written.to_le_bytes() {
                        break;
                    }
                }
                assert_eq!(to.read(0, 4), written.to_le_bytes(), "{level:?}, {length} bytes, {chunk} at a time: the last write wins");
            }
        }
    }
}
