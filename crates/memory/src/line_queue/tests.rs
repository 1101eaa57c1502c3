// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use std::alloc::{Layout, alloc_zeroed, dealloc};

struct Backing {
    base: *mut u8,
    layout: Layout,
}

impl Backing {
    fn new(lines: usize) -> Self {
        let layout = Layout::from_size_align(lines * LINE_BYTES + LINE_BYTES, LINE_BYTES).unwrap();
        // SAFETY: the layout has a size.
        Self { base: unsafe { alloc_zeroed(layout) }, layout }
    }
    fn queue(&self, capacity: u32) -> (Producer<MappedSlots, MappedHead>, Consumer<MappedSlots, MappedHead>) {
        let head = self.base.wrapping_add(capacity as usize * LINE_BYTES);
        // SAFETY: M1, M2: the backing outlives the queue in each test.
        let (s, h) = unsafe { (MappedSlots::new(self.base), MappedHead::new(head)) };
        (Producer::new(s, h, capacity), Consumer::new(s, h, capacity))
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.base, self.layout) };
    }
}

fn line(n: u64, words: usize) -> Line {
    let mut l = Line::default();
    l.0[0] = n << 1;
    for (i, w) in l.0.iter_mut().enumerate().take(words).skip(1) {
        *w = n.wrapping_mul(31).wrapping_add(i as u64);
    }
    l
}

#[test]
fn order_and_content_over_many_laps() {
    let b = Backing::new(8);
    let (mut p, mut c) = b.queue(8);
    let (mut sent, mut got) = (0u64, 0u64);
    while got < 1000 {
        for _ in 0..(sent % 9) + 1 {
            if p.has_room().unwrap() {
                let words = 1 + (sent % 8) as usize;
                p.push(&line(sent, words), words);
                sent += 1;
            }
        }
        for _ in 0..(got % 7) + 1 {
            if let Some(l) = c.peek() {
                let words = 1 + (got % 8) as usize;
                assert_eq!(l.0[0] >> 1, got);
                assert_eq!(l.0[1..words], line(got, words).0[1..words]);
                c.consume();
                got += 1;
            }
        }
        c.publish();
    }
}

#[test]
fn full_until_published() {
    let b = Backing::new(4);
    let (mut p, mut c) = b.queue(4);
    for n in 0..4 {
        assert!(p.has_room().unwrap());
        p.push(&line(n, 1), 1);
    }
    assert!(!p.has_room().unwrap());
    c.consume();
    assert!(!p.has_room().unwrap(), "the head is published lazily");
    c.publish();
    assert!(p.has_room().unwrap());
}

#[test]
fn a_lying_head_is_found_out() {
    for lie in [5u32, u32::MAX, 0x8000_0000] {
        let b = Backing::new(4);
        let (mut p, _c) = b.queue(4);
        for n in 0..4 {
            p.push(&line(n, 1), 1);
        }
        // SAFETY: M2.
        unsafe { MappedHead::new(b.base.wrapping_add(4 * LINE_BYTES)) }.publish(lie);
        assert_eq!(p.has_room(), Err(Corrupt), "lie {lie}");
    }
}

#[test]
fn two_threads() {
    let b = Backing::new(64);
    let (mut p, mut c) = b.queue(64);
    let n = if cfg!(miri) { 500 } else { 200_000u64 };
    std::thread::scope(|s| {
        s.spawn(move || {
            for i in 0..n {
                while !p.has_room().unwrap() {
                    std::thread::yield_now();
                }
                let words = 1 + (i % 8) as usize;
                p.push(&line(i, words), words);
            }
        });
        s.spawn(move || {
            for i in 0..n {
                let l = loop {
                    match c.peek() {
                        Some(l) => break l,
                        None => {
                            c.publish();
                            std::thread::yield_now();
                        }
                    }
                };
                let words = 1 + (i % 8) as usize;
                assert_eq!(l.0[0] >> 1, i);
                assert_eq!(l.0[1..words], line(i, words).0[1..words]);
                c.consume();
            }
        });
    });
}
