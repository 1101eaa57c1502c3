// SPDX-License-Identifier: MIT OR Apache-2.0
//! The jobs of Split-C on VIs, between the two measuring processes.

use std::time::Instant;

use super::side::{SEGMENT_BYTES, Side};
use super::{Operation, SplitcJob, Vis, both};
use crate::bench::Context;
use crate::error::Error;
use crate::patient::Patient;
use crate::shared::LINE_BYTES;
use crate::spans::Unwatched;

/// A line in which the first process says that it has done.
const OVER: usize = 60 << 10;

/// Runs a job: its figures.
///
/// # Errors
/// If the library fails, nothing comes, or something cannot be.
pub fn run(context: &Context<'_>, vis: Vis, job: SplitcJob) -> Result<Vec<f64>, Error> {
    if let SplitcJob::Steps { count, marking } = job {
        return if context.first { both::steps(context, vis, count, marking) } else { Ok(Vec::new()) };
    }
    let mut side = Side::new(context.nic, context.setup.reliability.bits(), vis)?;
    for (index, lane) in side.lanes.iter().enumerate() {
        context.connect(&lane.vi, index)?;
    }
    let over = context.map.word(OVER + LINE_BYTES);
    over.publish(0);
    context.meet(1)?;
    if !context.first {
        let mut patience = Patient::default();
        while over.observe() == 0 {
            if side.poll::<Unwatched>()? {
                patience = Patient::default();
            } else {
                patience.tick()?;
            }
        }
        context.meet(2)?;
        return Ok(Vec::new());
    }
    let value = match job {
        SplitcJob::Words { operation, bytes, count } => words(&mut side, operation, bytes, count),
        SplitcJob::Stream { size, count } => stream(&mut side, size, count),
        SplitcJob::Steps { .. } => unreachable!("above"),
    };
    over.publish(1);
    context.meet(2)?;
    value.map(|value| vec![value])
}

/// Nanoseconds of an operation, all of them done at the end: of stores all that are acknowledged.
fn words(side: &mut Side, operation: Operation, bytes: usize, count: u64) -> Result<f64, Error> {
    let warm_up = count / 8 + 1;
    let left = if operation == Operation::Store { side.lanes[0].acknowledge_after - 1 } else { 0 };
    let mut start = Instant::now();
    for number in 0..warm_up + count {
        if number == warm_up {
            side.until::<Unwatched>(left)?;
            start = Instant::now();
        }
        let offset = (number * 8) % SEGMENT_BYTES as u64;
        match operation {
            Operation::Read => {
                side.get::<Unwatched>(offset, bytes)?;
                side.until::<Unwatched>(0)?;
                std::hint::black_box(side.got);
            }
            Operation::Write => {
                side.put(offset, bytes, number)?;
                side.until::<Unwatched>(0)?;
            }
            Operation::Get => side.get::<Unwatched>(offset, bytes)?,
            Operation::Put => side.put(offset, bytes, number)?,
            Operation::Store => side.store(offset, bytes, number)?,
        }
    }
    side.until::<Unwatched>(left)?;
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}

/// GB/s of bulk puts, each acknowledged.
fn stream(side: &mut Side, size: usize, count: u64) -> Result<f64, Error> {
    let warm_up = count / 8 + 1;
    let mut start = Instant::now();
    for number in 0..warm_up + count {
        if number == warm_up {
            side.until::<Unwatched>(0)?;
            start = Instant::now();
        }
        side.put_bulk(0, size)?;
    }
    side.until::<Unwatched>(0)?;
    Ok((size as u64 * count) as f64 / start.elapsed().as_nanos() as f64)
}
