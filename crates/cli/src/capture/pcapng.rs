// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file of captured packets: pcapng (draft-ietf-opsawg-pcapng), as Wireshark, tshark and tcpdump
//! read it. Three kinds of blocks are written: a section header, an interface for each process, and
//! packets. (The crates that write this format have no stable release of the last years.)

use std::io::{self, Write};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Packets begin with an IPv4 or IPv6 header.
const LINK_RAW: u16 = 101;

const END_OF_OPTIONS: u16 = 0;
const COMMENT: u16 = 1;
/// Of a section: the program that wrote it.
const APPLICATION: u16 = 4;
/// Of an interface: its name, its description, and the unit of times, as a power of ten.
const NAME: u16 = 2;
const DESCRIPTION: u16 = 3;
const RESOLUTION: u16 = 9;
/// Of a packet: its direction.
const FLAGS: u16 = 2;

/// The direction of a packet, seen from its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    In = 1,
    Out = 2,
}

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Index of its interface.
    pub interface: u32,
    /// Nanoseconds since 1970.
    pub time: u64,
    pub direction: Direction,
    /// Its bytes, perhaps without those at its end.
    pub bytes: Vec<u8>,
    /// Its length.
    pub length: u32,
    pub comment: String,
}

/// Writes a file.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

fn option(bytes: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    bytes.extend(code.to_le_bytes());
    bytes.extend((value.len() as u16).to_le_bytes());
    bytes.extend(value);
    pad(bytes);
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    pub fn new(mut to: W) -> io::Result<Self> {
        let mut body = Vec::new();
        body.extend(BYTE_ORDER.to_le_bytes());
        body.extend([1u16, 0].iter().flat_map(|version| version.to_le_bytes()));
        // Its length is not known.
        body.extend(u64::MAX.to_le_bytes());
        option(&mut body, APPLICATION, concat!("bellwire capture ", env!("CARGO_PKG_VERSION")).as_bytes());
        option(&mut body, END_OF_OPTIONS, &[]);
        block(&mut to, SECTION, &body)?;
        Ok(Self { to })
    }

    /// Adds an interface; the first has index 0.
    pub fn interface(&mut self, name: &str, description: &str) -> io::Result<()> {
        let mut body = Vec::new();
        body.extend(u32::from(LINK_RAW).to_le_bytes());
        // No limit is said for a packet's length.
        body.extend(0u32.to_le_bytes());
        option(&mut body, NAME, name.as_bytes());
        option(&mut body, DESCRIPTION, description.as_bytes());
        option(&mut body, RESOLUTION, &[9]);
        option(&mut body, END_OF_OPTIONS, &[]);
        block(&mut self.to, INTERFACE, &body)
    }

    /// Adds a packet.
    pub fn packet(&mut self, packet: &Packet) -> io::Result<()> {
        let mut body = Vec::with_capacity(packet.bytes.len() + 64);
        let words = [packet.interface, (packet.time >> 32) as u32, packet.time as u32, packet.bytes.len() as u32, packet.length];
        body.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        body.extend(&packet.bytes);
        pad(&mut body);
        option(&mut body, FLAGS, &(packet.direction as u32).to_le_bytes());
        if !packet.comment.is_empty() {
            option(&mut body, COMMENT, packet.comment.as_bytes());
        }
        option(&mut body, END_OF_OPTIONS, &[]);
        block(&mut self.to, PACKET, &body)
    }

    /// Hands everything on.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn block(to: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
    let length = (body.len() as u32 + 12).to_le_bytes();
    to.write_all(&kind.to_le_bytes())?;
    to.write_all(&length)?;
    to.write_all(body)?;
    to.write_all(&length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The blocks of a file: kind and body.
    fn blocks(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut found = Vec::new();
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap());
        while !bytes.is_empty() {
            let length = word(&bytes[4..]) as usize;
            assert!(length.is_multiple_of(4) && word(&bytes[length - 4..]) as usize == length);
            found.push((word(bytes), bytes[8..length - 4].to_vec()));
            bytes = &bytes[length..];
        }
        found
    }

    #[test]
    fn blocks_lie_behind_each_other() {
        let mut writer = Writer::new(Vec::new()).unwrap();
        writer.interface("a", "b").unwrap();
        writer.interface("c", "d").unwrap();
        let packet = Packet { interface: 1, time: 0x1_0000_0002, direction: Direction::In, bytes: vec![7; 5], length: 9, comment: "über".to_owned() };
        writer.packet(&packet).unwrap();
        let blocks = blocks(&writer.to);
        assert_eq!(blocks.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [SECTION, INTERFACE, INTERFACE, PACKET]);
        let body = &blocks[3].1;
        let words: Vec<u32> = body[..20].chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        assert_eq!(words, [1, 1, 2, 5, 9]);
        assert_eq!(&body[20..28], [7, 7, 7, 7, 7, 0, 0, 0]);
        assert_eq!(&body[28..], [&[2, 0, 4, 0, 1, 0, 0, 0, 1, 0, 5, 0][..], "über".as_bytes(), &[0, 0, 0, 0, 0, 0, 0]].concat());
    }
}
