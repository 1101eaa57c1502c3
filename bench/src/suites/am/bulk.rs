// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bulk messages: out of memory of the layer into the other process's segment, each with a handler
//! at its end.

use super::{COPY, COUNT, LAST, Pair, failed};
use crate::breakdown::path::{BULK_STREAM, Leg};
use crate::error::Error;
use crate::marks::{CALLED, RETURNED, Watch, Watched, sums};

/// `[GB/s]` of the same as medium messages, whose handler copies the data out of the wire: what
/// bulk messages would be that carry their data with them. The second process `[]`.
pub(super) fn in_messages(pair: &Pair<'_>, size: usize, count: u64) -> Result<Vec<f64>, Error> {
    let data = vec![0x5a; size];
    let send = |number: u64, is_last: bool| {
        let handler = if is_last { LAST } else { COPY };
        pair.am.bundle.request_medium(pair.am.endpoint, 0, handler, &data, &[number as i32, 0]).map_err(failed)
    };
    let time = pair.stream(count, send, |_| pair.until_answered())?;
    Ok(time.map(|time| (size as u64 * count) as f64 / time.as_nanos() as f64).into_iter().collect())
}

/// `[GB/s]`; the second process `[]`. The last message is answered when all have been handled.
pub(super) fn bandwidth(pair: &Pair<'_>, size: usize, count: u64) -> Result<Vec<f64>, Error> {
    let send = |number: u64, is_last: bool| {
        let handler = if is_last { LAST } else { COUNT };
        let source = (&pair.am.source, 0, size);
        pair.am.bundle.request_bulk_from(pair.am.endpoint, 0, handler, 0, source, &[number as i32, 0]).map_err(failed)
    };
    let time = pair.stream(count, send, |_| pair.until_answered())?;
    Ok(time.map(|time| (size as u64 * count) as f64 / time.as_nanos() as f64).into_iter().collect())
}

/// `[ticks of each leg ..]` of the sender's calls in such a stream ([`BULK_STREAM`]), marks
/// included; the second process `[]`.
pub(super) fn steps(pair: &Pair<'_>, size: usize, count: u64) -> Result<Vec<f64>, Error> {
    let (mut before, mut sent) = (sums(), 0);
    let warm_up = count / 8;
    let send = |number: u64, is_last: bool| {
        if number == warm_up {
            (before, sent) = (sums(), 0);
        }
        let handler = if is_last { LAST } else { COUNT };
        Watched::step(CALLED);
        pair.am.bundle.request_bulk_from_probed::<Watched>(pair.am.endpoint, 0, handler, 0, (&pair.am.source, 0, size), &[number as i32, 0]).map_err(failed)?;
        Watched::step(RETURNED);
        sent += 1;
        Ok(())
    };
    // What comes back later is polled for without marks.
    if pair.stream(count, send, |_| pair.until_answered())?.is_none() {
        return Ok(Vec::new());
    }
    let after = sums();
    let grown = |step: usize| after[step].wrapping_sub(before[step]);
    Ok(BULK_STREAM.iter().map(|leg: &Leg| grown(leg.to.1).wrapping_sub(grown(leg.from.1)).cast_signed() as f64 / sent as f64).collect())
}
