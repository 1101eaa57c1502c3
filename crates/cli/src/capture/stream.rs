// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of all threads, in the order of their times, as packets in a file, while they come.

use std::collections::BTreeMap;
use std::io::{self, Write};

use bellwire_trace::Event;
use bellwire_trace::event::Slot;
use bellwire_trace::file::{Head, Taken};
use bellwire_trace::kinds::Layer;
use bellwire_trace::stamp::{stamp, ticks};
use bellwire_trace::timeline::Timeline;

use super::datagrams::Datagrams;
use super::pcapng::{Packet, Writer};
use super::requests::Requests;
use crate::trace::collect::Collector;

/// What the files of one boot of a host hold: their stamps are comparable.
#[derive(Debug, Default)]
struct Boot {
    /// Events that are not packets yet: with the interface of their process.
    events: Vec<(u32, Event)>,
}

/// Events on their way into a file.
#[derive(Debug)]
pub struct Stream<W> {
    collector: Collector,
    holds_up: bool,
    timeline: Timeline,
    boots: BTreeMap<String, Boot>,
    requests: Requests,
    datagrams: Datagrams,
    /// By host and process.
    interfaces: BTreeMap<(String, u32), u32>,
    writer: Writer<W>,
    /// When the last look began, and the one before.
    looks: [u64; 2],
    lost: u64,
    packets: u64,
    cut: u64,
    complaints: Vec<String>,
}

impl<W: Write> Stream<W> {
    /// Of a collector, into a file. With `holds_up`, a thread that notes faster than
    /// this reads waits.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(collector: Collector, to: W, holds_up: bool) -> io::Result<Self> {
        Ok(Self {
            collector,
            holds_up,
            timeline: Timeline::default(),
            boots: BTreeMap::new(),
            requests: Requests::default(),
            datagrams: Datagrams::default(),
            interfaces: BTreeMap::new(),
            writer: Writer::new(to)?,
            looks: [0; 2],
            lost: 0,
            packets: 0,
            cut: 0,
            complaints: Vec::new(),
        })
    }

    /// Reads what is new, and writes packets of what was noted before the look before: another
    /// thread may still be about to publish an event that is older than one that was read. Whether
    /// so much has come that the next look is to follow at once.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn look(&mut self) -> io::Result<bool> {
        self.looks = [self.looks[1], stamp(ticks())];
        let is_much = self.read();
        self.write(self.looks[0])?;
        self.writer.flush()?;
        Ok(is_much)
    }

    /// Reads and writes the rest, and says on standard error what is missing.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.read();
        self.write(u64::MAX)?;
        self.writer.flush()?;
        let say = |what: String| eprintln!("bellwire: capture: {what}");
        for complaint in &self.complaints {
            say(complaint.clone());
        }
        if self.packets == 0 {
            say("no captured process posted a request to a queue pair, or sent a packet by UDP".to_owned());
        }
        if self.lost != 0 {
            say(format!("{} KiB of events are lost, which were written faster than they were read (--drop, --bytes, --snap)", self.lost.div_ceil(1024)));
        }
        if self.requests.unknown != 0 {
            say(format!("{} packets are missing: the events of their requests are lost", self.requests.unknown));
        }
        if self.cut != 0 {
            say(format!("{} of {} packets are cut short (--snap, --drop)", self.cut, self.packets));
        }
        Ok(())
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
            for event in &events {
                self.timeline.note(&head, event);
            }
            let captured: Vec<Event> = events.into_iter().filter(|event| event.kind.about().layer == Layer::Packets).collect();
            if captured.is_empty() {
                continue;
            }
            let interface = self.interface_of(&head);
            self.boots.entry(head.boot).or_default().events.extend(captured.into_iter().map(|event| (interface, event)));
        }
        is_much
    }

    fn interface_of(&mut self, head: &Head) -> u32 {
        let next = self.interfaces.len() as u32;
        *self.interfaces.entry((head.host.clone(), head.pid)).or_insert_with(|| {
            let made = self.writer.interface(&format!("{}:{}", head.program, head.pid), &format!("{}, process {} on {}", head.program, head.pid, head.host));
            // The next packet finds out that nothing can be written.
            made.unwrap_or(next)
        })
    }

    /// Writes packets of the events before that stamp.
    fn write(&mut self, before: u64) -> io::Result<()> {
        let mut packets: Vec<Packet> = Vec::new();
        for (boot, Boot { events }) in &mut self.boots {
            let Some(line) = self.timeline.line(boot) else { continue };
            // Those of a file are in order already, and stay so.
            events.sort_by_key(|(_, event)| event.stamp);
            let ready = events.partition_point(|(_, event)| event.stamp < before);
            for (interface, event) in events.drain(..ready) {
                let time = line.of_day(event.stamp);
                self.requests.take(interface, time, &event, &mut packets);
                self.datagrams.take(interface, time, &event, &mut packets);
            }
        }
        packets.sort_by_key(|packet| packet.time);
        for packet in &packets {
            self.writer.packet(packet)?;
            self.cut += u64::from((packet.bytes.len() as u32) < packet.length);
        }
        self.packets += packets.len() as u64;
        Ok(())
    }
}
