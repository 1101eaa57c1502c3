// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hosts whose clocks are tied by messages. Both sides of a session between NICs count its packets:
//! the n-th that one side has received left the other one in the turn in which that one had sent
//! its n-th. When the turn began, and when the packet had arrived, bounds the lead of one clock
//! over the other ([`crate::offset`]).
//!
//! The clocks are the monotonic ones of boots (`file::Head::boot`). Those that no messages tie go
//! by the time of day.

use crate::event::Event;
use crate::file::{Head, Thread, this_boot};
use crate::kinds::Kind;
use crate::offset::{Bounds, Lead};
use crate::stamp::READING_ERROR;
use crate::timeline::{Line, Timeline};
use std::collections::{BTreeMap, BTreeSet};

/// What the files say of sessions.
#[derive(Debug, Default)]
pub struct Hosts {
    /// Names of hosts, by boots.
    names: BTreeMap<String, String>,
    /// By boot, host and process.
    processes: BTreeMap<(String, String, u32), Vec<Seen>>,
}

/// An event of a session: when, of which link, and its words.
#[derive(Clone, Copy, Debug)]
struct Seen {
    stamp: u64,
    link: u32,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Session { ids: (u64, u64) },
    Packets { sent: u64, began: u64, all_sent: u64, all_received: u64 },
}

/// What one side of a session has counted by then.
#[derive(Clone, Copy, Debug)]
struct Point {
    /// When the turn began (0: not known), and when it ended, nanoseconds.
    began: u64,
    ended: u64,
    /// Packets sent before the turn, and with it.
    before: u64,
    sent: u64,
    received: u64,
}

#[derive(Debug)]
struct Side {
    boot: usize,
    points: Vec<Point>,
}

/// How a boot's clock is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Tie {
    /// All others are told by it.
    Reference,
    /// By messages, straight or by way of other hosts.
    Messages {
        /// Nanoseconds by which its time of day was ahead of the reference's.
        of_day: i64,
        /// The same of its monotonic clock, at its first event.
        monotonic: i64,
        /// Nanoseconds by which these may be wrong.
        error: u64,
        /// By how many billionths it is faster.
        drift: i64,
        /// Messages that bound it.
        messages: u64,
    },
    /// No messages went both ways.
    TimeOfDay,
}

/// A host's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Clock {
    /// The host's name.
    pub host: String,
    /// The boot.
    pub boot: String,
    /// How it is known.
    pub tie: Tie,
}

/// The clocks of all boots, on the reference's.
#[derive(Debug)]
pub struct Clocks {
    lines: BTreeMap<String, Placed>,
    reference: Option<Line>,
    /// Each of them, with how it is known.
    pub all: Vec<Clock>,
}

/// The clock of a boot, and the steps to the reference's.
#[derive(Clone, Debug)]
struct Placed {
    line: Line,
    /// From this one on; `true`: this one is the second of the two.
    steps: Option<Vec<(Lead, bool)>>,
}

impl Placed {
    /// A time of this clock by the reference's.
    fn of_reference(&self, own: u64) -> Option<u64> {
        let step = |time, (lead, is_second): &(Lead, bool)| if *is_second { lead.first(time) } else { lead.second(time) };
        Some(self.steps.as_ref()?.iter().fold(own, step))
    }
}

impl Clocks {
    /// Puts an event's times on the one clock, as nanoseconds since 1970.
    pub fn settle(&self, head: &Head, event: &mut Event) {
        let Some(placed) = self.lines.get(&head.boot) else { return };
        if let (Kind::Packets, Some(began @ 1..)) = (event.kind, event.words.get_mut(4)) {
            *began = placed.line.length(event.stamp.saturating_sub(*began));
        }
        event.stamp = self.of_day(placed, event.stamp);
    }

    fn of_day(&self, placed: &Placed, stamp: u64) -> u64 {
        match (placed.of_reference(placed.line.monotonic(stamp)), &self.reference) {
            (Some(time), Some(reference)) => reference.day_of(time),
            _ => placed.line.of_day(stamp),
        }
    }
}

impl Hosts {
    /// Adds what the head of a file says.
    pub fn add(&mut self, head: &Head) {
        self.names.entry(head.boot.clone()).or_insert_with(|| head.host.clone());
    }

    /// Adds what an event of that file says.
    pub fn note(&mut self, head: &Head, event: &Event) {
        let word = |at| event.word(at);
        let what = match event.kind {
            Kind::Session => What::Session { ids: (word(0), word(1)) },
            Kind::Packets if word(5) | word(6) != 0 => What::Packets { sent: word(0), began: word(4), all_sent: word(5), all_received: word(6) },
            _ => return,
        };
        let process = (head.boot.clone(), head.host.clone(), head.pid);
        self.processes.entry(process).or_default().push(Seen { stamp: event.stamp, link: event.object, what });
    }

    /// The clocks of all boots whose files were added, on one.
    pub fn clocks(&self, timeline: &Timeline) -> Clocks {
        let boots: Vec<&String> = self.names.keys().collect();
        let lines: Vec<Line> = boots.iter().map(|boot| timeline.line(boot).unwrap_or(Line::NONE)).collect();
        let by_name = |at: &usize| (self.names.get(boots[*at]), boots[*at]);
        let reference = (0..boots.len()).find(|at| *boots[*at] == this_boot()).or_else(|| (0..boots.len()).min_by_key(by_name));
        let leads = if boots.len() > 1 { self.leads(&boots, &lines) } else { BTreeMap::new() };
        let ways = reference.map(|reference| ways(reference, boots.len(), &leads)).unwrap_or_default();
        let placed = boots.iter().zip(&lines).zip(&ways).map(|((boot, line), way)| {
            let steps = way.as_ref().map(|way| way.iter().map(|(lead, is_second)| (*lead, *is_second)).collect());
            ((*boot).clone(), Placed { line: *line, steps })
        });
        let mut clocks = Clocks { lines: placed.collect(), reference: reference.map(|at| lines[at]), all: Vec::new() };
        for (at, way) in ways.iter().enumerate() {
            let host = self.names.get(boots[at]).cloned().unwrap_or_default();
            clocks.all.push(Clock { host, boot: boots[at].clone(), tie: self.tie(&clocks, boots[at], Some(at) == reference, way.as_deref()) });
        }
        clocks
    }

    fn tie(&self, clocks: &Clocks, boot: &String, is_reference: bool, way: Option<&[(Lead, bool)]>) -> Tie {
        let (Some(placed), Some(reference)) = (clocks.lines.get(boot), &clocks.reference) else { return Tie::TimeOfDay };
        if is_reference {
            return Tie::Reference;
        }
        let Some(way) = way else { return Tie::TimeOfDay };
        let of_boot = self.processes.iter().filter(|((of, ..), _)| of == boot).flat_map(|(_, seen)| seen.first());
        let first = placed.line.monotonic(of_boot.map(|seen| seen.stamp).min().unwrap_or(0));
        let there = placed.of_reference(first).unwrap_or(first);
        Tie::Messages {
            of_day: placed.line.day_of(first).wrapping_sub(reference.day_of(there)).cast_signed(),
            monotonic: first.wrapping_sub(there).cast_signed(),
            error: way.iter().fold(2 * READING_ERROR, |sum: u64, (lead, _)| sum.saturating_add(lead.error)),
            drift: way.iter().map(|(lead, is_second)| if *is_second { lead.drift() } else { -lead.drift() }).sum(),
            messages: way.iter().map(|(lead, _)| lead.messages).min().unwrap_or(0),
        }
    }

    /// The leads between boots that messages tie, the lesser index first.
    fn leads(&self, boots: &[&String], lines: &[Line]) -> BTreeMap<(usize, usize), Lead> {
        let sides = self.sides(boots, lines);
        let mut bounds: BTreeMap<(usize, usize), Bounds> = BTreeMap::new();
        for (&(own, peer), here) in &sides {
            let Some(there) = sides.get(&(peer, own)).filter(|there| here.boot < there.boot) else { continue };
            let bounds = bounds.entry((here.boot, there.boot)).or_default();
            crossings(&here.points, &there.points, |began, came| bounds.there(began, came));
            crossings(&there.points, &here.points, |began, came| bounds.back(began, came));
        }
        bounds.into_iter().filter_map(|(pair, bounds)| Some((pair, bounds.lead()?))).collect()
    }

    /// The sides of all sessions, by their own ids and those of their peers.
    fn sides(&self, boots: &[&String], lines: &[Line]) -> BTreeMap<(u64, u64), Side> {
        let mut sides = BTreeMap::new();
        for ((boot, _, _), seen) in &self.processes {
            let Ok(boot) = boots.binary_search(&boot) else { continue };
            let mut seen = seen.clone();
            // Those of a thread are in order already.
            seen.sort_by_key(|seen| seen.stamp);
            let mut sessions: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
            for Seen { stamp, link, what } in seen {
                match what {
                    What::Session { ids } => _ = sessions.insert(link, ids),
                    What::Packets { sent, began, all_sent, all_received } => {
                        let Some(ids) = sessions.get(&link) else { continue };
                        let ended = lines[boot].monotonic(stamp);
                        let began = if began == 0 { 0 } else { lines[boot].monotonic(began.min(stamp)) };
                        let point = Point { began, ended, before: all_sent.saturating_sub(sent), sent: all_sent, received: all_received };
                        sides.entry(*ids).or_insert_with(|| Side { boot, points: Vec::new() }).points.push(point);
                    }
                }
            }
        }
        sides
    }
}

/// The packets that left `from` and arrived at `to`: when the turn in which each left began, and
/// when it had arrived. Of packets that arrived in one turn, the last.
fn crossings(from: &[Point], to: &[Point], mut each: impl FnMut(u64, u64)) {
    let (mut at, mut known) = (0, 0);
    for came in to {
        if came.received <= known {
            continue;
        }
        known = came.received;
        while from.get(at).is_some_and(|left| left.sent < known) {
            at += 1;
        }
        let Some(left) = from.get(at) else { return };
        // If not, the event of the turn in which it left is lost.
        if left.before < known && left.began != 0 {
            each(left.began, came.ended);
        }
    }
}

/// The way from each boot to the reference over the leads, with the least error in sum.
fn ways(reference: usize, count: usize, leads: &BTreeMap<(usize, usize), Lead>) -> Vec<Option<Vec<(Lead, bool)>>> {
    let mut next: BTreeMap<usize, Vec<(usize, Lead, bool)>> = BTreeMap::new();
    for (&(first, second), lead) in leads {
        // The neighbour goes on over this one.
        next.entry(first).or_default().push((second, *lead, true));
        next.entry(second).or_default().push((first, *lead, false));
    }
    let mut ways: Vec<Option<Vec<(Lead, bool)>>> = vec![None; count];
    let mut errors = vec![u64::MAX; count];
    let mut todo = BTreeSet::from([(0u64, reference)]);
    if let (Some(way), Some(error)) = (ways.get_mut(reference), errors.get_mut(reference)) {
        (*way, *error) = (Some(Vec::new()), 0);
    }
    while let Some((error, at)) = todo.pop_first() {
        for (neighbour, lead, is_second) in next.get(&at).into_iter().flatten() {
            let sum = error.saturating_add(lead.error);
            if sum < errors[*neighbour] {
                let rest = ways[at].clone().unwrap_or_default();
                ways[*neighbour] = Some([(*lead, *is_second)].into_iter().chain(rest).collect());
                todo.remove(&(errors[*neighbour], *neighbour));
                errors[*neighbour] = sum;
                todo.insert((sum, *neighbour));
            }
        }
    }
    ways
}

/// Turns the stamps of all threads into nanoseconds since 1970, on one clock. Gives the clocks of
/// the hosts.
pub fn settle(threads: &mut [Thread]) -> Vec<Clock> {
    let (mut timeline, mut hosts) = (Timeline::default(), Hosts::default());
    for thread in threads.iter() {
        timeline.add(&thread.head);
        hosts.add(&thread.head);
        for event in &thread.events {
            timeline.note(&thread.head, event);
            hosts.note(&thread.head, event);
        }
    }
    let clocks = hosts.clocks(&timeline);
    for Thread { head, events, .. } in threads {
        events.iter_mut().for_each(|event| clocks.settle(head, event));
    }
    clocks.all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::Ticks;

    fn head(boot: &str, pid: u32, monotonic: u64, of_day: u64) -> Head {
        let text = |t: &str| t.to_owned();
        let made = (monotonic, monotonic, of_day);
        Head {
            pid,
            tid: 1,
            ticks: Ticks::Nanoseconds,
            made,
            slots: 32,
            boot: text(boot),
            host: format!("host of {boot}"),
            program: text("p"),
            thread: text("t"),
        }
    }

    fn event(stamp: u64, kind: Kind, words: &[u64]) -> Event {
        Event { stamp, kind, object: 4, words: words.to_vec() }
    }

    fn packets(stamp: u64, turn: u64, sent: (u64, u64), all_received: u64) -> Event {
        event(stamp, Kind::Packets, &[sent.1 - sent.0, 0, 0, 0, if turn == 0 { 0 } else { stamp - turn }, sent.1, all_received])
    }

    /// Two hosts whose packets go both ways, a third that only the second knows, and a fourth.
    fn four() -> Vec<(Head, Vec<Event>)> {
        let session = |stamp, own, peer| event(stamp, Kind::Session, &[own, peer]);
        vec![
            // The second clock is 5000 ahead, and its day 10 ahead of the first.
            (head("a", 1, 0, 1_000_000), vec![session(1, 71, 72), packets(110, 10, (0, 1), 0), packets(200, 5, (1, 1), 1)]),
            (head("b", 1, 5000, 1_000_010), vec![session(5001, 72, 71), packets(5130, 3, (0, 0), 1), packets(5180, 10, (0, 1), 1)]),
            (head("b", 2, 5000, 1_000_010), vec![session(5001, 81, 82), packets(5310, 10, (0, 1), 0), packets(5500, 1, (1, 1), 1)]),
            (head("c", 1, 900, 7), vec![session(910, 82, 81), packets(1230, 5, (0, 0), 1), packets(1340, 10, (0, 1), 1)]),
            (head("d", 1, 0, 500), vec![session(10, 1, 2), packets(20, 0, (0, 3), 4)]),
        ]
    }

    fn clocks(files: &[(Head, Vec<Event>)]) -> Clocks {
        let (mut timeline, mut hosts) = (Timeline::default(), Hosts::default());
        for (head, events) in files {
            timeline.add(head);
            hosts.add(head);
            events.iter().for_each(|event| hosts.note(head, event));
        }
        hosts.clocks(&timeline)
    }

    #[test]
    fn clocks_that_messages_tie() {
        let clocks = clocks(&four());
        let ties: Vec<&Tie> = clocks.all.iter().map(|clock| &clock.tie).collect();
        // From 100 to 5130, and from 5170 to 200: 5000 with 30.
        assert_eq!(*ties[0], Tie::Reference);
        assert_eq!(*ties[1], Tie::Messages { of_day: 10, monotonic: 5000, error: 431, drift: 0, messages: 2 });
        // From 5300 to 1230, and from 1330 to 5500: 4120 less than the second, with 50.
        let Tie::Messages { monotonic: 880, error: 482, of_day, .. } = *ties[2] else { panic!("{:?}", ties[2]) };
        // Its day is 893 behind its clock.
        assert_eq!(of_day, 880 + (7 - 900) - 1_000_000);
        assert_eq!(*ties[3], Tie::TimeOfDay);
    }

    #[test]
    fn events_are_on_the_one_clock() {
        let files = four();
        let clocks = clocks(&files);
        let settled = |file: usize, stamp: u64| {
            let mut event = packets(stamp, 10, (0, 1), 0);
            clocks.settle(&files[file].0, &mut event);
            (event.stamp, event.word(4))
        };
        assert_eq!(settled(0, 110), (1_000_110, 10));
        assert_eq!(settled(1, 5130), (1_000_130, 10));
        assert_eq!(settled(3, 1230), (1_000_350, 10));
        assert_eq!(settled(4, 20), (520, 10));
    }

    /// A packet whose event is lost bounds nothing, and neither does one of a turn that is not
    /// known.
    #[test]
    fn lost_events() {
        let point = |began, ended, before, sent, received| Point { began, ended, before, sent, received };
        let from = [point(10, 20, 0, 2, 0), point(50, 60, 4, 6, 0), point(0, 80, 6, 7, 0), point(90, 95, 7, 9, 0)];
        let to: Vec<Point> = (1..=10).map(|n| point(0, 1000 + n, 0, 0, n)).collect();
        let mut seen = Vec::new();
        crossings(&from, &to, |began, came| seen.push((began, came)));
        assert_eq!(seen, [(10, 1001), (10, 1002), (50, 1005), (50, 1006), (90, 1008), (90, 1009)]);
    }

    fn thread(boot: &str, made: (u64, u64, u64), events: &[(u64, Kind, u64)]) -> Thread {
        let text = |t: &str| t.to_owned();
        let head = Head { pid: 1, tid: 1, ticks: Ticks::Processor, made, slots: 32, boot: text(boot), host: text("h"), program: text("p"), thread: text("t") };
        let events = events.iter().map(|&(stamp, kind, word)| Event { stamp, kind, object: 0, words: vec![word, 0] }).collect();
        Thread { head, events, slots_lost: 0, senseless: 0 }
    }

    #[test]
    fn files_of_a_boot_share_a_clock() {
        let mut threads = [
            thread("a", (1000, 500, 10_500), &[(1000, Kind::Sent, 0), (3000, Kind::Clocks, 1500)]),
            thread("a", (2000, 1000, 99_999), &[(2500, Kind::Sent, 0)]),
            // No second pair: ticks count as nanoseconds.
            thread("b", (7, 70, 170), &[(8, Kind::Sent, 0)]),
        ];
        let clocks = settle(&mut threads);
        assert_eq!(clocks.iter().map(|clock| clock.boot.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        let stamps: Vec<Vec<u64>> = threads.iter().map(|thread| thread.events.iter().map(|event| event.stamp).collect()).collect();
        // The second host's time of day is all that is known of it.
        assert_eq!(stamps, [vec![10_500, 11_500], vec![11_250], vec![108]]);
    }
}
