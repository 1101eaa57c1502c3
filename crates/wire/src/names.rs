// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of addresses: what two wires' rendezvous hash addresses and discriminators to.

use crate::address::NetAddress;

/// A name for addresses in this order, told apart by a kind. It needs to be distinct, not secret.
pub(super) fn hash_of(addresses: &[&NetAddress]) -> u128 {
    let mut hash = Fnv::new();
    for a in addresses {
        for part in [a.host(), a.discriminator()] {
            hash.write(&[part.len() as u8]);
            hash.write(part);
        }
    }
    hash.0
}

/// FNV-1a with 128 bits.
struct Fnv(u128);

impl Fnv {
    fn new() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = (self.0 ^ u128::from(*b)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }
}
