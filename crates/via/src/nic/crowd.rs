// SPDX-License-Identifier: MIT OR Apache-2.0
//! More busy threads than processors: who polls in vain gives way.
//!
//! A program that polls uses up its time slice while the peer that it waits for may be the one that waits for this processor. So polls that find nothing let
//! others run now and then (`sched_yield`), and whether the thread was displaced by that says whether there are any. (How long the call took would not: a slow
//! moment of a virtual machine looks the same, and two processes that both give way for that reason keep each other at it.)
//!
//! ```text
//!  alone     every 64 polls without a completion (some microseconds) are an idle turn. The first gives way; each time in vain doubles the distance to the next,
//!            up to 64 turns, so that an idle poller loses next to nothing and a newcomer waits a fraction of a millisecond at most.
//!  crowded   somebody ran when we gave way. From now on four empty polls are enough, until it has been in vain eight times in a row.
//! ```
//!
//! Who gives way to a peer that waits too is back within microseconds. Who gives way to a program that goes on computing, or to one that keeps being answered, has lost his turn, some milliseconds,
//! for the few microseconds that an answer takes. So after a long absence the polls are patient, as long as that finds something. Once in vain, and four are enough again; then some long absences pass
//! before it is tried again, more each time.
//!
//! A poll that finds something pays nothing for this, and an undisturbed pair never gets as far as an idle turn. Called by `nic.rs`, under the token; the
//! system call itself is made without it.

/// Most idle turns between two times of giving way.
const GAP_MAX: u32 = 64;
/// Empty polls in a row before giving way, when crowded: at first, and at most, some tens of microseconds.
const EMPTY_POLLS: u32 = 4;
const EMPTY_POLLS_MAX: u32 = 1024;
/// A longer absence is a lost turn, nanoseconds.
const LONG_ABSENCE_NS: u64 = 500_000;
/// Lost turns that pass after patience in vain, at first and at most.
const REST_MIN: u32 = 1;
const REST_MAX: u32 = 512;
/// Times in vain, in a row, after which it is not crowded any more.
const QUICK_MAX: u32 = 8;

/// What is known about others that want this processor.
#[derive(Debug)]
pub(super) struct Crowd {
    /// Completions when last looked.
    seen: u64,
    idle_turns: u32,
    gap: u32,
    empty_polls: u32,
    /// Empty polls after which it gives way.
    patience: u32,
    /// Lost turns to come that do not make patient, and the next number of such.
    rest: u32,
    rest_next: u32,
    /// Times in a row that giving way was in vain.
    quick: u32,
    /// Times that somebody ran.
    ran: u32,
    is_crowded: bool,
    /// See [`is_due`](Self::is_due).
    due: bool,
}

impl Default for Crowd {
    fn default() -> Self {
        Self {
            seen: 0,
            idle_turns: 0,
            gap: 1,
            empty_polls: 0,
            patience: EMPTY_POLLS,
            rest: 0,
            rest_next: REST_MIN,
            quick: 0,
            ran: 0,
            is_crowded: false,
            due: false,
        }
    }
}

impl Crowd {
    /// Whether the next poll should let others run before it looks.
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// Every poll is to be counted by [`poll`](Self::poll).
    pub(super) fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    /// How often somebody has run when we gave way.
    pub(super) fn ran(&self) -> u32 {
        self.ran
    }

    /// Whether there has been no completion since this was last asked.
    fn is_idle(&mut self, completions: u64) -> bool {
        core::mem::replace(&mut self.seen, completions) == completions
    }

    /// A whole turn of the engine: once in 64 polls.
    pub(super) fn turn(&mut self, completions: u64) {
        if self.is_crowded {
            return;
        }
        if !self.is_idle(completions) {
            (self.idle_turns, self.due) = (0, false);
            return;
        }
        self.idle_turns += 1;
        if self.idle_turns >= self.gap {
            (self.idle_turns, self.due) = (0, true);
        }
    }

    /// A poll while it is crowded.
    pub(super) fn poll(&mut self, completions: u64) {
        if !self.is_idle(completions) {
            if self.empty_polls >= EMPTY_POLLS {
                self.rest_next = REST_MIN;
            }
            (self.empty_polls, self.due) = (0, false);
            return;
        }
        self.empty_polls += 1;
        if self.empty_polls >= self.patience {
            (self.empty_polls, self.due) = (0, true);
            if self.patience != EMPTY_POLLS {
                (self.patience, self.rest) = (EMPTY_POLLS, self.rest_next);
                self.rest_next = (self.rest_next * 2).min(REST_MAX);
            }
        }
    }

    /// Others were let run; whether there was one, and for how many nanoseconds.
    pub(super) fn gave_way(&mut self, somebody_ran: bool, absence_ns: u64) {
        self.due = false;
        if somebody_ran {
            if absence_ns >= LONG_ABSENCE_NS {
                match self.rest {
                    0 => self.patience = EMPTY_POLLS_MAX,
                    _ => self.rest -= 1,
                }
            }
            (self.is_crowded, self.gap, self.quick) = (true, 1, 0);
            self.ran = self.ran.wrapping_add(1);
            return;
        }
        self.quick += 1;
        self.gap = (self.gap * 2).min(GAP_MAX);
        if self.quick >= QUICK_MAX {
            self.is_crowded = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns_until_due(c: &mut Crowd) -> u32 {
        for turns in 1..1000 {
            c.turn(7);
            if c.is_due() {
                return turns;
            }
        }
        0
    }

    #[test]
    fn alone_it_gives_way_less_and_less() {
        let mut c = Crowd::default();
        c.turn(7);
        let mut distances = Vec::new();
        for _ in 0..9 {
            distances.push(turns_until_due(&mut c));
            c.gave_way(false, 0);
        }
        assert_eq!(distances, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        assert!(!c.is_crowded());
    }

    #[test]
    fn completions_put_it_off() {
        let mut c = Crowd::default();
        for completions in 1..1000 {
            c.turn(completions);
            assert!(!c.is_due());
        }
    }

    #[test]
    fn a_crowd_is_noticed_and_forgotten() {
        let mut c = Crowd::default();
        c.gave_way(true, 0);
        assert!(c.is_crowded());
        for round in 0..QUICK_MAX {
            assert!(c.is_crowded(), "round {round}");
            c.poll(u64::from(round) + 1);
            assert!(!c.is_due());
            (0..EMPTY_POLLS).for_each(|_| c.poll(u64::from(round) + 1));
            assert!(c.is_due());
            c.gave_way(false, 0);
        }
        assert!(!c.is_crowded());
        assert_eq!(c.ran(), 1);
    }

    #[test]
    fn a_lost_turn_makes_patient() {
        let polls_until_due = |c: &mut Crowd| {
            (1..=2 * EMPTY_POLLS_MAX).find(|i| {
                if i.is_multiple_of(64) {
                    c.turn(7);
                }
                c.poll(7);
                c.is_due()
            })
        };
        let mut c = Crowd::default();
        c.poll(7);
        c.gave_way(true, 0);
        assert_eq!(polls_until_due(&mut c), Some(EMPTY_POLLS));
        c.gave_way(true, 3_000_000);
        // It pays for as long as something is found.
        for completions in 8..100 {
            (0..200).for_each(|_| c.poll(7));
            assert!(!c.is_due());
            c.poll(completions);
            c.poll(7);
        }
        c.poll(7);
        assert!(polls_until_due(&mut c).is_some_and(|polls| polls > EMPTY_POLLS_MAX - 10));
        // In vain: not again at once.
        for _ in 0..REST_MIN {
            c.gave_way(true, 3_000_000);
            assert_eq!(polls_until_due(&mut c), Some(EMPTY_POLLS));
        }
        c.gave_way(true, 3_000_000);
        assert_eq!(polls_until_due(&mut c), Some(EMPTY_POLLS_MAX));
    }
}
