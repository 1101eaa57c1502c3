// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of the engine's objects.

use crate::handle::Handle;

/// Marks handles of VIs.
#[derive(Debug)]
pub struct ViTag;
/// Names a VI.
pub type ViHandle = Handle<ViTag>;

/// Marks handles of completion queues.
#[derive(Debug)]
pub struct CqTag;
/// Names a completion queue.
pub type CqHandle = Handle<CqTag>;

/// Marks handles of shared receive queues.
#[derive(Debug)]
pub struct SrqTag;
/// Names a shared receive queue.
pub type SrqHandle = Handle<SrqTag>;

/// Marks handles of inboxes.
#[derive(Debug)]
pub struct InboxTag;
/// Names an inbox.
pub type InboxHandle = Handle<InboxTag>;

/// One of a VI's two work queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum WorkQueueKind {
    /// Sends, RDMA writes and reads.
    Send = 0,
    /// Receives.
    Receive = 1,
}
