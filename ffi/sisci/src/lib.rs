// SPDX-License-Identifier: MIT OR Apache-2.0
//! libsisci: the SISCI interface (`sisci_api.h`) on the crate `bellwire-sisci`. Thin: each function
//! checks flags and pointers, translates, and makes one call. What the functions do is said in the
//! header.
//!
//! | file | concern |
//! |---|---|
//! | `calls.rs` | each call under its three names; arguments, flags, errors |
//! | `start.rs` | start, end, nodes; queries |
//! | `segments.rs`, `maps.rs` | segments; maps, sequences, copies |
//! | `dma.rs` | DMA queues and block transfers |
//! | `interrupts.rs` | interrupts without and with data |
//! | `traced.rs` | calls of a process that is traced |
//! | `rare.rs` | calls that need hardware which is emulated nowhere here |
//!
//! Invariant C1, on which every `unsafe` block about an argument relies: a pointer argument that is
//! not NULL points to an object of the type that the header names, aligned, readable or writable as
//! the header says, for the duration of the call (of a transfer, for the memory that it names).
//! Handles are integers in pointer's clothing and are never dereferenced.

#[macro_use]
mod calls;
#[macro_use]
mod traced;
mod dma;
mod interrupts;
mod maps;
mod rare;
mod segments;
mod start;
