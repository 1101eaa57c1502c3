// SPDX-License-Identifier: MIT OR Apache-2.0
//! Half round trips of send/receive: what every program pays, with nothing left out.
//!
//! Each turn, on each side, inside the timed loop: stamp, `VipPostSend`, collect the send's
//! completion, post the descriptor received last again, poll `VipRecvDone`, check the payload. Both
//! sides send before they tidy up; of two receives one is always posted, so that is legal.

use std::time::{Duration, Instant};

use bellwire_am::probe::Stage;
use hdrhistogram::Histogram;

use super::payload::{Pattern, Touch};
use super::{AREA_BYTES, Context};
use crate::clock::{self, Patience};
use crate::endpoint::{PATIENCE, SEND, Vi, arm, rearm};
use crate::error::Error;
use crate::marks::{CALLED, RETURNED, Unwatched, Watch};
use crate::vipl_abi::Descriptor;

/// Receives posted throughout.
const RECEIVES: usize = 2;

/// One side of a ping-pong over one VI, its descriptors and buffers set up.
#[derive(Debug)]
pub struct Side {
    vi: Vi,
    pattern: Pattern,
    touch: Touch,
    send: *mut Descriptor,
    out: *mut u8,
    sequence: u64,
    /// Received last, not posted again yet; or null.
    received: *mut Descriptor,
}

impl Side {
    /// Creates a VI, posts its receives and connects it as number `index` of the job, using
    /// descriptors and buffers of that number.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn connect(context: &Context<'_>, size: usize, touch: Touch, index: usize) -> Result<Self, Error> {
        context.check_size(size)?;
        let vi = context.create_vi()?;
        let pattern = Pattern::new(size);
        let stride = size.next_multiple_of(64);
        let first = index * (RECEIVES + 1);
        let out = context.outgoing(index * stride, size);
        // SAFETY: E2 and P1: descriptors and buffers of this index are used by this VI alone and
        // not posted yet.
        unsafe {
            for receive in 0..RECEIVES {
                let buffer = if size > AREA_BYTES / 4 { receive * size } else { (index * RECEIVES + receive) * stride };
                arm(context.descriptor(first + receive), SEND, size as u32, &[context.incoming(buffer, size)]);
                vi.post_recv(context.descriptor(first + receive))?;
            }
            pattern.fill(out.address as *mut u8);
            arm(context.descriptor(first + RECEIVES), SEND, size as u32, &[out]);
        }
        context.connect(&vi, index)?;
        let send = context.descriptor(first + RECEIVES);
        Ok(Side { vi, pattern, touch, send, out: out.address as *mut u8, sequence: 0, received: std::ptr::null_mut() })
    }

    #[inline]
    fn transmit<W: Watch>(&mut self) -> Result<(), Error> {
        W::step(CALLED);
        // SAFETY: E2 and P1: the previous send of this descriptor has been collected.
        unsafe {
            self.pattern.stamp(self.out, self.sequence);
            rearm(self.send, SEND, self.pattern.len() as u32);
        }
        W::step(Stage::Built as usize);
        self.vi.post_send(self.send)?;
        W::step(Stage::Sent as usize);
        Ok(())
    }

    #[inline]
    fn receive<W: Watch>(&mut self, patience: &mut Patience) -> Result<*mut Descriptor, Error> {
        let descriptor = self.vi.next_recv(patience)?;
        W::step(Stage::Taken as usize);
        // SAFETY: E2 and P1: a completed descriptor and its buffer are ours until posted again.
        let intact = unsafe {
            (*descriptor).length as usize == self.pattern.len()
                && self.pattern.matches((*descriptor).segments[0].address as *const u8, self.sequence, self.touch)
        };
        W::step(Stage::Parsed as usize);
        if intact { Ok(descriptor) } else { Err(Error::failed(format!("message {} arrived damaged", self.sequence))) }
    }

    /// Collects the send's completion and posts again what was received last.
    #[inline]
    fn tidy<W: Watch>(&mut self, patience: &mut Patience) -> Result<(), Error> {
        self.vi.next_send(patience)?;
        if !self.received.is_null() {
            // SAFETY: E2: ours since it completed.
            unsafe { rearm(self.received, SEND, self.pattern.len() as u32) };
            self.vi.post_recv(self.received)?;
            self.received = std::ptr::null_mut();
        }
        W::step(RETURNED);
        Ok(())
    }

    /// A look for a message when there is none.
    ///
    /// # Errors
    /// If the library fails.
    #[inline]
    pub fn look(&self) -> Result<(), Error> {
        self.vi.recv_done()?;
        Ok(())
    }

    /// One round trip as seen by one side.
    ///
    /// # Errors
    /// If the library fails, nothing comes, or what comes is damaged.
    #[inline]
    pub fn turn(&mut self, first: bool, patience: &mut Patience) -> Result<(), Error> {
        self.watched_turn::<Unwatched>(first, patience)
    }

    /// As [`turn`](Self::turn), its steps marked.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn watched_turn<W: Watch>(&mut self, first: bool, patience: &mut Patience) -> Result<(), Error> {
        self.sequence += 1;
        if first {
            self.transmit::<W>()?;
            self.tidy::<W>(patience)?;
            self.received = self.receive::<W>(patience)?;
        } else {
            self.received = self.receive::<W>(patience)?;
            self.transmit::<W>()?;
            self.tidy::<W>(patience)?;
        }
        Ok(())
    }
}

/// Turns before the timed ones: a tenth of them, but enough for a new connection to settle.
fn warm_up(count: u64) -> u64 {
    (count / 10).max(count.min(2000))
}

/// `[half round trip in ns]`, the mean over `count` turns after some for warming up.
///
/// # Errors
/// See [`Side::turn`].
pub fn mean(context: &Context<'_>, size: usize, count: u64, touch: Touch) -> Result<Vec<f64>, Error> {
    let mut side = Side::connect(context, size, touch, 0)?;
    let mut patience = Patience::lasting(PATIENCE);
    context.meet(1)?;
    for _ in 0..warm_up(count) {
        side.turn(context.first, &mut patience)?;
    }
    let start = Instant::now();
    for _ in 0..count {
        side.turn(context.first, &mut patience)?;
    }
    let half = start.elapsed().as_nanos() as f64 / count as f64 / 2.0;
    context.meet(2)?;
    Ok(vec![half])
}

/// `[ns]`: half a round trip less the pause that each side makes before it answers; so long that
/// who waits has gone to sleep if it ever does.
///
/// # Errors
/// See [`Side::turn`].
pub fn woken(context: &Context<'_>, count: u64, pause: Duration) -> Result<Vec<f64>, Error> {
    let mut side = Side::connect(context, 8, Touch::Ends, 0)?;
    let mut patience = Patience::lasting(PATIENCE + pause * 3 * count as u32);
    let mut turn = || -> Result<(), Error> {
        side.sequence += 1;
        if !context.first {
            side.received = side.receive::<Unwatched>(&mut patience)?;
        }
        clock::compute(pause);
        side.transmit::<Unwatched>()?;
        side.tidy::<Unwatched>(&mut patience)?;
        if context.first {
            side.received = side.receive::<Unwatched>(&mut patience)?;
        }
        Ok(())
    };
    context.meet(1)?;
    (0..count / 10 + 2).try_for_each(|_| turn())?;
    let start = Instant::now();
    (0..count).try_for_each(|_| turn())?;
    let half = start.elapsed().as_nanos() as f64 / count as f64 / 2.0;
    context.meet(2)?;
    Ok(vec![half - pause.as_nanos() as f64])
}

/// `[p50, p90, p99, p99.9, max]` of `count` half round trips in ns, each stamped with the
/// processor's time counter.
///
/// # Errors
/// See [`Side::turn`].
pub fn percentiles(context: &Context<'_>, size: usize, count: u64) -> Result<Vec<f64>, Error> {
    let mut side = Side::connect(context, size, Touch::Ends, 0)?;
    let mut stamps = vec![0; count as usize + 1];
    let mut patience = Patience::lasting(PATIENCE);
    context.meet(1)?;
    for _ in 0..warm_up(count) {
        side.turn(context.first, &mut patience)?;
    }
    stamps[0] = clock::ticks();
    for stamp in &mut stamps[1..] {
        side.turn(context.first, &mut patience)?;
        *stamp = clock::ticks();
    }
    context.meet(2)?;
    if !context.first {
        return Ok(Vec::new());
    }
    let scale = clock::ns_per_tick(std::time::Duration::from_millis(5));
    summarize(stamps.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]) as f64 * scale / 2.0))
}

fn summarize(halves_ns: impl Iterator<Item = f64>) -> Result<Vec<f64>, Error> {
    // Tenths of nanoseconds from 1 ns to 10 s, three digits.
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 100_000_000_000, 3).map_err(|error| Error::failed(error.to_string()))?;
    for half in halves_ns {
        histogram.saturating_record((half * 10.0) as u64);
    }
    let quantile = |q: f64| histogram.value_at_quantile(q) as f64 / 10.0;
    Ok(vec![quantile(0.5), quantile(0.9), quantile(0.99), quantile(0.999), histogram.max() as f64 / 10.0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_ramp() {
        let values = summarize((1..=1000).map(f64::from)).unwrap();
        for (value, expected) in values.iter().zip([500.0, 900.0, 990.0, 999.0, 1000.0]) {
            assert!((value - expected).abs() <= expected * 0.002, "{value} {expected}");
        }
    }
}
