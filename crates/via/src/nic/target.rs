// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a waiter waits for.

use crate::engine::Engine;
use crate::handles::{CqHandle, ViHandle};
use crate::wire::host::HostWire;

/// VIs that are looked at to know whether a completion queue waits for a peer's engine.
const VIS_LOOKED_AT: usize = 64;

/// What a waiter waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A completed send-side request.
    Send(ViHandle),
    /// A completed receive.
    Receive(ViHandle),
    /// An entry of a completion queue.
    Cq(CqHandle),
    /// The end of a connection attempt; a connection request, while its waiter polls.
    Connect,
    /// Something in an inbox, or a connection request.
    Inbox,
}

impl Target {
    /// Whether the waiter should look; rather too often than not.
    pub(super) fn is_ready(self, engine: &Engine<HostWire>) -> bool {
        match self {
            Self::Send(vi) => engine.vis.get(vi).is_none_or(|v| v.send.has_done()),
            Self::Receive(vi) => engine.vis.get(vi).is_none_or(|v| v.receive.has_done()),
            Self::Cq(cq) => engine.cqs.get(cq).is_none_or(|q| !q.entries.is_empty()),
            Self::Connect | Self::Inbox => true,
        }
    }

    /// Whether only the peer's engine can end the wait, which may be asleep while its process
    /// computes.
    pub(super) fn needs_peer(self, engine: &Engine<HostWire>) -> bool {
        let unfinished = |v: &crate::vi::Vi| v.send.done != v.send.works.tail();
        match self {
            Self::Send(vi) => engine.vis.get(vi).is_some_and(unfinished),
            Self::Cq(_) if engine.vis.len() > VIS_LOOKED_AT => true,
            Self::Cq(cq) => engine.vis.iter().any(|(_, v)| v.send_cq == Some(cq) && unfinished(v) || v.receive_cq == Some(cq) && v.attributes.rnr_wait),
            Self::Connect => true,
            // The peer may be asleep over a message that we had no descriptor for.
            Self::Receive(vi) => engine.vis.get(vi).is_some_and(|v| v.attributes.rnr_wait),
            Self::Inbox => false,
        }
    }
}
