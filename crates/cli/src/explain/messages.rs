// SPDX-License-Identifier: MIT OR Apache-2.0
//! Follows requests of Active Messages: by the number that each has on its connection, from the
//! call until the peer has said that it has handled it.

use std::collections::{BTreeMap, VecDeque};

use bellwire_trace::{Event, Kind};

use super::classes::{Calls, Class};
use super::ways::{Way, size_class};
use crate::trace::show;

/// Requests of a connection that are followed at a time: no connection has more out.
const FOLLOWED_MAX: usize = 256;
/// `AM_ERR_NOT_SENT`: the program is to ask again.
const NOT_SENT: u64 = 4;

/// A call that a thread is in, or has made last.
#[derive(Clone, Debug)]
struct Call {
    begun: u64,
    class: Class,
    bytes: u64,
    /// Its request has an event of its own, with a number. Those of the mappings on VIPL have none.
    has_left: bool,
}

/// A request that is out.
#[derive(Clone, Debug)]
struct Out {
    number: u32,
    class: Class,
    begun: u64,
}

/// The requests of a process.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// By threads.
    calls: BTreeMap<u32, Call>,
    /// The first step of the engine since the thread's last request.
    ways: BTreeMap<u32, Way>,
    /// By connections, oldest first.
    out: BTreeMap<u32, VecDeque<Out>>,
}

fn class(endpoint: u64, entry: u64, operation: u64, bytes: u64) -> Class {
    let connection = format!("active messages: endpoint {endpoint:#x} to entry {entry}");
    Class { connection, operation: show::field(Kind::AmCall, 2, operation), most: Some(size_class(bytes)) }
}

impl Followed {
    /// A step of the engine.
    pub fn step(&mut self, thread: u32, way: Way) {
        self.ways.entry(thread).or_insert(way);
    }

    /// A request has gone the way of the thread's last step.
    fn count(&mut self, thread: u32, calls: &mut Calls, bytes: u64) {
        calls.count += 1;
        calls.bytes = calls.bytes.saturating_add(bytes);
        *calls.ways.entry(self.ways.remove(&thread).unwrap_or(Way::Unknown)).or_default() += 1;
    }

    /// Takes an event of a thread, if it is one of these.
    pub fn take(&mut self, classes: &mut BTreeMap<Class, Calls>, thread: u32, time: u64, event: &Event) {
        let word = |at| event.word(at);
        match event.kind {
            Kind::AmCall => {
                self.ways.remove(&thread);
                self.calls.insert(thread, Call { begun: time, class: class(event.object.into(), word(0), word(2), word(1)), bytes: word(1), has_left: false });
            }
            Kind::AmCallEnd => {
                let Some(call) = self.calls.remove(&thread) else { return };
                let calls = classes.entry(call.class).or_default();
                calls.calls.add(time.saturating_sub(call.begun));
                match word(0) {
                    0 if call.has_left => {}
                    0 => self.count(thread, calls, call.bytes),
                    NOT_SENT => calls.refused += 1,
                    _ => calls.failed += 1,
                }
            }
            Kind::AmRequest => {
                let (class, bytes) = (class(word(5), word(4), word(2), word(1)), word(1));
                // Handlers may run within a call, but requests are not made there.
                let call = self.calls.get_mut(&thread).filter(|call| call.class == class);
                let begun = call.map_or(time, |call| {
                    call.has_left = true;
                    call.begun
                });
                self.count(thread, classes.entry(class.clone()).or_default(), bytes);
                let (out, number) = (self.out.entry(event.object).or_default(), word(0) as u32);
                if out.back().is_some_and(|last| number.wrapping_sub(last.number).cast_signed() <= 0) {
                    // Another connection has the place.
                    out.clear();
                }
                if out.len() >= FOLLOWED_MAX {
                    out.pop_front();
                }
                out.push_back(Out { number, class, begun });
            }
            Kind::AmHandled | Kind::AmReturned => {
                let Some(out) = self.out.get_mut(&event.object) else { return };
                let before = word(0) as u32;
                let is_before = |first: &Out| before.wrapping_sub(first.number).cast_signed() > 0;
                while out.front().is_some_and(is_before) {
                    let Some(first) = out.pop_front() else { return };
                    let calls = classes.entry(first.class).or_default();
                    if event.kind == Kind::AmHandled {
                        calls.completions.add(time.saturating_sub(first.begun));
                    } else {
                        calls.failed += 1;
                    }
                }
            }
            Kind::AmHandlerEnd => _ = self.ways.remove(&thread),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(events: &[(u64, Kind, u32, &[u64])]) -> BTreeMap<Class, Calls> {
        let (mut followed, mut classes) = (Followed::default(), BTreeMap::new());
        for (time, kind, object, words) in events {
            followed.take(&mut classes, 1, *time, &Event { stamp: *time, kind: *kind, object: *object, words: words.to_vec() });
            if *kind == Kind::AmCall {
                followed.step(1, Way::Line);
                followed.step(1, Way::Copied);
            }
        }
        classes
    }

    #[test]
    fn each_request_has_its_time() {
        use Kind::*;
        let classes = follow(&[
            (0, AmCall, 5, &[3, 0, 1, 9]),
            (4, AmRequest, 7, &[u32::MAX.into(), 0, 1, 9, 3, 5]),
            (5, AmCallEnd, 5, &[0]),
            (10, AmCall, 5, &[3, 0, 1, 9]),
            (14, AmRequest, 7, &[0, 0, 1, 9, 3, 5]),
            (16, AmCallEnd, 5, &[0]),
            (20, AmHandled, 7, &[0, 1]),
            (30, AmCall, 5, &[3, 5000, 2, 9]),
            (31, AmCallEnd, 5, &[NOT_SENT]),
            (50, AmHandled, 7, &[1, 0]),
            // Without a call, as in Rust; it comes back.
            (60, AmRequest, 7, &[1, 5000, 2, 9, 3, 5]),
            (61, AmReturned, 7, &[2, 0]),
        ]);
        let of = |operation: &str| classes.iter().find(|(class, _)| class.operation == operation).unwrap();
        let (short, long) = (of("short"), of("medium"));
        assert_eq!(short.0.connection, "active messages: endpoint 0x5 to entry 3");
        assert_eq!((short.1.count, short.1.calls.most(), short.1.calls.count()), (2, 6, 2));
        assert_eq!((short.1.completions.count(), short.1.completions.most()), (2, 40));
        assert_eq!(short.1.ways, BTreeMap::from([(Way::Line, 2)]));
        assert_eq!((long.1.count, long.1.refused, long.1.failed, long.1.completions.count()), (1, 1, 1, 0));
    }

    /// A connection in the place of another begins to count anew.
    #[test]
    fn another_connection_in_the_place() {
        use Kind::*;
        let request = |number| [number, 0, 1, 9, 3, 5];
        let classes = follow(&[(0, AmRequest, 7, &request(8)), (10, AmRequest, 7, &request(0)), (12, AmHandled, 7, &[1, 0])]);
        let calls = classes.values().next().unwrap();
        assert_eq!((calls.count, calls.completions.count(), calls.completions.most()), (2, 1, 2));
    }
}
