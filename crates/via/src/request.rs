// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests, as programs post them.

use crate::descriptor::DescriptorRef;
use crate::status::{Operation, WorkFlags};
use crate::work_queue::Segment;

/// A send-side request.
#[derive(Clone, Copy, Debug)]
pub struct SendRequest<'a> {
    /// What to do.
    pub operation: Operation,
    /// How.
    pub flags: WorkFlags,
    /// Local memory: gathered from (send, write) or scattered to (read).
    pub segments: &'a [Segment],
    /// Immediate data, with [`WorkFlags::IMMEDIATE`].
    pub immediate: u32,
    /// RDMA: address in the target's memory.
    pub remote_address: u64,
    /// RDMA: the target's memory handle.
    pub remote_handle: u32,
    /// The caller's name for the request.
    pub context: u64,
    /// The VIA descriptor to complete, if there is one.
    pub descriptor: Option<DescriptorRef>,
}

impl Default for SendRequest<'_> {
    fn default() -> Self {
        Self {
            operation: Operation::Send,
            flags: WorkFlags::empty(),
            segments: &[],
            immediate: 0,
            remote_address: 0,
            remote_handle: 0,
            context: 0,
            descriptor: None,
        }
    }
}

/// A receive request.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReceiveRequest<'a> {
    /// Local memory to scatter to.
    pub segments: &'a [Segment],
    /// The caller's name for the request.
    pub context: u64,
    /// The VIA descriptor to complete, if there is one.
    pub descriptor: Option<DescriptorRef>,
}
