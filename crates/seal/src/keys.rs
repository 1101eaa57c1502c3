// SPDX-License-Identifier: MIT OR Apache-2.0
//! The keys that a user gives to a NIC.

use crate::commons::Commons;
use crate::pattern::Pattern;
use crate::x25519::{self, KEY_BYTES};
use core::fmt;
use core::net::IpAddr;
use zeroize::{Zeroize as _, Zeroizing};

/// A host's secret key (X25519).
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey(pub(crate) [u8; KEY_BYTES]);

/// A host's public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub(crate) [u8; KEY_BYTES]);

/// Where a public key is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// The address that its packets come from; `None`: any.
    pub address: Option<IpAddr>,
    /// Its key.
    pub key: PublicKey,
}

/// What a NIC proves itself with, and whom it believes. Both ends of a session need the same kind.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    pub(crate) shared: Option<Zeroizing<[u8; KEY_BYTES]>>,
    pub(crate) own: Option<(SecretKey, PublicKey)>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) commons: Commons,
}

impl SecretKey {
    /// From 32 random bytes.
    pub const fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// The key that others may know.
    pub fn public(&self) -> PublicKey {
        PublicKey(x25519::public_of(&self.0))
    }

    /// As it stands in a key file: 64 hexadecimal digits. Nobody else may see them.
    pub fn to_hex(&self) -> String {
        hex(&self.0)
    }
}

impl Drop for SecretKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl PublicKey {
    /// From its 32 bytes.
    pub const fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Says nothing of the bytes.
impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(..)")
    }
}

/// Says nothing of the secret ones.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({:?}, {} hosts)", self.pattern(), self.hosts.len())
    }
}

impl Keys {
    /// One key that all have: each holder of it belongs to them.
    pub fn shared(key: [u8; KEY_BYTES]) -> Self {
        Self { shared: Some(Zeroizing::new(key)), own: None, hosts: Vec::new(), commons: Commons::default() }
    }

    /// A key of this host's own, and the public keys of those that are believed.
    pub fn of_host(own: SecretKey, hosts: Vec<Host>) -> Self {
        let public = own.public();
        Self { shared: None, own: Some((own, public)), hosts, commons: Commons::default() }
    }

    /// Both: peers must have the shared key as well as one of the hosts' keys.
    #[must_use]
    pub fn and_shared(mut self, key: [u8; KEY_BYTES]) -> Self {
        self.shared = Some(Zeroizing::new(key));
        self
    }

    /// The handshake that goes with them.
    pub const fn pattern(&self) -> Pattern {
        match (&self.shared, &self.own) {
            (_, None) => Pattern::Shared,
            (None, Some(_)) => Pattern::Hosts,
            (Some(_), Some(_)) => Pattern::Both,
        }
    }

    /// This host's public key, if it has one.
    pub fn public(&self) -> Option<PublicKey> {
        self.own.as_ref().map(|own| own.1)
    }

    /// Whom it believes, beside itself.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The key that the host at an address has to prove: the one of its line, else that of a line
    /// for any address, else our own, as for another process of this host.
    pub(crate) fn key_of(&self, at: IpAddr) -> Option<PublicKey> {
        let at = at.to_canonical();
        let exact = self.hosts.iter().find(|h| h.address == Some(at));
        exact.or_else(|| self.hosts.iter().find(|h| h.address.is_none())).map(|h| h.key).or(self.public())
    }

    /// Whether somebody at an address may prove that key.
    pub(crate) fn believes(&self, at: IpAddr, key: &PublicKey) -> bool {
        let at = at.to_canonical();
        self.public() == Some(*key) || self.hosts.iter().any(|h| h.key == *key && h.address.is_none_or(|address| address == at))
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
