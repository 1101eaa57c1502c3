// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared receive queues: receive descriptors that several VIs draw from.

use crate::handles::ViHandle;
use crate::work_queue::ReceiveQueue;
use std::collections::VecDeque;

/// A shared receive queue. Its requests move to the VI whose message takes them; only `works` past
/// `done` is in use here.
#[derive(Debug)]
pub struct Srq {
    pub(crate) queue: ReceiveQueue,
    pub(crate) ptag: u32,
    pub(crate) users: u32,
    /// VIs that told their peer "not ready", oldest first.
    pub(crate) waiting: VecDeque<ViHandle>,
}
