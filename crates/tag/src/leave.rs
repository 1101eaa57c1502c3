// SPDX-License-Identifier: MIT OR Apache-2.0
//! How messages leave: at once, or in order behind what waits; and streams.

use crate::completion::{Error, Failure};
use crate::connection::{ANSWERS_MAX, Body, Connection, ConnectionId, Doing, Flow, OUT_MAX, OperationId, Order, Out, Stream, Then};
use crate::core::Core;
use crate::gather::Gather;
use crate::gone::Gone;
use crate::header::{DATA, EAGER_BYTES_MAX, HEAD_BYTES_MAX, Head, HeadBytes, Kind, LAST, REPLY};
use crate::regions::Access;
use bellwire_peer::Put;
use bellwire_via::Cause;
use bellwire_via::Engine;
use bellwire_via::wire::LinkFailure;
use bellwire_via::wire::Wire;

/// Parts of streams that one turn of a connection sends: others have theirs.
const PARTS_PER_TURN: u32 = 32;

impl Connection {
    /// Sends a message that has a credit: its body lies at `body`.
    ///
    /// # Safety
    /// The body is readable for its length (G1).
    #[inline]
    pub(crate) unsafe fn put<W: Wire>(&mut self, engine: &mut Engine<W>, head: &mut HeadBytes, body: (*const u8, usize), is_full: bool) -> Put {
        // SAFETY: the caller's.
        let put = unsafe { self.put_free(engine, head, body, is_full) };
        if put.has_begun() {
            self.credits.has_sent();
        }
        put
    }

    /// As [`put`](Self::put), a message that needs no credit.
    ///
    /// # Safety
    /// As there.
    #[inline]
    unsafe fn put_free<W: Wire>(&mut self, engine: &mut Engine<W>, head: &mut HeadBytes, body: (*const u8, usize), is_full: bool) -> Put {
        // SAFETY: the caller's.
        let put = unsafe { self.channel.put(engine, head.finish(self.credits.handled(), is_full), body) };
        self.channel.flush(engine);
        if put.has_begun() {
            self.has_told(is_full);
        }
        put
    }

    /// The peer hears, or is about to, what was taken, and whether we are full.
    #[inline]
    pub(crate) fn has_told(&mut self, is_full: bool) {
        self.credits.has_told();
        self.told_full = is_full;
    }

    /// Whether something of what waits could leave.
    fn has_unsent(&self) -> bool {
        self.has_messages() || self.credits.owes()
    }

    /// Whether anything of ours has not left yet.
    pub(crate) fn has_messages(&self) -> bool {
        self.channel.has_rest() || !self.out.is_empty() || !self.streams.is_empty()
    }
}

/// Where `n` bytes of a gather lie in one piece; or a copy of them in `spare`.
fn in_one_piece(gather: &Gather, at: usize, n: usize, spare: &mut Vec<u8>) -> *const u8 {
    gather.contiguous(at, n).map_or_else(
        || {
            spare.resize(n, 0);
            // SAFETY: G1; the vector has as many bytes.
            unsafe { gather.read(at, spare.as_mut_ptr(), n) };
            spare.as_ptr()
        },
        <*mut u8>::cast_const,
    )
}

/// What became of the first thing that waits.
enum Step {
    Left(Then),
    Stuck,
}

impl Core {
    /// Has a message leave, in order.
    pub(crate) fn queue<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, out: Out) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.out.push_back(out);
        if connection.out.len() > ANSWERS_MAX {
            // It asks and asks, and takes no answer.
            self.broken(engine, id, Gone::Broken(Cause::Link(LinkFailure::PeerStalled)));
        } else {
            self.leave(engine, id);
        }
    }

    /// Has another request of the program fit on a connection, if there is room by now.
    #[inline]
    pub(crate) fn make_room<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId) -> Result<(), Error> {
        let is_full = |core: &Self| core.connections.get(id).map(|c| c.out.len() >= OUT_MAX).ok_or(Error::Unreachable);
        if is_full(self)? {
            self.leave(engine, id);
            if is_full(self)? {
                return Err(Error::Again);
            }
        }
        Ok(())
    }

    /// Sends what can leave of a connection, and notes what has to wait on.
    pub(crate) fn leave<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId) {
        if self.connections.get(id).is_none_or(|c| !c.channel.is_open()) {
            return;
        }
        self.leave_in_order(engine, id);
        self.stream(engine, id);
        if self.connections.get(id).is_some_and(Connection::has_unsent) {
            self.mark_unsent(id);
        }
    }

    /// Sends what waits, of all connections, and pulls a piece of a long message. `false`: none is
    /// being pulled.
    pub(crate) fn leave_all<W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        for id in self.unsent.take() {
            if let Some(connection) = self.connections.get_mut(id) {
                connection.channel.seen();
                self.leave(engine, id);
            }
        }
        self.pull_next(engine)
    }

    /// Tells the peer what was taken from it, if it is to hear of it now.
    pub(crate) fn tell<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId) {
        let is_full = self.is_full;
        let Some(connection) = self.connections.get_mut(id).filter(|c| c.channel.is_ready() && c.credits.owes()) else { return };
        let mut head = Head::new(Kind::Credit, LAST, [0; 4]).store(0);
        // SAFETY: no body.
        if unsafe { connection.put_free(engine, &mut head, (core::ptr::null(), 0), is_full) } == Put::Stuck {
            self.mark_unsent(id);
        }
    }

    fn leave_in_order<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId) {
        loop {
            self.tell(engine, id);
            let is_full = self.is_full;
            let Some(connection) = self.connections.get_mut(id) else { return };
            match connection.put_first(engine, is_full) {
                Step::Left(Then::Nothing) => {}
                Step::Left(Then::Await) => connection.awaited += 1,
                Step::Left(Then::Finish(operation)) => self.finish(operation, None),
                Step::Stuck => return,
            }
        }
    }

    /// Sends parts of streams, by turns, while nothing is in the midst of leaving.
    fn stream<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId) {
        for _ in 0..PARTS_PER_TURN {
            let is_full = self.is_full;
            let Some(connection) = self.connections.get_mut(id) else { return };
            // What is in order goes first, unless it waits for what streams bring about.
            let is_held_up = connection.out.front().is_some_and(|first| first.order != Order::Fenced) || connection.channel.has_rest();
            if connection.streams.is_empty() || is_held_up || !connection.credits.has_credit() {
                return;
            }
            let Some(mut stream) = connection.streams.pop_front() else { return };
            let own = stream.own;
            let n = (stream.end - stream.at).min(connection.part_bytes(engine));
            let is_last = stream.at + n == stream.end;
            // A message of ours that nobody answers is done when all of it has left, not when the
            // last part has begun to: a program that knows of its end may not look here again for
            // long.
            let then = match (own, &stream.flow) {
                (Some(own), Flow::Message { .. }) if is_last && self.operations.get(own).is_some_and(|o| o.delivery.is_none()) => Then::Finish(own),
                _ => Then::Nothing,
            };
            let left = match stream.flow {
                Flow::Message { from, .. } | Flow::Write { from, .. } => connection.put_part(engine, &stream, from, n, is_full, then),
                Flow::Region { to, key, address } => {
                    let regions = self.regions.lock();
                    let Some(at) = regions.find(key, address.wrapping_add(stream.at as u64), n, Access::READ).map(|found| found.at) else {
                        drop(regions);
                        self.answer(engine, id, to, Some(Failure::RemoteAccess));
                        continue;
                    };
                    // SAFETY: G1 for the part that is sent now, which R1 gives while the regions
                    // are locked.
                    let from = unsafe { Gather::one(at.wrapping_sub(stream.at), stream.end) };
                    connection.put_part(engine, &stream, from, n, is_full, then)
                }
            };
            if left {
                stream.at += n;
            }
            let is_kept = connection.channel.has_rest();
            if stream.at == stream.end {
                if let Some(own) = own.filter(|_| !(is_kept && then != Then::Nothing)) {
                    self.has_streamed(own, matches!(stream.flow, Flow::Write { .. }));
                }
            } else if left {
                connection.streams.push_back(stream);
            } else {
                connection.streams.push_front(stream);
            }
            if !left {
                return;
            }
            self.tell(engine, id);
        }
    }

    /// All of a message or write of ours has left.
    pub(crate) fn has_streamed(&mut self, own: OperationId, is_write: bool) {
        let Some(operation) = self.operations.get_mut(own) else { return };
        if is_write || operation.delivery.is_some() {
            operation.doing = Doing::Awaiting;
        } else {
            self.finish(own, None);
        }
    }
}

impl Connection {
    fn put_first<W: Wire>(&mut self, engine: &mut Engine<W>, is_full: bool) -> Step {
        if !self.channel.is_ready() {
            let has_left = self.channel.push(engine);
            self.channel.flush(engine);
            return if has_left { Step::Left(core::mem::replace(&mut self.then, Then::Nothing)) } else { Step::Stuck };
        }
        if !self.credits.has_credit() {
            return Step::Stuck;
        }
        // Taken out, so that the connection can be changed beside it.
        let Some(mut first) = self.take_next() else { return Step::Stuck };
        let mut spare = Vec::new();
        let body = match first.body {
            Body::Nothing => (core::ptr::null(), 0),
            Body::Memory(ref gather, at, n) => (in_one_piece(gather, at, n, &mut spare), n),
            Body::Owned(ref data) => (data.as_ptr(), data.len()),
            Body::Stream(stream) => {
                self.streams.push_back(*stream);
                return Step::Left(first.then);
            }
        };
        // SAFETY: G1, or ours.
        match unsafe { self.put(engine, &mut first.head, body, is_full) } {
            Put::Left => return Step::Left(first.then),
            Put::Kept => self.then = first.then,
            Put::Stuck | Put::Broken => self.out.push_front(first),
        }
        Step::Stuck
    }

    /// Takes the first that waits, or, while a fence holds that up, the first answer. A fence that
    /// held up answers would wait for ever for a peer whose fence waits for one of them.
    fn take_next(&mut self) -> Option<Out> {
        let is_held_up = self.awaited != 0 && self.out.front()?.order == Order::Fenced;
        let at = if is_held_up { self.out.iter().position(|out| out.order == Order::Answer)? } else { 0 };
        self.out.remove(at)
    }

    /// Longest part of a stream.
    fn part_bytes<W: Wire>(&self, engine: &Engine<W>) -> usize {
        self.channel.part_bytes(engine, EAGER_BYTES_MAX + HEAD_BYTES_MAX, false) - HEAD_BYTES_MAX
    }

    /// Sends the next `n` bytes of a stream. `false`: nothing left. `then` is to be done when what
    /// has left in part has left.
    fn put_part<W: Wire>(&mut self, engine: &mut Engine<W>, stream: &Stream, from: Gather, n: usize, is_full: bool, then: Then) -> bool {
        let mut head = stream.head(n).store(n);
        let mut spare = Vec::new();
        let body = in_one_piece(&from, stream.at, n, &mut spare);
        // SAFETY: G1; or the region's lock is held (R1).
        let put = unsafe { self.put(engine, &mut head, (body, n), is_full) };
        if put == Put::Kept {
            self.then = then;
        }
        put.has_begun()
    }
}

impl Stream {
    fn head(&self, n: usize) -> Head {
        match self.flow {
            Flow::Message { to, .. } | Flow::Region { to, .. } => Head::new(Kind::Data, 0, [u64::from(to), self.at as u64, 0, 0]),
            Flow::Write { key, address, data, .. } => {
                let is_last = self.at + n == self.end;
                let flags = if is_last { LAST | REPLY | if data.is_some() { DATA } else { 0 } } else { 0 };
                let own = u64::from(self.own.map_or(0, OperationId::raw));
                let mut head = Head::new(Kind::Write, flags, [address.wrapping_add(self.at as u64), key, own, 0]);
                head.data = data.unwrap_or(0);
                head
            }
        }
    }
}
