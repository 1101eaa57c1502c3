// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arriving packets are parsed, checked, and given to the queue pair that they are for (`serve.rs`,
//! `answers.rs`).
//!
//! A peer may write anything, also while this side reads: heads are copied once and the copy is
//! checked; payloads are only copied. An impossible packet ends its connection.

use crate::connection::ConnectionId;
use crate::core::Core;
use crate::header::{Head, IMMEDIATE, Kind, PACKET_BYTES, PART, PLAIN_WORDS, SOLICITED, WORDS_MAX};
use crate::types::{QpKind, QpState};
use bellwire_via::inbox::{LineWords, Looked, Taken};
use bellwire_via::wire::Wire;
use bellwire_via::{Came, Engine};

/// A packet: whence, its head and payload.
#[derive(Clone, Copy)]
pub(crate) struct Packet<'a> {
    pub from: ConnectionId,
    pub head: &'a Head,
    /// Readable for as many bytes; its sender may be writing it.
    pub payload: (*const u8, usize),
}

impl Packet<'_> {
    pub(crate) fn total(&self) -> u64 {
        if self.head.flags & PART != 0 { u64::from(self.head.total) } else { self.payload.1 as u64 }
    }

    pub(crate) fn immediate(&self) -> Option<u32> {
        (self.head.flags & IMMEDIATE != 0).then_some(self.head.immediate)
    }

    pub(crate) fn is_solicited(&self) -> bool {
        self.head.flags & SOLICITED != 0
    }
}

impl Core {
    /// Takes the next thing that has come. `false`: there was nothing.
    #[inline]
    pub(crate) fn arrive<W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        let looked = engine.take_line(self.mailbox.inbox(), |context, line, length| {
            let words = [line.word(1), line.word(2), line.word(3)];
            // SAFETY: the bytes behind the words in the line, which stays for as long as this runs;
            // the sender may be writing it.
            unsafe { self.take_short::<true>(context, words, (line.words_from(1 + PLAIN_WORDS), length)) }
        });
        match looked {
            Looked::Took(then) => self.took_short(engine, then),
            Looked::Nothing => false,
            Looked::Otherwise => self.arrive_otherwise(engine),
        }
    }

    #[inline(never)]
    fn arrive_otherwise<W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        let mut line: LineWords = [0; 7];
        let Some(taken) = engine.take_otherwise(self.mailbox.inbox(), &mut line) else { return false };
        if let Taken::Line(context, length) = taken {
            // SAFETY: the bytes behind the words, which are ours.
            let then = unsafe { self.take_short::<true>(context, [line[0], line[1], line[2]], (line[PLAIN_WORDS..].as_ptr().cast(), length as usize)) };
            if let Some(then) = then {
                return self.took_short(engine, then);
            }
        }
        engine.hand::<WORDS_MAX>(self.mailbox.inbox(), &line, taken, |engine, came| match came {
            Came::Message(context, words, lies) => {
                let rest = (lies.0.wrapping_add(8 * PLAIN_WORDS), lies.1);
                // SAFETY: the bytes behind the words, readable as far as the message goes; the
                // sender may be writing them.
                match words.first_chunk().and_then(|words| unsafe { self.take_short::<false>(context, *words, rest) }) {
                    Some(then) => _ = self.took_short(engine, then),
                    None => self.message(engine, context, words, lies),
                }
            }
            Came::Notice(context, vi, notice) => self.notice(engine, context, vi, notice),
        });
        true
    }

    #[inline]
    fn message<W: Wire>(&mut self, engine: &mut Engine<W>, context: u64, words: &[u64], lies: (*const u8, usize)) {
        let id = ConnectionId::from_raw(context as u32);
        let Some(connection) = self.connections.get_mut(id) else { return };
        let parsed = Head::parse(words, lies.1).filter(|(_, taken, _)| connection.credits.acknowledge(*taken).is_some());
        let Some((head, _, start)) = parsed else { return self.broken(engine, id) };
        let p = Packet { from: id, head: &head, payload: (lies.0.wrapping_add(start), lies.1 - start) };
        if head.kind == Kind::Credit {
            return self.leave(engine, id);
        }
        connection.credits.has_handled();
        let owes = connection.credits.owes();
        if p.payload.1 > PACKET_BYTES {
            return self.broken(engine, id);
        }
        match head.kind {
            Kind::Credit => {}
            Kind::Cm if connection.is_link => self.link_message(engine, id, p.payload),
            _ if connection.is_link => return self.broken(engine, id),
            Kind::Cm => return self.broken(engine, id),
            Kind::Send | Kind::Write | Kind::Read | Kind::Atomic => self.request(engine, &p),
            Kind::Datagram => self.datagram(&p),
            Kind::Ack | Kind::Refusal | Kind::ReadData | Kind::AtomicData | Kind::Grant => self.answer_arrived(engine, &p),
        }
        if owes {
            self.leave(engine, id);
        }
    }

    /// Whether a packet comes from whom its queue pair is connected to (C2).
    pub(crate) fn is_from_peer(&mut self, p: &Packet<'_>) -> bool {
        let gid = self.name.gid;
        let Some(peer) = self.connections.get(p.from).map(|c| c.peer) else { return false };
        self.qp(p.head.to).is_some_and(|q| q.init.kind != QpKind::Ud && q.attributes.peer == p.head.from && q.peer_name(&gid) == peer)
    }

    fn answer_arrived<W: Wire>(&mut self, engine: &mut Engine<W>, p: &Packet<'_>) {
        if !self.is_from_peer(p) || !self.qp(p.head.to).is_some_and(|q| q.life == p.head.echo && matches!(q.state, QpState::Rts | QpState::Sqd)) {
            return;
        }
        match p.head.kind {
            Kind::Refusal => {
                self.time();
                self.refused(engine, p.head);
            }
            Kind::ReadData => self.read_arrived(engine, p.head, p.payload),
            Kind::AtomicData => self.atomic_arrived(engine, p.head),
            Kind::Grant => {
                self.granted(p.head);
                self.answered(p.head.to, p.head.answered);
            }
            _ => self.answered(p.head.to, p.head.answered),
        }
        self.pump(engine, p.head.to, false);
    }
}
