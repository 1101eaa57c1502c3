// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bellwire's shared memory: everything that touches memory another process may write, and every
//! atomic of the project.
//!
//! Two halves, both below the engine (`bellwire-via`) and knowing nothing of it:
//!
//! | what the operating system gives | module |
//! |---|---|
//! | memory that can be handed to another process, sealed | [`region`], [`reserve`] |
//! | a part of it at an address of its own; a program's own pages made shareable | `view`, `adopted` |
//! | the same for pages that threads use meanwhile, and for a registration's time | `adopt` |
//! | a counter of several processes, to sleep on | `counter` |
//! | a word that counts triggers, of which the first interrupts | `flag_word` |
//! | handing it over; who the peer is | [`fd_passing`], [`pidfd`] |
//! | room for descriptors | [`fd_table`] |
//! | reading another process's memory where that is permitted | [`mod@attach`] |
//! | whether this is still the same process | [`fork_mark`] |
//! | threads that are not the program's | `own_thread` |
//! | waking a sleeper; letting the sleeper pay | [`event`], [`membarrier`], [`mod@pause`] |
//! | hearing of memory that the program unmaps or touches | `userfault`, `unmap_watch`, [`unmap_log`] |
//! | the list of mappings of this process | `mappings` |
//! | hearing of stores | `write_watch` |
//! | the processor's counter of time | [`ticks`] |
//! | copying to and from memory that changes under one's hands | [`bytes`] |
//! | finding what has changed, in an order | `refresh` |
//! | memory of a program that lives as long as anybody uses it | `owned_bytes` |
//!
//! | service of coherent memory | module |
//! |---|---|
//! | a queue of cache lines | [`line_queue`] |
//! | a ring of packets | [`packet_ring`] |
//! | a table that one writes and others read | [`tagged_table`] |
//! | taking memory back from a peer | [`direct_epoch`] |
//! | a door that many go through and one shuts | [`door`] |
//! | mutual exclusion that costs its usual owner no locked instruction | [`token`] |
//! | a log of events that outlives its writer | [`event_log`] |
//!
//! Rules of the crate:
//! - No reference and no slice is ever made of memory that another process may write: raw pointers,
//!   atomics, or copies through [`bytes`].
//! - What a peer sends (descriptors, lengths, words) is checked here as far as it can be without
//!   knowing what it means; the answer to a lie is a [`MemoryError`], never a fault, a hang or a
//!   panic.
//! - `core::sync::atomic` is used through [`atomic`] only, so that the models (`--cfg loom`) see
//!   every access. `MEMORY_MODEL.md` lists all of them.

#[cfg(not(loom))]
pub mod adopt;
#[cfg(not(loom))]
pub mod adopted;
pub mod atomic;
#[cfg(not(loom))]
pub mod attach;
pub mod bytes;
#[cfg(not(loom))]
pub mod counter;
pub mod direct_epoch;
pub mod door;
pub mod error;
pub mod event;
pub mod event_log;
#[cfg(not(loom))]
pub mod fd_passing;
pub mod fd_table;
pub mod flag_word;
pub mod fork_mark;
pub mod line_queue;
#[cfg(not(loom))]
pub mod mappings;
pub mod membarrier;
#[cfg(not(loom))]
pub mod own_thread;
#[cfg(not(loom))]
pub mod owned_bytes;
pub mod packet_ring;
pub mod pause;
pub mod pidfd;
mod proc_fd;
#[cfg(not(loom))]
pub mod processors;
#[cfg(not(loom))]
pub mod refresh;
pub mod region;
pub mod reserve;
#[cfg(not(loom))]
pub mod signals;
pub mod tagged_table;
pub mod ticks;
pub mod token;
pub mod unmap_log;
#[cfg(not(loom))]
pub mod unmap_watch;
#[cfg(not(loom))]
pub mod userfault;
#[cfg(not(loom))]
pub mod view;
#[doc(hidden)]
pub mod weakened;
#[cfg(not(loom))]
pub mod write_watch;

pub use error::{Blame, MemoryError};
