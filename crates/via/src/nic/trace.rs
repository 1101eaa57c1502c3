// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tracing a NIC notes what has changed each time its token is let go.
//!
//! Nothing on a message's way says what it does. A traced NIC's token is watched
//! (`bellwire_memory::token`): before each call, or the helper's turn, lets it go, this compares
//! the counters and the places in the queues of the VIs with those of the time before, and notes
//! the differences in the log of the thread. So an event's time is that of the end of the call that
//! made it, and a NIC that is not traced executes nothing for it.
//!
//! All VIs are compared if there are no more than [`VIS_EACH`], else so many in turn: an event may
//! then be told later, and requests that came and went in between are told by their number alone.

use super::captured::Captured;
use crate::attributes::ViState;
use crate::engine::Engine;
use crate::handles::ViHandle;
use crate::vi::{Vi, ViCounters};
use crate::wire::{LinkId, LinkInfo, Wire};
use bellwire_trace::stamp::{stamp, ticks};
use bellwire_trace::turns::Turns;
use bellwire_trace::{Kind, here};
use std::fmt::Write;

/// VIs compared each time.
const VIS_EACH: usize = 64;
/// Links compared each time.
const LINKS_EACH: usize = 16;
/// Requests of a queue that are told one by one; of more, the number.
const WORKS_EACH: u32 = 64;

/// The places in the queues, and the counters, of a VI.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Places {
    send: [u32; 4],
    receive: [u32; 3],
    state: ViState,
    link: LinkId,
    counters: ViCounters,
}

impl Places {
    fn of(vi: &Vi) -> Self {
        let (s, r) = (&vi.send, &vi.receive);
        Self {
            send: [s.works.head(), s.done, s.next, s.works.tail()],
            receive: [r.works.head(), r.done, r.works.tail()],
            state: vi.state,
            link: vi.link,
            counters: vi.counters,
        }
    }

    const NEW: Self = Self {
        send: [0; 4],
        receive: [0; 3],
        state: ViState::Idle,
        link: LinkId::from_raw(0),
        counters: ViCounters { sent: 0, sent_bytes: 0, received: 0, received_bytes: 0, attached: 0, direct: 0, dropped: 0, receiver_not_ready: 0, errors: 0 },
    };
}

/// A link as it was told of last.
struct SeenLink {
    id: LinkId,
    sent: u64,
    received: u64,
    again: u64,
    lost: u64,
    /// The number of the look that saw it last.
    looked: u64,
}

/// The places and links that were seen last.
pub(super) struct Tracer {
    /// By the VIs' indices.
    vis: Vec<Option<(ViHandle, Places)>>,
    vi_turns: Turns,
    links: Vec<SeenLink>,
    link_turns: Turns,
    lost: u64,
    /// The NIC's number, in the events' objects.
    nic: u32,
    /// It is captured as well.
    captured: Option<Box<Captured>>,
    /// When the thread that is inside has entered, in ticks.
    entered: u64,
    /// Looks so far.
    looks: u64,
}

/// The object of an event: the NIC's number, and that of something of its.
fn object(nic: u32, of: usize) -> u32 {
    nic << 24 | (of as u32 & 0x00ff_ffff)
}

impl Tracer {
    /// Of the NIC of that number, with a capture or without.
    pub(super) fn new(nic: u32, captured: Option<Captured>) -> Self {
        let (vi_turns, link_turns) = (Turns::default(), Turns::default());
        Self { vis: Vec::new(), vi_turns, links: Vec::new(), link_turns, lost: 0, nic, captured: captured.map(Box::new), entered: stamp(ticks()), looks: 0 }
    }

    /// The virtual interfaces carry a layer's messages, which tells of them itself. Gives whether
    /// they were captured.
    pub(super) fn forgo_capture(&mut self) -> bool {
        self.captured.take().is_some()
    }

    /// A thread has entered.
    pub(super) fn enter(&mut self) {
        self.entered = stamp(ticks());
    }

    /// Takes what has been so far as seen, and tells the states of VIs and links alone.
    pub(super) fn begin<W: Wire>(&mut self, engine: &Engine<W>) {
        self.lost = engine.lost_links.count;
        for link in &engine.links {
            self.new_link(link.id, &engine.wire.link_info(link.id));
        }
        self.vis.resize(engine.vis.places(), None);
        for at in 0..self.vis.len() {
            let Some((handle, vi)) = engine.vis.handle_at(at).and_then(|handle| Some((handle, engine.vis.get(handle)?))) else { continue };
            tell_state(object(self.nic, at), vi);
            if let Some(captured) = &mut self.captured {
                captured.begin(at, vi);
            }
            self.vis[at] = Some((handle, Places::of(vi)));
        }
    }

    /// Notes what has changed since the last time.
    pub(super) fn look<W: Wire>(&mut self, engine: &Engine<W>) {
        self.looks += 1;
        self.links(engine);
        self.vis(engine);
    }

    fn vis<W: Wire>(&mut self, engine: &Engine<W>) {
        let all = engine.vis.places();
        self.vis.resize(all.max(self.vis.len()), None);
        for at in self.vi_turns.take(all, VIS_EACH) {
            let Some(handle) = engine.vis.handle_at(at) else {
                self.vis[at] = None;
                continue;
            };
            let Some(vi) = engine.vis.get(handle) else { continue };
            let places = Places::of(vi);
            let before = match self.vis[at] {
                Some((same, before)) if same == handle => before,
                // Another VI has the place.
                _ => Places::NEW,
            };
            if places != before {
                tell(object(self.nic, at), vi, &before, &places);
                if let Some(captured) = &mut self.captured {
                    captured.look(self.nic, at, vi, engine);
                }
            }
            self.vis[at] = Some((handle, places));
        }
    }

    fn links<W: Wire>(&mut self, engine: &Engine<W>) {
        if engine.lost_links.count != self.lost {
            let new = (engine.lost_links.count - self.lost).min(crate::lost_link::LOST_LINKS_MAX as u64) as usize;
            self.lost = engine.lost_links.count;
            let known = engine.lost_links.iter().count();
            for lost in engine.lost_links.iter().skip(known - new.min(known)) {
                let object = object(self.nic, lost.link.raw() as usize);
                here::note_text(Kind::LinkLost, object, [lost.about.peer_pid.into(), self.lost], lost.failure.text());
            }
            self.links.retain(|seen| engine.links.iter().any(|l| l.id == seen.id));
        }
        for at in self.link_turns.take(engine.links.len(), LINKS_EACH) {
            self.link(engine.links[at].id, &engine.wire);
        }
    }

    fn link(&mut self, id: LinkId, wire: &impl Wire) {
        let known = self.links.iter().position(|seen| seen.id == id);
        // Of a link without packets there is nothing more to tell.
        if known.is_some_and(|at| self.links[at].sent == u64::MAX) {
            return;
        }
        let info = wire.link_info(id);
        let object = object(self.nic, id.raw() as usize);
        let Some(at) = known else {
            self.new_link(id, &info);
            if let Some(path) = info.path.as_ref().filter(|path| path.data_out != 0 || path.data_in != 0) {
                // In this turn, or before.
                here::note_more(Kind::Packets, object, [path.data_out, path.data_in], &[path.retransmitted, path.lost, 0, path.data_out, path.data_in]);
            }
            return;
        };
        let (Some(path), seen) = (&info.path, &mut self.links[at]) else { return };
        // Of a link that was not looked at the last time, packets may have left in an earlier turn.
        let is_one_turn = seen.looked + 1 >= self.looks;
        seen.looked = self.looks;
        if (path.data_out, path.data_in, path.retransmitted, path.lost) != (seen.sent, seen.received, seen.again, seen.lost) {
            let (sent, received) = (path.data_out.wrapping_sub(seen.sent), path.data_in.wrapping_sub(seen.received));
            let began = if is_one_turn { self.entered } else { 0 };
            let (again, lost) = (path.retransmitted.wrapping_sub(seen.again), path.lost.wrapping_sub(seen.lost));
            here::note_more(Kind::Packets, object, [sent, received], &[again, lost, began, path.data_out, path.data_in]);
            (seen.sent, seen.received, seen.again, seen.lost) = (path.data_out, path.data_in, path.retransmitted, path.lost);
        }
    }
}

impl Tracer {
    /// Tells of a link, with what it has done so far as seen.
    fn new_link(&mut self, id: LinkId, info: &LinkInfo) {
        let object = object(self.nic, id.raw() as usize);
        here::note_text(Kind::LinkUp, object, [info.peer_pid.into(), info.mapped.into()], &about(info));
        let mut seen = SeenLink { id, sent: u64::MAX, received: 0, again: 0, lost: 0, looked: self.looks };
        if let Some(path) = &info.path {
            here::note(Kind::Session, object, [path.id.raw(), path.peer_id]);
            (seen.sent, seen.received, seen.again, seen.lost) = (path.data_out, path.data_in, path.retransmitted, path.lost);
        }
        self.links.push(seen);
    }
}

/// Which wire a link goes by, and why.
fn about(info: &LinkInfo) -> String {
    let mut text = format!("by {}: {}", info.wire, info.reason.text());
    if let Some(path) = &info.path {
        // Writing to a string does not fail.
        let _ = write!(text, "; {}", path.address);
    }
    text
}

/// Tells what has become of a VI.
#[inline(never)]
fn tell(object: u32, vi: &Vi, before: &Places, now: &Places) {
    if (now.state, now.link) != (before.state, before.link) || now.counters.errors != before.counters.errors {
        tell_state(object, vi);
    }
    receives(object, vi, before, now);
    sends(object, vi, before, now);
    let count = |kind: Kind, from: u64, to: u64| {
        if to != from {
            here::note(kind, object, [to.wrapping_sub(from), 0]);
        }
    };
    let (was, is) = (&before.counters, &now.counters);
    count(Kind::Direct, was.direct, is.direct);
    count(Kind::Attached, was.attached, is.attached);
    count(Kind::NotReady, was.receiver_not_ready, is.receiver_not_ready);
    count(Kind::Dropped, was.dropped, is.dropped);
}

fn tell_state(object: u32, vi: &Vi) {
    let why = vi.cause.map(|cause| cause.text()).unwrap_or_default();
    here::note_text(Kind::ViState, object, [vi.state as u64, vi.link.raw().into()], why);
}

/// Of `from..to`, the part that is still in a queue whose oldest is `head`.
fn still_there(from: u32, to: u32, head: u32) -> impl Iterator<Item = u32> {
    let (from, count) = if head.wrapping_sub(from).cast_signed() > 0 {
        (head, to.wrapping_sub(head).cast_signed().max(0))
    } else {
        (from, to.wrapping_sub(from).cast_signed().max(0))
    };
    (0..(count as u32).min(WORKS_EACH)).map(move |n| from.wrapping_add(n))
}

fn sends(object: u32, vi: &Vi, before: &Places, now: &Places) {
    let ([was_head, was_done, was_next, was_tail], [head, done, next, tail]) = (before.send, now.send);
    for at in still_there(was_tail, tail, head) {
        let work = vi.send.works.get(at);
        here::note_more(Kind::Posted, object, [work.context, work.length.into()], &[work.operation as u64]);
    }
    if next != was_next {
        here::note(Kind::Left, object, [next.wrapping_sub(was_next).into(), 0]);
    }
    let completed = done.wrapping_sub(was_done);
    for at in still_there(was_done, done, head) {
        let work = vi.send.works.get(at);
        here::note_more(Kind::Completed, object, [work.context, u64::from(work.status.bits())], &[work.length.into()]);
    }
    if head != was_head {
        here::note(Kind::Dequeued, object, [head.wrapping_sub(was_head).into(), 0]);
    }
    let errors = now.counters.errors.wrapping_sub(before.counters.errors);
    let sent = now.counters.sent.wrapping_sub(before.counters.sent).saturating_sub(u64::from(completed).saturating_sub(errors));
    if sent != 0 {
        here::note(Kind::Sent, object, [sent, now.counters.sent_bytes.wrapping_sub(before.counters.sent_bytes)]);
    }
}

fn receives(object: u32, vi: &Vi, before: &Places, now: &Places) {
    let ([was_head, was_done, was_tail], [head, done, tail]) = (before.receive, now.receive);
    if tail != was_tail {
        here::note(Kind::ReceivesPosted, object, [tail.wrapping_sub(was_tail).into(), 0]);
    }
    let (mut came, mut bytes) =
        (now.counters.received.wrapping_sub(before.counters.received), now.counters.received_bytes.wrapping_sub(before.counters.received_bytes));
    for at in still_there(was_done, done, head) {
        let work = vi.receive.works.get(at);
        here::note_more(Kind::Completed, object, [work.context, u64::from(work.status.bits())], &[work.length.into()]);
        if !work.status.is_error() {
            (came, bytes) = (came.saturating_sub(1), bytes.saturating_sub(work.length.into()));
        }
    }
    // Taken off the queue already, or to an inbox or a shared receive queue.
    if came != 0 {
        here::note(Kind::Received, object, [came, bytes]);
    }
    if head != was_head {
        here::note(Kind::ReceivesDequeued, object, [head.wrapping_sub(was_head).into(), 0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Operation;
    use bellwire_trace::kinds::Form;

    /// The table of events has the words of the engine's own numbers.
    #[test]
    fn words_and_numbers() {
        let words = |kind: Kind, field: usize| if let Form::Words(words) = kind.about().fields[field].form { words } else { &[] };
        let states = words(Kind::ViState, 0);
        for (state, word) in
            [(ViState::Idle, "idle"), (ViState::Connected, "connected"), (ViState::ConnectPending, "connect pending"), (ViState::Error, "error")]
        {
            assert_eq!(states[state as usize], word);
        }
        let operations = words(Kind::Posted, 2);
        for (operation, word) in [(Operation::Send, "send"), (Operation::RdmaWrite, "RDMA write"), (Operation::RdmaRead, "RDMA read")] {
            assert_eq!(operations[operation as usize], word);
        }
    }
}
