// SPDX-License-Identifier: MIT OR Apache-2.0
//! Authentication and encryption of packets between NICs, without I/O, clock or thread.
//!
//! | what | where |
//! |---|---|
//! | the keys that a user gives: one that all share, or one for each host | `keys.rs`, `text.rs` |
//! | agreeing on the keys of a session: a Noise handshake of two messages | `handshake.rs`, `pattern.rs`, `x25519.rs` |
//! | sealing and opening the packets of a session; key update; replays | `association.rs`, `replay.rs` |
//! | single datagrams outside of sessions: questions to a directory, multicast | `datagram.rs`, `commons.rs` |
//!
//! The ciphers are ring's, the handshake is snow's; nothing here invents cryptography. The rules
//! are P-AUTH-1 and following in docs/PROTOCOL.md, and `//= P-...` cites them. `bellwire-proto`
//! says which packets are sealed, and when.
//!
//! Invariants
//! - S1: a key and a counter seal one packet in all time: the counter only grows, under an
//!   exclusive reference, and a key is used in one direction of one session.
//! - S2: nothing of a packet is believed, and no state changes, before its tag has been checked.
//! - S3: secrets of ours are overwritten when they are dropped, and none is kept longer than it is
//!   needed: the key in use does not follow from what is kept of the one before.

#![forbid(unsafe_code)]

mod association;
mod commons;
mod datagram;
mod handshake;
mod keys;
mod pattern;
mod replay;
mod text;
mod x25519;

pub use association::{Association, Cipher, KEY_BYTES_MAX, Limits, OpenError, Secrets, TRAILER};
pub use datagram::{DATAGRAM_OVERHEAD, Purpose};
pub use handshake::{Answering, BOUND, HandshakeError, Initiating};
pub use keys::{Host, Keys, PublicKey, SecretKey};
pub use pattern::Pattern;
pub use text::KeyError;
