// SPDX-License-Identifier: MIT OR Apache-2.0
//! Grants: the owner of memory that a peer can map tells it, for a queue pair and a key, where the
//! memory lies and what the engine calls it. The peer then does its requests itself (`direct.rs`),
//! and the engine's catalogue decides about each access by that name.
//!
//! Invariant G1: a name that was granted to the peer of a queue pair is valid only while the queue
//! pair takes requests, with the rights that it had. When that ends the memory gets another name
//! before the call returns, and nobody is inside it by the old one. Peers of other queue pairs,
//! which go by packets then, are told the new name.

use crate::connection::ConnectionId;
use crate::core::Core;
use crate::header::{Head, Kind};
use crate::memory::{Adopted, Grant};
use crate::registration::disown;
use crate::types::{Access, QpKind};
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, MemHandle};

/// Grants that a queue pair remembers.
const GRANTS_MAX: usize = 64;

impl Core {
    /// The peer says where memory lies.
    pub(crate) fn granted(&mut self, head: &Head) {
        let Some(qp) = self.qp(head.to).filter(|q| q.init.kind == QpKind::Rc) else { return };
        let [start, length, handle, address] = head.words;
        if address.checked_add(length).is_none() || start.checked_add(length).is_none() {
            return;
        }
        let grant =
            Grant { key: head.immediate, access: Access::from_bits_truncate(u32::from(head.flags >> 4)), start, length, handle: handle as u32, address };
        qp.grants.retain(|g| g.key != grant.key);
        qp.grants.insert(0, grant);
        qp.grants.truncate(GRANTS_MAX);
    }

    /// A peer has used memory by its key: if it can map it, it is told how, once.
    #[inline]
    pub(crate) fn grant(&mut self, to: ConnectionId, number: u32, key: u32) -> Option<(ConnectionId, Head)> {
        let region = *self.regions.get(key)?;
        let adopted = region.adopted?;
        // Between hosts the peer cannot use a grant, and would wait at each request for its turn to
        // use it.
        self.connections.get(to).filter(|c| c.is_mapped)?;
        let qp = self.qp(number).filter(|q| q.init.kind == QpKind::Rc && !q.told_grants.contains(&key))?;
        if qp.told_grants.len() >= GRANTS_MAX {
            qp.told_grants.remove(0);
        }
        qp.told_grants.push(key);
        let mut head = Head::new(Kind::Grant, qp.attributes.peer, number);
        (head.answered, head.echo) = (qp.expected, qp.peer_life);
        qp.told = qp.expected;
        head.immediate = key;
        let mut access = region.access & qp.attributes.access;
        if !region.access.contains(Access::REMOTE_WRITE) {
            // The engine knows reading and writing only.
            access -= Access::REMOTE_ATOMIC;
        }
        head.flags = (access.bits() as u8) << 4;
        head.words = [region.iova + (adopted.start - region.address), adopted.length, u64::from(adopted.handle), adopted.base];
        Some((to, head))
    }
    /// The peer of a queue pair can reach no memory any more that it was told of (G1).
    #[cold]
    pub(crate) fn withdraw_grants<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32) {
        let told = self.qp(number).map(|qp| core::mem::take(&mut qp.told_grants)).unwrap_or_default();
        for key in told {
            self.rename(engine, key);
            // Once for all that were told of it.
            self.qps.iter_mut().flatten().for_each(|qp| qp.told_grants.retain(|k| *k != key));
        }
    }

    /// Gives the memory of a region that peers map another name in the engine; if that cannot be,
    /// peers reach it by packets alone.
    fn rename<W: Wire>(&mut self, engine: &mut Engine<W>, key: u32) {
        let Some(adopted) = self.regions.get(key).and_then(|r| r.adopted) else { return };
        let renamed = engine.register_anew(adopted.base, MemHandle::from_raw(adopted.handle)).ok();
        if renamed.is_none() {
            disown(engine, self.owner(), Some(adopted));
        }
        if let Some(region) = self.regions.get_mut(key) {
            region.adopted = renamed.map(|handle| Adopted { handle: handle.raw(), ..adopted });
        }
    }
}
