// SPDX-License-Identifier: MIT OR Apache-2.0
//! The floor under the message layers (`am`, `tag`, `verbs`, `gas`): what each of them needs
//! between its own protocol and the engine.
//!
//! | file | what |
//! |---|---|
//! | `credit.rs` | how many messages a peer has taken, and when it is to be told |
//! | `channel.rs` | a message that left in part always leaves whole |
//! | `name.rs` | host and id as addresses of the engine |
//! | `life.rs` | how connections begin and end, and why |
//! | `station.rs` | a layer's machine on a NIC: one lock, driven by the NIC's helper thread |
//!
//! Nothing here holds a lock, reads a clock or starts a thread.

pub mod channel;
pub mod credit;
pub mod life;
pub mod name;
pub mod station;

pub use channel::{Channel, Put, Unsent, whole_frames};
pub use credit::{Count, Credits};
pub use life::{Connected, Death, Event, Mailbox, Patience, listen_alone};
pub use name::{Host, Kind};
pub use station::Station;
