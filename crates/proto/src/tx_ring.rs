// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of packets written and not yet released, one behind the other. A packet never wraps:
//! when the end is too short for it, it begins at the front. So runs of packets are contiguous,
//! ready for segmentation offload, and retransmission needs no copy.

/// A ring of bytes; packets are released in the order in which they were placed.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    bytes: Vec<u8>,
    /// Where the oldest packet begins.
    head: usize,
    /// Behind the newest packet.
    tail: usize,
    /// Whether the newest packets lie in front of the oldest.
    wrapped: bool,
}

impl Ring {
    /// Where `n` contiguous bytes behind the newest packet could begin.
    #[inline]
    pub(crate) fn place(&self, n: usize) -> Option<usize> {
        if self.wrapped {
            return (self.head - self.tail >= n).then_some(self.tail);
        }
        if self.bytes.len() - self.tail >= n {
            return Some(self.tail);
        }
        (self.head >= n).then_some(0)
    }

    /// Bytes from `at`, where a packet begins, to the end of the newest.
    #[inline]
    pub(crate) fn behind(&self, at: usize) -> usize {
        if at < self.tail || !self.wrapped { self.tail - at } else { self.bytes.len() - at + self.tail }
    }

    /// Takes `n` bytes at `at`, which [`Ring::place`] gave.
    #[inline]
    pub(crate) fn take(&mut self, at: usize, n: usize) {
        self.wrapped |= at < self.tail;
        self.tail = at + n;
    }

    /// Takes `n` more bytes for the newest packet; where they begin.
    #[inline]
    pub(crate) fn extend(&mut self, n: usize) -> Option<usize> {
        let limit = if self.wrapped { self.head } else { self.bytes.len() };
        let at = self.tail;
        (limit - at >= n).then(|| {
            self.tail += n;
            at
        })
    }

    /// Everything before the packet at `oldest` is free; `None`: everything.
    #[inline]
    pub(crate) fn release(&mut self, oldest: Option<usize>) {
        match oldest {
            Some(at) => {
                self.wrapped &= at >= self.head;
                self.head = at;
            }
            // From the front again: a sender of little data uses the same few lines of cache.
            None => (self.head, self.tail, self.wrapped) = (0, 0, false),
        }
    }

    #[inline]
    pub(crate) fn get(&self, at: usize, n: usize) -> &[u8] {
        &self.bytes[at..at + n]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: usize, n: usize) -> &mut [u8] {
        &mut self.bytes[at..at + n]
    }

    pub(crate) fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// A ring of `capacity` bytes with the packets `(start, length)` of this one, oldest first;
    /// each is told its new start.
    pub(crate) fn regrow(&mut self, capacity: usize, packets: &mut dyn Iterator<Item = (&mut u32, u32)>) {
        let mut larger = Self { bytes: vec![0; capacity], ..Self::default() };
        for (start, length) in packets {
            let length = length as usize;
            let from = *start as usize;
            larger.bytes[larger.tail..larger.tail + length].copy_from_slice(&self.bytes[from..from + length]);
            *start = larger.tail as u32;
            larger.tail += length;
        }
        *self = larger;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn packets_keep_their_bytes_whatever_the_sizes() {
        let mut ring = Ring::default();
        assert_eq!(ring.place(1), None);
        ring.regrow(1000, &mut std::iter::empty());
        let mut live: VecDeque<(usize, usize, u8)> = VecDeque::new();
        let mut x = 7u32;
        let mut wraps = 0;
        for turn in 0..20_000u32 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let n = 1 + (x >> 16) as usize % 200;
            let value = turn as u8;
            let queued: usize = live.iter().map(|packet| packet.1).sum();
            assert!(live.front().is_none_or(|first| ring.behind(first.0) >= queued && ring.behind(first.0) <= queued + 200));
            if x >> 30 == 3
                && let Some(last) = live.back_mut()
                && let Some(at) = ring.extend(n)
            {
                assert_eq!(at, last.0 + last.1);
                ring.get_mut(at, n).fill(last.2);
                last.1 += n;
            } else if let Some(at) = ring.place(n) {
                wraps += u32::from(at == 0);
                ring.take(at, n);
                ring.get_mut(at, n).fill(value);
                live.push_back((at, n, value));
            } else {
                let (at, n, v) = live.pop_front().unwrap();
                assert!(ring.get(at, n).iter().all(|b| *b == v));
                ring.release(live.front().map(|p| p.0));
            }
        }
        assert!(wraps > 100);
        while let Some((at, n, v)) = live.pop_front() {
            assert!(ring.get(at, n).iter().all(|b| *b == v));
            ring.release(live.front().map(|p| p.0));
        }
        assert_eq!(ring.place(1000), Some(0));
    }

    #[test]
    fn growing_keeps_the_packets() {
        let mut ring = Ring::default();
        ring.regrow(100, &mut std::iter::empty());
        for (at, n) in [(0, 60), (60, 30)] {
            assert_eq!(ring.place(n), Some(at));
            ring.take(at, n);
        }
        ring.release(Some(60));
        ring.get_mut(60, 30).fill(7);
        assert_eq!(ring.place(40), Some(0));
        ring.take(0, 40);
        ring.get_mut(0, 40).fill(9);
        let mut starts = [(60, 30), (0, 40)];
        ring.regrow(500, &mut starts.iter_mut().map(|(s, n)| (s, *n)));
        assert_eq!((starts[0].0, starts[1].0), (0, 30));
        assert!(ring.get(0, 30).iter().all(|b| *b == 7) && ring.get(30, 40).iter().all(|b| *b == 9));
        assert_eq!(ring.place(400), Some(70));
    }
}
