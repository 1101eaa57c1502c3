// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packets that NICs send by UDP, as they left (docs/PROTOCOL.md).

use std::collections::BTreeMap;

use bellwire_trace::{Event, Kind, address};

use super::ip::{Ends, header, sum_up};
use super::pcapng::{Direction, Packet};

/// The longest datagram.
const LENGTH_MAX: u64 = 65_507;
/// Datagrams of a process whose bytes have come, and not yet the rest.
const BEGUN_MAX: usize = 64;

/// The datagrams of all processes.
#[derive(Debug, Default)]
pub struct Datagrams {
    /// Bytes of those that are not complete, by process and number.
    begun: BTreeMap<(u32, u32), Vec<u8>>,
}

impl Datagrams {
    /// Adds the packet of an event of a process, which has that interface, to `to`.
    pub fn take(&mut self, interface: u32, time: u64, event: &Event, to: &mut Vec<Packet>) {
        let key = (interface, event.object);
        match event.kind {
            Kind::DatagramBytes => {
                let bytes = self.begun.entry(key).or_default();
                if event.word(1) == bytes.len() as u64 && bytes.len() as u64 <= LENGTH_MAX {
                    bytes.extend(event.bytes());
                }
                if self.begun.len() > BEGUN_MAX {
                    self.begun.pop_first();
                }
            }
            Kind::Datagram => to.push(packet(interface, time, event, &self.begun.remove(&key).unwrap_or_default())),
            _ => {}
        }
    }
}

fn packet(interface: u32, time: u64, event: &Event, known: &[u8]) -> Packet {
    let length = event.word(0).min(LENGTH_MAX) as usize;
    let ports = event.word(1) as u32;
    let ends =
        Ends { from: address::ip(event.word(2), event.word(3)), to: address::ip(event.word(4), event.word(5)), ports: [(ports >> 16) as u16, ports as u16] };
    let (mut bytes, _) = header(&ends, length);
    let whole = (bytes.len() + length) as u32;
    bytes.extend(&known[..known.len().min(length)]);
    if bytes.len() as u32 == whole {
        sum_up(&mut bytes);
    }
    let comment = match (event.word(6), event.word(7)) {
        (0, _) => "lost on purpose".to_owned(),
        (1, 0) => String::new(),
        (1, late) => format!("late on purpose, by {} us", late / 1000),
        (copies, late) => format!("{copies} times on purpose, {} us later", late / 1000),
    };
    Packet { interface, time, direction: Direction::Out, bytes, length: whole, comment }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: Kind, object: u32, words: &[u64]) -> Event {
        Event { stamp: 0, kind, object, words: words.to_vec() }
    }

    #[test]
    fn a_datagram_and_one_whose_bytes_are_lost() {
        let (mut datagrams, mut packets) = (Datagrams::default(), Vec::new());
        let ends = [0, 0xffff_0a00_0001, 0, 0xffff_0a00_0002];
        let head = |number, copies| event(Kind::Datagram, number, &[[9, 7 << 16 | 8].as_slice(), &ends, &[copies, 0]].concat());
        for event in [event(Kind::DatagramBytes, 1, &[0, 0, 9, u64::MAX, 1]), head(2, 0), head(1, 1)] {
            datagrams.take(5, 6, &event, &mut packets);
        }
        let (lost, whole) = (&packets[0], &packets[1]);
        assert_eq!((lost.bytes.len(), lost.length, lost.comment.as_str()), (28, 37, "lost on purpose"));
        assert_eq!((whole.bytes.len(), whole.length, whole.comment.as_str()), (37, 37, ""));
        assert_eq!(whole.bytes[20..24], [0, 7, 0, 8]);
        assert_eq!(whole.bytes[28..], [255, 255, 255, 255, 255, 255, 255, 255, 1]);
    }
}
