// SPDX-License-Identifier: MIT OR Apache-2.0
//! The free places of a receive queue, and the messages that get them. A message that found none
//! comes again after a while, and one of a sender that was just served comes at once. Without a
//! rule the latter finds the place that the former waits for, again and again. So messages that
//! were refused have places before those that come for the first time, and the ones that were
//! refused longest ago before the others.

use bellwire_residency::EndpointId;
use bellwire_time::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};

/// Refused messages that may have a place, for each place that there is: more than one, since it is
/// not known which of them comes next.
const CONTENDERS: usize = 4;
/// Refused messages that are remembered.
const REFUSED_MAX: usize = 1 << 14;
/// A message that has not come again for so many of the longest waits comes no more.
const WAITS: u64 = 4;

type Key = ((u32, EndpointId), u64);

/// The refused messages of a queue.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// In the order of their first refusal; those that came in since are not in `seen`.
    refused: VecDeque<Key>,
    /// When each was last refused.
    seen: BTreeMap<Key, Instant>,
}

impl Places {
    /// Whether a message gets one of the free places. If not, it is remembered.
    pub(super) fn admits(&mut self, now: Instant, key: Key, free: usize, places: usize, wait: Duration) -> bool {
        let patience = Duration(wait.0.saturating_mul(WAITS));
        while let Some(first) = self.refused.front()
            && self.seen.get(first).is_none_or(|at| *at + patience < now)
        {
            self.seen.remove(first);
            self.refused.pop_front();
        }
        // Those before it that have not come in; no more of them are counted than matters.
        let contenders = CONTENDERS * places;
        let rank = self.refused.iter().filter(|k| self.seen.contains_key(k)).take(contenders).position(|k| *k == key);
        let is_next = rank.is_some() || self.seen.len() < free.min(contenders);
        if free > 0 && is_next {
            self.seen.remove(&key);
            return true;
        }
        if self.seen.len() < REFUSED_MAX && self.seen.insert(key, now).is_none() {
            self.refused.push_back(key);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration(1_000);

    fn key(n: u64) -> Key {
        ((n as u32, EndpointId(0)), n)
    }

    #[test]
    fn the_refused_come_before_the_new_ones() {
        let (mut p, now) = (Places::default(), Instant(1));
        assert!(p.admits(now, key(1), 1, 1, WAIT));
        for n in 2..20 {
            assert!(!p.admits(now, key(n), 0, 1, WAIT));
        }
        assert!(!p.admits(now, key(1), 1, 1, WAIT), "it was served before");
        assert!(!p.admits(now, key(6), 1, 1, WAIT), "four are before it");
        assert!(p.admits(now, key(4), 1, 1, WAIT) && p.admits(now, key(6), 1, 1, WAIT));
    }

    #[test]
    fn those_that_come_no_more_are_forgotten() {
        let (mut p, now) = (Places::default(), Instant(1));
        for n in 2..20 {
            assert!(!p.admits(now, key(n), 0, 1, WAIT));
        }
        assert!(p.admits(now + Duration(WAITS * WAIT.0 + 1), key(99), 1, 1, WAIT));
        assert!(p.seen.is_empty() && p.refused.is_empty());
    }
}
