// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the engine tells its owner outside the queues.

use crate::cause::Cause;
use crate::handles::{CqHandle, ViHandle, WorkQueueKind};

/// Asynchronous error codes, with VIA's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AsyncErrorCode {
    /// A descriptor could not be posted.
    PostDescriptor = 0,
    /// The connection is lost.
    ConnectionLost = 1,
    /// A message found no receive descriptor.
    ReceiveQueueEmpty = 2,
    /// A message was too long for its receive descriptor, or an internal limit was hit.
    Overrun = 3,
    /// The peer tried to write what it may not.
    RdmaWriteProtection = 4,
    /// The peer's write failed for its data.
    RdmaWriteData = 5,
    /// The peer's write was cut off.
    RdmaWriteAbort = 6,
    /// The peer tried to read what it may not.
    RdmaReadProtection = 7,
    /// Completion could not be written.
    CompletionProtection = 8,
    /// The wire failed an RDMA operation.
    RdmaTransport = 9,
    /// A completion was lost, or worse.
    Catastrophic = 10,
}

/// An asynchronous error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncError {
    /// The VI it concerns.
    pub vi: Option<ViHandle>,
    /// The completion queue it concerns.
    pub cq: Option<CqHandle>,
    /// What happened.
    pub code: AsyncErrorCode,
    /// Why, if a connection broke.
    pub cause: Option<Cause>,
}

/// Something for the NIC's owner to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// For the error handler.
    AsyncError(AsyncError),
    /// A completion is there for a handler that waits on this work queue.
    Notify(ViHandle, WorkQueueKind),
    /// An entry is there for a handler that waits on this completion queue.
    NotifyCq(CqHandle),
}
