// SPDX-License-Identifier: MIT OR Apache-2.0
//! How connections begin and end.

use crate::completion::{Error, Failure};
use crate::connection::{Connection, ConnectionId, INBOX_LIMIT, OperationId};
use crate::core::{Core, PeerIndex};
use crate::gone::Gone;
use crate::listener::Verdict;
use crate::name::Name;
use crate::posted::Message;
use bellwire_peer::{Channel, Connected, Event, Mailbox, Patience};
use bellwire_via::wire::Wire;
use bellwire_via::{Acceptor, Duration, Engine, NetAddress, Notice, ViAttributes, ViHandle};

/// How long a connection may take. A job whose ranks, many on few processors, all speak to all at
/// once makes thousands, at some milliseconds of processor time for each.
const PATIENCE: Patience = Patience { find: Duration(5_000_000_000), answer: Duration(60_000_000_000) };
/// What both ends must say: the version of this layer's messages.
pub(crate) const VERSION: u64 = 0x7461_6700_0000_0003;

/// Where the messages of all peers arrive.
pub(crate) fn create_mailbox<W: Wire>(engine: &mut Engine<W>) -> Result<Mailbox, bellwire_via::Error> {
    Mailbox::create(engine, VERSION, ViAttributes::default(), INBOX_LIMIT)
}

impl Connected for Connection {
    fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }
}

impl Core {
    /// Waits for requests.
    pub(crate) fn listen<W: Wire>(&mut self, engine: &mut Engine<W>) -> Result<(), Error> {
        let at = self.name.waits_at().ok_or(Error::BadArgument)?;
        self.acceptor = Acceptor::new(engine, at)?;
        Ok(())
    }

    /// Answers all requests that have come. The inbox tells the outcomes.
    #[cold]
    pub(crate) fn accept<W: Wire>(&mut self, engine: &mut Engine<W>) {
        self.mailbox.accept(engine, &mut self.acceptor, |address| Name::who_asks(address).is_some());
    }

    /// Begins to connect. The inbox tells the outcome. The engine knows the time.
    #[cold]
    pub(crate) fn connect<W: Wire>(&mut self, engine: &mut Engine<W>, peer: PeerIndex) -> Result<ConnectionId, Error> {
        let p = self.peers.get_mut(peer as usize).ok_or(Error::BadArgument)?;
        let (from, to) = (self.name.asks_as().ok_or(Error::BadArgument)?, p.name.waits_at().ok_or(Error::BadArgument)?);
        let connection = Connection::new(Channel::default(), (peer, p.source));
        let id = self.mailbox.connect_in(engine, &mut self.connections, connection, (&from, &to), PATIENCE)?;
        p.out = Some(id);
        Ok(id)
    }

    /// Something happened to a connection.
    #[cold]
    pub(crate) fn notice<W: Wire>(&mut self, engine: &mut Engine<W>, context: u64, vi: ViHandle, notice: Notice) {
        let id_of = |context: u64| ConnectionId::from_raw(context as u32);
        match self.mailbox.event(engine, context, vi, notice) {
            Some(Event::Opened(context, _)) => {
                let id = id_of(context);
                if let Some(connection) = self.connections.get_mut(id) {
                    connection.channel.open();
                }
                self.leave(engine, id);
                if let (Some(connection), Some(listener)) = (self.connections.get(id), &mut self.listener) {
                    listener.0.reached(self.peers[connection.peer as usize].name);
                }
            }
            Some(Event::Accepted(vi, remote)) => self.accepted(engine, vi, &remote),
            Some(Event::Over(context, death)) => self.broken(engine, id_of(context), death.into()),
            None => {}
        }
    }

    fn accepted<W: Wire>(&mut self, engine: &mut Engine<W>, vi: ViHandle, remote: &NetAddress) {
        let Some(name) = Name::who_asks(remote) else { return engine.end_vi(vi) };
        let peer = self.peer(name);
        let connection = Connection::new(Channel::opened(vi), (peer, self.peers[peer as usize].source));
        let Some(id) = self.mailbox.enroll(engine, &mut self.connections, connection) else { return };
        // New messages to the peer leave here. A message that began on another connection stays
        // there, to keep its order.
        let p = &mut self.peers[peer as usize];
        p.gone = None;
        p.out = p.out.or(Some(id));
    }

    /// A connection is over: all that is under way on it fails, once, and nothing of it is read or
    /// written any more.
    #[cold]
    pub(crate) fn broken<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, gone: Gone) {
        let failure = Failure::of(gone);
        let Some(connection) = self.connections.remove(id) else { return };
        engine.end_vi(connection.channel.vi());
        let (peer, source) = (connection.peer, connection.source);
        let p = &mut self.peers[peer as usize];
        if p.out == Some(id) {
            (p.out, p.gone) = (None, Some(gone));
        }
        drop(connection);
        let ids: Vec<OperationId> = self.operations.iter().filter(|(_, o)| o.connection == id).map(|(id, _)| id).collect();
        ids.into_iter().for_each(|operation| self.finish(operation, Some(failure)));
        // Long messages that were only announced cannot come any more.
        let mut dropped = Vec::new();
        for queue in &mut self.queues {
            queue.drop_messages(|m| m.is_announced_on(id), |m| dropped.push(m));
        }
        dropped.iter().for_each(|m| self.forget_bytes(m));
        // If both have asked at once there are two connections, each perhaps on a link of its own:
        // the peer may have said something on the other one before it went.
        if !self.connections.iter().any(|(_, c)| c.peer == peer) {
            let verdict = self.listener.as_mut().map_or(Verdict::Nothing, |l| l.0.lost(self.peers[peer as usize].name, failure));
            self.follow(engine, peer, verdict, failure);
        }
        // Nor can any other endpoint of its name.
        if !self.connections.iter().any(|(_, c)| c.source == source) {
            for at in 0..self.queues.len() {
                for receive in self.queues[at].take_receives_of(source) {
                    self.end_receive(&receive, at == 1, failure);
                }
            }
        }
    }

    /// A peer has sent what cannot be.
    #[cold]
    pub(crate) fn malformed<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId) {
        self.broken(engine, id, Gone::Misbehaved);
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
        self.mailbox.close_all(engine, &mut self.acceptor, &mut self.connections);
    }
}

impl Message {
    fn is_announced_on(&self, id: ConnectionId) -> bool {
        matches!(&self.body, crate::posted::Held::Announced(announced) if announced.connection == id)
    }
}
