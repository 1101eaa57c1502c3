// SPDX-License-Identifier: MIT OR Apache-2.0
//! Polling an inbox: messages that wait there, and messages taken from the wire where they lie.

use super::{FRAMES_PER_LOOK, Kept, LOITER, LOOKS, LineWords, Looked, Taken};
use crate::attention::LINKS_ALWAYS;
use crate::attributes::ViState;
use crate::engine::{Engine, LinkState};
use crate::frame::{Bulk, Head, Op};
use crate::handle::{Handle, Slab};
use crate::handles::InboxHandle;
use crate::handles::ViTag;
use crate::parcel::{Inbox, Notice, Parcel};
use crate::receive::Look;
use crate::vi::{Connection, Vi};
use crate::wire::{Frame, LinkId, Peeked, Wire};

impl<W: Wire> Engine<W> {
    /// Whether something waits in an inbox.
    #[inline]
    pub fn inbox_has(&self, inbox: InboxHandle) -> bool {
        self.inboxes.get(inbox).is_none_or(|i| !i.waiting.is_empty())
    }

    /// The next thing for an inbox; if nothing waits, one turn of the engine that ends when there
    /// is something. A message in a line is copied to `line`.
    #[inline]
    pub fn take(&mut self, inbox: InboxHandle, line: &mut LineWords) -> Option<Taken> {
        self.take_noting(inbox, line, || ())
    }

    /// A message in a line that comes by the only link, or by the one that brought the last
    /// (`attention.rs`),
    /// if `take` wants it: it is given the context of its VI, the frame, and the length of its
    /// bytes, which
    /// begin at word 1. For layers that take most messages in a way of their own: nothing is
    /// copied, and all
    /// of this is inlined.
    #[inline(always)]
    pub fn take_line<R>(&mut self, inbox: InboxHandle, take: impl FnOnce(u64, &Frame, usize) -> Option<R>) -> Looked<R> {
        if self.inbox_has(inbox) {
            return Looked::Otherwise;
        }
        self.wire.begin_turn();
        if self.wire.has_events() {
            return Looked::Otherwise;
        }
        let id = match self.links[..] {
            [LinkState { id, broken: false, .. }] => id,
            _ => match self.favourite() {
                Some(id) => id,
                None => return Looked::Otherwise,
            },
        };
        // SAFETY: F2: the frame is used up to `consume_peeked`, and nothing else is done with the
        // wire meanwhile.
        let frame = match unsafe { self.wire.peek_line(id, LOOKS as u32) } {
            Peeked::Line(frame) => frame,
            Peeked::Nothing => {
                if self.links.len() != 1 {
                    self.attention.found_none_at_favourite();
                    if !self.attention.is_content() {
                        return Looked::Otherwise;
                    }
                }
                self.end_turn();
                return if self.inbox_has(inbox) { Looked::Otherwise } else { Looked::Nothing };
            }
            Peeked::Otherwise => return Looked::Otherwise,
        };
        let head = frame.head();
        let Some(length) = head.inline_len() else { return Looked::Otherwise };
        let Some((vi, context)) = addressee(&mut self.connection_ids, &mut self.vis, id, head, inbox) else { return Looked::Otherwise };
        let Some(taken) = take(context, &frame, length) else { return Looked::Otherwise };
        self.wire.consume_peeked(id);
        vi.message = vi.message.wrapping_add(1);
        vi.counters.received += 1;
        self.completions += 1;
        Looked::Took(taken)
    }

    /// As [`take`](Self::take), after [`take_line`](Self::take_line) found nothing: looks but once.
    #[inline]
    pub fn take_otherwise(&mut self, inbox: InboxHandle, line: &mut LineWords) -> Option<Taken> {
        self.take_looking(inbox, line, 1, || ())
    }

    /// As [`take`](Self::take); `found` is called when there is a frame, before anything is done
    /// with it. For measurements of what taking costs.
    #[inline]
    pub fn take_noting(&mut self, inbox: InboxHandle, line: &mut LineWords, found: impl Fn() + Copy) -> Option<Taken> {
        self.take_looking(inbox, line, LOOKS, found)
    }

    #[inline]
    fn take_looking(&mut self, inbox: InboxHandle, line: &mut LineWords, looks_at_only: usize, found: impl Fn() + Copy) -> Option<Taken> {
        if self.inbox_has(inbox)
            && let Some(waited) = self.take_waiting(inbox)
        {
            return Some(waited);
        }
        self.wire.begin_turn();
        if self.wire.has_events() {
            self.handle_wire_events();
        }
        if self.links.len() != 1 {
            return self.take_among_links(inbox, line, looks_at_only, found);
        }
        let taken = self.inboxes.get(inbox)?.taken;
        // A message that comes while we look is found sooner by another look than by another poll,
        // of which looking is the smaller part.
        for _ in 0..looks_at_only {
            if let Some(found) = self.take_from_link(0, inbox, line, found) {
                if let Some(i) = self.inboxes.get_mut(inbox) {
                    (i.cursor, i.taken) = if taken + 1 >= LOITER { (1, 0) } else { (0, taken + 1) };
                }
                return Some(found);
            }
        }
        self.end_turn();
        if self.inbox_has(inbox) { self.take_waiting(inbox) } else { None }
    }

    /// The next thing from several links, or none.
    #[inline(never)]
    fn take_among_links(&mut self, inbox: InboxHandle, line: &mut LineWords, looks_at_only: usize, noting: impl Fn() + Copy) -> Option<Taken> {
        if let Some(at) = self.attention.only() {
            // As with an only link.
            let is_left_out = self.links.get(at as usize).is_some_and(|l| self.wire.leaves_out(l.id));
            for _ in 0..if is_left_out { 0 } else { looks_at_only } {
                if let Some(found) = self.take_from_link(at as usize, inbox, line, noting) {
                    self.attention.found_at_favourite();
                    if let Some(i) = self.inboxes.get_mut(inbox) {
                        (i.cursor, i.taken) = (at as usize, 0);
                    }
                    return Some(found);
                }
            }
            // If the link has failed, nothing is recent any more.
            if self.attention.is_narrow()
                && !self.attention.is_content()
                && let Some(found) = self.take_from_others(&[at], inbox, line, noting)
            {
                return Some(found);
            }
        } else if self.attention.is_narrow() {
            if let Some(found) = self.take_from_recent(inbox, line, noting) {
                return Some(found);
            }
        } else {
            let Inbox { cursor, taken, .. } = *self.inboxes.get(inbox)?;
            let mut at = cursor;
            for _ in 0..self.links.len() {
                at = if at >= self.links.len() { 0 } else { at };
                // The link that brought the last message is likely to bring the next.
                if (at == cursor || self.may_bring(at))
                    && let Some(found) = self.take_from_link(at, inbox, line, noting)
                {
                    if self.links.len() > LINKS_ALWAYS {
                        self.attention.found(at as u32);
                    }
                    if let Some(i) = self.inboxes.get_mut(inbox) {
                        let in_row = if at == cursor { taken + 1 } else { 1 };
                        (i.cursor, i.taken) = if in_row >= LOITER { (at + 1, 0) } else { (at, in_row) };
                    }
                    return Some(found);
                }
                at += 1;
            }
        }
        self.end_turn();
        if self.inbox_has(inbox) { self.take_waiting(inbox) } else { None }
    }

    /// The next thing from the links that brought something lately; from the others, when it is
    /// time to look
    /// at them.
    fn take_from_recent(&mut self, inbox: InboxHandle, line: &mut LineWords, noting: impl Fn() + Copy) -> Option<Taken> {
        let (recent, count) = self.attention.recent();
        let recent = &recent[..count];
        let must_ask = self.attention.must_ask();
        if must_ask && let Some(found) = self.take_from_others(recent, inbox, line, noting) {
            return Some(found);
        }
        for place in 0..count {
            // The link that was first for long is last once.
            let at = recent[if must_ask { count - 1 - place } else { place }];
            let found = self.take_from_link(at as usize, inbox, line, noting);
            if !self.attention.is_narrow() {
                // A link has failed: the places are not what they were.
                return found;
            }
            if found.is_some() {
                self.found_at(at, inbox);
                return found;
            }
        }
        if must_ask { None } else { self.take_from_others(recent, inbox, line, noting) }
    }

    /// From all links but the recent ones, if it is time.
    #[inline(never)]
    fn take_from_others(&mut self, recent: &[u32], inbox: InboxHandle, line: &mut LineWords, noting: impl Fn() + Copy) -> Option<Taken> {
        if !self.is_time_for_all() {
            return None;
        }
        for at in 0..self.links.len() as u32 {
            if recent.contains(&at) || !self.may_bring(at as usize) {
                continue;
            }
            let found = self.take_from_link(at as usize, inbox, line, noting);
            if !self.attention.is_narrow() {
                return found;
            }
            if found.is_some() {
                self.found_at(at, inbox);
                return found;
            }
        }
        None
    }

    fn found_at(&mut self, at: u32, inbox: InboxHandle) {
        self.attention.found(at);
        if let Some(i) = self.inboxes.get_mut(inbox) {
            (i.cursor, i.taken) = (at as usize, 0);
        }
    }

    /// The link that a narrow poll tries first. The poll counts as a find; a caller that finds
    /// nothing takes that back.
    #[inline(never)]
    fn favourite(&mut self) -> Option<LinkId> {
        let at = self.attention.favourite()?;
        self.attention.found_at_favourite();
        self.links.get(at as usize).filter(|l| !l.broken).map(|l| l.id)
    }

    /// The next thing for an inbox, after [`take`](Self::take) has found something: one look at the
    /// same link, no turn.
    #[inline]
    pub fn take_more(&mut self, inbox: InboxHandle, line: &mut LineWords) -> Option<Taken> {
        if self.inbox_has(inbox) {
            return self.take_waiting(inbox);
        }
        let Inbox { cursor: at, taken, .. } = *self.inboxes.get(inbox)?;
        let found = self.take_from_link(at, inbox, line, || ())?;
        if self.links.len() > LINKS_ALWAYS {
            self.attention.found(at as u32);
        }
        if let Some(i) = self.inboxes.get_mut(inbox) {
            (i.cursor, i.taken) = if taken + 1 >= LOITER { (at + 1, 0) } else { (at, taken + 1) };
        }
        Some(found)
    }

    /// Whether something is there for an inbox, in it or still in the wire, where it stays for
    /// [`take`](Self::take): a turn of the engine that ends when there is something. Also when a
    /// link has brought so much for others that this has not seen its end.
    pub fn has_come(&mut self, inbox: InboxHandle) -> bool {
        if self.inbox_has(inbox) {
            return true;
        }
        self.wire.begin_turn();
        if self.wire.has_events() {
            self.handle_wire_events();
        }
        let mut at = 0;
        // A link that fails leaves the list, and the next one takes its place.
        while let Some(link) = self.links.get(at) {
            let (id, broken) = (link.id, link.broken);
            if !broken && self.has_come_by(id, inbox) {
                return true;
            }
            at += 1;
        }
        self.end_turn();
        self.inbox_has(inbox)
    }

    fn has_come_by(&mut self, link: LinkId, inbox: InboxHandle) -> bool {
        for _ in 0..FRAMES_PER_LOOK {
            let is_for = |engine: &mut Self, frame: &Frame| {
                let vi = addressee(&mut engine.connection_ids, &mut engine.vis, link, frame.head(), inbox);
                vi.map(|_| ())
            };
            match self.receive_one(link, is_for) {
                Look::Empty | Look::Lost => return false,
                Look::Taken(()) => return true,
                Look::Delivered if self.inbox_has(inbox) => return true,
                Look::Delivered => {}
            }
        }
        true
    }

    #[inline]
    fn take_from_link(&mut self, at: usize, inbox: InboxHandle, line: &mut LineWords, found: impl Fn() + Copy) -> Option<Taken> {
        let link = self.links.get(at).filter(|l| !l.broken)?.id;
        for _ in 0..FRAMES_PER_LOOK {
            let take = |engine: &mut Self, frame: &Frame| {
                found();
                engine.take_frame(link, frame, inbox, line)
            };
            match self.receive_one(link, take) {
                Look::Empty | Look::Lost => return None,
                Look::Taken(taken) => return Some(taken),
                Look::Delivered if self.inbox_has(inbox) => return self.take_waiting(inbox),
                Look::Delivered => self.delivered_beside += 1,
            }
        }
        None
    }

    /// Takes a whole message for the inbox, which is empty, where it lies. `None`: nothing done.
    #[inline(always)]
    fn take_frame(&mut self, link: LinkId, frame: &Frame, inbox: InboxHandle, line: &mut LineWords) -> Option<Taken> {
        let head = frame.head();
        let (vi, context) = addressee(&mut self.connection_ids, &mut self.vis, link, head, inbox)?;
        let taken = if let Some(length) = head.inline_len() {
            for (i, word) in line.iter_mut().enumerate() {
                *word = frame.word(i + 1);
            }
            self.wire.consume(link);
            Taken::Line(context, length as u32)
        } else {
            let bulk = Bulk::load(frame);
            if bulk.offset != 0 || bulk.total != bulk.length || bulk.length as usize != frame.payload_len() {
                return None;
            }
            let (at, length) = (frame.payload(), bulk.length);
            let mark = self.wire.consume_keeping(link)?;
            Taken::Kept(context, Kept { engine: self.id, link, mark, at, length })
        };
        vi.message = vi.message.wrapping_add(1);
        vi.counters.received += 1;
        self.completions += 1;
        Some(taken)
    }

    #[cold]
    fn take_waiting(&mut self, inbox: InboxHandle) -> Option<Taken> {
        let parcel = self.inboxes.get_mut(inbox)?.waiting.pop_front()?;
        let end = self.vis.get_mut(parcel.vi()).and_then(|v| v.inbox.as_mut());
        let context = end.as_ref().map_or(0, |e| e.context);
        Some(match parcel {
            Parcel::Message(_, data) => {
                if let Some(end) = end {
                    end.waiting -= 1;
                }
                Taken::Waited(context, data)
            }
            Parcel::Notice(vi, notice) => {
                if matches!(notice, Notice::Connected(_)) {
                    self.connections.forget_attempt(vi);
                }
                Taken::Notice(context, vi, notice)
            }
        })
    }
}

/// The VI that a frame is a whole message for, with its context, if that goes to this inbox, which
/// is empty, and nothing of the VI is before it.
#[inline(always)]
fn addressee<'a>(ids: &mut Slab<Connection>, vis: &'a mut Slab<Vi, ViTag>, link: LinkId, head: Head, inbox: InboxHandle) -> Option<(&'a mut Vi, u64)> {
    if head.op() != Some(Op::Send) || !head.is_last() || head.has_immediate() {
        return None;
    }
    let index = ids.get(Handle::from_raw(head.to()))?.vi as usize;
    let (_, vi) = vis.entry_at(index)?;
    let end = vi.inbox.as_ref()?;
    if end.inbox != inbox || vi.link != link || vi.state != ViState::Connected || !end.partial.is_empty() {
        return None;
    }
    debug_assert_eq!(end.waiting, 0, "I1");
    let context = end.context;
    Some((vi, context))
}
