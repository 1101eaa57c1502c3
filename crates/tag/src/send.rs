// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends. A short message leaves with its tag at once, and its memory is the program's again; a
//! long one is announced, and its bytes stay where they are until the receiver asks for them.

use crate::completion::{Completion, Error, Notes};
use crate::connection::{Body, ConnectionId, Doing, Operation, OperationId, Order, Out, Then};
use crate::core::Core;
use crate::gather::{Gather, Piece};
use crate::header::{DATA, EAGER_BYTES_MAX, Head, Kind, Plain, REPLY, TAGGED};
use crate::lent::Word;
use bellwire_peer::Put;
use bellwire_via::Engine;
use bellwire_via::frame::INLINE_BYTES_MAX;
use bellwire_via::wire::Wire;

bitflags::bitflags! {
    /// How to send.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SendFlags: u8 {
        /// Its success is not to be told.
        const SILENT = 1;
        /// The memory is the program's again when the call returns, and there is no completion at
        /// all, unless [`COUNTED`](Self::COUNTED).
        const INJECT = 2;
        /// Complete when the receiver has matched it and has all of it.
        const DELIVERY = 4;
        /// Not before what was asked of that peer before is done.
        const FENCE = 8;
        /// With [`INJECT`](Self::INJECT): there is a completion.
        const COUNTED = 16;
    }
}

/// A message to be sent.
#[derive(Clone, Copy, Debug)]
pub struct SendOut {
    /// To whom.
    pub peer: u64,
    /// With which tag; `None`: without.
    pub tag: Option<u64>,
    /// Data for the receiver's completion.
    pub data: Option<u64>,
    /// The message. Invariant G1: readable until it is complete, or until the call returns, if
    /// injected.
    pub from: Gather,
    /// The program's name for it.
    pub context: usize,
    /// How.
    pub flags: SendFlags,
}

impl SendOut {
    fn head(&self, kind: Kind, fixed: [u64; 4], operation: Option<u32>) -> Head {
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        let flags = flag(self.tag.is_some(), TAGGED) | flag(self.data.is_some(), DATA) | flag(operation.is_some(), REPLY);
        Head { kind, flags, fixed, tag: self.tag.unwrap_or(0), data: self.data.unwrap_or(0), operation: operation.unwrap_or(0) }
    }

    fn completion(&self) -> Completion {
        completion(self.tag.is_some(), self.context, self.flags)
    }

    /// Nothing but the message itself is wanted.
    #[inline]
    fn is_plain(&self) -> bool {
        !self.flags.intersects(SendFlags::DELIVERY | SendFlags::FENCE) && self.from.len() <= EAGER_BYTES_MAX
    }
}

/// A message in one piece, with no wishes but these.
#[derive(Clone, Copy, Debug)]
pub struct SendOne {
    /// To whom.
    pub peer: u64,
    /// With which tag; `None`: without.
    pub tag: Option<u64>,
    /// Data for the receiver's completion.
    pub data: Option<u64>,
    /// The message. Invariant G1: readable until it is complete, or until the call returns, if
    /// injected.
    pub from: Piece,
    /// The program's name for it.
    pub context: usize,
    /// How.
    pub flags: SendFlags,
}

impl SendOne {
    /// Longest message that may leave at once, bytes.
    pub const BYTES_MAX: usize = INLINE_BYTES_MAX - 8;

    #[inline(always)]
    pub(crate) fn completion(&self) -> Completion {
        completion(self.tag.is_some(), self.context, self.flags)
    }
}

impl From<&SendOne> for SendOut {
    fn from(s: &SendOne) -> Self {
        Self { peer: s.peer, tag: s.tag, data: s.data, from: s.from.into(), context: s.context, flags: s.flags }
    }
}

#[inline(always)]
fn completion(tagged: bool, context: usize, flags: SendFlags) -> Completion {
    let kind = if tagged { Notes::TAGGED } else { Notes::MESSAGE };
    let uncounted = flags.contains(SendFlags::INJECT) && !flags.contains(SendFlags::COUNTED);
    Completion::new(context, kind | Notes::SEND, flags.contains(SendFlags::SILENT) || uncounted)
}

impl Core {
    /// Sends a message that goes into a line, if it can leave now. `false`: nothing is done,
    /// [`send`](Self::send) knows more.
    #[inline(always)]
    pub(crate) fn send_now<W: Wire>(&mut self, engine: &mut Engine<W>, s: &SendOne) -> bool {
        if s.from.length > SendOne::BYTES_MAX || s.flags.intersects(SendFlags::DELIVERY | SendFlags::FENCE) {
            return false;
        }
        let is_full = self.is_full;
        let Some(id) = self.resolve(s.peer).and_then(|peer| self.peers[peer as usize].out) else { return false };
        let Some(connection) = self.connections.get_mut(id) else { return false };
        let flags = if s.tag.is_some() { TAGGED } else { 0 } | if s.data.is_some() { DATA } else { 0 };
        let plain = Plain { flags, tag: s.tag.unwrap_or(0), data: s.data.unwrap_or(0) };
        let (head, words) = plain.words(connection.credits.handled(), is_full);
        if !connection.may_send() || connection.peer_is_full || 8 * words + s.from.length > INLINE_BYTES_MAX {
            return false;
        }
        // SAFETY: U2 of the engine: G1.
        let sent = unsafe { engine.send_headed(connection.channel.vi(), &head, words, s.from.at, s.from.length) };
        // Broken: the notice of it is on its way.
        if sent != Ok(true) {
            return false;
        }
        connection.credits.has_sent();
        connection.has_told(is_full);
        true
    }

    /// Sends.
    #[inline]
    pub(crate) fn send<W: Wire>(&mut self, engine: &mut Engine<W>, s: &SendOut) -> Result<(), Error> {
        if s.flags.contains(SendFlags::INJECT) && s.from.len() > EAGER_BYTES_MAX {
            return Err(Error::TooLong);
        }
        let id = self.connection_to(engine, s.peer)?;
        let is_full = self.is_full;
        let connection = self.connections.get_mut(id).ok_or(Error::Unreachable)?;
        if s.is_plain()
            && connection.may_send()
            && !connection.peer_is_full
            && let Some(at) = s.from.contiguous(0, s.from.len())
        {
            let mut head = s.head(Kind::Eager, [0; 4], None).store(s.from.len());
            // SAFETY: G1.
            match unsafe { connection.put(engine, &mut head, (at, s.from.len()), is_full) } {
                Put::Left => {
                    self.ends.end(&s.completion());
                    return Ok(());
                }
                Put::Kept => {
                    self.send_rest(id, s);
                    return Ok(());
                }
                Put::Stuck | Put::Broken => {}
            }
        }
        self.send_later(engine, id, s)
    }

    /// A message has left in part. It is done when all of it has: a program that knows of its end
    /// may not look here again for long.
    #[cold]
    fn send_rest(&mut self, id: ConnectionId, s: &SendOut) {
        // Injected, or too many are under way to keep another: then it is done for the program.
        let operation = if s.flags.contains(SendFlags::INJECT) { None } else { self.begin(Operation::new(Doing::Leaving, id, s.from, s.completion())).ok() };
        if let Some(connection) = self.connections.get_mut(id) {
            connection.then = operation.map_or(Then::Nothing, Then::Finish);
        }
        self.mark_unsent(id);
        if operation.is_none() {
            self.ends.end(&s.completion());
        }
    }

    /// A send that is not as usual: long, or with something before it, or with wishes.
    #[cold]
    fn send_later<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, s: &SendOut) -> Result<(), Error> {
        self.make_room(engine, id)?;
        let connection = self.connections.get(id).ok_or(Error::Unreachable)?;
        let is_long = s.from.len() > EAGER_BYTES_MAX || connection.peer_is_full;
        let is_injected = s.flags.contains(SendFlags::INJECT);
        let wants_delivery = s.flags.contains(SendFlags::DELIVERY);
        let fence = s.flags.contains(SendFlags::FENCE);
        if is_injected && is_long {
            // The memory is not ours to keep, and the peer keeps nothing: its program has to take
            // something first.
            return Err(Error::Again);
        }
        if !is_long && !wants_delivery && is_injected {
            let out = Out {
                head: s.head(Kind::Eager, [0; 4], None).store(s.from.len()),
                body: Body::Owned(copy_of(&s.from)),
                then: Then::Nothing,
                order: Order::fenced_if(fence),
            };
            self.queue(engine, id, out);
            self.ends.end(&s.completion());
            return Ok(());
        }
        let doing = match (is_long, wants_delivery) {
            (true, _) => Doing::Announced,
            (false, true) => Doing::Awaiting,
            (false, false) => Doing::Leaving,
        };
        let mut operation = Operation::new(doing, id, s.from, s.completion());
        operation.delivery = wants_delivery.then_some(0);
        let own = self.begin(operation)?;
        let length = s.from.len();
        let (head, body) = if is_long {
            let head = s.head(Kind::Announce, [length as u64, u64::from(own.raw()), 0, 0], wants_delivery.then_some(0));
            match self.lend(engine, id, own, &s.from) {
                Some(told) => (head.store(told.len()), Body::Owned(told)),
                None => (head.store(0), Body::Nothing),
            }
        } else {
            let body = if is_injected { Body::Owned(copy_of(&s.from)) } else { Body::Memory(s.from, 0, length) };
            (s.head(Kind::Eager, [0; 4], wants_delivery.then_some(own.raw())).store(length), body)
        };
        let then = if doing == Doing::Leaving { Then::Finish(own) } else { Then::Await };
        self.queue(engine, id, Out { head, body, then, order: Order::fenced_if(fence) });
        Ok(())
    }
}

impl Core {
    /// Lends a long message of ours to its receiver, if that may read our memory: what the Announce
    /// tells.
    fn lend<W: Wire>(&mut self, engine: &Engine<W>, id: ConnectionId, own: OperationId, from: &Gather) -> Option<Box<[u8]>> {
        let connection = self.connections.get_mut(id)?;
        if from.len() < engine.lent_bytes_min(connection.channel.vi()) {
            return None;
        }
        if connection.word.is_none() {
            connection.word = Word::new();
        }
        let told = connection.word.as_ref()?.lends(from);
        self.operations.get_mut(own)?.doing = Doing::Lent;
        Some(told)
    }
}

/// A copy of the program's memory.
pub(crate) fn copy_of(from: &Gather) -> Box<[u8]> {
    let mut copy = vec![0; from.len()];
    // SAFETY: G1; the vector has as many bytes.
    unsafe { from.read(0, copy.as_mut_ptr(), copy.len()) };
    copy.into()
}
