// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Noise handshake: two messages, in HELLO and WELCOME, after which both ends have the same new
//! secrets, which nobody who learns the users' keys later can find again. Each message carries a
//! payload, encrypted: the party's description.
//!
//! | keys | pattern | the payload of the first message is secret from |
//! |---|---|---|
//! | one that all share | `NNpsk0` | all who do not have the key |
//! | hosts' own | `IK` | all but the responder |
//! | both | `IKpsk2` | all but the responder |

use crate::association::Secrets;
use crate::keys::{Keys, PublicKey};
use crate::pattern::TAG;
use crate::x25519::KEY_BYTES;
use core::fmt;
use core::net::IpAddr;
use rand_core::Rng;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};

/// Both ends mix it in, so that a message means nothing to another protocol or version.
const PROLOGUE: &[u8] = b"bellwire session 1";
/// Bytes that a first message is bound to.
pub const BOUND: usize = 16;

fn prologue(bound: &[u8; BOUND]) -> Vec<u8> {
    [PROLOGUE, bound].concat()
}

/// Why a message of a handshake is not followed. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeError {
    /// It was not made with the keys that we have.
    Key,
    /// We have no key of the host that it is for, or from.
    Unknown,
}

/// A handshake that we began.
pub struct Initiating(Box<HandshakeState>);

/// One that a peer began, which waits for our answer.
pub struct Answering(Box<HandshakeState>);

impl fmt::Debug for Initiating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Initiating(..)")
    }
}

impl fmt::Debug for Answering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answering(..)")
    }
}

/// The random bytes of one handshake: those of its ephemeral key.
struct Drawn([u8; KEY_BYTES]);

impl Random for Drawn {
    fn try_fill_bytes(&mut self, to: &mut [u8]) -> Result<(), snow::Error> {
        // One ephemeral key is all that a handshake draws; a second draw must not repeat the first.
        let from = core::mem::take(&mut self.0);
        if to.len() != KEY_BYTES || from == [0; KEY_BYTES] {
            return Err(snow::Error::Rng);
        }
        to.copy_from_slice(&from);
        Ok(())
    }
}

/// snow's own primitives, and the caller's randomness, so that a run can be repeated.
struct Resolver([u8; KEY_BYTES]);

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Drawn(self.0)))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

impl Keys {
    /// `prologue`: what both ends must agree on.
    fn builder<'a>(&'a self, random: &mut impl Rng, prologue: &'a [u8]) -> Result<Builder<'a>, snow::Error> {
        let mut drawn = [0; KEY_BYTES];
        random.fill_bytes(&mut drawn);
        let pattern = self.pattern();
        let mut builder = Builder::with_resolver(pattern.name().parse()?, Box::new(Resolver(drawn))).prologue(prologue)?;
        if let Some(shared) = &self.shared {
            builder = builder.psk(pattern.place_of_shared(), shared)?;
        }
        match &self.own {
            Some(own) => builder.local_private_key(&own.0.0),
            None => Ok(builder),
        }
    }

    /// Begins a handshake with the host at an address: writes the first message. It is good only
    /// with `bound`, which travels beside it: a replay elsewhere or later is refused.
    ///
    /// # Errors
    /// [`HandshakeError::Unknown`]: there is no key of that host.
    //= P-AUTH-2
    pub fn begin(&self, random: &mut impl Rng, to: IpAddr, bound: &[u8; BOUND], payload: &[u8], message: &mut [u8]) -> Result<Initiating, HandshakeError> {
        let prologue = prologue(bound);
        let mut builder = self.builder(random, &prologue).map_err(|_| HandshakeError::Key)?;
        let peer;
        if self.own.is_some() {
            peer = self.key_of(to).ok_or(HandshakeError::Unknown)?;
            builder = builder.remote_public_key(&peer.0).map_err(|_| HandshakeError::Unknown)?;
        }
        let mut state = builder.build_initiator().map_err(|_| HandshakeError::Key)?;
        let length = state.write_message(payload, message).map_err(|_| HandshakeError::Key)?;
        debug_assert_eq!(length, self.pattern().first_bytes(payload.len()));
        Ok(Initiating(Box::new(state)))
    }

    /// Reads the first message of a host at an address, and its payload.
    ///
    /// # Errors
    /// [`HandshakeError::Key`]: it was made with another key; [`HandshakeError::Unknown`]: with one
    /// that is not believed there.
    //= P-AUTH-2
    pub fn answer(&self, random: &mut impl Rng, from: IpAddr, bound: &[u8; BOUND], message: &[u8], payload: &mut [u8]) -> Result<Answering, HandshakeError> {
        let prologue = prologue(bound);
        let mut state = self.builder(random, &prologue).and_then(Builder::build_responder).map_err(|_| HandshakeError::Key)?;
        if message.len() != self.pattern().first_bytes(payload.len()) {
            return Err(HandshakeError::Key);
        }
        state.read_message(message, payload).map_err(|_| HandshakeError::Key)?;
        if self.own.is_some() {
            let proved = state.get_remote_static().and_then(|key| key.try_into().ok()).map(PublicKey);
            if !proved.is_some_and(|key| self.believes(from, &key)) {
                return Err(HandshakeError::Unknown);
            }
        }
        Ok(Answering(Box::new(state)))
    }
}

impl Answering {
    /// Writes the second message. What the two ends have in common then.
    ///
    /// # Errors
    /// [`HandshakeError::Key`]: the public key in the peer's message is not a point of the curve.
    pub fn finish(mut self, payload: &[u8], message: &mut [u8]) -> Result<Secrets, HandshakeError> {
        self.0.write_message(payload, message).map_err(|_| HandshakeError::Key)?;
        let (to_responder, to_initiator) = self.0.dangerously_get_raw_split();
        Ok(Secrets::chosen(to_initiator, to_responder))
    }
}

impl Initiating {
    /// Reads the second message and its payload. A message that is not the peer's changes nothing:
    /// the true one may still come.
    ///
    /// # Errors
    /// [`HandshakeError::Key`].
    pub fn finish(&mut self, message: &[u8], payload: &mut [u8]) -> Result<Secrets, HandshakeError> {
        if message.len() != KEY_BYTES + payload.len() + TAG {
            return Err(HandshakeError::Key);
        }
        self.0.read_message(message, payload).map_err(|_| HandshakeError::Key)?;
        let (to_responder, to_initiator) = self.0.dangerously_get_raw_split();
        Ok(Secrets::chosen(to_responder, to_initiator))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{Host, SecretKey};
    use rand_core::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    const PAYLOAD: usize = 72;
    const BOUND_TO: [u8; BOUND] = [3; BOUND];

    fn host(which: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, which])
    }

    fn secret(which: u8) -> SecretKey {
        SecretKey::new([which + 1; 32])
    }

    /// A host that believes each host of `peers` at its address.
    fn keys(own: u8, peers: &[u8]) -> Keys {
        Keys::of_host(secret(own), peers.iter().map(|p| Host { address: Some(host(*p)), key: secret(*p).public() }).collect())
    }

    /// The secrets of both ends, or why not.
    fn shake(a: &Keys, b: &Keys, bent: impl Fn(usize, &mut [u8])) -> Result<(Secrets, Secrets), HandshakeError> {
        let mut rng = Pcg64Mcg::seed_from_u64(9);
        let (mut first, mut second) = ([0; 256], [0; 256]);
        let mut begun = a.begin(&mut rng, host(2), &BOUND_TO, &[5; PAYLOAD], &mut first)?;
        let first = &mut first[..a.pattern().first_bytes(PAYLOAD)];
        assert!(!first.windows(8).any(|w| w == [5; 8]), "the payload is not to be read");
        bent(0, first);
        let mut payload = [0; PAYLOAD];
        let answering = {
            assert!(b.answer(&mut rng, host(1), &[4; BOUND], first, &mut payload).is_err(), "bound to something else");
            b.answer(&mut rng, host(1), &BOUND_TO, first, &mut payload)?
        };
        assert_eq!(payload, [5; PAYLOAD]);
        let of_responder = answering.finish(&[6; PAYLOAD], &mut second)?;
        let second = &mut second[..b.pattern().second_bytes(PAYLOAD)];
        // A forged answer before the true one.
        let mut forged = second.to_vec();
        forged[40] ^= 1;
        assert!(begun.finish(&forged, &mut payload).is_err());
        forged.copy_from_slice(second);
        forged[3] ^= 1;
        assert!(begun.finish(&forged, &mut payload).is_err());
        bent(1, second);
        let of_initiator = begun.finish(second, &mut payload)?;
        assert_eq!(payload, [6; PAYLOAD]);
        Ok((of_initiator, of_responder))
    }

    #[test]
    fn both_ends_have_the_same_secrets_with_each_kind_of_key() {
        //= P-AUTH-2
        for (a, b) in [
            (Keys::shared([7; 32]), Keys::shared([7; 32])),
            (keys(1, &[2]), keys(2, &[1])),
            (keys(1, &[2]).and_shared([9; 32]), keys(2, &[1]).and_shared([9; 32])),
        ] {
            let (x, y) = shake(&a, &b, |_, _| {}).unwrap();
            assert!(x.send == y.receive && x.receive == y.send && x.send != x.receive);
            let other = {
                let mut rng = Pcg64Mcg::seed_from_u64(10);
                let (mut first, mut payload) = ([0; 256], [0; PAYLOAD]);
                a.begin(&mut rng, host(2), &BOUND_TO, &payload.clone(), &mut first).unwrap();
                let n = a.pattern().first_bytes(PAYLOAD);
                let mut second = [0; 256];
                b.answer(&mut rng, host(1), &BOUND_TO, &first[..n], &mut payload).unwrap().finish(&payload, &mut second).unwrap()
            };
            assert!(other.send != y.send, "a session has keys of its own");
        }
    }

    #[test]
    fn another_key_and_each_flipped_bit_are_refused() {
        //= P-AUTH-2
        let right = Keys::shared([7; 32]);
        assert_eq!(shake(&right, &Keys::shared([8; 32]), |_, _| {}).err(), Some(HandshakeError::Key));
        assert_eq!(shake(&keys(1, &[2]), &keys(3, &[1]), |_, _| {}).err(), Some(HandshakeError::Key), "another host answers at the address");
        assert_eq!(shake(&keys(1, &[2]), &keys(2, &[3]), |_, _| {}).err(), Some(HandshakeError::Unknown), "a host that is not believed");
        let elsewhere = Keys::of_host(secret(2), vec![Host { address: Some(host(9)), key: secret(1).public() }]);
        assert_eq!(shake(&keys(1, &[2]), &elsewhere, |_, _| {}).err(), Some(HandshakeError::Unknown), "a host at another's address");
        assert_eq!(shake(&right, &keys(2, &[1]), |_, _| {}).err(), Some(HandshakeError::Key));
        let mut both = keys(1, &[2]).and_shared([9; 32]);
        assert!(shake(&both, &keys(2, &[1]).and_shared([8; 32]), |_, _| {}).is_err());
        both.hosts.clear();
        assert_eq!(both.key_of(host(2)), both.public(), "nobody else is known");
        for message in 0..2 {
            for byte in 0..right.pattern().first_bytes(PAYLOAD) {
                let bent = |which: usize, bytes: &mut [u8]| bytes[byte] ^= u8::from(which == message) << (byte % 8);
                // The unused bit of a point on the curve is not looked at by X25519, but by the
                // hash.
                assert!(shake(&right, &right, bent).is_err(), "message {message}, byte {byte}");
            }
        }
    }
}
