// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probes: where the time of a get by packets goes, for a measuring program that asks with its own
//! [`Probe`] (`bellwire gas --only steps`), in the manner of those of Active Messages.
//!
//! The calls of a get's way are generic over who watches. Programs call them with [`Off`], of whose
//! probes no code is left. A probe marks the instant at which a step of the way is over: once for
//! each get and its answer, and not by looks that find nothing.

pub use bellwire_trace::probe::{Off, Probe};

/// A step that is over, in the order in which a process passes them: the first four in the process
/// that asks, the others in the one that is asked and then in the one that asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stage {
    /// The NIC's token is held, and with it the machine.
    Entered,
    /// The peer is found, there is room for an answer, and a credit.
    Allowed,
    /// The request is put together.
    Built,
    /// It has left.
    Sent,
    /// A message is found.
    Found,
    /// Its head is read and checked, its credits are back.
    Parsed,
    /// What it asks for is read and put together; or, of an answer, in its place.
    Handled,
    /// The answer has left.
    Left,
}

impl Stage {
    /// How many there are.
    pub const COUNT: usize = Self::Left as usize + 1;
}
