// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests and their replies in batches, their steps marked or not, for [`crate::breakdown`]; and
//! what a poll costs that finds nothing.

use bellwire_am::Message;
use bellwire_memory::atomic::Ordering;

use super::{PING, PING_WATCHED, PONG, Pair, Seen, Way, failed};
use crate::breakdown::path::{BULK, SHORT};
use crate::breakdown::tally::{BATCH, Tally};
use crate::clock::{Patience, ticks};
use crate::endpoint::PATIENCE;
use crate::error::Error;
use crate::marks::{CALLED, REPLYING, RETURNED, Unwatched, Watch, Watched};

/// The handler of [`PING_WATCHED`].
pub(super) fn answer(message: &mut Message<'_>, pings: &Seen) {
    let args = [message.args()[0], message.args()[1]];
    pings.take(args[0]);
    Watched::step(REPLYING);
    if message.reply_probed::<Watched>(PONG, &args).is_err() {
        // Relaxed: as in Seen::take().
        pings.wrong.store(1, Ordering::Relaxed);
    }
}

/// See [`super::AmJob::Steps`].
pub(super) fn run(pair: &Pair<'_>, way: Way, size: usize, batches: usize, watched: bool) -> Result<Vec<f64>, Error> {
    let payload = vec![0x5a; size];
    let drive = if watched { drive::<Watched> } else { drive::<Unwatched> };
    let tally = drive(pair, way, &payload, if watched { PING_WATCHED } else { PING }, batches)?;
    let legs = match way {
        _ if !watched => &[],
        Way::Short | Way::Medium => &SHORT[..],
        Way::Bulk => &BULK[..],
    };
    tally.share(pair.map, pair.am.first, || pair.meet(3), legs)
}

fn drive<W: Watch>(pair: &Pair<'_>, way: Way, payload: &[u8], handler: u8, batches: usize) -> Result<Tally, Error> {
    let mut tally = Tally::default();
    let mut number = 0;
    for batch in 0..=batches {
        if pair.am.first {
            for _ in 0..BATCH {
                W::step(CALLED);
                request::<W>(pair, way, payload, handler, number)?;
                W::step(RETURNED);
                number += 1;
                until::<W>(pair, &pair.am.pongs, number)?;
            }
        } else {
            number += BATCH;
            until::<W>(pair, &pair.am.pings, number)?;
        }
        // The first one warms up.
        if batch == 0 { tally.begin() } else { tally.batch() }
    }
    Ok(tally)
}

#[inline]
fn request<W: Watch>(pair: &Pair<'_>, way: Way, payload: &[u8], handler: u8, number: u64) -> Result<(), Error> {
    let (am, args) = (pair.am, [number as i32, 0]);
    match way {
        Way::Short => am.bundle.request_probed::<W>(am.endpoint, 0, handler, &args),
        Way::Medium => am.bundle.request_medium_probed::<W>(am.endpoint, 0, handler, payload, &args),
        Way::Bulk => am.bundle.request_bulk_from_probed::<W>(am.endpoint, 0, handler, 0, (&am.source, 0, payload.len()), &args),
    }
    .map_err(failed)
}

#[inline]
fn until<W: Watch>(pair: &Pair<'_>, seen: &Seen, count: u64) -> Result<(), Error> {
    let mut patience = Patience::lasting(PATIENCE);
    while seen.count() < count {
        if pair.am.bundle.poll_probed::<W>().map_err(failed)? == 0 {
            pair.alive(&mut patience)?;
        }
    }
    Ok(())
}

/// See [`super::AmJob::EmptyPolls`].
pub(super) fn empty_polls(pair: &Pair<'_>, count: u64) -> Result<Vec<f64>, Error> {
    const PARTS: u64 = 16;
    let mut best = f64::INFINITY;
    for _ in 0..PARTS {
        let start = ticks();
        for _ in 0..count / PARTS {
            pair.am.bundle.poll().map_err(failed)?;
        }
        best = best.min(ticks().wrapping_sub(start) as f64 / (count / PARTS) as f64);
    }
    Ok(vec![best])
}
