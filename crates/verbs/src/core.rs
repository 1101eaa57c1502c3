// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device of a process as a machine: told the engine and the time, it fills completion queues. No
//! lock, clock or thread.
//!
//! Invariants
//! - C1: a request is in its queue from its post until its completion is given, once, in order; an
//!   unsignalled one that succeeds gives none.
//! - C2: a packet changes a queue pair only if it comes from the process that the queue pair is
//!   connected to (datagrams: from anybody who knows the key).

use crate::armed::ArmedQueues;
use crate::captured::Captured;
use crate::channel::Channel;
use crate::connection::{Connection, ConnectionId};
use crate::domains::Domains;
use crate::fates::Struck;
use crate::header::Ends;
use crate::joined::Groups;
use crate::lost::Lost;
use crate::managed::Managed;
use crate::memory::Regions;
use crate::name::{Name, QPS_MAX};
use crate::observed::Observed;
use crate::patience::Patience;
use crate::qp::{Qp, QpInit};
use crate::queue::{CQ_ENTRIES_MAX, Cq, Listener, Receive, ReceiveQueue, Srq};
use crate::types::{AsyncKind, Completion, Error, QpKind, QpState, WcStatus};
use crate::watch::Strict;
use crate::windows::Windows;
use bellwire_peer::{Mailbox, Unsent};
use bellwire_via::handle::{Handle, Slab};
use bellwire_via::wire::{Keys, Wire};
use bellwire_via::{Acceptor, Engine};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const CONNECTIONS_MAX: usize = 1 << 16;
const OBJECTS_MAX: usize = 1 << 16;

/// Something that happened beside the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncEvent {
    /// What.
    pub kind: AsyncKind,
    /// The program's name for the object; the number of the port.
    pub cookie: u64,
}

/// A device of a process.
#[derive(Debug)]
pub(crate) struct Core {
    pub mailbox: Mailbox,
    pub name: Name,
    /// Where others ask for connections; requests seen to.
    pub acceptor: Acceptor,
    pub connections: Slab<Connection>,
    /// The connection on which requests to a process leave.
    pub by_peer: BTreeMap<Name, ConnectionId>,
    /// Why earlier connections ended.
    pub lost: Lost,
    /// Connections with something that waits to leave.
    pub unsent: Unsent<ConnectionId>,
    pub regions: Regions,
    pub domains: Domains,
    pub cqs: Slab<Cq>,
    pub srqs: Slab<Srq>,
    /// Shared receive queues by the numbers that peers know.
    pub srq_numbers: BTreeMap<u32, u32>,
    next_srq: usize,
    pub xrc_domains: Domains,
    pub windows: Windows,
    pub qps: Vec<Option<Box<Qp>>>,
    next_qp: usize,
    pub qp_count: usize,
    /// Queue pairs whose peers have not been told what was done.
    pub owing: Vec<u32>,
    pub timers: BTreeSet<(u64, u32)>,
    /// The time, ns, as last told or asked of `clock`; without a clock it is told before each call.
    pub now: u64,
    pub clock: Option<fn() -> u64>,
    pub events: Arc<Channel<AsyncEvent>>,
    /// There was a queue pair whose requests are complete before their peer has them.
    pub sends_unreliably: bool,
    /// Requests of the program.
    pub posts: u64,
    /// The queue for which a poll looked last, if that look found nothing.
    pub looked_in_vain: Option<u32>,
    /// Answers to peers are delayed: the program may be about to post a request that takes them
    /// along.
    pub lingers: bool,
    pub patience: Patience,
    /// Armed completion queues, and how the program waits for them.
    pub armed: ArmedQueues,
    /// The short ways are not taken: while memory may be unmapped, and for tests, which compare.
    pub long_ways: bool,
    /// Whether the kernel copies within this process, if it was asked.
    pub copies_by_kernel: Option<bool>,
    /// The port was taken down from outside.
    pub is_closed: bool,
    /// Connection management, once it was asked for.
    pub managed: Option<Box<Managed>>,
    /// Multicast, once it was asked for.
    pub groups: Option<Box<Groups>>,
    /// The keys of the NIC, if it has some.
    pub keys: Option<Arc<Keys>>,
    /// Faults on purpose.
    pub struck: Option<Box<Struck>>,
    /// Reports of broken rules.
    pub strict: Option<Box<Strict>>,
    /// What a trace saw last.
    pub observed: Observed,
    /// What a capture knows of the queue pairs.
    pub captured: Option<Box<Captured>>,
    /// The strict mode or a capture sees requests begin and end.
    pub is_witnessed: bool,
}

impl Core {
    pub(crate) fn new(mailbox: Mailbox, name: Name, events: Arc<Channel<AsyncEvent>>, clock: Option<fn() -> u64>) -> Self {
        Self {
            mailbox,
            name,
            acceptor: Acceptor::default(),
            connections: Slab::new(CONNECTIONS_MAX),
            by_peer: BTreeMap::new(),
            lost: Lost::default(),
            unsent: Unsent::default(),
            regions: Regions::default(),
            domains: Domains::new(OBJECTS_MAX),
            cqs: Slab::new(OBJECTS_MAX),
            srqs: Slab::new(OBJECTS_MAX),
            srq_numbers: BTreeMap::new(),
            next_srq: 0,
            xrc_domains: Domains::new(OBJECTS_MAX),
            windows: Windows::default(),
            qps: Vec::new(),
            next_qp: 0,
            qp_count: 0,
            owing: Vec::new(),
            timers: BTreeSet::new(),
            now: 0,
            clock,
            events,
            sends_unreliably: false,
            posts: 0,
            looked_in_vain: None,
            lingers: false,
            patience: Patience::default(),
            armed: ArmedQueues::default(),
            long_ways: false,
            copies_by_kernel: None,
            is_closed: false,
            managed: None,
            groups: None,
            keys: None,
            struck: None,
            strict: None,
            observed: Observed::default(),
            captured: None,
            is_witnessed: false,
        }
    }

    /// The time, ns.
    pub(crate) fn time(&mut self) -> u64 {
        if let Some(clock) = self.clock {
            self.now = clock();
        }
        self.now
    }

    // ---- objects

    pub(crate) fn create_cq(&mut self, entries: usize, listener: Listener, cookie: u64) -> Result<u32, Error> {
        if entries == 0 || entries > CQ_ENTRIES_MAX {
            return Err(Error::Invalid);
        }
        self.cqs.insert(Cq::new(entries, listener, cookie)).map(Handle::raw).ok_or(Error::NoMemory)
    }

    #[inline(always)]
    pub(crate) fn cq(&mut self, id: u32) -> Result<&mut Cq, Error> {
        self.cqs.get_mut(Handle::from_raw(id)).ok_or(Error::Invalid)
    }

    /// Sends that are posted and may complete in a queue.
    pub(crate) fn posted_to(&self, cq: u32) -> usize {
        self.qps.iter().flatten().filter(|q| q.init.send_cq == cq).map(|q| q.sends.len()).sum()
    }

    pub(crate) fn destroy_cq(&mut self, id: u32) -> Result<(), Error> {
        if self.cq(id)?.users != 0 {
            return Err(Error::Busy);
        }
        self.cqs.remove(Handle::from_raw(id));
        self.armed.count = self.cqs.iter().filter(|(_, c)| c.is_armed()).count() as u32;
        Ok(())
    }

    /// Lists memory that the engine has registered.
    pub(crate) fn list_region(&mut self, handle: bellwire_via::MemHandle, region: crate::memory::Region) -> Result<(), Error> {
        self.domains.hold(region.domain)?;
        self.regions.insert(handle, region);
        Ok(())
    }

    pub(crate) fn unlist_region(&mut self, key: u32) -> Result<crate::memory::Region, Error> {
        if self.strict.is_some() {
            self.saw_end_of_region(key);
        }
        let region = self.regions.remove(key).or_else(|| self.regions.on_demand.remove(key)).ok_or(Error::Invalid)?;
        self.domains.release(region.domain);
        Ok(region)
    }

    pub(crate) fn create_srq(&mut self, domain: u32, capacity: usize, pieces_max: usize, limit: usize, cookie: u64) -> Result<u32, Error> {
        self.add_srq(Srq { queue: ReceiveQueue::new(capacity, pieces_max, domain), limit, users: 0, cookie, number: 0, xrc: None })
    }

    pub(crate) fn add_srq(&mut self, srq: Srq) -> Result<u32, Error> {
        let domain = srq.queue.domain;
        self.domains.hold(domain)?;
        let number = self.free_srq_number();
        let made = number.and_then(|number| self.srqs.insert(Srq { number, ..srq }).map(|h| (number, h.raw())));
        let Some((number, id)) = made else {
            self.domains.release(domain);
            return Err(Error::NoMemory);
        };
        self.srq_numbers.insert(number, id);
        Ok(id)
    }

    /// The number that has not been used for longest. As those of queue pairs they are the
    /// process's own on its host.
    fn free_srq_number(&mut self) -> Option<u32> {
        if self.srq_numbers.len() == QPS_MAX {
            return None;
        }
        loop {
            let number = self.name.number(self.next_srq);
            self.next_srq = (self.next_srq + 1) % QPS_MAX;
            if !self.srq_numbers.contains_key(&number) {
                return Some(number);
            }
        }
    }

    pub(crate) fn srq(&mut self, id: u32) -> Result<&mut Srq, Error> {
        self.srqs.get_mut(Handle::from_raw(id)).ok_or(Error::Invalid)
    }

    pub(crate) fn destroy_srq(&mut self, id: u32) -> Result<(), Error> {
        if self.srq(id)?.users != 0 {
            return Err(Error::Busy);
        }
        if let Some(srq) = self.srqs.remove(Handle::from_raw(id)) {
            self.srq_numbers.remove(&srq.number);
            self.domains.release(srq.queue.domain);
            if let Some(xrc) = srq.xrc {
                self.xrc_domains.release(xrc.domain);
                if let Ok(cq) = self.cq(xrc.cq) {
                    cq.users -= 1;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn create_qp(&mut self, init: &QpInit) -> Result<u32, Error> {
        init.check()?;
        for cq in init.cqs() {
            self.cq(cq)?;
        }
        if let Some(srq) = init.srq {
            self.srq(srq)?;
        }
        let index = self.free_qp().ok_or(Error::NoMemory)?;
        match init.kind {
            QpKind::XrcReceive => self.xrc_domains.hold(init.domain)?,
            _ => self.domains.hold(init.domain)?,
        }
        for cq in init.cqs() {
            self.cq(cq)?.users += 1;
        }
        if let Some(srq) = init.srq {
            self.srq(srq)?.users += 1;
        }
        let number = self.name.number(index);
        let fates = self.struck.as_mut().map(|s| Box::new(s.next_pair()));
        self.qps[index] = Some(Box::new(Qp { fates, ..Qp::new(number, *init) }));
        self.qp_count += 1;
        self.sends_unreliably |= !init.kind.is_reliable();
        Ok(number)
    }

    /// An index that has not been used for longest.
    fn free_qp(&mut self) -> Option<usize> {
        if self.qp_count == QPS_MAX {
            return None;
        }
        loop {
            let index = self.next_qp;
            self.next_qp = (index + 1) % QPS_MAX;
            if self.qps.len() <= index {
                self.qps.resize_with(index + 1, || None);
            }
            if self.qps[index].is_none() {
                return Some(index);
            }
        }
    }

    #[inline]
    pub(crate) fn qp(&mut self, number: u32) -> Option<&mut Qp> {
        let qp = self.usual_qp(number)?;
        (qp.usual.takes, qp.usual.sends) = (Ends::NONE, Ends::NONE);
        Some(qp)
    }

    /// The same for a caller that changes nothing of what usual heads stand for (Q1).
    #[inline]
    pub(crate) fn usual_qp(&mut self, number: u32) -> Option<&mut Qp> {
        self.qps.get_mut(number as usize & (QPS_MAX - 1))?.as_deref_mut().filter(|q| q.number == number)
    }

    pub(crate) fn destroy_qp<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32) -> Result<(), Error> {
        if self.is_attached(number) {
            return Err(Error::Busy);
        }
        let qp = self.qp(number).ok_or(Error::Invalid)?;
        qp.handles -= 1;
        if qp.handles != 0 {
            return Ok(());
        }
        let init = qp.init;
        self.withdraw_grants(engine, number);
        self.forget_completions(number);
        self.windows.forget_pair(number);
        if let Some(captured) = &mut self.captured {
            captured.forget(number);
        }
        self.qps[number as usize & (QPS_MAX - 1)] = None;
        self.qp_count -= 1;
        match init.kind {
            QpKind::XrcReceive => self.xrc_domains.release(init.domain),
            _ => self.domains.release(init.domain),
        }
        for cq in init.cqs() {
            if let Ok(cq) = self.cq(cq) {
                cq.users -= 1;
            }
        }
        if let Some(Ok(srq)) = init.srq.map(|s| self.srq(s)) {
            srq.users -= 1;
        }
        Ok(())
    }

    /// What a queue pair has in its completion queues is dropped.
    pub(crate) fn forget_completions(&mut self, number: u32) {
        let Some(qp) = self.qp(number) else { return };
        let cqs = qp.init.cqs();
        for cq in cqs {
            if let Ok(cq) = self.cq(cq) {
                cq.forget(number);
            }
        }
    }

    // ---- completions

    #[inline(always)]
    pub(crate) fn complete(&mut self, cq: u32, completion: Completion, solicited: bool) {
        let Some(q) = self.cqs.get_mut(Handle::from_raw(cq)) else { return };
        let is_solicited = solicited || completion.status != WcStatus::Success;
        if !q.push(completion) {
            self.overrun(cq);
        } else if q.is_armed() {
            self.hear(cq, is_solicited);
        }
    }

    /// A completion was lost.
    #[cold]
    #[inline(never)]
    fn overrun(&mut self, cq: u32) {
        let Some(q) = self.cqs.get_mut(Handle::from_raw(cq)) else { return };
        if q.overruns() {
            self.events.push(AsyncEvent { kind: AsyncKind::CqError, cookie: q.cookie });
        }
    }

    /// A completion came into an armed queue.
    #[cold]
    #[inline(never)]
    fn hear(&mut self, cq: u32, is_solicited: bool) {
        let Some(q) = self.cqs.get_mut(Handle::from_raw(cq)) else { return };
        if q.hears(is_solicited) {
            self.armed.count = self.armed.count.saturating_sub(1);
        }
    }

    pub(crate) fn arm_cq(&mut self, id: u32, solicited_only: bool) -> Result<(), Error> {
        let cq = self.cq(id)?;
        let was = cq.is_armed();
        cq.arm(solicited_only);
        self.armed.count += u32::from(!was);
        Ok(())
    }

    /// Before a program sleeps on a channel: of an armed queue that it has not emptied it would
    /// never hear again if nothing more comes. A program that polls up to so many entries once for
    /// each event (perftest 4.5 with many queue pairs, its issue 137) sleeps for ever on devices;
    /// an event more than was asked for does no harm.
    pub(crate) fn tell_left(&mut self, channel: &Channel<u64>) {
        let left: Vec<_> = self.cqs.iter_mut().filter_map(|(_, q)| q.tell_left(channel).map(|first| (first, q.entries.len()))).collect();
        self.armed.count = self.armed.count.saturating_sub(left.len() as u32);
        for (first, count) in left {
            self.saw_left(&first, count);
        }
    }

    pub(crate) fn event(&mut self, number: u32, kind: AsyncKind) {
        let cookie = self.qp(number).map(|q| q.init.cookie);
        if let Some(cookie) = cookie {
            self.events.push(AsyncEvent { kind, cookie });
        }
    }

    /// The next receive of a queue pair.
    #[inline]
    pub(crate) fn take_receive(&mut self, number: u32) -> Option<Receive> {
        let qp = self.qp(number)?;
        match qp.init.srq {
            None => qp.receives.posted.pop_front(),
            Some(id) => {
                let srq = self.srqs.get_mut(Handle::from_raw(id))?;
                let receive = srq.queue.posted.pop_front()?;
                if let Some(cookie) = srq.runs_low() {
                    self.events.push(AsyncEvent { kind: AsyncKind::SrqLimit, cookie });
                }
                Some(receive)
            }
        }
    }

    /// Posts a receive.
    pub(crate) fn post_receive(&mut self, number: u32, wr_id: u64, pieces: &[crate::types::Sge]) -> Result<(), Error> {
        let qp = self.qp(number).ok_or(Error::Invalid)?;
        if qp.state == QpState::Reset || qp.init.srq.is_some() {
            return Err(Error::Invalid);
        }
        qp.receives.post(wr_id, pieces)?;
        let (has_failed, is_datagram) = (qp.state == QpState::Err, qp.init.kind == QpKind::Ud);
        if is_datagram && self.strict.is_some() {
            self.saw_route_room(number, wr_id, pieces.iter().map(|p| u64::from(p.length)).sum(), 0);
        }
        if has_failed {
            self.flush_receives(number);
        }
        Ok(())
    }

    /// One look: sends what waits, takes the next thing. `false`: there was nothing. Then answers
    /// that are owed leave, if `tells`; with faults on purpose always, so that the same faults have
    /// the same effects.
    #[inline]
    pub(crate) fn step<W: Wire>(&mut self, engine: &mut Engine<W>, tells: bool) -> bool {
        if !self.unsent.is_empty() {
            self.leave_all(engine);
        }
        if self.is_down() {
            return false;
        }
        if self.arrive(engine) {
            return true;
        }
        if !self.owing.is_empty() && (tells || self.struck.is_some()) && !self.lingers {
            self.tell_owed(engine);
        }
        false
    }
}
