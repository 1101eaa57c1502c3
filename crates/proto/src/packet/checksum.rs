// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checksum of packets whose layers below have none. A port that wants it seals what leaves and
//! opens what arrives, and says so in [`Config::checksum`](crate::Config::checksum), so that room
//! is left for the trailer; sessions and windows know nothing of it.
//!
//! ```text
//!   packet, with the flag CHECKSUM | 0 (4) | CRC-32C of everything before it (4)
//! ```

use super::header::{CHECKSUM, HEADER};

/// Bytes of the trailer. Its first byte begins neither a frame nor a packet, so joined packets can
/// be cut as before.
pub const TRAILER: usize = 8;
const ZERO: usize = TRAILER - 4;

/// Puts flag and trailer to a packet that leaves.
//= P-SUM-1
pub fn seal(packet: &mut Vec<u8>) {
    if let Some(flags) = packet.get_mut(1) {
        *flags |= CHECKSUM;
    }
    packet.extend_from_slice(&[0; ZERO]);
    let sum = crc32c::crc32c(packet);
    packet.extend_from_slice(&sum.to_le_bytes());
}

/// Takes flag and trailer from a packet that arrived. `false`: it has none, or was damaged on its
/// way; it is to be dropped and counted.
//= P-SUM-2
#[must_use]
pub fn open(packet: &mut Vec<u8>) -> bool {
    let Some((body, sum)) = packet.split_last_chunk::<4>() else { return false };
    let is_whole = body.len() >= HEADER + ZERO && body[1] & CHECKSUM != 0 && body.ends_with(&[0; ZERO]) && crc32c::crc32c(body) == u32::from_le_bytes(*sum);
    if is_whole {
        packet.truncate(packet.len() - TRAILER);
        packet[1] &= !CHECKSUM;
    }
    is_whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{CloseAck, Packet};

    fn packet() -> Vec<u8> {
        let mut bytes = vec![0; 64];
        let length = Packet::CloseAck(CloseAck { session: 0x0102_0304_0506_0708, psn: 9 }).emit(&mut bytes);
        bytes.truncate(length);
        bytes
    }

    #[test]
    fn what_was_sealed_is_opened_and_every_flipped_bit_is_found() {
        //= P-SUM-1
        //= P-SUM-2
        let plain = packet();
        let mut sealed = plain.clone();
        seal(&mut sealed);
        assert_eq!(sealed.len(), plain.len() + TRAILER);
        assert!(Packet::parse(&sealed).is_err(), "who does not want it drops it");
        for bit in 0..sealed.len() * 8 {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(!open(&mut damaged), "bit {bit}");
        }
        let mut opened = sealed.clone();
        assert!(open(&mut opened) && opened == plain);
        assert!(!open(&mut plain.clone()), "who wants it takes no other");
        for length in 0..sealed.len() {
            assert!(!open(&mut sealed[..length].to_vec()), "cut to {length}");
        }
    }

    #[test]
    fn the_sum_is_the_usual_one() {
        // Of iSCSI and SCTP (RFC 3720, B.4): 32 zero bytes.
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
    }
}
