// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collective calls by dissemination (`bellwire_job::dissemination`).
//!
//! Nobody can be more than one call ahead of another, so there are places for two, told apart by
//! their number.

use bellwire_job::dissemination;
pub(super) use bellwire_job::dissemination::{pack, unpack};
use bellwire_memory::bytes;

/// Longest block of a process, bytes.
pub(super) const BLOCK_BYTES_MAX: usize = 1024;
/// Longest part of a round, bytes.
pub(super) const PART_BYTES_MAX: usize = 8 * 1024;

#[derive(Debug, Default)]
struct Place {
    data: Vec<u8>,
    is_done: bool,
}

/// The parts that have come of the call that is under way, and of the next.
#[derive(Debug)]
pub(super) struct Rounds {
    me: u32,
    size: u32,
    /// Number of the call that is under way, or will be next.
    pub call: u64,
    places: [Vec<Place>; 2],
}

impl Rounds {
    pub(super) fn new(me: u32, size: u32) -> Self {
        let places = || (0..dissemination::rounds(size)).map(|_| Place::default()).collect();
        Self { me, size, call: 0, places: [places(), places()] }
    }

    /// How many rounds a call has.
    pub(super) fn count(&self) -> u32 {
        self.places[0].len() as u32
    }

    /// To whom this process sends in a round, and from whom it hears.
    pub(super) fn neighbours(&self, round: u32) -> (u32, u32) {
        dissemination::neighbours(self.me, self.size, round)
    }

    /// Blocks that travel in a round.
    pub(super) fn blocks_in(&self, round: u32) -> u32 {
        dissemination::blocks_in(round, self.size)
    }

    /// A part has come: number of the call, round, whether it is the last. `false`: nobody of the
    /// job sends that.
    pub(super) fn take(&mut self, from: u32, (call, round, is_last): (u64, u64, bool), payload: (*const u8, usize)) -> bool {
        if call.wrapping_sub(self.call) > 1 || round >= u64::from(self.count()) || self.neighbours(round as u32).1 != from {
            return false;
        }
        let most = self.blocks_in(round as u32) as usize * (BLOCK_BYTES_MAX + 4);
        let place = &mut self.places[(call & 1) as usize][round as usize];
        let at = place.data.len();
        if place.is_done || payload.1 > most - at {
            return false;
        }
        place.data.resize(at + payload.1, 0);
        // SAFETY: just made; the payload is readable for its length.
        unsafe { bytes::copy(place.data.as_mut_ptr().add(at), payload.0, payload.1) };
        place.is_done = is_last;
        true
    }

    /// What a round of this call has brought, when all of it has come.
    pub(super) fn taken(&mut self, round: u32) -> Option<Vec<u8>> {
        let place = &mut self.places[(self.call & 1) as usize][round as usize];
        place.is_done.then(|| std::mem::take(&mut place.data))
    }

    /// A call is over.
    pub(super) fn next(&mut self) {
        self.places[(self.call & 1) as usize].iter_mut().for_each(|place| *place = Place::default());
        self.call += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_come_is_taken() {
        let mut rounds = Rounds::new(0, 4);
        let data = [7u8; BLOCK_BYTES_MAX + 5];
        let part = |n| (data.as_ptr(), n);
        for (from, what, n) in [(1, (0, 0, true), 4), (3, (2, 0, true), 4), (3, (0, 2, true), 4), (3, (u64::MAX, 0, true), 4), (3, (0, 0, true), data.len())] {
            assert!(!rounds.take(from, what, part(n)), "{from} {what:?}");
        }
        assert!(rounds.take(3, (0, 0, false), part(3)));
        assert_eq!(rounds.taken(0), None);
        assert!(rounds.take(3, (1, 0, true), part(1)), "one call ahead");
        assert!(rounds.take(3, (0, 0, true), part(2)));
        assert!(!rounds.take(3, (0, 0, true), part(2)), "no more than that");
        assert_eq!(rounds.taken(0), Some(vec![7; 5]));
        rounds.next();
        assert_eq!(rounds.taken(0), Some(vec![7]));
    }
}
