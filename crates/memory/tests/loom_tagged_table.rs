// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models of the tagged table: a reader gets a whole entry under its tag or nothing.
#![cfg(loom)]

use bellwire_memory::tagged_table::{TableReader, TableWriter, Words};
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;

const N: usize = 3;

#[derive(Clone)]
struct Handle(Arc<Vec<AtomicU64>>);

impl Words for Handle {
    fn word(&self, index: usize) -> &AtomicU64 {
        &self.0[index]
    }
}

fn words() -> Handle {
    Handle(Arc::new((0..N).map(|_| AtomicU64::new(0)).collect()))
}

fn table() -> (TableWriter<Handle, N>, TableReader<Handle, N>) {
    let words = words();
    (TableWriter::new(words.clone(), 1), TableReader::new(words, 1))
}

/// The low byte of every tag is 1, so that one mask finds any generation.
const MASK: u64 = 0xFF;

fn entry(generation: u64) -> [u64; N] {
    [generation << 8 | 1, generation * 10, generation * 10 + 1]
}

fn check(got: Option<[u64; N]>) -> Option<u64> {
    let values = got?;
    let generation = values[0] >> 8;
    assert_eq!(values, entry(generation), "torn");
    Some(generation)
}

#[test]
fn whole_or_nothing() {
    loom::model(|| {
        let (writer, reader) = table();
        writer.set(0, &entry(1));
        let writing = thread::spawn(move || {
            writer.set(0, &entry(2));
        });
        let first = check(reader.get(0, 1, MASK));
        let second = check(reader.get(0, 1, MASK));
        assert!(!(first == Some(2) && second == Some(1)), "went back");
        writing.join().unwrap();
        assert_eq!(check(reader.get(0, 1, MASK)), Some(2));
    });
}

#[test]
fn first_entry() {
    loom::model(|| {
        let (writer, reader) = table();
        let writing = thread::spawn(move || writer.set(0, &entry(1)));
        check(reader.get(0, 1, MASK));
        writing.join().unwrap();
        assert_eq!(check(reader.get(0, 1, MASK)), Some(1));
    });
}

/// Cleared and set anew while two readers look.
#[test]
fn replaced_under_two_readers() {
    loom::model(|| {
        let words = words();
        let writer = TableWriter::<_, N>::new(words.clone(), 1);
        let (reader, again) = (TableReader::<_, N>::new(words.clone(), 1), TableReader::<_, N>::new(words, 1));
        writer.set(0, &entry(1));
        let reading = thread::spawn(move || {
            check(again.get(0, 1, MASK));
        });
        let writing = thread::spawn(move || {
            writer.clear(0, entry(1)[0]);
            writer.set(0, &entry(2));
        });
        check(reader.get(0, 1, MASK));
        writing.join().unwrap();
        reading.join().unwrap();
    });
}
