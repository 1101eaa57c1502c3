// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models of the line queue: nothing lost, duplicated, reordered or torn, over full, empty and the
//! change of laps.
//!
//! Word 0 and the head are model atomics with the queue's own orderings; the other words are model
//! cells, so that an access that is not ordered after the other side's is itself the error.
#![cfg(loom)]

use bellwire_memory::line_queue::{Consumer, HeadWord, Line, Producer, Slots, orderings};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64};
use loom::thread;

const CAPACITY: u32 = 2;
const WORDS: usize = 3;

/// Slots and head of one queue; a handle is an `Arc` of it.
struct Shared {
    word0: Vec<AtomicU64>,
    rest: Vec<UnsafeCell<[u64; WORDS - 1]>>,
    head: AtomicU32,
}

#[derive(Clone)]
struct Handle(Arc<Shared>);

impl Handle {
    fn new() -> Self {
        let slots = 0..CAPACITY;
        Self(Arc::new(Shared {
            word0: slots.clone().map(|_| AtomicU64::new(0)).collect(),
            rest: slots.map(|_| UnsafeCell::new([0; WORDS - 1])).collect(),
            head: AtomicU32::new(0),
        }))
    }

    fn ends(&self) -> (Producer<Handle, Handle>, Consumer<Handle, Handle>) {
        (Producer::new(self.clone(), self.clone(), CAPACITY), Consumer::new(self.clone(), self.clone(), CAPACITY))
    }
}

impl Slots for Handle {
    fn load_word0(&self, index: u32) -> u64 {
        self.0.word0[index as usize].load(orderings::read_line())
    }

    fn load_rest(&self, index: u32, line: &mut Line) {
        // SAFETY: the model checks that nobody writes meanwhile.
        let rest = self.0.rest[index as usize].with(|p| unsafe { *p });
        line.0[1..WORDS].copy_from_slice(&rest);
    }

    fn store(&self, index: u32, word0: u64, line: &Line, words: usize) {
        assert_eq!(words, WORDS);
        // SAFETY: the model checks that nobody reads or writes meanwhile.
        self.0.rest[index as usize].with_mut(|p| unsafe { (*p).copy_from_slice(&line.0[1..WORDS]) });
        self.0.word0[index as usize].store(word0, orderings::publish_line());
    }
}

impl HeadWord for Handle {
    fn read(&self) -> u32 {
        self.0.head.load(orderings::read_head())
    }

    fn publish(&self, head: u32) {
        self.0.head.store(head, orderings::publish_head());
    }
}

fn line(n: u64) -> Line {
    let mut line = Line::default();
    line.0[..WORDS].copy_from_slice(&[n << 1, n + 100, n + 200]);
    line
}

fn push_when_possible(producer: &mut Producer<Handle, Handle>, n: u64) {
    while !producer.has_room().unwrap() {
        thread::yield_now();
    }
    producer.push(&line(n), WORDS);
}

fn take_when_possible(consumer: &mut Consumer<Handle, Handle>) -> Line {
    loop {
        match consumer.peek() {
            Some(line) => return line,
            None => thread::yield_now(),
        }
    }
}

fn check(got: &Line, n: u64) {
    assert_eq!(got.0[0] >> 1, n, "lost, duplicated or reordered");
    assert_eq!(got.0[1..WORDS], line(n).0[1..WORDS], "torn");
}

/// Two and a half laps; the head published after each line: full at the writer and empty at the
/// reader in every combination.
#[test]
fn in_order_and_whole() {
    loom::model(|| {
        let (mut producer, mut consumer) = Handle::new().ends();
        let writer = thread::spawn(move || {
            for n in 0..5 {
                push_when_possible(&mut producer, n);
            }
        });
        for n in 0..5 {
            check(&take_when_possible(&mut consumer), n);
            consumer.consume();
            consumer.publish();
        }
        assert!(consumer.peek().is_none(), "a line from nowhere");
        writer.join().unwrap();
    });
}

/// The head published lazily: once per lap.
#[test]
fn lazy_head() {
    loom::model(|| {
        let (mut producer, mut consumer) = Handle::new().ends();
        let writer = thread::spawn(move || {
            for n in 0..4 {
                push_when_possible(&mut producer, n);
            }
            assert_eq!(producer.tail(), 4);
        });
        for n in 0..4 {
            check(&take_when_possible(&mut consumer), n);
            consumer.consume();
            if consumer.unpublished() == CAPACITY {
                consumer.publish();
            }
        }
        writer.join().unwrap();
    });
}

/// A writer that gives up when there is no room and a reader that gives up when there is nothing: a
/// prefix arrives.
#[test]
fn a_prefix_arrives() {
    loom::model(|| {
        let (mut producer, mut consumer) = Handle::new().ends();
        let writer = thread::spawn(move || {
            let mut sent = 0;
            for _ in 0..4 {
                if producer.has_room().unwrap() {
                    producer.push(&line(sent), WORDS);
                    sent += 1;
                }
            }
            sent
        });
        let mut got = 0;
        for _ in 0..3 {
            if let Some(line) = consumer.peek() {
                check(&line, got);
                consumer.consume();
                consumer.publish();
                got += 1;
            }
        }
        let sent = writer.join().unwrap();
        assert!(got <= sent && sent - got <= u64::from(CAPACITY));
        while let Some(line) = consumer.peek() {
            check(&line, got);
            consumer.consume();
            got += 1;
        }
        assert_eq!(got, sent);
    });
}
