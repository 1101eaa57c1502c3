// SPDX-License-Identifier: MIT OR Apache-2.0
//! The witnesses of requests, who see them begin and end: the strict mode (`strict.rs`), a capture
//! (`capture.rs`). With one of them, requests go the long ways, which tell of both.

use crate::core::Core;
use crate::qp::Send;
use crate::types::WcStatus;

impl Core {
    /// A request has just been posted: the last of its queue.
    #[cold]
    pub(crate) fn witness_post(&mut self, number: u32) {
        if self.strict.is_some() {
            self.saw_post(number);
        }
        if self.captured.is_some() {
            self.capture_post(number);
        }
    }

    /// The first request of a queue pair ends, and is no longer in its queue.
    #[cold]
    pub(crate) fn witness_end(&mut self, number: u32, send: &Send, status: WcStatus, is_told: bool) {
        if self.strict.is_some() {
            self.saw_end(number, send, status, is_told);
        }
        if self.captured.is_some() {
            self.capture_end(number, send, status);
        }
    }
}
