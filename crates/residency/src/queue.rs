// SPDX-License-Identifier: MIT OR Apache-2.0
//! Endpoints that wait for a frame, by owner, and how many frames each owner has.

use crate::EndpointId;
use std::collections::{BTreeMap, VecDeque};

/// What an owner has and wants. One that has and wants nothing is forgotten.
#[derive(Debug, Default)]
struct Owner {
    waiting: VecDeque<EndpointId>,
    frames: usize,
    /// Which of all loads was its last; as if served just now, if it came back.
    served: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    owners: BTreeMap<u32, Owner>,
    waiting: usize,
    served: u64,
}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Endpoints that wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting
    }

    /// It waits. Whether its owner had and wanted nothing before: the shares are others then.
    pub(crate) fn push(&mut self, owner: u32, endpoint: EndpointId) -> bool {
        let owners = self.owners.len();
        self.served += 1;
        let new = Owner { served: self.served, ..Owner::default() };
        self.owners.entry(owner).or_insert(new).waiting.push_back(endpoint);
        self.waiting += 1;
        self.owners.len() != owners
    }

    /// The next to be loaded, with its owner: of the owners that wait the one with the fewest
    /// frames, of these the one that was served longest ago; its endpoints in their order.
    pub(crate) fn first(&self) -> Option<(u32, EndpointId)> {
        let waiting = self.owners.iter().filter_map(|(owner, o)| o.waiting.front().map(|e| (o.frames, o.served, *owner, *e)));
        waiting.min().map(|(_, _, owner, endpoint)| (owner, endpoint))
    }

    /// The first endpoint of an owner gets a frame.
    pub(crate) fn take(&mut self, owner: u32) {
        self.served += 1;
        if let Some(o) = self.owners.get_mut(&owner)
            && o.waiting.pop_front().is_some()
        {
            self.waiting -= 1;
            o.frames += 1;
            o.served = self.served;
        }
    }

    /// An owner has a frame less.
    pub(crate) fn has_given(&mut self, owner: u32) {
        if let Some(o) = self.owners.get_mut(&owner) {
            o.frames -= 1;
            self.forget(owner);
        }
    }

    /// An endpoint is no more.
    pub(crate) fn remove(&mut self, owner: u32, endpoint: EndpointId) {
        let Some(o) = self.owners.get_mut(&owner) else { return };
        let before = o.waiting.len();
        o.waiting.retain(|e| *e != endpoint);
        self.waiting -= before - o.waiting.len();
        self.forget(owner);
    }

    fn forget(&mut self, owner: u32) {
        if self.owners.get(&owner).is_some_and(|o| o.frames == 0 && o.waiting.is_empty()) {
            self.owners.remove(&owner);
        }
    }

    /// Frames that an owner has.
    pub(crate) fn frames_of(&self, owner: u32) -> usize {
        self.owners.get(&owner).map_or(0, |o| o.frames)
    }

    /// An owner's share of so many frames: the owners that have or want some divide them.
    pub(crate) fn share(&self, frames: usize) -> usize {
        (frames / self.owners.len().max(1)).max(1)
    }
}
