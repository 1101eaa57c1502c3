// SPDX-License-Identifier: MIT OR Apache-2.0
//! The waits of a NIC, counted by VI and by completion queue, for the live view. Kept beside
//! the engine, which knows nothing of waiting: a VI that grew would cost every message. Written by
//! `wait.rs` at the end of a wait, read by `snapshot.rs`, both under the token. Costs by the
//! highest VI and queue that somebody waited for.

use super::target::Target;
use crate::handle::Handle;
use crate::time::Duration;

/// Calls that had to wait for something: those that found it at once are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WaitCounters {
    /// How many, those that ended without it included.
    pub count: u64,
    /// How many of them slept; the others found it while they polled.
    pub slept: u64,
    /// How long all of them took, nanoseconds. Of waits that were over within some looks one in a
    /// few is timed, and stands for the others.
    pub ns: u64,
    /// How many took how long: less than 2^([`CLASS_FIRST`] + n) nanoseconds and not less than half
    /// of that, for the class n; the last has all that are longer.
    pub times: [u64; CLASSES],
}

/// Classes of times.
pub(super) const CLASSES: usize = 24;
/// The first class has less than 256 ns.
pub(super) const CLASS_FIRST: u32 = 8;

impl WaitCounters {
    /// Counts the time of so many waits.
    pub(super) fn time(&mut self, each: Duration, waits: u64) {
        self.ns += each.0 * waits;
        let class = (u64::BITS - each.0.leading_zeros()).saturating_sub(CLASS_FIRST) as usize;
        self.times[class.min(CLASSES - 1)] += waits;
    }
}

/// Counters by the index of a handle, each with the handle that it belongs to: places are used
/// again.
#[derive(Debug, Default)]
struct Table(Vec<(u32, WaitCounters)>);

impl Table {
    fn of<T>(&self, handle: Handle<T>) -> WaitCounters {
        self.0.get(handle.index()).filter(|(owner, _)| *owner == handle.raw()).map_or_else(WaitCounters::default, |(_, counters)| *counters)
    }

    fn at<T>(&mut self, handle: Handle<T>) -> &mut WaitCounters {
        if self.0.len() <= handle.index() {
            self.0.resize(handle.index() + 1, (0, WaitCounters::default()));
        }
        let (owner, counters) = &mut self.0[handle.index()];
        if *owner != handle.raw() {
            (*owner, *counters) = (handle.raw(), WaitCounters::default());
        }
        counters
    }
}

/// All counters of a NIC.
#[derive(Debug, Default)]
pub(super) struct Waits {
    vis: Table,
    cqs: Table,
}

impl Waits {
    /// The counters of what is waited for; waits for connections have none.
    pub(super) fn at(&mut self, target: Target) -> Option<&mut WaitCounters> {
        match target {
            Target::Send(vi) | Target::Receive(vi) => Some(self.vis.at(vi)),
            Target::Cq(cq) => Some(self.cqs.at(cq)),
            Target::Connect | Target::Inbox => None,
        }
    }

    /// A copy of them.
    pub(super) fn of(&self, target: Target) -> WaitCounters {
        match target {
            Target::Send(vi) | Target::Receive(vi) => self.vis.of(vi),
            Target::Cq(cq) => self.cqs.of(cq),
            Target::Connect | Target::Inbox => WaitCounters::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handles::ViHandle;

    #[test]
    fn classes_of_times() {
        let mut waits = WaitCounters::default();
        for (ns, count) in [(0, 1), (255, 1), (256, 2), (511, 2), (512, 3), (1 << 30, 4), (u64::MAX >> 4, 5)] {
            waits.time(Duration(ns), count);
        }
        assert_eq!((&waits.times[..3], &waits.times[22..]), (&[2, 4, 3][..], &[0, 9][..]));
        assert_eq!(waits.times.iter().sum::<u64>(), 18);
    }

    #[test]
    fn a_place_used_again_begins_at_nothing() {
        let (mut waits, first) = (Waits::default(), ViHandle::from_raw(1 << 20 | 5));
        let next = ViHandle::from_raw(2 << 20 | 5);
        assert_eq!((first.index(), next.index()), (5, 5));
        waits.at(Target::Send(first)).unwrap().count += 3;
        waits.at(Target::Receive(first)).unwrap().count += 1;
        assert_eq!((waits.of(Target::Send(first)).count, waits.of(Target::Send(next)).count), (4, 0));
        waits.at(Target::Send(next)).unwrap().slept += 1;
        assert_eq!((waits.of(Target::Send(first)), waits.of(Target::Receive(next)).slept), (WaitCounters::default(), 1));
        assert!(waits.at(Target::Connect).is_none());
    }
}
