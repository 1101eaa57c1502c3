// SPDX-License-Identifier: MIT OR Apache-2.0
//! The raw VI's ping-pong in batches, its steps marked or not, for [`crate::breakdown`]; and what a
//! look at a VI costs to which nothing has come.

use super::Context;
use super::latency::Side;
use super::payload::Touch;
use crate::breakdown::path::RAW;
use crate::breakdown::tally::{BATCH, Tally};
use crate::clock::{Patience, ticks};
use crate::endpoint::PATIENCE;
use crate::error::Error;
use crate::marks::{Unwatched, Watch, Watched};

/// See [`crate::job::Job::Steps`].
///
/// # Errors
/// See [`Side::turn`].
pub fn run(context: &Context<'_>, size: usize, batches: usize, watched: bool) -> Result<Vec<f64>, Error> {
    let mut side = Side::connect(context, size, Touch::All, 0)?;
    context.meet(1)?;
    let tally = if watched { drive::<Watched>(context, &mut side, batches) } else { drive::<Unwatched>(context, &mut side, batches) }?;
    context.meet(2)?;
    let legs = if watched { &RAW[..] } else { &[] };
    tally.share(context.map, context.first, || context.meet(3), legs)
}

fn drive<W: Watch>(context: &Context<'_>, side: &mut Side, batches: usize) -> Result<Tally, Error> {
    let mut patience = Patience::lasting(PATIENCE);
    let mut tally = Tally::default();
    for batch in 0..=batches {
        for _ in 0..BATCH {
            side.watched_turn::<W>(context.first, &mut patience)?;
        }
        // The first one warms up.
        if batch == 0 { tally.begin() } else { tally.batch() }
    }
    Ok(tally)
}

/// `[ticks]` of a `VipRecvDone` that finds nothing.
///
/// # Errors
/// If the library fails.
pub fn empty_polls(context: &Context<'_>, count: u64) -> Result<Vec<f64>, Error> {
    let side = Side::connect(context, 16, Touch::All, 0)?;
    context.meet(1)?;
    let mut best = f64::INFINITY;
    for _ in 0..16 {
        let start = ticks();
        for _ in 0..count / 16 {
            side.look()?;
        }
        best = best.min(ticks().wrapping_sub(start) as f64 / (count / 16) as f64);
    }
    context.meet(2)?;
    Ok(vec![best])
}
