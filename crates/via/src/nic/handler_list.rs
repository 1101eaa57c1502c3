// SPDX-License-Identifier: MIT OR Apache-2.0
//! The handlers that wait, under the token; the error handler. They are called in `handlers.rs`.

use crate::complete::Completion;
use crate::event::AsyncError;
use crate::handles::{CqHandle, ViHandle, WorkQueueKind};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub(super) type QueueHandler = Box<dyn FnOnce(ViHandle, Completion) + Send>;
pub(super) type CqHandler = Box<dyn FnOnce(ViHandle, WorkQueueKind) + Send>;
pub(super) type ErrorHandler = Arc<dyn Fn(AsyncError) + Send + Sync>;

/// Handlers that wait, oldest first.
#[derive(Default)]
pub(super) struct Handlers {
    pub(super) queues: BTreeMap<(ViHandle, WorkQueueKind), VecDeque<QueueHandler>>,
    pub(super) cqs: BTreeMap<CqHandle, VecDeque<CqHandler>>,
    pub(super) count: usize,
}

impl Handlers {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn pop_queue(&mut self, key: (ViHandle, WorkQueueKind)) -> Option<QueueHandler> {
        let waiting = self.queues.get_mut(&key)?;
        let handler = waiting.pop_front();
        if waiting.is_empty() {
            self.queues.remove(&key);
        }
        self.count -= usize::from(handler.is_some());
        handler
    }

    pub(super) fn pop_cq(&mut self, cq: CqHandle) -> Option<CqHandler> {
        let waiting = self.cqs.get_mut(&cq)?;
        let handler = waiting.pop_front();
        if waiting.is_empty() {
            self.cqs.remove(&cq);
        }
        self.count -= usize::from(handler.is_some());
        handler
    }
}

/// The error handler, and what waits for one.
#[derive(Default)]
pub(super) struct ErrorHandling {
    pub(super) handler: Option<ErrorHandler>,
    pub(super) kept: VecDeque<AsyncError>,
}
