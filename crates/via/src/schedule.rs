// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which VI sends when several have something to send: a weighted round, by bytes, over those that
//! have. Called once a turn of the engine by `progress.rs`, and by `post.rs` for what can leave at
//! once; what one VI does is in `transmit.rs`.
//!
//! - A VI has a *credit* of bytes: a turn, times its weight. When that is used up, it gets the next
//!   one when the round comes to it and nobody waits for room on its link.
//! - A VI that finds the link full waits *in front*: it goes first when there is room again, until
//!   its credit is used up. The others of that link go on with what they have left of theirs.
//!   Without this the first VI of the round, or the one that posts most often, would take all room
//!   for ever.
//! - So a VI *loiters* without keeping anybody waiting: when its queue is empty it keeps what is
//!   left of its turn, and what it posts next goes at once. One that sends little thus passes those
//!   that send much.
//!
//! While nobody waits for room, the fast paths (`fast.rs`) send without looking at credits: there
//! is nothing to share.
//!
//! Invariants
//! - D1: of the VIs of one link at most one is in front, and it has credit.
//! - D2: a VI in front goes on after at most what the others of its link have left; with the next
//!   turn after that each has had one.

use crate::engine::Engine;
use crate::error::Error;
use crate::handles::ViHandle;
use crate::limits::{TURN_BYTES_MAX, TURN_BYTES_MIN, WEIGHT_MAX};
use crate::transmit::Stop;
use crate::wire::{LinkId, Wire};

impl<W: Wire> Engine<W> {
    /// Sets how many bytes a VI of weight 1 sends before it is the next one's turn, when several
    /// share a link; [`TURN_BYTES_MIN`] to [`TURN_BYTES_MAX`], what is out of bounds counts as the
    /// bound. More is better for throughput, less for those that wait. A message counts as 64 bytes
    /// at least.
    pub fn set_turn_bytes(&mut self, bytes: u32) {
        self.round.turn_bytes = bytes.clamp(TURN_BYTES_MIN, TURN_BYTES_MAX);
    }

    /// Sets the weight of a VI: its turns are so many times as long; 1 (as made) to [`WEIGHT_MAX`].
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: no such VI, or no such weight.
    pub fn set_weight(&mut self, vi: ViHandle, weight: u8) -> Result<(), Error> {
        if !(1..=WEIGHT_MAX).contains(&weight) {
            return Err(Error::InvalidParameter);
        }
        self.vis.get_mut(vi).ok_or(Error::InvalidParameter)?.weight = weight;
        Ok(())
    }

    /// One round over the VIs that have something to send. True if anything moved.
    #[inline(never)]
    pub(crate) fn transmit_ready(&mut self) -> bool {
        let mut any = false;
        core::mem::swap(&mut self.round.fronts, &mut self.round.waited);
        while let Some((_, index)) = self.round.waited.pop() {
            if self.ready.contains(index) {
                any |= self.transmit(index);
                self.round.cursor = index + 1;
            }
        }
        let start = self.round.cursor;
        let (mut at, mut wrapped) = (start, false);
        loop {
            match self.ready.next(at) {
                Some(index) if !(wrapped && index >= start) => {
                    any |= self.transmit(index);
                    self.round.cursor = index + 1;
                    at = index + 1;
                }
                None if !wrapped && start != 0 => (wrapped, at) = (true, 0),
                _ => break,
            }
        }
        self.round.waits = !self.round.fronts.is_empty();
        any
    }

    /// Lets the VI at `index` send what it has, as far as its credit reaches, or remembers that it
    /// has something. True if anything moved.
    pub(crate) fn transmit(&mut self, index: usize) -> bool {
        let Some(vi) = self.vis.at(index) else { return false };
        let link = vi.link;
        if vi.credit == 0 {
            if self.round.fronts.iter().any(|(other, front)| *other == link && *front != index) {
                self.ready.insert(index);
                return false;
            }
            vi.credit = self.round.turn_bytes * u32::from(vi.weight);
        }
        self.round.budget = vi.credit;
        let (any, stop) = self.transmit_some(index);
        if let Some(vi) = self.vis.at(index) {
            vi.credit = self.round.budget;
        }
        if stop == Stop::Full {
            self.wait_in_front(link, index);
        }
        any
    }

    #[cold]
    fn wait_in_front(&mut self, link: LinkId, index: usize) {
        if self.round.budget > 0 && self.round.fronts.iter().all(|(other, _)| *other != link) {
            self.round.fronts.push((link, index));
            self.round.waits = true;
        }
    }
}
