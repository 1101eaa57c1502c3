// SPDX-License-Identifier: MIT OR Apache-2.0
//! How messages arrive: what lies in the inbox is parsed, checked, and given to the operation or
//! the receive that it is for.
//!
//! A peer may write anything, and while we read: heads are copied once and then checked, payloads
//! only copied. What cannot be ends its connection.

use crate::completion::{Completion, Failure, Notes};
use crate::connection::{ConnectionId, Doing, Flow, OperationId, Stream};
use crate::core::{Core, UNEXPECTED_BYTES_MAX};
use crate::gather::{Piece, Place};
use crate::header::{DATA, EAGER_BYTES_MAX, FULL, HEAD_WORDS_MAX, Head, Kind, LAST, Plain, REPLY, TAGGED};
use crate::lent::Lent;
use crate::matching::Envelope;
use crate::posted::{Announced, ENVELOPE_BYTES, Held, Matched, Message};
use bellwire_memory::bytes;
use bellwire_via::inbox::LineWords;
use bellwire_via::wire::Wire;
use bellwire_via::{Came, Engine, Taken};

/// Longest message that an endpoint announces.
const MESSAGE_BYTES_MAX: u64 = isize::MAX as u64;

/// Who sent what: a message's connection, head and payload.
#[derive(Clone, Copy)]
pub(crate) struct Arrived<'a> {
    pub from: ConnectionId,
    pub head: &'a Head,
    /// Readable for as many bytes; its sender may be writing it.
    pub payload: (*const u8, usize),
}

/// What a look has found.
pub(crate) enum Looked {
    Nothing,
    Moved,
    /// A receive has ended well; nobody has been told yet.
    Received(Completion),
}

impl Arrived<'_> {
    #[inline]
    fn data(&self) -> Option<u64> {
        (self.head.flags & DATA != 0).then_some(self.head.data)
    }

    fn is_tagged(&self) -> bool {
        self.head.flags & TAGGED != 0
    }
}

impl Core {
    /// Begins a look: sends what waits, pulls a piece. `false`: nothing was pulled.
    #[inline(always)]
    pub(crate) fn leaves<W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        !self.unsent.is_empty() && self.leave_all(engine)
    }

    /// A look, after [`leaves`](Self::leaves): takes the next thing.
    #[inline(always)]
    pub(crate) fn look<W: Wire>(&mut self, engine: &mut Engine<W>) -> Looked {
        let mut line: LineWords = [0; 7];
        let taken = engine.take(self.mailbox.inbox(), &mut line);
        self.taken(engine, &line, taken)
    }

    /// As [`look`](Self::look), after one that has found something: takes only what was there
    /// already.
    #[inline(always)]
    pub(crate) fn look_again<W: Wire>(&mut self, engine: &mut Engine<W>) -> Looked {
        let mut line: LineWords = [0; 7];
        let taken = engine.take_more(self.mailbox.inbox(), &mut line);
        self.taken(engine, &line, taken)
    }

    /// One look for no reader: completions wait. `false`: there was nothing.
    #[inline]
    pub(crate) fn step<W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        let has_pulled = self.leaves(engine);
        match self.look(engine) {
            Looked::Nothing => return has_pulled,
            Looked::Moved => {}
            Looked::Received(completion) => self.ends.end(&completion),
        }
        true
    }

    /// Something was taken, a short message to `line`.
    #[inline(always)]
    fn taken<W: Wire>(&mut self, engine: &mut Engine<W>, line: &LineWords, taken: Option<Taken>) -> Looked {
        match taken {
            None => return Looked::Nothing,
            Some(Taken::Line(context, length)) => {
                if let Some(completion) = self.plain_message(engine, context, line, length as usize) {
                    return Looked::Received(completion);
                }
                self.message(engine, context, line, (line.as_ptr().cast(), length as usize));
            }
            Some(other) => engine.hand::<HEAD_WORDS_MAX>(self.mailbox.inbox(), line, other, |engine, came| match came {
                Came::Message(context, words, lies) => self.message(engine, context, words, lies),
                Came::Notice(context, vi, notice) => self.notice(engine, context, vi, notice),
            }),
        }
        Looked::Moved
    }

    /// A message of a line that goes whole to the oldest receive, without anything to be seen to.
    /// `None`: nothing is done.
    #[inline(always)]
    fn plain_message<W: Wire>(&mut self, engine: &mut Engine<W>, context: u64, line: &LineWords, length: usize) -> Option<Completion> {
        let (head, handled, start) = Plain::parse(line, length)?;
        if self.known_only || self.sharing.is_some() {
            return None;
        }
        let id = ConnectionId::from_raw(context as u32);
        let connection = self.connections.get_mut(id)?;
        let is_tagged = head.flags & TAGGED != 0;
        let (e, n) = (Envelope { source: connection.peer, tag: head.tag }, length - 8 * start);
        let queue = &mut self.queues[usize::from(is_tagged)];
        let receive = queue.first_for(e)?;
        let Place::One(Piece { at: to, length: room }) = receive.to else { return None };
        if receive.multi.is_some() || n > room {
            return None;
        }
        connection.credits.acknowledge(handled)?;
        connection.peer_is_full = false;
        connection.credits.has_handled();
        let owes = connection.credits.owes();
        let mut completion = Completion::new(receive.context, receive.notes(is_tagged), receive.is_silent());
        queue.drop_first();
        // SAFETY: G1: there is room for `n` bytes; the line has as many behind the head.
        unsafe { bytes::copy_small(to, line.as_ptr().add(start).cast(), n) };
        (completion.buffer, completion.length) = (to.expose_provenance(), n);
        (completion.tag, completion.source) = (e.tag, self.address_of(e.source));
        if head.flags & DATA != 0 {
            completion.data = head.data;
            completion.notes |= Notes::DATA;
        }
        if owes {
            self.tell(engine, id);
        }
        Some(completion)
    }

    /// A message lies at `lies`; its first words have been copied.
    fn message<W: Wire>(&mut self, engine: &mut Engine<W>, context: u64, words: &[u64], lies: (*const u8, usize)) {
        let id = ConnectionId::from_raw(context as u32);
        let Some(connection) = self.connections.get_mut(id) else { return };
        let parsed = Head::parse(words, lies.1).filter(|(_, handled, _)| connection.credits.acknowledge(*handled).is_some());
        let Some((head, _, start)) = parsed else { return self.malformed(engine, id) };
        connection.peer_is_full = head.flags & FULL != 0;
        let needs_no_credit = head.kind == Kind::Credit && head.flags & LAST != 0;
        if !needs_no_credit {
            connection.credits.has_handled();
        }
        let a = Arrived { from: id, head: &head, payload: (lies.0.wrapping_add(start), lies.1 - start) };
        let fine = match head.kind {
            kind if !self.admits(id, kind) => false,
            Kind::Eager => self.eager(engine, &a),
            Kind::Announce => self.announced(engine, &a),
            Kind::Ask => self.asked(engine, &a),
            Kind::Data => self.part(engine, &a),
            Kind::Done => self.peer_done(engine, &a),
            Kind::Write => self.write_arrived(engine, &a),
            Kind::Read => self.read_arrived(engine, &a),
            Kind::Atomic => self.atomic_arrived(engine, &a),
            Kind::Credit => true,
            Kind::Word => self.words_arrived(engine, &a),
        };
        if !fine {
            self.malformed(engine, id);
        }
        self.tell(engine, id);
    }

    /// The receive that a message goes to.
    #[inline]
    fn match_one<W: Wire>(&mut self, engine: &mut Engine<W>, e: Envelope, tagged: bool, length: usize) -> Option<Matched> {
        if self.sharing.is_some() {
            return self.match_shared(engine, e, tagged, length);
        }
        let queue = &mut self.queues[usize::from(tagged)];
        let at = queue.find_receive(e)?;
        if queue.receive_mut(at)?.multi.is_none() {
            let mut receive = queue.take_receive(at)?;
            return Some(self.take_part(&mut receive, tagged, length).0);
        }
        // A buffer for several stays in its place until it is used up: so it is changed as a copy
        // of its own.
        let receive = queue.receive_mut(at)?;
        let mut copy =
            crate::posted::Receive { context: receive.context, to: receive.to.clone(), flags: receive.flags, multi: receive.multi, used: receive.used };
        let (matched, is_spent) = self.take_part(&mut copy, tagged, length);
        let queue = &mut self.queues[usize::from(tagged)];
        if is_spent {
            queue.take_receive(at);
        } else if let Some(receive) = queue.receive_mut(at) {
            receive.used = copy.used;
        }
        Some(matched)
    }

    fn envelope(&self, a: &Arrived<'_>) -> Option<Envelope> {
        Some(Envelope { source: self.connections.get(a.from)?.source, tag: a.head.tag })
    }

    #[inline]
    fn eager<W: Wire>(&mut self, engine: &mut Engine<W>, a: &Arrived<'_>) -> bool {
        let Some(e) = self.envelope(a) else { return true };
        if a.payload.1 > EAGER_BYTES_MAX {
            return false;
        }
        let wants_answer = a.head.flags & REPLY != 0;
        if let Some(matched) = self.match_one(engine, e, a.is_tagged(), a.payload.1) {
            self.fill(matched, e, a.data(), a.payload);
            if wants_answer {
                self.answer(engine, a.from, a.head.operation, None);
            }
            return true;
        }
        let mut payload = vec![0; a.payload.1].into_boxed_slice();
        // SAFETY: readable for as many bytes; the copy allows that they change.
        unsafe { bytes::copy(payload.as_mut_ptr(), a.payload.0, payload.len()) };
        let answer = wants_answer.then_some((a.from, a.head.operation));
        self.unexpected_bytes += payload.len() + ENVELOPE_BYTES;
        self.is_full |= self.unexpected_bytes > UNEXPECTED_BYTES_MAX;
        self.queues[usize::from(a.is_tagged())].keep(e, Message { data: a.data(), body: Held::Here { payload, answer } });
        true
    }

    fn announced<W: Wire>(&mut self, engine: &mut Engine<W>, a: &Arrived<'_>) -> bool {
        let [length, operation, ..] = a.head.fixed;
        let Ok(operation) = u32::try_from(operation) else { return false };
        if length > MESSAGE_BYTES_MAX {
            return false;
        }
        let lent = match a.payload.1 {
            0 => None,
            // SAFETY: the payload is readable for as many bytes.
            n => match unsafe { Lent::parse(a.payload.0, n, length) } {
                None => return false,
                lent => lent.map(Box::new),
            },
        };
        let Some(e) = self.envelope(a) else { return true };
        let announced = Announced { connection: a.from, operation, length: length as usize, answer: a.head.flags & REPLY != 0, lent };
        if let Some(matched) = self.match_one(engine, e, a.is_tagged(), length as usize) {
            self.ask(engine, matched, e, a.data(), announced);
        } else {
            self.queues[usize::from(a.is_tagged())].keep(e, Message { data: a.data(), body: Held::Announced(announced) });
        }
        true
    }

    /// The receiver asks for a message that we have announced.
    fn asked<W: Wire>(&mut self, engine: &mut Engine<W>, a: &Arrived<'_>) -> bool {
        let (own, to) = (OperationId::from_raw(a.head.fixed[0] as u32), (a.head.fixed[0] >> 32) as u32);
        let wanted = a.head.fixed[1];
        let Some(operation) = self.operations.get_mut(own).filter(|o| o.connection == a.from && matches!(o.doing, Doing::Announced | Doing::Lent)) else {
            return false;
        };
        if wanted > operation.gather.len() as u64 {
            return false;
        }
        operation.doing = Doing::Streaming;
        let stream = Stream { flow: Flow::Message { to, from: operation.gather }, own: Some(own), at: 0, end: wanted as usize };
        if wanted == 0 {
            self.has_streamed(own, false);
        } else if let Some(connection) = self.connections.get_mut(a.from) {
            connection.streams.push_back(stream);
            self.leave(engine, a.from);
        }
        true
    }

    /// A part of what we have asked for.
    fn part<W: Wire>(&mut self, engine: &mut Engine<W>, a: &Arrived<'_>) -> bool {
        let (Ok(own), offset) = (u32::try_from(a.head.fixed[0]), a.head.fixed[1]) else { return false };
        let own = OperationId::from_raw(own);
        let is_ours = |o: &&mut crate::connection::Operation| o.connection == a.from && matches!(o.doing, Doing::Receiving | Doing::Fetching);
        let Some(operation) = self.operations.get_mut(own).filter(is_ours) else { return false };
        if offset != operation.moved as u64 || a.payload.1 > operation.wanted - operation.moved || a.payload.1 == 0 {
            return false;
        }
        // SAFETY: G1; `wanted` bytes are in it; the payload is readable.
        unsafe { operation.gather.write(operation.moved, a.payload.0, a.payload.1) };
        operation.moved += a.payload.1;
        if operation.moved == operation.wanted {
            if operation.doing == Doing::Receiving {
                self.received(engine, own);
            } else {
                self.finish(own, None);
            }
        }
        true
    }

    /// The peer says what our request came to.
    fn peer_done<W: Wire>(&mut self, engine: &mut Engine<W>, a: &Arrived<'_>) -> bool {
        let (own, outcome) = (OperationId::from_raw(a.head.fixed[0] as u32), (a.head.fixed[0] >> 32) as u32);
        // Several parts of a write may have been refused: the first refusal has ended it.
        let Some(operation) = self.operations.get(own).filter(|o| o.connection == a.from) else { return true };
        let failure = (outcome != 0).then(|| Failure::from_bits(outcome));
        let fits = match operation.doing {
            Doing::Awaiting => true,
            Doing::Fetching => failure.is_some() || operation.wanted == 0,
            Doing::Streaming => failure.is_some(),
            Doing::Lent => failure.is_none(),
            Doing::Leaving | Doing::Announced | Doing::Receiving | Doing::Pulling => false,
        };
        if fits {
            if operation.doing == Doing::Lent
                && let Some(connection) = self.connections.get(a.from)
            {
                engine.count_lent(connection.channel.vi());
            }
            self.finish(own, failure);
        }
        fits
    }
}
