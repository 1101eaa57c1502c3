// SPDX-License-Identifier: MIT OR Apache-2.0
//! Message rate, send to receive: small messages in buffers of their own, every byte checked, every
//! receive posted again, every completion collected; 256 receives posted, a credit message
//! every 64.

use std::time::Instant;

use super::Context;
use super::bandwidth::{drive, extend, one_way};
use super::flow::Shape;
use super::payload::Touch;
use crate::error::Error;

/// Receives posted.
const WINDOW: usize = 256;

/// `[messages per second]`; `inline`: sent without descriptors.
///
/// # Errors
/// If the library fails, nothing comes, or what comes is damaged.
pub fn run(context: &Context<'_>, size: usize, count: u64, inline: bool) -> Result<Vec<f64>, Error> {
    let shape = Shape { size, window: WINDOW, count: count / 8 + 1, touch: Touch::All, distinct: true, by_write: false, inline, index: 0 };
    let (mut sender, mut receiver) = one_way(context, shape)?;
    context.meet(1)?;
    drive(&mut sender, &mut receiver)?;
    extend(&mut sender, &mut receiver, count);
    context.meet(2)?;
    let start = Instant::now();
    drive(&mut sender, &mut receiver)?;
    let seconds = start.elapsed().as_secs_f64();
    context.meet(3)?;
    Ok(vec![count as f64 / seconds])
}
