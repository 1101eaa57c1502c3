// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device as a machine on an engine of the caller's, over any wire and in the time that the
//! engine is told: for simulators and fuzzers. Programs have a [`Port`](crate::Port), which is this
//! on a NIC.

use crate::channel::Channel;
use crate::core::{AsyncEvent, Core};
use crate::life::create_mailbox;
use crate::memory::Region;
use crate::modify::Given;
use crate::name::Name;
use crate::qp::{QpAttributes, QpInit, SendRequest};
use crate::types::{Access, Completion, Error, Gid, QpState, Sge};
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, MemAttributes, MemHandle, NetAddress};
use std::sync::Arc;

/// Quality of service word with which connections of this layer are asked for.
pub const VERSION: u64 = crate::life::VERSION;

/// A device without a NIC. Its calls are those of [`Port`](crate::Port), told the engine.
#[derive(Debug)]
pub struct Machine(Core);

impl Machine {
    /// A device at a GID, which takes the first free place from `place` on.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; [`Error::Invalid`]: that is no GID of the engine's.
    pub fn new<W: Wire>(engine: &mut Engine<W>, gid: Gid, place: u16) -> Result<Self, Error> {
        let events = Channel::new().map_err(|_| Error::NoMemory)?;
        let mut core = Core::new(create_mailbox(engine)?, Name { gid, place: 1 }, Arc::new(events), None);
        core.settle(engine, place)?;
        Ok(Self(core))
    }

    /// Where the process of a queue pair waits for connections, and what it asks for them as.
    pub fn addresses(gid: Gid, qp: u32) -> Option<(NetAddress, NetAddress)> {
        let name = Name::of(gid, qp);
        name.waits_at().zip(name.asks_as())
    }

    /// Has all messages go the long way, which knows every case: tests compare both ways.
    pub fn leave_short_ways(&mut self) {
        self.0.long_ways = true;
    }

    /// See [`Port::create_domain`](crate::Port::create_domain).
    ///
    /// # Errors
    /// As there.
    pub fn create_domain(&mut self) -> Result<u32, Error> {
        self.0.domains.create()
    }

    /// See [`Port::register`](crate::Port::register); memory is not adopted.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// R1, as there.
    pub unsafe fn register<W: Wire>(&mut self, engine: &mut Engine<W>, region: &Region) -> Result<u32, Error> {
        let writes = region.access.intersects(Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
        let attributes = MemAttributes { ptag: self.0.mailbox.ptag(), rdma_write: writes, rdma_read: false };
        // SAFETY: R1, the caller's promise.
        let handle = unsafe { crate::registration::key_of_region(engine, region, &attributes) }?;
        self.0.list_region(handle, Region { adopted: None, ..*region })?;
        Ok(handle.raw())
    }

    /// See [`Port::deregister`](crate::Port::deregister).
    ///
    /// # Errors
    /// As there.
    pub fn deregister<W: Wire>(&mut self, engine: &mut Engine<W>, key: u32) -> Result<(), Error> {
        let region = self.0.unlist_region(key)?;
        Ok(engine.deregister(region.address, MemHandle::from_raw(key))?)
    }

    /// See [`Port::create_cq`](crate::Port::create_cq); nobody listens.
    ///
    /// # Errors
    /// As there.
    pub fn create_cq(&mut self, entries: usize) -> Result<u32, Error> {
        self.0.create_cq(entries, None, 0)
    }

    /// See [`Port::create_srq`](crate::Port::create_srq).
    ///
    /// # Errors
    /// As there.
    pub fn create_srq(&mut self, domain: u32, capacity: usize, pieces_max: usize, limit: usize) -> Result<u32, Error> {
        self.0.create_srq(domain, capacity, pieces_max, limit, 0)
    }

    /// See [`Port::post_srq`](crate::Port::post_srq).
    ///
    /// # Errors
    /// As there.
    pub fn post_srq(&mut self, srq: u32, wr_id: u64, pieces: &[Sge]) -> Result<(), Error> {
        self.0.srq(srq)?.queue.post(wr_id, pieces)
    }

    /// See [`Port::create_qp`](crate::Port::create_qp).
    ///
    /// # Errors
    /// As there.
    pub fn create_qp(&mut self, init: &QpInit) -> Result<u32, Error> {
        self.0.create_qp(init)
    }

    /// See [`Port::destroy_qp`](crate::Port::destroy_qp).
    ///
    /// # Errors
    /// As there.
    pub fn destroy_qp<W: Wire>(&mut self, engine: &mut Engine<W>, qp: u32) -> Result<(), Error> {
        self.0.tell(engine, qp);
        self.0.destroy_qp(engine, qp)
    }

    /// See [`Port::modify_qp`](crate::Port::modify_qp).
    ///
    /// # Errors
    /// As there.
    pub fn modify_qp<W: Wire>(&mut self, engine: &mut Engine<W>, qp: u32, to: QpState, attributes: &QpAttributes, given: Given) -> Result<(), Error> {
        self.0.now = engine.now().0;
        self.0.modify(engine, qp, Some(to), None, attributes, given)
    }

    /// The state of a queue pair.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn state(&mut self, qp: u32) -> Result<QpState, Error> {
        Ok(self.0.qp(qp).ok_or(Error::Invalid)?.state)
    }

    /// See [`Port::post_send`](crate::Port::post_send).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// R2, as there.
    pub unsafe fn post_send<W: Wire>(&mut self, engine: &mut Engine<W>, qp: u32, request: &SendRequest<'_>) -> Result<(), Error> {
        self.0.now = engine.now().0;
        // SAFETY: R2, the caller's promise.
        unsafe { self.0.post_send(engine, qp, request) }
    }

    /// See [`Port::post_receive`](crate::Port::post_receive).
    ///
    /// # Errors
    /// As there.
    pub fn post_receive(&mut self, qp: u32, wr_id: u64, pieces: &[Sge]) -> Result<(), Error> {
        self.0.post_receive(qp, wr_id, pieces)
    }

    /// One look: timers that are due, requests for connections, the next packet, packets that wait
    /// to leave. `false`: there was nothing.
    pub fn poll<W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        self.0.now = engine.now().0;
        self.0.timeouts(engine);
        if self.0.acceptor.is_asked(engine) {
            self.0.accept(engine);
            return true;
        }
        self.0.step(engine, true)
    }

    /// When it wants to look next although nothing has come, ns.
    pub fn next_time(&self) -> Option<u64> {
        self.0.timers.first().map(|(at, _)| *at).filter(|at| *at != u64::MAX)
    }

    /// Takes completions.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn poll_cq(&mut self, cq: u32, most: usize) -> Result<Vec<Completion>, Error> {
        let entries = &mut self.0.cq(cq)?.entries;
        let n = entries.len().min(most);
        Ok((0..n).filter_map(|_| entries.pop_front()).collect())
    }

    /// The next thing that happened beside the queues.
    pub fn event(&self) -> Option<AsyncEvent> {
        self.0.events.pop()
    }

    /// Sends and receives of a queue pair that are not complete.
    pub fn posted(&mut self, qp: u32) -> Option<(usize, usize)> {
        self.0.qp(qp).map(|q| (q.sends.len(), q.receives.posted.len()))
    }

    /// Whether a queue pair has taken a request of its peer since it was connected.
    pub fn knows_peer(&self, qp: u32) -> bool {
        self.0.qps.iter().flatten().any(|q| q.number == qp && q.peer_life != 0)
    }

    /// Connections.
    pub fn connections(&self) -> usize {
        self.0.connections.len()
    }

    /// Ends all connections; nobody is accepted any more.
    pub fn close<W: Wire>(&mut self, engine: &mut Engine<W>) {
        self.0.close(engine);
    }
}
