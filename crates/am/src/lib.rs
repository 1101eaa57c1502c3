// SPDX-License-Identifier: MIT OR Apache-2.0
//! Active Messages (AM-II) on Bellwire's virtual interfaces: each message names a function of its
//! receiver, which runs with its arguments.
//!
//! An [endpoint](Bundle::create_endpoint) has handlers, a tag and a table of others that it may
//! send to; a [`Bundle`] of endpoints is polled as one; a [`Device`] is the NIC under bundles. A
//! request is handled and answered once, by a reply or by nothing; or it comes back to its sender's
//! error handler ([`Returned`]), once, with the reason.
//!
//! | file | concern |
//! |---|---|
//! | `device.rs`, `acceptor.rs` | the NIC, and connections that others ask for |
//! | `objects.rs` | the objects of programs: bundles and messages |
//! | `bundle.rs`, `send.rs`, `poll.rs`, `message.rs` | their calls: the lock, waiting, running handlers |
//! | `core.rs` | the state of a bundle; short and medium requests leave |
//! | `arrive.rs`, `leave.rs` | messages come in; replies, and what waited, go out |
//! | `bulk.rs`, `region.rs` | bulk messages and gets; memory that peers reach |
//! | `life.rs`, `moving.rs` | connections begin and end; endpoints move between bundles |
//! | `connection.rs` | credits and records of one connection |
//! | `header.rs`, `payload.rs`, `delivery.rs` | messages as bytes, where they lie, as handlers get them |
//! | `tables.rs` | handlers and entries of an endpoint, for each way to carry messages |
//! | `observed.rs`, `traced.rs` | what a trace notes of a bundle, and when |
//! | `probe.rs` | where the time of a message goes, for those who ask; nothing otherwise |
//!
//! **Free of deadlock.** Handlers never wait: request handlers may only reply, reply handlers send
//! nothing, and a reply that cannot leave is kept as a copy, bounded by the client's credits. A
//! request that has to wait polls meanwhile.

mod acceptor;
mod arrive;
mod bulk;
mod bundle;
mod connection;
mod core;
mod delivery;
mod device;
mod endpoint;
mod header;
mod leave;
mod life;
mod message;
mod moving;
mod name;
mod objects;
mod observed;
mod payload;
mod poll;
pub mod probe;
mod region;
mod send;
#[cfg(test)]
mod simulated;
mod status;
pub mod tables;
mod traced;

pub use bellwire_peer::Death;
pub use device::{Device, OpenError};
pub use endpoint::Counters;
pub use header::{ARGS_MAX, BULK_BYTES_MAX, CREDITS_DEFAULT, CREDITS_MAX, MEDIUM_BYTES_MAX};
pub use name::{EndpointId, NAME_BYTES, Name};
pub use objects::{Bundle, Message};
pub use payload::Payload;
pub use region::Region;
pub use send::Part;
pub use status::{Departed, Error, Operation, Returned, Status};
pub use tables::{HANDLERS, TAG_ALL, TAG_NONE, TRANSLATIONS_DEFAULT, TRANSLATIONS_MAX};
