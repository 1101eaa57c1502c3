// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion queues: one entry per completion of the work queues bound to them.

use crate::handles::{ViHandle, WorkQueueKind};
use std::collections::VecDeque;

/// Entries that a completion queue may have.
pub const CQ_ENTRIES_MAX: usize = 1 << 20;

/// A completion queue.
#[derive(Debug)]
pub struct Cq {
    pub(crate) entries: VecDeque<(ViHandle, WorkQueueKind)>,
    pub(crate) capacity: usize,
    /// Work queues bound to it.
    pub(crate) users: u32,
    /// An entry did not fit: told once.
    pub(crate) overflowed: bool,
    /// Handlers waiting for one entry each.
    pub(crate) notify: u32,
}

impl Cq {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { entries: VecDeque::with_capacity(capacity.min(4096)), capacity, users: 0, overflowed: false, notify: 0 }
    }
}
