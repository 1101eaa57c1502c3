// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reliable transport between two NICs, under every wire that can lose, duplicate or reorder
//! packets.
//!
//! A [`Transport`] is a state machine: no socket, clock or thread. It is told the time and given
//! the packets that arrived; it gives packets to be sent, deliveries, events and the time at which
//! it wants to be called again. All randomness comes from one seed. So the same code runs under UDP
//! and in virtual time.
//!
//! It carries *frames* (a head of 1 to 8 words, and a payload) over a *session* (one per pair of
//! NICs), each frame on a *stream* (a number that the sender gives; 0 for control). Frames arrive
//! exactly once, in order within a stream; frames of different streams do not wait for each other.
//! A frame whose arrival cannot be shown returns to its sender when the session goes down. The
//! transport knows nothing of descriptors and VIs.
//!
//! The protocol, byte for byte and rule by rule, is docs/PROTOCOL.md; `//= P-...` in the sources
//! cites its requirements.
//!
//! | what | where |
//! |---|---|
//! | packets | `packet/` |
//! | dispatch | `transport.rs`, `transport/` (in, out); `session.rs`, `session/` (in, out) |
//! | making sessions | `handshake.rs`, `opening.rs`, `cookie.rs`, `places.rs`; `auth.rs` with keys |
//! | authenticated packets | `packet/auth.rs`, `transport/sealed.rs`; below: `bellwire-seal` |
//! | sending | `tx_ring.rs` (bytes), `tx_window.rs` (packets written), `tx_window/leave.rs` (packets out), `tx_window/joining.rs`, `tx_acks.rs`, `tx_window/losses.rs`, `return_to_sender.rs`, `recall.rs` |
//! | stop-and-wait channels, for comparison | `channels.rs` |
//! | receiving | `rx_window.rs` (order, refusals), `ack.rs` |
//! | time | `timers.rs`, `rtt.rs`, `congestion.rs`, `keepalive.rs`, `mtu.rs` |

#![forbid(unsafe_code)]

mod ack;
mod auth;
mod channels;
pub mod config;
mod congestion;
mod cookie;
mod delivery;
mod error;
mod event;
mod handshake;
mod ids;
mod keepalive;
mod mtu;
mod opening;
pub mod packet;
mod places;
mod recall;
mod return_to_sender;
mod rtt;
mod rx_window;
mod seed;
mod sequence;
mod session;
mod statistics;
mod timers;
mod tokens;
mod transport;
mod tx_acks;
mod tx_ring;
mod tx_window;

pub use bellwire_seal as seal;
pub use bellwire_time::{Duration, Instant};
pub use config::{Config, VERSIONS};
pub use delivery::{Buffer, Delivery, Frame, Frames, Head, Returned};
pub use error::{Error, PacketError};
pub use event::{DownReason, Event, FailReason, Refusal, ReturnReason, Sent};
pub use ids::{NicId, SessionId};
pub use recall::Recalled;
pub use seed::{Purpose, Seed, Stream};
pub use statistics::{SessionInfo, Statistics};
pub use transport::{Transmit, Transport};
