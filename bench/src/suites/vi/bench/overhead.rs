// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the processor pays for one message, apart from its flight: o_send, o_recv and upkeep of the
//! LogP model.
//!
//! A burst of requests is issued with a delay after each, long enough for the path to be idle
//! again; what the loop takes longer than the delays alone is o_send. The other process answers
//! each request; only when it says (through the shared mapping, not through what is measured) that
//! all answers have left are they received, again with delays: o_recv. Collecting send completions
//! and posting receives again is *upkeep*: every program pays it, but a ping-pong does it while its
//! message flies. The delays are instructions, fenced off, so that nothing overlaps with them.

use std::time::{Duration, Instant};

use super::payload::{Pattern, Touch};
use super::{Context, MAILBOX_OFFSET};
use crate::clock::Patience;
use crate::endpoint::{PATIENCE, SEND, Vi, arm, rearm};
use crate::error::Error;
use crate::shared::LINE_BYTES;
use crate::stats;
use crate::vipl_abi::Descriptor;

/// Messages of a burst: few enough to fit every queue.
pub(crate) const BURST: usize = 16;
/// Where the answering process says how many bursts it has answered.
const ANSWERED: usize = MAILBOX_OFFSET + 16 * LINE_BYTES;
/// After "all answers have left", for wires on which they then still fly.
pub(crate) const SETTLE: Duration = Duration::from_micros(20);
/// The delay, ns: several round trips of the fastest wire.
pub(crate) const DELAY_NS: f64 = 600.0;

/// Instructions that take a known time and nothing else.
#[derive(Debug, Clone, Copy)]
pub struct Delay {
    steps: u64,
}

impl Delay {
    /// A delay of about `ns`.
    pub fn lasting(ns: f64) -> Self {
        const TRIAL: u64 = 200_000;
        let trial = || {
            let start = Instant::now();
            Delay { steps: TRIAL }.pass();
            start.elapsed().as_nanos() as f64 / TRIAL as f64
        };
        // The shortest of some: another program may take the processor away meanwhile.
        let per_step = (0..6).map(|_| trial()).fold(f64::INFINITY, f64::min).max(0.01);
        Delay { steps: (ns / per_step) as u64 }
    }

    /// Passes the time. What came before is done when it begins.
    #[inline]
    pub fn pass(self) {
        if self.steps == 0 {
            return;
        }
        fence_instructions();
        let mut value = 1u64;
        for _ in 0..self.steps {
            value = std::hint::black_box(value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        std::hint::black_box(value);
        fence_instructions();
    }
}

#[inline]
fn fence_instructions() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and it touches no memory.
    unsafe {
        core::arch::x86_64::_mm_lfence();
    }
}

/// One process's end: a VI with `BURST` receives posted and as many sends ready.
struct End {
    vi: Vi,
    pattern: Pattern,
    receives: [*mut Descriptor; BURST],
    sends: [*mut Descriptor; BURST],
}

impl End {
    fn connect(context: &Context<'_>, size: usize) -> Result<Self, Error> {
        let stride = size.next_multiple_of(64);
        context.check_size(stride * BURST)?;
        let vi = context.create_vi()?;
        let pattern = Pattern::new(size);
        let receives = core::array::from_fn(|slot| context.descriptor(slot));
        let sends = core::array::from_fn(|slot| context.descriptor(BURST + slot));
        for slot in 0..BURST {
            let out = context.outgoing(slot * stride, size);
            // SAFETY: E2 and P1: descriptors and buffers of this slot, not posted yet.
            unsafe {
                arm(receives[slot], SEND, size as u32, &[context.incoming(slot * stride, size)]);
                pattern.fill(out.address as *mut u8);
                arm(sends[slot], SEND, size as u32, &[out]);
            }
            vi.post_recv(receives[slot])?;
        }
        context.connect(&vi, 0)?;
        Ok(End { vi, pattern, receives, sends })
    }

    /// Stamps and posts.
    #[inline]
    fn send(&self, slot: usize, sequence: u64) -> Result<(), Error> {
        let descriptor = self.sends[slot];
        // SAFETY: E2 and P1: the slot's previous send has been collected.
        unsafe {
            self.pattern.stamp((*descriptor).segments[0].address as *mut u8, sequence);
            rearm(descriptor, SEND, self.pattern.len() as u32);
        }
        Ok(self.vi.post_send(descriptor)?)
    }

    /// Checks what a receive holds.
    #[inline]
    fn check(&self, descriptor: *mut Descriptor, sequence: u64) -> Result<(), Error> {
        // SAFETY: E2 and P1: a completed descriptor and its buffer are ours until posted again.
        let intact = unsafe { self.pattern.matches((*descriptor).segments[0].address as *const u8, sequence, Touch::Ends) };
        if intact { Ok(()) } else { Err(Error::failed(format!("message {sequence} arrived damaged"))) }
    }

    fn repost(&self) -> Result<(), Error> {
        for descriptor in self.receives {
            // SAFETY: E2: received and checked.
            unsafe { rearm(descriptor, SEND, self.pattern.len() as u32) };
            self.vi.post_recv(descriptor)?;
        }
        Ok(())
    }
}

/// First process `[o_send, o_recv, upkeep]` in ns, medians over `bursts`; second `[]`.
///
/// # Errors
/// If the library fails, nothing comes, or what comes is damaged; if answers are never there when
/// they are looked for.
pub fn run(context: &Context<'_>, size: usize, bursts: u64) -> Result<Vec<f64>, Error> {
    let end = End::connect(context, size)?;
    let mut patience = Patience::lasting(PATIENCE);
    context.map.word(ANSWERED).publish(0);
    context.meet(1)?;
    let result = if context.first { ask(context, &end, bursts, &mut patience) } else { answer(context, &end, bursts, &mut patience).map(|()| Vec::new()) };
    if result.is_ok() {
        context.meet(2)?;
    }
    result
}

fn answer(context: &Context<'_>, end: &End, bursts: u64, patience: &mut Patience) -> Result<(), Error> {
    for burst in 0..bursts {
        let first = burst * BURST as u64;
        for slot in 0..BURST as u64 {
            end.check(end.vi.next_recv(patience)?, first + slot)?;
        }
        end.repost()?;
        for slot in 0..BURST {
            end.send(slot, first + slot as u64)?;
        }
        for _ in 0..BURST {
            end.vi.next_send(patience)?;
        }
        context.map.word(ANSWERED).publish(burst + 1);
    }
    Ok(())
}

fn ask(context: &Context<'_>, end: &End, bursts: u64, patience: &mut Patience) -> Result<Vec<f64>, Error> {
    let delay = Delay::lasting(DELAY_NS);
    let mut samples: [Vec<f64>; 3] = Default::default();
    for burst in 0..bursts {
        let first = burst * BURST as u64;
        let send = timed(delay, |slot| end.send(slot, first + slot as u64).map(|()| true))?;
        while context.map.word(ANSWERED).observe() <= burst {
            std::hint::spin_loop();
            patience.tick()?;
        }
        let settled = Instant::now() + SETTLE;
        while Instant::now() < settled {
            std::hint::spin_loop();
        }
        let mut taken = 0;
        let receive = timed(delay, |_| match end.vi.recv_done()? {
            Some(descriptor) => {
                taken += 1;
                end.check(descriptor, first + taken - 1).map(|()| true)
            }
            None => Ok(false),
        })?;
        while taken < BURST as u64 {
            end.check(end.vi.next_recv(patience)?, first + taken)?;
            taken += 1;
        }
        let start = Instant::now();
        for _ in 0..BURST {
            end.vi.next_send(patience)?;
        }
        end.repost()?;
        let upkeep = start.elapsed().as_nanos() as f64 / BURST as f64;
        // The first bursts warm up.
        if burst >= bursts / 8 {
            for (samples, value) in samples.iter_mut().zip([send, receive, Some(upkeep)]) {
                samples.extend(value);
            }
        }
    }
    let median =
        |samples: &Vec<f64>| stats::median(samples).ok_or_else(|| Error::unsupported("answers come too late on this wire to be told apart from waiting"));
    samples.iter().map(median).collect()
}

/// What one `step` takes, ns, in a burst of them with a delay after each; nothing if one of them
/// answered false.
#[inline]
pub(crate) fn timed(delay: Delay, mut step: impl FnMut(usize) -> Result<bool, Error>) -> Result<Option<f64>, Error> {
    let start = Instant::now();
    for _ in 0..BURST {
        delay.pass();
    }
    let empty = start.elapsed();
    let mut all = true;
    let start = Instant::now();
    for slot in 0..BURST {
        all &= step(slot)?;
        delay.pass();
    }
    let full = start.elapsed();
    Ok(all.then(|| (full.as_nanos() as f64 - empty.as_nanos() as f64) / BURST as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_last_about_as_long_as_asked_for() {
        let delay = Delay::lasting(20_000.0);
        // The shortest of some: another program may take the processor away.
        let shortest = (0..20)
            .map(|_| {
                let start = Instant::now();
                delay.pass();
                start.elapsed()
            })
            .min();
        assert!(shortest.is_some_and(|time| time > Duration::from_micros(2) && time < Duration::from_micros(500)), "{shortest:?}");
    }

    #[test]
    fn a_step_costs_what_it_takes() {
        let (inner, outer) = (Delay::lasting(3000.0), Delay::lasting(600.0));
        let cost = |with: bool| {
            let step = |_| {
                if with {
                    inner.pass();
                }
                Ok(true)
            };
            let costs: Vec<f64> = (0..31).filter_map(|_| timed(outer, step).unwrap()).collect();
            stats::median(&costs).unwrap()
        };
        // On a busy machine single costs are far off; the middle ones still differ by what the step
        // does.
        let (nothing, something) = (cost(false), cost(true));
        assert!(something > nothing + 500.0, "{nothing} {something}");
        assert_eq!(timed(Delay { steps: 0 }, |slot| Ok(slot != 3)).unwrap(), None);
    }
}
