// SPDX-License-Identifier: MIT OR Apache-2.0
//! RDMA write and read into and out of registered memory of the other process.
//!
//! - *Write latency*: 8 bytes; each side spins on the word that the other writes, and answers with
//!   a write. Completions are collected.
//! - *Write bandwidth*, ends: one source and one destination, used again and again, as in the
//!   memcpy limit and in other libraries' benchmarks. All: each write carries immediate data into a
//!   slot of its own and the target reads every byte before the slot is used again.
//! - *Read*: one at a time, or a window of them.

use std::hint::spin_loop;
use std::time::Instant;

use super::bandwidth::{drive, extend, one_way};
use super::flow::Shape;
use super::payload::{Pattern, Touch};
use super::{Context, Remote};
use crate::clock::Patience;
use crate::endpoint::{PATIENCE, SEND, Vi, arm, rearm};
use crate::error::Error;
use crate::job::Reliability;
use crate::vipl_abi::{Segment, control};

/// Writes or reads under way at most.
pub const WINDOW: usize = 16;
/// Looks at memory between two calls that let a library without direct access make progress: writes
/// land by themselves in shared memory, mostly.
const LOOKS_PER_CALL: u32 = 4096;
/// The same over a network, where whoever polls fetches what is written to it.
const LOOKS_PER_CALL_NETWORK: u32 = 1;
/// Descriptor that receives the last word of a benchmark.
const FINAL_RECEIVE: usize = WINDOW;
/// Descriptor that sends it.
const FINAL_SEND: usize = WINDOW + 1;

/// A connected VI with one small receive posted, and where the other side's memory is.
fn connect(context: &Context<'_>) -> Result<(Vi, Remote), Error> {
    let vi = context.create_vi()?;
    let descriptor = context.descriptor(FINAL_RECEIVE);
    // SAFETY: E2: not posted yet.
    unsafe { arm(descriptor, SEND, 64, &[context.credit(0)]) };
    vi.post_recv(descriptor)?;
    context.connect(&vi, 0)?;
    let remote = context.exchange_areas(1)?;
    Ok((vi, remote))
}

/// Tells the other side that everything before has been handed over, and hears the same: when it
/// returns on the first side, all data are in place.
fn finish(context: &Context<'_>, vi: &Vi, patience: &mut Patience) -> Result<(), Error> {
    let descriptor = context.descriptor(FINAL_SEND);
    // SAFETY: E2: not posted.
    unsafe { arm(descriptor, SEND, 0, &[]) };
    if context.first {
        vi.post_send(descriptor)?;
    }
    vi.next_recv(patience)?;
    if !context.first {
        vi.post_send(descriptor)?;
    }
    vi.next_send(patience)?;
    Ok(())
}

/// `[half round trip in ns]` of 8-byte writes.
///
/// # Errors
/// If the library fails or nothing comes.
pub fn write_latency(context: &Context<'_>, count: u64) -> Result<Vec<f64>, Error> {
    let source = context.outgoing(0, 8);
    let target = context.incoming(0, 8).address as *mut u64;
    // SAFETY: P1: our own incoming area, which nobody writes before both sides have met.
    unsafe { target.write_volatile(0) };
    let (vi, remote) = connect(context)?;
    let descriptor = context.descriptor(0);
    // SAFETY: E2: not posted yet.
    unsafe { arm(descriptor, control::OP_RDMAWRITE, 8, &[remote.segment(0), source]) };
    let mut patience = Patience::lasting(PATIENCE);
    let looks_per_call = if context.setup.ends.is_some() { LOOKS_PER_CALL_NETWORK } else { LOOKS_PER_CALL };
    let mut turn = |sequence: u64| -> Result<(), Error> {
        if !context.first {
            await_word(&vi, looks_per_call, target, sequence, &mut patience)?;
        }
        // SAFETY: E2 and P1: the previous write of this descriptor has been collected.
        unsafe {
            (source.address as *mut u64).write_volatile(sequence);
            rearm(descriptor, control::OP_RDMAWRITE, 8);
        }
        vi.post_send(descriptor)?;
        // The completion is collected while the answer is on its way.
        vi.next_send(&mut patience)?;
        if context.first {
            await_word(&vi, looks_per_call, target, sequence, &mut patience)?;
        }
        Ok(())
    };
    let warm_up = count / 10 + 2;
    (1..=warm_up).try_for_each(&mut turn)?;
    let start = Instant::now();
    (warm_up + 1..=warm_up + count).try_for_each(&mut turn)?;
    let half = start.elapsed().as_nanos() as f64 / count as f64 / 2.0;
    context.meet(2)?;
    Ok(vec![half])
}

#[inline]
fn await_word(vi: &Vi, looks_per_call: u32, word: *const u64, sequence: u64, patience: &mut Patience) -> Result<(), Error> {
    let mut looks = 0u32;
    // SAFETY: P1: a word of our own block that the other process writes as a whole; a volatile read
    // sees each write once it is there.
    while unsafe { word.read_volatile() } != sequence {
        spin_loop();
        looks += 1;
        if looks.is_multiple_of(looks_per_call) {
            vi.recv_done()?;
            patience.tick()?;
        }
    }
    Ok(())
}

/// `[GB/s]` of writes of `size` bytes.
///
/// # Errors
/// If the library fails, nothing comes, or what comes is damaged.
pub fn write_bandwidth(context: &Context<'_>, size: usize, count: u64, touch: Touch) -> Result<Vec<f64>, Error> {
    context.check_size(size)?;
    match touch {
        Touch::All => write_touched(context, size, count),
        Touch::Ends => write_untouched(context, size, count),
    }
}

/// The pattern where bytes come from, zeroes where they go. Both processes use the same stamp, so
/// each knows what to expect.
fn lay_out(context: &Context<'_>, pattern: &Pattern, from: &Segment, to: &Segment) {
    // SAFETY: P1: our own areas, before anything is posted.
    unsafe {
        core::ptr::write_bytes(to.address as *mut u8, 0, to.length as usize);
        pattern.fill(from.address as *mut u8);
        pattern.stamp(from.address as *mut u8, context.request.epoch);
    }
}

fn write_untouched(context: &Context<'_>, size: usize, count: u64) -> Result<Vec<f64>, Error> {
    let pattern = Pattern::new(size);
    let (source, target) = (context.outgoing(0, size), context.incoming(0, size));
    lay_out(context, &pattern, &source, &target);
    let (vi, remote) = connect(context)?;
    let mut patience = Patience::lasting(PATIENCE);
    let mut elapsed = 1.0;
    if context.first {
        let segments = [remote.segment(0), source];
        let mut posts = Posts { context, vi: &vi, operation: control::OP_RDMAWRITE, size, posted: 0 };
        posts.prepare(&segments);
        posts.run(count / 8 + 1, WINDOW, &mut patience, || true)?;
        let start = Instant::now();
        posts.run(count, WINDOW, &mut patience, || true)?;
        finish(context, &vi, &mut patience)?;
        elapsed = start.elapsed().as_nanos() as f64;
    } else {
        finish(context, &vi, &mut patience)?;
        // SAFETY: P1: the writer has said that all its writes came before.
        if !unsafe { pattern.matches(target.address as *const u8, context.request.epoch, Touch::All) } {
            return Err(Error::failed("written bytes differ"));
        }
    }
    context.meet(2)?;
    Ok(vec![(size as u64 * count) as f64 / elapsed])
}

fn write_touched(context: &Context<'_>, size: usize, count: u64) -> Result<Vec<f64>, Error> {
    let shape = Shape { by_write: true, ..Shape::bulk(size, count / 8 + 1, Touch::All, 0) };
    let (mut sender, mut receiver) = one_way(context, shape)?;
    let remote = context.exchange_areas(1)?;
    if let Some(sender) = &mut sender {
        sender.aim(remote);
    }
    drive(&mut sender, &mut receiver)?;
    extend(&mut sender, &mut receiver, count);
    context.meet(2)?;
    let start = Instant::now();
    drive(&mut sender, &mut receiver)?;
    let elapsed = start.elapsed().as_nanos() as f64;
    context.meet(3)?;
    Ok(vec![(size as u64 * count) as f64 / elapsed])
}

/// Reads `size` bytes `count` times, `window` under way: `[ns per read]` or `[GB/s]`.
///
/// # Errors
/// If the library fails, nothing comes, or what comes is damaged.
pub fn read(context: &Context<'_>, size: usize, count: u64, window: usize, latency: bool) -> Result<Vec<f64>, Error> {
    context.check_size(size)?;
    if context.setup.reliability == Reliability::Unreliable {
        return Err(Error::unsupported("RDMA read needs a reliable connection"));
    }
    let pattern = Pattern::new(size);
    let (destination, origin) = (context.outgoing(0, size), context.incoming(0, size));
    lay_out(context, &pattern, &origin, &destination);
    let (vi, remote) = connect(context)?;
    let mut patience = Patience::lasting(PATIENCE);
    let mut elapsed = 1.0;
    if context.first {
        let mut posts = Posts { context, vi: &vi, operation: control::OP_RDMAREAD, size, posted: 0 };
        posts.prepare(&[remote.segment(0), destination]);
        // SAFETY: P1: all reads bring the same bytes, so a later one under way changes nothing.
        let intact = |touch| unsafe { pattern.matches(destination.address as *const u8, context.request.epoch, touch) };
        posts.run(count / 8 + 1, window, &mut patience, || intact(Touch::All))?;
        let start = Instant::now();
        posts.run(count, window, &mut patience, || intact(Touch::Ends))?;
        elapsed = start.elapsed().as_nanos() as f64;
    }
    finish(context, &vi, &mut patience)?;
    context.meet(2)?;
    Ok(vec![if latency { elapsed / count as f64 } else { (size as u64 * count) as f64 / elapsed }])
}

/// A window of identical one-sided operations.
struct Posts<'p, 'c> {
    context: &'p Context<'c>,
    vi: &'p Vi,
    operation: u16,
    size: usize,
    posted: usize,
}

impl Posts<'_, '_> {
    fn prepare(&mut self, segments: &[crate::vipl_abi::Segment; 2]) {
        for slot in 0..WINDOW {
            // SAFETY: E2: not posted yet.
            unsafe { arm(self.context.descriptor(slot), self.operation, self.size as u32, segments) };
        }
    }

    /// Posts `count` operations with at most `window` uncollected, and collects all; `intact` is
    /// asked after each completion.
    fn run(&mut self, count: u64, window: usize, patience: &mut Patience, intact: impl Fn() -> bool) -> Result<(), Error> {
        let base = self.context.descriptor(0);
        let (mut posted, mut collected) = (0u64, 0u64);
        while collected < count {
            while posted < count && posted - collected < window as u64 {
                // SAFETY: E2: the slot's previous operation has been collected, since slots are
                // used in turn.
                let descriptor = unsafe { base.add(self.posted % WINDOW) };
                // SAFETY: E2: its previous operation has been collected.
                unsafe { rearm(descriptor, self.operation, self.size as u32) };
                self.vi.post_send(descriptor)?;
                self.posted = self.posted.wrapping_add(1);
                posted += 1;
            }
            self.vi.next_send(patience)?;
            collected += 1;
            if !intact() {
                return Err(Error::failed("read bytes differ"));
            }
        }
        Ok(())
    }
}
