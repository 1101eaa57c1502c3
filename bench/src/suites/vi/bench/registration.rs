// SPDX-License-Identifier: MIT OR Apache-2.0
//! What it costs to register and to deregister memory, by size. The memory has been touched before,
//! so page faults are not counted. One process measures; the other has nothing to do.

use super::Context;
use crate::clock;
use crate::error::Error;
use crate::stats;

/// `[ns to register, ns to deregister]`: medians of `count` pairs of calls.
///
/// # Errors
/// If the library refuses.
pub fn run(context: &Context<'_>, size: usize, count: u64, engine_memory: bool) -> Result<Vec<f64>, Error> {
    if !context.first {
        return Ok(Vec::new());
    }
    let block = context.nic.allocate_unregistered(size, engine_memory)?;
    if engine_memory && !block.engine {
        return Err(Error::unsupported("the library has no engine-allocated memory"));
    }
    let base = block.at(0, size);
    let scale = clock::ns_per_tick(std::time::Duration::from_millis(1));
    let (mut registering, mut deregistering) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let start = clock::ticks();
        let handle = context.nic.register(base, size)?;
        let middle = clock::ticks();
        context.nic.deregister(base, handle)?;
        let end = clock::ticks();
        registering.push(middle.wrapping_sub(start) as f64 * scale);
        deregistering.push(end.wrapping_sub(middle) as f64 * scale);
    }
    let median = |samples: &[f64]| stats::median(samples).unwrap_or(f64::NAN);
    Ok(vec![median(&registering), median(&deregistering)])
}
