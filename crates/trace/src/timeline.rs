// SPDX-License-Identifier: MIT OR Apache-2.0
//! One clock for all files: stamps as nanoseconds since 1970. Those of one boot of a host lie on a
//! line through the earliest and the latest pair of stamp and nanoseconds that its files have; the
//! latest is now, if it is this boot. `hosts.rs` ties the clocks of several.

use crate::event::Event;
use crate::file::{Head, this_boot};
use crate::kinds::Kind;
use crate::stamp::{Scale, Ticks, readings, ticks};
use std::collections::BTreeMap;

/// What the files of a boot say of its clocks.
#[derive(Debug)]
struct Boot {
    /// Stamps are nanoseconds.
    is_plain: bool,
    /// Of the file that was made first: stamp, monotonic clock, time of day.
    made: (u64, u64, u64),
    earliest: (u64, u64),
    latest: (u64, u64),
    is_this: bool,
}

/// The clocks of all boots.
#[derive(Debug, Default)]
pub struct Timeline {
    boots: BTreeMap<String, Boot>,
}

/// Turns the stamps of a boot into nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    scale: Scale,
    to_day: i128,
}

impl Line {
    /// Of a boot of which nothing is known.
    pub(crate) const NONE: Self = Self { scale: Scale::NANOSECONDS, to_day: 0 };

    /// A stamp as nanoseconds since 1970.
    pub fn of_day(&self, stamp: u64) -> u64 {
        self.day_of(self.monotonic(stamp))
    }

    /// A stamp as nanoseconds of the boot's monotonic clock.
    pub(crate) fn monotonic(&self, stamp: u64) -> u64 {
        self.scale.nanoseconds(stamp)
    }

    /// Nanoseconds of the monotonic clock as those since 1970.
    pub(crate) fn day_of(&self, monotonic: u64) -> u64 {
        u64::try_from(i128::from(monotonic) + self.to_day).unwrap_or(0)
    }

    /// A number of ticks as nanoseconds.
    pub(crate) fn length(&self, ticks: u64) -> u64 {
        self.scale.length(ticks)
    }
}

impl Timeline {
    /// Adds what the head of a file says.
    pub fn add(&mut self, head: &Head) {
        let pair = (head.made.0, head.made.1);
        let boot = self.boots.entry(head.boot.clone()).or_insert_with(|| Boot {
            is_plain: false,
            made: head.made,
            earliest: pair,
            latest: pair,
            is_this: head.boot == this_boot() && ticks() == Ticks::Processor,
        });
        boot.is_plain |= head.ticks == Ticks::Nanoseconds;
        boot.made = boot.made.min(head.made);
        boot.pair(pair);
    }

    /// Adds what an event of that file says.
    pub fn note(&mut self, head: &Head, event: &Event) {
        if let (Kind::Clocks, Some(boot)) = (event.kind, self.boots.get_mut(&head.boot)) {
            boot.pair((event.stamp, event.word(0)));
        }
    }

    /// The clock of a boot whose files were added.
    pub fn line(&self, boot: &str) -> Option<Line> {
        let boot = self.boots.get(boot)?;
        let now = || {
            let (stamp, monotonic, _) = readings(Ticks::Processor);
            (stamp, monotonic)
        };
        let latest = if boot.is_this { boot.latest.max(now()) } else { boot.latest };
        // Without a second pair, the order is right and the distances are not.
        let scale = if boot.is_plain { Scale::NANOSECONDS } else { Scale::of(&[boot.earliest, latest]).unwrap_or(Scale::NANOSECONDS) };
        Some(Line { scale, to_day: i128::from(boot.made.2) - i128::from(boot.made.1) })
    }
}

impl Boot {
    fn pair(&mut self, pair: (u64, u64)) {
        self.earliest = self.earliest.min(pair);
        self.latest = self.latest.max(pair);
    }
}
