// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connection management on this device: `bellwire-cm`'s machine, whose links are connections of
//! their own that carry its messages only.
//!
//! A service (port space and port) is an address of the host's under which one process waits, as
//! processes wait for connections of queue pairs: so a port is one process's, and a peer finds it
//! by the host's address and the port, within the host and between hosts, with no file or service.

use crate::connection::{CM_MESSAGES_MAX, Connection, ConnectionId};
use crate::core::Core;
use crate::life::{is_taken, patience};
use crate::managed::{Bell, Managed, World};
use crate::name::{asks_for_service, service_address};
use crate::port::Port;
use crate::progress::HostWire;
use crate::types::{Error, Gid};
use bellwire_cm::{Channel, Cm, Host, Link, Service};
use bellwire_peer::listen_alone;
use bellwire_via::nic::Ring;
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, Instant, ViHandle};
use std::sync::{Arc, OnceLock};

/// In the timers, for connection management's: no queue pair has that number.
pub(crate) const CM_TIMER: u32 = u32::MAX - 1;
/// How long the helper sees to what comes at once for a program that waits for an event. A program
/// may wait for the end of a connection in one thread and poll for completions in another.
const EXPECTED: u64 = 20_000_000;
/// How long a timer lasts, at most, while the machine is used.
const BEAT: u64 = 200_000_000;
/// How long a link may take.
const LINK_PATIENCE: u64 = 20_000_000_000;

/// A queue pair whose peer's process is gone.
#[derive(Clone, Copy, Debug)]
pub struct Orphan {
    own: u32,
    gid: Gid,
    peer: u32,
}

/// Takes orphans that are of other ports of the process; it must return at once, and call no port.
static ELSEWHERE: OnceLock<fn(Orphan)> = OnceLock::new();

/// Says once who takes queue pairs without peers that another port of this process has.
pub fn on_orphans(elsewhere: fn(Orphan)) {
    let _ = ELSEWHERE.set(elsewhere);
}

/// What the machine is given of a device during a call.
#[derive(Debug)]
pub struct CmHost<'a, W: Wire> {
    core: &'a mut Core,
    engine: &'a mut Engine<W>,
    world: &'a mut World,
}

impl<W: Wire> CmHost<'_, W> {
    /// Has a channel's events ring a bell.
    pub fn attach(&mut self, channel: Channel, bell: Arc<Bell>) {
        self.world.bells.insert(channel, bell);
    }

    /// A channel is over.
    pub fn detach(&mut self, channel: Channel) {
        self.world.bells.remove(&channel);
    }

    /// The first of these devices of this host that has a service.
    pub fn device_with(&mut self, gids: &[Gid], service: Service) -> Option<Gid> {
        gids.iter().copied().find(|gid| self.has(gid, service) || service_address(gid, service).is_some_and(|at| is_taken(self.engine, &at)))
    }

    /// Whether this device has a service.
    fn has(&self, gid: &Gid, service: Service) -> bool {
        *gid == self.core.name.gid && self.world.acceptors.contains_key(&service)
    }
}

impl<W: Wire> Host for CmHost<'_, W> {
    fn claim(&mut self, service: Service) -> bool {
        let Some(at) = service_address(&self.core.name.gid, service) else { return false };
        let Ok(Some(acceptor)) = listen_alone(self.engine, at) else { return false };
        self.world.acceptors.insert(service, acceptor);
        true
    }

    fn release(&mut self, service: Service) {
        if let Some(mut acceptor) = self.world.acceptors.remove(&service) {
            acceptor.close(self.engine);
        }
    }

    fn open(&mut self, gid: Gid, service: Service) -> Option<Link> {
        // To this process's own services there is a way that `is_taken` does not see.
        let is_own = self.has(&gid, service);
        self.core.open_link(self.engine, gid, service, is_own)
    }

    fn may_answer(&mut self, gid: Gid, service: Service) -> bool {
        gid != self.core.name.gid || self.has(&gid, service) || service_address(&gid, service).is_some_and(|at| is_taken(self.engine, &at))
    }

    fn close(&mut self, link: Link) {
        if let Some(connection) = self.core.connections.remove(id_of(link)) {
            self.engine.end_vi(connection.channel.vi());
        }
    }

    fn send(&mut self, link: Link, message: &[u8]) {
        let id = id_of(link);
        let Some(connection) = self.core.connections.get_mut(id).filter(|c| c.is_link) else { return };
        // A peer that takes nothing and has us answer gets no more; a message that it waits for is
        // repeated.
        if connection.cm.len() < CM_MESSAGES_MAX {
            connection.cm.push_back(message.to_vec());
            if let Some(captured) = &self.core.captured {
                captured.tell_management(id.raw(), (&self.core.name.gid, &connection.peer.gid), message);
            }
            self.core.leave(self.engine, id);
        }
    }

    fn has_completions(&mut self, qp: u32) -> bool {
        let Some(init) = self.core.qp(qp).map(|q| q.init) else { return false };
        init.cqs().any(|cq| self.core.cq(cq).is_ok_and(|cq| cq.entries.iter().any(|e| e.qp == qp)))
    }

    /// As on iWARP devices, whose connections break with their processes, the queue pair fails and
    /// its receives end undone: so a program that only polls hears of it. (Requests under way fail
    /// by themselves, for the peer's silence.) The program has a moment to see the event before.
    fn orphaned(&mut self, own: u32, gid: Gid, peer: u32) {
        if !self.core.orphan_of(own, gid, peer)
            && let Some(elsewhere) = ELSEWHERE.get()
        {
            elsewhere(Orphan { own, gid, peer });
        }
    }

    fn signal(&mut self, channel: Channel, has_events: bool) {
        let Some(bell) = self.world.bells.get(&channel) else { return };
        bell.set(has_events);
        if has_events && self.core.armed.is_helper {
            self.world.unrung.push(Arc::clone(bell));
        } else {
            bell.ring();
        }
        if has_events {
            self.core.armed.expects_event = false;
        }
    }
}

fn id_of(link: Link) -> ConnectionId {
    ConnectionId::from_raw(link.0 as u32)
}

fn link_of(id: ConnectionId) -> Link {
    Link(u64::from(id.raw()))
}

impl Core {
    /// Runs `f` on the machine, which begins with the first call.
    pub(crate) fn manage<W: Wire, R>(&mut self, engine: &mut Engine<W>, f: impl FnOnce(&mut Cm, &mut CmHost<'_, W>, u64) -> R) -> R {
        let now = self.time();
        let seed = now ^ u64::from(self.name.place) << 48;
        let own = self.name.gid;
        let mut managed = self.managed.take().unwrap_or_else(|| Box::new(Managed { cm: Cm::new(own, seed), world: World::default(), due: 0, is_used: true }));
        let result = f(&mut managed.cm, &mut CmHost { core: self, engine, world: &mut managed.world }, now);
        // The helper thread wakes for each timer that is earlier than all it knows, and each
        // connection has its own. So one that is too early stays and rings for nothing; while the
        // machine is used, such a one is always there.
        let due = managed.cm.next_time().unwrap_or(0);
        if due != 0 && (managed.due == 0 || due < managed.due) {
            self.timers.remove(&(managed.due, CM_TIMER));
            managed.due = if managed.is_used { due.min(now + BEAT) } else { due };
            self.timers.insert((managed.due, CM_TIMER));
        }
        managed.is_used = true;
        self.managed = Some(managed);
        result
    }

    /// The machine's time has come.
    #[cold]
    pub(crate) fn manage_time<W: Wire>(&mut self, engine: &mut Engine<W>) {
        if let Some(managed) = &mut self.managed {
            managed.due = 0;
            self.manage(engine, |cm, host, now| cm.tick(host, now));
        }
        if let Some(managed) = &mut self.managed {
            managed.is_used = false;
        }
    }

    fn expect_event(&mut self) {
        let until = self.time() + EXPECTED;
        if let Some(managed) = &mut self.managed {
            managed.world.expected_until = until;
            self.armed.expects_event = true;
        }
    }

    /// Before the helper steps the machine.
    #[cold]
    pub(crate) fn expect_no_longer(&mut self) {
        let until = self.managed.as_ref().map_or(0, |m| m.world.expected_until);
        self.armed.expects_event = self.now < until;
    }

    /// What the helper has for the program's threads.
    pub(crate) fn take_unrung(&mut self, rings: &mut Vec<Arc<dyn Ring>>) {
        if let Some(managed) = &mut self.managed {
            rings.extend(managed.world.unrung.drain(..).map(|bell| -> Arc<dyn Ring> { bell }));
        }
    }

    /// Answers peers that ask for services.
    #[cold]
    pub(crate) fn accept_links<W: Wire>(&mut self, engine: &mut Engine<W>) {
        for acceptor in self.managed.iter_mut().flat_map(|m| m.world.acceptors.values_mut()) {
            self.mailbox.accept(engine, acceptor, |address| asks_for_service(address).is_some());
        }
    }

    /// A peer has made a link.
    #[cold]
    pub(crate) fn link_accepted<W: Wire>(&mut self, engine: &mut Engine<W>, vi: ViHandle, gid: Gid) {
        let mut connection = Connection::link(vi, gid);
        connection.opened(engine);
        let Some(id) = self.mailbox.enroll(engine, &mut self.connections, connection) else { return };
        self.manage(engine, |cm, _, _| cm.accepted(link_of(id), gid));
    }

    /// Begins to make a link.
    #[cold]
    fn open_link<W: Wire>(&mut self, engine: &mut Engine<W>, gid: Gid, service: Service, is_own: bool) -> Option<Link> {
        let (local, remote) = (self.name.asks_service_as()?, service_address(&gid, service)?);
        if gid == self.name.gid && !is_own && !is_taken(engine, &remote) {
            return None;
        }
        engine.set_now(Instant(self.now));
        let connection = Connection::link(ViHandle::from_raw(0), gid);
        let id = self.mailbox.connect_in(engine, &mut self.connections, connection, (&local, &remote), patience(LINK_PATIENCE));
        id.ok().map(link_of)
    }

    /// A link that we asked for can be used.
    #[cold]
    pub(crate) fn link_opened<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId) {
        self.manage(engine, |cm, host, now| cm.opened(host, link_of(id), now));
    }

    /// A link is over, or never was.
    #[cold]
    pub(crate) fn link_broken<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, is_missing: bool) {
        self.manage(engine, |cm, host, now| cm.closed(host, link_of(id), is_missing, now));
    }

    /// A message came by a link.
    #[cold]
    pub(crate) fn link_message<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, payload: (*const u8, usize)) {
        let mut bytes = [0u8; bellwire_cm::MESSAGE_BYTES_MAX];
        let Some(copy) = bytes.get_mut(..payload.1) else { return self.broken(engine, id) };
        // SAFETY: the payload is readable for its length during the call (`Packet::payload`); the
        // sender may be writing it, so it is copied once and judged by the copy.
        unsafe { bellwire_memory::bytes::copy(copy.as_mut_ptr(), payload.0, payload.1) };
        let copy = &*copy;
        self.manage(engine, |cm, host, now| cm.message(host, link_of(id), copy, now));
    }

    /// Nobody is accepted any more.
    pub(crate) fn close_services<W: Wire>(&mut self, engine: &mut Engine<W>) {
        if let Some(mut managed) = self.managed.take() {
            managed.world.acceptors.values_mut().for_each(|acceptor| acceptor.close(engine));
        }
    }
}

impl Port {
    /// Takes a queue pair without a peer, if it is of this port.
    pub fn orphan(&self, of: Orphan) {
        // In the child of a fork there is none. The helper learns of the new time.
        let _ = self.station.with(|core, _| Ok::<_, Error>(core.orphan_of(of.own, of.gid, of.peer)));
        let _ = self.station.arm(|core, engine| core.look(engine, |_| false));
    }

    /// Runs `f` on this device's connection management. It gets the machine, what the machine's
    /// calls want of the world, and the time.
    ///
    /// # Errors
    /// [`Error::InChild`].
    pub fn manage<R>(&self, f: impl FnOnce(&mut Cm, &mut CmHost<'_, HostWire>, u64) -> R) -> Result<R, Error> {
        self.station.with(|core, engine| Ok(core.manage(engine, f)))
    }

    /// Has the helper thread see to what comes at once: the caller has found no event, and is about
    /// to wait for one.
    pub fn expect_event(&self) {
        // In the child of a fork there is nothing to expect.
        let _ = self.station.with(|core, _| {
            core.expect_event();
            Ok::<_, Error>(())
        });
    }

    /// Moves everything once; whether a channel has an event.
    ///
    /// # Errors
    /// [`Error::InChild`].
    pub fn look_for_event(&self, channel: Channel) -> Result<bool, Error> {
        let has_events = |core: &Core| core.managed.as_ref().is_none_or(|m| m.cm.has_events(channel));
        self.station.poll(|core, engine| {
            if !has_events(core) {
                core.look(engine, has_events);
            }
            Ok(has_events(core))
        })
    }

    /// Has the helper thread move everything while the caller sleeps.
    ///
    /// # Errors
    /// [`Error::InChild`].
    pub fn arm_for_event(&self, channel: Channel) -> Result<(), Error> {
        let has_events = |core: &Core| core.managed.as_ref().is_none_or(|m| m.cm.has_events(channel));
        self.station.arm(|core, engine| core.look(engine, has_events)).map_err(|_| Error::InChild)
    }
}
