// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output: answers that belong to no session first, then one run of packets from each session
//! that has some, in turn.

use super::Transport;
use crate::delivery::Buffer;
use crate::ids::SessionId;
use crate::packet::auth::WELCOME_BYTES;
use crate::packet::control::RESET_BYTES;
use crate::packet::{Packet, Reset};
use crate::places::Place;
use crate::session::{Context, Out, Session};
use crate::tokens::{Rate, Tokens};
use bellwire_time::Instant;
use core::net::SocketAddr;
use std::collections::VecDeque;

/// Answers that wait to leave, at most.
const ANSWERS_MAX: usize = 256;
/// Bytes of the longest answer (a WELCOME).
const ANSWER_BYTES: usize = WELCOME_BYTES;

/// Packets to be sent, in one contiguous piece.
#[derive(Debug)]
pub struct Transmit<'a> {
    /// Where to.
    pub to: SocketAddr,
    /// The packets' bytes.
    pub bytes: &'a [u8],
    /// When there are several packets: the size of each but the last, which may be shorter. Generic
    /// segmentation offload needs it.
    pub segment: Option<usize>,
    /// The packet is larger than what the path was found to carry: let the network layer fragment
    /// it. Only ever a single packet, written before the path changed.
    pub fragment: bool,
    /// The session, if it belongs to one.
    pub session: Option<SessionId>,
}

impl Transmit<'_> {
    /// How many packets there are.
    pub fn packets(&self) -> usize {
        self.segment.map_or(1, |s| self.bytes.len().div_ceil(s))
    }
}

#[derive(Debug)]
struct Answer {
    to: SocketAddr,
    length: usize,
    bytes: [u8; ANSWER_BYTES],
}

/// Short packets that are written when their cause arrives: answers to a handshake, refusals, and
/// "no such session".
#[derive(Debug)]
pub(super) struct Answers {
    waiting: VecDeque<Answer>,
    /// For answers to packets without a session.
    tokens: Tokens,
    rate: Rate,
}

impl Answers {
    pub(super) fn new(per_second: u32) -> Self {
        let rate = Rate { per_second, burst: per_second / 16 };
        Self { waiting: VecDeque::with_capacity(ANSWERS_MAX), tokens: rate.bucket(), rate }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

enum Piece {
    Scratch(usize),
    Ring { start: usize, length: usize, segment: Option<usize>, fragment: bool },
}

impl<B: Buffer> Session<B> {
    /// Seals what leaves now; `None`: nothing may be sealed any more, and nothing leaves.
    //= P-AUTH-12
    fn seal_piece(&mut self, now: Instant, piece: Piece, scratch: &mut [u8]) -> Option<Piece> {
        if self.is_spent() {
            return None;
        }
        match piece {
            Piece::Scratch(length) => Some(Piece::Scratch(length + self.seal_scratch(now, scratch, length))),
            Piece::Ring { start, length, segment, .. } => {
                self.tx.seal(self.seal.as_mut()?, now, start, length, segment.unwrap_or(length));
                Some(piece)
            }
        }
    }
}

impl<B: Buffer> Transport<B> {
    /// Whether [`Transport::poll_transmit`] may have something (it may still find that nothing is
    /// due).
    #[inline]
    pub fn has_transmit(&self) -> bool {
        !self.transmit.is_empty() || !self.answers.waiting.is_empty()
    }

    /// The next packets to be sent. The caller hands them to the network at once; what it cannot
    /// hand over counts as lost.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        let now = self.advance(now);
        self.end_joining(now);
        if let Some(answer) = self.answers.waiting.pop_front() {
            self.scratch[..answer.length].copy_from_slice(&answer.bytes[..answer.length]);
            return Some(self.give(answer.to, None, 0, Piece::Scratch(answer.length)));
        }
        while let Some(slot) = self.transmit.pop_front() {
            let slot = usize::from(slot);
            self.places.queued[slot].transmit = false;
            let Some((to, id, piece)) = self.poll_place(now, slot) else { continue };
            return Some(self.give(to, id, slot, piece));
        }
        None
    }

    fn poll_place(&mut self, now: Instant, slot: usize) -> Option<(SocketAddr, Option<SessionId>, Piece)> {
        match self.places.at(slot) {
            Place::Free | Place::Half(_) => None,
            Place::Opening(opening) => {
                if opening.next > now {
                    return None;
                }
                let length = opening.hello(now, &self.config, &mut self.scratch);
                let deadline = opening.deadline();
                let to = opening.to;
                self.timers.set(slot, deadline);
                Some((to, None, Piece::Scratch(length)))
            }
            Place::Live(session) => {
                let mut context = Context { config: &self.config, statistics: &mut self.statistics, now };
                let out = session.poll(&mut context, &mut self.scratch);
                if let Some(until) = session.joining_until(&context) {
                    self.joining_until = self.joining_until.min(until);
                    if !core::mem::replace(&mut session.tx.joining.noted, true) {
                        self.joining.push_back(slot as u16);
                    }
                }
                let out = out?;
                let more = session.has_output(&context);
                let (to, id, datagram) = (session.address, session.id, session.mtu.in_ring());
                let piece = match out {
                    Out::Run(run) => {
                        self.timers.set_earlier(slot, session.tx.deadline(&self.config, &session.rtt));
                        let segment = (run.packets > 1).then_some(run.segment);
                        Piece::Ring { start: run.start, length: run.length, segment, fragment: run.segment > datagram }
                    }
                    Out::Scratch(length) => {
                        let deadline = session.deadline(&self.config, now);
                        self.timers.set_earlier(slot, if deadline <= now { Instant(now.0 + 1) } else { deadline });
                        Piece::Scratch(length)
                    }
                };
                let piece = if session.seal.is_some() {
                    let sealed = session.seal_piece(now, piece, &mut self.scratch);
                    if session.ends_spent(now) {
                        self.timers.set_earlier(slot, now);
                    }
                    sealed?
                } else {
                    piece
                };
                if more {
                    self.queue_transmit(slot);
                }
                Some((to, Some(id), piece))
            }
        }
    }

    #[inline]
    fn give(&mut self, to: SocketAddr, session: Option<SessionId>, slot: usize, piece: Piece) -> Transmit<'_> {
        let (bytes, segment, fragment) = match piece {
            Piece::Scratch(length) => (&self.scratch[..length], None, false),
            Piece::Ring { start, length, segment, fragment } => match self.places.at(slot) {
                Place::Live(s) => (s.tx.ring.get(start, length), segment, fragment),
                _ => unreachable!("the run came from this session"),
            },
        };
        let transmit = Transmit { to, bytes, segment, fragment, session };
        self.statistics.packets_out += transmit.packets() as u64;
        self.statistics.bytes_out += bytes.len() as u64;
        transmit
    }

    /// Whether frames wait to share a packet.
    #[inline]
    pub fn is_joining(&self) -> bool {
        self.joining_until != Instant::NEVER
    }

    /// Frames that have waited long enough leave.
    #[inline]
    pub(super) fn end_joining(&mut self, now: Instant) {
        if self.joining_until <= now {
            self.end_joining_now(false);
        }
    }

    /// Frames that wait to share a packet leave now: nobody may look again for long.
    //= P-JOIN-2
    pub fn hurry(&mut self) {
        self.end_joining_now(true);
    }

    /// All sessions in which something waits are looked at again; those that may go on waiting do,
    /// unless they are told not to.
    fn end_joining_now(&mut self, hurry: bool) {
        self.joining_until = Instant::NEVER;
        while let Some(slot) = self.joining.pop_front() {
            let slot = usize::from(slot);
            if let Some(session) = self.places.live_at(slot) {
                session.tx.joining.noted = false;
                if hurry && session.tx.next != session.tx.end {
                    session.tx.joining.hurry();
                }
                self.queue_transmit(slot);
            }
        }
    }

    /// An answer on a session leaves soon.
    pub(crate) fn answer_on(&mut self, session: SessionId, to: SocketAddr, packet: &Packet<'_>) {
        let mut bytes = [0; ANSWER_BYTES];
        let mut length = packet.emit(&mut bytes);
        let now = self.now;
        if let Some(live) = self.places.live(session) {
            //= P-AUTH-12
            if live.is_spent() {
                return;
            }
            length += live.seal_scratch(now, &mut bytes, length);
            if live.ends_spent(now) {
                self.timers.set_earlier(session.slot(), now);
            }
        }
        self.answer_bytes(to, bytes, length);
    }

    /// An answer leaves soon. When too many wait, it is lost: the peer asks again.
    pub(crate) fn answer(&mut self, to: SocketAddr, packet: &Packet<'_>) {
        let mut bytes = [0; ANSWER_BYTES];
        let length = packet.emit(&mut bytes);
        self.answer_bytes(to, bytes, length);
    }

    pub(crate) fn answer_bytes(&mut self, to: SocketAddr, bytes: [u8; ANSWER_BYTES], length: usize) {
        if self.answers.waiting.len() >= ANSWERS_MAX {
            self.statistics.answers_limited += 1;
            return;
        }
        self.answers.waiting.push_back(Answer { to, length, bytes });
    }

    /// Answers a packet of `length` bytes for a session that is not, as long as these are not too
    /// many.
    pub(super) fn answer_reset(&mut self, now: Instant, to: SocketAddr, reset: Reset, length: usize) {
        self.statistics.unknown_session += 1;
        //= P-RESET-1
        if length <= RESET_BYTES {
            return;
        }
        if !self.answers.tokens.take(now, self.answers.rate) {
            self.statistics.answers_limited += 1;
            return;
        }
        self.statistics.resets_out += 1;
        self.answer(to, &Packet::Reset(reset));
    }
}
