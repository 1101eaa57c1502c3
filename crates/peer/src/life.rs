// SPDX-License-Identifier: MIT OR Apache-2.0
//! How connections begin and end: how the VIs of a layer are made, accepted and connected, and what
//! the notices of the engine mean.
//!
//! A [`Mailbox`] is where the messages of many connections arrive, with the attributes that their
//! VIs share. A layer keeps its connections in a table; the context of a VI is the number of its
//! connection, so that each message and notice leads to it.
//!
//! Invariants
//! - L1: a VI that this module made either has a connection of the layer, or waits in the inbox to
//!   get one, or is ended. A failed call leaves no VI behind.
//! - L2: a peer of another version is never connected. The side that asked learns
//!   [`Death::OtherVersion`]; the other side learns nothing.
//! - L3: of a VI that no connection has yet, the layer learns nothing but [`Event::Accepted`].

use crate::channel::Channel;
use bellwire_via::handle::{Handle, Slab};
use bellwire_via::wire::Wire;
use bellwire_via::{Acceptor, Cause, Duration, Engine, Error, InboxHandle, NetAddress, Notice, PtagHandle, ViAttributes, ViHandle};
use core::fmt;

/// Context of a VI that no connection has yet. No handle of a table has this value.
const UNKNOWN: u64 = u64::MAX;

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Death {
    /// It never began: the peer was not found, did not answer, or refused.
    Unreachable(Error),
    /// It never began: the peer's messages have this other version.
    OtherVersion(u64),
    /// It broke.
    Broken(Cause),
    /// This side ended it: the peer sent a message that no peer sends.
    Misbehaved,
}

impl fmt::Display for Death {
    /// A clause without a full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(Error::NoMatch) => f.write_str("nobody waits at the peer's address"),
            Self::Unreachable(Error::Timeout) => f.write_str("the peer did not answer in time"),
            Self::Unreachable(error) => error.fmt(f),
            Self::OtherVersion(version) => write!(f, "the peer's messages have another version, {version:#x}"),
            Self::Broken(cause) => cause.fmt(f),
            Self::Misbehaved => f.write_str("the peer sent a message that no peer sends"),
        }
    }
}

/// What a notice means. Contexts are those that the layer gave.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection that was asked for is up; the peer stated this quality of service.
    Opened(u64, u64),
    /// A peer connected by this VI and asked by this address. The layer enrolls it or ends it.
    Accepted(ViHandle, Box<NetAddress>),
    /// A connection is over; the layer ends its VI.
    Over(u64, Death),
}

impl Event {
    /// What a notice means to a layer whose peers must state `version`, if there is one. `None`:
    /// nothing that concerns the layer; the VI of a peer that it does not want is ended.
    #[cold]
    pub fn of<W: Wire>(version: Option<u64>, engine: &mut Engine<W>, context: u64, vi: ViHandle, notice: Notice) -> Option<Self> {
        let agrees = |stated: u64| version.is_none_or(|version| version == stated);
        match notice {
            Notice::Connected(Ok(stated)) if agrees(stated) => Some(Self::Opened(context, stated)),
            Notice::Connected(Ok(stated)) => Some(Self::Over(context, Death::OtherVersion(stated))),
            Notice::Connected(Err(error)) => Some(Self::Over(context, Death::Unreachable(error))),
            Notice::Accepted(stated, address) if agrees(stated) => Some(Self::Accepted(vi, address)),
            Notice::Broken(cause) if context != UNKNOWN => Some(Self::Over(context, Death::Broken(cause))),
            Notice::Accepted(..) | Notice::Broken(_) => {
                engine.end_vi(vi);
                None
            }
        }
    }
}

/// A layer's connection.
pub trait Connected {
    /// Its sending side, which knows the VI.
    fn channel(&mut self) -> &mut Channel;
}

/// How long an attempt to connect may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Until the process is found.
    pub find: Duration,
    /// Until it has answered, which it does when it polls.
    pub answer: Duration,
}

/// Where the messages of many connections arrive, and how their VIs are made.
#[derive(Clone, Copy, Debug)]
pub struct Mailbox {
    inbox: InboxHandle,
    attributes: ViAttributes,
    /// Messages of one VI that may wait in the inbox.
    limit: u32,
    /// What both ends must state as their quality of service.
    version: Option<u64>,
}

impl Mailbox {
    /// The same, with another inbox.
    #[must_use]
    pub fn moved_to(self, inbox: InboxHandle) -> Self {
        Self { inbox, ..self }
    }

    /// A mailbox of VIs with `attributes`, which name the protection tag; of each VI at most
    /// `limit` messages wait in `inbox`.
    pub fn new(inbox: InboxHandle, attributes: ViAttributes, limit: u32) -> Self {
        Self { inbox, attributes, limit, version: None }
    }

    /// A mailbox with an inbox and a protection tag of its own, of VIs that state `version`.
    ///
    /// # Errors
    /// The engine has no room.
    pub fn create<W: Wire>(engine: &mut Engine<W>, version: u64, attributes: ViAttributes, limit: u32) -> Result<Self, Error> {
        let ptag = engine.create_ptag()?;
        let inbox = engine.create_inbox().inspect_err(|_| {
            let _ = engine.destroy_ptag(ptag);
        })?;
        let attributes = ViAttributes { ptag: Some(ptag), qos: version, ..attributes };
        Ok(Self { inbox, attributes, limit, version: Some(version) })
    }

    /// The inbox.
    #[inline(always)]
    pub fn inbox(&self) -> InboxHandle {
        self.inbox
    }

    /// The protection tag of the VIs.
    #[inline]
    pub fn ptag(&self) -> Option<PtagHandle> {
        self.attributes.ptag
    }

    /// A VI whose messages arrive here with `context`.
    fn create_vi<W: Wire>(&self, engine: &mut Engine<W>, context: u64) -> Result<ViHandle, Error> {
        engine.create_vi_for_inbox(&self.attributes, self.inbox, self.limit, context)
    }

    /// A VI to accept a request with; [`Event::Accepted`] tells when the peer is connected.
    pub fn vi_to_accept<W: Wire>(&self, engine: &mut Engine<W>) -> Option<ViHandle> {
        self.create_vi(engine, UNKNOWN).ok()
    }

    /// Answers all requests that have come to `acceptor`: a peer whose address `admits` approves is
    /// accepted, and [`Event::Accepted`] follows. The engine knows the time.
    #[cold]
    pub fn accept<W: Wire>(&self, engine: &mut Engine<W>, acceptor: &mut Acceptor, mut admits: impl FnMut(&NetAddress) -> bool) {
        acceptor.accept(engine, |engine, address| if admits(address) { self.vi_to_accept(engine) } else { None });
    }

    /// Begins to connect: asks at `to` as `from`. The notice of the outcome has `context`. The
    /// engine knows the time.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn connect<W: Wire>(
        &self,
        engine: &mut Engine<W>,
        context: u64,
        (from, to): (&NetAddress, &NetAddress),
        patience: Patience,
    ) -> Result<ViHandle, Error> {
        let vi = self.create_vi(engine, context)?;
        let now = engine.now();
        match engine.connect_request_within(vi, from, to, now + patience.find, now + patience.answer) {
            Ok(()) => Ok(vi),
            Err(error) => {
                engine.end_vi(vi);
                Err(error)
            }
        }
    }

    /// As [`connect`](Self::connect), for `connection`, which becomes a part of `table`.
    ///
    /// # Errors
    /// Those of the engine; [`Error::Resource`] also: the table is full. The table is unchanged
    /// then.
    #[cold]
    pub fn connect_in<W: Wire, C: Connected>(
        &self,
        engine: &mut Engine<W>,
        table: &mut Slab<C>,
        connection: C,
        between: (&NetAddress, &NetAddress),
        patience: Patience,
    ) -> Result<Handle<C>, Error> {
        let id = table.insert(connection).ok_or(Error::Resource)?;
        match (self.connect(engine, u64::from(id.raw()), between, patience), table.get_mut(id)) {
            (Ok(vi), Some(connection)) => {
                connection.channel().set_vi(vi);
                Ok(id)
            }
            (outcome, _) => {
                table.remove(id);
                Err(outcome.err().unwrap_or(Error::Resource))
            }
        }
    }

    /// Gives the VI of an accepted peer its context. `false`: it is ended.
    pub fn adopt<W: Wire>(&self, engine: &mut Engine<W>, vi: ViHandle, context: u64) -> bool {
        let is_here = engine.set_inbox(vi, self.inbox, self.limit, context).is_ok();
        if !is_here {
            engine.end_vi(vi);
        }
        is_here
    }

    /// Takes over the VI of a peer that was accepted for another mailbox; the owner of this one
    /// learns of it.
    pub fn take_over<W: Wire>(&self, engine: &mut Engine<W>, vi: ViHandle, address: Box<NetAddress>) {
        if self.adopt(engine, vi, UNKNOWN) {
            engine.notice_again(vi, Notice::Accepted(self.attributes.qos, address));
        }
    }

    /// Makes an accepted VI, which `connection` has already, a part of `table`. `None`: there is no
    /// room, and the VI is ended.
    #[cold]
    pub fn enroll<W: Wire, C: Connected>(&self, engine: &mut Engine<W>, table: &mut Slab<C>, mut connection: C) -> Option<Handle<C>> {
        let vi = connection.channel().vi();
        let Some(id) = table.insert(connection) else {
            engine.end_vi(vi);
            return None;
        };
        if self.adopt(engine, vi, u64::from(id.raw())) {
            return Some(id);
        }
        table.remove(id);
        None
    }

    /// What a notice of the inbox means; `None`: nothing that concerns the layer.
    #[cold]
    pub fn event<W: Wire>(&self, engine: &mut Engine<W>, context: u64, vi: ViHandle, notice: Notice) -> Option<Event> {
        Event::of(self.version, engine, context, vi, notice)
    }

    /// Ends the connections of `table` and the mailbox, as [`close`](Self::close) does.
    pub fn close_all<W: Wire, C: Connected>(&self, engine: &mut Engine<W>, acceptor: &mut Acceptor, table: &mut Slab<C>) {
        let ids: Vec<Handle<C>> = table.iter().map(|(id, _)| id).collect();
        let connections = ids.into_iter().filter_map(|id| table.remove(id));
        let vis: Vec<ViHandle> = connections.map(|mut connection| connection.channel().close()).collect();
        self.close(engine, acceptor, vis);
    }

    /// Ends these VIs, and those that the layer has not learned of; nobody is accepted any more.
    /// The inbox and the protection tag are destroyed.
    pub fn close<W: Wire>(&self, engine: &mut Engine<W>, acceptor: &mut Acceptor, vis: impl IntoIterator<Item = ViHandle>) {
        acceptor.close(engine);
        vis.into_iter().for_each(|vi| engine.end_vi(vi));
        engine.end_unseen(self.inbox);
        let _ = engine.destroy_inbox(self.inbox);
        if let Some(ptag) = self.ptag() {
            let _ = engine.destroy_ptag(ptag);
        }
    }
}

/// Waits for requests at an address that one process of a host can have. `None`: another has it.
///
/// # Errors
/// The address is none of this engine's.
pub fn listen_alone<W: Wire>(engine: &mut Engine<W>, at: NetAddress) -> Result<Option<Acceptor>, Error> {
    let mut acceptor = Acceptor::new(engine, at)?;
    if engine.is_listening(&at) {
        return Ok(Some(acceptor));
    }
    acceptor.close(engine);
    Ok(None)
}
