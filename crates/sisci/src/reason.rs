// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of segments.

/// What happened to a segment or to a connection to it. The numbers are those of `sisci_types.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reason {
    /// A node has connected.
    Connect = 1,
    /// It has left, or the owner asks to leave.
    Disconnect = 2,
    /// The way to the peer is out of order.
    NotOperational = 3,
    /// The way to the peer is in order again.
    Operational = 4,
    /// The peer is gone.
    Lost = 5,
}
