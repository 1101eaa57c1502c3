// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends and receives: every size around every boundary, immediate data, scatter and gather.

use crate::Fixture;
use crate::stage::{LEVELS, MEMORIES, Memory, Pair, Stage, pattern};
use bellwire_via::wire::{LinkId, Wire};
use bellwire_via::{Segment, Status};

/// Sizes at and around the boundaries: inline lengths, placement, the wire's payload, the copy of
/// post, powers of two.
pub fn sizes<F: Fixture>(s: &mut Stage<F>) -> Vec<usize> {
    let payload = s.fixture.with(0, |e| e.wire().payload_bytes_max(LinkId::from_raw(0)));
    let mut sizes = vec![0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 47, 48, 49, 55, 56, 57, 63, 64, 65, 100, 1000, 70_001];
    for edge in [2048, 4096, 16 * 1024, 64 * 1024, payload, 2 * payload] {
        sizes.extend([edge - 1, edge, edge + 1]);
    }
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Every size arrives whole, with and without immediate data, and nothing else is touched.
pub fn every_size<F: Fixture>(s: &mut Stage<F>) {
    let sizes = sizes(s);
    let longest = sizes.last().copied().unwrap_or(0) + 64;
    for level in LEVELS {
        for memory in MEMORIES {
            let p = s.pair(level);
            let from = s.buffer(p.a.nic, memory, longest, p.tag_a);
            let to = s.buffer(p.b.nic, memory, longest, p.tag_b);
            for (i, size) in sizes.iter().copied().enumerate() {
                for immediate in [None, Some(0x1234_0000 + i as u32)] {
                    one_message(s, &p, &from, &to, size, i % 13, immediate);
                }
            }
            s.no_errors(p.a);
            s.no_errors(p.b);
        }
    }
}

fn one_message<F: Fixture>(s: &mut Stage<F>, p: &Pair, from: &crate::Buffer, to: &crate::Buffer, size: usize, shift: usize, immediate: Option<u32>) {
    let data = pattern(size as u32 + 7, size);
    from.write(shift, &data);
    to.write(0, &vec![0x5c; size + 64]);
    s.receive(p.b, &[to.segment(3, size + 9)], 1);
    s.send(p.a, &[from.segment(shift, size)], immediate, 2);
    let sent = s.sent(p.a, 2);
    assert_eq!((sent.status, sent.length), (Status::DONE, size as u32));
    let c = s.received(p.b, 1);
    let flag = if immediate.is_some() { Status::IMMEDIATE } else { Status::empty() };
    assert_eq!((c.status, c.length), (Status::DONE | Status::OP_RECEIVE | flag, size as u32), "{size} bytes");
    if let Some(value) = immediate {
        assert_eq!(c.immediate, value);
    }
    let around = to.read(0, size + 64);
    assert!(around[3..3 + size] == data[..], "{:?} {size} bytes: the data differs", p.reliability);
    assert!(around[..3].iter().chain(&around[3 + size..]).all(|b| *b == 0x5c), "{size} bytes: something beside the message was written");
}

/// A message may exactly fill its descriptor.
pub fn exact_fit<F: Fixture>(s: &mut Stage<F>) {
    let sizes = sizes(s);
    for level in LEVELS {
        let p = s.pair(level);
        let from = s.buffer(p.a.nic, Memory::Heap, 140_000, p.tag_a);
        let to = s.buffer(p.b.nic, Memory::Engine, 140_000, p.tag_b);
        for size in sizes.iter().copied() {
            let data = pattern(size as u32, size);
            from.write(0, &data);
            to.write(0, &vec![0xee; size + 64]);
            s.receive(p.b, &[to.segment(0, size)], 1);
            s.send(p.a, &[from.segment(0, size)], Some(9), 2);
            s.sent(p.a, 2);
            assert_eq!(s.received(p.b, 1).length as usize, size);
            assert!(to.read(0, size) == data && to.read(size, 64).iter().all(|b| *b == 0xee), "{size} bytes");
        }
    }
}

/// Messages in a row keep their order, sizes mixed, many posted at a time.
pub fn order_of_mixed_sizes<F: Fixture>(s: &mut Stage<F>) {
    let sizes = sizes(s);
    for level in LEVELS {
        for memory in MEMORIES {
            let p = s.pair(level);
            let space = 200_000;
            let from = s.buffer(p.a.nic, memory, space, p.tag_a);
            let to = s.buffer(p.b.nic, memory, space * 2, p.tag_b);
            let data = pattern(77, space);
            from.write(0, &data);
            for round in 0..4 {
                to.fill(0);
                let list: Vec<usize> = (0..24).map(|i| sizes[(i * 7 + round * 5) % sizes.len()]).filter(|n| *n < 20_000).collect();
                let mut at = 0;
                let places: Vec<usize> = list
                    .iter()
                    .map(|n| {
                        at += n + 1;
                        at - n - 1
                    })
                    .collect();
                for (i, n) in list.iter().enumerate() {
                    s.receive(p.b, &[to.segment(places[i], *n)], i as u64);
                }
                for (i, n) in list.iter().enumerate() {
                    s.send(p.a, &[from.segment(i * 11, *n)], Some(i as u32), i as u64);
                }
                for (i, n) in list.iter().enumerate() {
                    let c = s.received(p.b, i as u64);
                    assert_eq!((c.immediate, c.length as usize), (i as u32, *n));
                    assert!(to.read(places[i], *n) == data[i * 11..i * 11 + n], "message {i} of {n} bytes");
                    assert_eq!(to.read(places[i] + n, 1), [0], "nothing between the messages");
                    s.sent(p.a, i as u64);
                }
            }
        }
    }
}

/// Gathering from and scattering to many segments, some of them empty, at odd addresses.
pub fn scatter_and_gather<F: Fixture>(s: &mut Stage<F>) {
    let shapes: [&[usize]; 7] = [&[0], &[0, 0, 0], &[1, 0, 2, 0, 3], &[5, 43], &[56, 1], &[1000, 0, 1, 3000, 7, 20_000, 0], &[2047; 32]];
    for level in LEVELS {
        for memory in MEMORIES {
            let p = s.pair(level);
            let from = s.buffer(p.a.nic, memory, 100_000, p.tag_a);
            let to = s.buffer(p.b.nic, memory, 100_000, p.tag_b);
            for (n, gather) in shapes.iter().enumerate() {
                for (m, scatter) in shapes.iter().enumerate() {
                    let (total, room): (usize, usize) = (gather.iter().sum(), scatter.iter().sum());
                    if room < total {
                        continue;
                    }
                    let data = pattern((n * 10 + m) as u32, total);
                    to.fill(0x11);
                    let out = lay_out(&from, gather, 3);
                    let into = lay_out(&to, scatter, 1);
                    let mut at = 0;
                    for seg in out.iter().filter(|x| x.length != 0) {
                        from.write((seg.address - from.address()) as usize, &data[at..at + seg.length as usize]);
                        at += seg.length as usize;
                    }
                    s.receive(p.b, &into, 1);
                    s.send(p.a, &out, None, 2);
                    s.sent(p.a, 2);
                    assert_eq!(s.received(p.b, 1).length as usize, total);
                    let mut expected = vec![0x11; to.len];
                    let mut left = &data[..];
                    for seg in into.iter().filter(|x| x.length != 0) {
                        let k = left.len().min(seg.length as usize);
                        let offset = (seg.address - to.address()) as usize;
                        expected[offset..offset + k].copy_from_slice(&left[..k]);
                        left = &left[k..];
                    }
                    assert!(to.bytes() == expected, "{gather:?} to {scatter:?}");
                }
            }
            // No segments at all.
            s.receive(p.b, &[], 3);
            s.send(p.a, &[], Some(5), 4);
            s.sent(p.a, 4);
            let c = s.received(p.b, 3);
            assert_eq!((c.length, c.immediate), (0, 5));
        }
    }
}

/// Segments with gaps between them, so that they are not contiguous. An empty one names no region
/// at all.
fn lay_out(b: &crate::Buffer, lengths: &[usize], gap: usize) -> Vec<Segment> {
    let mut at = 1;
    lengths
        .iter()
        .map(|n| {
            let segment = if *n == 0 { Segment { address: 0, length: 0, handle: 0xdead } } else { b.segment(at, *n) };
            at += n + gap;
            segment
        })
        .collect()
}

/// Both directions at once, with full queues: nobody waits for the other for ever.
pub fn both_directions<F: Fixture>(s: &mut Stage<F>) {
    for level in LEVELS {
        let p = s.pair(level);
        let ba = s.buffer(p.a.nic, Memory::Heap, 20_000, p.tag_a);
        let bb = s.buffer(p.b.nic, Memory::Heap, 20_000, p.tag_b);
        const MESSAGES: u64 = 300;
        for i in 0..MESSAGES {
            for (port, b) in [(p.a, &ba), (p.b, &bb)] {
                s.receive(port, &[b.segment(10_000, 9_000)], i);
            }
        }
        for i in 0..MESSAGES {
            for (port, b) in [(p.a, &ba), (p.b, &bb)] {
                s.send(port, &[b.segment(0, (i as usize * 37) % 9_000)], Some(i as u32), i);
            }
        }
        for i in 0..MESSAGES {
            for port in [p.a, p.b] {
                s.sent(port, i);
                let c = s.received(port, i);
                assert_eq!((c.immediate, c.length as usize), (i as u32, (i as usize * 37) % 9_000));
            }
        }
    }
}
