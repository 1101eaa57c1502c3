// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bellwire's engine: the Virtual Interface Architecture as a state machine, and the NIC object for
//! real processes.
//!
//! - [`Engine`]: one NIC's VIs, queues, registered memory, protection and connections.
//!   Single-threaded; told the time, the wire and the randomness.
//! - [`wire`]: the crate below, which carries frames: shared memory ([`wire::shm`]), UDP
//!   ([`wire::udp`]), and a network in memory ([`wire::sim`]).
//! - [`world`]: many engines on that network, in virtual time.
//! - [`Nic`]: an engine with a progress token, a helper thread, sleeping and waking; what the C
//!   library and Rust programs use.
//!
//! A NIC that sends to itself, with all that a program between two processes needs:
//!
//! ```
//! use bellwire_via::nic::NicConfig;
//! use bellwire_via::{MemAttributes, NetAddress, Nic, ReceiveRequest, SendRequest, ViAttributes};
//! use std::time::Duration;
//!
//! let patience = Some(Duration::from_secs(20));
//! let nic = Nic::open(NicConfig::default()).expect("a NIC");
//!
//! // Memory under a protection tag; VIs of the same tag may use it.
//! let tag = nic.with(|engine| engine.create_ptag())?;
//! let rights = MemAttributes { ptag: Some(tag), ..MemAttributes::default() };
//! let memory = nic.allocate(4096, &rights)?;
//! let attributes = ViAttributes { ptag: Some(tag), ..ViAttributes::default() };
//! let giver = nic.with(|engine| engine.create_vi(&attributes, None, None, None))?;
//! let taker = nic.with(|engine| engine.create_vi(&attributes, None, None, None))?;
//!
//! // A receive is posted before its message can come.
//! let room = [memory.segment(1024, 64)?];
//! nic.post_receive(taker, &ReceiveRequest { segments: &room, ..ReceiveRequest::default() })?;
//!
//! // One side waits under a name, the other asks for it.
//! let name = NetAddress::new(&[127, 0, 0, 1], format!("example {}", std::process::id()).as_bytes()).expect("short enough");
//! std::thread::scope(|scope| {
//!     scope.spawn(|| {
//!         let request = nic.connect_wait(&name, patience).expect("somebody asks");
//!         nic.with(|engine| engine.accept(request.incoming, taker)).expect("it still wants to");
//!     });
//!     nic.connect_request(giver, &name, &name, patience)
//! })?;
//!
//! memory.write(0, b"VIA")?;
//! let sent = [memory.segment(0, 3)?];
//! nic.post_send(giver, &SendRequest { segments: &sent, ..SendRequest::default() })?;
//! let received = nic.receive_wait(taker, patience)?;
//! let mut text = [0; 3];
//! memory.read(1024, &mut text)?;
//! assert_eq!((received.length, &text), (3, b"VIA"));
//! assert!(!nic.send_wait(giver, patience)?.status.is_error());
//! # Ok::<(), bellwire_via::Error>(())
//! ```
//!
//! Where the data path is: `post.rs`, `transmit.rs`, `progress.rs`, `deliver.rs`, `complete.rs`;
//! see ARCHITECTURE.md.

pub mod acceptor;
pub mod attention;
pub mod attributes;
pub mod came;
pub mod cause;
pub mod completion_queue;
pub mod descriptor;
pub mod engine;
pub mod error;
pub mod event;
pub mod handles;
pub mod inbox;
pub mod limits;
pub mod lost_link;
pub mod nic;
pub mod ready;
pub mod registration;
pub mod registration_cache;
pub mod request;
pub mod schedule;
pub mod shared_receive_queue;
pub mod status;
pub use bellwire_time as time;
pub use bellwire_wire as wire;
pub use bellwire_wire::{frame, handle};
#[cfg(doctest)]
mod needs_unsafe;
mod user_memory;
pub mod vi;
pub mod work_queue;
pub mod world;

mod advertise;
mod answer;
mod arrive;
mod complete;
mod connection;
mod connections;
mod copied;
mod deliver;
mod fast;
mod lent;
mod parcel;
mod post;
mod post_receive;
mod progress;
mod pull;
mod rdma_in;
mod rdma_out;
mod receive;
mod refuse;
mod round;
mod transmit;
mod way;

pub use acceptor::Acceptor;
pub use bellwire_memory::owned_bytes::OwnedBytes;
pub use connections::{IncomingHandle, WaitHandle};
pub use handles::{CqHandle, InboxHandle, SrqHandle, ViHandle, WorkQueueKind};
pub use parcel::Notice;
pub use request::{ReceiveRequest, SendRequest};

pub use attributes::{MemAttributes, NetAddress, PtagHandle, Reliability, ViAttributes, ViState};
pub use came::Came;
pub use cause::Cause;
pub use complete::Completion;
pub use connection::ConnectionRequest;
pub use copied::{Pieces, WRITE_COPIED_BYTES_MAX};
pub use engine::Engine;
pub use error::Error;
pub use event::Event;
pub use inbox::{Kept, Taken};
pub use lent::{PULL_BYTES_MAX, TIMED_BYTES_MIN};
pub use nic::Nic;
pub use registration::MemHandle;
pub use registration_cache::{CacheAlgorithm, CacheConfig, CacheInfo};
pub use status::{Operation, Status, WorkFlags};
pub use time::{Duration, Instant};
pub use user_memory::MemoryMode;
pub use vi::ViCounters;
pub use work_queue::Segment;
