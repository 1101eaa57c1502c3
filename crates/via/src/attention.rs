// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which links a poll looks at. A NIC has a link to each peer, and few of them bring something at a
//! time: to look at all of them for each message would cost more than the message.
//!
//! A poll looks at all links (*wide*) until [`STREAK`] finds in a row came from at most
//! [`RECENT_MAX`] of them. From then on it looks at these (*narrow*), and at all links when that is
//! due:
//!
//! - a poll that finds nothing at the recent links looks at all if the last time is
//!   [`ALL_AFTER_NS`] ago, or [`ALL_AFTER_NS_PER_LINK`] for each link where that is more; where
//!   there is no clock, after [`TURNS_PER_ALL`] such polls;
//! - a poll that finds something asks the clock once in [`FINDS_PER_CLOCK`] finds;
//! - while the clock says that it is asked again within [`QUICK_NS`], [`UNASKED_MAX`] polls do
//!   without it: reading it takes as long as several looks. If one link alone is recent, such a
//!   poll that finds nothing there does nothing else, as if there were no other links;
//! - [`ALONE`] finds in a row at one link make it the only recent one.
//!
//! So of the polls that find nothing else and begin `ALL_AFTER_NS` or later after a message came to
//! an idle link, the first that asks the clock finds it, the `UNASKED_MAX + 1`st at the latest;
//! beside busy links, the poll after `FINDS_PER_CLOCK` finds does. A program that polls seldom
//! looks at all links each time. A message on a link that is not recent makes polls wide again.
//! Before the NIC sleeps, all links are looked at: `Engine::progress` and `Engine::has_come` always
//! do.
//!
//! With few links ([`LINKS_ALWAYS`]) polls look at all of them. A machine without memory, clock or
//! wire; `tests/attention.rs` checks the bounds.

/// Links that are always looked at, if there are no more.
pub const LINKS_ALWAYS: usize = 2;
/// Links that are looked at by narrow polls.
pub const RECENT_MAX: usize = 4;
/// Finds in a row at recent links that make polls narrow.
pub const STREAK: u32 = 64;
/// Finds between two times that a narrow poll which finds something asks the clock.
pub const FINDS_PER_CLOCK: u32 = 16;
/// Finds in a row at one link after which the others are not recent any more.
pub const ALONE: u32 = 1024;
/// Polls that do not ask the clock after one to which it said that polls are quick.
pub const UNASKED_MAX: u32 = 15;
/// Time between two questions to the clock while polls are quick, nanoseconds.
pub const QUICK_NS: u64 = 4_000;
/// Narrow polls that find nothing, between two looks at all links, where there is no clock.
pub const TURNS_PER_ALL: u32 = 64;
/// Time between two looks at all links, nanoseconds: at least, and for each link.
pub const ALL_AFTER_NS: u64 = 10_000;
/// See [`ALL_AFTER_NS`].
pub const ALL_AFTER_NS_PER_LINK: u64 = 200;

/// The links at which polls found messages lately. Links are named by their place in the engine's
/// list.
#[derive(Clone, Debug, Default)]
pub struct Attention {
    recent: [u32; RECENT_MAX],
    count: u32,
    /// The recent link to be forgotten next.
    next_out: u32,
    streak: u32,
    /// Finds in a row at the first of the recent links.
    alone: u32,
    narrow: bool,
    /// Finds since the clock was asked.
    finds: u32,
    /// Narrow polls that found nothing since all links were looked at.
    turns: u32,
    all_at: u64,
    asked_at: u64,
    /// Polls to come that do not ask the clock.
    unasked: u32,
}

impl Attention {
    /// Whether polls look at the recent links only.
    #[inline]
    pub fn is_narrow(&self) -> bool {
        self.narrow
    }

    /// The links that brought something lately.
    #[inline]
    pub fn recent(&self) -> ([u32; RECENT_MAX], usize) {
        (self.recent, self.count as usize)
    }

    /// The link that a narrow poll tries first, unless it is time to think of the others.
    #[inline]
    pub fn favourite(&self) -> Option<u32> {
        (self.narrow && self.finds < FINDS_PER_CLOCK).then_some(self.recent[0])
    }

    /// The only recent link, if polls look at it alone for now.
    #[inline]
    pub fn only(&self) -> Option<u32> {
        if self.count == 1 { self.favourite() } else { None }
    }

    /// The next narrow poll asks the clock, whatever it finds.
    #[inline]
    pub fn ask(&mut self) {
        self.finds = self.finds.max(FINDS_PER_CLOCK);
    }

    /// A poll has found something at the favourite.
    #[inline]
    pub fn found_at_favourite(&mut self) {
        self.finds += 1;
    }

    /// A poll that was counted as a find at the favourite has found nothing.
    #[inline]
    pub fn found_none_at_favourite(&mut self) {
        self.finds = self.finds.saturating_sub(1);
    }

    /// A poll has found nothing at the favourite: whether it is to look nowhere else. Counts as a
    /// poll that did not ask the clock.
    #[inline]
    pub fn is_content(&mut self) -> bool {
        let is_content = self.count == 1 && self.unasked != 0;
        self.unasked -= u32::from(is_content);
        is_content
    }

    /// A poll has found something at a link.
    #[inline]
    pub fn found(&mut self, at: u32) {
        let recent = &mut self.recent[..self.count as usize];
        match recent.iter().position(|r| *r == at) {
            Some(place) => {
                // The last one first: a single active link is looked at first.
                recent[..=place].rotate_right(1);
                self.finds = self.finds.saturating_add(1);
                self.streak = self.streak.saturating_add(1);
                self.narrow |= self.streak >= STREAK;
                self.alone = if place == 0 { self.alone.saturating_add(1) } else { 0 };
                if self.alone >= ALONE {
                    self.count = 1;
                }
            }
            None => self.found_new(at),
        }
    }

    #[cold]
    fn found_new(&mut self, at: u32) {
        (self.narrow, self.streak, self.alone) = (false, 0, 0);
        let place = if (self.count as usize) < RECENT_MAX {
            self.count += 1;
            self.count - 1
        } else {
            self.next_out = (self.next_out + 1) % RECENT_MAX as u32;
            self.next_out
        };
        self.recent[place as usize] = at;
    }

    /// Whether a narrow poll that found something is to ask the clock all the same.
    #[inline]
    pub fn must_ask(&self) -> bool {
        self.finds >= FINDS_PER_CLOCK
    }

    /// Whether it is time to look at all of `links`; `clock` gives nanoseconds, 0 if there is none.
    #[inline]
    pub fn is_due(&mut self, links: usize, clock: impl FnOnce() -> u64) -> bool {
        if self.unasked != 0 && !self.must_ask() {
            self.unasked -= 1;
            return false;
        }
        self.finds = 0;
        match clock() {
            0 => {
                self.turns += 1;
                if self.turns < TURNS_PER_ALL {
                    return false;
                }
            }
            now => {
                self.unasked = if now.wrapping_sub(self.asked_at) < QUICK_NS { UNASKED_MAX } else { 0 };
                self.asked_at = now;
                if now.wrapping_sub(self.all_at) < ALL_AFTER_NS.max(links as u64 * ALL_AFTER_NS_PER_LINK) {
                    return false;
                }
                self.all_at = now;
            }
        }
        self.turns = 0;
        true
    }

    /// A link has come or gone: places have other meanings.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}
