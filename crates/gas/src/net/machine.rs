// SPDX-License-Identifier: MIT OR Apache-2.0
//! One process of two as a machine on an engine of the caller's, over any wire: for fuzzers.
//! Programs have a [`Process`](crate::Process), whose messages are this on a NIC.

use bellwire_memory::atomic::AtomicU32;
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, NetAddress};

use super::ask::{Progress, There};
use super::core::Core;
use super::header::Kind;
pub use super::meet::VERSION;
use super::memory::{Atomic, Memory};
use super::name::Name;
use super::peer::State;
use crate::call::Lock;
use crate::error::{Error, Trouble};
use crate::probe::Off;
use crate::window::{Range, Window};

/// The peer's number.
const PEER: u32 = 1;

/// Process 0 of two. Each call tries once: `Ok(false)` if the request cannot leave now.
#[derive(Debug)]
pub struct Machine(Core);

fn names() -> [Name; 2] {
    [0, 1].map(|id| Name::new(&[127, 0, 0, 1], [id; 16]).expect("a short address"))
}

/// The memory of `statics`, as the layer on VIs reaches it.
///
/// # Safety
/// G1 for `statics`, as long as this lives.
pub unsafe fn memory(statics: Range) -> impl bellwire_gasvia::Memory {
    // SAFETY: the caller's promise.
    unsafe { of(statics) }
}

/// # Safety
/// G1 for `statics`.
unsafe fn of(statics: Range) -> Memory {
    static LOCK: AtomicU32 = AtomicU32::new(0);
    // SAFETY: a static.
    Memory::new(Window { statics, ..Window::default() }, unsafe { Lock::new(&raw const LOCK) })
}

impl Machine {
    /// The process, waiting for the other, which reaches the memory of `statics`.
    ///
    /// # Errors
    /// [`Error::Nic`].
    ///
    /// # Safety
    /// G1 for `statics`, as long as this lives.
    pub unsafe fn new<W: Wire>(engine: &mut Engine<W>, statics: Range) -> Result<Self, Error> {
        // SAFETY: the caller's promise.
        let mut core = Core::named(engine, names()[0], (0, 2), unsafe { of(statics) })?;
        core.names.extend(names());
        Ok(Self(core))
    }

    /// Where it waits for the other process, and what that asks as.
    pub fn addresses() -> Option<(NetAddress, NetAddress)> {
        let [own, peer] = names();
        own.waits_at().zip(peer.asks_as(PEER))
    }

    /// One look. `false`: there was nothing.
    pub fn poll<W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        if engine.connection_requests() != self.0.acceptor.seen() {
            self.0.accept(engine);
            return true;
        }
        self.0.step(engine)
    }

    /// Gets bytes.
    ///
    /// # Errors
    /// The failure that ends the job.
    ///
    /// # Safety
    /// `to` is writable for `bytes` bytes until they have come, or [`trouble`](Self::trouble) has.
    pub unsafe fn get<W: Wire>(&mut self, engine: &mut Engine<W>, address: u64, to: *mut u8, bytes: usize) -> Result<bool, Error> {
        self.0.try_get::<Off, _>(engine, There { rank: PEER, address }, (to, bytes), &mut Progress::default())
    }

    /// Puts bytes, or stores them.
    ///
    /// # Errors
    /// The failure that ends the job.
    pub fn send<W: Wire>(&mut self, engine: &mut Engine<W>, is_store: bool, address: u64, from: &[u8]) -> Result<bool, Error> {
        let kind = if is_store { Kind::Store } else { Kind::Put };
        // SAFETY: a slice.
        unsafe { self.0.try_send(engine, (kind, false), There { rank: PEER, address }, (from.as_ptr(), from.len()), &mut Progress::default()) }
    }

    /// Adds to a word of 8 bytes.
    ///
    /// # Errors
    /// The failure that ends the job.
    ///
    /// # Safety
    /// As for [`get`](Self::get): the word that was there comes to `to`.
    pub unsafe fn add<W: Wire>(&mut self, engine: &mut Engine<W>, address: u64, operand: u64, to: *mut u64) -> Result<bool, Error> {
        // SAFETY: the caller's.
        self.0.try_atomic(engine, There { rank: PEER, address }, (Atomic::Add, 8), (operand, 0), unsafe { &mut *to })
    }

    /// Sends a part of the collective call that is under way.
    ///
    /// # Errors
    /// The failure that ends the job.
    pub fn round<W: Wire>(&mut self, engine: &mut Engine<W>, part: &[u8], is_last: bool) -> Result<bool, Error> {
        self.0.try_round(engine, PEER, 0, part, is_last)
    }

    /// The data of the collective call, if it is complete; the next one begins.
    pub fn rounded(&mut self) -> Option<Vec<u8>> {
        let data = self.0.rounds.taken(0)?;
        self.0.rounds.next();
        Some(data)
    }

    /// Asks whether all is done; `of_puts`: all but stores.
    ///
    /// # Errors
    /// The failure that ends the job.
    pub fn flush<W: Wire>(&mut self, engine: &mut Engine<W>, of_puts: bool) -> Result<bool, Error> {
        self.0.try_flush(engine, of_puts)
    }

    /// The failure that ends the job, if there is one.
    pub fn trouble(&self) -> Option<Trouble> {
        self.0.trouble
    }

    /// Whether the peer is connected, and whether it has said good-bye.
    pub fn peer(&self) -> (bool, bool) {
        let peer = &self.0.peers[PEER as usize];
        (peer.state == State::Open, peer.farewell.is_some())
    }

    /// Messages sent that need a credit; answers awaited; answers and requests that wait to leave.
    pub fn counts(&self) -> (u32, usize, bool) {
        let peer = &self.0.peers[PEER as usize];
        (peer.credits.sent(), peer.pending.len(), peer.has_unsent() || peer.is_waiting())
    }

    /// Bytes that the peer has stored.
    pub fn stored(&self) -> u64 {
        self.0.stored
    }
}
