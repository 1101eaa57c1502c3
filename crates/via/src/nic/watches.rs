// SPDX-License-Identifier: MIT OR Apache-2.0
//! The completion queues that have descriptors, and which of them are armed; the calls are in
//! `watch.rs`, where W1 and W2 are.

use crate::engine::Engine;
use crate::handles::CqHandle;
use crate::wire::host::HostWire;
use bellwire_memory::event::Bell;
use std::collections::BTreeMap;

pub(super) struct Watch {
    pub(super) bell: Bell,
    pub(super) rung: bool,
}

/// The queues that have descriptors.
#[derive(Default)]
pub(super) struct Watches {
    pub(super) all: BTreeMap<CqHandle, Watch>,
    /// W1.
    pub(super) armed: Vec<CqHandle>,
}

impl Watches {
    #[inline]
    pub(super) fn any_armed(&self) -> bool {
        !self.armed.is_empty()
    }

    /// Makes the descriptors of armed queues readable that have an entry, or are no more.
    pub(super) fn ring_ready(&mut self, engine: &Engine<HostWire>) {
        let all = &mut self.all;
        self.armed.retain(|cq| {
            let entries = engine.cqs.get(*cq).map(|q| q.entries.len());
            if entries == Some(0) {
                return true;
            }
            if let Some(watch) = all.get_mut(cq) {
                let _ = watch.bell.ring();
                watch.rung = true;
            }
            if entries.is_none() {
                all.remove(cq);
            }
            false
        });
    }

    /// Forgets queues that are no more.
    pub(super) fn sweep(&mut self, engine: &Engine<HostWire>) {
        self.ring_ready(engine);
        self.all.retain(|cq, _| engine.has_cq(*cq));
    }
}
