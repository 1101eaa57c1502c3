// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of endpoints: what a program passes around to be reached, copied by value.
//!
//! A name is the NIC's host address, the device's random id and the endpoint's number, which is never used again by that device. So a name whose process or endpoint is gone names
//! nothing else. Requests for connections carry both names in their address (`Ask`).

use bellwire_via::NetAddress;

const HOST_BYTES_MAX: usize = 18;
/// Tells requests for endpoints from other connections.
const ASK_MAGIC: [u8; 4] = *b"AM\x02\x01";
const ASK_BYTES: usize = 46;

/// Bytes of a [`Name`] as bytes.
pub const NAME_BYTES: usize = 48;

/// The name of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Name {
    pub(crate) host: [u8; HOST_BYTES_MAX],
    pub(crate) host_bytes: u8,
    pub(crate) device: [u8; 16],
    pub(crate) endpoint: u64,
}

impl Name {
    pub(crate) const NOBODY: Self = Self { host: [0; HOST_BYTES_MAX], host_bytes: 0, device: [0; 16], endpoint: 0 };

    pub(crate) fn new(host: &[u8], device: [u8; 16], endpoint: u64) -> Option<Self> {
        let mut name = Self { host: [0; HOST_BYTES_MAX], host_bytes: host.len() as u8, device, endpoint };
        name.host.get_mut(..host.len())?.copy_from_slice(host);
        Some(name)
    }

    /// As bytes, to be sent to others.
    pub fn to_bytes(&self) -> [u8; NAME_BYTES] {
        let mut b = [0; NAME_BYTES];
        b[0] = 1;
        b[1] = self.host_bytes;
        b[2..20].copy_from_slice(&self.host);
        b[24..40].copy_from_slice(&self.device);
        b[40..48].copy_from_slice(&self.endpoint.to_le_bytes());
        b
    }

    /// From bytes; `None` if they are no name.
    pub fn from_bytes(b: &[u8; NAME_BYTES]) -> Option<Self> {
        let host_bytes = b[1];
        if b[0] != 1 || usize::from(host_bytes) > HOST_BYTES_MAX || b[20..24] != [0; 4] {
            return None;
        }
        let mut name = Self { host: [0; HOST_BYTES_MAX], host_bytes, device: [0; 16], endpoint: 0 };
        name.host.copy_from_slice(&b[2..20]);
        name.device.copy_from_slice(&b[24..40]);
        name.endpoint = u64::from_le_bytes(b[40..48].try_into().ok()?);
        Some(name)
    }

    pub(crate) fn host(&self) -> &[u8] {
        &self.host[..usize::from(self.host_bytes)]
    }

    /// Where the device of this endpoint waits for connections.
    pub(crate) fn device_address(&self) -> Option<NetAddress> {
        NetAddress::new(self.host(), &device_discriminator(&self.device))
    }
}

pub(crate) fn device_discriminator(device: &[u8; 16]) -> [u8; 20] {
    let mut d = [0; 20];
    d[..4].copy_from_slice(&ASK_MAGIC);
    d[4..].copy_from_slice(device);
    d
}

/// What a request for a connection says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// The endpoint that asks.
    pub from: Name,
    /// Number of the endpoint asked for.
    pub wanted: u64,
    /// The tag that all requests of this connection carry.
    pub tag: u64,
}

impl Ask {
    pub(crate) fn address(&self) -> Option<NetAddress> {
        let mut d = [0; ASK_BYTES];
        d[..4].copy_from_slice(&ASK_MAGIC);
        d[4..12].copy_from_slice(&self.wanted.to_le_bytes());
        d[12..20].copy_from_slice(&self.tag.to_le_bytes());
        d[20..28].copy_from_slice(&self.from.endpoint.to_le_bytes());
        d[28..44].copy_from_slice(&self.from.device);
        NetAddress::new(self.from.host(), &d)
    }

    /// Out of an address, which a peer made up.
    pub(crate) fn parse(address: &NetAddress) -> Option<Self> {
        let d: &[u8; ASK_BYTES] = address.discriminator().try_into().ok()?;
        if d[..4] != ASK_MAGIC || d[44..] != [0, 0] {
            return None;
        }
        let word = |at: usize| Some(u64::from_le_bytes(d.get(at..at + 8)?.try_into().ok()?));
        let from = Name::new(address.host(), d[28..44].try_into().ok()?, word(20)?)?;
        Some(Self { from, wanted: word(4)?, tag: word(12)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_asks_survive_as_bytes() {
        let name = Name::new(&[127, 0, 0, 1], [7; 16], 9).unwrap();
        assert_eq!(Name::from_bytes(&name.to_bytes()), Some(name));
        let ask = Ask { from: name, wanted: 3, tag: u64::MAX - 1 };
        assert_eq!(Ask::parse(&ask.address().unwrap()), Some(ask));
        let mut bad = name.to_bytes();
        bad[1] = 19;
        assert_eq!(Name::from_bytes(&bad), None);
        assert_eq!(Ask::parse(&name.device_address().unwrap()), None);
    }
}
