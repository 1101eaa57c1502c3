// SPDX-License-Identifier: MIT OR Apache-2.0
//! The links that failed last, for the live view: a program that closes a broken connection leaves
//! no other trace of it.

use crate::time::Instant;
use crate::wire::{LinkFailure, LinkId, LinkInfo};
use std::collections::VecDeque;

/// Links remembered.
pub const LOST_LINKS_MAX: usize = 8;

/// A link that failed.
#[derive(Clone, Copy, Debug)]
pub struct LostLink {
    /// Its name, which a later link may have again.
    pub link: LinkId,
    /// What it was.
    pub about: LinkInfo,
    /// Why it failed.
    pub failure: LinkFailure,
    /// When the engine noticed, on its own clock.
    pub at: Instant,
}

/// The last of them, and how many there were.
#[derive(Debug, Default)]
pub(crate) struct LostLinks {
    last: VecDeque<LostLink>,
    pub count: u64,
}

impl LostLinks {
    #[cold]
    pub fn add(&mut self, lost: LostLink) {
        self.count += 1;
        if self.last.len() == LOST_LINKS_MAX {
            self.last.pop_front();
        }
        self.last.push_back(lost);
    }

    /// Oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &LostLink> {
        self.last.iter()
    }
}
