// SPDX-License-Identifier: MIT OR Apache-2.0
//! How connections begin and end.

use crate::connection::{Connection, ConnectionId, INBOX_LIMIT};
use crate::core::{Core, PeerIndex};
use crate::name::Name;
use crate::operation::{Error, Failure, OperationId, Sink};
use crate::receive::Message;
use bellwire_peer::Channel;
use bellwire_via::wire::Wire;
use bellwire_via::{Acceptor, Duration, Engine, NetAddress, Notice, ViAttributes, ViHandle};

/// How long a connection may take: until the process is found, and until it answers, which it does when it polls. A job whose ranks, many on few processors, all speak to all at once makes
/// thousands, at some milliseconds of processor time for each.
const FIND_PATIENCE: Duration = Duration(5_000_000_000);
const ANSWER_PATIENCE: Duration = Duration(60_000_000_000);
/// Context of a VI that has no connection yet.
const UNKNOWN: u64 = 0;
/// What both ends must say: the version of this layer's messages.
pub(crate) const VERSION: u64 = 0x7461_6700_0000_0002;

impl Core {
    /// Waits for requests.
    pub(crate) fn listen<W: Wire>(&mut self, engine: &mut Engine<W>) -> Result<(), Error> {
        let at = self.name.waits_at().ok_or(Error::BadArgument)?;
        self.acceptor = Acceptor::new(engine, at)?;
        Ok(())
    }

    /// Answers all requests that have come; the inbox says what became of them.
    #[cold]
    pub(crate) fn accept<W: Wire>(&mut self, engine: &mut Engine<W>) {
        let (attributes, inbox) = (self.vi_attributes(), self.inbox);
        self.acceptor.accept(engine, |engine, address| {
            Name::who_asks(address)?;
            engine.create_vi_for_inbox(&attributes, inbox, INBOX_LIMIT, UNKNOWN).ok()
        });
    }

    fn vi_attributes(&self) -> ViAttributes {
        ViAttributes { ptag: Some(self.ptag), qos: VERSION, ..ViAttributes::default() }
    }

    /// Begins to connect; the inbox says how it ends. The engine has been told the time.
    #[cold]
    pub(crate) fn connect<W: Wire>(&mut self, engine: &mut Engine<W>, peer: PeerIndex) -> Result<ConnectionId, Error> {
        let p = self.peers.get(peer as usize).ok_or(Error::BadArgument)?;
        let (local, remote) = (self.name.asks_as().ok_or(Error::BadArgument)?, p.name.waits_at().ok_or(Error::BadArgument)?);
        let id = self.connections.insert(Connection::new(Channel::default(), (peer, p.source))).ok_or(Error::Resource)?;
        let (found_by, answered_by) = (engine.now() + FIND_PATIENCE, engine.now() + ANSWER_PATIENCE);
        let vi = engine.create_vi_for_inbox(&self.vi_attributes(), self.inbox, INBOX_LIMIT, u64::from(id.raw())).and_then(|vi| {
            let asked = engine.connect_request_within(vi, &local, &remote, found_by, answered_by);
            asked.map(|()| vi).inspect_err(|_| engine.end_vi(vi))
        });
        match vi {
            Err(e) => {
                self.connections.remove(id);
                Err(e.into())
            }
            Ok(vi) => {
                if let Some(connection) = self.connections.get_mut(id) {
                    connection.channel.set_vi(vi);
                }
                self.peers[peer as usize].out = Some(id);
                Ok(id)
            }
        }
    }

    /// Something happened to a connection.
    #[cold]
    pub(crate) fn notice<W: Wire>(&mut self, engine: &mut Engine<W>, sink: &mut impl Sink, id: ConnectionId, vi: ViHandle, notice: Notice) {
        match notice {
            Notice::Connected(Ok(VERSION)) => {
                if let Some(connection) = self.connections.get_mut(id) {
                    connection.channel.open();
                }
                self.leave(engine, sink, id);
                if let Some(connection) = self.connections.get(id) {
                    sink.reached(self.peers[connection.peer as usize].name);
                }
            }
            Notice::Connected(_) => self.broken(engine, sink, id, Failure::Unreachable),
            Notice::Accepted(VERSION, remote) => self.accepted(engine, vi, &remote),
            Notice::Accepted(..) => engine.end_vi(vi),
            Notice::Broken(_) => self.broken(engine, sink, id, Failure::ConnectionLost),
        }
    }

    fn accepted<W: Wire>(&mut self, engine: &mut Engine<W>, vi: ViHandle, remote: &NetAddress) {
        let connected = Name::who_asks(remote).and_then(|name| {
            let peer = self.peer(name);
            let id = self.connections.insert(Connection::new(Channel::opened(vi), (peer, self.peers[peer as usize].source)))?;
            if engine.set_inbox(vi, self.inbox, INBOX_LIMIT, u64::from(id.raw())).is_err() {
                self.connections.remove(id);
                return None;
            }
            // Whoever sends to it from now on does so here; but what began on another connection stays there, for the order's sake.
            let p = &mut self.peers[peer as usize];
            p.is_gone = false;
            p.out = p.out.or(Some(id));
            Some(())
        });
        if connected.is_none() {
            engine.end_vi(vi);
        }
    }

    /// A connection is over: all that is under way on it fails, once, and nothing of it is read or written any more.
    #[cold]
    pub(crate) fn broken<W: Wire>(&mut self, engine: &mut Engine<W>, sink: &mut impl Sink, id: ConnectionId, failure: Failure) {
        let Some(connection) = self.connections.remove(id) else { return };
        engine.end_vi(connection.channel.vi());
        let (peer, source) = (connection.peer, connection.source);
        let p = &mut self.peers[peer as usize];
        if p.out == Some(id) {
            (p.out, p.is_gone) = (None, true);
        }
        drop(connection);
        let ids: Vec<OperationId> = self.operations.iter().filter(|(_, o)| o.connection == id).map(|(id, _)| id).collect();
        ids.into_iter().for_each(|operation| self.finish(sink, operation, Some(failure)));
        // Long messages that were only announced cannot come any more.
        let mut gone = Vec::new();
        for queue in &mut self.queues {
            queue.drop_messages(|m| m.is_announced_on(id), |m| gone.push(m));
        }
        gone.iter().for_each(|m| self.forget_bytes(m));
        // If both have asked at once there are two connections, each perhaps on a link of its own: the peer may have said something on the other one before it went.
        if !self.connections.iter().any(|(_, c)| c.peer == peer) {
            let verdict = sink.lost(self.peers[peer as usize].name, failure);
            self.follow(engine, sink, peer, verdict, failure);
        }
        // Nor can any other endpoint of its name.
        if !self.connections.iter().any(|(_, c)| c.source == source) {
            for at in 0..self.queues.len() {
                for receive in self.queues[at].take_receives_of(source) {
                    self.end_receive(sink, &receive, at == 1, failure);
                }
            }
        }
    }

    /// A peer has sent what cannot be.
    #[cold]
    pub(crate) fn malformed<W: Wire>(&mut self, engine: &mut Engine<W>, sink: &mut impl Sink, id: ConnectionId) {
        self.broken(engine, sink, id, Failure::ConnectionLost);
    }

    /// Whether there is a connection to an endpoint on which what is said leaves now.
    pub(crate) fn reaches(&self, name: Name) -> bool {
        let id = self.by_name.get(&name).and_then(|peer| self.peers[*peer as usize].out);
        id.and_then(|id| self.connections.get(id)).is_some_and(|c| c.channel.is_open())
    }

    /// Whether anything of ours has not left yet.
    pub(crate) fn has_unsent(&self) -> bool {
        self.connections.iter().any(|(_, c)| c.has_messages())
    }

    /// Ends all connections; nobody is accepted any more.
    pub(crate) fn close<W: Wire>(&mut self, engine: &mut Engine<W>) {
        self.acceptor.close(engine);
        let ids: Vec<ConnectionId> = self.connections.iter().map(|(id, _)| id).collect();
        for id in ids {
            if let Some(connection) = self.connections.remove(id) {
                engine.end_vi(connection.channel.vi());
            }
        }
        engine.end_unseen(self.inbox);
        let _ = engine.destroy_inbox(self.inbox);
        let _ = engine.destroy_ptag(self.ptag);
    }
}

impl Message {
    fn is_announced_on(&self, id: ConnectionId) -> bool {
        matches!(self.body, crate::receive::Held::Announced { connection, .. } if connection == id)
    }
}
