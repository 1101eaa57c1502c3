// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receives: posting, looking, claiming, cancelling; and what is known of a message that nobody has
//! asked for yet.

use crate::completion::{Completion, Error, Failure, Notes};
use crate::connection::{Body, Doing, Multi, Operation, OperationId, Order, Out, Then};
use crate::core::Core;
use crate::core::PeerIndex;
use crate::gather::Place;
use crate::gone::Gone;
use crate::header::{Head, Kind};
use crate::matching::{Envelope, Pattern};
use crate::posted::{Announced, Held, Matched, Message, Peek, Receive, ReceiveFlags, Want, WantOne};
use bellwire_via::Engine;
use bellwire_via::wire::Wire;

impl Core {
    fn pattern(&self, w: &Want) -> Result<Pattern, Error> {
        let source = w.source.map(|address| self.resolve_source(address).ok_or(Error::BadArgument)).transpose()?;
        Ok(Pattern { source, tag: w.tag, ignore: w.ignore })
    }

    /// Posts a receive, or gives it what waits.
    #[inline]
    pub(crate) fn receive<W: Wire>(&mut self, engine: &mut Engine<W>, w: &Want) -> Result<(), Error> {
        if self.sharing.is_some() {
            return Err(Error::BadArgument);
        }
        let pattern = self.pattern(w)?;
        let mut receive = Receive { context: w.context, to: Place::of(&w.to), flags: w.flags, multi: None, used: 0 };
        if w.flags.contains(ReceiveFlags::MULTI) {
            receive.multi = Some(self.multis.insert(Multi::default()).ok_or(Error::Again)?);
        }
        loop {
            let Some((envelope, message)) = self.queues[usize::from(w.tagged)].take_message(pattern) else {
                if let Some(gone) = pattern.source.and_then(|source| self.is_gone(source)) {
                    // The peer died before this receive was posted: no message can come any more.
                    self.end_receive(&receive, w.tagged, Failure::of(gone));
                    return Ok(());
                }
                self.queues[usize::from(w.tagged)].post(pattern, receive);
                return Ok(());
            };
            let (matched, is_spent) = self.take_part(&mut receive, w.tagged, message.len());
            self.give(engine, matched, envelope, message);
            if is_spent {
                return Ok(());
            }
        }
    }

    /// Why no message of a source can come any more, if that is so.
    #[cold]
    fn is_gone(&self, source: PeerIndex) -> Option<Gone> {
        let gone = self.peers.get(source as usize)?.gone?;
        // With both connections made at once, the other one may still live; and another endpoint
        // of its name.
        if self.connections.iter().any(|(_, c)| c.source == source) { None } else { Some(gone) }
    }

    /// Posts a receive, if no message waits that it might take. `false`: nothing done,
    /// [`receive`](Self::receive) knows more.
    #[inline]
    pub(crate) fn post_now(&mut self, w: &WantOne) -> bool {
        let source = w.source.map(|address| self.resolve(address));
        let queue = &mut self.queues[usize::from(w.tagged)];
        if queue.has_messages() || self.sharing.is_some() || source.is_some_and(|s| s.is_none_or(|s| self.peers[s as usize].gone.is_some())) {
            return false;
        }
        let flags = if w.silent { ReceiveFlags::SILENT } else { ReceiveFlags::empty() };
        let receive = Receive { context: w.context, to: Place::One(w.to), flags, multi: None, used: 0 };
        queue.post(Pattern { source: source.flatten(), tag: w.tag, ignore: w.ignore }, receive);
        true
    }

    /// The place in a receive for a message of `length` bytes; whether the receive is used up by
    /// it.
    #[inline]
    pub(crate) fn take_part(&mut self, receive: &mut Receive, tagged: bool, length: usize) -> (Matched, bool) {
        let mut completion = Completion::new(receive.context, receive.notes(tagged), receive.is_silent());
        let all = receive.to.gather();
        let Some(id) = receive.multi else {
            completion.buffer = all.start().expose_provenance();
            return (Matched { to: all, completion, multi: None }, true);
        };
        let n = length.min(all.len() - receive.used);
        let to = all.part(receive.used, n);
        receive.used += n;
        completion.buffer = to.start().expose_provenance();
        // A buffer that could not hold the next longest message is given back, even if there is a
        // little room.
        let is_spent = all.len() - receive.used < self.multi_left_min.max(1);
        if let Some(multi) = self.multis.get_mut(id) {
            multi.coming += 1;
            multi.is_spent = is_spent;
        }
        (Matched { to, completion, multi: Some(id) }, is_spent)
    }

    /// Gives a matched receive the message that was held for it.
    pub(crate) fn give<W: Wire>(&mut self, engine: &mut Engine<W>, matched: Matched, e: Envelope, message: Message) {
        self.forget_bytes(&message);
        match message.body {
            Held::Here { payload, answer } => {
                if let Some((connection, operation)) = answer {
                    self.answer(engine, connection, operation, None);
                }
                self.fill(matched, e, message.data, (payload.as_ptr(), payload.len()));
            }
            Held::Announced(announced) => self.ask(engine, matched, e, message.data, announced),
        }
    }

    /// A message that is here goes to its receive.
    #[inline]
    pub(crate) fn fill(&mut self, matched: Matched, e: Envelope, data: Option<u64>, payload: (*const u8, usize)) {
        let Matched { to, mut completion, multi } = matched;
        let n = payload.1.min(to.len());
        // SAFETY: G1; the payload is readable, perhaps being written by its sender, which the copy
        // allows.
        unsafe { to.write(0, payload.0, n) };
        self.note(&mut completion, e, data, payload.1, to.len());
        if let Some(multi) = multi {
            self.came(multi, &mut completion);
        }
        self.ends.end(&completion);
    }

    /// Writes down what is known of a message that was matched.
    #[inline]
    fn note(&self, completion: &mut Completion, e: Envelope, data: Option<u64>, length: usize, room: usize) {
        if let Some(data) = data {
            completion.data = data;
            completion.notes |= Notes::DATA;
        }
        (completion.tag, completion.source) = (e.tag, self.address_of(e.source));
        completion.length = length.min(room);
        if length > room {
            completion.failure = Some(Failure::Truncated);
            completion.excess = length - room;
        }
    }

    /// Asks for a long message that was announced, or begins to pull it.
    pub(crate) fn ask<W: Wire>(&mut self, engine: &mut Engine<W>, matched: Matched, e: Envelope, data: Option<u64>, a: Announced) {
        let mut completion = matched.completion;
        let wanted = a.length.min(matched.to.len());
        self.note(&mut completion, e, data, a.length, matched.to.len());
        let mut operation = Operation::new(Doing::Receiving, a.connection, matched.to, completion);
        (operation.wanted, operation.multi) = (wanted, matched.multi);
        operation.delivery = a.answer.then_some(a.operation);
        operation.lent = a.lent.filter(|_| wanted != 0).map(|lent| (lent, a.operation));
        let is_lent = operation.lent.is_some();
        let own = if self.connections.get(a.connection).is_some() { self.operations.insert(operation) } else { None };
        let Some(own) = own else {
            // No connection any more; or more receives under way than there are names for.
            completion.failure = Some(Failure::ConnectionLost(self.peers[e.source as usize].gone.unwrap_or(Gone::Misbehaved)));
            if let Some(multi) = matched.multi {
                self.came(multi, &mut completion);
            }
            return self.ends.end(&completion);
        };
        if is_lent && self.begin_pull(engine, own, wanted) {
            return;
        }
        self.ask_for_parts(engine, own, a.operation);
        if wanted == 0 {
            self.received(engine, own);
        }
    }

    /// Asks the sender for the parts of a long message.
    pub(crate) fn ask_for_parts<W: Wire>(&mut self, engine: &mut Engine<W>, own: OperationId, theirs: u32) {
        let Some(operation) = self.operations.get(own) else { return };
        let both = u64::from(theirs) | u64::from(own.raw()) << 32;
        let head = Head::new(Kind::Ask, 0, [both, operation.wanted as u64, 0, 0]).store(0);
        self.queue(engine, operation.connection, Out { head, body: Body::Nothing, then: Then::Nothing, order: Order::Answer });
    }

    /// All of a long message is here.
    pub(crate) fn received<W: Wire>(&mut self, engine: &mut Engine<W>, own: OperationId) {
        let Some(operation) = self.operations.get(own) else { return };
        // The sender of a message that was pulled hears it in any case.
        let pulled = operation.lent.as_ref().filter(|_| operation.doing == Doing::Pulling).map(|(_, theirs)| *theirs);
        let (connection, answer) = (operation.connection, operation.delivery.or(pulled));
        let failure = operation.completion.failure;
        if operation.lent.is_some() {
            self.lent_came(engine, own);
        }
        if let Some(theirs) = answer {
            self.answer(engine, connection, theirs, None);
        }
        self.finish(own, failure);
    }

    /// Looks for an unexpected message, and completes with what is known of it, or with
    /// [`Failure::NoMessage`].
    pub(crate) fn peek<W: Wire>(&mut self, engine: &mut Engine<W>, w: &Want, peek: Peek) -> Result<(), Error> {
        let pattern = self.pattern(w)?;
        let notes = Notes::RECEIVE | if w.tagged { Notes::TAGGED } else { Notes::MESSAGE };
        let mut completion = Completion::new(w.context, notes, false);
        let found = self.queues[usize::from(w.tagged)].peek(pattern).map(|(e, m)| (e, m.data, m.len()));
        match found {
            None => completion.failure = Some(Failure::NoMessage),
            Some((e, data, length)) => {
                self.note(&mut completion, e, data, length, usize::MAX);
                if peek == Peek::Claim {
                    completion.notes |= Notes::CLAIMED;
                    self.queues[usize::from(w.tagged)].claim(pattern, w.context as u64);
                } else if peek == Peek::Discard
                    && let Some((_, message)) = self.queues[usize::from(w.tagged)].take_message(pattern)
                {
                    self.discard(engine, &message);
                }
            }
        }
        self.ends.end(&completion);
        Ok(())
    }

    /// Receives, or drops, the message that was claimed with the same context.
    ///
    /// # Errors
    /// [`Error::BadArgument`]: none was.
    pub(crate) fn take_claimed<W: Wire>(&mut self, engine: &mut Engine<W>, w: &Want, discard: bool) -> Result<(), Error> {
        let (envelope, message) = self.queues[usize::from(w.tagged)].take_claimed(w.context as u64).ok_or(Error::BadArgument)?;
        let mut receive = Receive { context: w.context, to: Place::of(&w.to), flags: w.flags - ReceiveFlags::MULTI, multi: None, used: 0 };
        if discard {
            let mut completion = Completion::new(w.context, receive.notes(w.tagged), receive.is_silent());
            self.note(&mut completion, envelope, message.data, message.len(), usize::MAX);
            completion.length = 0;
            self.discard(engine, &message);
            self.ends.end(&completion);
        } else {
            let (matched, _) = self.take_part(&mut receive, w.tagged, message.len());
            self.give(engine, matched, envelope, message);
        }
        Ok(())
    }

    /// A message is not wanted: its sender hears that it was received.
    fn discard<W: Wire>(&mut self, engine: &mut Engine<W>, message: &Message) {
        self.forget_bytes(message);
        match &message.body {
            Held::Here { answer: Some((connection, operation)), .. } => self.answer(engine, *connection, *operation, None),
            Held::Here { .. } => {}
            &Held::Announced(Announced { connection, operation, answer, .. }) => {
                let head = Head::new(Kind::Ask, 0, [u64::from(operation), 0, 0, 0]).store(0);
                self.queue(engine, connection, Out { head, body: Body::Nothing, then: Then::Nothing, order: Order::Answer });
                if answer {
                    self.answer(engine, connection, operation, None);
                }
            }
        }
    }

    /// Takes a receive back that has not been matched. `false`: there is none of that name.
    pub(crate) fn cancel(&mut self, context: usize) -> bool {
        for at in [1, 0] {
            if let Some(receive) = self.queues[at].cancel(|r| r.context == context) {
                self.end_receive(&receive, at == 1, Failure::Canceled);
                return true;
            }
        }
        false
    }

    /// A receive that is no longer posted ends unmatched. A buffer for several messages is the
    /// program's again when nothing is coming into it any more.
    pub(crate) fn end_receive(&mut self, receive: &Receive, tagged: bool, failure: Failure) {
        let mut completion = Completion::new(receive.context, receive.notes(tagged), receive.is_silent());
        completion.failure = Some(failure);
        if let Some((id, multi)) = receive.multi.and_then(|id| Some((id, self.multis.get_mut(id)?))) {
            // What is coming into it gives it back; if nothing is, this does.
            multi.is_spent = true;
            if multi.coming == 0 {
                completion.notes |= Notes::RELEASED;
                self.multis.remove(id);
            }
        }
        self.ends.end(&completion);
    }
}
