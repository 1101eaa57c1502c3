// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of nodes, peers and calls.

use crate::error::Error;
use crate::wire::CallId;
use bellwire_am::{NAME_BYTES, Name};

/// Bytes of an [`Address`] as bytes.
pub const ADDRESS_BYTES: usize = NAME_BYTES + 8;

/// Where a node is reached: to be given to those who may call it. Nobody else can: it has a secret
/// number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    pub(crate) name: Name,
    pub(crate) tag: u64,
}

impl Address {
    /// As bytes, to be sent to others.
    pub fn to_bytes(&self) -> [u8; ADDRESS_BYTES] {
        let mut bytes = [0; ADDRESS_BYTES];
        bytes[..NAME_BYTES].copy_from_slice(&self.name.to_bytes());
        bytes[NAME_BYTES..].copy_from_slice(&self.tag.to_le_bytes());
        bytes
    }

    /// From bytes.
    ///
    /// # Errors
    /// [`Error::BadAddress`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let bytes: &[u8; ADDRESS_BYTES] = bytes.try_into().map_err(|_| Error::BadAddress)?;
        let (name, tag) = bytes.split_first_chunk::<NAME_BYTES>().ok_or(Error::BadAddress)?;
        let tag = u64::from_le_bytes(tag.try_into().map_err(|_| Error::BadAddress)?);
        Ok(Self { name: Name::from_bytes(name).ok_or(Error::BadAddress)?, tag })
    }
}

/// A node that this one calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl Peer {
    /// As a number, for interfaces that have no other types.
    pub fn to_bits(self) -> u64 {
        u64::from(self.index) | u64::from(self.generation) << 32
    }

    /// And back; of any number, for what is no peer is found out when it is used.
    pub fn from_bits(bits: u64) -> Self {
        Self { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// Names a call without types. [`Node::take`](crate::Node::take) gives its outcome. Its holder
/// gives it up in the end, by that or by [`Node::abandon`](crate::Node::abandon); else its place
/// stays taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outstanding(pub(crate) CallId);

impl Outstanding {
    /// As a number, for interfaces that have no other types.
    pub fn to_bits(self) -> u64 {
        u64::from(self.0.index) | u64::from(self.0.generation) << 32
    }

    /// And back; of any number, for what is no call is found out when it is used.
    pub fn from_bits(bits: u64) -> Self {
        Self(CallId { index: bits as u32, generation: (bits >> 32) as u32 })
    }
}
