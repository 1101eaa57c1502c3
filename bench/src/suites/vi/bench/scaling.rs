// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many VIs between the two processes, few of them busy: what an idle VI costs in memory and in the
//! latency of the others.
//!
//! The VIs stay open between the rounds of a run, in a pair of processes of their own, so that
//! resident memory shows nothing else.

use std::fs;
use std::time::Instant;

use super::Context;
use super::latency::Side;
use super::payload::Touch;
use crate::clock::Patience;
use crate::endpoint::{PATIENCE, SEND, Vi, arm};
use crate::error::Error;

/// Bytes of the ping-pong over the active VIs.
const SIZE: usize = 8;

/// The open VIs.
#[derive(Debug)]
pub struct Scaling {
    active: Vec<Side>,
    /// Kept connected; never used.
    _idle: Vec<Vi>,
}

impl Scaling {
    /// Connects `active` VIs for a ping-pong and idle ones up to `vis`, each with a receive posted;
    /// also the growth of resident memory per idle VI, in bytes.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn open(context: &Context<'_>, vis: usize, active: usize) -> Result<(Self, f64), Error> {
        let active = active.min(vis);
        let mut sides = Vec::with_capacity(active);
        for index in 0..active {
            sides.push(Side::connect(context, SIZE, Touch::All, index)?);
        }
        let mut idle = Vec::with_capacity(vis - active);
        // Descriptors of the idle ones lie behind those of the active; all receives name one
        // buffer, which stays empty.
        let first = active * 3;
        for index in active..vis {
            // SAFETY: E2: not posted yet. Writing all descriptors first keeps our own page faults
            // out of the figure.
            unsafe { arm(context.descriptor(first + index - active), SEND, 64, &[context.credit(0)]) };
        }
        context.meet(1)?;
        let before = resident_bytes()?;
        for index in active..vis {
            let vi = context.create_vi()?;
            vi.post_recv(context.descriptor(first + index - active))?;
            context.connect(&vi, index)?;
            idle.push(vi);
        }
        context.meet(2)?;
        let grown = resident_bytes()?.saturating_sub(before);
        let per_vi = grown as f64 / (vis - active).max(1) as f64;
        Ok((Scaling { active: sides, _idle: idle }, per_vi))
    }

    /// `[half round trip in ns]`: messages of 8 bytes over the active VIs in turn, `count` in all.
    ///
    /// # Errors
    /// If the library fails, nothing comes, or what comes is damaged.
    pub fn latency(&mut self, context: &Context<'_>, count: u64) -> Result<Vec<f64>, Error> {
        let vis = self.active.len();
        let turns = (count as usize).div_ceil(vis);
        let mut patience = Patience::lasting(PATIENCE);
        context.meet(1)?;
        let mut turn = |times: usize| -> Result<(), Error> {
            for _ in 0..times {
                for side in &mut self.active {
                    side.turn(context.first, &mut patience)?;
                }
            }
            Ok(())
        };
        turn(turns / 10 + 2)?;
        let start = Instant::now();
        turn(turns)?;
        let half = start.elapsed().as_nanos() as f64 / (turns * vis) as f64 / 2.0;
        context.meet(2)?;
        Ok(vec![half])
    }
}

/// Resident memory of this process, shared pages included.
fn resident_bytes() -> Result<u64, Error> {
    let text = fs::read_to_string("/proc/self/statm")?;
    let pages = text.split_whitespace().nth(1).and_then(|field| field.parse::<u64>().ok());
    pages.map(|pages| pages * rustix::param::page_size() as u64).ok_or_else(|| Error::failed("/proc/self/statm is not readable"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn resident_memory_is_something() {
        assert!(super::resident_bytes().unwrap() > 100_000);
    }
}
