// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of processes: where they wait for one another, and what they ask as.

use bellwire_peer::{Host, Kind};
use bellwire_via::NetAddress;

/// The addresses at which processes wait, and those with which they ask.
const WAITING: Kind = Kind(*b"GA\x01W");
const ASKING: Kind = Kind(*b"GA\x01A");

/// Where a process is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Name {
    host: Host,
    pub(super) id: [u8; 16],
}

impl Name {
    pub(super) fn new(host: &[u8], id: [u8; 16]) -> Option<Self> {
        Some(Self { host: Host::new(host)?, id })
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        [self.id.as_slice(), &self.host.to_bytes()].concat()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (id, host) = bytes.split_first_chunk()?;
        Some(Self { host: Host::from_bytes(host).filter(|host| *host != Host::NONE)?, id: *id })
    }

    /// Where it waits.
    pub(super) fn waits_at(&self) -> Option<NetAddress> {
        WAITING.address(self.host.as_bytes(), &[&self.id])
    }

    /// The address with which process `rank` asks.
    pub(super) fn asks_as(&self, rank: u32) -> Option<NetAddress> {
        ASKING.address(self.host.as_bytes(), &[&rank.to_le_bytes(), &self.id])
    }
}

/// The process that asks, out of an address that a peer made up: its number, and the id that it
/// shows.
pub(super) fn who_asks(address: &NetAddress) -> Option<(u32, [u8; 16])> {
    let (rank, id) = ASKING.id_of::<20>(address)?.split_first_chunk()?;
    Some((u32::from_le_bytes(*rank), id.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_as_bytes_and_in_requests() {
        let name = Name::new(&[127, 0, 0, 1], [7; 16]).unwrap();
        assert_eq!(Name::from_bytes(&name.to_bytes()), Some(name));
        assert_eq!(Name::from_bytes(&[0; 16]), None);
        assert_eq!(Name::from_bytes(&[0; 35]), None);
        assert_eq!(who_asks(&name.asks_as(9).unwrap()), Some((9, [7; 16])));
        assert_eq!(who_asks(&name.waits_at().unwrap()), None);
    }
}
