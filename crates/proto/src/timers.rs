// SPDX-License-Identifier: MIT OR Apache-2.0
//! One alarm for each place in the table of sessions, in a hierarchical timing wheel: setting,
//! moving and taking one off, and asking for the next, cost the same whatever their number.
//!
//! A tick is 4.096 us; level `l` has 64 slots of 64^l ticks. An alarm rings up to a tick late,
//! never early; `next` may be early by the width of a slot, and then the wheel only moves alarms to
//! lower levels. Alarms are usually not moved when they become later: the woken session checks
//! which timers are due and sets the next.
//= P-TIME-6

use bellwire_time::Instant;

const TICK_BITS: u32 = 12;
const LEVEL_BITS: u32 = 6;
const SLOTS: usize = 1 << LEVEL_BITS;
/// Enough for every time there is: 9 * 6 + 12 bits and more.
const LEVELS: usize = 9;
const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Alarm {
    /// In ticks; `u64::MAX`: off.
    at: u64,
    previous: u32,
    next: u32,
    /// Which list it is in: level * SLOTS + slot.
    list: u16,
}

const OFF: Alarm = Alarm { at: u64::MAX, previous: NIL, next: NIL, list: 0 };

/// The wheel. Alarms are numbered by place.
#[derive(Debug)]
pub(crate) struct Timers {
    alarms: Vec<Alarm>,
    heads: Vec<u32>,
    /// Which slots of a level have alarms.
    used: [u64; LEVELS],
    /// Ticks passed.
    elapsed: u64,
    count: usize,
}

impl Timers {
    pub(crate) fn new() -> Self {
        Self { alarms: Vec::new(), heads: vec![NIL; LEVELS * SLOTS], used: [0; LEVELS], elapsed: 0, count: 0 }
    }

    /// Makes a place for alarm `index`.
    pub(crate) fn reserve(&mut self, index: usize) {
        if self.alarms.len() <= index {
            self.alarms.resize(index + 1, OFF);
        }
    }

    /// Sets alarm `index` to `at`, or leaves it if it rings earlier.
    #[inline]
    pub(crate) fn set_earlier(&mut self, index: usize, at: Instant) {
        if at != Instant::NEVER && ticks_up(at) < self.alarms[index].at {
            self.set(index, at);
        }
    }

    /// Whether alarm `index` rings at `at` or before.
    #[inline]
    pub(crate) fn rings_by(&self, index: usize, at: Instant) -> bool {
        self.alarms[index].at <= at.0 >> TICK_BITS
    }

    /// Sets alarm `index` to `at`; [`Instant::NEVER`] takes it off.
    pub(crate) fn set(&mut self, index: usize, at: Instant) {
        self.unlink(index);
        if at != Instant::NEVER {
            self.alarms[index].at = ticks_up(at);
            self.link(index);
        }
    }

    /// When to call [`Timers::expire`] next.
    pub(crate) fn next(&self) -> Instant {
        if self.count == 0 {
            return Instant::NEVER;
        }
        self.first_slot().map_or(Instant::NEVER, |(_, _, at)| Instant(at.saturating_mul(1 << TICK_BITS)))
    }

    /// An alarm of those that ring first, about.
    pub(crate) fn soonest(&self) -> Option<usize> {
        self.first_slot().map(|(level, slot, _)| self.heads[level * SLOTS + slot] as usize)
    }

    /// The next alarm that is due, taken off. Call until `None`.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<usize> {
        let now = now.0 >> TICK_BITS;
        while let Some((level, slot, at)) = self.first_slot() {
            if at > now {
                break;
            }
            self.elapsed = self.elapsed.max(at);
            let list = level * SLOTS + slot;
            if level == 0 {
                let index = self.heads[list] as usize;
                self.unlink(index);
                return Some(index);
            }
            // All of them at once: alarms left on this level count as later than everything below.
            while self.heads[list] != NIL {
                let index = self.heads[list] as usize;
                self.unlink_from_list(index);
                self.link(index);
            }
        }
        self.elapsed = self.elapsed.max(now);
        None
    }

    /// The slot that comes first, and when it begins. Lower levels come first: an alarm is on the
    /// level of the highest digit in which it differs from `elapsed`.
    fn first_slot(&self) -> Option<(usize, usize, u64)> {
        for level in 0..LEVELS {
            if self.used[level] == 0 {
                continue;
            }
            let shift = LEVEL_BITS * level as u32;
            let position = (self.elapsed >> shift) as u32 % SLOTS as u32;
            let ahead = self.used[level].rotate_right(position).trailing_zeros();
            let slot = (position + ahead) as usize % SLOTS;
            let begin = (self.elapsed >> shift) + u64::from(ahead);
            return Some((level, slot, (begin << shift).max(self.elapsed)));
        }
        None
    }

    fn link(&mut self, index: usize) {
        let at = self.alarms[index].at.max(self.elapsed);
        let differing = 63 - ((at ^ self.elapsed) | 1).leading_zeros();
        let level = (differing / LEVEL_BITS) as usize;
        let slot = (at >> (LEVEL_BITS * level as u32)) as usize % SLOTS;
        let list = level * SLOTS + slot;
        let head = self.heads[list];
        if head != NIL {
            self.alarms[head as usize].previous = index as u32;
        }
        let alarm = &mut self.alarms[index];
        (alarm.previous, alarm.next, alarm.list) = (NIL, head, list as u16);
        self.heads[list] = index as u32;
        self.used[level] |= 1 << slot;
        self.count += 1;
    }

    fn unlink(&mut self, index: usize) {
        if self.alarms[index].at != u64::MAX {
            self.unlink_from_list(index);
            self.alarms[index].at = u64::MAX;
        }
    }

    fn unlink_from_list(&mut self, index: usize) {
        let Alarm { previous, next, list, .. } = self.alarms[index];
        let list = usize::from(list);
        if next != NIL {
            self.alarms[next as usize].previous = previous;
        }
        if previous == NIL {
            self.heads[list] = next;
            if next == NIL {
                self.used[list / SLOTS] &= !(1 << (list % SLOTS));
            }
        } else {
            self.alarms[previous as usize].next = next;
        }
        self.count -= 1;
    }
}

const fn ticks_up(at: Instant) -> u64 {
    let ticks = at.0 >> TICK_BITS;
    if at.0 & ((1 << TICK_BITS) - 1) == 0 { ticks } else { ticks + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(x: &mut u64) -> u64 {
        *x ^= *x << 13;
        *x ^= *x >> 7;
        *x ^= *x << 17;
        *x
    }

    #[test]
    fn alarms_ring_once_in_time() {
        let mut x = 88_172_645_463_325_252;
        for span in [20, 26, 34, 44, 56] {
            let mut timers = Timers::new();
            timers.reserve(99);
            let mut model = [u64::MAX; 100];
            let mut now = 0u64;
            for _ in 0..4000 {
                let index = (random(&mut x) % 100) as usize;
                let at = now.saturating_add(random(&mut x) >> (64 - span));
                match random(&mut x) % 4 {
                    0 => {
                        timers.set(index, Instant::NEVER);
                        model[index] = u64::MAX;
                    }
                    1 => {
                        timers.set_earlier(index, Instant(at));
                        model[index] = model[index].min(at);
                    }
                    _ => {
                        timers.set(index, Instant(at));
                        model[index] = at;
                    }
                }
                let earliest = *model.iter().min().unwrap();
                let next = timers.next();
                assert!(earliest == u64::MAX || next.0 <= earliest + (1 << TICK_BITS), "late: {next:?} {earliest}");
                assert!((earliest == u64::MAX) == (next == Instant::NEVER));
                if random(&mut x).is_multiple_of(3) {
                    now = now.saturating_add(random(&mut x) >> (66 - span));
                    while let Some(rung) = timers.expire(Instant(now)) {
                        assert!(model[rung] <= now, "early");
                        model[rung] = u64::MAX;
                    }
                    assert!(model.iter().all(|at| *at >= now >> TICK_BITS << TICK_BITS), "forgotten");
                }
            }
        }
    }

    #[test]
    fn the_next_wake_up_comes_nearer() {
        //= P-TIME-6
        let mut timers = Timers::new();
        timers.reserve(0);
        timers.set(0, Instant(10_000_000_000));
        let mut calls = 0;
        let mut now = Instant(0);
        while timers.expire(now).is_none() {
            assert!(timers.next() > now || now.0 >= 10_000_000_000);
            now = timers.next();
            calls += 1;
        }
        assert!(now.0 >= 10_000_000_000 && now.0 <= 10_000_004_096 && calls <= LEVELS);
        assert_eq!(timers.next(), Instant::NEVER);
    }
}
