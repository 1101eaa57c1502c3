// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two-sided bandwidth, one way and both ways at once, and what it costs in processor time.
//!
//! *Ends*: one send and one receive buffer for all messages and the data left unread, as other
//! libraries' benchmarks do, so the figures compare. *All*: every message in buffers of its own,
//! every byte read by the receiver.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::Context;
use super::flow::{Receiver, Sender, Shape};
use super::payload::Touch;
use crate::clock::Patience;
use crate::endpoint::PATIENCE;
use crate::error::Error;

/// First process `[GB/s, % of a processor]`, second process `[% of a processor]`.
///
/// # Errors
/// If the library fails, nothing comes, or what comes is damaged.
pub fn run(context: &Context<'_>, size: usize, count: u64, touch: Touch, both_ways: bool) -> Result<Vec<f64>, Error> {
    let warm_up = count / 8 + 1;
    let there = Shape::bulk(size, warm_up, touch, 0);
    let back = Shape::bulk(size, warm_up, touch, 1);
    let (mut sender, mut receiver) = match (context.first, both_ways) {
        (true, false) => (Some(Sender::new(context, there)?), None),
        (false, false) => (None, Some(Receiver::new(context, there)?)),
        (true, true) => (Some(Sender::new(context, there)?), Some(Receiver::new(context, back)?)),
        (false, true) => (Some(Sender::new(context, back)?), Some(Receiver::new(context, there)?)),
    };
    let mut pair = [sender.as_ref().map(Sender::vi), receiver.as_ref().map(Receiver::vi)];
    if !context.first {
        pair.reverse(); // both processes connect stream 0 first
    }
    for (index, vi) in pair.into_iter().flatten().enumerate() {
        context.connect(vi, index)?;
    }
    context.meet(1)?;
    drive(&mut sender, &mut receiver)?;
    extend(&mut sender, &mut receiver, count);
    context.meet(2)?;
    let (start, cpu) = (Instant::now(), processor_time());
    drive(&mut sender, &mut receiver)?;
    let (wall, cpu) = (start.elapsed(), processor_time() - cpu);
    context.meet(3)?;
    let share = 100.0 * cpu.as_secs_f64() / wall.as_secs_f64();
    if !context.first {
        return Ok(vec![share]);
    }
    let directions = if both_ways { 2 } else { 1 };
    Ok(vec![(size as u64 * count * directions) as f64 / wall.as_nanos() as f64, share])
}

/// A stream from the first process to the other: the half of it that this process has, connected.
///
/// # Errors
/// See [`run`].
pub fn one_way(context: &Context<'_>, shape: Shape) -> Result<(Option<Sender>, Option<Receiver>), Error> {
    Ok(if context.first {
        let sender = Sender::new(context, shape)?;
        context.connect(sender.vi(), 0)?;
        (Some(sender), None)
    } else {
        let receiver = Receiver::new(context, shape)?;
        context.connect(receiver.vi(), 0)?;
        (None, Some(receiver))
    })
}

/// More messages for both halves, where present.
pub fn extend(sender: &mut Option<Sender>, receiver: &mut Option<Receiver>, count: u64) {
    if let Some(sender) = sender {
        sender.extend(count);
    }
    if let Some(receiver) = receiver {
        receiver.extend(count);
    }
}

/// Runs both halves, where present, to their ends.
///
/// # Errors
/// See [`run`].
pub fn drive(sender: &mut Option<Sender>, receiver: &mut Option<Receiver>) -> Result<(), Error> {
    let mut patience = Patience::lasting(PATIENCE);
    if let (Some(sender), Some(receiver)) = (sender.as_mut(), receiver.as_mut()) {
        sender.only_poll();
        receiver.only_poll();
    }
    loop {
        let mut moved = false;
        let mut done = true;
        if let Some(sender) = sender
            && !sender.is_done()
        {
            moved |= sender.step(&mut patience)?;
            done = false;
        }
        if let Some(receiver) = receiver
            && !receiver.is_done()
        {
            moved |= receiver.step(&mut patience)?;
            done = false;
        }
        if done {
            return Ok(());
        }
        if !moved {
            patience.tick()?;
        }
    }
}

/// User and system time of this process, all threads.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
