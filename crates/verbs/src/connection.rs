// SPDX-License-Identifier: MIT OR Apache-2.0
//! One connection: a VI between two processes that carries the packets of all their queue pairs, both ways.
//!
//! Credits: at most [`WINDOW`] messages of a direction are out that the other side has not taken. Whatever it sends says how many it has; if it sends nothing else, a Credit does after a
//! quarter of the window, and needs no credit itself. So a peer never finds the inbox full, and never waits for one that takes.

use crate::header::{Head, Kind, PACKET_BYTES, WORDS_MAX};
use crate::name::Name;
use bellwire_memory::bytes;
use bellwire_via::frame::INLINE_BYTES_MAX;
use bellwire_via::handle::Handle;
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, Pieces, ViHandle};
use std::collections::VecDeque;

/// Messages of one direction that may be out.
pub(crate) const WINDOW: u16 = 128;
const TELL_AFTER: u16 = WINDOW / 4;
/// Messages that may wait in the inbox: those with a credit, and Credits.
pub(crate) const INBOX_LIMIT: u32 = WINDOW as u32 + 8;
/// Longest message: a packet of a long message of the program, with its head.
const MESSAGE_BYTES_MAX: usize = PACKET_BYTES + 8 * WORDS_MAX;
/// Answers that may wait: a peer that makes more necessary does not take what it asked for.
pub(crate) const ANSWERS_MAX: usize = 1 << 16;

pub(crate) type ConnectionId = Handle<Connection>;

/// How far a message came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// It has left, or is kept here until it has.
    All,
    Stuck,
    /// The connection is broken; the notice of it is on its way.
    Broken,
}

/// Memory of ours that a peer reads; or, without length, a refusal that is to come behind such.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadJob {
    pub head: Head,
    pub key: u32,
    pub domain: u32,
    pub address: u64,
    pub length: u32,
    pub at: u32,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub vi: ViHandle,
    pub open: bool,
    pub peer: Name,
    sent: u16,
    acked: u16,
    pub handled: u16,
    told: u16,
    /// Bytes of a frame of its wire, if packets of long messages are to be cut to that measure.
    frame: Option<usize>,
    /// The two sides map each other's memory: a peer that is told where some lies can use it.
    pub is_mapped: bool,
    /// The rest of a message that has left in part: its bytes, and how many have.
    rest: Option<(Vec<u8>, usize)>,
    /// Answers that wait to leave.
    pub answers: VecDeque<Head>,
    /// Memory that the peer reads.
    pub reads: VecDeque<ReadJob>,
    /// Queue pairs that have something to send, by turns.
    pub ready: VecDeque<u32>,
    /// The core knows that something waits to leave.
    pub is_unsent: bool,
}

impl Connection {
    pub(crate) fn new(vi: ViHandle, peer: Name) -> Self {
        Self {
            vi,
            open: false,
            peer,
            sent: 0,
            acked: 0,
            handled: 0,
            told: 0,
            frame: None,
            is_mapped: false,
            rest: None,
            answers: VecDeque::new(),
            reads: VecDeque::new(),
            ready: VecDeque::new(),
            is_unsent: false,
        }
    }

    /// It can be sent on.
    pub(crate) fn opened<W: Wire>(&mut self, engine: &Engine<W>) {
        self.open = true;
        let frame = engine.whole_message_bytes(self.vi);
        self.frame = (1..MESSAGE_BYTES_MAX).contains(&frame).then_some(frame);
        self.is_mapped = matches!(engine.vi_link(self.vi), Ok(Some((_, link))) if link.mapped);
    }

    /// Bytes of the program in the next packet of that kind, `rest` being left of its message: all of them, or as many as go by whole frames.
    #[inline]
    pub(crate) fn part_bytes<W: Wire>(&self, engine: &Engine<W>, kind: Kind, rest: usize) -> usize {
        match self.frame {
            None => rest.min(PACKET_BYTES),
            Some(frame) if rest <= kind.part_bytes(frame) => rest,
            Some(frame) => rest.min(kind.part_bytes(whole_frames(engine.whole_message_bytes_next(self.vi), frame))),
        }
    }

    #[inline]
    pub(crate) fn has_credit(&self) -> bool {
        self.sent.wrapping_sub(self.acked) < WINDOW
    }

    /// The peer has taken so many messages. `false`: it cannot have.
    #[inline]
    pub(crate) fn acknowledge(&mut self, taken: u16) -> bool {
        let fine = taken.wrapping_sub(self.acked) <= self.sent.wrapping_sub(self.acked);
        if fine {
            self.acked = taken;
        }
        fine
    }

    /// The peer has taken so many messages, and we one more. `false`: it cannot have, or we have to say so now; nothing is done.
    #[inline(always)]
    pub(crate) fn take_one(&mut self, taken: u16) -> bool {
        let handled = self.handled.wrapping_add(1);
        if handled.wrapping_sub(self.told) >= TELL_AFTER || !self.acknowledge(taken) {
            return false;
        }
        self.handled = handled;
        true
    }

    /// A message has left in part, and nobody may come by to send the rest.
    #[inline]
    pub(crate) fn has_rest(&self) -> bool {
        self.rest.is_some()
    }

    pub(crate) fn owes_credit(&self) -> bool {
        self.handled.wrapping_sub(self.told) >= TELL_AFTER
    }

    pub(crate) fn has_unsent(&self) -> bool {
        self.rest.is_some() || !self.answers.is_empty() || !self.reads.is_empty() || !self.ready.is_empty() || self.owes_credit()
    }

    /// Whether a request may leave now, before anything that waits.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.open && self.answers.is_empty() && self.ready.is_empty() && self.rest.is_none()
    }

    /// Sends a message now, or nothing of it; a long one may stay on this side until the engine is told to send what is queued.
    ///
    /// # Safety
    /// `body` is readable for its length.
    #[inline]
    pub(crate) unsafe fn put<W: Wire>(&mut self, engine: &mut Engine<W>, head: &Head, body: (*const u8, usize)) -> Put {
        if !self.open || self.rest.is_some() || (head.kind != Kind::Credit && !self.has_credit()) {
            return Put::Stuck;
        }
        let mut words = [0u64; WORDS_MAX];
        let head_bytes = 8 * head.store(u32::from(self.handled), &mut words);
        let total = head_bytes + body.1;
        if total <= INLINE_BYTES_MAX {
            if body.1 != 0 {
                // SAFETY: the caller's; the words have room for a line.
                unsafe { bytes::copy_small(words.as_mut_ptr().cast::<u8>().add(head_bytes), body.0, body.1) };
            }
            // SAFETY: U2 of the engine: the words outlive the call.
            return match unsafe { engine.send_line(self.vi, words.as_ptr().cast(), total) } {
                Ok(true) => self.has_left(head),
                Ok(false) => Put::Stuck,
                Err(_) => Put::Broken,
            };
        }
        let pieces = Pieces { head: (words.as_ptr().cast(), head_bytes), body };
        // SAFETY: U2 of the engine: the words outlive the call; the body is the caller's.
        match unsafe { engine.queue_copied(self.vi, &pieces, 0) } {
            Ok(0) => Put::Stuck,
            Ok(n) => {
                if n < total {
                    let mut rest = vec![0; total];
                    // SAFETY: the caller's; the vector has room for both.
                    unsafe {
                        bytes::copy(rest.as_mut_ptr(), words.as_ptr().cast(), head_bytes);
                        bytes::copy(rest.as_mut_ptr().add(head_bytes), body.0, body.1);
                    }
                    self.rest = Some((rest, n));
                }
                self.has_left(head)
            }
            Err(_) => Put::Broken,
        }
    }

    fn has_left(&mut self, head: &Head) -> Put {
        match head.kind {
            Kind::Credit => self.told = self.handled,
            _ => self.has_put(),
        }
        Put::All
    }

    /// A message has left that needs a credit.
    #[inline(always)]
    pub(crate) fn has_put(&mut self) {
        self.sent = self.sent.wrapping_add(1);
        self.told = self.handled;
    }

    /// Sends the rest of what has left in part. `false`: it is stuck.
    pub(crate) fn put_rest<W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        let Some((rest, sent)) = &mut self.rest else { return true };
        let pieces = Pieces { head: (rest.as_ptr(), rest.len()), body: (core::ptr::null(), 0) };
        // SAFETY: U2 of the engine: the vector outlives the call.
        match unsafe { engine.queue_copied(self.vi, &pieces, *sent) } {
            Ok(n) => *sent = n,
            Err(_) => return false,
        }
        let done = *sent == rest.len();
        if done {
            self.rest = None;
        }
        done
    }

    /// Sends answers that wait, and says what was taken. `false`: something is stuck.
    pub(crate) fn put_answers<W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        if !self.put_rest(engine) {
            return false;
        }
        while let Some(head) = self.answers.front().copied() {
            // SAFETY: no body.
            if unsafe { self.put(engine, &head, (core::ptr::null(), 0)) } != Put::All {
                break;
            }
            self.answers.pop_front();
        }
        if self.owes_credit() {
            // SAFETY: no body.
            unsafe { self.put(engine, &Head::new(Kind::Credit, 0, 0), (core::ptr::null(), 0)) };
        }
        self.answers.is_empty()
    }
}

/// Bytes of a packet of a long message, so that it goes by whole frames, of which the next one has room for `next` bytes and all others `frame`: one of a few bytes behind a full one costs as much as that one, spoils a
/// run of equal packets, and has the receiver put the message together.
fn whole_frames(next: usize, frame: usize) -> usize {
    if next == 0 || next >= MESSAGE_BYTES_MAX { MESSAGE_BYTES_MAX } else { next + (MESSAGE_BYTES_MAX - next) / frame * frame }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_fill_whole_frames() {
        // Loopback, with nothing and something in the packet; Ethernet, the same; a link that is gone.
        for (next, frame, packet) in
            [(16_250, 16_250, 16_250), (9_000, 16_250, 9_000), (1_400, 1_400, 15_400), (500, 1_400, 15_900), (0, 1_400, MESSAGE_BYTES_MAX)]
        {
            assert_eq!(whole_frames(next, frame), packet, "{next} {frame}");
            for kind in [Kind::Send, Kind::Write, Kind::ReadData] {
                let n = kind.part_bytes(packet);
                let head = Head { flags: crate::header::PART, ..Head::new(kind, 0, 0) };
                assert!(n <= PACKET_BYTES && n + head.len() <= packet && (n + head.len() == packet || n == PACKET_BYTES), "{next} {frame}");
            }
        }
    }
}
