// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tags of a cache: which blocks it holds, in which of the MOESI states. Blocks carry no data;
//! programs keep theirs in ordinary variables.
//!
//! A line is one word, block and state, and most accesses of a simulation are hits that read
//! nothing else: the tags of all nodes must fit into the caches of the machine that simulates.

use core::cell::Cell;

use crate::time::Time;

/// A block's number: its address divided by the size of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block(pub u64);

/// What a cache may do with a block that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A copy.
    Shared = 1,
    /// As in its home, and nobody else has it.
    Exclusive = 2,
    /// Written, others have copies; this cache answers for it.
    Owned = 3,
    /// Written, and nobody else has it.
    Modified = 4,
}

impl State {
    /// Whether this cache, and not the home, has the block's present content for others.
    pub fn supplies(self) -> bool {
        self != Self::Shared
    }

    /// Whether the home's content is stale.
    pub fn dirty(self) -> bool {
        matches!(self, Self::Modified | Self::Owned)
    }

    /// Whether it may be written without asking.
    pub fn writable(self) -> bool {
        matches!(self, Self::Modified | Self::Exclusive)
    }
}

/// A block and its state in a word; zero is an empty line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tag(u64);

impl Tag {
    const EMPTY: Self = Self(0);
    /// Below the block's number.
    const STATE_BITS: u32 = 3;

    fn new(block: Block, state: State) -> Self {
        debug_assert!(block.0 < 1 << (64 - Self::STATE_BITS), "a block's number fits");
        Self(block.0 << Self::STATE_BITS | state as u64)
    }

    fn is(self, block: Block) -> bool {
        self.0 >> Self::STATE_BITS == block.0 && self != Self::EMPTY
    }

    fn get(self) -> Option<(Block, State)> {
        let state = match self.0 & ((1 << Self::STATE_BITS) - 1) {
            0 => return None,
            1 => State::Shared,
            2 => State::Exclusive,
            3 => State::Owned,
            _ => State::Modified,
        };
        Some((Block(self.0 >> Self::STATE_BITS), state))
    }
}

/// The tags.
#[derive(Debug)]
pub struct Cache {
    tags: Box<[Cell<Tag>]>,
    /// From when on a line's data are there.
    ready: Box<[Cell<Time>]>,
    /// When a line was used last; not kept where a set has one line, which goes in any case.
    used: Box<[Cell<u64>]>,
    ways: usize,
    sets_mask: u64,
    uses: Cell<u64>,
}

impl Cache {
    /// An empty cache of `sets` sets (a power of two) of `ways` blocks.
    pub fn new(sets: usize, ways: usize) -> Self {
        assert!(sets.is_power_of_two() && ways > 0, "a cache has a power of two of sets");
        let lines = sets * ways;
        Self {
            tags: vec![Cell::default(); lines].into(),
            ready: vec![Cell::default(); lines].into(),
            used: vec![Cell::default(); if ways > 1 { lines } else { 0 }].into(),
            ways,
            sets_mask: sets as u64 - 1,
            uses: Cell::default(),
        }
    }

    fn set(&self, block: Block) -> core::ops::Range<usize> {
        let first = (block.0 & self.sets_mask) as usize * self.ways;
        first..first + self.ways
    }

    #[inline]
    fn find(&self, block: Block) -> Option<usize> {
        if self.ways == 1 {
            let place = (block.0 & self.sets_mask) as usize;
            return self.tags[place].get().is(block).then_some(place);
        }
        self.set(block).find(|&place| self.tags[place].get().is(block))
    }

    fn touch(&self, place: usize) {
        if self.ways > 1 {
            self.uses.set(self.uses.get() + 1);
            self.used[place].set(self.uses.get());
        }
    }

    /// The state of a block, if it is here.
    pub fn state(&self, block: Block) -> Option<State> {
        self.find(block).and_then(|place| self.tags[place].get().get()).map(|(_, state)| state)
    }

    /// Whether this cache's own agent may access a block without the bus; if so, it does.
    #[inline]
    pub fn hit(&self, block: Block, write: bool) -> bool {
        let Some(place) = self.find(block) else { return false };
        if write {
            let Some((_, state)) = self.tags[place].get().get().filter(|(_, state)| state.writable()) else { return false };
            if state != State::Modified {
                self.tags[place].set(Tag::new(block, State::Modified));
            }
        }
        self.touch(place);
        true
    }

    /// Changes the state of a block that is here.
    pub fn change(&self, block: Block, state: State) {
        if let Some(place) = self.find(block) {
            self.tags[place].set(Tag::new(block, state));
        }
    }

    /// From when on the data of a block that is here are there.
    pub fn ready(&self, block: Block) -> Time {
        self.find(block).map_or(Time::ZERO, |place| self.ready[place].get())
    }

    /// Puts a block in; the one that had to go for it, if any (the least recently used).
    pub fn put(&self, block: Block, state: State, ready: Time) -> Option<(Block, State)> {
        let age = |place: usize| if self.tags[place].get() == Tag::EMPTY { 0 } else { self.used.get(place).map_or(1, Cell::get) };
        let place = self.find(block).or_else(|| self.set(block).min_by_key(|&place| age(place)))?;
        self.touch(place);
        self.ready[place].set(ready);
        self.tags[place].replace(Tag::new(block, state)).get().filter(|(old, _)| *old != block)
    }

    /// Takes a block out.
    pub fn take(&self, block: Block) {
        if let Some(place) = self.find(block) {
            self.tags[place].set(Tag::EMPTY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_block_of_a_set_goes() {
        let cache = Cache::new(4, 2);
        let put = |block| cache.put(Block(block), State::Exclusive, Time::ZERO);
        assert_eq!((put(0), put(4)), (None, None));
        assert!(cache.hit(Block(0), false), "the older one is used again");
        assert_eq!(put(8), Some((Block(4), State::Exclusive)));
        assert_eq!((cache.state(Block(0)), cache.state(Block(4))), (Some(State::Exclusive), None));
        cache.take(Block(0));
        assert_eq!(put(12), None, "an empty line is taken first");
        assert_eq!(put(1), None, "another set");
    }

    #[test]
    fn a_write_needs_the_right_to_it() {
        let cache = Cache::new(1, 1);
        assert!(!cache.hit(Block(0), false), "an empty cache holds nothing, not even block 0");
        for (state, writable) in [(State::Shared, false), (State::Owned, false), (State::Exclusive, true), (State::Modified, true)] {
            cache.put(Block(7), state, Time::from_ns(3));
            assert_eq!((cache.hit(Block(7), false), cache.state(Block(7))), (true, Some(state)));
            assert_eq!(cache.hit(Block(7), true), writable);
            assert_eq!(cache.state(Block(7)), Some(if writable { State::Modified } else { state }));
        }
        assert_eq!((cache.ready(Block(7)), cache.put(Block(8), State::Shared, Time::ZERO)), (Time::from_ns(3), Some((Block(7), State::Modified))));
    }
}
