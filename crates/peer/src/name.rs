// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names: a host address and an id, and the addresses of the engine that are made of them.
//!
//! A process waits for connections under one kind of address and asks for them with another. The
//! kind is the first four bytes of the discriminator. It tells the layers apart, and a layer's
//! connections from those of programs.

use bellwire_via::NetAddress;
use bellwire_via::attributes::HOST_ADDRESS_BYTES_MAX;

/// A host address, by value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Host {
    bytes: [u8; HOST_ADDRESS_BYTES_MAX],
    length: u8,
}

impl Host {
    /// Bytes of a host address as [`to_bytes`](Self::to_bytes) writes it.
    pub const BYTES: usize = 1 + HOST_ADDRESS_BYTES_MAX;
    /// No host.
    pub const NONE: Self = Self { bytes: [0; HOST_ADDRESS_BYTES_MAX], length: 0 };

    /// A host address; `None` if it is too long.
    pub fn new(host: &[u8]) -> Option<Self> {
        let mut new = Self { length: u8::try_from(host.len()).ok()?, ..Self::NONE };
        new.bytes.get_mut(..host.len())?.copy_from_slice(host);
        Some(new)
    }

    /// The address.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// The length, then the address, padded with zeros.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [self.length; Self::BYTES];
        bytes[1..].copy_from_slice(&self.bytes);
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote; `None` for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (length, bytes) = <&[u8; Self::BYTES]>::try_from(bytes).ok()?.split_first()?;
        let (host, padding) = bytes.split_at_checked(usize::from(*length))?;
        if padding.iter().any(|byte| *byte != 0) { None } else { Self::new(host) }
    }
}

/// How the discriminators of one kind of address begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind(pub [u8; 4]);

impl Kind {
    /// The address of this kind at `host`, with the parts of its id one after the other; `None` if
    /// they are too long.
    pub fn address(self, host: &[u8], id: &[&[u8]]) -> Option<NetAddress> {
        NetAddress::new(host, &[&self.0, id.concat().as_slice()].concat())
    }

    /// The id in an address that a peer made up; `None` if it has another kind or length.
    pub fn id_of<const BYTES: usize>(self, address: &NetAddress) -> Option<&[u8; BYTES]> {
        address.discriminator().strip_prefix(&self.0)?.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ids_survive() {
        for host in [&[][..], &[10, 0, 0, 7], &[0xfd; HOST_ADDRESS_BYTES_MAX]] {
            let new = Host::new(host).unwrap();
            assert_eq!((new.as_bytes(), Host::from_bytes(&new.to_bytes())), (host, Some(new)));
        }
        assert_eq!(Host::new(&[1; HOST_ADDRESS_BYTES_MAX + 1]), None);
        let mut bytes = Host::new(&[1, 2, 3]).unwrap().to_bytes();
        for (at, value) in [(0, 2), (0, HOST_ADDRESS_BYTES_MAX as u8 + 1), (0, 255), (4, 1)] {
            let before = core::mem::replace(&mut bytes[at], value);
            assert_eq!(Host::from_bytes(&bytes), None, "byte {at} is {value}");
            bytes[at] = before;
        }
        assert_eq!((Host::from_bytes(&bytes[..3]), Host::from_bytes(&[])), (None, None));
        let (kind, other) = (Kind(*b"AB\x01W"), Kind(*b"AB\x01A"));
        let address = kind.address(&[10, 0, 0, 7], &[&[1, 2], &[3]]).unwrap();
        assert_eq!((kind.id_of(&address), kind.id_of::<2>(&address), other.id_of::<3>(&address)), (Some(&[1, 2, 3]), None, None));
        assert_eq!(kind.address(&[10, 0, 0, 7], &[&[0; 200]]), None);
    }
}
