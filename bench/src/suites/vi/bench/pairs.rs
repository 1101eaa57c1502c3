// SPDX-License-Identifier: MIT OR Apache-2.0
//! One of many ping-pongs at once: 8-byte messages for a given time. The first process ends it by a
//! mark in its last message, so that pairs that get different shares of the processors all end
//! together.

use std::time::{Duration, Instant};

use super::Context;
use crate::clock::Patience;
use crate::endpoint::{PATIENCE, SEND, Vi, arm, rearm};
use crate::error::Error;
use crate::vipl_abi::Descriptor;

/// Receives posted throughout.
const RECEIVES: usize = 2;
/// Set in the last message.
const LAST: u64 = 1 << 63;
/// Round trips between two looks at the clock.
const TURNS_PER_LOOK: u64 = 16;

struct End {
    vi: Vi,
    send: *mut Descriptor,
    patience: Patience,
}

impl End {
    fn connect(context: &Context<'_>, time: Duration) -> Result<Self, Error> {
        let vi = context.create_vi()?;
        for slot in 0..RECEIVES {
            // SAFETY: E2: not posted yet.
            unsafe { arm(context.descriptor(slot), SEND, 8, &[context.incoming(slot * 64, 8)]) };
            vi.post_recv(context.descriptor(slot))?;
        }
        let send = context.descriptor(RECEIVES);
        // SAFETY: E2: not posted yet.
        unsafe { arm(send, SEND, 8, &[context.outgoing(0, 8)]) };
        context.connect(&vi, 0)?;
        Ok(End { vi, send, patience: Patience::lasting(time + PATIENCE) })
    }

    #[inline]
    fn send(&mut self, word: u64) -> Result<(), Error> {
        // SAFETY: E2 and P1: the previous send has been collected.
        unsafe {
            ((*self.send).segments[0].address as *mut u64).write_volatile(word);
            rearm(self.send, SEND, 8);
        }
        self.vi.post_send(self.send)?;
        self.vi.next_send(&mut self.patience).map(drop)
    }

    #[inline]
    fn receive(&mut self) -> Result<u64, Error> {
        let descriptor = self.vi.next_recv(&mut self.patience)?;
        // SAFETY: E2 and P1: a completed descriptor and its buffer are ours until posted again.
        let word = unsafe {
            let word = ((*descriptor).segments[0].address as *const u64).read_volatile();
            rearm(descriptor, SEND, 8);
            word
        };
        self.vi.post_recv(descriptor)?;
        Ok(word)
    }
}

/// First process `[messages per second]`, both directions; second `[]`.
///
/// # Errors
/// If the library fails, nothing comes, or what comes is damaged.
pub fn run(context: &Context<'_>, time: Duration) -> Result<Vec<f64>, Error> {
    let mut end = End::connect(context, time)?;
    if !context.first {
        loop {
            let word = end.receive()?;
            end.send(word)?;
            if word & LAST != 0 {
                break;
            }
        }
        context.meet(1)?;
        return Ok(Vec::new());
    }
    let start = Instant::now();
    let mut turn = 0u64;
    loop {
        turn += 1;
        let last = turn.is_multiple_of(TURNS_PER_LOOK) && start.elapsed() >= time;
        let word = if last { turn | LAST } else { turn };
        end.send(word)?;
        if end.receive()? != word {
            return Err(Error::failed(format!("message {turn} came back damaged")));
        }
        if last {
            break;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    context.meet(1)?;
    Ok(vec![2.0 * turn as f64 / seconds])
}
