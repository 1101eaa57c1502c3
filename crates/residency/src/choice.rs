// SPDX-License-Identifier: MIT OR Apache-2.0
//! The choice of the endpoint that makes room.

use crate::{EndpointId, Policy, Residency, State};
use bellwire_time::{Duration, Instant};
use core::cmp::Reverse;
use rand_core::Rng;

impl Residency {
    /// How long an endpoint keeps its frame: once to twice the stay, drawn, so that NICs whose
    /// endpoints take turns do not fall into step.
    pub(crate) fn draw_stay(&mut self) -> Duration {
        let stay = self.config.stay.0;
        Duration(stay.saturating_add(self.rng.next_u64() % stay.max(1)))
    }

    /// A victim for an endpoint of `owner`; or when there may be one. Those that have done their
    /// work go first, then those of the owner with the most frames (R6).
    pub(crate) fn choose(&mut self, now: Instant, owner: u32) -> Result<EndpointId, Instant> {
        let Self { idle, waiting, rng, config, .. } = self;
        let idle = idle.victim(config.policy, |owner| waiting.frames_of(owner), |count| (rng.next_u64() % count as u64) as usize);
        if let Some(idle) = idle {
            return Ok(idle);
        }
        // With thousands of frames, each of those that come to wait would look at all.
        if let Some((_, _, until)) = self.refused.filter(|(o, changes, until)| *o == owner && *changes == self.changes && now < *until) {
            return Err(until);
        }
        let chosen = self.choose_busy(now, owner);
        self.refused = chosen.err().map(|until| (owner, self.changes, until));
        chosen
    }

    /// Among those that have work.
    fn choose_busy(&mut self, now: Instant, owner: u32) -> Result<EndpointId, Instant> {
        let (mut later, mut best) = (Instant::NEVER, None);
        let mut candidates = Vec::with_capacity(self.frames.len());
        let (own, share) = (self.waiting.frames_of(owner), self.waiting.share(self.frames.len()));
        for endpoint in self.frames.iter().flatten() {
            let entry = &self.entries[endpoint.0 as usize];
            let State::Resident(_) = entry.state else { continue };
            let theirs = self.waiting.frames_of(entry.owner);
            if entry.owner != owner && theirs <= own {
                continue;
            }
            if entry.kept > now && (own >= share || theirs <= share) {
                later = later.min(entry.kept);
                continue;
            }
            let rank = Reverse(theirs);
            if best.is_none_or(|best| rank < best) {
                best = Some(rank);
                candidates.clear();
            }
            if best == Some(rank) {
                candidates.push((*endpoint, entry));
            }
        }
        let victim = match self.config.policy {
            Policy::LeastRecentlyUsed => candidates.iter().min_by_key(|(_, e)| e.used.unwrap_or(e.loaded)),
            Policy::LongestResident => candidates.iter().min_by_key(|(_, e)| e.loaded),
            Policy::Random => {
                let count = candidates.len().max(1) as u64;
                candidates.get((self.rng.next_u64() % count) as usize)
            }
        };
        victim.map(|(endpoint, _)| *endpoint).ok_or(later)
    }
}
