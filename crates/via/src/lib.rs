// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bellwire's engine: the Virtual Interface Architecture as a state machine, its wires, and the NIC object for real processes.
//!
//! - [`Engine`]: one NIC's VIs, queues, registered memory, protection and connections. Single-threaded; told the time, the wire and the randomness.
//! - [`wire`]: what carries frames: shared memory ([`wire::shm`]) and an in-memory network in virtual time ([`wire::sim`]).
//! - [`Nic`]: an engine with a progress token, a helper thread, sleeping and waking; what the C library and Rust programs use.
//!
//! Where the data path is: `post.rs`, `transmit.rs`, `progress.rs`, `deliver.rs`, `complete.rs`; see ARCHITECTURE.md.

pub mod attributes;
pub mod completion_queue;
pub mod descriptor;
pub mod engine;
pub mod error;
pub mod event;
pub mod frame;
pub mod handle;
pub mod nic;
pub mod ready;
pub mod registration;
pub mod shared_receive_queue;
pub mod status;
pub mod time;
mod user_memory;
pub mod vi;
pub mod wire;
pub mod work_queue;

mod complete;
mod connection;
mod deliver;
mod fast;
mod post;
mod progress;
mod pull;
mod transmit;
mod way;

pub use attributes::{MemAttributes, NetAddress, PtagHandle, Reliability, ViAttributes, ViState};
pub use complete::Completion;
pub use completion_queue::CqHandle;
pub use connection::{ConnectionRequest, IncomingHandle, WaitHandle};
pub use engine::Engine;
pub use error::Error;
pub use event::Event;
pub use nic::Nic;
pub use post::{ReceiveRequest, SendRequest};
pub use registration::MemHandle;
pub use shared_receive_queue::SrqHandle;
pub use status::{Operation, Status, WorkFlags};
pub use time::{Duration, Instant};
pub use vi::{ViCounters, ViHandle, WorkQueueKind};
pub use work_queue::Segment;
