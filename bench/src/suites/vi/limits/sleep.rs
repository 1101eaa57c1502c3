// SPDX-License-Identifier: MIT OR Apache-2.0
//! What it costs to wake another process that sleeps, with nothing around it: over two eventfds,
//! and over two futex words. The yardsticks of blocking waits.
//!
//! Each side computes for a while before it rings. Without that, a side that looks once more before
//! it sleeps finds its answer there and never sleeps at all. What is quoted is half a round trip
//! less one pause: from before ringing to running on the other side.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use bellwire_memory::atomic::{AtomicU32, Ordering};
use rustix::io::{read, write};
use rustix::thread::futex;
use rustix::time::Timespec;

use super::{FUTEX_OFFSET, PATIENCE};
use crate::clock;
use crate::error::Error;
use crate::shared::{LINE_BYTES, SharedMap};

/// How long one sleep may last before it looks whether all is lost.
const SLEEP_MAX: Timespec = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };

/// Nanoseconds from ringing to running, the mean of `count` round trips after some for warming up.
/// Each side sleeps in `read` until the other has written.
///
/// # Errors
/// If the other side does not come, or what the operating system says.
pub fn by_eventfd(map: &SharedMap, first: bool, bells: &[OwnedFd; 2], count: u64, pause: Duration, epoch: u64) -> Result<f64, Error> {
    let [own, other] = if first { [&bells[0], &bells[1]] } else { [&bells[1], &bells[0]] };
    let ring = || write(other, &1u64.to_ne_bytes()).map(drop).map_err(Error::from);
    let wait = || read(own, &mut [0u8; 8]).map(drop).map_err(Error::from);
    round_trips(map, first, (count, pause), epoch, |_| ring(), |_| wait())
}

/// As [`by_eventfd`], each side sleeping in `futex` on a word of the mapping.
///
/// # Errors
/// As there.
pub fn by_futex(map: &SharedMap, first: bool, count: u64, pause: Duration, epoch: u64) -> Result<f64, Error> {
    let (zero, one) = (word(map, FUTEX_OFFSET), word(map, FUTEX_OFFSET + 4 * LINE_BYTES));
    let (own, other) = if first { (zero, one) } else { (one, zero) };
    // Relaxed: both sides meet before the word is used.
    own.store(0, Ordering::Relaxed);
    let ring = |turn: u64| {
        // Release: as a sender publishes its message; pairs with the Acquire below.
        other.store(turn as u32, Ordering::Release);
        futex::wake(other, futex::Flags::empty(), 1).map(drop).map_err(Error::from)
    };
    let wait = |turn: u64| loop {
        // Acquire: pairs with the Release above, in the other process.
        let seen = own.load(Ordering::Acquire);
        if seen == turn as u32 {
            return Ok(());
        }
        match futex::wait(own, futex::Flags::empty(), seen, Some(&SLEEP_MAX)) {
            Err(rustix::io::Errno::TIMEDOUT) => return Err(Error::failed("the other side did not wake us")),
            Ok(()) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    };
    round_trips(map, first, (count, pause), epoch, ring, wait)
}

fn word(map: &SharedMap, offset: usize) -> &AtomicU32 {
    let address = map.bytes(offset, 4).cast::<u32>();
    // SAFETY: inside the mapping, which the borrow of `map` keeps, and aligned since offsets are of
    // whole lines; only atomics refer to it.
    unsafe { AtomicU32::from_ptr(address) }
}

/// Times `count` round trips of `ring` on one side and `wait` on the other, after some for warming
/// up; half of one in ns, less the pause.
pub(super) fn round_trips(
    map: &SharedMap,
    first: bool,
    (count, pause): (u64, Duration),
    epoch: u64,
    mut ring: impl FnMut(u64) -> Result<(), Error>,
    mut wait: impl FnMut(u64) -> Result<(), Error>,
) -> Result<f64, Error> {
    map.meet(first, epoch, PATIENCE)?;
    let compute = || {
        if !pause.is_zero() {
            clock::compute(pause);
        }
    };
    let warm_up = count / 10 + 2;
    let mut start = Instant::now();
    for turn in 1..=warm_up + count {
        if turn == warm_up + 1 {
            start = Instant::now();
        }
        if first {
            compute();
            ring(turn)?;
            wait(turn)?;
        } else {
            wait(turn)?;
            compute();
            ring(turn)?;
        }
    }
    Ok(start.elapsed().as_nanos() as f64 / count as f64 / 2.0 - pause.as_nanos() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::two_mappings;
    use rustix::event::{EventfdFlags, eventfd};

    const PAUSE: Duration = Duration::from_micros(50);

    #[test]
    fn both_ways_of_sleeping_wake() {
        let (one, two) = two_mappings();
        let bells = [0, 1].map(|_| eventfd(0, EventfdFlags::CLOEXEC).unwrap());
        std::thread::scope(|scope| {
            let other = scope.spawn(|| (by_eventfd(&two, false, &bells, 50, PAUSE, 1), by_futex(&two, false, 50, PAUSE, 2)));
            assert!(by_eventfd(&one, true, &bells, 50, PAUSE, 1).unwrap() > 0.0);
            assert!(by_futex(&one, true, 50, PAUSE, 2).unwrap() > 0.0);
            let (eventfd, futex) = other.join().unwrap();
            assert!(eventfd.is_ok() && futex.is_ok());
        });
    }
}
