// SPDX-License-Identifier: MIT OR Apache-2.0
//! A libfabric provider on `bellwire-tag`: reliable datagrams (`FI_EP_RDM`), endpoints connected in
//! pairs (`FI_EP_MSG`) and datagrams (`FI_EP_DGRAM`) with messages, tags, remote memory and
//! atomics. To be installed as `libbellwire-fi.so`; libfabric finds it by `FI_PROVIDER_PATH`. One
//! binary for libfabric 1.17 and 2.x: it needs no symbol of its host.
//!
//! | file | concern |
//! |---|---|
//! | `abi.rs`, `attributes.rs`, `flags.rs` | layouts and numbers of the public interface |
//! | `host.rs` | the libfabric that has loaded us |
//! | `limits.rs`, `handles.rs` | our names and limits; identifiers that a program may give as a handle |
//! | `info.rs`, `hints.rs` | what is offered, and whether it is what was asked for |
//! | `names.rs`, `format.rs` | nodes and services as names of endpoints; how addresses look |
//! | `fabric.rs`, `domain.rs`, `memory.rs` | control: fabrics, domains, memory regions |
//! | `polled.rs`, `resources.rs` | endpoints as queues poll them; what the objects of a domain share |
//! | `av.rs`, `shared_av.rs`, `eq.rs`, `cq.rs` and `queue.rs`, `counter.rs` | address vectors, event queues, completion queues, counters |
//! | `reasons.rs` | why peers are gone, as numbers and texts |
//! | `pollset.rs`, `waitset.rs`, `watched.rs` | several queues and counters polled, or waited for |
//! | `cm.rs`, `pair.rs`, `passive.rs` | endpoints that are connected in pairs, and those that wait for requests |
//! | `shared.rs`, `scalable.rs` | contexts that several endpoints share; endpoints of several contexts |
//! | `object.rs`, `endpoint.rs`, `named.rs`, `opening.rs`, `enabling.rs`, `options.rs` | endpoints: the object, its calls, how they are opened and enabled |
//! | `posting.rs`, `calls.rs`, `message.rs`, `rma.rs`, `atomic.rs` | data |
//! | `trigger.rs`, `deferring.rs` | operations that wait for a counter |
//! | `traced.rs` | calls of a program that is traced |
//!
//! Invariants, on which every `unsafe` block about an argument relies:
//! - F1: an object's first field is the public structure that libfabric's calls are made through,
//!   so the pointer to one is a pointer to the other; calls come through the tables of the object's
//!   own kind alone; an object that is given to a call has been opened and not closed.
//! - F2: a pointer argument that is not NULL points to what the interface says, readable or
//!   writable for the duration of the call; buffers of operations until their completion.

mod abi;
mod atomic;
mod attributes;
mod av;
mod calls;
mod cm;
mod counter;
mod cq;
mod deferring;
mod domain;
mod enabling;
mod endpoint;
mod eq;
mod fabric;
mod flags;
mod format;
mod handles;
mod hints;
mod host;
mod info;
#[cfg(test)]
mod layout;
mod limits;
mod memory;
mod message;
mod named;
mod names;
mod object;
mod opening;
mod options;
mod pair;
mod passive;
mod polled;
mod pollset;
mod posting;
mod queue;
mod reasons;
mod resources;
mod rma;
mod scalable;
mod shared;
mod shared_av;
mod traced;
mod trigger;
mod waitset;
mod watched;
