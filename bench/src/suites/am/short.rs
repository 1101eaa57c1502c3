// SPDX-License-Identifier: MIT OR Apache-2.0
//! Short messages: half round trips, overheads, and the gap of a stream. The method is that of the
//! raw VI (`bench/overhead.rs`).

use std::time::{Duration, Instant};

use super::{COUNT, DONE, LAST, PING, Pair, failed};
use crate::bench::overhead::{BURST, DELAY_NS, Delay, SETTLE, timed};
use crate::clock::Patience;
use crate::endpoint::PATIENCE;
use crate::error::Error;
use crate::stats;

/// `[half round trip ns]`; the second process `[]`.
pub(super) fn latency(pair: &Pair<'_>, count: u64) -> Result<Vec<f64>, Error> {
    let round = |number, _| {
        pair.request(PING, number)?;
        pair.until(&pair.am.pongs, number + 1)
    };
    let time = pair.stream(count, round, |_| Ok(()))?;
    Ok(time.map(|time| time.as_nanos() as f64 / (2 * count) as f64).into_iter().collect())
}

/// `[ns between two requests]`; the second process `[]`.
pub(super) fn gap(pair: &Pair<'_>, count: u64, replied: bool) -> Result<Vec<f64>, Error> {
    let time = if replied {
        pair.stream(count, |number, _| pair.request(PING, number), |all| pair.until(&pair.am.pongs, all))?
    } else {
        pair.stream(count, |number, is_last| pair.request(if is_last { LAST } else { COUNT }, number), |_| pair.until_answered())?
    };
    Ok(time.map(|time| time.as_nanos() as f64 / count as f64).into_iter().collect())
}

/// `[o_send, o_recv]`, medians over `bursts`; the second process `[]`.
pub(super) fn overhead(pair: &Pair<'_>, bursts: u64) -> Result<Vec<f64>, Error> {
    let burst_size = BURST as u64;
    let done = pair.map.word(DONE);
    if !pair.am.first {
        for burst in 1..=bursts {
            pair.until(&pair.am.pings, burst * burst_size)?;
            done.publish(burst);
        }
        return Ok(Vec::new());
    }
    let delay = Delay::lasting(DELAY_NS);
    let mut samples: [Vec<f64>; 2] = Default::default();
    let mut patience = Patience::lasting(PATIENCE);
    for burst in 0..bursts {
        let first = burst * burst_size;
        let send = timed(delay, |slot| pair.request(PING, first + slot as u64).map(|()| true))?;
        while done.observe() <= burst {
            std::hint::spin_loop();
            patience.tick()?;
        }
        wait(SETTLE);
        let receive = timed(delay, |slot| {
            pair.am.bundle.poll().map_err(failed)?;
            Ok(pair.am.pongs.count() == first + slot as u64 + 1)
        })?;
        pair.until(&pair.am.pongs, first + burst_size)?;
        // The first bursts warm up.
        if burst >= bursts / 8 {
            for (samples, value) in samples.iter_mut().zip([send, receive]) {
                samples.extend(value);
            }
        }
    }
    let median =
        |samples: &Vec<f64>| stats::median(samples).ok_or_else(|| Error::unsupported("replies come too late on this wire to be told apart from waiting"));
    samples.iter().map(median).collect()
}

fn wait(time: Duration) {
    let settled = Instant::now() + time;
    while Instant::now() < settled {
        std::hint::spin_loop();
    }
}
