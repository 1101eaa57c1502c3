// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of all threads as packets in a file, while they come.

use std::collections::BTreeMap;
use std::io::{self, Write};

use bellwire_trace::Event;
use bellwire_trace::file::Head;
use bellwire_trace::kinds::Layer;

use super::datagrams::Datagrams;
use super::management::Management;
use super::pcapng::{Packet, Writer};
use super::requests::Requests;
use crate::trace::clocks;
use crate::trace::collect::Collector;
use crate::trace::merge::Merge;

/// Events on their way into a file.
#[derive(Debug)]
pub struct Stream<W> {
    merge: Merge,
    packets: Packets,
    writer: Writer<W>,
    written: u64,
    cut: u64,
}

/// Makes packets of events.
#[derive(Debug, Default)]
struct Packets {
    requests: Requests,
    datagrams: Datagrams,
    management: Management,
    /// By host and process.
    interfaces: BTreeMap<(String, u32), u32>,
    /// Those that are to be made: name and description.
    new: Vec<(String, String)>,
    made: Vec<Packet>,
}

impl Packets {
    fn take(&mut self, head: &Head, time: u64, event: &Event) {
        let next = self.interfaces.len() as u32;
        let interface = *self.interfaces.entry((head.host.clone(), head.pid)).or_insert_with(|| {
            self.new.push((format!("{}:{}", head.program, head.pid), format!("{}, process {} on {}", head.program, head.pid, head.host)));
            next
        });
        self.requests.take(interface, time, event, &mut self.made);
        self.datagrams.take(interface, time, event, &mut self.made);
        self.management.take(interface, time, event, &mut self.made);
    }
}

impl<W: Write> Stream<W> {
    /// Of a collector, into a file. With `holds_up`, a thread that notes faster than this reads
    /// waits.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(collector: Collector, to: W, holds_up: bool) -> io::Result<Self> {
        let merge = Merge::new(collector, holds_up, |event| event.kind.about().layer == Layer::Packets);
        Ok(Self { merge, packets: Packets::default(), writer: Writer::new(to)?, written: 0, cut: 0 })
    }

    /// Reads what is new, and writes packets of what is old enough ([`Merge::look`]). Whether the
    /// next look is to follow at once.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn look(&mut self) -> io::Result<bool> {
        let packets = &mut self.packets;
        let is_much = self.merge.look(|head, time, event| packets.take(head, time, event));
        self.write()?;
        Ok(is_much)
    }

    /// Reads and writes the rest, and says on standard error what is missing.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        let packets = &mut self.packets;
        self.merge.finish(|head, time, event| packets.take(head, time, event));
        self.write()?;
        let say = |what: String| eprintln!("bellwire: capture: {what}");
        clocks::lines(&self.merge.clocks).into_iter().for_each(say);
        for complaint in &self.merge.complaints {
            say(complaint.clone());
        }
        if self.written == 0 {
            say("no captured process posted a request to a queue pair, or sent a packet by UDP".to_owned());
        }
        if self.merge.lost != 0 {
            say(format!("{} KiB of events are lost, which were written faster than they were read (--drop, --bytes, --snap)", self.merge.lost.div_ceil(1024)));
        }
        if self.packets.requests.unknown != 0 {
            say(format!("{} packets are missing: the events of their requests are lost", self.packets.requests.unknown));
        }
        if self.cut != 0 {
            say(format!("{} of {} packets are cut short (--snap, --drop)", self.cut, self.written));
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        for (name, description) in self.packets.new.drain(..) {
            self.writer.interface(&name, &description)?;
        }
        // Boots are handed on one after another.
        self.packets.made.sort_by_key(|packet| packet.time);
        for packet in self.packets.made.drain(..) {
            self.writer.packet(&packet)?;
            self.cut += u64::from((packet.bytes.len() as u32) < packet.length);
            self.written += 1;
        }
        self.writer.flush()
    }
}
