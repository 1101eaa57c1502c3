// SPDX-License-Identifier: MIT OR Apache-2.0
//! Follows requests through the events of a trace: the way that each went, and how long it took.
//!
//! The engine's steps beneath a call that posts a request say the way. The process did it in mapped
//! memory, or its bytes were copied out of the peer's process, or it left as a message in one line
//! or in more. No step: it has to wait.

use std::collections::{BTreeMap, VecDeque};

use bellwire_trace::file::Head;
use bellwire_trace::{Event, Kind};
use bellwire_wire::frame::INLINE_BYTES_MAX;

use super::calls;
use super::times::Times;
use super::ways::{Way, size_class};

/// Requests of one queue that are followed at a time.
const FOLLOWED_MAX: usize = 1 << 16;
/// Opcodes of completions from this one on are those of receives.
const RECEIVES: u64 = 128;
/// States of a virtual interface, by their numbers in the trace.
const ERROR: u64 = 3;

/// Requests of one operation and size on one connection.
#[derive(Clone, Debug, Default)]
pub struct Class {
    pub requests: u64,
    pub bytes: u64,
    pub ways: BTreeMap<Way, u64>,
    /// Time of the calls that posted them.
    pub calls: Times,
    /// From the post until the program has the completion.
    pub completions: Times,
    /// From the post until they left, of those that waited.
    pub waits: Times,
    /// What these waited for.
    pub waited_for: BTreeMap<&'static str, u64>,
    /// Those that failed, by status.
    pub failed: BTreeMap<u64, u64>,
}

/// A connection: what a queue pair or a virtual interface does.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    /// It is a queue pair; else a virtual interface that the program has itself.
    pub is_pair: bool,
    /// Its virtual interface, once one was seen.
    pub vi: Option<u32>,
    /// By operation and the most bytes of its class.
    pub classes: BTreeMap<(u64, u64), Class>,
    pub received: u64,
    pub received_bytes: u64,
    /// Requests that left again.
    pub again: u64,
    /// Messages that found no receive.
    pub not_ready: u64,
    /// Why it broke.
    pub broke: String,
    /// Of a virtual interface: messages that left without a place in its queue.
    pub messages: Messages,
    followed: VecDeque<Followed>,
}

/// Messages that left at once.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    /// Those of one line.
    pub lines: u64,
    /// Longer ones, and their bytes.
    pub longer: u64,
    pub longer_bytes: u64,
    /// From one that left while none was awaited until the peer's next message came.
    pub answers: Times,
    awaited: Option<u64>,
}

impl Messages {
    fn leave(&mut self, messages: u64, bytes: u64, time: u64) {
        if bytes == 0 {
            self.lines += messages;
        } else {
            self.longer += messages;
            self.longer_bytes += bytes;
        }
        self.awaited.get_or_insert(time);
    }

    fn come(&mut self, time: u64) {
        if let Some(since) = self.awaited.take() {
            self.answers.add(time.saturating_sub(since));
        }
    }
}

#[derive(Clone, Debug)]
struct Followed {
    name: u64,
    class: (u64, u64),
    posted: u64,
    has_left: bool,
    waits: Waits,
}

/// How things stood when a request began to wait.
#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    /// Requests before it had not left.
    is_behind: bool,
    /// Requests of the connection that had left again.
    again: u64,
    /// Times that the peer had no receive.
    not_ready: u64,
    /// Packets of all links that were sent again.
    packets_again: u64,
}

impl Waits {
    /// What a request waited for that has left now.
    fn reason(&self, now: &Self) -> &'static str {
        if now.again != self.again || now.not_ready != self.not_ready {
            "a receive of the peer"
        } else if now.packets_again != self.packets_again {
            "packets that were lost"
        } else if self.is_behind {
            "requests before it"
        } else {
            "room at the peer, or on the link"
        }
    }
}

/// A link to another NIC.
#[derive(Clone, Debug, Default)]
pub struct Link {
    pub peer: u64,
    pub is_mapped: bool,
    /// By which wire, and why.
    pub why: String,
    pub lost: String,
    pub packets: [u64; 3],
}

/// A process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    pub program: String,
    pub host: String,
    pub links: BTreeMap<u32, Link>,
    /// The links of virtual interfaces.
    pub vi_links: BTreeMap<u32, u32>,
    pub pairs: BTreeMap<u32, Connection>,
    pub vis: BTreeMap<u32, Connection>,
    pub empty_polls: u64,
    pub polls: u64,
    /// Calls of layers above.
    pub calls: calls::Followed,
    posting: BTreeMap<u32, Posting>,
}

/// The post that a thread is in.
#[derive(Clone, Debug)]
struct Posting {
    pair: u32,
    name: u64,
    bytes: u64,
    operation: u64,
    begun: u64,
    way: Option<Way>,
    vi: Option<u32>,
    is_queued: bool,
    has_left: bool,
}

/// All processes, by host and number.
#[derive(Debug, Default)]
pub struct Processes {
    pub all: BTreeMap<(String, u32), Process>,
}

impl Processes {
    /// Takes the next event of a thread.
    pub fn take(&mut self, head: &Head, time: u64, event: &Event) {
        let process = self.all.entry((head.host.clone(), head.pid)).or_default();
        if process.program.is_empty() {
            (process.program, process.host) = (head.program.clone(), head.host.clone());
        }
        process.take(head.tid, time, event);
    }
}

impl Process {
    fn take(&mut self, thread: u32, time: u64, event: &Event) {
        let (object, word) = (event.object, |at| event.word(at));
        match event.kind {
            Kind::PostSend => {
                let posting = Posting {
                    pair: object,
                    name: word(0),
                    bytes: word(1),
                    operation: word(2),
                    begun: time,
                    way: None,
                    vi: None,
                    is_queued: false,
                    has_left: false,
                };
                self.posting.insert(thread, posting);
            }
            Kind::PostSendEnd => {
                if let Some(posting) = self.posting.remove(&thread).filter(|posting| word(0) == 0 && posting.pair == object) {
                    self.posted(&posting, time);
                }
            }
            Kind::Sent => {
                self.step(thread, object, if word(1) == 0 { Way::Line } else { Way::Copied });
                self.vis.entry(object).or_default().messages.leave(word(0), word(1), time);
            }
            Kind::Direct => {
                self.step(thread, object, Way::Mapped);
                self.way_of_vi(object, Way::Mapped, word(0));
            }
            Kind::Attached => {
                self.step(thread, object, Way::Attached);
                self.way_of_vi(object, Way::Attached, word(0));
            }
            Kind::PairPosted => {
                if let Some(posting) = self.posting.get_mut(&thread).filter(|posting| posting.pair == object) {
                    posting.is_queued = true;
                }
            }
            Kind::PairLeft => match self.posting.get_mut(&thread).filter(|posting| posting.pair == object && posting.is_queued) {
                Some(posting) => posting.has_left = true,
                None => {
                    let now = self.waits(object);
                    self.pairs.entry(object).or_default().leave(word(0), time, &now);
                }
            },
            Kind::PairAgain => self.pairs.entry(object).or_default().again += word(0),
            Kind::WorkCompletion => self.completed(object, time, event),
            Kind::Poll | Kind::FiPoll => self.polls += 1,
            Kind::EmptyLooks => self.empty_polls += word(0),
            Kind::Posted => self
                .vis
                .entry(object)
                .or_default()
                .follow(Followed { name: word(0), class: (word(2), size_class(word(1))), posted: time, has_left: false, waits: Waits::default() }, word(1)),
            Kind::Left => self.vis.entry(object).or_default().leave(word(0), time, &Waits::default()),
            Kind::Completed => self.vis.entry(object).or_default().complete(word(0), word(1), time),
            Kind::Received => {
                let vi = self.vis.entry(object).or_default();
                vi.received += word(0);
                vi.received_bytes += word(1);
                vi.messages.come(time);
            }
            Kind::NotReady => self.vis.entry(object).or_default().not_ready += word(0),
            Kind::ViState => {
                if word(1) != 0 {
                    self.vi_links.insert(object, word(1) as u32);
                }
                if word(0) == ERROR {
                    self.vis.entry(object).or_default().broke = event.text();
                }
            }
            Kind::LinkUp => _ = self.links.insert(object, Link { peer: word(0), is_mapped: word(1) != 0, why: event.text(), ..Link::default() }),
            Kind::LinkLost => self.links.entry(object).or_default().lost = event.text(),
            Kind::Packets => {
                let link = self.links.entry(object).or_default();
                for (sum, new) in link.packets.iter_mut().zip([word(0), word(2), word(3)]) {
                    *sum += new;
                }
            }
            _ => self.calls.take(thread, time, event),
        }
    }

    /// How things stand for a queue pair whose requests wait.
    fn waits(&self, pair: u32) -> Waits {
        let connection = self.pairs.get(&pair);
        let vi = connection.and_then(|connection| self.vis.get(&connection.vi?));
        Waits {
            is_behind: connection.is_some_and(|connection| connection.followed.iter().any(|followed| !followed.has_left)),
            again: connection.map_or(0, |connection| connection.again),
            not_ready: vi.map_or(0, |vi| vi.not_ready),
            packets_again: self.links.values().map(|link| link.packets[1]).sum(),
        }
    }

    /// A step of the engine beneath a post.
    fn step(&mut self, thread: u32, vi: u32, way: Way) {
        self.calls.step(thread, way);
        if let Some(posting) = self.posting.get_mut(&thread) {
            posting.vi = Some(vi);
            // The first step is of the request; answers may follow.
            posting.way.get_or_insert(way);
        }
    }

    /// Requests of a virtual interface itself went that way.
    fn way_of_vi(&mut self, vi: u32, way: Way, requests: u64) {
        let connection = self.vis.entry(vi).or_default();
        let newest = connection.followed.iter().rev().take(requests as usize).map(|followed| followed.class).collect::<Vec<_>>();
        for class in newest {
            connection.move_to(class, way);
        }
    }

    fn posted(&mut self, posting: &Posting, time: u64) {
        let stands = self.waits(posting.pair);
        let pair = self.pairs.entry(posting.pair).or_default();
        (pair.is_pair, pair.vi) = (true, posting.vi.or(pair.vi));
        let waits = posting.is_queued && !posting.has_left && posting.way.is_none();
        let way = if waits { Way::Waited } else { posting.way.unwrap_or(Way::Unknown) };
        let class = (posting.operation, size_class(posting.bytes));
        let counted = pair.classes.entry(class).or_default();
        counted.requests += 1;
        counted.bytes += posting.bytes;
        counted.calls.add(time.saturating_sub(posting.begun));
        *counted.ways.entry(way).or_default() += 1;
        pair.push(Followed { name: posting.name, class, posted: posting.begun, has_left: !waits, waits: stands });
    }

    fn completed(&mut self, pair: u32, time: u64, event: &Event) {
        let connection = self.pairs.entry(pair).or_default();
        connection.is_pair = true;
        if event.word(2) >= RECEIVES {
            connection.received += 1;
            connection.received_bytes += event.word(3);
        } else {
            connection.complete(event.word(0), event.word(1), time);
        }
    }
}

impl Connection {
    fn push(&mut self, followed: Followed) {
        if self.followed.len() >= FOLLOWED_MAX {
            self.followed.pop_front();
        }
        self.followed.push_back(followed);
    }

    /// A request that a program posted to a virtual interface itself.
    fn follow(&mut self, followed: Followed, bytes: u64) {
        let counted = self.classes.entry(followed.class).or_default();
        counted.requests += 1;
        counted.bytes += bytes;
        // Unless a step of the engine says something else.
        *counted.ways.entry(if bytes <= INLINE_BYTES_MAX as u64 { Way::Line } else { Way::Copied }).or_default() += 1;
        self.push(followed);
    }

    /// A request of that class went another way.
    fn move_to(&mut self, class: (u64, u64), way: Way) {
        let Some(counted) = self.classes.get_mut(&class) else { return };
        let before = [Way::Copied, Way::Line].into_iter().find(|way| counted.ways.get(way).is_some_and(|count| *count != 0));
        if let Some(before) = before {
            *counted.ways.entry(before).or_default() -= 1;
            *counted.ways.entry(way).or_default() += 1;
        }
    }

    /// The next so many that wait have left.
    fn leave(&mut self, requests: u64, time: u64, now: &Waits) {
        let waiting = self.followed.iter_mut().filter(|followed| !followed.has_left).take(requests as usize);
        let mut waited = Vec::new();
        for followed in waiting {
            followed.has_left = true;
            waited.push((followed.class, time.saturating_sub(followed.posted), followed.waits.reason(now)));
        }
        for (class, time, reason) in waited.into_iter().filter(|_| self.is_pair) {
            let class = self.classes.entry(class).or_default();
            class.waits.add(time);
            *class.waited_for.entry(reason).or_default() += 1;
        }
    }

    /// The request of that name is complete, and those before it, which had no completion.
    fn complete(&mut self, name: u64, status: u64, time: u64) {
        let Some(at) = self.followed.iter().position(|followed| followed.name == name) else { return };
        let Some(followed) = self.followed.drain(..=at).next_back() else { return };
        let counted = self.classes.entry(followed.class).or_default();
        if status == 0 || !self.is_pair {
            counted.completions.add(time.saturating_sub(followed.posted));
        } else {
            *counted.failed.entry(status).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellwire_trace::stamp::Ticks;

    fn head() -> Head {
        let text = |t: &str| t.to_owned();
        Head { pid: 1, tid: 2, ticks: Ticks::Nanoseconds, made: (0, 0, 0), slots: 32, boot: text("b"), host: text("h"), program: text("p"), thread: text("t") }
    }

    fn follow(events: &[(u64, Kind, u32, &[u64])]) -> Process {
        let mut processes = Processes::default();
        for (time, kind, object, words) in events {
            processes.take(&head(), *time, &Event { stamp: *time, kind: *kind, object: *object, words: words.to_vec() });
        }
        processes.all.pop_first().map(|(_, process)| process).unwrap_or_default()
    }

    #[test]
    fn the_ways_of_requests() {
        use Kind::*;
        let process = follow(&[
            (0, PostSend, 7, &[1, 8, 2]),
            (1, Sent, 3, &[1, 0]),
            (2, PairPosted, 7, &[1, 1]),
            (3, PairLeft, 7, &[1]),
            (4, PostSendEnd, 7, &[0]),
            (5, PostSend, 7, &[2, 100, 0]),
            (6, Direct, 3, &[1]),
            (7, PostSendEnd, 7, &[0]),
            (8, PostSend, 7, &[3, 8, 2]),
            (9, PairPosted, 7, &[1, 2]),
            (10, PostSendEnd, 7, &[0]),
            (50, PairLeft, 7, &[1]),
            // The first two have no completion of their own.
            (60, WorkCompletion, 7, &[3, 0, 0, 8]),
            (61, WorkCompletion, 7, &[9, 0, 128, 30]),
        ]);
        let pair = &process.pairs[&7];
        let send = &pair.classes[&(2, 64)];
        assert_eq!((send.requests, send.bytes), (2, 16));
        assert_eq!(send.ways, BTreeMap::from([(Way::Line, 1), (Way::Waited, 1)]));
        assert_eq!((send.waits.most(), send.completions.most(), send.completions.count()), (42, 52, 1));
        assert_eq!(send.waited_for, BTreeMap::from([("room at the peer, or on the link", 1)]));
        assert_eq!(pair.classes[&(0, 1024)].ways, BTreeMap::from([(Way::Mapped, 1)]));
        assert_eq!((pair.vi, pair.received, pair.received_bytes), (Some(3), 1, 30));
    }

    #[test]
    fn what_fails_and_what_is_refused() {
        use Kind::*;
        let process = follow(&[
            (0, PostSend, 7, &[1, 8, 2]),
            (1, Copied_, 3, &[1, 40]),
            (2, PostSendEnd, 7, &[0]),
            (3, PairAgain, 7, &[1]),
            (4, WorkCompletion, 7, &[1, 13, 0, 8]),
            // A refused post does not count.
            (5, PostSend, 7, &[1, 8, 2]),
            (6, PostSendEnd, 7, &[12]),
        ]);
        let pair = &process.pairs[&7];
        let send = &pair.classes[&(2, 64)];
        assert_eq!((send.requests, pair.again, send.failed.get(&13)), (1, 1, Some(&1)));
        assert_eq!(send.ways, BTreeMap::from([(Way::Copied, 1)]));
    }

    #[allow(non_upper_case_globals)]
    const Copied_: Kind = Kind::Sent;

    /// Of a layer that is not traced itself: from a message until the peer's next one.
    #[test]
    fn messages_and_their_answers() {
        use Kind::*;
        let process = follow(&[(0, Sent, 3, &[1, 0]), (5, Sent, 3, &[2, 300]), (40, Received, 3, &[1, 0]), (50, Received, 3, &[1, 0])]);
        let messages = &process.vis[&3].messages;
        assert_eq!((messages.lines, messages.longer, messages.longer_bytes), (1, 2, 300));
        assert_eq!((messages.answers.count(), messages.answers.most()), (1, 40));
    }

    #[test]
    fn virtual_interfaces_of_the_program() {
        use Kind::*;
        let process = follow(&[
            (0, Posted, 3, &[5, 5000, 1]),
            (1, Direct, 3, &[1]),
            (2, Left, 3, &[1]),
            (9, Completed, 3, &[5, 0, 5000]),
            (10, Posted, 3, &[6, 8, 0]),
            (12, Received, 3, &[4, 100]),
            (13, NotReady, 3, &[2]),
        ]);
        let vi = &process.vis[&3];
        let write = &vi.classes[&(1, 8 << 10)];
        assert_eq!((write.requests, write.completions.most()), (1, 9));
        assert_eq!(write.ways.get(&Way::Mapped), Some(&1));
        assert_eq!((vi.received, vi.received_bytes, vi.not_ready, vi.classes[&(0, 64)].requests), (4, 100, 2, 1));
    }
}
