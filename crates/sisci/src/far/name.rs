// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of objects as addresses of the engine: where their owners wait, and what users ask as.

use bellwire_peer::Kind;
use bellwire_via::NetAddress;

/// The addresses at which owners wait, and those with which users ask.
const WAITING: Kind = Kind(*b"SI\x01W");
const ASKING: Kind = Kind(*b"SI\x01A");

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum What {
    /// A segment.
    Segment = 1,
    /// An interrupt.
    Interrupt = 2,
    /// A data interrupt.
    DataInterrupt = 3,
    /// A process of a node, to be seen by others.
    Process = 4,
}

/// An object of a node. Of what may be there several times, each has a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub what: What,
    pub node: u32,
    pub id: u32,
    pub slot: u32,
}

impl Name {
    /// Where its owner waits, on a host.
    pub fn at(self, host: &[u8]) -> Option<NetAddress> {
        WAITING.address(host, &[&[self.what as u8], &self.node.to_le_bytes(), &self.id.to_le_bytes(), &self.slot.to_le_bytes()])
    }
}

/// What a user of a node asks as; `number` tells its connections apart.
pub(crate) fn asks_as(host: &[u8], node: u32, number: u64) -> Option<NetAddress> {
    ASKING.address(host, &[&node.to_le_bytes(), &number.to_le_bytes()])
}

/// The node of a user, out of an address that the user made up.
pub(crate) fn who_asks(address: &NetAddress) -> Option<u32> {
    let (node, _) = ASKING.id_of::<12>(address)?.split_first_chunk()?;
    Some(u32::from_le_bytes(*node))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_say_their_node_and_owners_do_not_ask() {
        let host = [10, 0, 0, 7];
        assert_eq!(who_asks(&asks_as(&host, 70_000, u64::MAX).unwrap()), Some(70_000));
        let name = Name { what: What::Segment, node: 4, id: 9, slot: 0 };
        assert_eq!(who_asks(&name.at(&host).unwrap()), None);
        assert_ne!(name.at(&host), Name { what: What::Interrupt, ..name }.at(&host));
        assert_ne!(name.at(&host), Name { slot: 1, ..name }.at(&host));
    }
}
