// SPDX-License-Identifier: MIT OR Apache-2.0
//! Follows calls of the layers whose requests are no requests of queue pairs: the libfabric
//! provider, global memory, remote procedure calls, Active Messages.

use std::collections::{BTreeMap, VecDeque};

use bellwire_trace::{Event, Kind};

use super::classes::{Calls, Class};
use super::messages;
use super::ways::{Way, size_class};

/// Requests and calls of a process that are followed at a time.
const FOLLOWED_MAX: usize = 1 << 16;
/// Calls of a thread that lie in each other.
const DEPTH_MAX: usize = 16;
/// No room: the program is to ask again.
const AGAIN: i64 = -11;

/// A call that a thread is in.
#[derive(Clone, Debug)]
struct Open {
    class: Class,
    name: &'static str,
    context: u64,
    bytes: u64,
    begun: u64,
    way: Option<Way>,
    /// It is a request that has a completion, and a way.
    is_request: bool,
    /// It asks for what a peer sends.
    receives: bool,
}

/// The calls of a process.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    pub classes: BTreeMap<Class, Calls>,
    open: BTreeMap<u32, Vec<Open>>,
    /// Requests whose completions the program does not have, by their contexts.
    posted: BTreeMap<u64, VecDeque<(Class, u64)>>,
    posted_count: usize,
    /// Requests of Active Messages.
    messages: messages::Followed,
    /// Remote procedure calls under way, by their places.
    under_way: BTreeMap<u32, (Class, u64)>,
}

/// Whether a call of global memory moves bytes, the second word being their number.
fn moves_bytes(name: &str) -> bool {
    ["_put", "_get", "_store", "_read", "_write"].iter().any(|part| name.contains(part)) && !name.contains("_sync")
}

impl Followed {
    /// Takes an event of a thread, if it is one of these calls.
    pub fn take(&mut self, thread: u32, time: u64, event: &Event) {
        use Kind::{FiAtomic, FiRead, FiReceive, FiSend, FiTaggedReceive, FiTaggedSend, FiWrite};
        let word = |at| event.word(at);
        match event.kind {
            FiSend | FiTaggedSend | FiReceive | FiTaggedReceive | FiRead | FiWrite | FiAtomic => self.post(thread, time, event),
            Kind::FiSendEnd
            | Kind::FiTaggedSendEnd
            | Kind::FiReceiveEnd
            | Kind::FiTaggedReceiveEnd
            | Kind::FiReadEnd
            | Kind::FiWriteEnd
            | Kind::FiAtomicEnd => self.end(thread, time, event.kind.about().name, word(0).cast_signed()),
            Kind::FiCompletion => self.complete(word(0), time),
            Kind::QuickCall => self.global(thread, time, event),
            Kind::QuickCallEnd => self.end(thread, time, "gas", word(0).cast_signed()),
            Kind::RpcCall => {
                let class = Class { connection: format!("remote procedure calls to peer {}", word(0)), operation: event.text(), most: None };
                if self.under_way.len() < FOLLOWED_MAX {
                    self.under_way.insert(event.object, (class, time));
                }
            }
            Kind::RpcResult => {
                if let Some((class, begun)) = self.under_way.remove(&event.object) {
                    let calls = self.classes.entry(class).or_default();
                    calls.count += 1;
                    calls.failed += u64::from(word(0) != 0);
                    calls.completions.add(time.saturating_sub(begun));
                }
            }
            _ => self.messages.take(&mut self.classes, thread, time, event),
        }
    }

    /// A step of the engine: the first beneath a request says its way.
    pub fn step(&mut self, thread: u32, way: Way) {
        self.messages.step(thread, way);
        if let Some(open) = self.open.get_mut(&thread).and_then(|open| open.last_mut()) {
            open.way.get_or_insert(way);
        }
    }

    fn begin(&mut self, thread: u32, open: Open) {
        let calls = self.open.entry(thread).or_default();
        if calls.len() >= DEPTH_MAX {
            calls.clear();
        }
        calls.push(open);
    }

    /// A request of the provider is posted.
    fn post(&mut self, thread: u32, time: u64, event: &Event) {
        let (name, receives) = (event.kind.about().name, matches!(event.kind, Kind::FiReceive | Kind::FiTaggedReceive));
        // Values of eight bytes at most.
        let bytes = if event.kind == Kind::FiAtomic { event.word(1).saturating_mul(8) } else { event.word(1) };
        let peer = if event.word(2) == u64::MAX { "any peer".to_owned() } else { format!("peer {}", event.word(2)) };
        let direction = if receives { "from" } else { "to" };
        let class = Class { connection: format!("endpoint {:#x} {direction} {peer}", event.object), operation: name.to_owned(), most: Some(size_class(bytes)) };
        self.begin(thread, Open { class, name, context: event.word(0), bytes, begun: time, way: None, is_request: true, receives });
    }

    /// A call of global memory.
    fn global(&mut self, thread: u32, time: u64, event: &Event) {
        let operation = event.text();
        let moves = operation.starts_with("gas_") && moves_bytes(&operation);
        let bytes = if moves { event.word(1) } else { 0 };
        let class = Class { connection: "global memory".to_owned(), operation, most: moves.then(|| size_class(bytes)) };
        self.begin(thread, Open { class, name: "gas", context: 0, bytes, begun: time, way: None, is_request: false, receives: false });
    }

    fn end(&mut self, thread: u32, time: u64, name: &str, result: i64) {
        let Some(open) = self.open.get_mut(&thread) else { return };
        let Some(at) = open.iter().rposition(|open| open.name == name) else { return };
        let ended = open.remove(at);
        open.truncate(at);
        if ended.name == "gas" && !ended.class.operation.starts_with("gas_") {
            return;
        }
        let calls = self.classes.entry(ended.class.clone()).or_default();
        calls.calls.add(time.saturating_sub(ended.begun));
        match result {
            AGAIN if ended.is_request => return calls.refused += 1,
            ..0 => calls.failed += 1,
            _ => {}
        }
        calls.count += 1;
        calls.bytes = calls.bytes.saturating_add(ended.bytes);
        if ended.receives {
            // It goes no way.
        } else if let Some(way) = ended.way {
            *calls.ways.entry(way).or_default() += 1;
        } else {
            // Within a host global memory is loads and stores.
            let way = if ended.is_request { Way::Waited } else { Way::Mapped };
            if ended.is_request || ended.class.most.is_some() {
                *calls.ways.entry(way).or_default() += 1;
            }
        }
        if ended.is_request && result >= 0 && self.posted_count < FOLLOWED_MAX {
            self.posted_count += 1;
            self.posted.entry(ended.context).or_default().push_back((ended.class, ended.begun));
        }
    }

    fn complete(&mut self, context: u64, time: u64) {
        let Some(posted) = self.posted.get_mut(&context) else { return };
        let found = posted.pop_front();
        if posted.is_empty() {
            self.posted.remove(&context);
        }
        if let Some((class, begun)) = found {
            self.posted_count -= 1;
            self.classes.entry(class).or_default().completions.add(time.saturating_sub(begun));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: Kind, object: u32, words: &[u64], text: &str) -> Event {
        let (text, _) = bellwire_trace::event::text_words::<8>(text);
        let words = if kind.about().has_text { [&[words, &[0; 2]].concat()[..2], &text].concat() } else { words.to_vec() };
        Event { stamp: 0, kind, object, words }
    }

    #[test]
    fn requests_of_the_provider() {
        let mut followed = Followed::default();
        for (time, kind, words) in [
            (0, Kind::FiTaggedSend, &[7, 100, 3][..]),
            (5, Kind::FiTaggedSendEnd, &[0]),
            (6, Kind::FiTaggedSend, &[8, 100, 3]),
            (7, Kind::FiTaggedSendEnd, &[AGAIN.cast_unsigned()]),
            (8, Kind::FiTaggedReceive, &[9, 5000, u64::MAX]),
            (9, Kind::FiTaggedReceiveEnd, &[0]),
            (60, Kind::FiCompletion, &[9]),
            (70, Kind::FiCompletion, &[7]),
            (71, Kind::FiCompletion, &[7]),
        ] {
            followed.take(1, time, &event(kind, 5, words, ""));
            followed.step(1, Way::Line);
        }
        let of = |connection: &str, operation: &str, most| &followed.classes[&Class { connection: connection.into(), operation: operation.into(), most }];
        let send = of("endpoint 0x5 to peer 3", "fi_tsend", Some(1024));
        assert_eq!((send.count, send.bytes, send.refused, send.calls.count()), (1, 100, 1, 2));
        assert_eq!((send.completions.count(), send.completions.most(), &send.ways), (1, 70, &BTreeMap::from([(Way::Line, 1)])));
        let receive = of("endpoint 0x5 from any peer", "fi_trecv", Some(8 << 10));
        assert_eq!((receive.completions.most(), receive.ways.len()), (52, 0));
    }

    #[test]
    fn global_memory_and_procedures() {
        let mut followed = Followed::default();
        for (time, kind, words, text) in [
            (0, Kind::QuickCall, &[1, 4096][..], "gas_bulk_put"),
            (8, Kind::QuickCallEnd, &[0], "gas_bulk_put"),
            (10, Kind::QuickCall, &[0, 0], "gas_barrier"),
            (110, Kind::QuickCallEnd, &[0], "gas_barrier"),
            (200, Kind::RpcCall, &[2, 1], "store/put"),
            (260, Kind::RpcResult, &[11, 0], ""),
        ] {
            followed.take(1, time, &event(kind, 4, words, text));
        }
        let seen: Vec<_> =
            followed.classes.iter().map(|(class, calls)| (class.operation.as_str(), class.most, calls.count, calls.ways.get(&Way::Mapped).copied())).collect();
        assert_eq!(seen, [("gas_barrier", None, 1, None), ("gas_bulk_put", Some(8 << 10), 1, Some(1)), ("store/put", None, 1, None)]);
        let procedure = followed.classes.values().next_back().unwrap();
        assert_eq!((procedure.failed, procedure.completions.most()), (1, 60));
    }
}
