// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which packets have been opened: a window of the newest counters, with a bit for each.

/// Counters that the window holds: packets that come later than so many newer ones are dropped, and
/// sent again by the transport. It has at most 1024 packets of data under way.
const WINDOW: u64 = (WORDS as u64 - 1) * 64;
/// One more than the window has, since it seldom begins with a word.
const WORDS: usize = 64;

/// The window.
#[derive(Debug)]
pub(crate) struct Replay {
    /// The greatest counter opened; 0: none.
    newest: u64,
    bits: [u64; WORDS],
}

impl Replay {
    pub(crate) const fn new() -> Self {
        Self { newest: 0, bits: [0; WORDS] }
    }

    /// Whether a packet with this counter may be new. Counters begin with 1.
    //= P-AUTH-7
    #[inline]
    pub(crate) const fn is_new(&self, counter: u64) -> bool {
        if counter > self.newest {
            return true;
        }
        counter != 0 && self.newest - counter < WINDOW && self.bits[Self::word(counter)] & Self::bit(counter) == 0
    }

    /// It has been opened. Whether it is the newest.
    #[inline]
    pub(crate) fn note(&mut self, counter: u64) -> bool {
        let is_newest = counter > self.newest;
        if is_newest {
            // The words between hold counters that the window has left.
            let (from, to) = (self.newest / 64 + 1, counter / 64);
            for word in from..=to.min(from + WORDS as u64 - 1) {
                self.bits[(word % WORDS as u64) as usize] = 0;
            }
            self.newest = counter;
        }
        self.bits[Self::word(counter)] |= Self::bit(counter);
        is_newest
    }

    const fn word(counter: u64) -> usize {
        (counter / 64 % WORDS as u64) as usize
    }

    const fn bit(counter: u64) -> u64 {
        1 << (counter % 64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::{Rng, SeedableRng};
    use std::collections::BTreeSet;

    #[test]
    fn each_counter_passes_once_and_old_ones_do_not() {
        //= P-AUTH-7
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(3);
        let (mut replay, mut seen, mut newest) = (Replay::new(), BTreeSet::new(), 0u64);
        let (mut taken, mut again) = (0, 0);
        for turn in 0..200_000u64 {
            let ahead = if turn % 5000 == 0 { rng.next_u64() % 20_000 } else { rng.next_u64() % 4 };
            let back = rng.next_u64() % if turn % 3 == 0 { 6000 } else { 70 };
            let counter = (newest + ahead).saturating_sub(back);
            let is_new = replay.is_new(counter);
            if counter == 0 || seen.contains(&counter) || counter + WINDOW <= newest {
                assert!(!is_new, "{counter}");
                again += 1;
            } else {
                assert!(is_new, "{counter} of {newest}");
            }
            if is_new {
                replay.note(counter);
                seen.insert(counter);
                newest = newest.max(counter);
                taken += 1;
                assert!(!replay.is_new(counter));
            }
        }
        assert!(taken > 10_000 && again > 10_000, "{taken} {again}");
    }
}
