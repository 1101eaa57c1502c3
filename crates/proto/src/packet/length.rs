// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a packet ends when the network has joined it with the next ones: no packet is followed by
//! anything that could be a part of it.

use super::auth::{DATA_LENGTH, PING_LENGTH, TRAILER};
use super::header::{AUTH, HEADER, Kind, kind_of};
use crate::config::{DATA_HEADER, FRAME_HEADER, HEAD_WORDS_MAX};

/// Bytes of an ACK before its bitmap.
const ACK_BYTES: usize = 24;

/// Of the first two bytes: version, kind, and whether it is authenticated.
const FIRST: u16 = 0xff | AUTHENTICATED;
const AUTHENTICATED: u16 = (AUTH as u16) << 8;
const DATA: u16 = Kind::Data.first_byte() as u16;
const ACK: u16 = Kind::Ack.first_byte() as u16;

/// Bytes of an ACK that is not authenticated.
#[inline]
fn ack_bytes(bytes: &[u8]) -> usize {
    ACK_BYTES + usize::from(u16::from_le_bytes([bytes[2], bytes[3]])) * 8
}

/// The length of the packet at the beginning of `bytes`: 1 to `bytes.len()`, and 0 only if there
/// are none. A frame begins with the number of its words, a packet with a byte that is larger than
/// any such, so data packets end where no frame begins; acknowledgements tell the length of their
/// bitmap; authenticated ones tell their length. Other kinds do not travel in numbers: they are
/// taken to be all there is, and whatever is wrong with that is found when they are parsed.
#[inline]
pub fn length(bytes: &[u8]) -> usize {
    //= P-HEAD-6
    let end = match bytes.first_chunk::<HEADER>().map(|b| u16::from_le_bytes([b[0], b[1]]) & FIRST) {
        Some(DATA) => end_of_frames(bytes),
        Some(ACK) => ack_bytes(bytes),
        Some(first) if first & AUTHENTICATED != 0 => authenticated(bytes),
        _ => bytes.len(),
    };
    end.clamp(HEADER.min(bytes.len()), bytes.len())
}

/// The length of an authenticated packet, as it says itself.
//= P-AUTH-4
fn authenticated(bytes: &[u8]) -> usize {
    let at = |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(bytes.len(), |b| usize::from(u16::from_le_bytes(*b)));
    match kind_of(bytes) {
        Ok(Kind::Data) => at(DATA_LENGTH),
        Ok(Kind::Ping) => at(PING_LENGTH),
        Ok(Kind::Ack) => TRAILER + ack_bytes(bytes),
        Ok(Kind::Nack | Kind::Pong) => 24 + TRAILER,
        Ok(Kind::Close) => 32 + TRAILER,
        Ok(Kind::CloseAck) => 16 + TRAILER,
        _ => bytes.len(),
    }
}

#[inline]
fn end_of_frames(bytes: &[u8]) -> usize {
    let mut at = DATA_HEADER;
    while let Some(&[words, _, low, high]) = bytes.get(at..).and_then(<[u8]>::first_chunk::<FRAME_HEADER>)
        && (1..=HEAD_WORDS_MAX).contains(&usize::from(words))
    {
        at += FRAME_HEADER + usize::from(words) * 8 + usize::from(u16::from_le_bytes([low, high]));
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::data::{Answer, Data};
    use crate::packet::{Ack, Packet};

    fn data(frames: &[u8]) -> Vec<u8> {
        let d = Data {
            session: 7,
            psn: 1,
            stream_back: 0,
            ordered: false,
            ack_now: false,
            retransmitted: false,
            timestamp: 1,
            answer: Answer::default(),
            frames,
            count: 1,
        };
        let mut out = vec![0; 2000];
        let n = Packet::Data(d).emit(&mut out);
        out.truncate(n);
        out
    }

    #[test]
    fn joined_packets_are_cut_where_they_end() {
        //= P-HEAD-6
        let frame = |payload: usize| {
            let mut f = vec![2, 0, payload as u8, (payload >> 8) as u8];
            f.extend(core::iter::repeat_n(0x11, 16 + payload));
            f
        };
        let ack = {
            let mut out = [0; 400];
            let mut bitmap = [0; super::super::ack::BITMAP_WORDS_MAX];
            bitmap[1] = 1;
            let n = Packet::Ack(Ack { session: 1, ack: 5, echo: None, bitmap, words: 2 }).emit(&mut out);
            out[..n].to_vec()
        };
        let two = [frame(300), frame(0)].concat();
        for packets in [vec![data(&frame(9)), data(&two), data(&frame(9))], vec![ack.clone(), data(&two), ack.clone()], vec![data(&[]), ack]] {
            let joined = packets.concat();
            let mut rest = joined.as_slice();
            for p in &packets {
                assert_eq!(length(rest), p.len());
                rest = &rest[p.len()..];
            }
            assert_eq!(length(rest), 0);
        }
    }

    #[test]
    fn nonsense_has_an_end() {
        assert_eq!(length(&[0xff; 100]), 100);
        assert_eq!(length(&[0x11; 3]), 3);
        let mut long = data(&[1, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(length(&long), long.len());
        long.truncate(20);
        assert_eq!(length(&long), 20);
    }
}
