// SPDX-License-Identifier: MIT OR Apache-2.0
//! An endpoint on a NIC of its own: what programs call. Any thread may call at any time; what one
//! thread does alone costs no locked instruction (the lock is a token biased to it, like the
//! NIC's).

use crate::core::Core;
use crate::life::create_mailbox;
use crate::name::Name;
use crate::operation::{Error, NOBODY, Sink};
use crate::receive::{Peek, Want, WantOne};
use crate::regions::SharedRegions;
use crate::remote::{AtomicRequest, RemoteRequest};
use crate::send::{SendOne, SendOut};
use crate::shared::SharedReceives;
use bellwire_memory::atomic::{AtomicUsize, Ordering};
use bellwire_peer::Station;
use bellwire_via::nic::{Machine, NicConfig, clock};
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, InboxHandle, Instant, Nic};
use std::time::Duration;

/// Longest sleep while something waits to leave: nobody says when there is room.
const SLICE: Duration = Duration::from_millis(1);
/// Endpoints of this process.
static OPEN: AtomicUsize = AtomicUsize::new(0);
/// Longest sleep in place of giving way to programs that compute.
const NAP: Duration = Duration::from_millis(1);
/// How long an endpoint that ends tries to send what was injected.
const FAREWELL: Duration = Duration::from_secs(3);

/// Why an endpoint could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The NIC could not.
    Nic(bellwire_via::nic::OpenError),
    /// The operating system gives no random number to name it by.
    Random,
    /// The NIC has no room.
    Resource,
    /// Another endpoint of this host has that name.
    InUse,
}

impl core::fmt::Display for OpenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Nic(e) => e.fmt(f),
            Self::Random => f.write_str("no random number for the endpoint's name"),
            Self::Resource => f.write_str("no room for the endpoint on its NIC"),
            Self::InUse => f.write_str("another endpoint has that name"),
        }
    }
}

impl std::error::Error for OpenError {}

/// An endpoint.
#[derive(Debug)]
pub struct Endpoint {
    station: Station<Core>,
    inbox: InboxHandle,
    name: Name,
}

/// The wire of a NIC of real processes.
type HostWire = bellwire_via::wire::host::HostWire;

impl Endpoint {
    /// Opens a NIC and an endpoint on it, whose peers reach `regions`. Its name has the given id
    /// ([`Name::of_service`]), or a random one.
    ///
    /// # Errors
    /// See [`OpenError`]; [`OpenError::InUse`] if an endpoint has the given id.
    pub fn open(config: NicConfig, id: Option<[u8; 16]>, regions: SharedRegions) -> Result<Self, OpenError> {
        Self::open_context(config, id, 0, regions)
    }

    /// As [`open`](Self::open), one of several endpoints that have an id together
    /// ([`Name::with_context`]): to its peers they are one source.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`OpenError::InUse`] also if another endpoint is this one of them.
    pub fn open_context(config: NicConfig, id: Option<[u8; 16]>, context: u8, regions: SharedRegions) -> Result<Self, OpenError> {
        let nic = Nic::open(config).map_err(OpenError::Nic)?;
        let id = match id {
            Some(id) => id,
            None => {
                let mut id = [0; 16];
                rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty()).map_err(|_| OpenError::Random)?;
                id
            }
        };
        let station = Station::open(nic, |engine| create(engine, id, context, regions))?;
        let (inbox, name) = {
            let core = station.machine();
            (core.mailbox.inbox(), core.name)
        };
        // Relaxed: as in `give_way`.
        OPEN.fetch_add(1, Ordering::Relaxed);
        Ok(Self { station, inbox, name })
    }

    /// By which others reach it.
    pub fn name(&self) -> Name {
        self.name
    }

    /// From now on the program calls `name` by the number `address`, a small one, and so do
    /// completions. Nothing is sent until something is for it. `false`: the number is too large.
    pub fn learn(&self, address: u64, name: Name) -> bool {
        self.station.machine().learn(address, name)
    }

    /// The program calls nobody so any more; what is under way goes on.
    pub fn forget(&self, address: u64) {
        self.station.machine().forget(address);
    }

    /// Messages, reads and writes are taken only from peers that the program has a number for; who
    /// else sends any is cut off.
    pub fn take_known_only(&self) {
        self.station.machine().known_only = true;
    }

    /// Says something to the user of another endpoint, behind what was sent there before: its
    /// [`Sink`] hears it. At most [`WORDS_BYTES_MAX`](crate::WORDS_BYTES_MAX) bytes.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn say(&self, sink: &mut impl Sink, to: Name, words: &[u8]) -> Result<(), Error> {
        self.station.with(|core, engine| {
            engine.set_now(clock());
            core.say(engine, sink, to, words)
        })
    }

    /// Whether there is a connection on which what is said to this endpoint leaves now; else the
    /// [`Sink`] hears when it is there.
    pub fn reaches(&self, name: Name) -> bool {
        self.station.machine().reaches(name)
    }

    /// From now on its messages go to these receives, and none may be posted to it alone.
    /// [`serve_shared`](Self::serve_shared) follows.
    pub fn share(&self, receives: SharedReceives) {
        self.station.machine().share(receives);
    }

    /// A shared receive was posted: messages that have waited for one take it.
    ///
    /// # Errors
    /// [`Error::InChild`].
    pub fn serve_shared(&self, sink: &mut impl Sink) -> Result<(), Error> {
        self.request(NOBODY, |core, engine| {
            core.serve_shared(engine, sink);
            Ok(())
        })
    }

    /// Gives back all receives that are posted: they end as if the connection were lost.
    pub fn give_receives_back(&self, sink: &mut impl Sink) {
        self.station.machine().give_receives_back(sink, crate::operation::Failure::ConnectionLost);
    }

    /// Multi-receive buffers with less room than this are given back.
    pub fn set_multi_receive_min(&self, bytes: usize) {
        self.station.machine().multi_left_min = bytes;
    }

    /// What [`set_multi_receive_min`](Self::set_multi_receive_min) has set.
    pub fn multi_receive_min(&self) -> usize {
        self.station.machine().multi_left_min
    }

    /// Runs a request to a peer; the engine is told the time if it may have to connect.
    #[inline]
    fn request(&self, peer: u64, run: impl FnOnce(&mut Core, &mut Engine<HostWire>) -> Result<(), Error>) -> Result<(), Error> {
        self.station.with(|core, engine| {
            if !core.is_connected(peer) {
                engine.set_now(clock());
            }
            run(core, engine)
        })
    }

    /// Sends.
    ///
    /// # Errors
    /// [`Error::Again`]; [`Error::Unreachable`]; [`Error::TooLong`] to inject;
    /// [`Error::BadArgument`]; [`Error::InChild`].
    #[inline]
    pub fn send(&self, sink: &mut impl Sink, send: &SendOut) -> Result<(), Error> {
        self.request(send.peer, |core, engine| core.send(engine, sink, send))
    }

    /// As [`send`](Self::send), for a message in one piece; the short way, if it is short.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[inline]
    pub fn send_one(&self, sink: &mut impl Sink, send: &SendOne) -> Result<(), Error> {
        if self.station.with(|core, engine| Ok::<_, Error>(core.send_now(engine, send)))? {
            sink.done(&send.completion());
            return Ok(());
        }
        self.send_one_slowly(sink, send)
    }

    #[inline(never)]
    fn send_one_slowly(&self, sink: &mut impl Sink, send: &SendOne) -> Result<(), Error> {
        self.send(sink, &SendOut::from(send))
    }

    /// As [`receive`](Self::receive), of one piece for one message; the short way, if no message
    /// waits.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    #[inline]
    pub fn receive_one(&self, sink: &mut impl Sink, want: &WantOne) -> Result<(), Error> {
        if !self.station.in_child() && self.station.machine().post_now(want) {
            return Ok(());
        }
        self.receive_one_slowly(sink, want)
    }

    #[inline(never)]
    fn receive_one_slowly(&self, sink: &mut impl Sink, want: &WantOne) -> Result<(), Error> {
        self.receive(sink, &Want::from(want))
    }

    /// Receives.
    ///
    /// # Errors
    /// [`Error::Again`]; [`Error::InChild`].
    #[inline]
    pub fn receive(&self, sink: &mut impl Sink, want: &Want) -> Result<(), Error> {
        self.request(NOBODY, |core, engine| core.receive(engine, sink, want))
    }

    /// Looks at messages that nobody has asked for; what is found, or not, is a completion.
    ///
    /// # Errors
    /// [`Error::InChild`].
    pub fn peek(&self, sink: &mut impl Sink, want: &Want, peek: Peek) -> Result<(), Error> {
        self.poll(sink)?;
        self.request(NOBODY, |core, engine| core.peek(engine, sink, want, peek))
    }

    /// Receives, or drops, a message that was claimed with the same context.
    ///
    /// # Errors
    /// [`Error::BadArgument`]: none was; [`Error::InChild`].
    pub fn take_claimed(&self, sink: &mut impl Sink, want: &Want, discard: bool) -> Result<(), Error> {
        self.request(NOBODY, |core, engine| core.take_claimed(engine, sink, want, discard))
    }

    /// Takes a receive back that has not been matched. `false`: there is none of that name.
    pub fn cancel(&self, sink: &mut impl Sink, context: usize) -> bool {
        self.station.machine().cancel(sink, context)
    }

    /// Writes into a peer's memory.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn write(&self, sink: &mut impl Sink, request: &RemoteRequest) -> Result<(), Error> {
        self.request(request.target.peer, |core, engine| core.write(engine, sink, request))
    }

    /// Reads a peer's memory.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn read(&self, sink: &mut impl Sink, request: &RemoteRequest) -> Result<(), Error> {
        self.request(request.target.peer, |core, engine| core.read(engine, sink, request))
    }

    /// Does an atomic on a peer's memory.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn atomic(&self, sink: &mut impl Sink, request: &AtomicRequest) -> Result<(), Error> {
        self.request(request.target.peer, |core, engine| core.atomic(engine, sink, request))
    }

    /// One look: takes the next thing that has come, and sends what waits. `false`: there was
    /// nothing.
    ///
    /// # Errors
    /// [`Error::InChild`].
    #[inline]
    pub fn poll(&self, sink: &mut impl Sink) -> Result<bool, Error> {
        let moved = self.poll_some(sink, 1)?;
        if !moved && self.should_give_way() {
            self.give_way(sink);
        }
        Ok(moved)
    }

    /// One look, as [`poll`](Self::poll), which takes up to `most` things if they are there; it
    /// does not let others run: for that there is [`give_way`](Self::give_way).
    ///
    /// # Errors
    /// [`Error::InChild`].
    #[inline]
    pub fn poll_some(&self, sink: &mut impl Sink, most: u32) -> Result<bool, Error> {
        self.station.poll(|core, engine| {
            let moved = core.step(engine, sink);
            if moved && most > 1 {
                core.more_steps(engine, sink, most - 1);
            }
            if core.acceptor.is_asked(engine) {
                accept(core, engine);
                return Ok(true);
            }
            Ok(moved)
        })
    }

    /// Whether others should run, after looks in vain.
    #[inline]
    pub fn should_give_way(&self) -> bool {
        self.station.should_give_way()
    }

    /// After looks in vain: lets others run, if it is time to. With no lock held that others may
    /// want.
    ///
    /// Where programs that compute want this processor, the caller sleeps for a moment in place of
    /// giving way, until something comes. Not if the process has other endpoints: what the caller
    /// looks for may come to one of those.
    #[cold]
    pub fn give_way(&self, sink: &mut impl Sink) {
        // Relaxed: a hint.
        if OPEN.load(Ordering::Relaxed) == 1 && self.station.should_nap() {
            let _ = self.wait(sink, Some(NAP), || false);
        } else {
            self.station.give_way();
        }
    }

    /// Sleeps until there is something to poll for, or `until`, or `timeout` has passed (`None`:
    /// for ever). `false`: it has passed. `until` is asked when something has happened, or after
    /// [`wake`](Self::wake); it must not call the endpoint.
    ///
    /// # Errors
    /// [`Error::InChild`].
    pub fn wait(&self, sink: &mut impl Sink, timeout: Option<Duration>, until: impl Fn() -> bool) -> Result<bool, Error> {
        let end = timeout.map(|t| std::time::Instant::now() + t);
        loop {
            let (is_ready, must_send, seen) = self.station.with(|core, engine| {
                core.leave_all(engine, sink);
                Ok::<_, Error>((engine.inbox_has(self.inbox), !core.unsent.is_empty(), core.acceptor.seen()))
            })?;
            let left = end.map(|end| end.saturating_duration_since(std::time::Instant::now()));
            if is_ready || until() {
                return Ok(true);
            }
            if left == Some(Duration::ZERO) {
                return Ok(false);
            }
            let slice = if must_send { Some(left.map_or(SLICE, |l| l.min(SLICE))) } else { left };
            match self.station.sleep(self.inbox, seen, slice, &until) {
                Ok(()) => return Ok(true),
                Err(bellwire_via::Error::Timeout) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Has whoever waits look again.
    pub fn wake(&self) {
        self.station.wake();
    }

    /// Sends what was injected and has not left, for some seconds at most; what else is under way
    /// ends.
    pub fn close(&self, sink: &mut impl Sink) {
        let end = std::time::Instant::now() + FAREWELL;
        while self.station.machine().has_unsent() && std::time::Instant::now() < end {
            if !matches!(self.poll(sink), Ok(true)) && self.wait(sink, Some(SLICE), || false).is_err() {
                break;
            }
        }
    }
}

#[cold]
#[inline(never)]
fn accept(core: &mut Core, engine: &mut Engine<HostWire>) {
    engine.set_now(clock());
    core.accept(engine);
}

/// The NIC's helper does not step the core: a [`Sink`] hears of each end, and only callers have
/// one.
impl<W: Wire> Machine<W> for Core {
    fn stands_in(&self) -> bool {
        false
    }

    fn step(&mut self, engine: &mut Engine<W>, _: Instant) -> bool {
        engine.progress()
    }

    /// [`Endpoint::close`] has sent the rest of what was injected.
    fn has_unsent(&self) -> bool {
        false
    }

    fn is_armed(&self) -> bool {
        false
    }

    fn next_timeout(&self, _: Instant) -> Instant {
        Instant::NEVER
    }

    fn close(&mut self, engine: &mut Engine<W>) {
        Self::close(self, engine);
    }
}

fn create(engine: &mut Engine<HostWire>, id: [u8; 16], context: u8, regions: SharedRegions) -> Result<Core, OpenError> {
    let name = Name::new(engine.wire().host_address(), id).ok_or(OpenError::Resource)?.with_context(context);
    let mailbox = create_mailbox(engine).map_err(|_| OpenError::Resource)?;
    let mut core = Core::new(mailbox, name, regions);
    core.listen(engine).map_err(|_| OpenError::Resource)?;
    // Nobody else has a random one: if its place is not to be had yet, it will be.
    if (name.service().is_none() && context == 0) || name.waits_at().is_some_and(|at| engine.is_listening(&at)) {
        return Ok(core);
    }
    core.close(engine);
    Err(OpenError::InUse)
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // Relaxed: as in `give_way`.
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod hostile;
