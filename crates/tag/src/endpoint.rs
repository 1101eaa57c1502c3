// SPDX-License-Identifier: MIT OR Apache-2.0
//! An endpoint on a NIC of its own: what programs call. Any thread may call at any time; what one
//! thread does alone costs no locked instruction (the lock is a token biased to it, like the
//! NIC's).

use crate::arrive::Looked;
use crate::completion::{Completion, Error, NOBODY};
use crate::core::{Core, Hears};
use crate::ends::{Bindings, Queue};
use crate::gone::Gone;
use crate::life::create_mailbox;
use crate::listener::Listener;
use crate::name::Name;
use crate::posted::{Peek, Want, WantOne};
use crate::regions::SharedRegions;
use crate::remote::{AtomicRequest, RemoteRequest};
use crate::send::{SendOne, SendOut};
use crate::shared::SharedReceives;
use bellwire_memory::atomic::{AtomicUsize, Ordering};
use bellwire_peer::Station;
use bellwire_via::nic::{Machine, NicConfig, clock};
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, InboxHandle, Instant, Nic};
use std::collections::VecDeque;
use std::time::Duration;

/// Longest sleep while something waits to leave: nobody says when there is room.
const SLICE: Duration = Duration::from_millis(1);
/// Most things that the helper takes in one step.
const STEPS: u32 = 32;
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
    /// [`Listener`] hears it. At most [`WORDS_BYTES_MAX`](crate::WORDS_BYTES_MAX) bytes.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn say(&self, to: Name, words: &[u8]) -> Result<(), Error> {
        self.station.with(|core, engine| {
            engine.set_now(clock());
            core.say(engine, to, words)
        })
    }

    /// Hears what the users of other endpoints say here.
    pub fn listen(&self, listener: Box<dyn Listener>) {
        self.station.machine().listener = Some(Hears(listener));
    }

    /// Says where completions go. Earlier ones are dropped.
    pub fn bind(&self, bindings: Bindings) {
        self.station.machine().ends.bind(bindings);
    }

    /// From now on the NIC's helper thread takes what comes, and sends what waits, whenever the
    /// program has not looked for a millisecond.
    pub fn stand_in(&self) {
        self.station.machine().stands_in = true;
        self.station.stand_in();
    }

    /// As [`stand_in`](Self::stand_in), at once whenever something comes: the [`Listener`] wakes
    /// a program that sleeps.
    pub fn stand_in_at_once(&self) {
        self.station.machine().is_watched = true;
        self.stand_in();
        let _ = self.station.arm(|core, engine| core.serve(engine));
    }

    /// Whether there is a connection on which what is said to this endpoint leaves now; else the
    /// [`Listener`] hears when it is there.
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
    pub fn serve_shared(&self) -> Result<(), Error> {
        self.request(NOBODY, |core, engine| {
            core.serve_shared(engine);
            Ok(())
        })
    }

    /// Gives back all receives that are posted: they end as if the connection were lost.
    pub fn give_receives_back(&self) {
        self.station.machine().give_receives_back(crate::completion::Failure::ConnectionLost(Gone::ENDED_HERE));
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
    pub fn send(&self, send: &SendOut) -> Result<(), Error> {
        self.request(send.peer, |core, engine| core.send(engine, send))
    }

    /// As [`send`](Self::send), for a message in one piece; the short way, if it is short.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[inline]
    pub fn send_one(&self, send: &SendOne) -> Result<(), Error> {
        let has_left = self.station.with(|core, engine| {
            let has_left = core.send_now(engine, send);
            if has_left {
                core.ends.end(&send.completion());
            }
            Ok::<_, Error>(has_left)
        })?;
        if has_left { Ok(()) } else { self.send_one_slowly(send) }
    }

    #[inline(never)]
    fn send_one_slowly(&self, send: &SendOne) -> Result<(), Error> {
        self.send(&SendOut::from(send))
    }

    /// As [`receive`](Self::receive), of one piece for one message; the short way, if no message
    /// waits.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    #[inline]
    pub fn receive_one(&self, want: &WantOne) -> Result<(), Error> {
        if !self.station.in_child() && self.station.machine().post_now(want) {
            return Ok(());
        }
        self.receive_one_slowly(want)
    }

    #[inline(never)]
    fn receive_one_slowly(&self, want: &WantOne) -> Result<(), Error> {
        self.receive(&Want::from(want))
    }

    /// Receives.
    ///
    /// # Errors
    /// [`Error::Again`]; [`Error::InChild`].
    #[inline]
    pub fn receive(&self, want: &Want) -> Result<(), Error> {
        self.request(NOBODY, |core, engine| core.receive(engine, want))
    }

    /// Looks at messages that nobody has asked for; what is found, or not, is a completion.
    ///
    /// # Errors
    /// [`Error::InChild`].
    pub fn peek(&self, want: &Want, peek: Peek) -> Result<(), Error> {
        self.poll()?;
        self.request(NOBODY, |core, engine| core.peek(engine, want, peek))
    }

    /// Receives, or drops, a message that was claimed with the same context.
    ///
    /// # Errors
    /// [`Error::BadArgument`]: none was; [`Error::InChild`].
    pub fn take_claimed(&self, want: &Want, discard: bool) -> Result<(), Error> {
        self.request(NOBODY, |core, engine| core.take_claimed(engine, want, discard))
    }

    /// Takes a receive back that has not been matched. `false`: there is none of that name.
    pub fn cancel(&self, context: usize) -> bool {
        self.station.machine().cancel(context)
    }

    /// Writes into a peer's memory.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn write(&self, request: &RemoteRequest) -> Result<(), Error> {
        self.request(request.target.peer, |core, engine| core.write(engine, request))
    }

    /// Reads a peer's memory.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn read(&self, request: &RemoteRequest) -> Result<(), Error> {
        self.request(request.target.peer, |core, engine| core.read(engine, request))
    }

    /// Does an atomic on a peer's memory.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn atomic(&self, request: &AtomicRequest) -> Result<(), Error> {
        self.request(request.target.peer, |core, engine| core.atomic(engine, request))
    }

    /// One look: takes the next thing that has come, and sends what waits. `false`: there was
    /// nothing.
    ///
    /// # Errors
    /// [`Error::InChild`].
    #[inline]
    pub fn poll(&self) -> Result<bool, Error> {
        let moved = self.station.poll(|core, engine| Ok::<_, Error>(core.step(engine) | core.accepts(engine)))?;
        if !moved && self.should_give_way() {
            self.give_way();
        }
        Ok(moved)
    }

    /// Reads up to `room` completions of a queue, in order, until one is a failure
    /// ([`take_failure`](Self::take_failure)). If none waits, one look, as [`poll`](Self::poll),
    /// which takes up to `most` things if they are there; it does not let others run: for that
    /// there is [`give_way`](Self::give_way).
    ///
    /// # Errors
    /// [`Error::InChild`].
    #[inline]
    pub fn read_completions(&self, queue: Queue, room: usize, most: u32, mut put: impl FnMut(&Completion)) -> Result<Read, Error> {
        self.station.poll(|core, engine| {
            // A reader without room wants progress.
            if room != 0 && core.ends.has(queue) {
                return Ok(core.read_waiting(queue, room, &mut put));
            }
            if core.leaves(engine) {
                return Ok(core.read_pulled(engine, queue, room, &mut put));
            }
            let mut taken = 0;
            match core.look(engine) {
                Looked::Nothing => return Ok(Read { taken, has_failure: false, has_moved: core.accepts(engine) }),
                Looked::Received(c) => {
                    if core.ends.is_for_reader(queue, room != 0, &c) {
                        put(&c);
                        taken = 1;
                    }
                }
                Looked::Moved => {}
            }
            if taken == 0 || taken != room {
                return Ok(core.read_more(engine, queue, taken, (room, most), &mut put));
            }
            core.accepts(engine);
            Ok(Read { taken, has_failure: false, has_moved: true })
        })
    }

    /// Takes the first completion of a queue if it is a failure.
    pub fn take_failure(&self, queue: Queue) -> Option<Completion> {
        self.station.machine().ends.take_failure(queue)
    }

    /// Takes all completions of a queue that wait, without a look.
    pub fn take_completions(&self, queue: Queue) -> VecDeque<Completion> {
        self.station.machine().ends.take_all(queue)
    }

    /// Adds a completion to those of the program, as if an operation had ended so.
    pub fn complete(&self, completion: &Completion) {
        self.station.machine().ends.end(completion);
    }

    /// Before the program sleeps on the descriptor of a queue's [`Waker`](crate::Waker): the next
    /// completion rings it. `false`: one waits already.
    ///
    /// # Errors
    /// [`Error::InChild`].
    pub fn arm(&self, queue: Queue) -> Result<bool, Error> {
        let mut is_armed = false;
        self.station.arm(|core, engine| {
            core.ends.arm(queue);
            let moved = core.serve(engine);
            is_armed = !core.ends.has(queue);
            moved && is_armed
        })?;
        Ok(is_armed)
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
    pub fn give_way(&self) {
        // Relaxed: a hint.
        if OPEN.load(Ordering::Relaxed) == 1 && self.station.should_nap() {
            let _ = self.wait(Some(NAP), || false);
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
    pub fn wait(&self, timeout: Option<Duration>, until: impl Fn() -> bool) -> Result<bool, Error> {
        let end = timeout.map(|t| std::time::Instant::now() + t);
        loop {
            let (is_ready, must_send, seen) = self.station.with(|core, engine| {
                let is_pulling = core.leave_all(engine);
                Ok::<_, Error>((is_pulling || engine.inbox_has(self.inbox), !core.unsent.is_empty(), core.acceptor.seen()))
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
    pub fn close(&self) {
        let end = std::time::Instant::now() + FAREWELL;
        while self.station.machine().has_unsent() && std::time::Instant::now() < end {
            if !matches!(self.poll(), Ok(true)) && self.wait(Some(SLICE), || false).is_err() {
                break;
            }
        }
    }
}

/// What a reader of completions has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Completions that were given.
    pub taken: usize,
    /// The next one is a failure.
    pub has_failure: bool,
    /// There was something, perhaps not for this reader.
    pub has_moved: bool,
}

impl Core {
    /// Reads completions that wait.
    #[cold]
    fn read_waiting(&mut self, queue: Queue, room: usize, put: &mut impl FnMut(&Completion)) -> Read {
        let taken = self.ends.take(queue, room, put);
        Read { taken, has_failure: self.ends.has_failure(queue), has_moved: true }
    }

    /// After pulling a piece: takes one thing, and reads completions.
    #[cold]
    #[inline(never)]
    fn read_pulled<W: Wire>(&mut self, engine: &mut Engine<W>, queue: Queue, room: usize, put: &mut impl FnMut(&Completion)) -> Read {
        if let Looked::Received(completion) = self.look(engine) {
            self.ends.end(&completion);
        }
        self.accepts(engine);
        self.read_waiting(queue, room, put)
    }

    /// After a look that has found something: takes what is there already, up to `most` things,
    /// while there is room for `room` completions.
    #[inline(never)]
    fn read_more<W: Wire>(
        &mut self,
        engine: &mut Engine<W>,
        queue: Queue,
        mut taken: usize,
        (room, most): (usize, u32),
        put: &mut impl FnMut(&Completion),
    ) -> Read {
        for _ in 1..most {
            let has_some = taken != 0 || self.ends.has(queue);
            if room != 0 && taken + self.ends.waiting(queue) >= room {
                break;
            }
            let mut looked = self.look_again(engine);
            if matches!(looked, Looked::Nothing) && !has_some {
                // Nothing but what the program has not asked for: then other links may have what
                // it waits for.
                self.leaves(engine);
                looked = self.look(engine);
            }
            match looked {
                Looked::Nothing => break,
                Looked::Received(c) => {
                    if self.ends.is_for_reader(queue, taken < room, &c) {
                        put(&c);
                        taken += 1;
                    }
                }
                Looked::Moved => {}
            }
        }
        taken += self.ends.take(queue, room - taken, put);
        self.accepts(engine);
        Read { taken, has_failure: self.ends.has_failure(queue), has_moved: true }
    }

    /// Answers requests for connections. `false`: there were none.
    #[inline]
    fn accepts<W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        let is_asked = self.acceptor.is_asked(engine);
        if is_asked {
            accept(self, engine);
        }
        is_asked
    }

    /// Takes what has come, up to a limit. `false`: there was nothing.
    fn serve<W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        let mut moved = self.accepts(engine);
        for _ in 0..STEPS {
            if !self.step(engine) {
                break;
            }
            moved = true;
        }
        moved
    }
}

#[cold]
#[inline(never)]
fn accept<W: Wire>(core: &mut Core, engine: &mut Engine<W>) {
    engine.set_now(clock());
    core.accept(engine);
}

impl<W: Wire> Machine<W> for Core {
    fn stands_in(&self) -> bool {
        self.stands_in
    }

    fn step(&mut self, engine: &mut Engine<W>, _: Instant) -> bool {
        let moved = engine.progress();
        if !self.stands_in {
            return moved;
        }
        let before = self.ends.ended;
        let has_served = self.serve(engine);
        if self.ends.ended != before {
            // A thread of the program may sleep until something has ended.
            engine.rouse();
        }
        moved | has_served
    }

    /// [`Endpoint::close`] has sent the rest of what was injected.
    fn has_unsent(&self) -> bool {
        false
    }

    fn is_armed(&self) -> bool {
        self.is_watched || self.ends.is_armed()
    }

    fn next_timeout(&self, now: Instant) -> Instant {
        if self.is_pulling() && Machine::<W>::is_armed(self) {
            return now;
        }
        if self.stands_in && !self.unsent.is_empty() { now + bellwire_via::Duration(SLICE.as_nanos() as u64) } else { Instant::NEVER }
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
#[cfg(test)]
mod lent;
