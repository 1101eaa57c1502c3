// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bulk messages: out of memory of the layer into the other process's segment, each with a handler at its end.

use std::time::Instant;

use super::{COUNT, LAST, Pair, failed};
use crate::error::Error;

/// `[GB/s]`; the second process `[]`. The last message is answered when all have been handled.
pub(super) fn bandwidth(pair: &Pair<'_>, size: usize, count: u64) -> Result<Vec<f64>, Error> {
    let warm_up = count / 8 + 1;
    let all = warm_up + count;
    if !pair.am.first {
        pair.until(&pair.am.pings, all)?;
        return Ok(Vec::new());
    }
    let mut start = Instant::now();
    for number in 0..all {
        if number == warm_up {
            start = Instant::now();
        }
        let handler = if number + 1 == all { LAST } else { COUNT };
        let source = (&pair.am.source, 0, size);
        pair.am.bundle.request_bulk_from(pair.am.endpoint, 0, handler, 0, source, &[number as i32, 0]).map_err(failed)?;
    }
    pair.until_answered()?;
    Ok(vec![(size as u64 * count) as f64 / start.elapsed().as_nanos() as f64])
}
