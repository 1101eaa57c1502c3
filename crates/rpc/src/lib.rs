// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remote procedure calls on Active Messages, over shared memory and UDP.
//!
//! ```
//! use bellwire_rpc::{Node, Procedure};
//!
//! const ADD: Procedure<[u32; 2], u32> = Procedure::new("add", 1);
//!
//! let (server, client) = (Node::open()?, Node::open()?);
//! server.serve(&ADD, |[a, b], _| Ok(a + b))?;
//! let peer = client.connect(&server.address())?;
//! let sum = client.start(peer, &ADD, &[2, 3], None)?;
//! while !sum.is_done() {
//!     server.poll()?; // in another process, as a rule
//!     client.poll()?;
//! }
//! assert_eq!(sum.wait(), Ok(5));
//! # Ok::<(), bellwire_rpc::Error>(())
//! ```
//!
//! A [`Node`] calls and is called. A call ends exactly once: by its result, or by one of
//! [`CallError`]. Arguments and results are of any size: small ones travel within a message, large
//! ones in parts, as fast as the receiver takes them. Something has to poll: [`Pending::wait`]
//! does, [`Node::drive`] does nothing else.
//!
//! | file | concern |
//! |---|---|
//! | `node.rs`, `drive.rs` | a node, its peers and procedures; polling and waiting |
//! | `names.rs` | addresses of nodes; peers and calls, by number |
//! | `pending.rs` | a call that is under way; futures |
//! | `codec.rs`, `scratch.rs` | values as bytes, and room for them |
//! | `procedure.rs` | names and types of procedures |
//! | `call.rs`, `result.rs` | the calling side: calls leave, results come back |
//! | `serve.rs`, `deferred.rs` | the side that is called: calls arrive; answers that are given later |
//! | `state.rs`, `calls.rs`, `route.rs` | what a node knows: calls under way, queues to others |
//! | `observed.rs` | a node that is traced |
//! | `assembly.rs`, `wire.rs` | large values out of parts; messages as they travel |
//!
//! **Locks.** A node's state is behind a token (as a bundle's core); it is taken before the
//! bundle's, and never held while functions of the program run.
//!
//! **Peers are not trusted.** What they send is copied once, then checked. They can use up only
//! what [`Limits`] allows: calls served for each, bytes of large values in all. Answers count only
//! if they come over the connection that the call went over, or carry a secret that only its
//! receiver was told.

#![forbid(unsafe_code)]

mod assembly;
mod call;
mod calls;
mod codec;
mod deferred;
mod drive;
mod error;
mod names;
mod node;
mod observed;
mod pending;
mod procedure;
mod result;
mod route;
mod scratch;
mod serve;
mod state;
mod wire;

pub use bellwire_am::{Death, Device};
pub use codec::{Codec, Plain, signature};
pub use deferred::{Reply, Responder};
pub use error::{CallError, Error, Failure, Gone};
pub use names::{ADDRESS_BYTES, Address, Outstanding, Peer};
pub use node::Node;
pub use pending::Pending;
pub use procedure::{NAME_BYTES_MAX, Procedure, Signature};
pub use state::{Context, Incoming, Limits};
