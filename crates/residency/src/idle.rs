// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resident endpoints that have done their work: the first victims, found without a look at every
//! frame.

use crate::{EndpointId, Entry, Policy};
use bellwire_time::Instant;
use std::collections::{BTreeMap, BTreeSet};

/// By owner, and in the order of the policy. Owners without any are not in it.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    of: BTreeMap<u32, BTreeSet<(Instant, EndpointId)>>,
}

/// What the policy compares; a resident endpoint that is idle keeps it.
fn rank(policy: Policy, entry: &Entry) -> Instant {
    match policy {
        Policy::LeastRecentlyUsed => entry.used.unwrap_or(entry.loaded),
        Policy::LongestResident | Policy::Random => entry.loaded,
    }
}

impl Idle {
    pub(crate) fn insert(&mut self, policy: Policy, endpoint: EndpointId, entry: &Entry) {
        self.of.entry(entry.owner).or_default().insert((rank(policy, entry), endpoint));
    }

    /// It has work again, or leaves. To be called before its entry changes.
    pub(crate) fn remove(&mut self, policy: Policy, endpoint: EndpointId, entry: &Entry) {
        let Some(of) = self.of.get_mut(&entry.owner) else { return };
        of.remove(&(rank(policy, entry), endpoint));
        if of.is_empty() {
            self.of.remove(&entry.owner);
        }
    }

    /// Of the owners with the most frames, the endpoint that the policy takes; `draw` draws a
    /// number below its argument, under [`Policy::Random`].
    pub(crate) fn victim(&self, policy: Policy, frames_of: impl Fn(u32) -> usize, draw: impl FnOnce(usize) -> usize) -> Option<EndpointId> {
        let most = self.of.keys().map(|owner| frames_of(*owner)).max()?;
        let owners = || self.of.iter().filter(|(owner, _)| frames_of(**owner) == most).map(|(_, of)| of);
        if policy == Policy::Random {
            let count = owners().map(BTreeSet::len).sum();
            return owners().flatten().nth(draw(count)).map(|(_, endpoint)| *endpoint);
        }
        owners().filter_map(BTreeSet::first).min().map(|(_, endpoint)| *endpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    /// The victim is the one that a look at all of them finds.
    #[test]
    fn as_a_look_at_all() {
        let mut rng = Pcg64Mcg::seed_from_u64(11);
        let frames_of = |owner: u32| [3, 5, 5, 1][owner as usize];
        for policy in [Policy::LeastRecentlyUsed, Policy::LongestResident] {
            let (mut idle, mut all) = (Idle::default(), BTreeMap::new());
            for _ in 0..4_000 {
                let (endpoint, draw) = (EndpointId(rng.next_u64() as u32 % 40), rng.next_u64());
                match all.remove(&endpoint) {
                    Some(entry) => idle.remove(policy, endpoint, &entry),
                    None => {
                        let used = draw.is_multiple_of(3).then_some(Instant(draw >> 8 & 0xff));
                        let entry = Entry { owner: (draw >> 16) as u32 % 4, loaded: Instant(draw >> 24 & 0xff), used, ..Entry::default() };
                        idle.insert(policy, endpoint, &entry);
                        all.insert(endpoint, entry);
                    }
                }
                let expected = all.iter().min_by_key(|(id, e)| (core::cmp::Reverse(frames_of(e.owner)), rank(policy, e), **id)).map(|(id, _)| *id);
                assert_eq!(idle.victim(policy, frames_of, |_| unreachable!()), expected);
            }
        }
    }

    #[test]
    fn by_chance_each_of_those_with_most_frames() {
        let mut idle = Idle::default();
        for (place, owner) in (0..).zip([0, 1, 1, 2]) {
            idle.insert(Policy::Random, EndpointId(place), &Entry { owner, ..Entry::default() });
        }
        let frames_of = |owner: u32| if owner == 0 { 1 } else { 2 };
        let victims: Vec<_> = (0..3)
            .map(|nth| {
                idle.victim(Policy::Random, frames_of, |count| {
                    assert_eq!(count, 3);
                    nth
                })
            })
            .collect();
        assert_eq!(victims, [1, 2, 3].map(|place| Some(EndpointId(place))));
    }
}
