// SPDX-License-Identifier: MIT OR Apache-2.0
//! How connections begin and end: asked for, made, broken, closed; and what comes back then.

use crate::acceptor::mailbox;
use crate::connection::{Connection, ConnectionId, End, Keep, Registration, Role, State, Write};
use crate::core::{Core, place};
use crate::header::{Answer, CREDITS_MAX, Kind};
use crate::name::{Ask, EndpointId, Name};
use crate::payload::NO_DATA;
use crate::probe::Off;
use crate::status::{Departed, Error, Status};
use crate::tables::Slot;
use bellwire_peer::{Channel, Patience};
use bellwire_via::wire::Wire;
use bellwire_via::{Duration, Engine, ViHandle};

/// How long a connection may take. A process that computes, or gets no processor, is not
/// unreachable.
const PATIENCE: Patience = Patience { find: Duration(5_000_000_000), answer: Duration(60_000_000_000) };

impl<H> Core<H> {
    /// Begins to connect. The inbox tells the outcome. The engine knows the time.
    pub(crate) fn connect<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId) -> Result<(), Error> {
        let Some(connection) = self.connections.get_mut(id) else { return Err(Error::BadArgument) };
        let endpoint = self.endpoints.get(place(connection.endpoint)).ok_or(Error::BadArgument)?;
        let ask = Ask { from: endpoint.name, wanted: connection.peer.endpoint, tag: connection.tag };
        // The local address names the wanted endpoint and the one that asks; at the remote one the
        // device waits.
        let (from, to) = (ask.address().ok_or(Error::BadArgument)?, connection.peer.device_address().ok_or(Error::BadArgument)?);
        let vi = mailbox(endpoint.ptag, self.inbox).connect(engine, u64::from(id.raw()), (&from, &to), PATIENCE)?;
        connection.channel.set_vi(vi);
        connection.state = State::Connecting;
        Ok(())
    }

    /// A connection that was asked for is up. The peer offers so many credits.
    pub(crate) fn opened<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, offered: u64) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let wanted = self.endpoints.get(place(connection.endpoint)).map_or(1, |e| e.credits);
        connection.credits.set_window(u32::try_from(offered).unwrap_or(u32::MAX).min(CREDITS_MAX).min(wanted).max(1));
        connection.channel.open();
        connection.state = State::Open;
        self.tell_segment(engine, id);
    }

    /// A peer has connected to an endpoint of this bundle. `false`: it is not here.
    pub(crate) fn accepted<W: Wire>(&mut self, engine: &mut Engine<W>, vi: ViHandle, ask: &Ask) -> bool {
        let Some(id) = self.numbers.get(&ask.wanted).copied() else { return false };
        let Some(endpoint) = self.endpoints.get(place(id)) else { return false };
        let mut connection = Connection::new(id, Role::Server, ask.from, ask.tag);
        (connection.channel, connection.state) = (Channel::opened(vi), State::Open);
        if let Some(id) = mailbox(endpoint.ptag, self.inbox).enroll(engine, &mut self.connections, connection) {
            self.tell_segment(engine, id);
        }
        true
    }

    /// Tells the peer of a connection which segment there is.
    pub(crate) fn tell_segment<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let segment = self.endpoints.get(place(connection.endpoint)).and_then(|e| e.segment.as_ref());
        if segment.is_none() && connection.role != Role::Server && connection.segments_told == 0 {
            return; // A server that has not heard of one takes it that there is none.
        }
        connection.segments_left = connection.segments_left.saturating_sub(1);
        connection.segments_told = connection.segments_told.wrapping_add(1);
        let words = segment.map_or([0; 3], |s| [s.address, s.length, u64::from(s.handle.raw())]);
        let _ = self.answer::<W, Off>(engine, id, &Answer { words, ..Answer::of(Kind::Segment, 0) }, NO_DATA);
    }

    /// A connection is over: a client's requests that are not handled come back; of a server
    /// nothing is left.
    pub(crate) fn broken<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, end: impl Into<End>) {
        let end = end.into();
        self.bury(engine, id, end);
        self.note_departure(id, end);
        if self.connections.get(id).is_some_and(|c| c.role == Role::Server) {
            self.connections.remove(id);
        }
    }

    /// The endpoint is to hear that a connection has ended, if it wants to.
    fn note_departure(&mut self, id: ConnectionId, end: End) {
        let Some(connection) = self.connections.get(id) else { return };
        let index = if let Role::Client { index } = connection.role { Some(index) } else { None };
        let departed = Departed { connection: u64::from(id.raw()), index, name: connection.peer, death: end.death };
        if self.endpoints.get(place(connection.endpoint)).is_some_and(|e| !matches!(e.on_departure, Slot::Free)) {
            self.departures.push_back((connection.endpoint, departed));
        }
    }

    /// Ends a connection for good. Nothing is read for it any more when this returns.
    pub(crate) fn bury<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, end: End) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        engine.end_vi(connection.channel.close());
        (connection.state, connection.death) = (State::Dead(end.status), end.death);
        let queued = connection.out.drain(..).filter_map(|out| out.write);
        for write in connection.writes.drain(..).chain(queued) {
            finish_write(engine, write, &mut self.garbage);
        }
        connection.writes_done = connection.writes_queued;
        while let Some(number) = connection.credits.give_up_oldest() {
            self.returns.push_back((connection.endpoint, connection.returned(number, end)));
        }
    }

    pub(crate) fn remove_connection<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, status: Status) {
        self.bury(engine, id, status.into());
        self.connections.remove(id);
    }

    /// Ends an endpoint and its connections, whose peers are told; its requests that are not
    /// handled are dropped with their error handler.
    pub(crate) fn remove_endpoint<W: Wire>(&mut self, engine: &mut Engine<W>, id: EndpointId) -> Result<Name, Error> {
        self.endpoint(id)?;
        let of: Vec<(ConnectionId, Role)> = self.connections.iter().filter(|(_, c)| c.endpoint == id).map(|(h, c)| (h, c.role)).collect();
        for (connection, role) in of {
            if role == Role::Server {
                let _ = self.answer::<W, Off>(engine, connection, &Answer::of(Kind::Closing, 0), NO_DATA);
            }
            self.remove_connection(engine, connection, Status::BadEndpoint);
        }
        let endpoint = self.endpoints.remove(place(id)).ok_or(Error::BadArgument)?;
        self.numbers.remove(&endpoint.name.endpoint);
        self.returns.retain(|(of, _)| *of != id);
        self.departures.retain(|(of, _)| *of != id);
        if let Some(segment) = endpoint.segment {
            let _ = engine.deregister(segment.address, segment.handle);
            self.garbage.extend(segment.owner);
        }
        let _ = engine.destroy_ptag(endpoint.ptag);
        Ok(endpoint.name)
    }
}

/// A write is over, well or not.
pub(crate) fn finish_write<W: Wire>(engine: &mut Engine<W>, write: Write, garbage: &mut Vec<std::sync::Arc<crate::region::Region>>) {
    let handle = bellwire_via::MemHandle::from_raw(write.from.handle);
    let _ = match write.registration {
        Registration::Segment => Ok(()),
        Registration::Once => engine.deregister(write.from.address, handle),
        Registration::Cached => engine.release_cached(write.from.address, handle),
    };
    if let Keep::Region(region) = write.keep {
        garbage.push(region);
    }
}
