// SPDX-License-Identifier: MIT OR Apache-2.0
//! How messages leave: at once, or in order behind what waits; and streams.

use crate::connection::{ANSWERS_MAX, Body, Connection, ConnectionId, Flow, OUT_MAX, Out, State, Stream, TELL_AFTER, Then};
use crate::core::Core;
use crate::gather::Gather;
use crate::header::{DATA, EAGER_BYTES_MAX, HEAD_BYTES_MAX, Head, HeadBytes, Kind, LAST, REPLY};
use crate::operation::{Doing, Error, Failure, OperationId, Sink};
use crate::regions::Access;
use bellwire_memory::bytes;
use bellwire_via::frame::INLINE_BYTES_MAX;
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, Pieces};

/// Parts of streams that one turn of a connection sends: others have theirs.
const PARTS_PER_TURN: u32 = 32;

/// How far a message came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    All,
    /// Some of it, or nothing: `part` of the connection says how much.
    Stuck,
    /// The connection is broken; the notice of it is on its way.
    Broken,
}

impl Connection {
    /// Sends what is left of a message that has a credit, or needs none: its body lies at `body`.
    ///
    /// # Safety
    /// The body is readable for its length (G1).
    #[inline]
    pub(crate) unsafe fn put<W: Wire>(&mut self, engine: &mut Engine<W>, head: &mut HeadBytes, body: (*const u8, usize), is_full: bool) -> Put {
        let total = head.len() + body.1;
        if total <= INLINE_BYTES_MAX {
            let mut line = [0u8; INLINE_BYTES_MAX];
            let head = head.finish(self.handled, is_full);
            line[..head.len()].copy_from_slice(head);
            // SAFETY: the caller's; the line has room.
            unsafe { bytes::copy_small(line.as_mut_ptr().add(head.len()), body.0, body.1) };
            // SAFETY: U2 of the engine: the line outlives the call.
            return match unsafe { engine.send_line(self.vi, line.as_ptr(), total) } {
                Ok(true) => self.has_left(is_full),
                Ok(false) => Put::Stuck,
                Err(_) => Put::Broken,
            };
        }
        // What has left of the head stands.
        let head = if self.part == 0 { head.finish(self.handled, is_full) } else { head.as_bytes() };
        let pieces = Pieces { head: (head.as_ptr(), head.len()), body };
        // SAFETY: U2 of the engine: the caller's.
        match unsafe { engine.send_copied(self.vi, &pieces, self.part) } {
            Ok(n) if n == total => self.has_left(is_full),
            Ok(n) => {
                self.part = n;
                Put::Stuck
            }
            Err(_) => Put::Broken,
        }
    }

    #[inline]
    fn has_left(&mut self, is_full: bool) -> Put {
        self.part = 0;
        self.has_told(is_full);
        Put::All
    }

    /// The peer hears, or is about to, what was taken, and whether we are full. A message in parts says what was so when it began: one Credit more, at most.
    #[inline]
    pub(crate) fn has_told(&mut self, is_full: bool) {
        (self.told, self.told_full) = (self.handled, is_full);
    }

    /// Whether something of what waits could leave.
    fn has_unsent(&self) -> bool {
        !self.out.is_empty() || !self.streams.is_empty() || self.owes_credit()
    }

    #[inline]
    pub(crate) fn owes_credit(&self) -> bool {
        self.handled.wrapping_sub(self.told) >= TELL_AFTER
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
    pub(crate) fn queue<W: Wire>(&mut self, engine: &mut Engine<W>, sink: &mut impl Sink, id: ConnectionId, out: Out) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.out.push_back(out);
        if connection.out.len() > ANSWERS_MAX {
            // It asks and asks, and takes no answer.
            self.broken(engine, sink, id, Failure::ConnectionLost);
        } else {
            self.leave(engine, sink, id);
        }
    }

    /// Has another request of the program fit on a connection, if there is room by now.
    #[inline]
    pub(crate) fn make_room<W: Wire>(&mut self, engine: &mut Engine<W>, sink: &mut impl Sink, id: ConnectionId) -> Result<(), Error> {
        let is_full = |core: &Self| core.connections.get(id).map(|c| c.out.len() >= OUT_MAX).ok_or(Error::Unreachable);
        if is_full(self)? {
            self.leave(engine, sink, id);
            if is_full(self)? {
                return Err(Error::Again);
            }
        }
        Ok(())
    }

    /// Sends what can leave of a connection, and notes what has to wait on.
    pub(crate) fn leave<W: Wire>(&mut self, engine: &mut Engine<W>, sink: &mut impl Sink, id: ConnectionId) {
        if self.connections.get(id).is_none_or(|c| c.state != State::Open) {
            return;
        }
        self.leave_in_order(engine, sink, id);
        self.stream(engine, sink, id);
        if self.connections.get(id).is_some_and(Connection::has_unsent) {
            self.mark_unsent(id);
        }
    }

    /// Sends what waits, of all connections.
    pub(crate) fn leave_all<W: Wire>(&mut self, engine: &mut Engine<W>, sink: &mut impl Sink) {
        for id in core::mem::take(&mut self.unsent) {
            if let Some(connection) = self.connections.get_mut(id) {
                connection.is_unsent = false;
                self.leave(engine, sink, id);
            }
        }
    }

    /// Tells the peer what was taken from it, if it is to hear of it now.
    pub(crate) fn tell<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId) {
        let is_full = self.is_full;
        let Some(connection) = self.connections.get_mut(id).filter(|c| c.state == State::Open && c.part == 0 && c.owes_credit()) else { return };
        let mut head = Head::new(Kind::Credit, LAST, [0; 4]).store(0);
        // SAFETY: no body.
        if unsafe { connection.put(engine, &mut head, (core::ptr::null(), 0), is_full) } == Put::Stuck {
            self.mark_unsent(id);
        }
    }

    fn leave_in_order<W: Wire>(&mut self, engine: &mut Engine<W>, sink: &mut impl Sink, id: ConnectionId) {
        loop {
            self.tell(engine, id);
            let is_full = self.is_full;
            let Some(connection) = self.connections.get_mut(id) else { return };
            match connection.put_first(engine, is_full) {
                Step::Left(Then::Nothing) => {}
                Step::Left(Then::Await) => connection.awaited += 1,
                Step::Left(Then::Finish(operation)) => self.finish(sink, operation, None),
                Step::Stuck => return,
            }
        }
    }

    /// Sends parts of streams, by turns, while nothing is in the midst of leaving.
    fn stream<W: Wire>(&mut self, engine: &mut Engine<W>, sink: &mut impl Sink, id: ConnectionId) {
        for _ in 0..PARTS_PER_TURN {
            let is_full = self.is_full;
            let Some(connection) = self.connections.get_mut(id) else { return };
            // What is in order goes first, unless it waits for what streams bring about.
            let is_held_up = connection.out.front().is_some_and(|first| !first.fence) || connection.part != 0;
            if connection.streams.is_empty() || is_held_up || !connection.has_credit() {
                return;
            }
            let Some(mut stream) = connection.streams.pop_front() else { return };
            let own = stream.own;
            let n = (stream.end - stream.at).min(connection.part_bytes(engine));
            let is_last = stream.at + n == stream.end;
            // A message of ours that nobody answers is done when all of it has left, not when the last part has begun to: a program that knows of its end may not look here again for long.
            let then = match (own, &stream.flow) {
                (Some(own), Flow::Message { .. }) if is_last && self.operations.get(own).is_some_and(|o| o.delivery.is_none()) => Then::Finish(own),
                _ => Then::Nothing,
            };
            let left = match stream.flow {
                Flow::Message { from, .. } | Flow::Write { from, .. } => connection.put_part(engine, &stream, from, n, is_full, then),
                Flow::Region { to, key, address } => {
                    let regions = self.regions.lock();
                    let Some((at, _)) = regions.find(key, address.wrapping_add(stream.at as u64), n, Access::READ) else {
                        drop(regions);
                        self.answer(engine, sink, id, to, Some(Failure::RemoteAccess));
                        continue;
                    };
                    connection.put_part(engine, &stream, Gather::one(at.wrapping_sub(stream.at), stream.end), n, is_full, then)
                }
            };
            if left {
                stream.at += n;
            }
            let is_kept = connection.part != 0;
            if stream.at == stream.end {
                if let Some(own) = own.filter(|_| !(is_kept && then != Then::Nothing)) {
                    self.has_streamed(sink, own, matches!(stream.flow, Flow::Write { .. }));
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
    pub(crate) fn has_streamed(&mut self, sink: &mut impl Sink, own: OperationId, is_write: bool) {
        let Some(operation) = self.operations.get_mut(own) else { return };
        if is_write || operation.delivery.is_some() {
            operation.doing = Doing::Awaiting;
        } else {
            self.finish(sink, own, None);
        }
    }
}

impl Connection {
    fn put_first<W: Wire>(&mut self, engine: &mut Engine<W>, is_full: bool) -> Step {
        let begun = self.part != 0;
        if !begun && !self.has_credit() {
            return Step::Stuck;
        }
        // Taken out, so that the connection can be changed beside it.
        let Some(mut first) = self.out.pop_front() else { return Step::Stuck };
        if first.fence && self.awaited != 0 && !begun {
            self.out.push_front(first);
            return Step::Stuck;
        }
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
        let put = unsafe { self.put(engine, &mut first.head, body, is_full) };
        if !begun && (put == Put::All || self.part != 0) {
            self.sent = self.sent.wrapping_add(1);
        }
        if put == Put::All {
            return Step::Left(first.then);
        }
        self.out.push_front(first);
        Step::Stuck
    }

    /// Longest part of a stream.
    fn part_bytes<W: Wire>(&self, engine: &Engine<W>) -> usize {
        whole_frames(engine.whole_message_bytes(self.vi)) - HEAD_BYTES_MAX
    }

    /// Sends the next `n` bytes of a stream. `false`: nothing left. What has left in part is the first of `out` from now on, and `then` is to be done when it has left.
    fn put_part<W: Wire>(&mut self, engine: &mut Engine<W>, stream: &Stream, from: Gather, n: usize, is_full: bool, then: Then) -> bool {
        let mut head = stream.head(n).store(n);
        let mut spare = Vec::new();
        let body = in_one_piece(&from, stream.at, n, &mut spare);
        // SAFETY: G1; or the region's lock is held (R1).
        let put = unsafe { self.put(engine, &mut head, (body, n), is_full) };
        if put == Put::All || self.part != 0 {
            self.sent = self.sent.wrapping_add(1);
        }
        if put == Put::Stuck && self.part != 0 {
            let mut rest = vec![0; n];
            // SAFETY: as above; there is room.
            unsafe { from.read(stream.at, rest.as_mut_ptr(), n) };
            self.out.push_front(Out { head, body: Body::Owned(rest.into()), then, fence: false });
            return true;
        }
        put == Put::All
    }
}

/// Bytes of a part, head included, so that it goes by whole frames of a wire with frames of `frame` bytes: one of a few bytes behind a full one costs as much as a full one, and spoils a run of equal packets.
fn whole_frames(frame: usize) -> usize {
    const BYTES_MAX: usize = EAGER_BYTES_MAX + HEAD_BYTES_MAX;
    if frame == 0 || frame >= BYTES_MAX { BYTES_MAX } else { BYTES_MAX / frame * frame }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fill_whole_frames() {
        let most = EAGER_BYTES_MAX + HEAD_BYTES_MAX;
        // Shared memory, loopback (a packet of 16336 bytes less its heads), Ethernet; a VI that is not connected.
        for (frame, part) in [(most, most), (16_250, 16_250), (1_400, 15_400), (0, most), (most + 1, most)] {
            assert_eq!(whole_frames(frame), part, "{frame}");
        }
        assert!((1..=most).all(|frame| whole_frames(frame) > most / 2 && whole_frames(frame) <= most));
    }
}
