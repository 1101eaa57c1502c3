// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events to come, in order: a calendar of the next microsecond with a short list for each span
//! of four nanoseconds, and a heap for what comes later. Nearly all events of a simulation lie less
//! than a microsecond ahead, and few in the same span, so that one is put in and taken out without
//! comparing it with the others. Called by the engine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::time::Time;

/// When, in which order, and what: in one number, so that the queue compares only numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event(u128);

/// The event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A call, by its place.
    Call(u32),
    /// A task goes on.
    Task(u32),
}

impl Event {
    /// Marks a task; a task has one event at most, so its number is its place among those of the
    /// same time.
    const TASK: u64 = 1 << 63;
    /// Bits of a call's place, below its number.
    const PLACE: u32 = 20;

    fn new(time: Time, order: u64) -> Self {
        Self(u128::from(time.0) << 64 | u128::from(order))
    }

    /// The `number`th call, which stands at `place`.
    pub fn call(time: Time, number: u64, place: u32) -> Self {
        debug_assert!(place >> Self::PLACE == 0 && number >> (63 - Self::PLACE) == 0, "an event's parts fit");
        Self::new(time, number << Self::PLACE | u64::from(place))
    }

    /// A task's.
    pub fn task(time: Time, task: u32) -> Self {
        Self::new(time, Self::TASK | u64::from(task))
    }

    /// When.
    pub fn time(self) -> Time {
        Time((self.0 >> 64) as u64)
    }

    /// What.
    pub fn what(self) -> What {
        let order = self.0 as u64;
        if order & Self::TASK != 0 { What::Task(order as u32) } else { What::Call(order as u32 & ((1 << Self::PLACE) - 1)) }
    }
}

/// Spans of the calendar.
const SPANS: usize = 256;
/// A span has 2^12 ps.
const SPAN_BITS: u32 = 12;

/// The queue.
pub struct Queue {
    /// Of each span of the next microsecond, its events, the last one first.
    spans: Box<[Vec<Event>]>,
    /// Which spans have events.
    marks: [u64; SPANS / 64],
    /// The span of the present time: none before it has events.
    present: u64,
    later: BinaryHeap<Reverse<Event>>,
}

impl Default for Queue {
    fn default() -> Self {
        Self { spans: vec![Vec::new(); SPANS].into(), marks: [0; SPANS / 64], present: 0, later: BinaryHeap::new() }
    }
}

impl Queue {
    /// Puts an event in, which must not lie before the one that was taken out last.
    #[inline]
    pub fn push(&mut self, event: Event) {
        let span = event.time().0 >> SPAN_BITS;
        debug_assert!(span >= self.present, "events are not in the past");
        if span - self.present >= SPANS as u64 {
            return self.later.push(Reverse(event));
        }
        let place = span as usize % SPANS;
        let events = &mut self.spans[place];
        let behind = events.iter().rposition(|other| *other > event).map_or(0, |last| last + 1);
        events.insert(behind, event);
        self.marks[place / 64] |= 1 << (place % 64);
    }

    /// The first span with events.
    #[inline]
    fn first(&self) -> Option<usize> {
        let start = self.present as usize % SPANS;
        let word = start / 64;
        let ahead = self.marks[word] >> (start % 64);
        if ahead != 0 {
            return Some(start + ahead.trailing_zeros() as usize);
        }
        // Events in the first word before the start come last, a whole round later.
        (1..=self.marks.len()).find_map(|further| {
            let word = (word + further) % self.marks.len();
            (self.marks[word] != 0).then(|| word * 64 + self.marks[word].trailing_zeros() as usize)
        })
    }

    /// When the next event happens.
    #[inline]
    pub fn next_time(&self) -> Option<Time> {
        let near = self.first().and_then(|place| self.spans[place].last());
        let later = self.later.peek().map(|Reverse(event)| event);
        near.into_iter().chain(later).min().map(|event| event.time())
    }

    /// The next event, out of the queue.
    #[inline]
    pub fn pop(&mut self) -> Option<Event> {
        let near = self.first();
        let later = self.later.peek().map(|Reverse(event)| *event);
        let event = match (near.and_then(|place| self.spans[place].last().copied().map(|event| (place, event))), later) {
            (Some((place, event)), later) if later.is_none_or(|later| event < later) => {
                self.spans[place].pop();
                if self.spans[place].is_empty() {
                    self.marks[place / 64] &= !(1 << (place % 64));
                }
                event
            }
            _ => self.later.pop()?.0,
        };
        self.present = event.time().0 >> SPAN_BITS;
        Some(event)
    }

    /// Time has come to `time`, before which no event lies.
    #[inline]
    pub fn advance(&mut self, time: Time) {
        debug_assert!(self.next_time().is_none_or(|next| next >= time), "no event is passed over");
        self.present = time.0 >> SPAN_BITS;
    }

    /// Forgets all events.
    pub fn clear(&mut self) {
        self.spans.iter_mut().for_each(Vec::clear);
        self.marks.fill(0);
        self.later.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::random::Random;

    /// Events near and far, at the same time and one by one, come out as a sorted list gives them.
    #[test]
    fn events_come_in_order() {
        for seed in 0..200 {
            let (mut random, mut queue, mut list, mut now) = (Random::new(seed, 9), Queue::default(), Vec::new(), 0);
            for step in 0..400 {
                let reach = [1, 4_000, 300_000, 5_000_000][random.below(4)];
                let time = Time(now + random.below(reach) as u64);
                let event = if random.below(2) == 0 { Event::call(time, step, 7) } else { Event::task(time, step as u32) };
                queue.push(event);
                list.push(event);
                list.sort_unstable();
                // The queue grows to about a hundred events and empties at the end.
                while list.len() > random.below(100) || (step == 399 && !list.is_empty()) {
                    let expected = list.remove(0);
                    assert_eq!((queue.next_time(), queue.pop()), (Some(expected.time()), Some(expected)));
                    now = expected.time().0;
                }
            }
            assert_eq!((queue.next_time(), queue.pop()), (None, None));
        }
    }

    #[test]
    fn an_event_says_what_is_to_happen() {
        assert_eq!(Event::call(Time(5), 1 << 40, 77).what(), What::Call(77));
        assert_eq!(Event::task(Time(5), 77).what(), What::Task(77));
        assert!(Event::call(Time(5), 9, 1) < Event::call(Time(5), 10, 0) && Event::call(Time(5), 10, 0) < Event::task(Time(5), 0));
    }
}
