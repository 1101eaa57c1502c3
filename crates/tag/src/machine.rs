// SPDX-License-Identifier: MIT OR Apache-2.0
//! An endpoint as a machine on an engine of the caller's, over any wire: for simulators and
//! fuzzers. Programs have an [`Endpoint`](crate::Endpoint), which is this on a NIC.

use crate::completion::{Completion, Error, Failure};
use crate::core::Core;
use crate::ends::{Bindings, Queue};
use crate::gone::Gone;
use crate::life::create_mailbox;
use crate::name::Name;
use crate::posted::{Peek, Want};
use crate::regions::SharedRegions;
use crate::remote::{AtomicRequest, RemoteRequest};
use crate::send::SendOut;
use crate::shared::SharedReceives;
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, NetAddress};
use std::collections::VecDeque;

/// Quality of service word with which connections of this layer are asked for.
pub const VERSION: u64 = crate::life::VERSION;

/// An endpoint without a NIC. Its calls are those of [`Endpoint`](crate::Endpoint), told the
/// engine, which knows the time.
#[derive(Debug)]
pub struct Machine(Core);

impl Machine {
    /// An endpoint that waits for connections under `name`.
    ///
    /// # Errors
    /// [`Error::Resource`]; [`Error::BadArgument`]: the name cannot be waited at.
    pub fn new<W: Wire>(engine: &mut Engine<W>, name: Name, regions: SharedRegions) -> Result<Self, Error> {
        let mut core = Core::new(create_mailbox(engine)?, name, regions);
        core.listen(engine)?;
        Ok(Self(core))
    }

    /// Where an endpoint of that name waits for connections, and what it asks for them as.
    pub fn addresses(of: Name) -> Option<(NetAddress, NetAddress)> {
        of.waits_at().zip(of.asks_as())
    }

    /// See [`Endpoint::learn`](crate::Endpoint::learn).
    pub fn learn(&mut self, address: u64, name: Name) -> bool {
        self.0.learn(address, name)
    }

    /// See [`Endpoint::forget`](crate::Endpoint::forget).
    pub fn forget(&mut self, address: u64) {
        self.0.forget(address);
    }

    /// See [`Endpoint::share`](crate::Endpoint::share).
    pub fn share(&mut self, receives: SharedReceives) {
        self.0.share(receives);
    }

    /// See [`Endpoint::serve_shared`](crate::Endpoint::serve_shared).
    pub fn serve_shared<W: Wire>(&mut self, engine: &mut Engine<W>) {
        self.0.serve_shared(engine);
    }

    /// See [`Endpoint::send`](crate::Endpoint::send).
    ///
    /// # Errors
    /// As there.
    pub fn send<W: Wire>(&mut self, engine: &mut Engine<W>, send: &SendOut) -> Result<(), Error> {
        self.0.send(engine, send)
    }

    /// See [`Endpoint::receive`](crate::Endpoint::receive).
    ///
    /// # Errors
    /// As there.
    pub fn receive<W: Wire>(&mut self, engine: &mut Engine<W>, want: &Want) -> Result<(), Error> {
        self.0.receive(engine, want)
    }

    /// See [`Endpoint::peek`](crate::Endpoint::peek).
    ///
    /// # Errors
    /// As there.
    pub fn peek<W: Wire>(&mut self, engine: &mut Engine<W>, want: &Want, peek: Peek) -> Result<(), Error> {
        self.0.peek(engine, want, peek)
    }

    /// See [`Endpoint::take_claimed`](crate::Endpoint::take_claimed).
    ///
    /// # Errors
    /// As there.
    pub fn take_claimed<W: Wire>(&mut self, engine: &mut Engine<W>, want: &Want, discard: bool) -> Result<(), Error> {
        self.0.take_claimed(engine, want, discard)
    }

    /// See [`Endpoint::cancel`](crate::Endpoint::cancel).
    pub fn cancel(&mut self, context: usize) -> bool {
        self.0.cancel(context)
    }

    /// See [`Endpoint::give_receives_back`](crate::Endpoint::give_receives_back).
    pub fn give_receives_back(&mut self) {
        self.0.give_receives_back(Failure::ConnectionLost(Gone::ENDED_HERE));
    }

    /// See [`Endpoint::write`](crate::Endpoint::write) and
    /// [`Endpoint::read`](crate::Endpoint::read).
    ///
    /// # Errors
    /// As there.
    pub fn reach<W: Wire>(&mut self, engine: &mut Engine<W>, request: &RemoteRequest, is_write: bool) -> Result<(), Error> {
        if is_write { self.0.write(engine, request) } else { self.0.read(engine, request) }
    }

    /// See [`Endpoint::atomic`](crate::Endpoint::atomic).
    ///
    /// # Errors
    /// As there.
    pub fn atomic<W: Wire>(&mut self, engine: &mut Engine<W>, request: &AtomicRequest) -> Result<(), Error> {
        self.0.atomic(engine, request)
    }

    /// Where completions go: see [`Endpoint::bind`](crate::Endpoint::bind).
    pub fn bind(&mut self, bindings: Bindings) {
        self.0.ends.bind(bindings);
    }

    /// Takes all completions of a queue.
    pub fn take_completions(&mut self, queue: Queue) -> VecDeque<Completion> {
        self.0.ends.take_all(queue)
    }

    /// One look: answers requests for connections, takes the next thing that has come, and sends
    /// what waits. `false`: there was nothing.
    pub fn poll<W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        if self.0.acceptor.is_asked(engine) {
            self.0.accept(engine);
            return true;
        }
        self.0.step(engine)
    }

    /// Ends all connections; nobody is accepted any more.
    pub fn close<W: Wire>(&mut self, engine: &mut Engine<W>) {
        self.0.close(engine);
    }

    /// Numbers of the operations under way, as they travel.
    pub fn operations(&self) -> impl Iterator<Item = u32> {
        self.0.operations.iter().map(|(id, _)| id.raw())
    }

    /// Connections, and buffers for several messages that are not given back.
    pub fn holds(&self) -> (usize, usize) {
        (self.0.connections.len(), self.0.multis.len())
    }
}
