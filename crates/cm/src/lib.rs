// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connection management for RDMA queue pairs: the identifiers, states, messages and timers behind
//! `rdma_cm`, as a machine without I/O, clock or thread.
//!
//! A process has one [`Cm`] for each device. Programs call it through the commands of the kernel's
//! user interface (`ffi/verbs` translates them); peers' messages come in by [`Cm::message`], time
//! by [`Cm::tick`]. The machine sends through a [`Host`], which knows links: in `crates/verbs` a
//! link is a connection of its own, in tests it is a queue with loss.
//!
//! | file | concern |
//! |---|---|
//! | `types.rs` | words of the interface: spaces, events, parameters, errors |
//! | `host.rs` | what the machine needs of the world |
//! | `message.rs` | messages between two machines, byte for byte |
//! | `mad.rs` | the same as datagrams of InfiniBand, for captures |
//! | `id.rs` | an identifier: its state and what it knows |
//! | `cm.rs` | the machine: channels, events, links |
//! | `commands.rs`, `connecting.rs` | commands of programs about identifiers and addresses; about connections |
//! | `devices.rs` | several machines of one process; devices that change |
//! | `arrive.rs` | messages of peers |
//! | `timers.rs` | repetitions and time-outs |
//! | `attributes.rs` | what a queue pair is to be set to |
//!
//! Invariants
//! - I1: an identifier belongs to one channel; a command that names it through another channel
//!   fails.
//! - I2: a message changes an identifier only if it comes by the identifier's own link and names
//!   the peer's identifier.
//! - I3: each identifier whose peer owes an answer has a deadline, so each request ends with an
//!   event.

mod arrive;
mod attributes;
mod cm;
mod commands;
mod connecting;
mod devices;
mod host;
mod id;
mod mad;
mod message;
mod timers;
mod types;

pub use attributes::{Attributes, Mask};
pub use cm::Cm;
pub use devices::Unbound;
pub use host::{Host, Link};
pub use mad::{MAD_BYTES, mad};
pub use message::MESSAGE_BYTES_MAX;
pub use types::{
    Channel, Error, Event, EventBody, EventKind, Gid, IdOption, Joined, MULTICAST_QP, Parameters, QpKind, REJECTED_BY_CONSUMER, Route, Service, Space, UDP_QKEY,
};
