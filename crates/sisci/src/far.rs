// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nodes of other hosts: the engine's messages and RDMA on one VI for each connection.
//!
//! | file | what |
//! |---|---|
//! | `name.rs`, `message.rs` | names of objects as addresses of the engine; messages as bytes |
//! | `export.rs` | objects of this process that others connect to |
//! | `session.rs` | a connection: its credits, what waits to leave |
//! | `transfer.rs` | RDMA, and the fence behind it |
//! | `core.rs` | the machine: messages that arrive, ends, silence |
//!
//! Here is the machine on a NIC: the calls of the program, which try until it is done. The machine
//! lives under the NIC's token and calls objects under it, so an object's lock is never held by a
//! call of [`Far`].

pub(crate) mod core;
mod export;
pub(crate) mod message;
pub(crate) mod name;
pub(crate) mod session;
#[cfg(test)]
mod tests;
pub(crate) mod transfer;

use self::core::Core;
pub(crate) use self::export::{Export, ExportId, Exported, Handled, Said};
use self::message::{Head, Kind};
pub(crate) use self::name::Name;
pub use self::name::What;
use self::name::asks_as;
pub(crate) use self::session::{Granted, Import, News, SessionId};
use self::session::{Phase, Session, Side};
use self::transfer::{BYTES_MAX, TransferId};
pub(crate) use self::transfer::{Flight, Writes};
use crate::error::Error;
use crate::memory::Memory;
use crate::message::Stored;
use crate::nodes::Nodes;
use crate::rendezvous::Deadline;
use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_memory::bytes::SharedBytes;
use bellwire_peer::{Channel, Death, Patience, Station};
use bellwire_via::nic::{NicConfig, Udp, clock};
use bellwire_via::wire::Wire;
use bellwire_via::wire::host::HostWire;
use bellwire_via::wire::udp::host_address;
use bellwire_via::{Engine, InboxHandle, Nic};
use rustix::rand::{GetRandomFlags, getrandom};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Looks that find nothing before a call sleeps.
const LOOKS: u32 = 16;
/// How long the end of RDMA is polled for before a call sleeps: several round trips, and a time for
/// each byte.
const POLLED: Duration = Duration::from_micros(100);
const POLLED_PER_BYTE: Duration = Duration::from_nanos(1);
/// Longest sleep while messages are awaited; and while something waits to leave, of which nobody
/// says when there is room.
const SLICE: Duration = Duration::from_millis(20);
const SLICE_UNRUNG: Duration = Duration::from_micros(100);
/// How long it is looked for an object, at least and at most in one try.
const FIND_MIN: Duration = Duration::from_millis(300);
const FIND_MAX: Duration = Duration::from_secs(2);
/// How long an owner that was found may take to answer.
const ANSWER: Duration = Duration::from_secs(10);
/// How long a user that leaves waits for the owner to know.
const FAREWELL: Duration = Duration::from_secs(2);
/// Of objects that share a name, how long it is waited for the others when one has answered.
const OTHERS: Duration = Duration::from_millis(50);

/// A connection that stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub id: SessionId,
    pub granted: Granted,
}

/// The connections of this process to other hosts.
pub(crate) struct Far {
    station: Station<Core>,
    inbox: InboxHandle,
    /// See [`Core::served`].
    served: Arc<AtomicU32>,
    host: Vec<u8>,
    node: u32,
}

/// How the NIC is opened, if this process is to reach other hosts: `BELLWIRE_ADDRESS` says so, or a
/// table with this host and others.
fn config(nodes: &Nodes) -> Result<Option<NicConfig>, Error> {
    let said = |error: bellwire_via::nic::ConfigError| {
        eprintln!("bellwire: {error}");
        Error::IllegalParameter
    };
    let mut config = if std::env::var_os("BELLWIRE_ADDRESS").is_some_and(|a| !a.is_empty()) {
        NicConfig::from_env().map_err(said)?
    } else if nodes.spans_hosts() {
        let mut config = NicConfig::from_env_at(Some(&nodes.address.to_string())).map_err(said)?;
        if config.agent.is_none() {
            config.udp.get_or_insert(Udp::default());
        }
        config
    } else {
        return Ok(None);
    };
    // A program's NICs may be on this library; its own is not.
    config.sisci = None;
    Ok((config.udp.is_some() || config.agent.is_some()).then_some(config))
}

impl Far {
    /// Opens a NIC, if this process is to reach other hosts.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`] for a variable that means nothing; [`Error::NoLinkAccess`] if
    /// the NIC cannot be opened.
    pub fn open(nodes: &Nodes) -> Result<Option<Self>, Error> {
        config(nodes)?.map(|config| Self::on(config, nodes.own)).transpose()
    }

    /// Opens a NIC for a node.
    pub fn on(config: NicConfig, node: u32) -> Result<Self, Error> {
        let nic = Nic::open(config).map_err(|error| {
            eprintln!("bellwire: SISCI: other hosts cannot be reached: {error}");
            Error::NoLinkAccess
        })?;
        let station = Station::open(nic, Core::new)?;
        let (inbox, served) = {
            let core = station.machine();
            (core.mailbox.inbox(), Arc::clone(&core.served))
        };
        let host = station.with(|_, engine| Ok::<_, Error>(engine.wire().host_address().to_vec()))?;
        Ok(Self { station, inbox, served, host, node })
    }

    /// Tries until there is a result. What it tries may be tried again when something has come.
    ///
    /// While it looks again and again, the helper thread stays out of its way ([`Core::at_work`]).
    fn until<R>(&self, deadline: Deadline, attempt: impl FnMut(&mut Core, &mut Engine<HostWire>) -> Result<Option<R>, Error>) -> Result<R, Error> {
        self.until_moved(deadline, 0, attempt)
    }

    /// The same while so many bytes move.
    fn until_moved<R>(
        &self,
        deadline: Deadline,
        bytes: usize,
        attempt: impl FnMut(&mut Core, &mut Engine<HostWire>) -> Result<Option<R>, Error>,
    ) -> Result<R, Error> {
        let (mut was_at_work, mut serves) = (false, false);
        let result = self.look_until(deadline, bytes, attempt, |core| {
            was_at_work = true;
            // Beside that which says that this process is there.
            serves = core.exports.len() > 1;
        });
        if was_at_work && serves {
            // The helper may have left peers to this call: they are heard at once again.
            let _ = self.station.arm(|core, engine| core.look(engine, clock()));
        }
        result
    }

    /// `at_end` is told at the end of more than one look.
    fn look_until<R>(
        &self,
        deadline: Deadline,
        bytes: usize,
        mut attempt: impl FnMut(&mut Core, &mut Engine<HostWire>) -> Result<Option<R>, Error>,
        mut at_end: impl FnMut(&Core),
    ) -> Result<R, Error> {
        let polled_for = POLLED + POLLED_PER_BYTE * u32::try_from(bytes).unwrap_or(u32::MAX);
        let (mut vain, mut is_counted, mut moved_at) = (0, false, Instant::now());
        let mut is_first = true;
        loop {
            let polled = self.station.poll(|core, engine| {
                // A request leaves before the first look at what has come.
                let moved = !is_first && core.look(engine, clock());
                let done = attempt(core, engine);
                let is_over = !matches!(done, Ok(None)) || deadline.is_over();
                match (is_counted, is_over) {
                    (false, false) => core.at_work += 1,
                    (true, true) => {
                        core.at_work -= 1;
                        at_end(core);
                    }
                    _ => {}
                }
                is_counted = !is_over;
                let must_send = !core.transfers.is_empty();
                // Relaxed: changed under the token that is held here.
                let seen = (must_send, core.served.load(Ordering::Relaxed), engine.connection_requests());
                Ok::<_, Error>((done, moved, is_over, seen))
            });
            let (done, moved, is_over, (must_send, served, seen)) = polled?;
            is_first = false;
            match done? {
                Some(result) => return Ok(result),
                None if is_over => return Err(Error::Timeout),
                None => {}
            }
            if moved {
                (vain, moved_at) = (0, Instant::now());
            }
            vain += 1;
            if vain <= LOOKS || (must_send && moved_at.elapsed() < polled_for) {
                self.station.give_way();
                continue;
            }
            let slice = if must_send { SLICE_UNRUNG } else { SLICE };
            // Relaxed: asked under the token, under which it is counted; then sleepers are roused.
            let until = || self.served.load(Ordering::Relaxed) != served;
            match self.station.sleep(self.inbox, seen, Some(deadline.left().map_or(slice, |l| l.min(slice))), until) {
                Ok(()) | Err(bellwire_via::Error::Timeout) => {}
                Err(error) => {
                    if is_counted && !self.station.in_child() {
                        self.station.machine().at_work -= 1;
                    }
                    return Err(error.into());
                }
            }
            moved_at = Instant::now();
        }
    }

    /// Has an object wait for users; with memory, users reach that.
    ///
    /// # Errors
    /// [`Error::SegmentIdUsed`]; [`Error::NoSpace`].
    pub fn export(&self, name: Name, object: Weak<dyn Export>, memory: Option<Arc<Memory>>) -> Result<ExportId, Error> {
        let id = self.station.with(|core, engine| {
            engine.set_now(clock());
            let inbox = core.mailbox.inbox();
            let exported = Exported::new(engine, inbox, name, object, memory)?;
            core.exports.insert(exported).ok_or(Error::NoSpace)
        })?;
        // From now on it is to be heard at once.
        self.station.arm(|core, engine| core.look(engine, clock()))?;
        Ok(id)
    }

    /// Ends an object's connections, and that it waits.
    pub fn withdraw(&self, id: ExportId) {
        // In the child of a fork there is nothing to end.
        let _ = self.station.with(|core, engine| {
            engine.set_now(clock());
            core.end_users(engine, id);
            if let Some(mut exported) = core.exports.remove(id) {
                exported.close(engine);
            }
            Ok::<_, Error>(())
        });
    }

    /// Asks all users of an object to leave; or, with `force`, ends their connections.
    pub fn send_away(&self, id: ExportId, force: bool) {
        let _ = self.station.with(|core, engine| {
            engine.set_now(clock());
            if force {
                core.end_users(engine, id);
                return Ok::<_, Error>(());
            }
            let of_it = |side: &Side| matches!(side, Side::Owner { export, is_in: true } if *export == id);
            let users: Vec<_> = core.sessions.iter().filter(|(_, s)| of_it(&s.side)).map(|(id, _)| id).collect();
            users.into_iter().for_each(|user| core.say(engine, user, &Head::of(Kind::Unavailable), &[]));
            Ok(())
        });
    }

    /// A message of a user that was left for later is handled.
    pub fn take(&self, user: u32) {
        let _ = self.station.with(|core, engine| {
            core.taken(engine, SessionId::from_raw(user));
            Ok::<_, Error>(())
        });
    }

    /// Connects to the objects of these names at a host: to all that answer. Waits as long as it is
    /// told for one.
    ///
    /// # Errors
    /// `missing` if there is none; [`Error::ConnectionRefused`]; [`Error::NodeNotResponding`]; any
    /// other that an owner says.
    pub fn connect(&self, host: IpAddr, names: &[Name], deadline: Deadline, missing: Error) -> Result<Vec<Link>, Error> {
        let mut pause = Duration::from_millis(1);
        loop {
            let (links, error) = self.try_connect(host, names, deadline)?;
            if !links.is_empty() {
                return Ok(links);
            }
            let (again, why) = match error {
                Error::NoSuchSegment => (true, missing),
                Error::NotAvailable => (true, Error::ConnectionRefused),
                Error::NodeNotResponding | Error::Timeout => (true, Error::NodeNotResponding),
                error => (false, error),
            };
            if !again {
                return Err(why);
            }
            if deadline.is_over() {
                let is_there = why != missing || names.first().is_some_and(|name| self.probe(host, name.node).is_ok());
                return Err(if is_there { why } else { Error::NodeNotResponding });
            }
            std::thread::sleep(deadline.left().map_or(pause, |l| l.min(pause)));
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    /// One try: those that have let us in, and why another one has not.
    fn try_connect(&self, host: IpAddr, names: &[Name], deadline: Deadline) -> Result<(Vec<Link>, Error), Error> {
        let find = deadline.left().map_or(FIND_MAX, |l| l.clamp(FIND_MIN, FIND_MAX));
        let patience = Patience { find: find.into(), answer: (find + ANSWER).into() };
        let peer = host_address(SocketAddr::new(host, 0));
        let mut number = [0; 8];
        getrandom(&mut number, GetRandomFlags::empty()).map_err(|_| Error::System)?;
        let number = u64::from_le_bytes(number);
        let ids = self.station.with(|core, engine| {
            let now = clock();
            engine.set_now(now);
            let mut ids = Vec::new();
            for (name, at) in names.iter().zip(0..) {
                let to = name.at(&peer).ok_or(Error::System)?;
                let from = asks_as(&self.host, self.node, number.wrapping_add(at)).ok_or(Error::System)?;
                let session = Session::new(Channel::default(), Side::User { user: None, phase: Phase::Asking }, name.node, now);
                let mailbox = core.mailbox;
                match mailbox.connect_in(engine, &mut core.sessions, session, (&from, &to), patience) {
                    Ok(id) => ids.push(id),
                    Err(_) if !ids.is_empty() => break,
                    Err(error) => return Err(error.into()),
                }
            }
            Ok::<_, Error>(ids)
        })?;
        let mut first = None;
        let ended = self.until(Deadline::after(Some(find + ANSWER)), |core, _| {
            let phases = || ids.iter().map(|id| core.sessions.get(*id).map_or(Err(Error::NotConnected), Session::granted));
            let is_asking = |id: &SessionId| matches!(core.sessions.get(*id).map(|s| &s.side), Some(Side::User { phase: Phase::Asking, .. }));
            if phases().any(|p| p.is_ok()) {
                let since = *first.get_or_insert_with(Instant::now);
                // The first name excludes the others.
                if phases().next().is_some_and(|p| p.is_ok()) || since.elapsed() > OTHERS {
                    return Ok(Some(()));
                }
            }
            Ok((!ids.iter().any(is_asking)).then_some(()))
        });
        let (mut links, mut error) = (Vec::new(), Error::NoSuchSegment);
        for id in ids {
            let phase = self.station.machine().sessions.get(id).map_or(Err(Error::NotConnected), Session::granted);
            match phase {
                Ok(granted) => links.push(Link { id, granted }),
                Err(why) => {
                    self.disconnect(id);
                    if error == Error::NoSuchSegment && why != Error::NotConnected {
                        error = why;
                    }
                }
            }
        }
        if links.is_empty() { ended.map(|()| (links, error)) } else { Ok((links, error)) }
    }

    /// Has an object be told of its connection; if that is over already, at once.
    pub fn follow(&self, id: SessionId, object: Weak<dyn Import>) {
        let mut core = self.station.machine();
        let Some(session) = core.sessions.get_mut(id) else { return };
        let Side::User { user, phase } = &mut session.side else { return };
        let news = match phase {
            Phase::Over(Error::NotConnected) => Some(News::Ended),
            Phase::Over(_) => Some(News::Lost),
            _ => None,
        };
        if let (Some(news), Some(object)) = (news, object.upgrade()) {
            object.told(news);
        }
        *user = Some(object);
    }

    /// Ends a connection, when the owner knows that this user leaves, and so has heard all that it
    /// has said; or when the owner has not answered for a while.
    pub fn disconnect(&self, id: SessionId) {
        let mut said = false;
        let _ = self.until(Deadline::after(Some(FAREWELL)), |core, engine| {
            if core.sessions.get(id).is_none_or(|s| s.granted().is_err()) {
                return Ok(Some(()));
            }
            if !std::mem::replace(&mut said, true) {
                core.forget(id);
                core.say(engine, id, &Head::of(Kind::Bye), &[]);
            }
            Ok(None)
        });
        let _ = self.station.with(|core, engine| {
            engine.set_now(clock());
            core.over(engine, id, Death::Misbehaved);
            core.sessions.remove(id);
            Ok::<_, Error>(())
        });
    }

    /// Says something to the owner; waits for a credit if `waits`.
    ///
    /// # Errors
    /// [`Error::NotConnected`]; [`Error::NodeNotResponding`]; [`Error::WouldBlock`].
    fn say(&self, id: SessionId, head: &Head, data: &[u8], waits: bool) -> Result<(), Error> {
        let outcome = self.until(Deadline::after(None), |core, engine| {
            let session = core.sessions.get(id).ok_or(Error::NotConnected)?;
            session.granted()?;
            if !session.credits.has_credit() {
                return if waits { Ok(None) } else { Err(Error::WouldBlock) };
            }
            core.say(engine, id, head, data);
            engine.send_queued();
            Ok(Some(()))
        });
        outcome.map_err(|error| if error == Error::WouldBlock { error } else { Error::NotConnected })
    }

    /// Tells the owner whether the segment is mapped, and waits until it knows: connections have no
    /// order among them, and an interrupt may follow.
    pub fn tell_mapped(&self, id: SessionId, is_mapped: bool) {
        let mut number = None;
        // A connection that is over has nobody to tell.
        let _ = self.until(Deadline::after(None), |core, engine| {
            let session = core.sessions.get(id).ok_or(Error::NotConnected)?;
            session.granted()?;
            if let Some(number) = number {
                return Ok(session.has_counted(number).then_some(()));
            }
            if session.credits.has_credit() {
                number = Some(session.credits.sent().wrapping_add(1));
                core.say(engine, id, &Head { value: is_mapped.into(), ..Head::of(Kind::Mapped) }, &[]);
            }
            Ok(None)
        });
    }

    /// Triggers an interrupt.
    ///
    /// # Errors
    /// [`Error::NotConnected`].
    pub fn trigger(&self, id: SessionId) -> Result<(), Error> {
        self.say(id, &Head::of(Kind::Trigger), &[], true)
    }

    /// Sends a data interrupt.
    ///
    /// # Errors
    /// [`Error::NotConnected`]; [`Error::WouldBlock`] if the owner has not taken those before.
    pub fn send(&self, id: SessionId, data: &[u8]) -> Result<(), Error> {
        self.say(id, &Head::of(Kind::Data), data, false)
    }

    /// Tells an owner of a store that interrupts, with the bytes of it.
    ///
    /// # Errors
    /// [`Error::NotConnected`]; [`Error::WouldBlock`] without a credit, unless it `waits`.
    pub fn tell_stored(&self, id: SessionId, stored: &Stored, bytes: &[u8], waits: bool) -> Result<(), Error> {
        let (kind, offset, bytes) = match stored {
            Stored::Flag(offset) => (Kind::Flag, *offset, &[][..]),
            Stored::Bytes(range) => (Kind::Store, range.start, bytes),
        };
        self.say(id, &Head { words: [offset, 0, 0], ..Head::of(kind) }, bytes, waits)
    }

    /// Moves `memory` to (or, if `read`, from) `offset` of a segment; all of it has arrived when
    /// this returns.
    ///
    /// # Errors
    /// [`Error::TransferFailed`]; [`Error::OutOfRange`].
    pub fn transfer(&self, id: SessionId, memory: SharedBytes<'_>, offset: usize, read: bool) -> Result<(), Error> {
        let mut at = 0;
        while at < memory.len() {
            let part = memory.part(at, (memory.len() - at).min(BYTES_MAX))?;
            // SAFETY: `part` is borrowed until the transfer has ended, which is waited for here,
            // with no way out before.
            let name = self.until(Deadline::after(None), |core, engine| unsafe { core.begin_transfer(engine, id, part, offset + at, read) })?;
            self.end_transfer(name, part, read)?;
            at += part.len();
        }
        Ok(())
    }

    /// Goes on with writes of parts of `source` to a segment, in their order, at `offset` and on;
    /// if it `waits`, until all have ended. Whether some were begun or have ended.
    ///
    /// # Safety
    /// `source` stays mapped until no write is on its way.
    pub unsafe fn write(&self, id: SessionId, source: SharedBytes<'_>, offset: usize, writes: &mut Writes, waits: bool) -> bool {
        let (mut moved, bytes) = (false, writes.bytes());
        while !writes.is_empty() {
            let mut go_on = |core: &mut Core, engine: &mut Engine<HostWire>| {
                // SAFETY: the caller's.
                moved |= unsafe { core.write(engine, id, source, offset, writes) };
                Ok::<_, Error>(writes.is_empty().then_some(()))
            };
            if !waits {
                let _ = self.station.poll(|core, engine| {
                    core.look(engine, clock());
                    go_on(core, engine)
                });
                break;
            }
            let ended = self.until_moved(Deadline::after(None), bytes, go_on);
            match ended {
                Ok(()) => {}
                // In the child of a fork: the engine that has the memory is the parent's.
                Err(_) if self.station.in_child() => writes.give_up(),
                Err(_) => std::thread::sleep(SLICE_UNRUNG),
            }
        }
        moved
    }

    /// Goes on with writes of `parts` to these offsets of a segment, in their order: begins those
    /// that can begin now, or, if it `waits`, all, and returns when they have ended.
    ///
    /// # Safety
    /// They stay mapped until the flight is over.
    pub unsafe fn fly(&self, id: SessionId, parts: &[(SharedBytes<'_>, usize)], flight: &mut Flight, waits: bool) {
        while flight.end(parts.len()).is_none() {
            let mut go_on = |core: &mut Core, engine: &mut Engine<HostWire>| {
                // SAFETY: the caller's.
                unsafe { core.fly(engine, id, parts, flight) };
                engine.send_queued();
                Ok::<_, Error>(flight.end(parts.len()))
            };
            if !waits {
                let _ = self.station.poll(|core, engine| {
                    core.look(engine, clock());
                    go_on(core, engine)
                });
                break;
            }
            let bytes = parts.iter().map(|(part, _)| part.len()).sum();
            match self.until_moved(Deadline::after(None), bytes, go_on) {
                Ok(_) => {}
                // In the child of a fork: the engine that has the memory is the parent's.
                Err(_) if self.station.in_child() => flight.give_up(),
                Err(_) => std::thread::sleep(SLICE_UNRUNG),
            }
        }
    }

    /// Waits for the end of a transfer.
    fn end_transfer(&self, name: TransferId, memory: SharedBytes<'_>, read: bool) -> Result<(), Error> {
        loop {
            let ended = self.until_moved(Deadline::after(None), memory.len(), |core, engine| Ok(core.end_transfer(engine, name, memory, read)));
            match ended {
                Ok(result) => return result,
                // In the child of a fork: the engine that has the memory is the parent's.
                Err(_) if self.station.in_child() => return Err(Error::TransferFailed),
                Err(_) => std::thread::sleep(SLICE_UNRUNG),
            }
        }
    }

    /// Whether a process of a node answers at a host.
    ///
    /// # Errors
    /// [`Error::NodeNotResponding`].
    pub fn probe(&self, host: IpAddr, node: u32) -> Result<(), Error> {
        let names: Vec<_> = (0..PROCESSES_SEEN).map(|slot| process_name(node, slot)).collect();
        let now = Deadline::after(Some(Duration::ZERO));
        let (links, _) = self.try_connect(host, &names, now)?;
        links.iter().for_each(|link| self.disconnect(link.id));
        if links.is_empty() { Err(Error::NodeNotResponding) } else { Ok(()) }
    }

    /// Has others see that this process is there, if not enough others of its node do.
    pub fn be_seen(&self, object: &Weak<dyn Export>) {
        let _ = (0..PROCESSES_SEEN).find(|slot| self.export(process_name(self.node, *slot), object.clone(), None).is_ok());
    }
}

/// Processes of a node that can be seen by name.
const PROCESSES_SEEN: u32 = 4;

fn process_name(node: u32, slot: u32) -> Name {
    Name { what: What::Process, node, id: 0, slot }
}
