// SPDX-License-Identifier: MIT OR Apache-2.0
//! The short way of a message: a send of one piece that fits a line with its head, or a packet,
//! from a reliable queue pair that has nothing else under way to one that has a receive for it, of
//! its own or shared. Each function does all of it or nothing; everything unusual is left to
//! `send.rs` and `arrive.rs`, which know every case, and do the same (decisions 27 and 31).

use crate::connection::ConnectionId;
use crate::core::{AsyncEvent, Core};
use crate::fates::Judged;
use crate::header::{Ends, Kind, LEAD_BYTES_MAX, PACKET_BYTES, PLAIN_WORDS, Plain};
use crate::name::QPS_MAX;
use crate::qp::{Data, Qp, SendRequest};
use crate::reason::Reason;
use crate::serve::TELL_AFTER;
use crate::types::{Access, AsyncKind, Completion, Opcode, QpKind, QpState, SendFlags, Sge, WcOpcode, WcStatus};
use bellwire_memory::bytes;
use bellwire_peer::Put;
use bellwire_via::Engine;
use bellwire_via::frame::INLINE_BYTES_MAX;
use bellwire_via::handle::Handle;
use bellwire_via::wire::Wire;

/// Bytes of the program in a line.
pub const SHORT_BYTES_MAX: usize = INLINE_BYTES_MAX - 8 * PLAIN_WORDS;

/// A send of one piece, with nothing unusual to it.
#[derive(Clone, Copy, Debug)]
pub struct ShortSend {
    /// The program's name for it.
    pub wr_id: u64,
    /// How.
    pub flags: SendFlags,
    /// Whether there is immediate data, and what.
    pub has_immediate: bool,
    /// See above.
    pub immediate: u32,
    /// The program's memory.
    pub piece: Sge,
}

impl ShortSend {
    #[inline(always)]
    pub(crate) fn of(r: &SendRequest<'_>) -> Option<Self> {
        match (r.pieces, r.opcode) {
            ([piece], Opcode::Send | Opcode::SendImm) => {
                Some(Self { wr_id: r.wr_id, flags: r.flags, has_immediate: r.opcode == Opcode::SendImm, immediate: r.immediate, piece: *piece })
            }
            _ => None,
        }
    }

    /// The second of two registered pieces, and the first.
    #[inline(always)]
    pub(crate) fn led(r: &SendRequest<'_>) -> Option<(Self, Sge)> {
        match r.pieces {
            [lead, piece] if !r.flags.contains(SendFlags::INLINE) => Some((Self::of(&SendRequest { pieces: core::slice::from_ref(piece), ..*r })?, *lead)),
            _ => None,
        }
    }
}

/// Copies two pieces of an inline request behind each other and returns them as one: libraries send
/// a head of their own and the program's bytes so (UCX). `None`: they are longer than the short way
/// takes.
///
/// # Safety
/// R2 for both pieces.
#[inline(always)]
pub unsafe fn join_inline(pieces: &[Sge; 2], room: &mut [u8; SHORT_BYTES_MAX]) -> Option<Sge> {
    let [first, second] = pieces.each_ref().map(|p| p.length as usize);
    if first > SHORT_BYTES_MAX || second > SHORT_BYTES_MAX - first {
        return None;
    }
    let from = |p: &Sge| core::ptr::with_exposed_provenance::<u8>(p.address as usize);
    // SAFETY: R2, the caller's promise; `room` has place for both.
    unsafe {
        bytes::copy_small(room.as_mut_ptr(), from(&pieces[0]), first);
        bytes::copy_small(room[first..].as_mut_ptr(), from(&pieces[1]), second);
    }
    Some(Sge { address: room.as_ptr().expose_provenance() as u64, length: (first + second) as u32, key: 0 })
}

/// The rest to do after a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Nothing,
    /// The peer of the queue pair is to be told.
    Tell(u32),
}

impl Qp {
    /// Nothing of what was posted waits here.
    #[inline(always)]
    fn has_sent_all(&self) -> bool {
        self.left == self.sends.len() && self.part == 0
    }

    /// Whether a request may leave at once, if it finds room.
    #[inline(always)]
    pub(crate) fn sends_shortly(&self) -> bool {
        self.state == QpState::Rts && self.init.kind == QpKind::Rc && self.has_sent_all() && self.pause == 0 && !self.again && !self.is_ready
    }

    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        self.sends.len() < self.init.caps.sends as usize
    }

    /// The ends of a message that may leave at once. `None`: none may.
    #[inline(always)]
    fn sends_to(&mut self) -> Option<Ends> {
        if self.usual.sends == Ends::NONE {
            if !self.sends_shortly() {
                return None;
            }
            self.usual.sends = Ends::new((self.attributes.peer, self.life), (self.number, self.peer_life));
        }
        Some(self.usual.sends)
    }

    /// Whether this is the message that is to come, from the peer, who knows of our life as we of
    /// his.
    #[inline(always)]
    fn takes_shortly(&mut self, from: ConnectionId, head: &Plain) -> bool {
        if self.usual.takes != head.ends || self.usual.by != Some(from) {
            let may = self.state == QpState::Rts
                && self.init.kind == QpKind::Rc
                && self.known_by == Some(from)
                && head.ends == Ends::new((self.number, self.peer_life), (self.attributes.peer, self.life))
                && self.arriving.is_none()
                && self.fetching == 0
                && self.has_sent_all();
            if !may {
                return false;
            }
            (self.usual.takes, self.usual.by) = (head.ends, Some(from));
        }
        self.expected == head.number
    }
}

impl Core {
    #[inline(always)]
    pub(crate) fn goes_short_ways(&self) -> bool {
        !self.long_ways && !self.is_closed && !self.is_witnessed && self.struck.is_none()
    }

    /// Posts a receive of one piece. `false`: nothing is done.
    #[inline(always)]
    pub(crate) fn receive_short(&mut self, number: u32, wr_id: u64, piece: &Sge) -> bool {
        if self.strict.is_some() {
            return false;
        }
        self.usual_qp(number).is_some_and(|qp| qp.keeps_receives() && qp.init.srq.is_none() && qp.receives.post_one(wr_id, piece))
    }

    /// Posts a send and has it leave. `false`: nothing is done.
    ///
    /// # Safety
    /// R2.
    #[inline(always)]
    pub(crate) unsafe fn send_short<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32, r: &ShortSend) -> bool {
        if r.piece.length as usize <= SHORT_BYTES_MAX {
            // SAFETY: the caller's.
            unsafe { self.send_one::<W, true>(engine, number, r, None) }
        } else {
            // SAFETY: the caller's.
            unsafe { self.send_packed(engine, number, r) }
        }
    }

    /// One that does not fit a line. Apart, so that those that do find nothing of it on their way.
    ///
    /// # Safety
    /// R2.
    #[inline(never)]
    unsafe fn send_packed<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32, r: &ShortSend) -> bool {
        // SAFETY: the caller's.
        unsafe { self.send_one::<W, false>(engine, number, r, None) }
    }

    /// One of two pieces, of which `lead` is the first and short: libraries send a head of their
    /// own so, and the program's bytes from where they are (UCX).
    ///
    /// # Safety
    /// R2.
    #[inline(never)]
    pub(crate) unsafe fn send_led<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32, r: &ShortSend, lead: &Sge) -> bool {
        // SAFETY: the caller's.
        unsafe { self.send_one::<W, false>(engine, number, r, Some(lead)) }
    }

    /// `IN_LINE`: it fits a line, and has no `lead`.
    ///
    /// # Safety
    /// R2.
    #[inline(always)]
    unsafe fn send_one<W: Wire, const IN_LINE: bool>(&mut self, engine: &mut Engine<W>, number: u32, r: &ShortSend, lead: Option<&Sge>) -> bool {
        let piece = &r.piece;
        let leading = lead.map_or(0, |lead| lead.length as usize);
        if leading > LEAD_BYTES_MAX {
            return false;
        }
        let length = piece.length as usize + leading;
        if length > if IN_LINE { SHORT_BYTES_MAX } else { PACKET_BYTES } || r.flags.contains(SendFlags::FENCE) || !self.goes_short_ways() {
            return false;
        }
        let Some(qp) = self.qps.get_mut(number as usize & (QPS_MAX - 1)).and_then(Option::as_deref_mut) else { return false };
        if qp.number != number || !qp.has_room() {
            return false;
        }
        let Some(ends) = qp.sends_to() else { return false };
        let is_inline = r.flags.contains(SendFlags::INLINE);
        let from: *const u8 = if is_inline {
            if piece.length > qp.init.caps.inline || !IN_LINE {
                return false;
            }
            core::ptr::with_exposed_provenance(piece.address as usize)
        } else {
            let Ok(found) = self.regions.find(piece.key, qp.init.domain, piece.address, u64::from(piece.length), Access::empty()) else { return false };
            found
        };
        let led = match lead {
            None => core::ptr::null(),
            Some(lead) => match self.regions.find(lead.key, qp.init.domain, lead.address, u64::from(lead.length), Access::empty()) {
                Ok(found) => found.cast_const(),
                Err(_) => return false,
            },
        };
        let Some(id) = qp.connection else { return false };
        let Some(connection) = self.connections.get_mut(id) else { return false };
        if !connection.is_free() || !connection.credits.has_credit() {
            return false;
        }
        let head = Plain {
            ends,
            has_immediate: r.has_immediate,
            is_solicited: r.flags.contains(SendFlags::SOLICITED),
            number: qp.first.wrapping_add(qp.left as u32),
            answered: qp.expected,
            immediate: r.immediate,
        };
        let mut put = Put::Left;
        if IN_LINE {
            // SAFETY: U2 of the engine: R1, just looked up; or R2, if it is inline.
            let sent = unsafe { engine.send_headed(connection.channel.vi(), &head.words(connection.credits.handled()), PLAIN_WORDS, from, length) };
            if !matches!(sent, Ok(true)) {
                return false;
            }
            connection.credits.has_sent();
            connection.credits.has_told();
        } else {
            if connection.part_bytes(engine, Kind::Send, length) != length {
                return false;
            }
            let body = (from, piece.length as usize);
            // SAFETY: U2 of the engine: R1 for all pieces, just looked up.
            put = unsafe {
                match lead {
                    None => connection.put_plain(engine, &head, body),
                    Some(_) => connection.put_led(engine, &head, (led, leading), body),
                }
            };
            if !put.has_begun() {
                return false;
            }
            engine.send_queued();
        }
        self.posts = self.posts.wrapping_add(1);
        qp.told = qp.expected;
        qp.left += 1;
        // It is kept until it is answered: the peer may have no receive.
        let send = qp.sends.add();
        send.opcode = if r.has_immediate { Opcode::SendImm } else { Opcode::Send };
        (send.wr_id, send.flags, send.immediate, send.length) = (r.wr_id, r.flags, r.immediate, length as u32);
        (send.to, send.fetched, send.done, send.judged) = (None, 0, false, Judged::default());
        match (&mut send.data, is_inline) {
            (data, false) if let Some(lead) = lead => *data = Data::Pieces(crate::queue::Pieces::of(&[*lead, *piece])),
            (Data::Inline(kept, n), true) => {
                // SAFETY: R2; there is room for more than a line.
                unsafe { bytes::copy_small(kept.as_mut_ptr(), from, length) };
                *n = length as u8;
            }
            (Data::Pieces(pieces), false) => pieces.set_one(piece),
            (other, true) => {
                let mut kept = [0; 64];
                // SAFETY: R2; there is room for more than a line.
                unsafe { bytes::copy_small(kept.as_mut_ptr(), from, length) };
                *other = Data::Inline(kept, length as u8);
            }
            (other, false) => *other = Data::Pieces(crate::queue::Pieces::of(&[*piece])),
        }
        if put == Put::Kept {
            self.mark_unsent(id);
        }
        true
    }

    /// Takes a message, with what it says of ours: its first words, where the rest lies, and the
    /// bytes of both. `IN_LINE`: it came in a line. `None`: nothing is done.
    ///
    /// # Safety
    /// The rest is readable; its sender may be writing it.
    #[inline(always)]
    pub(crate) unsafe fn take_short<const IN_LINE: bool>(
        &mut self,
        context: u64,
        words: [u64; PLAIN_WORDS],
        (rest, length): (*const u8, usize),
    ) -> Option<Then> {
        let (head, taken) = Plain::of(words);
        let (number, id) = (head.ends.to(), ConnectionId::from_raw(context as u32));
        if length < 8 * PLAIN_WORDS || !self.goes_short_ways() {
            return None;
        }
        let connection = self.connections.get_mut(id)?;
        let qp = self.qps.get_mut(number as usize & (QPS_MAX - 1))?.as_deref_mut()?;
        if !qp.takes_shortly(id, &head) {
            return None;
        }
        let payload = length - 8 * PLAIN_WORDS;
        if payload > if IN_LINE { SHORT_BYTES_MAX } else { PACKET_BYTES } {
            return None;
        }
        let mut shared = match qp.init.srq {
            None => None,
            Some(id) => Some(self.srqs.get_mut(Handle::from_raw(id)).filter(|s| s.xrc.is_none())?),
        };
        let receive = shared.as_deref().map_or(&qp.receives, |s| &s.queue).posted.front()?;
        let piece = receive.pieces.only().filter(|p| p.length as usize >= payload)?;
        let to = self.regions.find(piece.key, receive.domain, piece.address, payload as u64, Access::LOCAL_WRITE).ok()?;
        if !connection.credits.exchange(taken) {
            return None;
        }
        // From here on it is done.
        // SAFETY: R1, just looked up; the caller's.
        unsafe { if IN_LINE { bytes::copy_small(to, rest, payload) } else { bytes::copy(to, rest, payload) } };
        let wr_id = receive.wr_id;
        match &mut shared {
            None => _ = qp.receives.posted.take_front(),
            Some(srq) => {
                srq.queue.posted.take_front();
                if let Some(cookie) = srq.runs_low() {
                    self.events.push(AsyncEvent { kind: AsyncKind::SrqLimit, cookie });
                }
            }
        }
        (qp.came, qp.expected) = (payload as u32, qp.expected.wrapping_add(1));
        let tells = qp.expected.wrapping_sub(qp.told) >= TELL_AFTER;
        let owes = !tells && !core::mem::replace(&mut qp.is_owing, true);
        let (send_cq, receive_cq) = (qp.init.send_cq, qp.init.receive_cq);
        // What it answers: mostly our last message.
        let below = head.answered.wrapping_sub(qp.first);
        let mut ended = None;
        if below == 1 && qp.left == 1 {
            (qp.rnr_left, qp.absent_since) = (qp.attributes.rnr_retries, 0);
            (qp.first, qp.left, qp.again) = (qp.first.wrapping_add(1), 0, false);
            let signals = qp.init.signal_all;
            if let Some(send) = qp.sends.take_front().filter(|s| signals || s.flags.contains(SendFlags::SIGNALED)) {
                ended = Some(Completion::of_send(send.wr_id, send.opcode, number, WcStatus::Success, send.length));
            }
        } else if below != 0 {
            self.answered(number, head.answered);
        }
        if let Some(ended) = ended {
            self.complete(send_cq, ended, false);
        }
        let completion = Completion {
            wr_id,
            status: WcStatus::Success,
            reason: Reason::None,
            opcode: WcOpcode::Receive,
            byte_len: payload as u32,
            immediate: if head.has_immediate { head.immediate } else { 0 },
            qp: number,
            source: head.ends.from(),
            flags: crate::queue::receive_flags(head.has_immediate, false),
        };
        self.complete(receive_cq, completion, head.is_solicited);
        if owes {
            self.owing.push(number);
        }
        Some(if tells { Then::Tell(number) } else { Then::Nothing })
    }

    /// Does the rest after a message that [`take_short`](Self::take_short) took. Always true.
    #[inline(always)]
    pub(crate) fn took_short<W: Wire>(&mut self, engine: &mut Engine<W>, then: Then) -> bool {
        if let Then::Tell(number) = then {
            self.tell(engine, number);
        }
        true
    }
}
