// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of endpoints: what a program passes around to be reached, copied by value.
//!
//! A name is the NIC's host address, the device's random id and the endpoint's number, which is
//! never used again by that device. So a name whose process or endpoint is gone names nothing else.
//! Requests for connections carry both names in their address (`Ask`).

use bellwire_peer::{Host, Kind};
use bellwire_via::NetAddress;
use bellwire_via::handle::Handle;

/// Requests for endpoints, and where devices wait for them.
const ASK: Kind = Kind(*b"AM\x02\x02");

/// Bytes of a [`Name`] as bytes.
pub const NAME_BYTES: usize = 48;

/// What an [`EndpointId`] names.
#[derive(Debug)]
pub enum EndpointMark {}

/// Names an endpoint in its bundle.
pub type EndpointId = Handle<EndpointMark>;

/// The name of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Name {
    host: Host,
    pub(crate) device: [u8; 16],
    pub(crate) endpoint: u64,
}

impl Name {
    pub(crate) const NOBODY: Self = Self { host: Host::NONE, device: [0; 16], endpoint: 0 };

    pub(crate) fn new(host: &[u8], device: [u8; 16], endpoint: u64) -> Option<Self> {
        Some(Self { host: Host::new(host)?, device, endpoint })
    }

    /// As bytes, to be sent to others.
    pub fn to_bytes(&self) -> [u8; NAME_BYTES] {
        let mut b = [0; NAME_BYTES];
        b[0] = 1;
        b[1..20].copy_from_slice(&self.host.to_bytes());
        b[24..40].copy_from_slice(&self.device);
        b[40..].copy_from_slice(&self.endpoint.to_le_bytes());
        b
    }

    /// From bytes; `None` if they are no name.
    pub fn from_bytes(b: &[u8; NAME_BYTES]) -> Option<Self> {
        let name = Self { host: Host::from_bytes(&b[1..20])?, device: b[24..40].try_into().ok()?, endpoint: u64::from_le_bytes(b[40..].try_into().ok()?) };
        (b[0] == 1 && b[20..24] == [0; 4]).then_some(name)
    }

    /// Where the device of this endpoint waits for connections.
    pub(crate) fn device_address(&self) -> Option<NetAddress> {
        device_address(self.host.as_bytes(), &self.device)
    }
}

/// Where a device of a host waits for connections.
pub(crate) fn device_address(host: &[u8], device: &[u8; 16]) -> Option<NetAddress> {
    ASK.address(host, &[device])
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
        let Self { from, wanted, tag } = self;
        let words = [*wanted, *tag, from.endpoint].map(u64::to_le_bytes);
        ASK.address(from.host.as_bytes(), &[words.as_flattened(), &from.device, &[0, 0]])
    }

    /// Out of an address, which a peer made up.
    pub(crate) fn parse(address: &NetAddress) -> Option<Self> {
        let (words, rest) = ASK.id_of::<42>(address)?.split_first_chunk::<24>()?;
        let ([wanted, tag, endpoint], _) = words.as_chunks::<8>().0.split_first_chunk::<3>()?;
        let [wanted, tag, endpoint] = [wanted, tag, endpoint].map(|word| u64::from_le_bytes(*word));
        let (device, padding) = rest.split_first_chunk()?;
        (padding == [0, 0]).then_some(Self { from: Name::new(address.host(), *device, endpoint)?, wanted, tag })
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
