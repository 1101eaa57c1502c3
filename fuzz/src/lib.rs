// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fuzz targets as functions of bytes, so that libFuzzer runs them and an ordinary test replays the corpus (`tests/replay.rs`).
//!
//! | target | what the bytes are |
//! |---|---|
//! | `frames` | frames of a peer, calls of the program and turns of the engine, over a scripted wire |
//! | `shared` | what a peer writes into its half of a link of the shared-memory wire, and what it says on the socket |
//! | `rendezvous` | messages with descriptors on the sockets by which links are made |
//! | `descriptors` | descriptors that a program posts |
//! | `packets` | a packet of the NIC-to-NIC protocol |
//! | `transport` | packets, a network's doings, calls and time for two transports |
//! | `sealed` | the same, with keys: whatever is said, nothing is delivered that was not sent |
//! | `tag` | messages of a peer, and calls of the program, for an endpoint with tag matching |
//! | `gas` | messages of a peer, and calls of the program, for a process with global memory by packets |
//! | `gasvia` | messages of peers, and calls of the program, for a process with Split-C's operations on VIs |
//! | `verbs` | packets of a peer, and calls of the program, for a device with queue pairs |
//! | `cm` | messages of peers, commands of a program, links and time, for connection management |
//! | `cm_device` | commands that a program writes into the device file of connection management |
//! | `sisci` | calls of SISCI with any handles, offsets and sizes, within a host and between hosts; messages to its sockets |
//! | `sisci_far` | messages and RDMA of peers of other hosts for a process with SISCI |
//! | `job` | what processes write to the PMI-1 server of a launcher |
//!
//! Besides what sanitizers see, the targets of the engine assert that no byte outside the granted memory changes and that every posted request completes exactly once; those of the
//! transport, that packets are written as they were read, and that left alone it comes to rest with every place free that no session holds.

pub mod cm;
pub mod cm_device;
pub mod descriptors;
pub mod frames;
pub mod gas;
pub mod gasvia;
pub mod input;
pub mod job;
pub mod outsider;
pub mod packets;
pub mod program;
pub mod rendezvous;
pub mod scripted;
pub mod sealed;
pub mod shared;
pub mod sisci;
pub mod sisci_far;
pub mod tag;
pub mod talk;
pub mod transport;
pub mod verbs;
pub mod vipl;
