// SPDX-License-Identifier: MIT OR Apache-2.0
//! The LogP signature: the mean time between two requests when M of them are issued in a row, each
//! followed by a fixed delay.
//!
//! The program is whole: it stamps, posts, collects completions, and after each request takes an
//! answer if one is there, checks it and posts its receive again. Few requests show o_send,
//! collecting and one look for an answer (none is back yet); many show the steady state: the gap,
//! or, with a long delay, the delay and both overheads.

use std::time::Instant;

use super::Context;
use super::overhead::Delay;
use super::payload::{Pattern, Touch};
use crate::clock::Patience;
use crate::endpoint::{PATIENCE, SEND, Vi, arm, rearm};
use crate::error::Error;
use crate::stats;
use crate::vipl_abi::Descriptor;

/// Requests without an answer at most.
const WINDOW: u64 = 64;

struct End {
    vi: Vi,
    pattern: Pattern,
    sends: *mut Descriptor,
    sent: u64,
    collected: u64,
    received: u64,
}

impl End {
    fn connect(context: &Context<'_>, size: usize) -> Result<Self, Error> {
        let stride = size.next_multiple_of(64);
        context.check_size(stride * WINDOW as usize)?;
        let vi = context.create_vi()?;
        let pattern = Pattern::new(size);
        for slot in 0..WINDOW as usize {
            let (receive, send) = (context.descriptor(slot), context.descriptor(WINDOW as usize + slot));
            let out = context.outgoing(slot * stride, size);
            // SAFETY: E2 and P1: descriptors and buffers of this slot, not posted yet.
            unsafe {
                arm(receive, SEND, size as u32, &[context.incoming(slot * stride, size)]);
                pattern.fill(out.address as *mut u8);
                arm(send, SEND, size as u32, &[out]);
            }
            vi.post_recv(receive)?;
        }
        context.connect(&vi, 0)?;
        Ok(End { vi, pattern, sends: context.descriptor(WINDOW as usize), sent: 0, collected: 0, received: 0 })
    }

    #[inline]
    fn send(&mut self, patience: &mut Patience) -> Result<(), Error> {
        while self.sent - self.collected >= WINDOW {
            self.vi.next_send(patience)?;
            self.collected += 1;
        }
        // SAFETY: E2 and P1: the slot's previous send has been collected, since slots are used in
        // turn.
        unsafe {
            let descriptor = self.sends.add((self.sent % WINDOW) as usize);
            self.pattern.stamp((*descriptor).segments[0].address as *mut u8, self.sent);
            rearm(descriptor, SEND, self.pattern.len() as u32);
            self.vi.post_send(descriptor)?;
        }
        self.sent += 1;
        if self.vi.send_done()?.is_some() {
            self.collected += 1;
        }
        Ok(())
    }

    #[inline]
    fn take(&mut self, descriptor: *mut Descriptor) -> Result<(), Error> {
        // SAFETY: E2 and P1: a completed descriptor and its buffer are ours until posted again.
        unsafe {
            if !self.pattern.matches((*descriptor).segments[0].address as *const u8, self.received, Touch::Ends) {
                return Err(Error::failed(format!("message {} arrived damaged", self.received)));
            }
            rearm(descriptor, SEND, self.pattern.len() as u32);
        }
        self.received += 1;
        Ok(self.vi.post_recv(descriptor)?)
    }

    /// Takes what is missing of the answers to everything sent.
    fn drain(&mut self, patience: &mut Patience) -> Result<(), Error> {
        while self.received < self.sent {
            let descriptor = self.vi.next_recv(patience)?;
            self.take(descriptor)?;
        }
        Ok(())
    }
}

/// What two readings of the clock take of the time between them, ns: much of a burst of one.
fn clock_cost() -> f64 {
    let readings: Vec<f64> = (0..101).map(|_| Instant::now().elapsed().as_nanos() as f64).collect();
    stats::median(&readings).unwrap_or(0.0)
}

/// First process `[ns between two requests]`, the mean over `bursts` bursts of `burst` requests
/// with `delay_ns` after each; second `[]`.
///
/// # Errors
/// If the library fails, nothing comes, or what comes is damaged.
pub fn run(context: &Context<'_>, size: usize, burst: u64, delay_ns: u64, bursts: u64) -> Result<Vec<f64>, Error> {
    let mut end = End::connect(context, size)?;
    let mut patience = Patience::lasting(PATIENCE);
    let warm_up = bursts / 8 + 1;
    context.meet(1)?;
    if !context.first {
        for _ in 0..(warm_up + bursts) * burst {
            let descriptor = end.vi.next_recv(&mut patience)?;
            end.take(descriptor)?;
            end.send(&mut patience)?;
        }
        context.meet(2)?;
        return Ok(Vec::new());
    }
    let delay = if delay_ns == 0 { Delay::lasting(0.0) } else { Delay::lasting(delay_ns as f64) };
    let clock_ns = clock_cost();
    let mut elapsed = 0.0;
    for turn in 0..warm_up + bursts {
        let start = Instant::now();
        for _ in 0..burst {
            while end.sent - end.received >= WINDOW {
                let descriptor = end.vi.next_recv(&mut patience)?;
                end.take(descriptor)?;
            }
            end.send(&mut patience)?;
            if let Some(descriptor) = end.vi.recv_done()? {
                end.take(descriptor)?;
            }
            delay.pass();
        }
        if turn >= warm_up {
            elapsed += start.elapsed().as_nanos() as f64 - clock_ns;
        }
        end.drain(&mut patience)?;
    }
    context.meet(2)?;
    Ok(vec![elapsed / (bursts * burst) as f64])
}
