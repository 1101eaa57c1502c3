// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine: it takes messages, sends those that wait, and misses peers that are silent. It has
//! no lock, clock or thread; the NIC's helper thread steps it, and the program's calls that wait.
//!
//! A peer may write anything: a message that none sends ends its connection.

use super::export::{ExportId, Exported, Handled, Said};
use super::message::{HEAD_BYTES, Head, Kind, LIMIT, VERSION, WORDS};
use super::name::who_asks;
use super::session::{Granted, News, Phase, Session, SessionId, Side};
use super::transfer::{Flight, TransferId, Transfers, UNDER_WAY, Writes};
use crate::error::Error;
use crate::message::DATA_MAX;
use crate::reason::Reason;
use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_memory::bytes::{self, SharedBytes};
use bellwire_peer::{Channel, Death, Event, Mailbox, Unsent};
use bellwire_via::frame::DisconnectReason;
use bellwire_via::handle::Slab;
use bellwire_via::nic::Machine;
use bellwire_via::wire::Wire;
use bellwire_via::{Acceptor, Came, Cause, Duration, Engine, Error as ViaError, Instant, MemAttributes, NetAddress, Notice, ViAttributes, ViHandle};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Connections of a process.
const SESSIONS_MAX: usize = 1 << 16;
/// Objects of a process that others may connect to.
const EXPORTS_MAX: usize = 1 << 16;
/// Looks of one step.
const LOOKS: u32 = 32;
/// A peer that was not heard for so long is asked for a sign of life.
const BEAT: Duration = Duration::from_secs(1);
/// A peer that was not heard for so long is out of order.
const SILENCE: Duration = Duration::from_secs(3);
/// Until something that found no room is tried again.
const RETRY: Duration = Duration::from_millis(1);

/// All connections to other hosts.
pub(crate) struct Core {
    /// Of users: peers may write and read nothing of theirs.
    pub mailbox: Mailbox,
    pub exports: Slab<Exported>,
    pub sessions: Slab<Session>,
    pub transfers: Transfers,
    /// VIs that were made for requests, and for which object.
    accepted: BTreeMap<u32, ExportId>,
    unsent: Unsent<SessionId>,
    /// Connections with RDMA requests that the engine has.
    pub writing: Vec<SessionId>,
    /// Calls of the program that look again and again.
    pub at_work: u32,
    /// Times that something was taken: a program that is about to sleep looks again then.
    pub served: Arc<AtomicU32>,
    requests_seen: u64,
    beat_at: Instant,
}

impl Core {
    pub fn new<W: Wire>(engine: &mut Engine<W>) -> Result<Self, Error> {
        let mailbox = Mailbox::create(engine, VERSION, ViAttributes::default(), LIMIT)?;
        let transfers = Transfers::new(engine, &MemAttributes { ptag: mailbox.ptag(), ..MemAttributes::default() })?;
        Ok(Self {
            mailbox,
            exports: Slab::new(EXPORTS_MAX),
            sessions: Slab::new(SESSIONS_MAX),
            transfers,
            accepted: BTreeMap::new(),
            unsent: Unsent::default(),
            writing: Vec::new(),
            at_work: 0,
            served: Arc::default(),
            requests_seen: 0,
            beat_at: Instant(0),
        })
    }

    /// One look. `false`: there was nothing.
    pub fn look<W: Wire>(&mut self, engine: &mut Engine<W>, now: Instant) -> bool {
        let mut moved = self.accept(engine, now);
        for id in self.unsent.take() {
            if let Some(session) = self.sessions.get_mut(id) {
                session.channel.seen();
                session.leave(engine);
                if session.has_unsent() {
                    self.unsent.mark(&mut session.channel, id);
                }
            }
        }
        let mut line = [0; 7];
        if let Some(taken) = engine.take(self.mailbox.inbox(), &mut line) {
            moved = true;
            engine.hand::<WORDS>(self.mailbox.inbox(), &line, taken, |engine, came| match came {
                Came::Message(context, words, lies) => self.message(engine, SessionId::from_raw(context as u32), words, lies, now),
                Came::Notice(context, vi, notice) => self.notice(engine, context, vi, notice, now),
            });
        }
        moved |= self.finish(engine);
        if now >= self.beat_at {
            self.beat(engine, now);
        }
        if moved {
            // Relaxed: counted and read under the token. Sleepers are woken by the next line.
            self.served.fetch_add(1, Ordering::Relaxed);
            engine.rouse();
        }
        moved
    }

    /// Accepts those that ask.
    fn accept<W: Wire>(&mut self, engine: &mut Engine<W>, now: Instant) -> bool {
        if engine.connection_requests() == self.requests_seen {
            return false;
        }
        self.requests_seen = engine.connection_requests();
        engine.set_now(now);
        self.accepted.retain(|vi, _| engine.query_vi(ViHandle::from_raw(*vi)).is_ok());
        for (id, export) in self.exports.iter_mut() {
            let (mailbox, accepted) = (export.mailbox, &mut self.accepted);
            export.acceptor.accept(engine, |engine, address| {
                who_asks(address)?;
                let vi = mailbox.vi_to_accept(engine)?;
                accepted.insert(vi.raw(), id);
                Some(vi)
            });
        }
        true
    }

    /// Sends a message on a connection.
    pub fn say<W: Wire>(&mut self, engine: &mut Engine<W>, id: SessionId, head: &Head, data: &[u8]) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        if !session.send(engine, head, data) {
            return self.over(engine, id, Death::Misbehaved);
        }
        if session.has_unsent() {
            self.unsent.mark(&mut session.channel, id);
        }
    }

    /// Takes the ends of RDMA requests.
    fn finish<W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        let mut moved = false;
        let (sessions, transfers) = (&mut self.sessions, &mut self.transfers);
        self.writing.retain(|id| {
            let Some(session) = sessions.get_mut(*id) else { return false };
            while session.posted > 0
                && let Ok(Some(completion)) = engine.send_done(session.channel.vi())
            {
                session.posted -= 1;
                transfers.completed(completion.context, completion.status.is_error());
                moved = true;
            }
            session.posted > 0
        });
        moved
    }

    /// Begins a transfer of `memory` to (or, if `read`, from) `offset` of the segment of a
    /// connection. `None`: not now.
    ///
    /// # Safety
    /// `memory` stays mapped until [`end_transfer`](Self::end_transfer) has returned a result.
    pub unsafe fn begin_transfer<W: Wire>(
        &mut self,
        engine: &mut Engine<W>,
        id: SessionId,
        memory: SharedBytes<'_>,
        offset: usize,
        read: bool,
    ) -> Result<Option<TransferId>, Error> {
        // SAFETY: the caller's.
        let name = unsafe { self.begin_unfenced(engine, id, memory, (offset, read, true)) }?;
        if name.is_some() {
            self.fence(engine, id);
        }
        Ok(name)
    }

    /// The same, at an offset, maybe a read, maybe the last of several; a write does not end before
    /// a [`fence`](Self::fence).
    ///
    /// # Safety
    /// As there.
    unsafe fn begin_unfenced<W: Wire>(
        &mut self,
        engine: &mut Engine<W>,
        id: SessionId,
        memory: SharedBytes<'_>,
        which: (usize, bool, bool),
    ) -> Result<Option<TransferId>, Error> {
        let session = self.sessions.get_mut(id).ok_or(Error::TransferFailed)?;
        // SAFETY: the caller's.
        unsafe { self.transfers.begin(engine, (id, session), self.mailbox.ptag(), memory, which) }
    }

    /// Sends the fence of the transfers that were begun since the last message: any message would
    /// do, since the owner counts it when they have arrived.
    fn fence<W: Wire>(&mut self, engine: &mut Engine<W>, id: SessionId) {
        let Some(session) = self.sessions.get(id).filter(|session| session.posted > 0) else { return };
        let wants_fence = session.wants_fence;
        if !self.writing.contains(&id) {
            self.writing.push(id);
        }
        if wants_fence {
            self.say(engine, id, &Head::of(Kind::Fence), &[]);
        }
    }

    /// How a transfer ended, once; `None` while it goes on.
    pub fn end_transfer<W: Wire>(&mut self, engine: &mut Engine<W>, name: TransferId, memory: SharedBytes<'_>, read: bool) -> Option<Result<(), Error>> {
        self.transfers.end(engine, &self.sessions, name, memory, read)
    }

    /// Goes on with writes of parts of `source` to the segment of a connection, at `offset` and
    /// on. Whether some were begun or have ended.
    ///
    /// # Safety
    /// `source` stays mapped until no write is on its way.
    pub unsafe fn write<W: Wire>(&mut self, engine: &mut Engine<W>, id: SessionId, source: SharedBytes<'_>, offset: usize, writes: &mut Writes) -> bool {
        let (mut moved, mut has_begun) = (false, false);
        while let Some((name, part)) = writes.oldest(source) {
            let Some(result) = self.end_transfer(engine, name, part, false) else { break };
            writes.has_ended(result);
            moved = true;
        }
        while let Some((at, part)) = writes.next(source) {
            // SAFETY: the caller's.
            match unsafe { self.begin_unfenced(engine, id, part, (offset + at, false, writes.is_at_last())) } {
                Ok(Some(name)) => writes.has_begun(name),
                Ok(None) => break,
                Err(error) => writes.has_failed(error),
            }
            has_begun = true;
        }
        if has_begun {
            self.fence(engine, id);
        }
        moved | has_begun
    }

    /// Goes on with writes of `parts` to these offsets of the segment of a connection, in their
    /// order. Whether some were begun or have ended.
    ///
    /// # Safety
    /// They stay mapped until the flight is over.
    pub unsafe fn fly<W: Wire>(&mut self, engine: &mut Engine<W>, id: SessionId, parts: &[(SharedBytes<'_>, usize)], flight: &mut Flight) -> bool {
        let (mut moved, mut has_begun) = (false, false);
        while let Some(name) = flight.begun.front().copied() {
            let part = parts[flight.next - flight.begun.len()].0;
            let Some(result) = self.end_transfer(engine, name, part, false) else { break };
            flight.begun.pop_front();
            flight.failed = flight.failed.or(result.err());
            moved = true;
        }
        while let Some((part, offset)) = parts.get(flight.next).filter(|_| flight.failed.is_none() && flight.begun.len() < UNDER_WAY) {
            // SAFETY: the caller's.
            match unsafe { self.begin_unfenced(engine, id, *part, (*offset, false, flight.next + 1 == parts.len())) } {
                Ok(Some(name)) => flight.begun.push_back(name),
                Ok(None) => break,
                Err(error) => {
                    flight.failed = Some(error);
                    break;
                }
            }
            flight.next += 1;
            has_begun = true;
        }
        if has_begun {
            self.fence(engine, id);
        }
        moved | has_begun
    }

    fn message<W: Wire>(&mut self, engine: &mut Engine<W>, id: SessionId, words: &[u64], lies: (*const u8, usize), now: Instant) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let head = Head::parse(words, lies.1).filter(|head| session.credits.acknowledge(head.handled).is_some());
        let Some(head) = head else { return self.over(engine, id, Death::Misbehaved) };
        session.heard = now;
        if core::mem::take(&mut session.is_silent) {
            self.tell(id, News::Answers);
        }
        let Some(session) = self.sessions.get_mut(id) else { return };
        let is_right = match &mut session.side {
            Side::Owner { is_in: true, export } if head.is_of_user() => {
                let export = *export;
                return self.hear(engine, id, export, &head, lies);
            }
            Side::User { phase: phase @ Phase::Asking, .. } if head.kind == Kind::Answer => {
                let error = Error::ALL.iter().copied().find(|e| e.code() == head.value);
                match (head.value, u32::try_from(head.words[2])) {
                    (0, Ok(handle)) => *phase = Phase::Granted(Granted { size: head.words[0], address: head.words[1], handle }),
                    _ => {
                        *phase = Phase::Over(error.unwrap_or(Error::ConnectionRefused));
                        self.end_vi(engine, id);
                    }
                }
                true
            }
            Side::User { phase: Phase::Granted(_), .. } if head.kind == Kind::Unavailable => {
                self.tell(id, News::Unavailable);
                true
            }
            Side::User { .. } => head.kind == Kind::Count,
            Side::Owner { .. } => false,
        };
        if !is_right {
            self.over(engine, id, Death::Misbehaved);
        }
    }

    /// A user says something.
    fn hear<W: Wire>(&mut self, engine: &mut Engine<W>, id: SessionId, export: ExportId, head: &Head, lies: (*const u8, usize)) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        if head.kind == Kind::Bye {
            return self.over(engine, id, Death::Broken(Cause::Peer(DisconnectReason::Requested)));
        }
        // It has to wait for its credits.
        if session.untaken >= super::session::WINDOW {
            return self.over(engine, id, Death::Misbehaved);
        }
        let (node, object) = (session.node, self.exports.get(export).and_then(|e| e.object.upgrade()));
        let mut data = [0; DATA_MAX];
        let handled = match (head.kind, &object) {
            (Kind::Fence, _) => Handled::Done,
            (_, None) => return self.over(engine, id, Death::Misbehaved),
            (Kind::Mapped, Some(object)) => object.hear(id.raw(), node, Said::Mapped(head.value != 0)),
            (Kind::Trigger, Some(object)) => object.hear(id.raw(), node, Said::Trigger),
            (Kind::Flag, Some(object)) => object.hear(id.raw(), node, Said::Flag(head.words[0])),
            (Kind::Data | Kind::Store, Some(object)) => {
                let len = lies.1 - HEAD_BYTES;
                // SAFETY: the message is readable where it lies, for as many bytes; there is room:
                // its length was checked (`Head::parse`). The peer may be writing it (B2).
                unsafe { bytes::copy(data.as_mut_ptr(), lies.0.add(HEAD_BYTES), len) };
                let data = &data[..len];
                object.hear(id.raw(), node, if head.kind == Kind::Data { Said::Data(data) } else { Said::Store(head.words[0], data) })
            }
            _ => Handled::Nonsense,
        };
        match handled {
            Handled::Done => self.count(engine, id),
            Handled::Later => {
                if let Some(session) = self.sessions.get_mut(id) {
                    session.untaken += 1;
                }
            }
            Handled::Nonsense => self.over(engine, id, Death::Misbehaved),
        }
    }

    /// A message of a user is handled; the user is told.
    fn count<W: Wire>(&mut self, engine: &mut Engine<W>, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.credits.has_handled();
            self.say(engine, id, &Head::of(Kind::Count), &[]);
        }
    }

    /// A message that was left for later is handled.
    pub fn taken<W: Wire>(&mut self, engine: &mut Engine<W>, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(id).filter(|s| s.untaken > 0) {
            session.untaken -= 1;
            self.count(engine, id);
        }
    }

    fn notice<W: Wire>(&mut self, engine: &mut Engine<W>, context: u64, vi: ViHandle, notice: Notice, now: Instant) {
        match self.mailbox.event(engine, context, vi, notice) {
            Some(Event::Accepted(vi, address)) => self.admit(engine, vi, &address, now),
            Some(Event::Opened(context, _)) => {
                if let Some(session) = self.sessions.get_mut(SessionId::from_raw(context as u32)) {
                    session.channel.open();
                    (session.heard, session.asked) = (now, now);
                }
            }
            Some(Event::Over(context, death)) => self.over(engine, SessionId::from_raw(context as u32), death),
            None => {}
        }
    }

    /// A user is connected, and is let in or not.
    fn admit<W: Wire>(&mut self, engine: &mut Engine<W>, vi: ViHandle, address: &NetAddress, now: Instant) {
        let export = self.accepted.remove(&vi.raw());
        let (Some(id), Some(node)) = (export, who_asks(address)) else { return engine.end_vi(vi) };
        let Some(export) = self.exports.get(id) else { return engine.end_vi(vi) };
        let (object, mailbox) = (export.object.upgrade(), export.mailbox);
        let memory = export.memory.as_ref().map(|m| [m.memory.size() as u64, m.address, u64::from(m.handle.raw())]);
        let side = Side::Owner { export: id, is_in: false };
        let Some(user) = mailbox.enroll(engine, &mut self.sessions, Session::new(Channel::opened(vi), side, node, now)) else { return };
        let result = object.map_or(Err(Error::NotAvailable), |object| object.admit(user.raw(), node));
        if let Some(session) = self.sessions.get_mut(user) {
            session.side = Side::Owner { export: id, is_in: result.is_ok() };
        }
        let words = memory.filter(|_| result.is_ok()).unwrap_or_default();
        self.say(engine, user, &Head { value: result.err().map_or(0, Error::code), words, ..Head::of(Kind::Answer) }, &[]);
    }

    /// Ends the VI of a connection, and with it the requests that the engine has.
    fn end_vi<W: Wire>(&mut self, engine: &mut Engine<W>, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.posted = 0;
        engine.end_vi(session.channel.close());
        self.transfers.fail(id);
    }

    /// A connection is over. A user's stays until its object lets it go.
    pub fn over<W: Wire>(&mut self, engine: &mut Engine<W>, id: SessionId, death: Death) {
        self.end_vi(engine, id);
        let in_order = matches!(death, Death::Broken(Cause::Peer(DisconnectReason::Requested)));
        let Some(session) = self.sessions.get_mut(id) else { return };
        match &mut session.side {
            Side::Owner { export, is_in } => {
                let object = self.exports.get(*export).and_then(|e| e.object.upgrade()).filter(|_| *is_in);
                let node = session.node;
                self.sessions.remove(id);
                if let Some(object) = object {
                    object.hear(id.raw(), node, Said::Is(if in_order { Reason::Disconnect } else { Reason::Lost }));
                }
            }
            Side::User { phase, .. } => {
                let before = core::mem::replace(phase, Phase::Over(why(death)));
                match before {
                    Phase::Over(_) => *phase = before,
                    Phase::Asking => {}
                    Phase::Granted(_) => {
                        *phase = Phase::Over(if in_order { Error::NotConnected } else { Error::NodeNotResponding });
                        self.tell(id, if in_order { News::Ended } else { News::Lost });
                    }
                }
            }
        }
    }

    /// Tells the object of a connection.
    fn tell(&self, id: SessionId, news: News) {
        let Some(session) = self.sessions.get(id) else { return };
        match &session.side {
            Side::User { user, .. } => {
                if let Some(user) = user.as_ref().and_then(Weak::upgrade) {
                    user.told(news);
                }
            }
            Side::Owner { export, is_in } => {
                let reason = if news == News::Silent { Reason::NotOperational } else { Reason::Operational };
                if let Some(object) = self.exports.get(*export).and_then(|e| e.object.upgrade()).filter(|_| *is_in) {
                    object.hear(id.raw(), session.node, Said::Is(reason));
                }
            }
        }
    }

    /// The object of a connection is told nothing any more.
    pub fn forget(&mut self, id: SessionId) {
        if let Some(Side::User { user, .. }) = self.sessions.get_mut(id).map(|s| &mut s.side) {
            *user = None;
        }
    }

    /// Ends the connections of an object of this process.
    pub fn end_users<W: Wire>(&mut self, engine: &mut Engine<W>, export: ExportId) {
        let of_it = |side: &Side| matches!(side, Side::Owner { export: of, .. } if *of == export);
        let users: Vec<_> = self.sessions.iter().filter(|(_, s)| of_it(&s.side)).map(|(id, _)| id).collect();
        for id in users {
            self.end_vi(engine, id);
            self.sessions.remove(id);
        }
    }

    /// Asks peers for a sign of life, and misses those that give none.
    fn beat<W: Wire>(&mut self, engine: &mut Engine<W>, now: Instant) {
        // Of the time in which this process did not look, peers are not to blame.
        let asleep = if self.beat_at == Instant(0) { Duration(0) } else { now.since(self.beat_at) };
        self.beat_at = now + BEAT;
        let ids: Vec<_> = self.sessions.iter().filter(|(_, s)| s.channel.is_open()).map(|(id, _)| id).collect();
        for id in ids {
            let Some(session) = self.sessions.get_mut(id) else { continue };
            session.heard = (session.heard + asleep).min(now);
            let unheard = now.since(session.heard);
            let is_user = matches!(session.side, Side::User { phase: Phase::Granted(_), .. });
            if unheard > SILENCE && !core::mem::replace(&mut session.is_silent, true) {
                self.tell(id, News::Silent);
            }
            let Some(session) = self.sessions.get_mut(id) else { continue };
            if is_user && session.credits.has_credit() && (unheard >= BEAT || now.since(session.asked) >= BEAT) {
                session.asked = now;
                self.say(engine, id, &Head::of(Kind::Fence), &[]);
            }
        }
    }
}

/// Why a connection has not come about.
fn why(death: Death) -> Error {
    match death {
        Death::Unreachable(ViaError::NoMatch) => Error::NoSuchSegment,
        Death::Unreachable(ViaError::Rejected) => Error::ConnectionRefused,
        Death::Unreachable(ViaError::Resource) => Error::NoSpace,
        Death::Unreachable(ViaError::NotReachable | ViaError::Key(_)) => Error::NoRemoteLinkAccess,
        Death::OtherVersion(_) | Death::Misbehaved => Error::InconsistentVersions,
        Death::Unreachable(_) | Death::Broken(_) => Error::NodeNotResponding,
    }
}

impl<W: Wire> Machine<W> for Core {
    fn step(&mut self, engine: &mut Engine<W>, now: Instant) -> bool {
        let mut looks = 0;
        while looks < LOOKS && self.look(engine, now) {
            looks += 1;
        }
        looks > 0
    }

    fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    fn is_armed(&self) -> bool {
        !self.exports.is_empty() && self.at_work == 0
    }

    fn next_timeout(&self, now: Instant) -> Instant {
        if !self.unsent.is_empty() || !self.writing.is_empty() {
            now + RETRY
        } else if self.sessions.is_empty() {
            Instant::NEVER
        } else {
            self.beat_at
        }
    }

    fn close(&mut self, engine: &mut Engine<W>) {
        self.mailbox.close_all(engine, &mut Acceptor::default(), &mut self.sessions);
    }
}
