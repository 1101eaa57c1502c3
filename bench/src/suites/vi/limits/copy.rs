// SPDX-License-Identifier: MIT OR Apache-2.0
//! One core's memcpy from private memory into the shared mapping: the yardstick of bulk transfers.
//!
//! *Untouched*: one source and one destination buffer, used again and again, and nobody reads: the
//! figure of a core and its cache, which is what most benchmarks of other libraries show.
//! *Touched*: the second process reads every byte of each copy before its slot is written again.

use std::hint::spin_loop;
use std::time::Instant;

use super::{CONTROL_OFFSET, DATA_BYTES, DATA_OFFSET, PATIENCE};
use crate::bench::payload::{Pattern, Touch};
use crate::clock::Patience;
use crate::error::Error;
use crate::shared::{LINE_BYTES, SharedMap};

/// Slots of a touched transfer, if that many fit.
const SLOTS_MAX: usize = 16;
/// Word of the writer's count.
const WRITTEN: usize = CONTROL_OFFSET;
/// Word of the reader's count.
const READ: usize = CONTROL_OFFSET + 4 * LINE_BYTES;

/// Bytes of a piece of a bounced message.
const BOUNCE_BYTES: usize = 16 << 10;

/// Moves `size` bytes `count` times from private to private memory by way of the shared mapping, in
/// pieces, one core copying in, the other copying out; bytes per nanosecond (GB/s) as seen by the
/// first process.
///
/// # Errors
/// As [`run`].
pub fn bounce(map: &SharedMap, first: bool, size: usize, count: u64, epoch: u64) -> Result<f64, Error> {
    if size == 0 || size > DATA_BYTES || size > BOUNCE_BYTES && !size.is_multiple_of(BOUNCE_BYTES) {
        return Err(Error::unsupported(format!("bounces of {size} bytes")));
    }
    let piece = size.min(BOUNCE_BYTES);
    let pieces = count * (size / piece) as u64;
    if first {
        map.word(WRITTEN).publish(0);
        map.word(READ).publish(0);
    }
    map.meet(first, epoch, PATIENCE)?;
    if first { write_slots(map, piece, pieces) } else { read_slots(map, piece, pieces, true).map(|()| 0.0) }
}

/// Copies `size` bytes `count` times; bytes per nanosecond (GB/s) as seen by the first process.
///
/// # Errors
/// If the other side stops answering, or the size does not fit, or the reader sees other bytes than
/// were written.
pub fn run(map: &SharedMap, first: bool, size: usize, count: u64, touch: Touch, epoch: u64) -> Result<f64, Error> {
    if size == 0 || size > DATA_BYTES {
        return Err(Error::unsupported(format!("copies of {size} bytes")));
    }
    if first {
        map.word(WRITTEN).publish(0);
        map.word(READ).publish(0);
    }
    map.meet(first, epoch, PATIENCE)?;
    match (first, touch) {
        (true, Touch::Ends) => Ok(repeat_copy(map, size, count)),
        (true, Touch::All) => write_slots(map, size, count),
        (false, Touch::Ends) => Ok(0.0),
        (false, Touch::All) => read_slots(map, size, count, false).map(|()| 0.0),
    }
}

/// A private source of `size` bytes holding the pattern.
fn source(pattern: &Pattern) -> Vec<u8> {
    let mut bytes = vec![0; pattern.len()];
    // SAFETY: P1: the vector is ours and as long as the pattern.
    unsafe { pattern.fill(bytes.as_mut_ptr()) };
    bytes
}

fn repeat_copy(map: &SharedMap, size: usize, count: u64) -> f64 {
    let source = source(&Pattern::new(size));
    let destination = map.bytes(DATA_OFFSET, size);
    let copy = |times: u64| {
        for _ in 0..times {
            // SAFETY: the destination was range-checked by `bytes` and the source is as long; the
            // other process neither reads nor writes it. The hint keeps the compiler from merging
            // the copies.
            unsafe { core::ptr::copy_nonoverlapping(std::hint::black_box(source.as_ptr()), std::hint::black_box(destination), size) };
        }
    };
    copy(count / 10 + 1);
    let start = Instant::now();
    copy(count);
    (size as u64 * count) as f64 / start.elapsed().as_nanos().max(1) as f64
}

fn slots(size: usize) -> usize {
    (DATA_BYTES / size).clamp(1, SLOTS_MAX)
}

fn write_slots(map: &SharedMap, size: usize, count: u64) -> Result<f64, Error> {
    let pattern = Pattern::new(size);
    let mut source = source(&pattern);
    let slots = slots(size) as u64;
    let (written, read) = (map.word(WRITTEN), map.word(READ));
    let mut patience = Patience::lasting(PATIENCE);
    let start = Instant::now();
    for sequence in 1..=count {
        while sequence > read.observe() + slots {
            spin_loop();
            patience.tick()?;
        }
        let slot = map.bytes(DATA_OFFSET + (sequence % slots) as usize * size, size);
        // SAFETY: P1: the source is ours; the slot was range-checked by `bytes` and belongs to the
        // writer until `written` covers it.
        unsafe {
            pattern.stamp(source.as_mut_ptr(), sequence);
            core::ptr::copy_nonoverlapping(source.as_ptr(), slot, size);
        }
        written.publish(sequence);
    }
    while read.observe() < count {
        spin_loop();
        patience.tick()?;
    }
    Ok((size as u64 * count) as f64 / start.elapsed().as_nanos().max(1) as f64)
}

/// Takes every slot: reads all of it where it lies, or copies it `out` and looks at its ends.
fn read_slots(map: &SharedMap, size: usize, count: u64, out: bool) -> Result<(), Error> {
    let pattern = Pattern::new(size);
    let mut private = vec![0u8; size];
    let slots = slots(size) as u64;
    let (written, read) = (map.word(WRITTEN), map.word(READ));
    let mut patience = Patience::lasting(PATIENCE);
    for sequence in 1..=count {
        while written.observe() < sequence {
            spin_loop();
            patience.tick()?;
        }
        let slot = map.bytes(DATA_OFFSET + (sequence % slots) as usize * size, size);
        // SAFETY: P1: the slot belongs to the reader from `written` covering it until `read` does;
        // the private buffer is as long.
        let intact = unsafe {
            if out {
                core::ptr::copy_nonoverlapping(slot, private.as_mut_ptr(), size);
                pattern.matches(private.as_ptr(), sequence, Touch::Ends)
            } else {
                pattern.matches(slot, sequence, Touch::All)
            }
        };
        if !intact {
            return Err(Error::failed("copied bytes differ"));
        }
        read.publish(sequence);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::two_mappings;

    #[test]
    fn touched_and_untouched() {
        let (one, two) = two_mappings();
        for (epoch, (size, touch)) in [(8, Touch::All), (4096, Touch::All), (100, Touch::Ends)].into_iter().enumerate() {
            std::thread::scope(|scope| {
                let reader = scope.spawn(|| run(&two, false, size, 200, touch, epoch as u64 + 1));
                assert!(run(&one, true, size, 200, touch, epoch as u64 + 1).unwrap() > 0.0);
                reader.join().unwrap().unwrap();
            });
        }
        for (epoch, size) in [(5, 4096), (6, 64 << 10)] {
            std::thread::scope(|scope| {
                let reader = scope.spawn(|| bounce(&two, false, size, 50, epoch));
                assert!(bounce(&one, true, size, 50, epoch).unwrap() > 0.0);
                reader.join().unwrap().unwrap();
            });
        }
        assert!(run(&one, true, DATA_BYTES + 1, 1, Touch::Ends, 9).is_err() && bounce(&one, true, 20_000, 1, 9).is_err());
    }
}
