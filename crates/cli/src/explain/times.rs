// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times by their frequency, from which percentiles are read: classes of a sixteenth of a power of
//! two, so a value is at most 6 % too small.

/// Classes of each power of two.
const PARTS: u64 = 16;

/// Nanoseconds, counted by class.
#[derive(Clone, Debug, Default)]
pub struct Times {
    counts: Vec<u64>,
    count: u64,
    most: u64,
}

fn class(ns: u64) -> usize {
    if ns < PARTS {
        return ns as usize;
    }
    let power = u64::from(ns.ilog2());
    ((power - 3) * PARTS + ((ns >> (power - 4)) & (PARTS - 1))) as usize
}

/// The least of a class.
fn least(class: usize) -> u64 {
    let class = class as u64;
    if class < PARTS {
        return class;
    }
    let power = class / PARTS + 3;
    (PARTS + class % PARTS) << (power - 4)
}

impl Times {
    /// Counts a time.
    pub fn add(&mut self, ns: u64) {
        let class = class(ns);
        if self.counts.len() <= class {
            self.counts.resize(class + 1, 0);
        }
        self.counts[class] += 1;
        self.count += 1;
        self.most = self.most.max(ns);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// The time that `percent` of them do not exceed.
    pub fn percentile(&self, percent: u64) -> u64 {
        let wanted = (self.count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (class, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return least(class).min(self.most);
            }
        }
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_narrow_and_in_order() {
        let mut last = 0;
        for ns in (0..2000).chain((0..60).map(|n| (1u64 << n) + 1)).chain([u64::MAX]) {
            let below = least(class(ns));
            assert!(below <= ns && (ns - below) as f64 <= ns as f64 / 16.0, "{ns} {below}");
            assert!(ns < last || class(ns) >= class(last));
            last = ns;
        }
    }

    #[test]
    fn percentiles() {
        let mut times = Times::default();
        assert_eq!((times.percentile(50), times.most()), (0, 0));
        (1..=10).for_each(|ns| times.add(ns));
        assert_eq!([50, 99, 1, 100].map(|percent| times.percentile(percent)), [5, 10, 1, 10]);
        assert_eq!((times.count(), times.most()), (10, 10));
    }
}
