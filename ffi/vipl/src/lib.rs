// SPDX-License-Identifier: MIT OR Apache-2.0
//! libvipl: the VI Provider Library (VIA 1.0, `vipl.h`) and its extensions (`viplx.h`) on
//! Bellwire's engine.
//!
//! Thin: each function checks its handles and pointers, translates, and makes one call of
//! [`bellwire_via::Nic`]. What the functions do is said in the headers, which are the interface;
//! here is only how.
//!
//! | file | concern |
//! |---|---|
//! | `work.rs` | post, done, wait: the data path |
//! | `handles.rs` | handles are values; the threads inside a NIC; when a closed NIC may go |
//! | `waiting.rs` | waits that say how long they spin; descriptors of completion queues |
//! | `cq.rs`, `notify.rs`, `vi.rs`, `memory.rs`, `cached.rs`, `connect.rs`, `nic.rs`, `names.rs`, `ext.rs` | the other calls |
//! | `types.rs`, `status.rs` | layouts; return codes |
//!
//! Invariant C1, on which every `unsafe` block about an argument relies: a pointer argument that is
//! not NULL points to an object of the type that the header names, aligned, readable or writable as
//! the header says, for the duration of the call. Handles are integers in pointer's clothing and
//! are never dereferenced; neither is a descriptor's address before the engine has found it inside
//! a registered region.
//!
//! Budget of a post or done beyond the engine's: two stores and four loads.

mod cached;
mod cause;
mod connect;
mod cq;
mod ext;
mod forks;
mod handles;
mod memory;
mod names;
mod nic;
mod notify;
mod status;
mod types;
mod vi;
mod waiting;
mod work;
