// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tags of a cache: which blocks it holds, in which of the MOESI states. Blocks carry no data; programs keep theirs in ordinary variables.

use crate::time::Time;

/// A block's number: its address divided by the size of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block(pub u64);

/// What a cache may do with a block that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Written, and nobody else has it.
    Modified,
    /// Written, others have copies; this cache answers for it.
    Owned,
    /// As in its home, and nobody else has it.
    Exclusive,
    /// A copy.
    Shared,
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

/// A block in a cache.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Which.
    pub block: Block,
    /// In which state.
    pub state: State,
    /// From when on its data are there.
    pub ready: Time,
    used: u64,
}

/// The tags.
#[derive(Debug)]
pub struct Cache {
    lines: Vec<Option<Line>>,
    ways: usize,
    sets_mask: u64,
    uses: u64,
}

impl Cache {
    /// An empty cache of `sets` sets (a power of two) of `ways` blocks.
    pub fn new(sets: usize, ways: usize) -> Self {
        assert!(sets.is_power_of_two() && ways > 0, "a cache has a power of two of sets");
        Self { lines: vec![None; sets * ways], ways, sets_mask: sets as u64 - 1, uses: 0 }
    }

    fn set(&self, block: Block) -> core::ops::Range<usize> {
        let first = (block.0 & self.sets_mask) as usize * self.ways;
        first..first + self.ways
    }

    /// The line of a block, if it is here.
    pub fn line(&mut self, block: Block) -> Option<&mut Line> {
        let set = self.set(block);
        self.uses += 1;
        let line = self.lines[set].iter_mut().flatten().find(|line| line.block == block)?;
        line.used = self.uses;
        Some(line)
    }

    /// Puts a block in; the line that had to go for it, if any (the least recently used).
    pub fn put(&mut self, block: Block, state: State, ready: Time) -> Option<Line> {
        let set = self.set(block);
        self.uses += 1;
        let new = Line { block, state, ready, used: self.uses };
        if let Some(line) = self.line(block) {
            *line = new;
            return None;
        }
        let place = self.lines[set].iter_mut().min_by_key(|line| line.map_or(0, |line| line.used));
        place.and_then(|place| place.replace(new))
    }

    /// Takes a block out.
    pub fn take(&mut self, block: Block) -> Option<Line> {
        let set = self.set(block);
        self.lines[set].iter_mut().find(|line| line.is_some_and(|line| line.block == block))?.take()
    }
}
