// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of processes: a GID and the number of a queue pair lead to a process.
//!
//! A process takes a *place* of its host, a number from 1 to 2047, by waiting for connections under
//! it, which only one process of a host can. The number of a queue pair is its place and an index:
//! so a program that has been told a GID and a number, by whatever way, can ask for a connection,
//! and nothing else need be published.

use crate::types::Gid;
use bellwire_cm::Service;
use bellwire_peer::Kind;
use bellwire_via::NetAddress;

/// Bits of a queue pair's number that are its index.
pub(crate) const INDEX_BITS: u32 = 13;
/// Queue pairs of a process.
pub(crate) const QPS_MAX: usize = 1 << INDEX_BITS;
/// Places of a host: the rest of the 24 bits; place 0 would give the numbers 0 and 1, which have a
/// meaning.
pub(crate) const PLACES: u16 = 1 << (24 - INDEX_BITS);

/// The address at which a process waits, and the one with which it asks; the same for services of
/// connection management.
const WAITS: Kind = Kind(*b"VB\x01W");
const ASKS: Kind = Kind(*b"VB\x01A");
const SERVICE: Kind = Kind(*b"VB\x01S");
const ASKS_SERVICE: Kind = Kind(*b"VB\x01C");

/// A process with a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    pub gid: Gid,
    pub place: u16,
}

impl Name {
    /// The process that a queue pair is of.
    pub(crate) fn of(gid: Gid, qp: u32) -> Self {
        Self { gid, place: (qp >> INDEX_BITS) as u16 & (PLACES - 1) }
    }

    /// The number of its queue pair with that index.
    pub(crate) fn number(&self, index: usize) -> u32 {
        u32::from(self.place) << INDEX_BITS | index as u32
    }

    fn address(&self, kind: Kind) -> Option<NetAddress> {
        kind.address(host_of(&self.gid), &[&self.place.to_be_bytes()])
    }

    pub(crate) fn waits_at(&self) -> Option<NetAddress> {
        self.address(WAITS)
    }

    pub(crate) fn asks_as(&self) -> Option<NetAddress> {
        self.address(ASKS)
    }

    pub(crate) fn asks_service_as(&self) -> Option<NetAddress> {
        self.address(ASKS_SERVICE)
    }

    /// The process that asks, by an address that a peer made up.
    pub(crate) fn who_asks(address: &NetAddress) -> Option<Self> {
        let place = u16::from_be_bytes(*ASKS.id_of(address)?);
        Some(Self { gid: gid_of(address.host())?, place }).filter(|n| n.place != 0 && n.place < PLACES)
    }
}

/// Where the process waits that has a service of a host.
pub(crate) fn service_address(host: &Gid, service: Service) -> Option<NetAddress> {
    SERVICE.address(host_of(host), &[&(service.space as u16).to_be_bytes(), &service.port.to_be_bytes()])
}

/// The host of a process that asks for a service, out of an address that a peer made up.
pub(crate) fn asks_for_service(address: &NetAddress) -> Option<Gid> {
    ASKS_SERVICE.id_of::<2>(address)?;
    gid_of(address.host())
}

const V4: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// The GID of a host address: IPv4 addresses as IPv6 has them. `None`: it is neither, or has a
/// port, for which a GID has no room.
pub fn gid_of(host: &[u8]) -> Option<Gid> {
    match host.len() {
        4 => {
            let mut gid = [0; 16];
            gid[..12].copy_from_slice(&V4);
            gid[12..].copy_from_slice(host);
            Some(gid)
        }
        _ => host.try_into().ok(),
    }
}

pub(crate) fn host_of(gid: &Gid) -> &[u8] {
    gid.strip_prefix(&V4).unwrap_or(gid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive() {
        for host in [&[10, 0, 0, 7][..], &[0xfd; 16]] {
            let gid = gid_of(host).unwrap();
            assert_eq!(host_of(&gid), host);
            let name = Name::of(gid, 5 << INDEX_BITS | 17);
            assert_eq!(name.place, 5);
            assert_eq!(Name::who_asks(&name.asks_as().unwrap()), Some(name));
            assert_eq!(Name::who_asks(&name.waits_at().unwrap()), None);
        }
        assert_eq!(gid_of(&[1, 2, 3, 4, 5, 6]), None);
    }
}
