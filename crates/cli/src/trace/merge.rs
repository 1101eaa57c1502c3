// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of all threads in the order of their times, while they are written.

use std::collections::BTreeMap;

use bellwire_trace::Event;
use bellwire_trace::event::Slot;
use bellwire_trace::file::{Head, Taken};
use bellwire_trace::hosts::{Clock, Hosts};
use bellwire_trace::stamp::{stamp, ticks};
use bellwire_trace::timeline::Timeline;

use super::collect::Collector;

/// Merges what a collector reads.
#[derive(Debug)]
pub struct Merge {
    collector: Collector,
    /// Threads that note faster than this reads wait.
    holds_up: bool,
    wanted: fn(&Event) -> bool,
    timeline: Timeline,
    hosts: Hosts,
    /// Threads, by their files.
    heads: Vec<Head>,
    /// Events that were not handed on yet, with the index of their thread, by boots: the stamps of
    /// one are comparable.
    boots: BTreeMap<String, Vec<(usize, Event)>>,
    /// When the last look began, and the one before.
    looks: [u64; 2],
    /// Bytes of events that are lost.
    pub lost: u64,
    /// Files that could not be read at the last look.
    pub complaints: Vec<String>,
    /// The clocks of the hosts, if all was read before anything was handed on.
    pub clocks: Vec<Clock>,
}

impl Merge {
    /// Of a collector, those events that `wanted` says.
    pub fn new(collector: Collector, holds_up: bool, wanted: fn(&Event) -> bool) -> Self {
        let (timeline, hosts) = (Timeline::default(), Hosts::default());
        let (heads, boots, complaints, clocks) = (Vec::new(), BTreeMap::new(), Vec::new(), Vec::new());
        Self { collector, holds_up, wanted, timeline, hosts, heads, boots, looks: [0; 2], lost: 0, complaints, clocks }
    }

    /// Reads what is new, and hands on what was noted before the look before, with its thread and
    /// its time in nanoseconds since 1970: another thread may still be about to publish an event
    /// that is older than one that was read. Whether so much has come that the next look is to
    /// follow at once.
    pub fn look(&mut self, each: impl FnMut(&Head, u64, &Event)) -> bool {
        self.looks = [self.looks[1], stamp(ticks())];
        let is_much = self.read();
        self.hand_on(self.looks[0], each);
        is_much
    }

    /// Reads and hands on the rest. If that is all, messages tie the clocks of several hosts; else
    /// they go by the time of day.
    pub fn finish(&mut self, mut each: impl FnMut(&Head, u64, &Event)) {
        self.read();
        if self.looks[1] != 0 {
            return self.hand_on(u64::MAX, each);
        }
        let clocks = self.hosts.clocks(&self.timeline);
        let mut all: Vec<(usize, Event)> = core::mem::take(&mut self.boots).into_values().flatten().collect();
        all.iter_mut().for_each(|(thread, event)| clocks.settle(&self.heads[*thread], event));
        all.sort_by_key(|(_, event)| event.stamp);
        all.iter().for_each(|(thread, event)| each(&self.heads[*thread], event.stamp, event));
        self.clocks = clocks.all;
    }

    fn read(&mut self) -> bool {
        match self.collector.look() {
            // The end says which files still cannot be read.
            Ok(complaints) => self.complaints = complaints,
            Err(why) => self.complaints = vec![why],
        }
        if self.holds_up {
            self.collector.be_waited_for();
        }
        let mut is_much = false;
        for (head, Taken { events, slots, slots_lost, senseless }) in self.collector.take() {
            is_much |= slots > head.slots / 8;
            self.lost += (slots_lost + senseless) * size_of::<Slot>() as u64;
            self.timeline.add(&head);
            self.hosts.add(&head);
            for event in &events {
                self.timeline.note(&head, event);
                self.hosts.note(&head, event);
            }
            let wanted = self.wanted;
            let mut events = events.into_iter().filter(wanted).peekable();
            if events.peek().is_none() {
                continue;
            }
            let thread = self.heads.iter().position(|known| *known == head).unwrap_or_else(|| {
                self.heads.push(head.clone());
                self.heads.len() - 1
            });
            self.boots.entry(head.boot).or_default().extend(events.map(|event| (thread, event)));
        }
        is_much
    }

    fn hand_on(&mut self, before: u64, mut each: impl FnMut(&Head, u64, &Event)) {
        for (boot, events) in &mut self.boots {
            let Some(line) = self.timeline.line(boot) else { continue };
            // Those of a file are in order already, and stay so.
            events.sort_by_key(|(_, event)| event.stamp);
            let ready = events.partition_point(|(_, event)| event.stamp < before);
            for (thread, event) in events.drain(..ready) {
                each(&self.heads[thread], line.of_day(event.stamp), &event);
            }
        }
    }
}
