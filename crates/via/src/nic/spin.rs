// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long a wait polls before it sleeps.
//!
//! Spinning pays if the message comes while we spin, and is a loss if it does not, or if the peer
//! needs this very processor to send it. That cannot be foreseen, so it is tried: as long as spins
//! find something, each wait spins for the whole time. Two fruitless ones in a row, or one during
//! which others wanted the processor, and waits sleep at once; now and then, at growing distances,
//! one wait spins to see whether things have changed.

use std::time::Duration;

/// Fruitless spins, in a row, after which waits sleep at once.
const VAIN_MAX: u32 = 2;
/// Waits without a spin before the next try; at first, and at most.
const REST_MIN: u32 = 8;
const REST_MAX: u32 = 512;

/// How long one wait polls before it sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spin {
    /// As the NIC is set: up to the NIC's limit, and not at all while that does not help.
    #[default]
    Nic,
    /// So long, whatever that helped before; at most [`SPIN_MAX`](super::SPIN_MAX). Zero sleeps at
    /// once.
    For(Duration),
}

/// The lessons so far.
#[derive(Debug)]
pub(super) struct Adaptive {
    max_ns: u64,
    vain: u32,
    /// Waits to come that do not spin.
    rest: u32,
    /// The next rest.
    rest_next: u32,
}

impl Adaptive {
    pub(super) fn new(max_ns: u64) -> Self {
        Self { max_ns, vain: 0, rest: 0, rest_next: REST_MIN }
    }

    pub(super) fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// How long the wait that begins now spins.
    pub(super) fn begin(&mut self) -> u64 {
        if self.rest != 0 {
            self.rest -= 1;
            return 0;
        }
        self.max_ns
    }

    /// The spin found what it waited for.
    pub(super) fn paid(&mut self) {
        (self.vain, self.rest_next) = (0, REST_MIN);
    }

    /// It did not; `crowded`: others wanted the processor meanwhile.
    pub(super) fn was_vain(&mut self, crowded: bool) {
        self.vain += 1;
        if crowded || self.vain >= VAIN_MAX {
            self.rest = self.rest_next;
            self.rest_next = (self.rest_next * 2).min(REST_MAX);
            // One try after the rest is enough to see.
            self.vain = VAIN_MAX - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spins_while_it_pays() {
        let mut a = Adaptive::new(50);
        for _ in 0..100 {
            assert_eq!(a.begin(), 50);
            a.paid();
        }
        // A fruitless one now and then changes nothing.
        a.was_vain(false);
        assert_eq!(a.begin(), 50);
    }

    #[test]
    fn spins_in_vain_become_rare() {
        let mut a = Adaptive::new(50);
        let mut spins = 0;
        for _ in 0..10_000 {
            if a.begin() != 0 {
                spins += 1;
                a.was_vain(false);
            }
        }
        assert!((8..40).contains(&spins), "{spins}");
        while a.begin() == 0 {}
        a.paid();
        assert_eq!(a.begin(), 50);
    }

    #[test]
    fn a_crowd_ends_it_at_once() {
        let mut a = Adaptive::new(50);
        a.was_vain(true);
        assert_eq!(a.begin(), 0);
    }
}
