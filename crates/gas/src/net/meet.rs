// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the processes of a job connect: each asks those with lower numbers, where they said through
//! the launcher that they wait. A process that does not know another's random id cannot find it,
//! and one that asks has to show the id that it told the others.

use bellwire_peer::{Mailbox, Patience};
use bellwire_via::nic::clock;
use bellwire_via::wire::Wire;
use bellwire_via::{Acceptor, Duration, Engine, Error as ViaError, NetAddress, ViAttributes, ViHandle};
use rustix::rand::{GetRandomFlags, getrandom};

use super::core::Core;
use super::memory::Memory;
use super::name::{Name, who_asks};
use super::peer::{INBOX_LIMIT, State};
use crate::call::Lock;
use crate::error::Error;
use crate::window::Window;

/// How long a connection may take.
const PATIENCE: Patience = Patience { find: Duration(60_000_000_000), answer: Duration(60_000_000_000) };
/// What both ends must say: the version of this layer's messages.
pub const VERSION: u64 = 0x6761_7300_0000_0003;

impl Core {
    /// A process that waits for the others under a random name. The engine knows the time.
    pub(super) fn create<W: Wire>(engine: &mut Engine<W>, of: (u32, u32), (window, lock): (Window, Lock)) -> Result<Self, Error> {
        let mut id = [0; 16];
        getrandom(&mut id, GetRandomFlags::empty()).map_err(Error::from_call("getrandom"))?;
        let name = Name::new(engine.wire().host_address(), id).ok_or(ViaError::InvalidParameter)?;
        Ok(Self::named(engine, name, of, Memory::new(window, lock))?)
    }

    /// Process `me` of `size`, which waits for the others under `name`.
    pub(super) fn named<W: Wire>(engine: &mut Engine<W>, name: Name, (me, size): (u32, u32), memory: Memory) -> Result<Self, ViaError> {
        let mailbox = Mailbox::create(engine, VERSION, ViAttributes::default(), INBOX_LIMIT)?;
        let mut core = Self::new(mailbox, name, (me, size), memory);
        core.acceptor = Acceptor::new(engine, name.waits_at().ok_or(ViaError::InvalidParameter)?)?;
        Ok(core)
    }

    /// Learns where all processes are, by the block of each.
    pub(super) fn introduce(&mut self, blocks: &[Vec<u8>]) -> Result<(), Error> {
        let names = blocks.iter().zip(0..).map(|(block, rank)| Name::from_bytes(block).ok_or(Error::Misfit(rank)));
        self.names = names.collect::<Result<_, _>>()?;
        if self.names.len() == self.peers.len() { Ok(()) } else { Err(Error::Nic("a process has not said where it is".to_owned())) }
    }

    /// A look while the processes meet. `false`: there was nothing.
    pub(super) fn meet<W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        let is_asked = self.acceptor.is_asked(engine);
        if is_asked {
            engine.set_now(clock());
            self.accept(engine);
        }
        self.step(engine) || is_asked
    }

    /// Asks the processes before this one for connections. The inbox tells the outcomes. The engine
    /// knows the time.
    pub(super) fn connect<W: Wire>(&mut self, engine: &mut Engine<W>) -> Result<(), ViaError> {
        let from = self.names[self.me as usize].asks_as(self.me).ok_or(ViaError::InvalidParameter)?;
        for (rank, peer) in (0..self.me).zip(&mut self.peers) {
            let to = self.names[rank as usize].waits_at().ok_or(ViaError::InvalidParameter)?;
            peer.channel.set_vi(self.mailbox.connect(engine, u64::from(rank), (&from, &to), PATIENCE)?);
        }
        Ok(())
    }

    /// Answers all requests that have come. The inbox tells the outcomes.
    pub(super) fn accept<W: Wire>(&mut self, engine: &mut Engine<W>) {
        let mut acceptor = std::mem::take(&mut self.acceptor);
        self.mailbox.accept(engine, &mut acceptor, |address| self.asker(address).is_some());
        self.acceptor = acceptor;
    }

    /// The process that asks for its connection, which it has not yet.
    fn asker(&self, address: &NetAddress) -> Option<u32> {
        let (rank, id) = who_asks(address)?;
        let is_awaited = rank > self.me && self.peers.get(rank as usize)?.state == State::Connecting;
        (is_awaited && self.names.get(rank as usize)?.id == id).then_some(rank)
    }

    /// A request was accepted.
    pub(super) fn accepted<W: Wire>(&mut self, engine: &mut Engine<W>, vi: ViHandle, remote: &NetAddress) {
        let Some(rank) = self.asker(remote) else { return engine.end_vi(vi) };
        if !self.mailbox.adopt(engine, vi, u64::from(rank)) {
            return;
        }
        let peer = &mut self.peers[rank as usize];
        peer.channel.set_vi(vi);
        peer.open(engine);
    }

    /// Nobody is awaited any more.
    pub(super) fn stop_listening<W: Wire>(&mut self, engine: &mut Engine<W>) {
        self.acceptor.close(engine);
    }

    /// Whether all processes are connected.
    pub(super) fn is_complete(&self) -> bool {
        self.peers.iter().all(|peer| peer.state != State::Connecting)
    }
}
