// SPDX-License-Identifier: MIT OR Apache-2.0
//! One connection: a VI between two processes that carries the packets of all their queue pairs,
//! both ways.
//!
//! Its flow control and its sending side are those of all layers ([`Credits`], [`Channel`]).

use crate::header::{Head, Kind, LEAD_BYTES_MAX, PACKET_BYTES, PLAIN_WORDS, Plain, WORDS_MAX};
use crate::name::Name;
use crate::types::{Access, Gid};
use bellwire_memory::bytes;
use bellwire_peer::{Channel, Credits, Put};
use bellwire_via::handle::Handle;
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, ViHandle};
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

/// Messages of connection management that may wait.
pub(crate) const CM_MESSAGES_MAX: usize = 1 << 12;

pub(crate) type ConnectionId = Handle<Connection>;

/// Memory of ours that a peer reads; or, without length, a refusal that is to come behind such.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadJob {
    pub head: Head,
    pub key: u32,
    pub domain: u32,
    pub address: u64,
    /// What the region has to allow.
    pub access: Access,
    pub length: u32,
    pub at: u32,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub channel: Channel,
    pub credits: Credits<u16>,
    pub peer: Name,
    /// Bytes of a frame of its wire, if packets of long messages are to be cut to that measure.
    frame: Option<usize>,
    /// The two sides map each other's memory: a peer that is told where some lies can use it.
    pub is_mapped: bool,
    /// Answers that wait to leave.
    pub answers: VecDeque<Head>,
    /// Memory that the peer reads.
    pub reads: VecDeque<ReadJob>,
    /// Queue pairs that have something to send, by turns.
    pub ready: VecDeque<u32>,
    /// It is a link of connection management, and carries nothing else.
    pub is_link: bool,
    /// Messages of connection management that wait to leave.
    pub cm: VecDeque<Vec<u8>>,
}

impl Connection {
    pub(crate) fn new(vi: ViHandle, peer: Name) -> Self {
        Self {
            channel: Channel::new(vi),
            credits: Credits::new(WINDOW, TELL_AFTER),
            peer,
            frame: None,
            is_mapped: false,
            answers: VecDeque::new(),
            reads: VecDeque::new(),
            ready: VecDeque::new(),
            is_link: false,
            cm: VecDeque::new(),
        }
    }

    /// A link of connection management: to a process of that host, whichever it is.
    pub(crate) fn link(vi: ViHandle, gid: Gid) -> Self {
        Self { is_link: true, ..Self::new(vi, Name { gid, place: 0 }) }
    }

    /// It can be sent on.
    pub(crate) fn opened<W: Wire>(&mut self, engine: &Engine<W>) {
        self.channel.open();
        let frame = engine.whole_message_bytes(self.channel.vi());
        self.frame = (1..MESSAGE_BYTES_MAX).contains(&frame).then_some(frame);
        self.is_mapped = matches!(engine.vi_link(self.channel.vi()), Ok(Some((_, link))) if link.mapped);
    }

    /// Bytes of the program in the next packet of that kind, `rest` being left of its message: all
    /// of them, or as many as go by whole frames.
    #[inline]
    pub(crate) fn part_bytes<W: Wire>(&self, engine: &Engine<W>, kind: Kind, rest: usize) -> usize {
        match self.frame {
            None => rest.min(PACKET_BYTES),
            Some(frame) if rest <= kind.part_bytes(frame) => rest,
            Some(_) => rest.min(kind.part_bytes(self.channel.part_bytes(engine, MESSAGE_BYTES_MAX, true))),
        }
    }

    pub(crate) fn has_unsent(&self) -> bool {
        self.channel.has_rest() || !self.answers.is_empty() || !self.reads.is_empty() || !self.ready.is_empty() || !self.cm.is_empty() || self.credits.owes()
    }

    /// Whether a request may leave now, before anything that waits.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.channel.is_ready() && self.answers.is_empty() && self.ready.is_empty()
    }

    /// Sends a message, or nothing of it; a long one may stay on this side until the engine is told
    /// to send what is queued.
    ///
    /// # Safety
    /// `body` is readable for its length.
    #[inline]
    pub(crate) unsafe fn put<W: Wire>(&mut self, engine: &mut Engine<W>, head: &Head, body: (*const u8, usize)) -> Put {
        let mut words = [0u64; WORDS_MAX];
        let count = head.store(u32::from(self.credits.handled()), &mut words);
        // SAFETY: the caller's.
        unsafe { self.put_bytes(engine, bytes_of(&words[..count]), body, head.kind != Kind::Credit) }
    }

    /// As [`put`](Self::put), a send that goes as one packet and is nothing special.
    ///
    /// # Safety
    /// `body` is readable for its length.
    #[inline]
    pub(crate) unsafe fn put_plain<W: Wire>(&mut self, engine: &mut Engine<W>, head: &Plain, body: (*const u8, usize)) -> Put {
        // SAFETY: the caller's.
        unsafe { self.put_bytes(engine, bytes_of(&head.words(self.credits.handled())), body, true) }
    }

    /// The same, with the bytes of `lead`, at most [`LEAD_BYTES_MAX`], before those of `body`.
    ///
    /// # Safety
    /// `lead` and `body` are readable for their lengths.
    #[inline]
    pub(crate) unsafe fn put_led<W: Wire>(&mut self, engine: &mut Engine<W>, head: &Plain, lead: (*const u8, usize), body: (*const u8, usize)) -> Put {
        let mut room = [0u8; 8 * PLAIN_WORDS + LEAD_BYTES_MAX];
        let (own, rest) = room.split_at_mut(8 * PLAIN_WORDS);
        own.copy_from_slice(bytes_of(&head.words(self.credits.handled())));
        let length = lead.1.min(LEAD_BYTES_MAX);
        // SAFETY: the caller's; the rest has room for as many bytes.
        unsafe { bytes::copy_small(rest.as_mut_ptr(), lead.0, length) };
        // SAFETY: the caller's.
        unsafe { self.put_bytes(engine, &room[..8 * PLAIN_WORDS + length], body, true) }
    }

    /// # Safety
    /// `body` is readable for its length.
    #[inline(always)]
    unsafe fn put_bytes<W: Wire>(&mut self, engine: &mut Engine<W>, head: &[u8], body: (*const u8, usize), needs_credit: bool) -> Put {
        if needs_credit && !self.credits.has_credit() {
            return Put::Stuck;
        }
        // SAFETY: the caller's.
        let put = unsafe { self.channel.put(engine, head, body) };
        if put.has_begun() {
            if needs_credit {
                self.credits.has_sent();
            }
            self.credits.has_told();
        }
        put
    }

    /// Sends answers that wait, and says what was taken. `false`: something is stuck.
    pub(crate) fn put_answers<W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        if !self.channel.push(engine) {
            return false;
        }
        while let Some(head) = self.answers.front().copied() {
            // SAFETY: no body.
            if !unsafe { self.put(engine, &head, (core::ptr::null(), 0)) }.has_begun() {
                break;
            }
            self.answers.pop_front();
        }
        while let Some(message) = self.cm.pop_front() {
            // SAFETY: the message outlives the call.
            if !unsafe { self.put(engine, &Head::new(Kind::Cm, 0, 0), (message.as_ptr(), message.len())) }.has_begun() {
                self.cm.push_front(message);
                break;
            }
        }
        if self.credits.owes() {
            // SAFETY: no body.
            unsafe { self.put(engine, &Head::new(Kind::Credit, 0, 0), (core::ptr::null(), 0)) };
        }
        self.answers.is_empty()
    }
}

/// Words as they lie in memory.
#[inline]
fn bytes_of(words: &[u64]) -> &[u8] {
    // SAFETY: words are bytes.
    unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellwire_peer::whole_frames;

    #[test]
    fn packets_fill_whole_frames() {
        // Loopback, with nothing and something in the packet; Ethernet, the same; a link that is
        // gone.
        for (next, frame, packet) in
            [(16_250, 16_250, 16_250), (9_000, 16_250, 9_000), (1_400, 1_400, 15_400), (500, 1_400, 15_900), (0, 1_400, MESSAGE_BYTES_MAX)]
        {
            assert_eq!(whole_frames(next, frame, MESSAGE_BYTES_MAX), packet, "{next} {frame}");
            for kind in [Kind::Send, Kind::Write, Kind::ReadData] {
                let n = kind.part_bytes(packet);
                let head = Head { flags: crate::header::PART, ..Head::new(kind, 0, 0) };
                assert!(n <= PACKET_BYTES && n + head.len() <= packet && (n + head.len() == packet || n == PACKET_BYTES), "{next} {frame}");
            }
        }
    }
}
