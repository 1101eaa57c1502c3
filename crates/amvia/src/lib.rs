// SPDX-License-Identifier: MIT OR Apache-2.0
//! Active Messages (AM-II) on the public calls of the VI Provider Library alone (AMVIA).
//!
//! `bellwire-am` carries Active Messages by calls of the engine that VIPL does not have. This crate
//! carries the same by VIPL's (`bellwire-vipl-calls`), loaded at run time from `libvipl.so.1`, so
//! that what VI primitives cost Active Messages can be measured. `libbellwire_am` uses it if
//! `BELLWIRE_AM` says so.
//!
//! Mapping v3: a pair of endpoints has one VI (a *MAP object*), `2k` send buffers and `2k + 1`
//! receive buffers for `k` requests each way; a bundle has two completion queues. Short and medium
//! messages are copied into a buffer and sent; bulk data goes by RDMA write from the program's
//! memory, registered through the registration cache, and a send tells of it.
//!
//! Mapping v2: one VI, and all by RDMA write with immediate data, into a ring at the receiver that
//! the sender manages; its room, not a number of buffers, says how many messages may be out.
//!
//! Mapping v1: three VIs, for short messages, mediums and bulk, each with credits of its own; bulk
//! data goes in pieces, by send and receive.
//!
//! | file | concern |
//! |---|---|
//! | `mapping.rs` | what the environment asks for |
//! | `device.rs`, `shared.rs` | the NIC, and where endpoints are |
//! | `accept.rs`, `join.rs`, `connect.rs` | connections that others ask for, and that are asked for |
//! | `objects.rs` | the objects of programs: bundles and messages |
//! | `bundle.rs`, `send.rs`, `poll.rs`, `message.rs` | their calls: the lock, waiting, running handlers |
//! | `core.rs`, `arrive.rs`, `life.rs`, `moving.rs` | the state of a bundle; messages leave and come; MAP objects begin and end; endpoints move |
//! | `stream.rs`, `cut.rs` | v1: bulk data in pieces, replies that are fetched |
//! | `map.rs`, `lane.rs`, `queues.rs` | a MAP object, its VIs, a bundle's completion queues |
//! | `vi.rs`, `carrying.rs`, `buffers.rs` | a VI with memory; what its users say to it; messages by send and receive |
//! | `written.rs`, `ring.rs` | v2: messages by RDMA write, and where it may be written |
//! | `endpoint.rs`, `record.rs`, `delivery.rs`, `head.rs`, `name.rs` | tables; requests that are out; messages that have come, and as bytes; names |
//!
//! The calls on a message's way are never inlined, so that they lie apart from the native layer's
//! in the functions that choose between the two (`tests/am/cost.sh` counts what the choice costs).
//!
//! **Free of deadlock.** Handlers never wait: request handlers may only reply, reply handlers send
//! nothing, and a reply that finds no free buffer is kept as a copy, bounded by the requester's
//! credits. Each request is answered by one message, for which its sender has a receive posted. A
//! request that has to wait polls meanwhile.

mod accept;
mod arrive;
mod buffers;
mod bundle;
mod carrying;
mod connect;
mod core;
mod cut;
mod delivery;
mod device;
mod endpoint;
mod head;
mod join;
mod lane;
mod life;
mod map;
mod mapping;
mod message;
mod moving;
mod name;
mod objects;
mod poll;
mod queues;
mod record;
mod ring;
mod send;
mod shared;
mod stream;
mod vi;
mod written;

pub use bellwire_vipl_calls::probe;

/// The library's calls.
pub(crate) use bellwire_vipl_calls as vipl;

pub use device::{Device, Region};
pub use mapping::{CREDITS_DEFAULT, CREDITS_MAX, Mapping, from_env};
pub use name::Name;
pub use objects::{Bundle, Message};
pub use record::{Departed, Returned};
