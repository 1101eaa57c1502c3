// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whose turn it is among endpoints that have something to send: weighted round robin with
//! loitering, as in the paper. An endpoint has up to K attempts in a turn. It keeps its turn while
//! its queue is empty, too, for the program may write more; then the next one has its turn.

use bellwire_residency::EndpointId;
use std::collections::BTreeSet;

/// K, unless it is set.
pub const LOITER_DEFAULT: u32 = 16;

/// An endpoint's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) endpoint: EndpointId,
    /// Another endpoint sent last.
    pub(super) is_another: bool,
}

/// The endpoints that take turns.
#[derive(Debug)]
pub(super) struct Turns {
    /// Attempts in a turn.
    loiter: u32,
    /// Those with something to send, as far as is known.
    active: BTreeSet<EndpointId>,
    at: Option<EndpointId>,
    /// Attempts that are left of the turn.
    left: u32,
    sent_last: Option<EndpointId>,
}

impl Turns {
    pub(super) fn new(loiter: u32) -> Self {
        Self { loiter: loiter.max(1), active: BTreeSet::new(), at: None, left: 0, sent_last: None }
    }

    /// An endpoint has something to send.
    pub(super) fn add(&mut self, endpoint: EndpointId) {
        self.active.insert(endpoint);
    }

    pub(super) fn len(&self) -> usize {
        self.active.len()
    }

    /// Whose turn it is.
    pub(super) fn next(&mut self) -> Option<Turn> {
        let at = match self.at.filter(|at| self.left > 0 && self.active.contains(at)) {
            Some(at) => at,
            None => {
                let after = self.at.map_or(0, |at| at.0 + 1);
                let next = self.active.range(EndpointId(after)..).next().or(self.active.first()).copied()?;
                (self.at, self.left) = (Some(next), self.loiter);
                next
            }
        };
        Some(Turn { endpoint: at, is_another: self.sent_last != Some(at) })
    }

    /// The endpoint has sent a message.
    pub(super) fn sent(&mut self) {
        self.sent_last = self.at;
        self.left = self.left.saturating_sub(1);
    }

    /// The endpoint has nothing to send: whether it keeps its turn. If so, an attempt is gone.
    pub(super) fn loiters(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }

    /// The turn is over; the endpoint stays among the active ones, if it has something to send.
    pub(super) fn end(&mut self, stays: bool) {
        self.left = 0;
        if let Some(at) = self.at.filter(|_| !stays) {
            self.active.remove(&at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(t: &mut Turns) -> u32 {
        t.next().unwrap().endpoint.0
    }

    #[test]
    fn each_has_k_attempts_in_a_turn() {
        let mut t = Turns::new(3);
        assert_eq!(t.next(), None);
        [2, 5, 9].into_iter().for_each(|e| t.add(EndpointId(e)));
        let order: Vec<u32> = (0..9).map(|_| (next(&mut t), t.sent()).0).collect();
        assert_eq!(order, [2, 2, 2, 5, 5, 5, 9, 9, 9]);
        assert_eq!(next(&mut t), 2);
        // One that is blocked stays, one that is empty goes when it has loitered.
        t.end(true);
        assert_eq!(next(&mut t), 5);
        assert!(t.loiters() && t.loiters() && !t.loiters());
        t.end(false);
        assert_eq!((next(&mut t), t.len()), (9, 2));
        t.end(true);
        assert_eq!(next(&mut t), 2);
    }

    #[test]
    fn a_switch_is_told_once() {
        let mut t = Turns::new(2);
        [1, 2].into_iter().for_each(|e| t.add(EndpointId(e)));
        let switches: Vec<bool> = (0..6).map(|_| (t.next().unwrap().is_another, t.sent()).0).collect();
        assert_eq!(switches, [true, false, true, false, true, false]);
    }
}
