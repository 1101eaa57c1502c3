// SPDX-License-Identifier: MIT OR Apache-2.0
//! Somebody on the network who hears every packet and can say it again under its sender's address.
//! Called by tests.

use super::Fabric;
use super::hash;
use super::packets::Packet;
use super::record::{DropCause, Mark, What};
use core::net::SocketAddr;

/// A packet as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overheard {
    /// Whose address it came from.
    pub from: SocketAddr,
    /// Where it went.
    pub to: SocketAddr,
    /// What it carried.
    pub bytes: Vec<u8>,
}

impl Fabric {
    /// Keeps a copy of every packet that is sent from now on.
    pub fn listen_in(&mut self) {
        self.overheard.get_or_insert_default();
    }

    /// The packets sent since [`listen_in`](Self::listen_in); no more is kept.
    pub fn overheard(&mut self) -> Vec<Overheard> {
        self.overheard.take().unwrap_or_default()
    }

    /// Says it again: it arrives at once, as if its sender had sent it. Nothing happens if one of
    /// the two addresses is no node's.
    pub fn say_again(&mut self, packet: &Overheard) {
        let Overheard { from, to, bytes } = packet;
        let (Some(&source), Some(&target)) = (self.node_at.get(&from.ip()), self.node_at.get(&to.ip())) else { return };
        let mark = Mark { bytes: bytes.len() as u64, hash: hash::of_bytes(bytes) };
        self.record.statistics.sent += 1;
        self.record.note(self.now, What::Sent, source, mark, 0, || format!("{from}>{to} again"));
        let id = self.packets.add(Packet { bytes: bytes.clone(), from: *from, to: *to, source, target, next: 0, end: 0, hash: mark.hash, damage: Vec::new() });
        if !self.deliver(id) {
            self.discard(id, DropCause::InboxFull, None);
        }
        self.settle();
    }
}
