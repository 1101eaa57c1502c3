// SPDX-License-Identifier: MIT OR Apache-2.0
//! The choice of the endpoint that makes room.

use crate::{EndpointId, Policy, Residency, State};
use bellwire_time::{Duration, Instant};
use rand_core::Rng;

impl Residency {
    /// How long an endpoint keeps its frame: once to twice the stay, drawn, so that NICs whose
    /// endpoints take turns do not fall into step.
    pub(crate) fn draw_stay(&mut self) -> Duration {
        let stay = self.config.stay.0;
        Duration(stay.saturating_add(self.rng.next_u64() % stay.max(1)))
    }

    /// A victim; or when there may be one.
    pub(crate) fn choose(&mut self, now: Instant) -> Result<EndpointId, Instant> {
        let mut later = Instant::NEVER;
        let mut candidates = Vec::with_capacity(self.frames.len());
        for endpoint in self.frames.iter().flatten() {
            let entry = &self.entries[endpoint.0 as usize];
            let State::Resident(_) = entry.state else { continue };
            if entry.kept > now {
                later = later.min(entry.kept);
            } else {
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
