// SPDX-License-Identifier: MIT OR Apache-2.0
//! The allocator of symmetric memory. Every process makes the same calls in the same order, so
//! every process gets the same addresses without a message.
//!
//! First fit over a list of free ranges, joined when they meet: spread arrays are few, large and
//! mostly freed in reverse order.

use std::collections::BTreeMap;

/// Ranges begin at multiples of this, so that blocks of different processes and arrays share no
/// line.
const ALIGN: u64 = 128;

/// Which ranges are free, and which are given out.
#[derive(Debug)]
pub struct Symmetric {
    /// Address to length.
    free: BTreeMap<u64, u64>,
    used: BTreeMap<u64, u64>,
}

impl Symmetric {
    /// Has the range of `length` bytes from `base`.
    pub fn new(base: u64, length: u64) -> Self {
        Self { free: BTreeMap::from([(base, length)]), used: BTreeMap::new() }
    }

    /// A range of at least so many bytes (one at least), or `None`.
    pub fn take(&mut self, bytes: u64) -> Option<u64> {
        let length = bytes.max(1).checked_next_multiple_of(ALIGN)?;
        let (&address, &room) = self.free.iter().find(|&(_, &room)| room >= length)?;
        self.free.remove(&address);
        if room > length {
            self.free.insert(address + length, room - length);
        }
        self.used.insert(address, length);
        Some(address)
    }

    /// Gives a range back; false if it was not given out.
    pub fn give(&mut self, address: u64) -> bool {
        let Some(mut length) = self.used.remove(&address) else { return false };
        let mut begin = address;
        if let Some((&before, &room)) = self.free.range(..address).next_back()
            && before + room == address
        {
            self.free.remove(&before);
            (begin, length) = (before, room + length);
        }
        if let Some(after) = self.free.remove(&(begin + length)) {
            length += after;
        }
        self.free.insert(begin, length);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_never_overlap_and_all_come_back(sizes in prop::collection::vec(0u64..5000, 1..60), order in any::<u64>()) {
            let mut symmetric = Symmetric::new(4096, 1 << 20);
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for (i, &size) in sizes.iter().enumerate() {
                if (order >> (i % 64)) & 1 == 1 && !taken.is_empty() {
                    let (address, _) = taken.swap_remove(i % taken.len());
                    prop_assert!(symmetric.give(address));
                }
                let address = symmetric.take(size).unwrap();
                prop_assert!(taken.iter().all(|&(other, length)| address + size <= other || other + length <= address));
                taken.push((address, size.max(1)));
            }
            for (address, _) in taken {
                prop_assert!(symmetric.give(address));
                prop_assert!(!symmetric.give(address));
            }
            prop_assert_eq!(symmetric.take(1 << 20), Some(4096));
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut symmetric = Symmetric::new(0, 4096);
        assert_eq!(symmetric.take(4097), None);
        assert_eq!(symmetric.take(u64::MAX), None);
        assert_eq!(symmetric.take(4096), Some(0));
        assert_eq!(symmetric.take(0), None);
    }
}
