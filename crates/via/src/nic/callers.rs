// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that wait for requests for connections; how they come and go is in `request_wait.rs`.

use crate::connections::WaitHandle;
use crate::engine::Engine;
use crate::wire::host::HostWire;
use bellwire_memory::event::Bell;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Caller {
    pub(super) wait: WaitHandle,
    pub(super) bell: Arc<Bell>,
}

/// Those who sleep, or are about to.
#[derive(Debug, Default)]
pub(super) struct Callers {
    pub(super) list: Vec<Caller>,
    /// Requests of the engine for which they have been woken.
    pub(super) seen: u64,
}

impl Callers {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether a request has come since they were last woken.
    #[inline]
    pub(super) fn is_asked(&self, engine: &Engine<HostWire>) -> bool {
        !self.list.is_empty() && engine.connection_requests() != self.seen
    }

    /// Rings for those whose wait a request has met, or that is no more.
    pub(super) fn wake_asked(&mut self, engine: &Engine<HostWire>) {
        self.seen = engine.connection_requests();
        for caller in self.list.iter().filter(|caller| engine.is_over(caller.wait)) {
            let _ = caller.bell.ring();
        }
    }
}
