// SPDX-License-Identifier: MIT OR Apache-2.0
//! The SISCI interface (Software Infrastructure for the Scalable Coherent Interface, Dolphin): the
//! segments of other processes in one's own memory, remote interrupts, DMA queues.
//!
//! Within a host nothing is emulated: a remote segment is a mapping of the owner's memory, so PIO
//! is a plain store. A host is a node; several nodes may be on one host, if their processes say so
//! (`BELLWIRE_SISCI=node=ID`). Nodes of other hosts are reached by the engine's messages and RDMA
//! (`far.rs`), and a map of their segments is a shadow (`shadow.rs`).
//!
//! | file | concern |
//! |---|---|
//! | `library.rs` | the process's objects; start, end, probe |
//! | `handles.rs` | handles are checked numbers |
//! | `local.rs`, `remote.rs`, `memory.rs`, `mapped.rs` | segments and connections to them |
//! | `map.rs`, `shadow.rs` | maps, sequences, copies through maps; maps of other hosts' segments |
//! | `auto_flush.rs`, `fresh.rs` | stores through such maps leave by themselves; loads fetch pages |
//! | `dma.rs`, `place.rs`, `mover.rs` | DMA queues, block transfers; their ends; the thread that copies |
//! | `interrupt.rs`, `data_interrupt.rs` | interrupts without and with data |
//! | `flags.rs`, `flag_map.rs` | stores to flags of a segment interrupt its owner |
//! | `events.rs`, `reason.rs`, `thread.rs` | events that are waited for or called back |
//! | `rendezvous.rs`, `service.rs`, `message.rs` | how processes find each other, and learn of deaths |
//! | `nodes.rs` | node ids and addresses |
//! | `far.rs`, `far/` | nodes of other hosts |
//! | `machine.rs` | the same on an engine of the caller's, for fuzzers |
//! | `error.rs` | the specification's errors |
//!
//! Everything that another process sends is copied and checked (`message.rs`, and
//! `bellwire_memory` for descriptors). The memory of a segment is shared by its owner's will: a
//! process that may connect may write all of it.

#![allow(missing_debug_implementations, reason = "objects are told by their handles")]

mod auto_flush;
mod data_interrupt;
mod dma;
mod error;
mod events;
mod far;
mod flag_map;
mod flags;
mod fresh;
mod handles;
mod interrupt;
mod library;
mod local;
pub mod machine;
mod map;
mod mapped;
mod memory;
mod message;
mod mover;
mod nodes;
mod place;
mod reason;
mod remote;
mod rendezvous;
mod service;
mod shadow;
mod thread;

pub use auto_flush::Finding;
pub use data_interrupt::{DataCallback, DataInterrupt, RemoteDataInterrupt};
pub use dma::{Block, BlockTransfer, DmaQueue, DoneCallback, ENTRIES_MAX, Local, Part, QueueState};
pub use error::Error;
pub use events::Action;
pub use handles::{Object, Table};
pub use interrupt::{InterruptCallback, InterruptKind, LocalInterrupt, RemoteInterrupt};
pub use library::{Descriptor, Library, current, initialize, terminate};
pub use local::{LocalCallback, LocalEvent, LocalSegment, SegmentKind};
pub use map::{Map, OFFSET_ALIGNMENT, Sequence, SequenceStatus, store_barrier};
pub use message::DATA_MAX;
pub use nodes::{ID_MAX, Nodes};
pub use reason::Reason;
pub use remote::{RemoteCallback, RemoteEvent, RemoteSegment};
