// SPDX-License-Identifier: MIT OR Apache-2.0
//! The secrets that this host has in common with others, by their public keys. Anybody can ask a
//! directory from any address, so a Diffie-Hellman is computed once for each key that is believed,
//! not for each question.

use crate::x25519::{KEY_BYTES, common_secret};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use zeroize::Zeroizing;

/// They are computed when they are first asked for.
#[derive(Default)]
pub(crate) struct Commons(Mutex<BTreeMap<[u8; KEY_BYTES], Zeroizing<[u8; KEY_BYTES]>>>);

/// A clone computes its own.
impl Clone for Commons {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// They follow from the keys.
impl PartialEq for Commons {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Commons {}

impl Commons {
    /// With the host of a public key. Ask for keys that are believed alone: each is kept.
    pub(crate) fn of(&self, own: &[u8; KEY_BYTES], peer: &[u8; KEY_BYTES]) -> Option<Zeroizing<[u8; KEY_BYTES]>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(common) = known.get(peer) {
            return Some(common.clone());
        }
        let common = common_secret(own, peer)?;
        known.insert(*peer, common.clone());
        Some(common)
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.lock().map_or(0, |known| known.len())
    }
}
