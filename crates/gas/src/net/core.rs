// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packets' side of a process as a machine: told the engine, it takes what comes and sends what
//! it can. No lock, clock or thread.
//!
//! A peer may write anything, and while we read: heads are copied once and then checked, payloads
//! only copied. An impossible message ends the job ([`Trouble`]).
//!
//! Invariant M1: where an answer goes ([`Peer::expect`]) is writable until it has come or
//! [`Core::abandon`] was called.

use std::sync::Arc;

use bellwire_memory::atomic::AtomicU32;
use bellwire_memory::bytes;
use bellwire_peer::{Death, Event, Mailbox, Unsent};
use bellwire_via::inbox::LineWords;
use bellwire_via::wire::Wire;
use bellwire_via::{Acceptor, Came, Engine, Notice, ViHandle};

use super::header::{HEAD_WORDS_MAX, Head, Kind};
use super::memory::{Atomic, Memory};
use super::name::Name;
use super::pack::Unpack;
use super::peer::{Answer, Farewell, Left as Sent, Peer, Pending, State};
use super::rounds::Rounds;
use crate::error::{Access, Error, Left, Trouble, Why};
use crate::probe::{Off, Probe, Stage};

/// Most bytes that one Get asks for.
pub(super) const GET_BYTES_MAX: u64 = 128 * 1024;

/// This process among those that it reaches by messages.
#[derive(Debug)]
pub(super) struct Core {
    pub mailbox: Mailbox,
    pub name: Name,
    pub me: u32,
    /// All processes of the job, by number.
    pub peers: Vec<Peer>,
    pub names: Vec<Name>,
    pub memory: Memory,
    /// Bytes that others have stored here.
    pub stored: u64,
    pub rounds: Rounds,
    /// The failure that ends the job, as soon as the program asks for anything.
    pub trouble: Option<Trouble>,
    /// This process leaves: nothing that happens to others concerns it.
    pub is_leaving: bool,
    /// A request has found no room on its way, although it had a credit: nobody says when there is
    /// some.
    pub is_full: bool,
    /// Peers with something that waits to leave.
    pub unsent: Unsent<u32>,
    /// Peers with requests that wait for company; how often this process has looked for messages.
    pub packing: Vec<u32>,
    pub looks: u32,
    /// The helper's last look could not send them: their peers have to take something first.
    pub is_stuck: bool,
    /// Times that the helper thread has taken something: a program that is about to sleep looks
    /// again then.
    pub served: Arc<AtomicU32>,
    /// Where others ask for connections; requests seen to.
    pub acceptor: Acceptor,
}

impl Core {
    pub(super) fn new(mailbox: Mailbox, name: Name, (me, size): (u32, u32), memory: Memory) -> Self {
        let peers = (0..size).map(|rank| Peer::new(if rank == me { State::Own } else { State::Connecting })).collect();
        Self {
            mailbox,
            name,
            me,
            peers,
            names: Vec::new(),
            memory,
            stored: 0,
            rounds: Rounds::new(me, size),
            trouble: None,
            is_leaving: false,
            is_full: false,
            unsent: Unsent::default(),
            packing: Vec::new(),
            looks: 0,
            is_stuck: false,
            served: Arc::default(),
            acceptor: Acceptor::default(),
        }
    }

    /// The failure that ends the job, if there is one.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.trouble.map_or(Ok(()), |trouble| Err(Error::Trouble(trouble)))
    }

    /// Somebody who has left the job, if there is one for whom `concerns` holds.
    pub(super) fn check_left(&self, concerns: impl Fn(u32, Farewell) -> bool) -> Result<(), Error> {
        let left = self.peers.iter().zip(0..).find_map(|(peer, rank)| peer.farewell.filter(|farewell| concerns(rank, *farewell)).map(|f| (rank, f)));
        left.map_or(Ok(()), |(process, farewell)| Err(Error::Left(Left { process, status: farewell.status })))
    }

    /// Something has gone wrong: the first thing counts.
    #[cold]
    pub(super) fn fail(&mut self, trouble: Trouble) {
        self.trouble.get_or_insert(trouble);
        self.abandon();
    }

    /// No answer is written any more (M1).
    #[cold]
    pub(super) fn abandon(&mut self) {
        self.peers.iter_mut().for_each(|peer| peer.pending.clear());
    }

    /// One look: sends what waits, takes the next thing. `false`: there was nothing.
    #[inline]
    pub(super) fn step<W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        self.step_probed::<Off, W>(engine)
    }

    /// As [`step`](Self::step), the steps of a message marked.
    #[inline]
    pub(super) fn step_probed<P: Probe<Stage>, W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        self.looks = self.looks.wrapping_add(1);
        if !self.packing.is_empty() {
            self.send_packs(engine, 0);
        }
        if !self.unsent.is_empty() {
            self.leave_all(engine);
        }
        let mut line: LineWords = [0; 7];
        let Some(taken) = engine.take(self.mailbox.inbox(), &mut line) else { return false };
        P::mark(Stage::Found);
        engine.hand::<HEAD_WORDS_MAX>(self.mailbox.inbox(), &line, taken, |engine, came| match came {
            Came::Message(context, words, lies) => self.message::<P, W>(engine, context, words, lies),
            Came::Notice(context, vi, notice) => self.notice(engine, context, vi, notice),
        });
        true
    }

    /// A message lies at `lies`; its first words have been copied.
    #[inline]
    fn message<P: Probe<Stage>, W: Wire>(&mut self, engine: &mut Engine<W>, context: u64, words: &[u64], lies: (*const u8, usize)) {
        let Some(peer) = usize::try_from(context).ok().and_then(|at| self.peers.get_mut(at)).filter(|peer| peer.state == State::Open) else { return };
        let rank = context as u32;
        let parsed = Head::parse(words, lies.1).filter(|(_, taken, _)| peer.credits.acknowledge(*taken).is_some());
        let Some((head, _, length)) = parsed else { return self.fail(Trouble::Misbehaved(rank)) };
        let payload = (lies.0.wrapping_add(head.len()), length);
        P::mark(Stage::Parsed);
        if !peer.take(&head) || !self.handle(rank, &head, payload) {
            return self.fail(Trouble::Misbehaved(rank));
        }
        P::mark(Stage::Handled);
        self.leave(engine, rank);
        P::mark(Stage::Left);
    }

    /// Does what a message asks for. `false`: it cannot be.
    #[inline]
    fn handle(&mut self, rank: u32, head: &Head, payload: (*const u8, usize)) -> bool {
        let [first, second, third] = head.words;
        match head.kind {
            Kind::Data => self.answered(rank, payload),
            Kind::Get | Kind::Put | Kind::Store => self.access(rank, head, payload),
            Kind::Pack => self.unpack(rank, payload),
            Kind::Atomic => {
                let Some(operation) = Atomic::from_bits(head.what) else { return false };
                match self.memory.atomic(first, operation, second, third) {
                    Ok(before) => self.answer(rank, Answer::Word(before)),
                    Err(error) => self.refuse(rank, Access::Atomic, (first, operation.1 as u64), &error),
                }
            }
            Kind::Call => match self.memory.call(first, second, third.cast_signed()) {
                Ok(result) => self.answer(rank, Answer::Word(result.cast_unsigned())),
                Err(Error::NoSuchFunction(_)) => false,
                Err(error) => self.refuse(rank, Access::Atomic, (first, 1), &error),
            },
            Kind::Probe => {
                let found = self.memory.probe(first, second).map_or_else(|error| Why::of(&error) as u64, |()| 0);
                self.answer(rank, Answer::Word(found))
            }
            Kind::Round => self.rounds.take(rank, (first, second, head.what != 0), payload),
            Kind::Leave => {
                self.peers[rank as usize].farewell.get_or_insert(Farewell { status: (first as u32).cast_signed(), calls: second });
                true
            }
            Kind::Refused => {
                let Some((access, why)) = Access::from_bits(head.what) else { return false };
                self.fail(Trouble::Refused { process: rank, access, why, address: first, bytes: second });
                true
            }
            Kind::Flush | Kind::Taken => head.what == 0,
        }
    }

    /// A get, put or store.
    #[inline]
    fn access(&mut self, rank: u32, head: &Head, payload: (*const u8, usize)) -> bool {
        let [address, bytes, _] = head.words;
        if head.kind == Kind::Get {
            let gets = &mut self.peers[rank as usize].gets;
            *gets = gets.wrapping_add(1);
            return bytes <= GET_BYTES_MAX && self.answer(rank, Answer::Memory { address, bytes: bytes as usize, part: 0 });
        }
        // SAFETY: the payload is readable for its length.
        if let Err(error) = unsafe { self.memory.write(address, payload.0, payload.1) } {
            let access = if head.kind == Kind::Put { Access::Put } else { Access::Store };
            return self.refuse(rank, access, (address, payload.1 as u64), &error);
        }
        if head.kind == Kind::Store {
            self.stored = self.stored.wrapping_add(payload.1 as u64);
        }
        true
    }

    /// Several of them.
    fn unpack(&mut self, rank: u32, payload: (*const u8, usize)) -> bool {
        // SAFETY: the payload stays readable until its message is released.
        payload.1 > 0 && unsafe { Unpack::new(payload) }.all(|request| request.is_some_and(|(record, payload)| self.access(rank, &record.head(), payload)))
    }

    /// The answers to the oldest requests to a peer have come.
    #[inline]
    fn answered(&mut self, rank: u32, payload: (*const u8, usize)) -> bool {
        if self.trouble.is_some() || self.is_leaving {
            return true;
        }
        let peer = &mut self.peers[rank as usize];
        let (mut from, mut left) = payload;
        while left > 0 {
            let Some(Pending { to, bytes: n }) = peer.expected(left) else { return false };
            // SAFETY: M1: `to` has room for as many bytes; the payload is readable, and there is as
            // much of it.
            unsafe { if n <= bytes::SMALL_MAX { bytes::copy_small(to, from, n) } else { bytes::copy(to, from, n) } }
            (from, left) = (from.wrapping_add(n), left - n);
        }
        payload.1 > 0
    }

    /// Answers a peer. `false`: it has asked for more than it may.
    fn answer(&mut self, rank: u32, answer: Answer) -> bool {
        self.peers[rank as usize].answers.push(answer, &self.memory)
    }

    fn refuse(&mut self, rank: u32, access: Access, (address, bytes): (u64, u64), error: &Error) -> bool {
        self.answer(rank, Answer::Refused { what: access.to_bits(Why::of(error)), address, bytes })
    }

    /// Sends what can leave to a peer, and notes what has to wait on.
    pub(super) fn leave<W: Wire>(&mut self, engine: &mut Engine<W>, rank: u32) {
        let (memory, Some(peer)) = (&self.memory, self.peers.get_mut(rank as usize)) else { return };
        if peer.state != State::Open {
            return;
        }
        peer.send_answers(engine, memory);
        peer.tell(engine);
        if peer.has_unsent() {
            self.unsent.mark(&mut peer.channel, rank);
        }
    }

    /// Sends what waits, to all peers.
    pub(super) fn leave_all<W: Wire>(&mut self, engine: &mut Engine<W>) {
        for rank in self.unsent.take() {
            self.peers[rank as usize].channel.seen();
            self.leave(engine, rank);
        }
    }

    /// Sends the requests that wait for company, to all peers; those of a peer that cannot take
    /// them wait on.
    pub(super) fn send_packs<W: Wire>(&mut self, engine: &mut Engine<W>, flags: u8) {
        let mut packing = std::mem::take(&mut self.packing);
        packing.retain(|rank| {
            let peer = &mut self.peers[*rank as usize];
            // Another request may have taken its pack along.
            if peer.state != State::Open || !peer.is_packing() {
                peer.flush(engine);
                return false;
            }
            let left = peer.send_pack(engine, flags);
            peer.flush(engine);
            if flags != 0 && left == Sent::Yes {
                peer.asked = peer.credits.sent();
            }
            self.is_full |= left == Sent::NoRoom;
            left != Sent::Yes
        });
        self.packing = packing;
    }

    /// Something happened to a connection.
    #[cold]
    fn notice<W: Wire>(&mut self, engine: &mut Engine<W>, context: u64, vi: ViHandle, notice: Notice) {
        match self.mailbox.event(engine, context, vi, notice) {
            Some(Event::Accepted(vi, remote)) => self.accepted(engine, vi, &remote),
            Some(Event::Opened(context, _)) => {
                if let Some(peer) = self.peers.get_mut(context as usize) {
                    peer.open(engine);
                }
            }
            Some(Event::Over(context, death)) => self.over(engine, context as u32, death),
            None => {}
        }
    }

    /// A connection is over, or never began.
    #[cold]
    fn over<W: Wire>(&mut self, engine: &mut Engine<W>, rank: u32, death: Death) {
        let Some(peer) = self.peers.get_mut(rank as usize) else { return };
        let was_open = std::mem::replace(&mut peer.state, State::Gone(death)) == State::Open;
        engine.end_vi(peer.channel.close());
        if peer.farewell.is_none() && !self.is_leaving {
            self.fail(if was_open { Trouble::Gone(rank, death) } else { Trouble::NoConnection(rank, death) });
        }
    }
}
