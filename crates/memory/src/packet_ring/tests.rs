// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::region::{Access, Region, RegionKind};
use proptest::prelude::*;

const CAPACITY: u32 = 4096;
const BYTES: usize = 128;

/// A ring with both its ends, and the memory under it.
fn ring() -> (Arc<RemoteRegion>, Writer<MappedRing>, Reader<MappedRing>) {
    let region = Region::create("ring", BYTES + CAPACITY as usize, RegionKind::Shared).unwrap();
    let memfd = region.fd().try_clone_to_owned().unwrap();
    let memory = Arc::new(RemoteRegion::map(memfd, region.len(), region.len(), Access::ReadWrite).unwrap());
    let storage = MappedRing::new(&memory, 0, 64, BYTES, CAPACITY);
    (memory, Writer::new(storage.clone(), CAPACITY, 0), Reader::new(storage, CAPACITY, 0))
}

fn take(reader: &mut Reader<MappedRing>) -> Option<(u32, Vec<u8>)> {
    let record = reader.peek().unwrap()?;
    let mut bytes = vec![0; record.length as usize];
    reader.copy_out(&record, 0, &mut bytes);
    reader.consume(&record);
    reader.publish();
    Some((record.tag, bytes))
}

#[test]
fn a_calm_ring_stays_at_its_start() {
    let (_region, mut writer, mut reader) = ring();
    let mut most = 0;
    for i in 0..10_000u32 {
        assert!(writer.push(i, b"head", &[i as u8; 60]).unwrap());
        let record = reader.peek().unwrap().unwrap();
        most = most.max(record.at + record.length);
        assert_eq!(take(&mut reader).unwrap(), (i, [b"head".as_slice(), &[i as u8; 60]].concat()));
    }
    assert!(most <= 2 * HOME_BYTES + 128, "{most}");
    assert!(writer.is_empty().unwrap() && reader.is_empty());
}

/// A writer that has gone back to the start has the whole ring at once, whether the reader has
/// followed or not.
#[test]
fn a_ring_that_was_calm_takes_a_burst() {
    for calm in 1..40u32 {
        let (_region, mut writer, mut reader) = ring();
        for i in 0..calm {
            assert!(writer.push(i, b"", &[1; 100]).unwrap());
            assert!(take(&mut reader).is_some());
        }
        let mut pushed = 0;
        while writer.push(pushed, b"", &[2; 100]).unwrap() {
            pushed += 1;
        }
        assert!(pushed >= CAPACITY / 112 - 1, "{pushed} after {calm}");
        for i in 0..pushed {
            assert_eq!(take(&mut reader), Some((i, vec![2; 100])));
        }
        assert!(reader.is_empty() && writer.is_empty().unwrap());
    }
}

#[test]
fn a_full_ring_takes_no_more_and_a_long_record_never_fits() {
    let (_region, mut writer, mut reader) = ring();
    let mut pushed = 0;
    while writer.push(pushed, b"", &[7; 100]).unwrap() {
        pushed += 1;
    }
    assert_eq!(pushed, CAPACITY / 112);
    assert!(take(&mut reader).is_some() && writer.push(0, b"", &[7; 100]).unwrap());
    while take(&mut reader).is_some() {}
    assert!(!writer.push(0, b"", &[0; 2048]).unwrap());
    assert!(writer.push(0, b"", &[1; 2024]).unwrap());
}

/// Pages of a file that are in memory.
fn resident_pages(memory: &RemoteRegion, memfd: &rustix::fd::OwnedFd) -> usize {
    let page = rustix::param::page_size();
    assert!(memory.len() >= page);
    rustix::fs::fstat(memfd).unwrap().st_blocks as usize * 512 / page
}

#[test]
fn an_empty_ring_gives_its_pages_back() {
    const CAPACITY: u32 = 1 << 16;
    let memfd = crate::region::sparse_memfd("ring", BYTES + CAPACITY as usize).unwrap();
    let memory = Arc::new(RemoteRegion::map(memfd.try_clone().unwrap(), 1, 1 << 20, Access::ReadWrite).unwrap());
    let storage = MappedRing::new(&memory, 0, 64, BYTES, CAPACITY);
    let (mut writer, mut reader) = (Writer::new(storage.clone(), CAPACITY, 0), Reader::new(storage, CAPACITY, 0));
    assert!(!writer.has_spare());
    for round in 0..20u32 {
        let mut pushed = 0;
        while writer.push(round, b"", &[round as u8 + 1; 1000]).unwrap() {
            pushed += 1;
        }
        assert!(pushed >= 60 && writer.has_spare());
        assert_eq!(writer.release(), Ok(false), "not empty");
        for _ in 0..pushed {
            assert_eq!(take(&mut reader), Some((round, vec![round as u8 + 1; 1000])));
        }
        assert!(resident_pages(&memory, &memfd) >= 15);
        assert_eq!(writer.release(), Ok(true));
        // The first, and the last, which is not the ring's alone.
        assert!(resident_pages(&memory, &memfd) <= 2 && !writer.has_spare());
        assert!(reader.is_empty() && writer.is_empty().unwrap());
        if round % 2 == 0 {
            writer = Writer::new(reader.storage().clone(), CAPACITY, writer.tail());
        }
        assert!(writer.push(7, b"short", b"").unwrap());
        assert_eq!(take(&mut reader), Some((7, b"short".to_vec())));
    }
}

#[test]
fn ends_go_on_where_others_stopped() {
    let (_region, mut writer, mut reader) = ring();
    let storage = reader.storage().clone();
    for i in 0..500u32 {
        assert!(writer.push(i, b"", &[1; 77]).unwrap());
        writer = Writer::new(storage.clone(), CAPACITY, writer.tail());
        assert_eq!(take(&mut reader).unwrap().0, i);
        reader = Reader::new(storage.clone(), CAPACITY, reader.head());
    }
}

proptest! {
    /// Records come out as they went in, whatever the lengths and whenever the reader looks.
    #[test]
    fn in_order_and_whole(steps in proptest::collection::vec((0usize..2024, any::<bool>()), 1..400)) {
        let (_region, mut writer, mut reader) = ring();
        let mut queue = std::collections::VecDeque::new();
        for (i, (length, takes)) in steps.into_iter().enumerate() {
            if length % 8 == 0 {
                let _ = writer.release().unwrap();
            }
            let pushed = writer.push(i as u32, &[], &vec![i as u8; length]).unwrap();
            if pushed {
                queue.push_back((i as u32, vec![i as u8; length]));
            }
            prop_assert!(pushed || !queue.is_empty(), "an empty ring takes any record of up to half of it");
            if takes {
                prop_assert_eq!(take(&mut reader), queue.pop_front());
            }
        }
        while let Some(wanted) = queue.pop_front() {
            prop_assert_eq!(take(&mut reader), Some(wanted));
        }
        prop_assert_eq!(take(&mut reader), None);
    }

    /// Whatever the other side writes, an end stays within the ring, and says so or goes on.
    #[test]
    fn lies_are_found_or_harmless(words in proptest::collection::vec((0usize..(BYTES + CAPACITY as usize) / 4, any::<u32>()), 1..200), small in any::<bool>()) {
        let (region, mut writer, mut reader) = ring();
        for (at, word) in words {
            let word = if small { (word % 8192) & !15 } else { word };
            region.bytes().copy_in(4 * (if small { at % 40 } else { at }), &word.to_ne_bytes()).unwrap();
            let _ = writer.push(1, b"abc", &[0; 500]);
            for _ in 0..4 {
                match reader.peek() {
                    Ok(Some(record)) => {
                        let mut bytes = vec![0; record.length as usize];
                        reader.copy_out(&record, 0, &mut bytes);
                        reader.consume(&record);
                    }
                    Ok(None) | Err(Corrupt) => break,
                }
            }
            reader.publish();
        }
    }
}

/// Two threads, as two processes would.
#[test]
fn between_threads() {
    let (_region, mut writer, mut reader) = ring();
    const COUNT: u32 = if cfg!(miri) { 50 } else { 100_000 };
    std::thread::scope(|s| {
        s.spawn(move || {
            for i in 0..COUNT {
                while !writer.push(i, &i.to_ne_bytes(), &vec![i as u8; (i % 300) as usize]).unwrap() {
                    std::thread::yield_now();
                }
            }
        });
        for i in 0..COUNT {
            let (tag, bytes) = loop {
                match take(&mut reader) {
                    Some(taken) => break taken,
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!((tag, bytes.len()), (i, 4 + (i % 300) as usize));
            assert!(bytes[..4] == i.to_ne_bytes() && bytes[4..].iter().all(|b| *b == i as u8));
        }
    });
}

#[test]
fn a_ring_beyond_its_region_and_a_record_beyond_its_ring_are_refused() {
    let (memory, writer, _reader) = ring();
    let len = memory.len();
    for (tail, head, bytes) in [(2, 64, BYTES), (0, len, BYTES), (0, usize::MAX - 3, BYTES), (0, 64, len), (0, 64, usize::MAX)] {
        let made = std::panic::catch_unwind(|| MappedRing::new(&memory, tail, head, bytes, CAPACITY));
        assert!(made.is_err(), "{tail} {head} {bytes}");
    }
    let ring = writer.storage;
    for (at, length) in [(CAPACITY, 1), (8, CAPACITY), (u32::MAX, 8), (8, u32::MAX)] {
        let record = Record { tag: 0, at, length };
        assert!(std::panic::catch_unwind(|| ring.address(&record)).is_err(), "{at} {length}");
    }
}
