// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wires: they carry frames between two engines and, where memory can be shared, let one engine
//! reach the other's memory directly.
//!
//! | file | what |
//! |---|---|
//! | `wire.rs` | [`Wire`]: frames, links, addresses, memory of the engine's allocator |
//! | `direct_memory.rs` | [`DirectMemory`]: the shortcuts to a peer's memory |
//! | `arrived.rs` | [`Frame`]: a frame that has arrived, where it lies |
//! | `frame.rs` | the format of frames |
//! | `terms.rs`, `events.rs` | the terms for memory; the events that a wire reports |
//! | `users.rs` | other users of this host: those that are allowed, and whose process a name is |
//! | `shm/`, `packet/`, `udp/`, `xdp/`, `sim/`, `host/` | the wires |

use bellwire_time as time;

pub mod address;
pub mod agent;
mod arrived;
pub mod clock;
mod direct_memory;
mod events;
pub mod frame;
pub mod handle;
mod heap;
pub mod host;
mod link_id;
mod names;
#[cfg(doctest)]
mod needs_unsafe;
pub mod packet;
mod payload;
mod probe;
pub mod shm;
pub mod sim;
pub mod sisci;
mod terms;
mod told;
pub mod udp;
pub mod users;
pub mod variables;
mod wire;
pub mod xdp;

pub use address::NetAddress;
pub use arrived::{Frame, Peeked, Received};
pub use bellwire_proto::seal::{Cipher, Keys, Limits as KeyLimits, SecretKey};
pub use bellwire_proto::{Purpose, Seed, SessionInfo, Transmit};
pub use direct_memory::DirectMemory;
pub use events::{LinkFailure, LinkInfo, Rendezvous, WireEvent, WireReason};
pub use link_id::{LinkId, LinkTag};
pub use terms::{Advertisement, Allocation, Attach, CatalogueEntry, Direct, MapAccess, MemoryKind, NO_SEGMENT, Placement, RemoteAccess};
pub use wire::{PAYLOAD_BYTES_MIN, Sent, Wire};
