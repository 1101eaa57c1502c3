// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connections between hosts as a machine on an engine of the caller's, over any wire and in
//! the time that the engine is told: for fuzzers. A process has the same on a NIC. And a process
//! with a second NIC, which stands for another host.
//!
//! The objects are the library's own, made in a process that reaches no other host; here they are
//! exported once more. What a call of a program tries until it is done, the caller repeats.

use crate::auto_flush::Finding;
use crate::data_interrupt::DataInterrupt;
use crate::error::Error;
use crate::far::core::Core;
use crate::far::message::{Head, Kind};
use crate::far::name::asks_as;
use crate::far::session::{Phase, Session, Side};
use crate::far::transfer::{TransferId, Writes};
use crate::far::{Export, ExportId, Exported, Far, Handled, Import, Name, News, Said, SessionId};
use crate::interrupt::LocalInterrupt;
use crate::library::Library;
use crate::local::LocalSegment;
use crate::memory::Memory;
use crate::nodes::Nodes;
use bellwire_memory::bytes::SharedBytes;
use bellwire_peer::{Channel, Death, Patience};
use bellwire_via::nic::{NicConfig, Udp};
use bellwire_via::wire::Wire;
use bellwire_via::{Duration, Engine, NetAddress};
use core::ops::Range;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

pub use crate::far::What;

/// Quality of service word with which connections of this layer are asked for.
pub const VERSION: u64 = crate::far::message::VERSION;
/// How long a user looks for an object, and waits for its answer.
const PATIENCE: Patience = Patience { find: Duration::from_secs(2), answer: Duration::from_secs(12) };

/// A connection of this process to an object of a peer.
#[derive(Clone, Copy, Debug)]
pub struct Link(SessionId);

/// A transfer that has begun.
#[derive(Clone, Copy, Debug)]
pub struct Begun(TransferId);

/// Writes of parts of one memory to a segment, as the stores of a map leave.
#[derive(Default)]
pub struct Leaving(Writes);

impl Leaving {
    /// Adds a part.
    pub fn add(&mut self, part: Range<usize>) {
        self.0.add(part);
    }

    /// Whether all have ended.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What a user says to an owner.
#[derive(Clone, Copy, Debug)]
pub enum Word<'a> {
    /// It has the segment mapped, or no longer.
    Mapped(bool),
    /// An interrupt.
    Trigger,
    /// A data interrupt.
    Data(&'a [u8]),
    /// A trigger of the flag at this offset.
    Flag(u64),
    /// Bytes to store at this offset, which interrupt.
    Store(u64, &'a [u8]),
}

/// The news that users were told of their connections.
#[derive(Default)]
struct Told(Mutex<Vec<News>>);

impl Import for Told {
    fn told(&self, news: News) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(news);
    }
}

/// A process's connections to others, without a NIC.
pub struct Machine {
    core: Core,
    node: u32,
    exports: Vec<ExportId>,
    told: Vec<Arc<Told>>,
}

impl Machine {
    /// The connections of a process of a node.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    pub fn new<W: Wire>(engine: &mut Engine<W>, node: u32) -> Result<Self, Error> {
        Ok(Self { core: Core::new(engine)?, node, exports: Vec::new(), told: Vec::new() })
    }

    /// Where an object of this node waits at a host, and what a user of another node asks as.
    pub fn addresses(&self, host: &[u8], what: What, id: u32, user: u32, number: u64) -> Option<(NetAddress, NetAddress)> {
        let name = Name { what, node: self.node, id, slot: 0 };
        name.at(host).zip(asks_as(host, user, number))
    }

    fn export<W: Wire>(&mut self, engine: &mut Engine<W>, name: Name, object: Weak<dyn Export>, segment: Option<&LocalSegment>) -> Result<ExportId, Error> {
        let memory = segment.map(LocalSegment::memory).transpose()?;
        let exported = Exported::new(engine, self.core.mailbox.inbox(), name, object, memory)?;
        let id = self.core.exports.insert(exported).ok_or(Error::NoSpace)?;
        self.exports.push(id);
        Ok(id)
    }

    /// Has a segment wait for users of other hosts. Gives its address and its memory handle, as
    /// users learn them.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`]; [`Error::SegmentIdUsed`]; [`Error::NoSpace`].
    pub fn export_segment<W: Wire>(&mut self, engine: &mut Engine<W>, library: &'static Library, segment: u64, id: u32) -> Result<(u64, u32), Error> {
        let segment = library.get::<LocalSegment>(segment)?;
        let name = Name { what: What::Segment, node: self.node, id, slot: 0 };
        let export = self.export(engine, name, segment.as_export(), Some(&segment))?;
        self.core.exports.get(export).and_then(|e| e.memory.as_ref()).map(|m| (m.address, m.handle.raw())).ok_or(Error::System)
    }

    /// Has an interrupt wait for users of other hosts.
    ///
    /// # Errors
    /// As [`export_segment`](Self::export_segment).
    pub fn export_interrupt<W: Wire>(&mut self, engine: &mut Engine<W>, library: &'static Library, interrupt: u64, id: u32) -> Result<(), Error> {
        let object = library.get::<LocalInterrupt>(interrupt)?.as_export()?;
        self.export(engine, Name { what: What::Interrupt, node: self.node, id, slot: 0 }, object, None).map(|_| ())
    }

    /// Has a data interrupt wait for users of other hosts.
    ///
    /// # Errors
    /// As [`export_segment`](Self::export_segment).
    pub fn export_data_interrupt<W: Wire>(&mut self, engine: &mut Engine<W>, library: &'static Library, interrupt: u64, id: u32) -> Result<(), Error> {
        let object = library.get::<DataInterrupt>(interrupt)?.as_export();
        self.export(engine, Name { what: What::DataInterrupt, node: self.node, id, slot: 0 }, object, None).map(|_| ())
    }

    /// Takes the next message of a data interrupt.
    pub fn take<W: Wire>(&mut self, engine: &mut Engine<W>, library: &'static Library, interrupt: u64) -> Option<Vec<u8>> {
        let (user, data) = library.get::<DataInterrupt>(interrupt).ok()?.next_far()?;
        self.core.taken(engine, SessionId::from_raw(user));
        Some(data)
    }

    /// One look. `false`: there was nothing.
    pub fn poll<W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        let now = engine.now();
        self.core.look(engine, now)
    }

    /// Asks to be connected to an object.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn connect<W: Wire>(&mut self, engine: &mut Engine<W>, what: What, node: u32, id: u32, number: u64) -> Result<Link, Error> {
        let host = engine.wire().host_address().to_vec();
        let to = Name { what, node, id, slot: 0 }.at(&host).ok_or(Error::System)?;
        let from = asks_as(&host, self.node, number).ok_or(Error::System)?;
        let told = Arc::new(Told::default());
        let user = Some(Arc::downgrade(&told) as Weak<dyn Import>);
        let session = Session::new(Channel::default(), Side::User { user, phase: Phase::Asking }, node, engine.now());
        let mailbox = self.core.mailbox;
        let id = mailbox.connect_in(engine, &mut self.core.sessions, session, (&from, &to), PATIENCE)?;
        self.told.push(told);
        Ok(Link(id))
    }

    /// The bytes of a segment that a user is connected to.
    ///
    /// # Errors
    /// Why the connection does not stand.
    pub fn granted(&self, link: Link) -> Result<u64, Error> {
        self.core.sessions.get(link.0).map_or(Err(Error::NotConnected), |session| session.granted().map(|g| g.size))
    }

    /// Says something to the owner.
    ///
    /// # Errors
    /// Why the connection does not stand; [`Error::WouldBlock`] without a credit.
    pub fn say<W: Wire>(&mut self, engine: &mut Engine<W>, link: Link, word: Word<'_>) -> Result<(), Error> {
        let session = self.core.sessions.get(link.0).ok_or(Error::NotConnected)?;
        session.granted()?;
        if !session.credits.has_credit() {
            return Err(Error::WouldBlock);
        }
        let (head, data) = match word {
            Word::Mapped(is_mapped) => (Head { value: is_mapped.into(), ..Head::of(Kind::Mapped) }, &[][..]),
            Word::Trigger => (Head::of(Kind::Trigger), &[][..]),
            Word::Data(data) => (Head::of(Kind::Data), data),
            Word::Flag(offset) => (Head { words: [offset, 0, 0], ..Head::of(Kind::Flag) }, &[][..]),
            Word::Store(offset, data) => (Head { words: [offset, 0, 0], ..Head::of(Kind::Store) }, data),
        };
        self.core.say(engine, link.0, &head, data);
        Ok(())
    }

    /// Begins a transfer of `memory` to (or, if `read`, from) `offset` of a segment. `None`: not
    /// now.
    ///
    /// # Errors
    /// [`Error::TransferFailed`]; [`Error::OutOfRange`].
    ///
    /// # Safety
    /// `memory` stays mapped until [`end`](Self::end) has given a result.
    pub unsafe fn begin<W: Wire>(
        &mut self,
        engine: &mut Engine<W>,
        link: Link,
        memory: SharedBytes<'_>,
        offset: usize,
        read: bool,
    ) -> Result<Option<Begun>, Error> {
        // SAFETY: the caller's.
        let begun = unsafe { self.core.begin_transfer(engine, link.0, memory, offset, read) }?;
        Ok(begun.map(Begun))
    }

    /// How a transfer of the same memory ended, once; `None` while it goes on.
    pub fn end<W: Wire>(&mut self, engine: &mut Engine<W>, begun: Begun, memory: SharedBytes<'_>, read: bool) -> Option<Result<(), Error>> {
        self.core.end_transfer(engine, begun.0, memory, read)
    }

    /// Goes on with writes of parts of `memory` to a segment, at `offset` and on.
    ///
    /// # Safety
    /// `memory` stays mapped until all have ended.
    pub unsafe fn write<W: Wire>(&mut self, engine: &mut Engine<W>, link: Link, memory: SharedBytes<'_>, offset: usize, leaving: &mut Leaving) -> bool {
        // SAFETY: the caller's.
        unsafe { self.core.write(engine, link.0, memory, offset, &mut leaving.0) }
    }

    /// A user lets its connection go.
    pub fn disconnect<W: Wire>(&mut self, engine: &mut Engine<W>, link: Link) {
        self.core.forget(link.0);
        self.core.over(engine, link.0, Death::Misbehaved);
        self.core.sessions.remove(link.0);
    }

    /// Connections of others to objects of this process.
    pub fn users(&self) -> usize {
        self.core.sessions.iter().filter(|(_, s)| matches!(s.side, Side::Owner { .. })).count()
    }

    /// Whether each user was told at most once that its connection is over, and nothing after that.
    pub fn ends_are_last(&self) -> bool {
        self.told.iter().all(|told| {
            let told = told.0.lock().unwrap_or_else(PoisonError::into_inner);
            told.iter().rev().skip(1).all(|news| !matches!(news, News::Ended | News::Lost))
        })
    }

    /// Ends all that was exported, and its connections.
    pub fn withdraw<W: Wire>(&mut self, engine: &mut Engine<W>) {
        for id in core::mem::take(&mut self.exports) {
            self.core.end_users(engine, id);
            if let Some(mut exported) = self.core.exports.remove(id) {
                exported.close(engine);
            }
        }
    }
}

/// Another host, as far as this process can tell: a NIC of its own, whose segments, interrupts and
/// data interrupts take all that comes.
pub struct Neighbour {
    far: Far,
    object: Arc<dyn Export>,
}

struct TakesAll;

impl Export for TakesAll {
    fn admit(&self, _: u32, _: u32) -> Result<(), Error> {
        Ok(())
    }

    fn hear(&self, _: u32, _: u32, _: Said<'_>) -> Handled {
        Handled::Done
    }
}

fn nic_on_loopback() -> NicConfig {
    NicConfig { shm: false, udp: Some(Udp::default()), ..NicConfig::default() }
}

impl Neighbour {
    /// A host that is this node.
    ///
    /// # Errors
    /// [`Error::NoLinkAccess`].
    pub fn start(node: u32) -> Result<Self, Error> {
        Ok(Self { far: Far::on(nic_on_loopback(), node)?, object: Arc::new(TakesAll) })
    }

    /// Gives it a segment, an interrupt and a data interrupt of this id.
    ///
    /// # Errors
    /// [`Error::SegmentIdUsed`]; [`Error::NoSpace`].
    pub fn offer(&self, node: u32, id: u32, bytes: usize) -> Result<(), Error> {
        let memory = Arc::new(Memory::create(bytes)?);
        for (what, memory) in [(What::Segment, Some(memory)), (What::Interrupt, None), (What::DataInterrupt, None)] {
            self.far.export(Name { what, node, id, slot: 0 }, Arc::downgrade(&self.object), memory)?;
        }
        Ok(())
    }
}

/// Starts the library as that of a node which reaches another one of this host by its NIC alone.
///
/// # Errors
/// As [`initialize`](crate::initialize).
pub fn initialize_beside(own: u32, other: u32) -> Result<(), Error> {
    let address = Ipv4Addr::LOCALHOST.into();
    let nodes = Nodes {
        own,
        table: vec![(own, address), (other, address)],
        reason: String::new(),
        all_users: false,
        finding: Finding::default(),
        loads: None,
        explain: false,
        apart: true,
        address,
    };
    crate::library::start(|| Library::of(nodes, Some(Far::on(nic_on_loopback(), own)?)))
}
