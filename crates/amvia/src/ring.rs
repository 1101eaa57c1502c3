// SPDX-License-Identifier: MIT OR Apache-2.0
//! v2: a ring of memory at the receiver that the sender fills with messages of any size, and what
//! both sides know of it. No I/O, no memory: positions alone, which only grow, in units.
//!
//! ```text
//! sender:    head <= what the receiver has read <= tail; a message goes behind the tail, or to the
//!            ring's beginning if it would reach beyond its end
//! receiver:  head <= tail; messages are read in any order; the head passes those at the front
//! ```
//!
//! Invariant R1: a sender has no more than the ring's size behind the head that it has heard of, so
//! no message overwrites one that is read. A receiver refuses one that does, or is elsewhere.

use std::collections::VecDeque;

/// Bytes of a unit, at which messages begin.
pub(crate) const UNIT: usize = 64;
/// Bits of a position that are told.
const TOLD_MASK: u32 = (1 << 31) - 1;

/// The ring as its sender knows it.
pub(crate) struct Filling {
    size: u64,
    tail: u64,
    /// Up to here the receiver has read, as it has told.
    head: u64,
    /// Up to here all has left this side, whose copies lie at the same places.
    left: u64,
}

impl Filling {
    pub(crate) fn new(size: u64) -> Self {
        Self { size, tail: 0, head: 0, left: 0 }
    }

    /// Where a message of so many units goes, and the tail then. `None`: there is no room.
    #[inline]
    fn place(&self, units: u64) -> Option<(u64, u64)> {
        let at = self.tail % self.size;
        let start = if at + units > self.size { self.tail + (self.size - at) } else { self.tail };
        let end = start + units;
        (end - self.head.min(self.left) <= self.size).then_some((start % self.size, end))
    }

    /// Whether there is room.
    #[inline]
    pub(crate) fn has_room(&self, units: u64) -> bool {
        self.place(units).is_some()
    }

    /// Takes the place of a message: where it is, and the position that it has left at.
    #[inline]
    pub(crate) fn take(&mut self, units: u64) -> Option<(u64, u64)> {
        let (at, end) = self.place(units)?;
        self.tail = end;
        Some((at, end))
    }

    /// All up to a position has left.
    #[inline]
    pub(crate) fn has_left(&mut self, end: u64) {
        self.left = self.left.max(end);
    }

    /// The receiver has told how far it has read. `false`: that cannot be.
    #[inline]
    #[must_use]
    pub(crate) fn learn(&mut self, told: u32) -> bool {
        let ahead = told.wrapping_sub(self.head as u32) & TOLD_MASK;
        let head = self.head + u64::from(ahead);
        if head > self.tail {
            return false;
        }
        self.head = head;
        true
    }
}

/// The ring as its receiver knows it.
pub(crate) struct Draining {
    size: u64,
    tail: u64,
    head: u64,
    /// The head that the sender was told last.
    told: u64,
    /// Messages that have come: where they end, and whether they have been read.
    messages: VecDeque<(u64, bool)>,
    /// The number of the first of them.
    first: usize,
}

impl Draining {
    pub(crate) fn new(size: u64) -> Self {
        Self { size, tail: 0, head: 0, told: 0, messages: VecDeque::new(), first: 0 }
    }

    /// A message of so many units has come to a place. Its number; `None`: that cannot be.
    #[inline]
    pub(crate) fn arrive(&mut self, at: u64, units: u64) -> Option<usize> {
        let expected = self.tail % self.size;
        let skipped = match at {
            _ if at == expected => 0,
            0 => self.size - expected,
            _ => return None,
        };
        if units == 0 || units > self.size || at + units > self.size {
            return None;
        }
        let end = self.tail + skipped + units;
        if end - self.head > self.size {
            return None;
        }
        self.tail = end;
        self.messages.push_back((end, false));
        Some(self.first.wrapping_add(self.messages.len() - 1))
    }

    /// A message has been read.
    #[inline]
    pub(crate) fn read(&mut self, number: usize) {
        let Some(message) = self.messages.get_mut(number.wrapping_sub(self.first)) else { return };
        message.1 = true;
        while let Some((end, true)) = self.messages.front().copied() {
            self.messages.pop_front();
            (self.head, self.first) = (end, self.first.wrapping_add(1));
        }
    }

    /// Whether so much has been read that the sender has to hear of it although no message goes
    /// there: a quarter of the ring. A sender whose messages are read has three quarters then.
    #[inline]
    pub(crate) fn has_to_tell(&self) -> bool {
        self.head - self.told >= self.size.div_ceil(4)
    }

    /// What the sender is told now.
    #[inline]
    pub(crate) fn tell(&mut self) -> u32 {
        self.told = self.head;
        self.head as u32 & TOLD_MASK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Random(u64);

    impl Random {
        fn below(&mut self, most: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % most
        }
    }

    /// Messages of random sizes, read in random order, told by chance or because they have to be:
    /// no two that are there overlap, the sides agree, and when all is read the longest fits.
    #[test]
    fn messages_never_overlap_and_never_stall() {
        for seed in 0..200 {
            let mut random = Random(seed);
            let longest = 1 + random.below(40);
            let size = 4 * longest + random.below(60);
            let (mut out, mut come) = (Filling::new(size), Draining::new(size));
            // Positions that begin near the end of what is told.
            let start = (1 << 31) / size * size + if seed % 2 == 0 { 0 } else { u64::from(u32::MAX / 2) / size * size };
            (out.tail, out.head, out.left, come.tail, come.head, come.told) = (start, start, start, start, start, start);
            let (mut on_way, mut ends) = (VecDeque::new(), VecDeque::new());
            let mut there: Vec<(usize, u64, u64)> = Vec::new();
            let mut sent = 0;
            for _ in 0..2000 {
                match random.below(5) {
                    0 | 1 => {
                        let units = 1 + random.below(longest);
                        if let Some((at, end)) = out.take(units) {
                            on_way.push_back((at, units));
                            ends.push_back(end);
                            sent += 1;
                        }
                    }
                    2 => {
                        if let Some((at, units)) = on_way.pop_front() {
                            let number = come.arrive(at, units).expect("what a sender does is right");
                            assert!(there.iter().all(|(_, a, n)| at >= a + n || *a >= at + units), "seed {seed}: overlap");
                            there.push((number, at, units));
                        }
                    }
                    3 if !there.is_empty() => {
                        let (number, ..) = there.swap_remove(random.below(there.len() as u64) as usize);
                        come.read(number);
                        if come.has_to_tell() || random.below(4) == 0 {
                            assert!(out.learn(come.tell()));
                        }
                    }
                    _ => {
                        if let Some(end) = ends.pop_front() {
                            out.has_left(end);
                        }
                    }
                }
            }
            while let Some((at, units)) = on_way.pop_front() {
                let number = come.arrive(at, units).expect("what a sender does is right");
                there.push((number, at, units));
            }
            for (number, ..) in there.drain(..) {
                come.read(number);
            }
            if come.has_to_tell() {
                assert!(out.learn(come.tell()));
            }
            ends.drain(..).for_each(|end| out.has_left(end));
            assert!(out.has_room(longest) && sent > 100, "seed {seed}: {sent} sent, and then it stalls");
        }
    }

    /// A peer that says anything is refused, or changes nothing that it may not.
    #[test]
    fn what_cannot_be_is_refused() {
        let mut random = Random(7);
        for _ in 0..200 {
            let size = 4 + random.below(100);
            let (mut out, mut come) = (Filling::new(size), Draining::new(size));
            let mut numbers = Vec::new();
            for _ in 0..500 {
                match random.below(4) {
                    0 => drop(out.take(1 + random.below(size))),
                    1 => drop(out.learn(random.below(1 << 32) as u32)),
                    2 => numbers.extend(come.arrive(random.below(2 * size), random.below(2 * size))),
                    _ => come.read(numbers.get(random.below(8) as usize).copied().unwrap_or(usize::MAX)),
                }
                assert!(out.head <= out.tail && come.head <= come.tail && come.tail - come.head <= size);
                assert!(come.messages.len() as u64 <= size);
            }
        }
        let mut out = Filling::new(16);
        assert!(!out.learn(1), "nothing was sent");
        assert_eq!(out.take(3), Some((0, 3)));
        assert!(out.learn(3) && !out.learn(2), "it has been told already");
        let mut come = Draining::new(16);
        for (at, units) in [(1, 1), (0, 0), (0, 17), (16, 1), (u64::from(u32::MAX), 1)] {
            assert_eq!(come.arrive(at, units), None, "{units} units at {at}");
        }
        assert_eq!(come.arrive(0, 10), Some(0));
        assert_eq!(come.arrive(0, 1), None, "over what is read");
        assert_eq!(come.arrive(10, 7), None, "beyond the end");
        come.read(0);
        assert_eq!(come.arrive(0, 10), Some(1), "the rest is skipped");
    }
}
