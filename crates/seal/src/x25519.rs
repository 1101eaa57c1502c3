// SPDX-License-Identifier: MIT OR Apache-2.0
//! Curve25519, as snow has it.

use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::Dh;
use zeroize::Zeroizing;

/// Bytes of a key that all share, of a host's secret key, and of its public key.
pub(crate) const KEY_BYTES: usize = 32;

fn x25519(secret: &[u8; KEY_BYTES]) -> Box<dyn Dh> {
    let Some(mut dh) = DefaultResolver.resolve_dh(&DHChoice::Curve25519) else { unreachable!("snow is built with X25519") };
    dh.set(secret);
    dh
}

/// The public key of a secret one.
pub(crate) fn public_of(secret: &[u8; KEY_BYTES]) -> [u8; KEY_BYTES] {
    let mut public = [0; KEY_BYTES];
    public.copy_from_slice(x25519(secret).pubkey());
    public
}

/// The secret that two hosts have in common without a handshake.
pub(crate) fn common_secret(own: &[u8; KEY_BYTES], peer: &[u8; KEY_BYTES]) -> Option<Zeroizing<[u8; KEY_BYTES]>> {
    let mut common = Zeroizing::new([0; KEY_BYTES]);
    x25519(own).dh(peer, &mut *common).ok()?;
    (*common != [0; KEY_BYTES]).then_some(common)
}
