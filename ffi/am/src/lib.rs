// SPDX-License-Identifier: MIT OR Apache-2.0
//! libbellwire_am: Active Messages II (`am.h`) on the crate `bellwire-am`. Thin: each function
//! checks its pointers, translates, and makes one call. What the functions do is said in the
//! header.
//!
//! | file | concern |
//! |---|---|
//! | `carrier.rs` | the seam: the crate `bellwire-am` or a mapping of `bellwire-amvia` carries the messages |
//! | `objects.rs` | the library's device, bundles, endpoints, memory; the objects that end with it |
//! | `control.rs`, `tables.rs`, `events.rs` | bundles and endpoints; translations; polling, waiting, statistics |
//! | `handlers.rs` | C functions as handlers; tokens |
//! | `messages.rs` | requests, gets, replies |
//! | `spmd.rs` | the process in its job |
//! | `rpc/` | remote procedure calls: `bellwire_rpc.h` |
//! | `types.rs` | layouts, return codes |
//!
//! Invariant C1, on which every `unsafe` block about an argument relies: a pointer argument that is
//! not NULL points to an object of the type that the header names, aligned, readable or writable as
//! the header says, for the duration of the call; a bundle or endpoint that is not NULL is one that
//! was allocated and not freed; a token is one of a handler that runs.

mod carrier;
mod control;
mod events;
mod handlers;
mod messages;
mod objects;
mod rpc;
mod spmd;
mod tables;
mod traced;
mod types;
