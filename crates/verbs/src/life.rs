// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a process gets its place, and how connections begin and end.

use crate::connection::{Connection, ConnectionId, INBOX_LIMIT};
use crate::core::Core;
use crate::name::{Name, PLACES, asks_for_service};
use crate::reason::Reason;
use crate::types::{Error, QpKind, WcStatus};
use bellwire_peer::{Channel, Connected, Death, Event, Mailbox, Patience, listen_alone};
use bellwire_via::wire::Wire;
use bellwire_via::{Duration, Engine, Instant, NetAddress, Notice, ViAttributes, ViHandle};

/// How long a connection may take whose queue pair waits for ever.
const CONNECT_PATIENCE: u64 = 20_000_000_000;
/// The least that it may: a process may have to wait for a processor.
const CONNECT_PATIENCE_MIN: u64 = 500_000_000;
/// How long a queue pair goes on without its peer's process, ns.
const ORPHAN_PATIENCE: u64 = 250_000_000;
/// What both ends must say: the version of this layer's packets.
pub(crate) const VERSION: u64 = 0x7662_7300_0000_0001;

/// Where the packets of all peers arrive.
pub(crate) fn create_mailbox<W: Wire>(engine: &mut Engine<W>) -> Result<Mailbox, Error> {
    let attributes = ViAttributes { rdma_write: true, rdma_read: true, ..ViAttributes::default() };
    Ok(Mailbox::create(engine, VERSION, attributes, INBOX_LIMIT)?)
}

/// A time for both parts of connecting, ns.
pub(crate) fn patience(ns: u64) -> Patience {
    Patience { find: Duration(ns), answer: Duration(ns) }
}

impl Connected for Connection {
    fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }
}

impl Core {
    /// Takes a place of the host, the first free one from `from` on. `false`: all are taken.
    pub(crate) fn settle<W: Wire>(&mut self, engine: &mut Engine<W>, from: u16) -> Result<(), Error> {
        for i in 0..PLACES - 1 {
            self.name.place = 1 + (from.wrapping_add(i)) % (PLACES - 1);
            if let Some(acceptor) = listen_alone(engine, self.name.waits_at().ok_or(Error::Invalid)?)? {
                self.acceptor = acceptor;
                return Ok(());
            }
        }
        Err(Error::NoMemory)
    }

    /// Answers all requests that have come. The inbox tells the outcomes.
    #[cold]
    pub(crate) fn accept<W: Wire>(&mut self, engine: &mut Engine<W>) {
        self.mailbox.accept(engine, &mut self.acceptor, |address| Name::who_asks(address).is_some());
        if self.managed.is_some() {
            self.accept_links(engine);
        }
    }

    /// The connection to a process, begun if there is none.
    #[inline]
    pub(crate) fn connection_to<W: Wire>(&mut self, engine: &mut Engine<W>, peer: Name, patience: Option<u64>) -> Result<ConnectionId, Error> {
        match self.by_peer.get(&peer) {
            Some(id) => Ok(*id),
            None => self.connect(engine, peer, patience),
        }
    }

    /// Begins to connect; the inbox says how it ends.
    #[cold]
    fn connect<W: Wire>(&mut self, engine: &mut Engine<W>, peer: Name, patience_of_qp: Option<u64>) -> Result<ConnectionId, Error> {
        let (from, to) = (self.name.asks_as().ok_or(Error::Invalid)?, peer.waits_at().ok_or(Error::Invalid)?);
        // A process of this host that is there is only slow, however little time it was given: it
        // may have to wait for a processor.
        let is_there = peer.gid == self.name.gid && is_taken(engine, &to);
        let time = patience_of_qp.filter(|_| !is_there).map_or(CONNECT_PATIENCE, |p| p.clamp(CONNECT_PATIENCE_MIN, CONNECT_PATIENCE));
        engine.set_now(Instant(self.time()));
        let connection = Connection::new(ViHandle::from_raw(0), peer);
        let id = self.mailbox.connect_in(engine, &mut self.connections, connection, (&from, &to), patience(time))?;
        self.by_peer.insert(peer, id);
        Ok(id)
    }

    /// Something happened to a connection.
    #[cold]
    pub(crate) fn notice<W: Wire>(&mut self, engine: &mut Engine<W>, context: u64, vi: ViHandle, notice: Notice) {
        match self.mailbox.event(engine, context, vi, notice) {
            Some(Event::Opened(context, _)) => {
                let id = ConnectionId::from_raw(context as u32);
                let Some(connection) = self.connections.get_mut(id) else { return };
                connection.opened(engine);
                self.lost.forget(&connection.peer);
                if connection.is_link {
                    self.link_opened(engine, id);
                }
                self.leave(engine, id);
            }
            Some(Event::Accepted(vi, remote)) => self.accepted(engine, vi, &remote),
            Some(Event::Over(context, death)) => {
                self.ended(engine, ConnectionId::from_raw(context as u32), death);
            }
            None => {}
        }
    }

    fn accepted<W: Wire>(&mut self, engine: &mut Engine<W>, vi: ViHandle, remote: &NetAddress) {
        if let Some(gid) = asks_for_service(remote) {
            return self.link_accepted(engine, vi, gid);
        }
        let Some(peer) = Name::who_asks(remote) else { return engine.end_vi(vi) };
        let mut connection = Connection::new(vi, peer);
        connection.opened(engine);
        let Some(id) = self.mailbox.enroll(engine, &mut self.connections, connection) else { return };
        self.lost.forget(&peer);
        // New requests to the peer leave here. A request that began on another connection stays
        // there, to keep its order. (A process connected to itself has the other end.)
        self.by_peer.entry(peer).or_insert(id);
    }

    /// Ends a connection whose peer sent what no peer sends.
    #[cold]
    pub(crate) fn broken<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId) {
        self.ended(engine, id, Death::Misbehaved);
    }

    /// A connection is over, or never was: the requests under way on it fail, once.
    #[cold]
    fn ended<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, death: Death) {
        let Some(connection) = self.connections.remove(id) else { return };
        engine.end_vi(connection.channel.vi());
        if connection.is_link {
            let is_missing = matches!(death, Death::Unreachable(bellwire_via::Error::NoMatch | bellwire_via::Error::Rejected));
            return self.link_broken(engine, id, is_missing);
        }
        let reason = self.lost.note(connection.peer, Reason::of(death));
        if self.by_peer.get(&connection.peer) == Some(&id) {
            self.by_peer.remove(&connection.peer);
        }
        let numbers: Vec<u32> = self.qps.iter().flatten().map(|q| q.number).collect();
        for number in numbers {
            let Some(qp) = self.qp(number) else { continue };
            if connection.ready.contains(&number) {
                qp.is_ready = false;
            }
            if qp.came_by == Some(id) {
                qp.came_by = None;
                // The rest of the message does not come: its receive is there for another.
                self.drop_arriving(number);
            }
            let Some(qp) = self.qp(number) else { continue };
            match qp.init.kind {
                QpKind::Ud if connection.ready.contains(&number) => self.drop_datagrams(engine, number, connection.peer),
                QpKind::Rc | QpKind::Uc | QpKind::XrcSend | QpKind::XrcReceive if qp.connection == Some(id) => {
                    qp.connection = None;
                    if qp.sends.is_empty() || !qp.takes_requests() {
                        continue;
                    }
                    if qp.init.kind.is_reliable() {
                        self.deserted(engine, number, connection.channel.is_open(), reason);
                    } else {
                        self.drop_datagrams(engine, number, connection.peer);
                    }
                }
                _ => {}
            }
        }
    }

    /// The peer of a queue pair with requests is gone, and will not answer. It fails when the time
    /// is over that it was given: until then a program may find that it needs no answer. (If the
    /// connection never was, it is.)
    fn deserted<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32, had_been: bool, reason: Reason) {
        let now = self.time();
        let Some(qp) = self.qp(number) else { return };
        if !had_been {
            return self.fail_send_because(engine, number, 0, WcStatus::RetryExceeded, reason);
        }
        (qp.is_deserted, qp.reason) = (true, reason);
        // An infinite timeout never expires.
        qp.pause = qp.patience().map_or(u64::MAX, |p| now.saturating_add(p));
        let at = qp.pause;
        self.timers.insert((at, number));
    }

    /// As [`orphan`](Self::orphan), if there is such a queue pair and that is its peer.
    pub(crate) fn orphan_of(&mut self, own: u32, gid: bellwire_cm::Gid, peer: u32) -> bool {
        let home = self.name.gid;
        let Some(qp) = self.qp(own).filter(|q| q.takes_requests() && q.init.kind.is_reliable()) else { return false };
        let is_so = (qp.attributes.gid.unwrap_or(home), qp.attributes.peer) == (gid, peer);
        if is_so {
            self.orphan(own);
        }
        is_so
    }

    /// The peer's process of a queue pair is gone: it fails after a while, as soon as nothing is
    /// under way. Requests that are fail for the peer's silence.
    #[cold]
    pub(crate) fn orphan(&mut self, number: u32) {
        let at = self.time().saturating_add(ORPHAN_PATIENCE);
        if let Some(qp) = self.qp(number) {
            qp.orphaned = at;
            self.timers.insert((at, number));
        }
    }

    /// The time of [`orphan`](Self::orphan) is over.
    #[cold]
    pub(crate) fn end_orphan<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32) {
        match self.qp(number).filter(|q| q.takes_requests()) {
            Some(qp) if qp.sends.is_empty() => {
                qp.reason = Reason::PeerDied;
                self.enter_error(engine, number);
            }
            Some(_) => self.orphan(number),
            None => {}
        }
    }

    /// Drops the part of a message that had come.
    #[cold]
    pub(crate) fn drop_arriving(&mut self, number: u32) {
        if let Some(receive) = self.qp(number).and_then(|q| q.arriving.take()).and_then(|a| a.receive) {
            self.give_back(number, receive);
        }
    }

    pub(crate) fn give_back(&mut self, number: u32, receive: crate::queue::Receive) {
        let Some(qp) = self.qp(number) else { return };
        match qp.init.srq.or((receive.srq != 0).then_some(receive.srq)) {
            None => qp.receives.posted.push_front(receive),
            Some(id) => {
                if let Ok(srq) = self.srq(id) {
                    srq.queue.posted.push_front(receive);
                }
            }
        }
    }

    /// Ends all connections; nobody is accepted any more.
    pub(crate) fn close<W: Wire>(&mut self, engine: &mut Engine<W>) {
        self.close_services(engine);
        self.leave_groups();
        self.mailbox.close_all(engine, &mut self.acceptor, &mut self.connections);
    }
}

/// Whether a process of this host waits for connections there.
pub(crate) fn is_taken<W: Wire>(engine: &mut Engine<W>, at: &NetAddress) -> bool {
    let Ok(wait) = engine.connect_wait(at, Instant::NEVER) else { return false };
    let is_free = engine.is_listening(at);
    engine.cancel_wait(wait);
    !is_free || engine.others_listen(at)
}
