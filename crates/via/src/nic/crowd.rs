// SPDX-License-Identifier: MIT OR Apache-2.0
//! More busy threads than processors: a thread whose polls find nothing gives way.
//!
//! A program that polls uses up its time slice while the peer that it waits for may be the one that
//! waits for this processor. So polls that find nothing let others run now and then
//! (`sched_yield`), and whether the thread was displaced by that says whether there are any. (How
//! long the call took would not: a slow moment of a virtual machine looks the same, and two
//! processes that both give way for that reason keep each other at it.)
//!
//! ```text
//!  alone     every 64 polls without a completion (some microseconds) are an idle turn. The first gives way; each time in vain doubles the distance to the next,
//!            up to 64 turns, so that an idle poller loses next to nothing and a newcomer waits a fraction of a millisecond at most.
//!  crowded   somebody ran when we gave way. From now on four empty polls are enough, until it has been in vain eight times in a row.
//! ```
//!
//! A thread that gives way to a peer that waits for this processor is back within microseconds. A
//! thread that gives way although his peer is at work on another one has lost his turn, some
//! milliseconds, for the few microseconds that an answer takes. So a thread that gives way says so
//! to its peers, in a word that they can read, and a thread that finds that a peer neither has
//! given way nor sleeps polls on, some tens of microseconds. If that does not help, it is not tried
//! again for a while, longer each time: a peer that computes, or has lost its processor to others,
//! looks like one that answers. But after a long absence it is: beside that it costs little.
//!
//! Two that wait for each other on one processor, because one has woken the other there, may stay
//! so for as long as they run: neither ever waits for long. So a thread that gives way says from
//! which processor, and a thread that comes back and finds that its peer has left just that one for
//! it, again and again, goes elsewhere, if it may (decision 27): the side that asked for the link
//! first, the other only if that does not help. Without effect, since all processors are in use:
//! ever more rarely.
//!
//! A poll that finds something pays nothing for this, and an undisturbed pair never gets as far as
//! an idle turn. Called by `shared.rs` and `give_way.rs`, under the token; the system call itself
//! is made without it.

/// Most idle turns between two times of giving way.
const GAP_MAX: u32 = 64;
/// Empty polls in a row before giving way, when crowded: with no peer at work, and with one (some
/// tens of microseconds), for which many links count by the time that a poll of them takes.
const EMPTY_POLLS: u32 = 4;
const EMPTY_POLLS_MAX: u32 = 1024;
const EMPTY_POLLS_PATIENT_MIN: u32 = 64;
/// Times of giving way that pass after fruitless patience, at first and at most.
const REST_MIN: u32 = 1;
const REST_MAX: u32 = 512;
/// After an absence so long, nanoseconds, patience is little.
const LONG_ABSENCE_NS: u64 = 500_000;
/// Times that a processor was shared with a peer before one of both goes: at first, by how much
/// more each time after, and how much later the side goes that did not ask for the link.
const SHARED_MAX: u32 = 32;
const SHARED_GROWTH: u32 = 4;
const SHARED_OTHER: u32 = 8;
/// Times of giving way after that, in which a long absence says that somebody computes there, and
/// by how much more the number above grows then.
const TRIAL: u32 = 64;
const TRIAL_GROWTH: u32 = 64;
/// Fruitless times, in a row, after which it is not crowded any more.
const QUICK_MAX: u32 = 8;
/// Long absences in a row after which strangers compute here; and naps between two times that it is
/// asked whether they still do.
const LONG_MAX: u32 = 2;
const NAPS_MAX: u32 = 64;

/// The knowledge about others that want this processor.
#[derive(Debug)]
pub(super) struct Crowd {
    /// Completions when last looked.
    seen: u64,
    idle_turns: u32,
    gap: u32,
    empty_polls: u32,
    /// Empty polls after which it gives way.
    patience: u32,
    /// Times of giving way to come before patience is tried again, and the next number of such.
    rest: u32,
    rest_next: u32,
    /// Times in a row that giving way did not help.
    quick: u32,
    /// Times that a peer shared our processor, and how many are to be the last.
    shared: u32,
    shared_max: u32,
    /// Times of giving way since it went elsewhere that are still to show how it is there.
    trial: u32,
    /// Times that somebody ran.
    ran: u32,
    is_crowded: bool,
    /// See [`is_due`](Self::is_due).
    due: bool,
    /// Long absences in a row; see [`naps`](Self::naps).
    long: u32,
    /// Naps since it last gave way.
    naps: u32,
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
            shared: 0,
            shared_max: SHARED_MAX,
            trial: 0,
            ran: 0,
            is_crowded: false,
            due: false,
            long: 0,
            naps: 0,
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

    /// A poll while it is crowded. `peers_at_work` tells whether one is, and how many links are
    /// looked at.
    pub(super) fn poll(&mut self, completions: u64, peers_at_work: impl FnOnce() -> (bool, usize)) {
        if !self.is_idle(completions) {
            if self.patience != EMPTY_POLLS {
                (self.patience, self.rest_next) = (EMPTY_POLLS, REST_MIN);
            }
            (self.empty_polls, self.due) = (0, false);
            return;
        }
        self.empty_polls += 1;
        if self.empty_polls < self.patience {
            return;
        }
        if self.patience != EMPTY_POLLS {
            (self.patience, self.rest) = (EMPTY_POLLS, self.rest_next);
            self.rest_next = (self.rest_next * 2).min(REST_MAX);
        } else if self.rest == 0
            && let (true, links) = peers_at_work()
        {
            self.patience = (EMPTY_POLLS_MAX / links.max(1) as u32).max(EMPTY_POLLS_PATIENT_MIN);
            return;
        }
        (self.empty_polls, self.due) = (0, true);
    }

    /// Whether to sleep until something comes in place of giving way. Programs that compute take
    /// whole turns: a thread that gives way to them is back after milliseconds, whatever has come
    /// meanwhile, while one that sleeps is woken by what comes, and then goes before them.
    pub(super) fn naps(&self) -> bool {
        self.long >= LONG_MAX && self.naps < NAPS_MAX
    }

    /// It has slept in place of giving way.
    pub(super) fn napped(&mut self) {
        self.naps += 1;
        (self.empty_polls, self.due) = (0, false);
    }

    /// Others were let run; whether there was one, and for how many nanoseconds.
    pub(super) fn gave_way(&mut self, somebody_ran: bool, absence_ns: u64) {
        self.due = false;
        self.naps = 0;
        self.long = if absence_ns >= LONG_ABSENCE_NS { self.long.saturating_add(1) } else { 0 };
        self.rest = if absence_ns >= LONG_ABSENCE_NS { 0 } else { self.rest.saturating_sub(1) };
        if somebody_ran {
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

impl Crowd {
    /// We have given way, for so many nanoseconds; a peer shares this processor (`Some`), and it is
    /// rather for us to go (`true`). Whether to go; or to go back, if somebody computes where we
    /// went.
    pub(super) fn parts(&mut self, shares: Option<bool>, absence_ns: u64) -> bool {
        if self.trial != 0 {
            self.trial -= 1;
            if absence_ns >= LONG_ABSENCE_NS {
                (self.trial, self.shared_max) = (0, self.shared_max.saturating_mul(TRIAL_GROWTH));
                return true;
            }
        }
        let Some(is_ours) = shares else {
            self.shared = self.shared.saturating_sub(1);
            return false;
        };
        self.shared += 1;
        let most = if is_ours { self.shared_max } else { self.shared_max.saturating_mul(SHARED_OTHER) };
        if self.shared < most {
            return false;
        }
        (self.shared, self.shared_max, self.trial) = (0, self.shared_max.saturating_mul(SHARED_GROWTH), TRIAL);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nobody() -> (bool, usize) {
        (false, 1)
    }

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
    fn who_shares_a_processor_goes_ever_more_rarely() {
        let times = |c: &mut Crowd, is_ours| (1..100_000).find(|_| c.parts(Some(is_ours), 0));
        let mut c = Crowd::default();
        assert_eq!([true, true, false].map(|is_ours| times(&mut c, is_ours)), [32, 128, 4096].map(Some));
        // Not by chance.
        let mut c = Crowd::default();
        assert!((0..1000).all(|_| !c.parts(Some(true), 0) && !c.parts(None, 0)));
        // Back, if somebody computes there; and not again soon.
        let mut c = Crowd::default();
        assert_eq!(times(&mut c, true), Some(32));
        assert!(!c.parts(None, 0) && c.parts(None, LONG_ABSENCE_NS) && !c.parts(None, LONG_ABSENCE_NS));
        assert_eq!(times(&mut c, true), Some(32 * 4 * 64));
    }

    #[test]
    fn long_absences_are_slept_through() {
        let mut c = Crowd::default();
        c.gave_way(true, LONG_ABSENCE_NS);
        assert!(!c.naps(), "once is chance");
        c.gave_way(true, LONG_ABSENCE_NS);
        for _ in 0..NAPS_MAX {
            assert!(c.naps());
            (0..EMPTY_POLLS).for_each(|_| c.poll(0, nobody));
            assert!(c.is_due());
            c.napped();
            assert!(!c.is_due());
        }
        // One time of giving way shows whether they still compute.
        assert!(!c.naps());
        c.gave_way(true, LONG_ABSENCE_NS);
        assert!(c.naps());
        c.gave_way(true, LONG_ABSENCE_NS - 1);
        assert!(!c.naps());
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
            c.poll(u64::from(round) + 1, nobody);
            assert!(!c.is_due());
            (0..EMPTY_POLLS).for_each(|_| c.poll(u64::from(round) + 1, nobody));
            assert!(c.is_due());
            c.gave_way(false, 0);
        }
        assert!(!c.is_crowded());
        assert_eq!(c.ran(), 1);
    }

    #[test]
    fn a_peer_at_work_is_waited_for() {
        let polls_until_due = |c: &mut Crowd, links: usize| {
            (1..=2 * EMPTY_POLLS_MAX).find(|_| {
                c.poll(7, || (true, links));
                c.is_due()
            })
        };
        let mut c = Crowd::default();
        c.gave_way(true, 0);
        // It pays for as long as something is found.
        for completions in 8..100 {
            (0..200).for_each(|_| c.poll(completions, || (true, 1)));
            assert!(!c.is_due());
        }
        c.poll(7, nobody);
        assert_eq!(polls_until_due(&mut c, 1), Some(EMPTY_POLLS_MAX));
        // It did not help: not again at once, and each time later.
        for rest in [REST_MIN, 2 * REST_MIN, 4 * REST_MIN] {
            for _ in 0..rest {
                c.gave_way(true, 0);
                if c.rest != 0 {
                    assert_eq!(polls_until_due(&mut c, 1), Some(EMPTY_POLLS));
                }
            }
            assert_eq!(polls_until_due(&mut c, 1), Some(EMPTY_POLLS_MAX));
        }
        c.gave_way(true, LONG_ABSENCE_NS);
        assert_eq!(polls_until_due(&mut c, 1), Some(EMPTY_POLLS_MAX));
        // Many links: as long, not as many polls.
        c.gave_way(true, LONG_ABSENCE_NS);
        assert_eq!(polls_until_due(&mut c, 8), Some(EMPTY_POLLS_MAX / 8));
        // It has paid: the next try is not far.
        c.gave_way(true, LONG_ABSENCE_NS);
        (0..100).for_each(|_| c.poll(7, || (true, 1)));
        c.poll(8, nobody);
        c.poll(9, nobody);
        assert_eq!(c.rest_next, REST_MIN);
    }
}
