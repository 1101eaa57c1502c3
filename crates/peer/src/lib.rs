// SPDX-License-Identifier: MIT OR Apache-2.0
//! The floor under the message layers (`am`, `tag`, `verbs`, `gas`): what each of them needs
//! between its own protocol and the engine.
//!
//! | file | what |
//! |---|---|
//! | `credit.rs` | how many messages a peer has taken, and when it is to be told |
//! | `channel.rs` | a message that left in part always leaves whole |
//! | `station.rs` | a layer's machine on a NIC: one lock, driven by the NIC's helper thread |
//!
//! Nothing here holds a lock, reads a clock or starts a thread.

pub mod channel;
pub mod credit;
pub mod station;

pub use channel::{Channel, Put, Unsent, whole_frames};
pub use credit::{Count, Credits};
pub use station::Station;
