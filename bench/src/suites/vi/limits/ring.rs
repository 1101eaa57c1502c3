// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bare single-producer single-consumer ring of 64-byte slots: what a message rate could be with
//! nothing but the queue.
//!
//! Both sides cache the other's index, and the consumer publishes its own only every `LAZY` slots.
//! No descriptor, no completion, no check beyond the payload's.

use std::hint::spin_loop;
use std::time::Instant;

use super::{CONTROL_OFFSET, PATIENCE, SLOTS_OFFSET};
use crate::clock::Patience;
use crate::error::Error;
use crate::shared::{LINE_BYTES, LINE_WORDS, SharedMap, Word};

/// Slots of the ring; a power of two.
const SLOTS: usize = 1024;
/// The consumer publishes its index once in this many slots.
const LAZY: u64 = 64;
/// Word of the producer's index.
const TAIL: usize = CONTROL_OFFSET + 8 * LINE_BYTES;
/// Word of the consumer's index.
const HEAD: usize = CONTROL_OFFSET + 12 * LINE_BYTES;

const _: () = assert!(SLOTS.is_power_of_two() && SLOTS_OFFSET + SLOTS * LINE_BYTES <= super::DATA_OFFSET);

/// Moves `count` messages of `words` (1 to 7) words from the first process to the second; messages
/// per second, measured by the first.
///
/// # Errors
/// If the other side stops answering or payload arrives that was not sent.
pub fn run(map: &SharedMap, first: bool, count: u64, words: usize, epoch: u64) -> Result<f64, Error> {
    let (tail, head) = (map.word(TAIL), map.word(HEAD));
    if first {
        tail.publish(0);
        head.publish(0);
    }
    map.meet(first, epoch, PATIENCE)?;
    let words = words.clamp(1, LINE_WORDS - 1);
    if first { produce(map, tail, head, count, words) } else { consume(map, tail, head, count, words).map(|()| 0.0) }
}

fn produce(map: &SharedMap, tail: Word<'_>, head: Word<'_>, count: u64, words: usize) -> Result<f64, Error> {
    let slots = map.lines(SLOTS_OFFSET, SLOTS);
    let mut patience = Patience::lasting(PATIENCE);
    let mut head_cached = 0;
    let start = Instant::now();
    for index in 0..count {
        while index - head_cached >= SLOTS as u64 {
            head_cached = head.observe();
            if index - head_cached >= SLOTS as u64 {
                spin_loop();
                patience.tick()?;
            }
        }
        let slot = &slots[index as usize % SLOTS];
        for word in 0..words {
            slot.word(word).put(index.wrapping_add(word as u64));
        }
        tail.publish(index + 1);
    }
    while head.observe() < count {
        spin_loop();
        patience.tick()?;
    }
    Ok(count as f64 * 1e9 / start.elapsed().as_nanos().max(1) as f64)
}

fn consume(map: &SharedMap, tail: Word<'_>, head: Word<'_>, count: u64, words: usize) -> Result<(), Error> {
    let slots = map.lines(SLOTS_OFFSET, SLOTS);
    let mut patience = Patience::lasting(PATIENCE);
    let mut tail_cached = 0;
    for index in 0..count {
        while index >= tail_cached {
            tail_cached = tail.observe();
            if index >= tail_cached {
                spin_loop();
                patience.tick()?;
            }
        }
        let slot = &slots[index as usize % SLOTS];
        let mut difference = 0;
        for word in 0..words {
            difference |= slot.word(word).get() ^ index.wrapping_add(word as u64);
        }
        if difference != 0 {
            return Err(Error::failed("the ring delivered other bytes than were sent"));
        }
        if (index + 1) % LAZY == 0 || index + 1 == count {
            head.publish(index + 1);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::two_mappings;

    #[test]
    fn all_messages_arrive() {
        let (one, two) = two_mappings();
        for (epoch, words) in [(1, 1), (2, 7)] {
            std::thread::scope(|scope| {
                let consumer = scope.spawn(|| run(&two, false, 5000, words, epoch));
                assert!(run(&one, true, 5000, words, epoch).unwrap() > 0.0);
                consumer.join().unwrap().unwrap();
            });
        }
    }
}
