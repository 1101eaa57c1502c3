// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two-line exchange: each side owns one cache line, writes a sequence number (and payload)
//! into it, and spins on the other's, with a pause between looks. Half a round trip is the least
//! that a message with its flag can cost on this machine.
//!
//! Also the canary of measurements: the count is cut into chunks and the median chunk is what
//! counts there, so one interruption does not matter.

use std::hint::spin_loop;
use std::time::{Duration, Instant};

use crate::clock::Patience;
use crate::error::Error;
use crate::shared::{LINE_WORDS, Line, SharedMap};
use crate::stats;

/// An exchange slower than the best by more than this factor means that the machine was in its far
/// mode. Near exchanges differ among themselves by up to a factor of two; far ones are slower by
/// four or more.
pub const FAR_FACTOR: f64 = 2.5;
/// Where the exchanged lines lie in the mapping; in front of them is the meeting point.
pub const OFFSET: usize = 4096;
/// Bytes of a mapping in which nothing but lines is exchanged.
pub const BYTES: usize = 2 * OFFSET;
/// How long one side waits for the other.
const PATIENCE: Duration = Duration::from_secs(5);
/// Lines between the two that are used, so that no prefetcher pairs them.
const APART: usize = 4;
/// The count is timed in this many pieces.
const CHUNKS: u64 = 8;

/// Exchanges `count` lines each way with `words` (1 to 8) words used of each; the half round trip
/// in nanoseconds, measured by the first side: of the median chunk, for the canary, and the mean,
/// to be compared with other means.
///
/// # Errors
/// If the other side stops answering or payload arrives that was not sent.
pub fn run(map: &SharedMap, first: bool, count: u64, words: usize, epoch: u64) -> Result<[f64; 2], Error> {
    let lines = map.lines(OFFSET, APART + 1);
    let (own, other) = if first { (&lines[0], &lines[APART]) } else { (&lines[APART], &lines[0]) };
    for index in 0..LINE_WORDS {
        own.word(index).put(0);
    }
    map.meet(first, epoch, PATIENCE)?;
    let words = words.clamp(1, LINE_WORDS);
    let mut patience = Patience::lasting(PATIENCE);
    let per_chunk = count.div_ceil(CHUNKS).max(1);
    let mut chunks = Vec::with_capacity(CHUNKS as usize);
    for chunk in 0..CHUNKS {
        let start = Instant::now();
        for turn in 1..=per_chunk {
            let sequence = chunk * per_chunk + turn;
            if first {
                write(own, words, sequence);
                read(other, words, sequence, &mut patience)?;
            } else {
                read(other, words, sequence, &mut patience)?;
                write(own, words, sequence);
            }
        }
        chunks.push(start.elapsed().as_nanos() as f64 / per_chunk as f64 / 2.0);
    }
    let mean = chunks.iter().sum::<f64>() / chunks.len() as f64;
    Ok([stats::median(&chunks).unwrap_or(f64::NAN), mean])
}

/// Payload first, then the sequence number that vouches for it, all in one line.
#[inline]
fn write(line: &Line, words: usize, sequence: u64) {
    for index in 1..words {
        line.word(index).put(sequence.wrapping_add(index as u64));
    }
    line.word(0).publish(sequence);
}

#[inline]
fn read(line: &Line, words: usize, sequence: u64, patience: &mut Patience) -> Result<(), Error> {
    while line.word(0).observe() != sequence {
        spin_loop();
        patience.tick()?;
    }
    let intact = (1..words).all(|index| line.word(index).get() == sequence.wrapping_add(index as u64));
    if intact { Ok(()) } else { Err(Error::failed("the exchanged line was torn")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exchanges_between_two_mappings() {
        let fd = crate::shared::create(BYTES).unwrap();
        let (one, two) = (SharedMap::map(&fd, BYTES).unwrap(), SharedMap::map(&fd, BYTES).unwrap());
        for (epoch, words) in [(1, 1), (2, 8)] {
            std::thread::scope(|scope| {
                let other = scope.spawn(|| run(&two, false, 64, words, epoch));
                assert!(run(&one, true, 64, words, epoch).unwrap().iter().all(|half| *half > 0.0));
                other.join().unwrap().unwrap();
            });
        }
    }
}
