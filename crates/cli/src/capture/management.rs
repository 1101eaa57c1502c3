// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of connection management as the datagrams (MADs) that devices would exchange: to queue
//! pair 1 of each.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bellwire_trace::{Event, Kind, address};

use super::ip::Ends;
use super::pcapng::{Direction, Packet};
use super::roce::{Base, Operation, PORT, Service, packet};

/// The queue pair of connection management, its key, and the sender's port.
const QP: u32 = 1;
const KEY: u32 = 0x8001_0000;
const FROM_PORT: u16 = 0xc001;
/// Messages of processes whose bytes have not come yet.
const BEGUN_MAX: usize = 64;

/// The messages of all processes.
#[derive(Debug, Default)]
pub struct Management {
    /// Where the next message goes, by process and link.
    begun: BTreeMap<(u32, u32), (IpAddr, IpAddr)>,
    /// Numbers of the next packets, by processes.
    numbers: BTreeMap<u32, u32>,
}

impl Management {
    /// Adds the packet of an event of a process, which has that interface, to `to`.
    pub fn take(&mut self, interface: u32, time: u64, event: &Event, to: &mut Vec<Packet>) {
        let (key, word) = ((interface, event.object), |at| event.word(at));
        match event.kind {
            Kind::Management => {
                self.begun.insert(key, (address::ip(word(0), word(1)), address::ip(word(2), word(3))));
                if self.begun.len() > BEGUN_MAX {
                    self.begun.pop_first();
                }
            }
            Kind::ManagementBytes => {
                let bytes: Vec<u8> = event.bytes().collect();
                if let (Some((from, there)), Some(mad)) = (self.begun.remove(&key), bellwire_cm::mad(&bytes)) {
                    let number = self.numbers.entry(interface).or_default();
                    let base = Base { service: Service::Ud, operation: Operation::SendOnly, to_qp: QP, psn: *number, wants_answer: false, is_solicited: false };
                    *number = (*number + 1) & 0xff_ffff;
                    let extended = [KEY.to_be_bytes(), QP.to_be_bytes()].concat();
                    let ends = Ends { from, to: there, ports: [FROM_PORT, PORT] };
                    let (bytes, length) = packet(&ends, &base, &extended, &mad, mad.len());
                    to.push(Packet { interface, time, direction: Direction::Out, bytes, length, comment: String::new() });
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_and_one_whose_bytes_make_no_sense() {
        let (mut management, mut packets) = (Management::default(), Vec::new());
        let mut take = |kind, words: &[u64]| management.take(3, 5, &Event { stamp: 0, kind, object: 9, words: words.to_vec() }, &mut packets);
        let ends = [0, 0xffff_0a00_0001, 0, 0xffff_0a00_0002];
        // A confirmation: kind 4, of reliable queue pairs, in port space 0x106.
        let mut message = [0u8; 84];
        (message[0], message[3], message[7], message[11]) = (4, 2, 7, 8);
        message[12..14].copy_from_slice(&0x106u16.to_be_bytes());
        let words: Vec<u64> = message.chunks(8).map(|chunk| chunk.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))).collect();
        take(Kind::ManagementBytes, &[[0, 0, 84].as_slice(), &words].concat());
        take(Kind::Management, &ends);
        take(Kind::ManagementBytes, &[0, 0, 3, 7]);
        take(Kind::Management, &ends);
        take(Kind::ManagementBytes, &[[0, 0, 84].as_slice(), &words].concat());
        let [packet] = &packets[..] else { panic!("{} packets", packets.len()) };
        // Headers of IP, UDP, transport and datagrams, the datagram, the checksum.
        assert_eq!((packet.bytes.len(), packet.length), (20 + 8 + 12 + 8 + 256 + 4, 308));
        assert_eq!(packet.bytes[28..36], [0x64, 0, 0xff, 0xff, 0, 0, 0, 1]);
        assert_eq!(packet.bytes[40..52], [0x80, 1, 0, 0, 0, 0, 0, 1, 1, 7, 2, 3]);
    }
}
