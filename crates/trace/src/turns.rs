// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns of many: of the objects that a trace compares, so many each time, so that a comparison has
//! a bounded length.

/// Says whose turn it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turns {
    next: usize,
}

impl Turns {
    /// The indices below `all` whose turn it is: `each` of them, or all if there are no more.
    pub fn take(&mut self, all: usize, each: usize) -> impl Iterator<Item = usize> + use<> {
        let wrapped = move |at: usize| if at < all { at } else { at - all };
        let (first, count) = (if self.next < all { self.next } else { 0 }, all.min(each));
        self.next = wrapped(first + count);
        (first..first + count).map(wrapped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_a_turn() {
        let mut turns = Turns::default();
        let mut take = |all, each| turns.take(all, each).collect::<Vec<_>>();
        assert_eq!([take(3, 2), take(3, 2), take(3, 2)], [[0, 1], [2, 0], [1, 2]]);
        assert_eq!(take(2, 64), [0, 1]);
        assert_eq!((take(0, 64), take(1, 64)), (vec![], vec![0]));
    }
}
