// SPDX-License-Identifier: MIT OR Apache-2.0
//! A queue whose places are always values, and are filled where they lie: an entry that is made
//! elsewhere and then moved in is copied by wide loads of what has just been stored by narrow ones,
//! which wait until the stores are done (decision 6). An entry that was taken stays in its place
//! until that is filled again.

use core::ops::{Index, IndexMut};

/// Places at first.
const FIRST: usize = 16;

/// A queue.
#[derive(Clone, Debug)]
pub(crate) struct Ring<T> {
    /// Always a power of two of them, or none.
    places: Vec<T>,
    head: usize,
    len: usize,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Self { places: Vec::new(), head: 0, len: 0 }
    }
}

impl<T: Default> Ring<T> {
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    fn place(&self, index: usize) -> usize {
        self.head.wrapping_add(index) & self.places.len().wrapping_sub(1)
    }

    #[inline(always)]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        if index < self.len { self.places.get(self.place(index)) } else { None }
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        let place = self.place(index);
        if index < self.len { self.places.get_mut(place) } else { None }
    }

    #[inline(always)]
    pub(crate) fn front(&self) -> Option<&T> {
        self.get(0)
    }

    pub(crate) fn back(&self) -> Option<&T> {
        self.get(self.len.wrapping_sub(1))
    }

    pub(crate) fn back_mut(&mut self) -> Option<&mut T> {
        self.get_mut(self.len.wrapping_sub(1))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len).map(|i| &self.places[self.place(i)])
    }

    /// The place behind the last entry, which is an entry from now on: it holds an earlier one, and
    /// is to be overwritten.
    #[inline(always)]
    pub(crate) fn add(&mut self) -> &mut T {
        if self.len == self.places.len() {
            self.grow();
        }
        let place = self.place(self.len);
        self.len += 1;
        &mut self.places[place]
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.places.rotate_left(self.head);
        self.head = 0;
        self.places.resize_with((2 * self.len).max(FIRST), T::default);
    }

    #[inline]
    pub(crate) fn push_back(&mut self, value: T) {
        *self.add() = value;
    }

    pub(crate) fn push_front(&mut self, value: T) {
        if self.len == self.places.len() {
            self.grow();
        }
        self.head = self.place(usize::MAX);
        self.len += 1;
        self[0] = value;
    }

    /// Removes the first entry; it can be read where it lies.
    #[inline(always)]
    pub(crate) fn take_front(&mut self) -> Option<&mut T> {
        if self.len == 0 {
            return None;
        }
        let place = self.head;
        (self.head, self.len) = (self.place(1), self.len - 1);
        Some(&mut self.places[place])
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        self.take_front().map(core::mem::take)
    }

    /// Drops the entries that `keep` does not want, in the order of the rest.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for _ in 0..self.len {
            if let Some(entry) = self.pop_front().filter(&mut keep) {
                self.push_back(entry);
            }
        }
    }
}

impl<T: Default> Index<usize> for Ring<T> {
    type Output = T;
    #[inline]
    fn index(&self, index: usize) -> &T {
        assert!(index < self.len, "an entry");
        &self.places[self.place(index)]
    }
}

impl<T: Default> IndexMut<usize> for Ring<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        assert!(index < self.len, "an entry");
        let place = self.place(index);
        &mut self.places[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// It does what the library's queue does.
        #[test]
        fn as_a_queue(calls in proptest::collection::vec((0u8..7, any::<u32>()), 0..400)) {
            let (mut ring, mut model) = (Ring::default(), VecDeque::new());
            for (call, value) in calls {
                match call {
                    0..=2 => {
                        ring.push_back(value);
                        model.push_back(value);
                    }
                    3 => prop_assert_eq!(ring.pop_front(), model.pop_front()),
                    4 => {
                        ring.push_front(value);
                        model.push_front(value);
                    }
                    5 => {
                        if let Some(entry) = ring.get_mut(value as usize % 20) {
                            *entry = value;
                        }
                        if let Some(entry) = model.get_mut(value as usize % 20) {
                            *entry = value;
                        }
                    }
                    _ => {
                        ring.retain(|v| v % 3 != value % 3);
                        model.retain(|v| v % 3 != value % 3);
                    }
                }
                prop_assert_eq!((ring.len(), ring.front(), ring.back()), (model.len(), model.front(), model.back()));
                prop_assert!(ring.iter().eq(model.iter()));
            }
        }
    }
}
