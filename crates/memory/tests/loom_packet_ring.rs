// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models of the packet ring: nothing lost, duplicated, reordered or torn, over full, empty, and
//! the jump from the end to the start.
//!
//! The two indices are model atomics with the ring's own orderings; the bytes are model cells of 16
//! each, so that an access that is not ordered after the other side's is itself the error.
#![cfg(loom)]

use bellwire_memory::packet_ring::{Reader, Storage, Writer, orderings};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::thread;

const CAPACITY: u32 = 128;
const CELL: usize = 16;

struct Shared {
    tail: AtomicU32,
    head: AtomicU32,
    cells: Vec<UnsafeCell<[u8; CELL]>>,
}

#[derive(Clone)]
struct Handle(Arc<Shared>);

impl Handle {
    fn ends() -> (Writer<Handle>, Reader<Handle>) {
        let cells = (0..CAPACITY as usize / CELL).map(|_| UnsafeCell::new([0; CELL])).collect();
        let shared = Self(Arc::new(Shared { tail: AtomicU32::new(0), head: AtomicU32::new(0), cells }));
        (Writer::new(shared.clone(), CAPACITY, 0), Reader::new(shared, CAPACITY, 0))
    }
}

impl Storage for Handle {
    fn read_tail(&self) -> u32 {
        self.0.tail.load(orderings::read_tail())
    }
    fn publish_tail(&self, tail: u32) {
        self.0.tail.store(tail, orderings::publish_tail());
    }
    fn read_head(&self) -> u32 {
        self.0.head.load(orderings::read_head())
    }
    fn publish_head(&self, head: u32) {
        self.0.head.store(head, orderings::publish_head());
    }
    fn write(&self, at: u32, from: &[u8]) {
        for (i, byte) in from.iter().enumerate() {
            let at = at as usize + i;
            // SAFETY: the model checks that nobody reads or writes meanwhile.
            self.0.cells[at / CELL].with_mut(|p| unsafe { (*p)[at % CELL] = *byte });
        }
    }
    unsafe fn write_from(&self, at: u32, from: *const u8, length: usize) {
        // SAFETY: the caller's; the models give slices of their own.
        self.write(at, unsafe { core::slice::from_raw_parts(from, length) });
    }
    fn read(&self, at: u32, to: &mut [u8]) {
        for (i, byte) in to.iter_mut().enumerate() {
            let at = at as usize + i;
            // SAFETY: the model checks that nobody writes meanwhile.
            *byte = self.0.cells[at / CELL].with(|p| unsafe { (*p)[at % CELL] });
        }
    }
}

/// 48 bytes with its header: two fill the ring to 96, and the third begins anew.
const LENGTH: usize = 40;

fn push_when_possible(writer: &mut Writer<Handle>, n: u32) {
    while !writer.push(n, &[n as u8], &[n as u8 + 100; LENGTH - 1]).unwrap() {
        thread::yield_now();
    }
}

fn check(reader: &mut Reader<Handle>, n: u32) -> bool {
    let Some(record) = reader.peek().unwrap() else { return false };
    assert_eq!((record.tag, record.length), (n, LENGTH as u32), "lost, duplicated or reordered");
    // The first and the last cell tell of all.
    let (mut first, mut last) = ([0; 2], [0; 1]);
    reader.copy_out(&record, 0, &mut first);
    reader.copy_out(&record, LENGTH as u32 - 1, &mut last);
    assert_eq!((first, last), ([n as u8, n as u8 + 100], [n as u8 + 100]), "torn");
    reader.consume(&record);
    reader.publish();
    true
}

/// One lap and a half, with the jump to the start, full and empty in every combination.
#[test]
fn in_order_and_whole() {
    loom::model(|| {
        let (mut writer, mut reader) = Handle::ends();
        let thread = thread::spawn(move || {
            for n in 0..3 {
                push_when_possible(&mut writer, n);
            }
        });
        for n in 0..3 {
            while !check(&mut reader, n) {
                thread::yield_now();
            }
        }
        assert!(reader.peek().unwrap().is_none(), "a record from nowhere");
        thread.join().unwrap();
    });
}

/// A writer that gives up when there is no room and a reader that gives up when there is nothing: a
/// prefix arrives.
#[test]
fn a_prefix_arrives() {
    loom::model(|| {
        let (mut writer, mut reader) = Handle::ends();
        let thread = thread::spawn(move || {
            let mut sent = 0;
            for _ in 0..3 {
                sent += u32::from(writer.push(sent, &[sent as u8], &[sent as u8 + 100; LENGTH - 1]).unwrap());
            }
            sent
        });
        let mut got = 0;
        for _ in 0..2 {
            got += u32::from(check(&mut reader, got));
        }
        let sent = thread.join().unwrap();
        while check(&mut reader, got) {
            got += 1;
        }
        assert_eq!(got, sent);
    });
}
