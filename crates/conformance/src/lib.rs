// SPDX-License-Identifier: MIT OR Apache-2.0
//! The semantics of the engine, stated once and run over every wire.
//!
//! - [`Fixture`]: a wire with its NICs and its time, as a case needs it. [`fixtures`] has those of
//!   the wires that exist.
//! - [`Stage`]: the tools of cases: buffers, VIs, connections, waiting with patience.
//! - [`cases`]: one function per rule, generic over the fixture.
//! - [`suite!`]: makes a test of every case, over one fixture.
//!
//! A case speaks of two sides. With one NIC in the fixture (loopback) both sides are that NIC.

pub mod cases;
pub mod fixture;
pub mod fixtures;
pub mod stage;
mod suite;

pub use fixture::Fixture;
pub use stage::{Buffer, Memory, Port, Stage};
