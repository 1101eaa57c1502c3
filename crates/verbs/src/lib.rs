// SPDX-License-Identifier: MIT OR Apache-2.0
//! RDMA queue pairs on Bellwire's virtual interfaces, for programs of libibverbs. `ffi/verbs` is
//! its C interface.
//!
//! A layer of the engine's like `tag` and `am`, on the same parts of it (decision 27): *inboxes*,
//! and *sends by copy*. All queue pairs of two processes share one connection, which carries
//! packets of this layer's own; so a queue pair costs memory only, and its rules are InfiniBand's,
//! not those of a VI.
//!
//! | file | concern |
//! |---|---|
//! | `port.rs`, `objects.rs`, `registration.rs` | a device as programs call it: itself and queue pairs; other objects; registering memory |
//! | `progress.rs`, `patience.rs`, `armed.rs` | progress; answers that are delayed; when the helper thread serves armed queues |
//! | `core.rs` | the objects; the machine's step |
//! | `qp.rs`, `modify.rs` | a queue pair; its states |
//! | `machine.rs` | the same on an engine of the caller's |
//! | `queue.rs`, `ring.rs`, `channel.rs` | completion queues, receives; descriptors to sleep on |
//! | `memory.rs` | regions, keys, copies |
//! | `windows.rs`, `binding.rs`, `memory/on_demand.rs` | memory windows, and how they are bound; regions on demand |
//! | `domains.rs`, `xrc.rs` | protection and XRC domains; extended reliable connections |
//! | `owned.rs` | memory with an owner |
//! | `registration.rs`, `direct.rs` | memory of programs, which peers map if it can be exchanged; requests done in it without the owner |
//! | `request.rs`, `send.rs`, `ending.rs`, `reason.rs` | requests of the program: posted, sent, completed; why they fail |
//! | `short.rs` | messages that need nothing of all that: a way of their own |
//! | `arrive.rs`, `serve.rs`, `reach.rs`, `answers.rs` | packets that arrive: checked; requests carried out; the memory that they name; answers to ours |
//! | `fates.rs`, `struck.rs` | a plan of faults on purpose; how they strike |
//! | `watch.rs`, `strict.rs`, `rule.rs` | the notes of the strict mode; broken rules seen; the rules and reports |
//! | `witness.rs`, `captured.rs`, `capture.rs` | the witnesses of requests; a capture knows and tells this of them |
//! | `leave.rs` | packets that wait to leave |
//! | `cm.rs` | connection management: its links, services and time |
//! | `joined.rs`, `groups.rs` | the groups of a device; multicast |
//! | `header.rs`, `connection.rs`, `life.rs`, `name.rs`, `lost.rs` | packets; connections, names and ends of peers |

mod answers;
mod armed;
mod arrive;
mod binding;
mod capture;
mod captured;
mod channel;
mod cm;
mod connection;
mod core;
mod direct;
mod domains;
mod ending;
mod fates;
mod grants;
mod groups;
mod header;
mod joined;
mod leave;
mod life;
mod lost;
pub mod machine;
mod managed;
mod memory;
mod modify;
mod name;
#[cfg(doctest)]
mod needs_unsafe;
mod objects;
mod observed;
mod owned;
mod patience;
mod port;
mod progress;
mod qp;
mod queue;
mod reach;
mod reason;
mod registration;
mod request;
mod ring;
mod rule;
mod send;
mod serve;
mod short;
mod strict;
mod struck;
mod types;
mod watch;
mod windows;
mod witness;
mod xrc;

pub use self::core::AsyncEvent;
pub use channel::Channel;
pub use cm::{CmHost, Orphan, on_orphans};
pub use direct::ShortAccess;
pub use groups::{GROUP_QP, GROUP_QPS_MAX, GROUPS_MAX, is_group};
pub use managed::Bell;
pub use memory::{Prefetch, Region, has_on_demand};
pub use modify::{Given, READS_MAX, connecting};
pub use name::gid_of;
pub use owned::Memory;
pub use port::{OpenError, Port};
pub use progress::clock;
pub use qp::{Caps, DATAGRAM_MAX, Destination, Extra, INLINE_MAX, MESSAGE_MAX, PIECES_MAX, QUEUE_MAX, QpAttributes, QpInit, SendRequest};
pub use queue::{CQ_ENTRIES_MAX, Listener};
pub use reason::Reason;
pub use rule::{Report, Reporter, Rule};
pub use short::{SHORT_BYTES_MAX, ShortSend, join_inline};
pub use types::{Access, AsyncKind, Completion, Error, Gid, Opcode, QpKind, QpState, SendFlags, Sge, Stamp, WcFlags, WcOpcode, WcStatus};
pub use windows::{Bind, WINDOWS_MAX, WindowKind};
