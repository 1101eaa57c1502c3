// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of endpoints, and what a request for a connection says.
//!
//! A name is the mapping, the NIC's host address, the device's random id and the endpoint's number,
//! which is never used again by that device. Endpoints of different mappings have names that the
//! other's table does not take.

use crate::mapping::Mapping;
use crate::vipl::Address;
use bellwire_am::NAME_BYTES;

/// The name of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Name([u8; NAME_BYTES]);

const HOST_BYTES_MAX: usize = 18;

impl Name {
    pub(crate) fn new(mapping: Mapping, host: &[u8], device: &[u8; 16], number: u32) -> Self {
        let mut b = [0; NAME_BYTES];
        let host = &host[..host.len().min(HOST_BYTES_MAX)];
        (b[0], b[1]) = (0x10 | mapping.number(), host.len() as u8);
        b[2..2 + host.len()].copy_from_slice(host);
        b[24..40].copy_from_slice(device);
        b[40..].copy_from_slice(&u64::from(number).to_le_bytes());
        Self(b)
    }

    /// As bytes, to be sent to others.
    pub fn to_bytes(&self) -> [u8; NAME_BYTES] {
        self.0
    }

    /// From bytes; `None`: they are no name of this mapping.
    pub fn from_bytes(mapping: Mapping, b: &[u8; NAME_BYTES]) -> Option<Self> {
        let host = usize::from(b[1]);
        let is_name = b[0] == 0x10 | mapping.number()
            && matches!(host, 4 | 6 | 16 | 18)
            && b[2 + host..24].iter().all(|b| *b == 0)
            && u64::from_le_bytes(b[40..].try_into().ok()?) <= u64::from(u32::MAX);
        is_name.then_some(Self(*b))
    }

    fn host(&self) -> &[u8] {
        &self.0[2..2 + usize::from(self.0[1]).min(HOST_BYTES_MAX)]
    }

    pub(crate) fn number(&self) -> u32 {
        u32::from_le_bytes([self.0[40], self.0[41], self.0[42], self.0[43]])
    }

    /// Where the device of this endpoint waits for connections.
    pub(crate) fn device_address(&self) -> Address {
        let mut discriminator = *b"AMVIA...................";
        discriminator[7] = self.0[0];
        discriminator[8..].copy_from_slice(&self.0[24..40]);
        Address::new(self.host(), &discriminator)
    }
}

/// What a request for a connection says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ask {
    /// The endpoint that asks.
    pub from: Name,
    /// Number of the endpoint asked for.
    pub wanted: u32,
    /// Which of the VIs of the pair.
    pub lane: u8,
    /// Requests that the asker has room for.
    pub credits: u16,
}

impl Ask {
    pub(crate) fn address(&self) -> Address {
        let mut b = [0; NAME_BYTES + 9];
        b[..NAME_BYTES].copy_from_slice(&self.from.0);
        b[NAME_BYTES..NAME_BYTES + 4].copy_from_slice(&self.wanted.to_le_bytes());
        b[NAME_BYTES + 4] = self.lane;
        b[NAME_BYTES + 6..NAME_BYTES + 8].copy_from_slice(&self.credits.to_le_bytes());
        b[NAME_BYTES + 8] = b'?';
        Address::new(self.from.host(), &b)
    }

    /// Out of an address, which a peer made up.
    pub(crate) fn parse(mapping: Mapping, address: &Address) -> Option<Self> {
        let b: &[u8; NAME_BYTES + 9] = address.discriminator().try_into().ok()?;
        let (name, rest) = b.split_first_chunk()?;
        let [w0, w1, w2, w3, lane, 0, c0, c1, b'?'] = *rest else { return None };
        let credits = u16::from_le_bytes([c0, c1]);
        if credits == 0 {
            return None;
        }
        Some(Self { from: Name::from_bytes(mapping, name)?, wanted: u32::from_le_bytes([w0, w1, w2, w3]), lane, credits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_asks_survive_as_bytes() {
        let name = Name::new(Mapping::V3, &[127, 0, 0, 1], &[7; 16], 9);
        assert_eq!(Name::from_bytes(Mapping::V3, &name.to_bytes()), Some(name));
        assert_eq!(name.number(), 9);
        let ask = Ask { from: name, wanted: 3, lane: 2, credits: 8 };
        assert_eq!(Ask::parse(Mapping::V3, &ask.address()), Some(ask));
        assert_eq!(Ask::parse(Mapping::V3, &name.device_address()), None);
        // The first byte is the mapping.
        for at in [0, 1, 22, 44] {
            let mut bad = name.to_bytes();
            bad[at] ^= 0x55;
            assert_eq!(Name::from_bytes(Mapping::V3, &bad), None, "byte {at}");
        }
    }
}
