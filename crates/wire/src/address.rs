// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses: where NICs are, and what they are asked for there.

/// Longest discriminator in bytes.
pub const DISCRIMINATOR_BYTES_MAX: usize = 64;
/// Longest host address in bytes (IPv6, and a port).
pub const HOST_ADDRESS_BYTES_MAX: usize = 18;

/// A NIC's host address and a discriminator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NetAddress {
    host_len: u8,
    discriminator_len: u8,
    host: [u8; HOST_ADDRESS_BYTES_MAX],
    discriminator: [u8; DISCRIMINATOR_BYTES_MAX],
}

/// A host address without its port, if it has one: the bytes of the IP address.
pub fn without_port(host: &[u8]) -> &[u8] {
    &host[..host.len() - if matches!(host.len(), 6 | 18) { 2 } else { 0 }]
}

impl NetAddress {
    /// An address; `None` if a part is too long.
    pub fn new(host: &[u8], discriminator: &[u8]) -> Option<Self> {
        if host.len() > HOST_ADDRESS_BYTES_MAX || discriminator.len() > DISCRIMINATOR_BYTES_MAX {
            return None;
        }
        let mut a = Self {
            host_len: host.len() as u8,
            discriminator_len: discriminator.len() as u8,
            host: [0; HOST_ADDRESS_BYTES_MAX],
            discriminator: [0; DISCRIMINATOR_BYTES_MAX],
        };
        a.host[..host.len()].copy_from_slice(host);
        a.discriminator[..discriminator.len()].copy_from_slice(discriminator);
        Some(a)
    }

    /// The host part.
    pub fn host(&self) -> &[u8] {
        &self.host[..self.host_len as usize]
    }

    /// The discriminator.
    pub fn discriminator(&self) -> &[u8] {
        &self.discriminator[..self.discriminator_len as usize]
    }
}

impl core::fmt::Debug for NetAddress {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for (i, b) in self.host().iter().enumerate() {
            write!(f, "{}{b}", if i == 0 { "" } else { "." })?;
        }
        f.write_str("/")?;
        for b in self.discriminator() {
            write!(f, "{b:02x}")?;
        }
        Ok(())
    }
}
