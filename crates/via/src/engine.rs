// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine: one NIC's objects, and the calls that make, query and destroy them.
//!
//! A state machine without clock, thread, socket or lock. Inputs: calls, [`Engine::set_now`], and
//! what the wire brings. Outputs: completions in queues, [`Event`]s, and what goes into the wire.
//! Data path: `post.rs`, `transmit.rs`, `progress.rs`, `deliver.rs`, `complete.rs`.

mod adopted;
mod cached;
mod memory;

use crate::attention::Attention;
use crate::attributes::{PtagHandle, Reliability, ViAttributes, ViState};
use crate::cause::Cause;
use crate::completion_queue::{CQ_ENTRIES_MAX, Cq};
use crate::connections::Connections;
use crate::error::Error;
use crate::event::Event;
use crate::handle::{Handle, Slab};
use crate::handles::{CqHandle, SrqHandle, ViHandle, WorkQueueKind};
use crate::handles::{CqTag, InboxTag, SrqTag, ViTag};
use crate::limits::{CQS_MAX, INBOXES_MAX, SRQS_MAX, TRANSFER_BYTES_MAX, VIS_MAX};
use crate::lost_link::{LostLink, LostLinks};
use crate::parcel::Inbox;
use crate::ready::ReadyBitmap;
use crate::registration::Registry;
use crate::registration_cache::{CacheConfig, RegistrationCache};
use crate::round::Round;
use crate::shared_receive_queue::Srq;
use crate::time::Instant;
use crate::user_memory::MemoryMode;
use crate::vi::{Connection, Vi, ViCounters};
use crate::way::Chooser;
use crate::wire::{LinkId, LinkInfo, Purpose, Seed, Wire};
use crate::work_queue::ReceiveQueue;
use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_memory::line_queue::Line;
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;

/// A link as the engine keeps it.
#[derive(Debug)]
pub(crate) struct LinkState {
    pub id: LinkId,
    /// Control frames that found no room.
    pub control_out: VecDeque<(Line, Vec<u8>)>,
    /// The link failed; its VIs are being told.
    pub broken: bool,
    /// Which way large requests take.
    pub ways: Chooser,
    /// It will fail in the next turn: not at once, since a frame of it may still be in use.
    pub doomed: bool,
}

/// Tells the engines of a process apart. No two have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EngineId(u32);

impl EngineId {
    fn next() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: the number is all that matters.
        let next = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_add(1));
        Self(next.expect("fewer engines than numbers"))
    }
}

/// How much of everything a NIC has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Links to other NICs (and to itself).
    pub links: usize,
    /// VIs.
    pub vis: usize,
    /// Registered regions.
    pub regions: usize,
    /// Sum of their lengths; overlaps count twice.
    pub registered_bytes: u64,
    /// Memory of the engine's allocator.
    pub allocated_bytes: u64,
}

/// One NIC.
#[derive(Debug)]
pub struct Engine<W> {
    pub(crate) wire: W,
    /// Which engine of this process it is.
    pub(crate) id: EngineId,
    pub(crate) now: Instant,
    pub(crate) vis: Slab<Vi, ViTag>,
    pub(crate) connection_ids: Slab<Connection>,
    pub(crate) cqs: Slab<Cq, CqTag>,
    pub(crate) srqs: Slab<Srq, SrqTag>,
    pub(crate) inboxes: Slab<Inbox, InboxTag>,
    pub(crate) registry: Registry,
    /// Regions that are kept for the next registration.
    pub(crate) cache: RegistrationCache,
    pub(crate) links: Vec<LinkState>,
    /// Which of them polls look at.
    pub(crate) attention: Attention,
    pub(crate) ready: ReadyBitmap,
    /// Where the round over ready VIs stands.
    pub(crate) round: Round,
    pub(crate) connections: Connections,
    pub(crate) events: VecDeque<Event>,
    pub(crate) random: Pcg64Mcg,
    /// The VI polled last.
    pub(crate) polled_last: ViHandle,
    /// Polls of single VIs, for the turn of everything in between.
    pub(crate) polls: u32,
    /// Frames for connections that are no more.
    pub(crate) stale_frames: u64,
    /// Completions since the engine began: tells sleepers that there is something new.
    pub(crate) completions: u64,
    /// Frames that looks for an inbox found and that were none of its messages: the data of RDMA.
    pub(crate) delivered_beside: u64,
    /// Links that failed.
    pub(crate) lost_links: LostLinks,
    /// Requests are captured: VIs send by the general way.
    pub(crate) captured: bool,
}

impl<W: Wire> Engine<W> {
    /// A NIC on `wire`. Equal seeds, times, calls and wires give equal behaviour.
    pub fn new(wire: W, seed: impl Into<Seed>) -> Self {
        Self {
            wire,
            id: EngineId::next(),
            now: Instant(0),
            vis: Slab::new(VIS_MAX),
            connection_ids: Slab::new(2 * VIS_MAX),
            cqs: Slab::new(CQS_MAX),
            srqs: Slab::new(SRQS_MAX),
            inboxes: Slab::new(INBOXES_MAX),
            registry: Registry::new(),
            cache: RegistrationCache::new(CacheConfig { watch: false, ..CacheConfig::default() }),
            links: Vec::new(),
            attention: Attention::default(),
            ready: ReadyBitmap::default(),
            round: Round::default(),
            connections: Connections::new(),
            events: VecDeque::new(),
            random: Pcg64Mcg::seed_from_u64(seed.into().number(Purpose::Pauses)),
            polled_last: ViHandle::from_raw(0),
            polls: 0,
            stale_frames: 0,
            completions: 0,
            delivered_beside: 0,
            lost_links: LostLinks::default(),
            captured: false,
        }
    }

    /// Whether registered memory of the program is believed to be mapped; to be said before there
    /// is any.
    pub fn set_memory_mode(&mut self, mode: MemoryMode) {
        debug_assert_eq!(self.registry.count(), 0);
        self.registry.strict_pid = if mode == MemoryMode::Strict { std::process::id() } else { 0 };
    }

    /// The mode set by [`set_memory_mode`](Self::set_memory_mode).
    pub fn memory_mode(&self) -> MemoryMode {
        if self.registry.is_strict() { MemoryMode::Strict } else { MemoryMode::Trust }
    }

    /// Tells the time. Time never runs backwards.
    #[inline]
    pub fn set_now(&mut self, now: Instant) {
        if now > self.now {
            self.now = now;
        }
    }

    /// The time as last told.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The wire.
    pub fn wire(&self) -> &W {
        &self.wire
    }

    /// The wire, to be changed.
    ///
    /// # Safety
    /// E1: the wire stays the engine's. It is not replaced, and whatever the engine has been given
    /// (allocations, links, frames that are kept) is not given up.
    pub unsafe fn wire_mut(&mut self) -> &mut W {
        &mut self.wire
    }

    /// Handles what is ready on the wire's control descriptors; never blocks. The next turn tells
    /// of it.
    pub fn handle_control(&mut self) {
        self.wire.handle_control();
    }

    /// What happened outside the queues.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether [`poll_event`](Self::poll_event) has something.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Completions since the engine began.
    #[inline]
    pub fn completions(&self) -> u64 {
        self.completions
    }

    /// Frames that came for connections that are no more.
    pub fn stale_frames(&self) -> u64 {
        self.stale_frames
    }

    /// The links that failed last, oldest first.
    pub fn lost_links(&self) -> impl Iterator<Item = &LostLink> {
        self.lost_links.iter()
    }

    // ---- completion queues

    /// A completion queue for at least `entries` entries.
    pub fn create_cq(&mut self, entries: usize) -> Result<CqHandle, Error> {
        if entries == 0 || entries > CQ_ENTRIES_MAX {
            return Err(Error::InvalidParameter);
        }
        self.cqs.insert(Cq::new(entries)).ok_or(Error::Resource)
    }

    /// Destroys a completion queue that no work queue is bound to.
    pub fn destroy_cq(&mut self, cq: CqHandle) -> Result<(), Error> {
        if self.cqs.get(cq).ok_or(Error::InvalidParameter)?.users != 0 {
            return Err(Error::Resource);
        }
        self.cqs.remove(cq);
        self.completions += 1;
        Ok(())
    }

    /// Changes the number of entries; not below those it holds now.
    pub fn resize_cq(&mut self, cq: CqHandle, entries: usize) -> Result<(), Error> {
        if entries == 0 || entries > CQ_ENTRIES_MAX {
            return Err(Error::InvalidParameter);
        }
        let q = self.cqs.get_mut(cq).ok_or(Error::InvalidParameter)?;
        if entries < q.entries.len() {
            return Err(Error::Resource);
        }
        q.capacity = entries;
        q.entries.reserve(entries.min(4096).saturating_sub(q.entries.len()));
        Ok(())
    }

    /// Whether the handle names a completion queue.
    pub fn has_cq(&self, cq: CqHandle) -> bool {
        self.cqs.get(cq).is_some()
    }

    // ---- shared receive queues

    /// A shared receive queue whose segments are checked against `ptag` (`None`: any).
    pub fn create_srq(&mut self, ptag: Option<PtagHandle>) -> Result<SrqHandle, Error> {
        self.registry.hold_ptag(ptag)?;
        let srq = Srq { queue: ReceiveQueue::default(), ptag: ptag.map_or(0, Handle::raw), users: 0, waiting: VecDeque::new() };
        match self.srqs.insert(srq) {
            Some(h) => Ok(h),
            None => {
                self.registry.release_ptag(ptag);
                Err(Error::Resource)
            }
        }
    }

    /// Destroys a shared receive queue that no VI uses; posted receives are given back unreported
    /// (their descriptors get the flushed status).
    pub fn destroy_srq(&mut self, srq: SrqHandle) -> Result<(), Error> {
        if self.srqs.get(srq).ok_or(Error::InvalidParameter)?.users != 0 {
            return Err(Error::Resource);
        }
        self.flush_srq(srq);
        if let Some(s) = self.srqs.remove(srq) {
            self.registry.release_ptag((s.ptag != 0).then(|| Handle::from_raw(s.ptag)));
        }
        Ok(())
    }

    // ---- VIs

    /// A VI. `send_cq` and `receive_cq` may be the same queue; with `srq`, receives are drawn from
    /// it.
    pub fn create_vi(
        &mut self,
        attributes: &ViAttributes,
        send_cq: Option<CqHandle>,
        receive_cq: Option<CqHandle>,
        srq: Option<SrqHandle>,
    ) -> Result<ViHandle, Error> {
        check_vi_attributes(attributes)?;
        for cq in [send_cq, receive_cq].into_iter().flatten() {
            if self.cqs.get(cq).is_none() {
                return Err(Error::InvalidParameter);
            }
        }
        if srq.is_some_and(|s| self.srqs.get(s).is_none()) {
            return Err(Error::InvalidParameter);
        }
        self.registry.hold_ptag(attributes.ptag)?;
        let new = Vi { captured: self.captured, ..Vi::new(*attributes, send_cq, receive_cq, srq) };
        let Some(vi) = self.vis.insert(new) else {
            self.registry.release_ptag(attributes.ptag);
            return Err(Error::Resource);
        };
        for cq in [send_cq, receive_cq].into_iter().flatten() {
            if let Some(q) = self.cqs.get_mut(cq) {
                q.users += 1;
            }
        }
        if let Some(s) = srq.and_then(|s| self.srqs.get_mut(s)) {
            s.users += 1;
        }
        Ok(vi)
    }

    /// Destroys an idle VI; requests that are still queued are flushed (descriptors get their
    /// status) and dropped.
    pub fn destroy_vi(&mut self, vi: ViHandle) -> Result<(), Error> {
        if self.vis.get(vi).ok_or(Error::InvalidParameter)?.state != ViState::Idle {
            return Err(Error::InvalidState);
        }
        self.flush(vi.index());
        self.ready.remove(vi.index());
        self.connections.forget_attempt(vi);
        self.end_leases(vi);
        self.leave_inbox(vi);
        let Some(v) = self.vis.remove(vi) else { return Err(Error::InvalidParameter) };
        // Its waiters look, and hear that it is gone.
        self.completions += 1;
        self.registry.release_ptag(v.attributes.ptag);
        for cq in [v.send_cq, v.receive_cq].into_iter().flatten() {
            if let Some(q) = self.cqs.get_mut(cq) {
                q.users -= 1;
                q.entries.retain(|(of, _)| *of != vi);
            }
        }
        if let Some(s) = v.srq.and_then(|s| self.srqs.get_mut(s)) {
            s.users -= 1;
            s.waiting.retain(|w| *w != vi);
        }
        Ok(())
    }

    /// State, attributes, and whether the send and receive queues are empty (nothing posted,
    /// nothing to dequeue).
    pub fn query_vi(&self, vi: ViHandle) -> Result<(ViState, ViAttributes, bool, bool), Error> {
        let v = self.vis.get(vi).ok_or(Error::InvalidParameter)?;
        Ok((v.state, v.attributes, v.send.works.is_empty(), v.receive.works.is_empty()))
    }

    /// Changes the attributes of an idle VI.
    pub fn set_vi_attributes(&mut self, vi: ViHandle, attributes: &ViAttributes) -> Result<(), Error> {
        let old = {
            let v = self.vis.get(vi).ok_or(Error::InvalidParameter)?;
            check_vi_attributes(attributes)?;
            if v.state != ViState::Idle {
                return Err(Error::InvalidState);
            }
            v.attributes.ptag
        };
        self.registry.hold_ptag(attributes.ptag)?;
        self.registry.release_ptag(old);
        // Leases were checked against the old tag.
        self.end_leases(vi);
        if let Some(v) = self.vis.get_mut(vi) {
            v.attributes = *attributes;
            v.ptag = attributes.ptag.map_or(0, Handle::raw);
            v.update_paths();
        }
        Ok(())
    }

    /// What a VI has counted.
    pub fn vi_counters(&self, vi: ViHandle) -> Result<ViCounters, Error> {
        self.vis.get(vi).map(|v| v.counters).ok_or(Error::InvalidParameter)
    }

    /// Why the last connection of a VI broke: kept until it is connected again. `None`: it did not
    /// break, or its program ended it.
    pub fn vi_cause(&self, vi: ViHandle) -> Result<Option<Cause>, Error> {
        self.vis.get(vi).map(|v| v.cause).ok_or(Error::InvalidParameter)
    }

    /// The link of a connected VI.
    pub fn vi_link(&self, vi: ViHandle) -> Result<Option<(LinkId, LinkInfo)>, Error> {
        let v = self.vis.get(vi).ok_or(Error::InvalidParameter)?;
        Ok((v.state == ViState::Connected).then(|| (v.link, self.wire.link_info(v.link))))
    }

    /// Memory that a VI holds, bytes.
    pub fn vi_memory_bytes(&self, vi: ViHandle) -> Result<usize, Error> {
        self.vis.get(vi).map(Vi::memory_bytes).ok_or(Error::InvalidParameter)
    }

    /// VIs, completion queues and tags are gone? For a NIC that is to be closed.
    pub fn is_unused(&self) -> bool {
        self.vis.is_empty() && self.cqs.is_empty() && self.srqs.is_empty() && self.inboxes.is_empty()
    }

    /// Whether the completions of a work queue go to a completion queue.
    #[inline]
    pub fn is_bound(&self, vi: ViHandle, queue: WorkQueueKind) -> Result<bool, Error> {
        let v = self.vis.get(vi).ok_or(Error::InvalidParameter)?;
        Ok(match queue {
            WorkQueueKind::Send => v.send_cq.is_some(),
            WorkQueueKind::Receive => v.receive_cq.is_some(),
        })
    }

    /// How much of everything there is. Costs by the region.
    pub fn usage(&self) -> Usage {
        let (registered_bytes, allocated_bytes) = self.registry.bytes();
        Usage { links: self.links.len(), vis: self.vis.len(), regions: self.registry.count(), registered_bytes, allocated_bytes }
    }

    /// Forgets every VI, queue and connection attempt, without touching what is posted: for a NIC
    /// that is about to be dropped while others may wait in it. A waiter finds that its object
    /// is gone. Connections end with the wire.
    pub fn abandon(&mut self) {
        for vi in self.vi_handles() {
            self.vis.remove(vi);
        }
        for cq in self.cqs.iter().map(|(h, _)| h).collect::<Vec<_>>() {
            self.cqs.remove(cq);
        }
        for srq in self.srqs.iter().map(|(h, _)| h).collect::<Vec<_>>() {
            self.srqs.remove(srq);
        }
        self.connection_ids = Slab::new(2 * VIS_MAX);
        self.ready = ReadyBitmap::default();
        // Counted as a request: a thread that waits for one looks, and finds that its wait is gone.
        let arrived = self.connections.arrived + 1;
        self.connections = Connections { arrived, ..Connections::new() };
        self.completions += 1;
    }

    /// The live VIs.
    pub fn vi_handles(&self) -> Vec<ViHandle> {
        self.vis.iter().map(|(h, _)| h).collect()
    }

    /// Asks for one [`Event::Notify`] when a completion of that queue is there.
    pub fn notify(&mut self, vi: ViHandle, queue: WorkQueueKind) -> Result<(), Error> {
        let v = self.vis.get_mut(vi).ok_or(Error::InvalidParameter)?;
        let there = match queue {
            WorkQueueKind::Send => v.send.has_done(),
            WorkQueueKind::Receive => v.receive.has_done(),
        };
        if there {
            self.events.push_back(Event::Notify(vi, queue));
        } else {
            v.notify[queue as usize] += 1;
            v.update_paths();
        }
        Ok(())
    }

    /// Asks for one [`Event::NotifyCq`] when an entry is there.
    pub fn notify_cq(&mut self, cq: CqHandle) -> Result<(), Error> {
        let q = self.cqs.get_mut(cq).ok_or(Error::InvalidParameter)?;
        if q.entries.is_empty() {
            q.notify += 1;
        } else {
            self.events.push_back(Event::NotifyCq(cq));
        }
        Ok(())
    }
}

fn check_vi_attributes(a: &ViAttributes) -> Result<(), Error> {
    if a.max_transfer_bytes == 0 || a.max_transfer_bytes > TRANSFER_BYTES_MAX {
        return Err(Error::InvalidMtu);
    }
    if a.rdma_read && a.reliability == Reliability::Unreliable {
        return Err(Error::InvalidRdmaRead);
    }
    if a.rnr_wait && a.reliability == Reliability::Unreliable {
        return Err(Error::InvalidReliability);
    }
    Ok(())
}
