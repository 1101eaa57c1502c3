// SPDX-License-Identifier: MIT OR Apache-2.0
//! One turn of the engine: what the wire reports, frames in, queued work out, timers.
//!
//! Budget of an empty turn over one link: one load of the slot at the head of its queue, and four
//! comparisons.

use crate::attention::LINKS_ALWAYS;
use crate::attributes::ViState;
use crate::cause::Cause;
use crate::complete::Completion;
use crate::engine::{Engine, LinkState};
use crate::error::Error;
use crate::event::AsyncErrorCode;
use crate::handles::{CqHandle, ViHandle, WorkQueueKind};
use crate::lost_link::LostLink;
use crate::receive::Look;
use crate::time::Instant;
use crate::way::Chooser;
use crate::wire::{LinkFailure, LinkId, MapAccess, Sent, Wire, WireEvent};
use bellwire_memory::line_queue::Line;
use std::collections::VecDeque;

/// Frames taken from one link per turn.
const FRAMES_PER_TURN: u32 = 16;
/// Polls of one VI per turn of the whole engine.
const POLLS_PER_TURN: u32 = 16;
/// Control frames that may wait for room on a link; a peer that makes us owe more is cut off.
const CONTROL_OUT_MAX: usize = if cfg!(fuzzing) { 16 } else { 4096 };

impl<W: Wire> Engine<W> {
    /// Moves everything that can move now, up to a bound. True if anything did.
    #[inline]
    pub fn progress(&mut self) -> bool {
        let mut any = false;
        self.wire.begin_turn();
        if self.wire.has_events() {
            any |= self.handle_wire_events();
        }
        any |= self.receive_all();
        any | self.end_turn()
    }

    /// As [`progress`](Self::progress), for polls: of many links it looks at those that bring
    /// something, and at
    /// all when that is due (`attention.rs`).
    #[inline]
    pub fn progress_polling(&mut self) -> bool {
        self.wire.begin_turn();
        let mut any = self.wire.has_events() && self.handle_wire_events();
        any |= match self.links.len() {
            1 => self.receive_link(0),
            2..=LINKS_ALWAYS => self.receive_all(),
            _ => self.receive_links(),
        };
        any | self.end_turn()
    }

    /// As [`progress_polling`](Self::progress_polling), for the turn that is due once in so many
    /// polls: those polls may all have found completions, so none has looked at an idle link or
    /// asked the clock.
    pub(crate) fn progress_in_turn(&mut self) -> bool {
        self.attention.ask();
        self.progress_polling()
    }

    /// Takes frames of all links.
    #[inline]
    fn receive_all(&mut self) -> bool {
        let mut any = false;
        let mut i = 0;
        // A link that fails leaves the list, and the next one takes its place.
        while i < self.links.len() {
            any |= self.receive_link(i);
            i += 1;
        }
        any
    }

    /// Takes frames of the links that are to be looked at.
    #[inline(never)]
    fn receive_links(&mut self) -> bool {
        let mut any = false;
        if let Some(at) = self.attention.only() {
            if self.receive_link(at as usize) {
                self.attention.found_at_favourite();
                return true;
            }
            if self.attention.is_content() || !self.is_time_for_all() {
                return false;
            }
        } else if self.attention.is_narrow() {
            let must_ask = self.attention.must_ask();
            let (recent, count) = self.attention.recent();
            for at in &recent[..count] {
                if self.receive_link(*at as usize) {
                    any = true;
                    self.attention.found(*at);
                }
                if !self.attention.is_narrow() {
                    // A link has failed: the places are not what they were.
                    return true;
                }
            }
            if (any && !must_ask) || !self.is_time_for_all() {
                return any;
            }
        }
        let mut i = 0;
        while i < self.links.len() {
            let id = self.links[i].id;
            if self.may_bring(i) && self.receive_link(i) {
                any = true;
                if self.links.get(i).is_some_and(|l| l.id == id) {
                    self.attention.found(i as u32);
                }
            }
            i += 1;
        }
        any
    }

    /// Whether a look at a link, one of many, can find something.
    #[inline]
    pub(crate) fn may_bring(&self, at: usize) -> bool {
        self.links.get(at).is_some_and(|l| self.wire.may_bring(l.id))
    }

    /// Whether a narrow poll is to look at all links.
    pub(crate) fn is_time_for_all(&mut self) -> bool {
        let Self { attention, wire, links, .. } = self;
        attention.is_due(links.len(), || wire.stopwatch())
    }

    /// A turn without frames in, for callers that take frames themselves, from all links: frames
    /// that [`progress`](Self::progress) took would wait for them as a copy.
    pub(crate) fn turn_besides_frames(&mut self) -> bool {
        self.wire.begin_turn();
        let any = self.wire.has_events() && self.handle_wire_events();
        any | self.end_turn()
    }

    /// The steps after the frames of a turn. True if anything moved.
    #[inline]
    pub(crate) fn end_turn(&mut self) -> bool {
        let mut any = false;
        if self.connections.control_pending {
            self.flush_control();
        }
        if !self.ready.is_empty() {
            any |= self.transmit_ready();
        }
        if self.connections.next_timeout() <= self.now {
            any = true;
            self.handle_timeout();
        }
        self.wire.flush();
        any
    }

    /// When [`progress`](Self::progress) must be called at the latest; [`Instant::NEVER`] if only
    /// for what the wire brings.
    #[inline]
    pub fn next_timeout(&self) -> Instant {
        self.connections.next_timeout().min(self.wire.next_timeout())
    }

    /// Whether it must be told the time before [`progress`](Self::progress): the wire has a clock
    /// of its own.
    #[inline]
    pub(crate) fn has_timers(&self) -> bool {
        self.connections.next_timeout() != Instant::NEVER
    }

    /// Whether posted work waits to move: somebody should call [`progress`](Self::progress) soon.
    #[inline]
    pub fn has_work(&self) -> bool {
        !self.ready.is_empty() || self.connections.control_pending || self.wire.has_events()
    }

    /// VIs that have something to send: work that can move, and work that waits for room on its
    /// link.
    pub fn ready_vis(&self) -> usize {
        self.ready.count()
    }

    /// Dequeues the oldest completed receive; if there is none, takes frames from the VI's own link
    /// until one completes, and now and then moves everything else. The call for those who poll one
    /// VI: it returns as soon as the message is there.
    #[inline(always)]
    pub fn poll_receive(&mut self, handle: ViHandle) -> Result<Option<Completion>, Error> {
        match self.take_whole::<false>(handle) {
            Some(done) => Ok(Some(done)),
            None => self.poll_receive_any(handle),
        }
    }

    #[inline(never)]
    fn poll_receive_any(&mut self, handle: ViHandle) -> Result<Option<Completion>, Error> {
        if let Some(done) = self.take_whole::<true>(handle) {
            return Ok(Some(done));
        }
        if let Some(done) = self.receive_done(handle)? {
            return Ok(Some(done));
        }
        let Some(vi) = self.vis.get(handle) else { return Err(Error::InvalidParameter) };
        let (link, connected) = (vi.link, vi.state == ViState::Connected);
        self.polls = self.polls.wrapping_add(1);
        if connected && !self.polls.is_multiple_of(POLLS_PER_TURN) && !self.has_work() {
            self.wire.begin_turn();
            for _ in 0..FRAMES_PER_TURN {
                match self.deliver_one(link) {
                    Look::Empty => return Ok(None),
                    Look::Delivered => {}
                    Look::Lost => break,
                }
                if let Some(done) = self.receive_done(handle)? {
                    return Ok(Some(done));
                }
            }
        } else if connected && self.links.len() > LINKS_ALWAYS {
            self.progress_of(link);
        } else {
            self.progress_polling();
        }
        self.receive_done(handle)
    }

    /// As [`progress_polling`](Self::progress_polling), for polls of a VI among many links: looks
    /// at the VI's own link, and at all when that is due. The fast paths take most messages of such
    /// polls, so `attention.rs` does not learn of them.
    #[inline(never)]
    fn progress_of(&mut self, link: LinkId) {
        self.wire.begin_turn();
        self.receive_from(link);
        if self.wire.has_events() {
            self.handle_wire_events();
        }
        if self.is_time_for_all() {
            let mut i = 0;
            while i < self.links.len() {
                if self.may_bring(i) {
                    self.receive_link(i);
                }
                i += 1;
            }
        }
        self.end_turn();
    }

    /// Dequeues the oldest completed send-side request, after moving what can move if there is
    /// none.
    #[inline(always)]
    pub fn poll_send(&mut self, handle: ViHandle) -> Result<Option<Completion>, Error> {
        if let Some(done) = self.send_done(handle)? {
            return Ok(Some(done));
        }
        self.poll_send_any(handle)
    }

    /// As [`poll_send`](Self::poll_send), for a caller who has found no request that is complete.
    #[inline(never)]
    pub(crate) fn poll_send_any(&mut self, handle: ViHandle) -> Result<Option<Completion>, Error> {
        match self.vis.get(handle) {
            Some(vi) if self.links.len() > LINKS_ALWAYS && vi.state == ViState::Connected => self.progress_of(vi.link),
            _ => _ = self.progress_polling(),
        }
        self.send_done(handle)
    }

    /// Dequeues the oldest entry of a completion queue, after moving what can move if there is
    /// none.
    #[inline]
    pub fn poll_cq(&mut self, cq: CqHandle) -> Result<Option<(ViHandle, WorkQueueKind)>, Error> {
        if let Some(entry) = self.cq_done(cq)? {
            return Ok(Some(entry));
        }
        self.poll_cq_any(cq)
    }

    /// As [`poll_cq`](Self::poll_cq), for a caller who has found the queue empty.
    #[inline]
    pub(crate) fn poll_cq_any(&mut self, cq: CqHandle) -> Result<Option<(ViHandle, WorkQueueKind)>, Error> {
        self.progress_polling();
        self.cq_done(cq)
    }

    /// Takes frames of one link.
    #[inline]
    fn receive_link(&mut self, i: usize) -> bool {
        let LinkState { id, broken, .. } = self.links[i];
        !broken && self.receive_from(id)
    }

    /// Takes frames of the link of that name, which is not broken.
    #[inline]
    fn receive_from(&mut self, id: LinkId) -> bool {
        for frames in 0..FRAMES_PER_TURN {
            match self.deliver_one(id) {
                Look::Empty => return frames != 0,
                Look::Delivered => {}
                Look::Lost => return true,
            }
        }
        true
    }

    #[cold]
    pub(crate) fn handle_wire_events(&mut self) -> bool {
        let mut any = false;
        while let Some(event) = self.wire.poll_event() {
            any = true;
            match event {
                WireEvent::LinkUp { link, request } => {
                    if !self.links.iter().any(|l| l.id == link) {
                        self.attention.reset();
                        self.links.push(LinkState { id: link, control_out: VecDeque::new(), broken: false, doomed: false, ways: Chooser::default() });
                    }
                    if let Some(request) = request {
                        self.resolved(request, Ok(link));
                    }
                }
                WireEvent::Unresolved { request, reason } => self.resolved(request, Err(reason)),
                WireEvent::LinkDown { link, reason } => {
                    // What the peer said before it went is still heard.
                    while let Some(i) = self.links.iter().position(|l| l.id == link) {
                        if !self.receive_link(i) {
                            break;
                        }
                    }
                    self.link_failed(link, reason);
                }
                WireEvent::MapRequest { link, segment, write } => {
                    let access = self.may_map(link, segment, write);
                    self.wire.grant(link, segment, access);
                }
            }
        }
        any
    }

    /// How a peer may map an allocation: it lies wholly under one tag, and a VI of that tag is
    /// connected to that peer. For writing only if peers may write one of its regions, or have been
    /// told of a receive descriptor in it.
    fn may_map(&self, link: LinkId, segment: u32, write: bool) -> Option<MapAccess> {
        let tag = self.registry.mappable_tag(segment)?;
        if !self.vis.iter().any(|(_, vi)| vi.link == link && vi.ptag == tag) {
            return None;
        }
        match write {
            true => self.registry.is_writable_by_peers(segment).then_some(MapAccess::Write),
            false => Some(MapAccess::Read),
        }
    }

    /// A link is gone: all its VIs hear of it, and it is given back to the wire.
    #[cold]
    pub(crate) fn link_failed(&mut self, link: LinkId, failure: LinkFailure) {
        let Some(at) = self.links.iter().position(|l| l.id == link) else { return };
        self.links[at].broken = true;
        self.lost_links.add(LostLink { link, about: self.wire.link_info(link), failure, at: self.now });
        let hit: Vec<usize> = self.vis.iter().filter(|(_, vi)| vi.link == link).map(|(h, _)| h.index()).collect();
        for index in hit {
            self.break_connection(index, Some(AsyncErrorCode::ConnectionLost), Cause::Link(failure));
        }
        self.attempts_lost_link(link);
        self.links.retain(|l| l.id != link);
        self.attention.reset();
        self.connections.control_pending = self.links.iter().any(|l| l.doomed || !l.control_out.is_empty());
        self.wire.close(link);
    }

    /// The link of a VI said [`Sent::Broken`].
    #[cold]
    pub(crate) fn link_of_vi_broke(&mut self, index: usize) {
        if let Some(vi) = self.vis.at(index) {
            let link = vi.link;
            self.link_broke(link);
        }
    }

    /// A link says that it is broken; the wire may know why.
    #[cold]
    pub(crate) fn link_broke(&mut self, link: LinkId) {
        let failure = self.wire.failure(link);
        self.link_failed(link, failure);
    }

    // ---- control frames: few, never lost, kept in order before everything that follows them

    /// Sends a line of control, or keeps it until there is room.
    pub(crate) fn send_control_line(&mut self, link: LinkId, line: &mut Line) {
        self.send_control(link, line, &[]);
    }

    /// Sends a control frame with payload, or keeps it until there is room.
    pub(crate) fn send_control(&mut self, link: LinkId, line: &mut Line, payload: &[u8]) {
        let Some(state) = self.links.iter_mut().find(|l| l.id == link && !l.broken && !l.doomed) else { return };
        if state.control_out.is_empty() {
            match send_control_now(&mut self.wire, link, line, payload) {
                Sent::Yes => return,
                Sent::NoRoom => {}
                // Found again, and acted upon, by the next turn's receive.
                Sent::Broken | Sent::Unfilled => return,
            }
        }
        if state.control_out.len() >= CONTROL_OUT_MAX {
            // The peer makes us owe it thousands of answers and does not read them.
            state.control_out.clear();
            state.doomed = true;
        } else {
            state.control_out.push_back((*line, payload.to_vec()));
        }
        self.connections.control_pending = true;
    }

    #[cold]
    fn flush_control(&mut self) {
        while let Some(link) = self.links.iter().find(|l| l.doomed).map(|l| l.id) {
            self.link_failed(link, LinkFailure::PeerStalled);
        }
        let mut pending = false;
        for state in &mut self.links {
            while let Some((line, payload)) = state.control_out.front() {
                let mut line = *line;
                if send_control_now(&mut self.wire, state.id, &mut line, payload) != Sent::Yes {
                    pending = true;
                    break;
                }
                state.control_out.pop_front();
            }
        }
        self.connections.control_pending = pending;
    }
}

fn send_control_now<W: Wire>(wire: &mut W, link: LinkId, line: &mut Line, payload: &[u8]) -> Sent {
    if payload.is_empty() {
        wire.send(link, line, 3)
    } else {
        wire.send_with_payload(link, line, payload.len(), |to| {
            // SAFETY: the wire gives `payload.len()` writable bytes that nothing else refers to.
            unsafe { core::ptr::copy_nonoverlapping(payload.as_ptr(), to, payload.len()) };
            true
        })
    }
}
