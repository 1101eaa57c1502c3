// SPDX-License-Identifier: MIT OR Apache-2.0
//! Large requests from and to memory that cannot be mapped, by cross-memory attach: the side that
//! wants the bytes copies them out of the other process.
//!
//! ```text
//!  send, RDMA write                             RDMA read
//!  SendPull / WritePull (address, piece) ..-->  the initiator looks into the peer's catalogue and copies; the peer is not asked
//!                    the receiver copies
//!                              <--   Pulled
//! ```
//! Nothing else of a VI is sent between the first piece and the answer, so a refusal half-way only
//! means that the request starts over through the rings. Called by `transmit.rs` and `deliver.rs`;
//! which way is taken: `way.rs`; whether it is permitted at all: the wire.

use crate::arrive::{Arrival, Source};
use crate::attributes::ViState;
use crate::complete::{finish_send, sink};
use crate::engine::Engine;
use crate::frame::{self, Bulk, Head, Op};
use crate::rdma_out::wish;
use crate::status::{Operation, Status, WorkFlags};
use crate::transmit::{self, Step, fragment, stopped};
use crate::user_memory::Gather;
use crate::way::{self, Kind, PULL_BYTES_MAX};
use crate::wire::{Attach, Direct, Frame, Sent, Wire};
use crate::work_queue::Way;
use bellwire_memory::line_queue::Line;

impl<W: Wire> Engine<W> {
    // ---- the initiator

    /// Whether a request that cannot be placed directly is for the peer to copy out of our memory.
    /// Decided once for a request.
    pub(crate) fn goes_by_pull(&mut self, index: usize, at: u32) -> bool {
        let Some(vi) = self.vis.at(index) else { return false };
        let work = vi.send.works.get(at);
        if work.way == Way::Pull || work.moved != 0 {
            return work.way == Way::Pull;
        }
        let usual = vi.attributes.reliability.is_reliable() && !vi.acknowledged && !work.flags.contains(WorkFlags::INLINE);
        if !usual || work.length < way::ATTACH_BYTES_MIN_ALWAYS || vi.send.done != at {
            return false;
        }
        let mode = self.wire.attach(vi.link);
        if work.length < way::bytes_min(mode) {
            return false;
        }
        let link = vi.link;
        let Some(state) = self.links.iter_mut().find(|l| l.id == link) else { return false };
        let pull = mode != Attach::Never && state.ways.attach(mode, Kind::Push, work.length);
        let work = vi.send.works.at(at);
        if mode != Attach::Never {
            work.began = self.wire.stopwatch();
        }
        if pull {
            work.way = Way::Pull;
        }
        pull
    }

    /// Asks the peer to copy a request out of our memory, piece by piece; each piece lies in one
    /// segment.
    pub(crate) fn transmit_pull(&mut self, index: usize, at: u32, op: Op) -> Step {
        loop {
            let Some(vi) = self.vis.at(index) else { return Step::Ended };
            let work = vi.send.works.get(at);
            let Some((from, n)) = Gather::new(work.segments, &vi.send.segments).piece_at(work.moved, PULL_BYTES_MAX) else { return Step::Gone };
            let last = work.moved + n == work.length;
            let mut line = Line::default();
            fragment(&work, at, n).store(Head::new(op, vi.remote_connection).immediate(work.flags.contains(WorkFlags::IMMEDIATE)).last(last), &mut line);
            line.0[5] = from;
            let sent = self.wire.send(vi.link, &mut line, 6);
            if sent != Sent::Yes {
                return stopped(sent);
            }
            vi.send.works.at(at).moved += n;
            if last {
                return Step::Gone;
            }
        }
    }

    /// Tells the link's chooser how long a request took.
    pub(crate) fn time_way(&mut self, index: usize, at: u32, attached: bool) {
        let Some(vi) = self.vis.at(index) else { return };
        let (work, link) = (vi.send.works.get(at), vi.link);
        if work.began == 0 {
            return;
        }
        let kind = if work.operation == Operation::RdmaRead { Kind::Read } else { Kind::Push };
        let ns = self.wire.stopwatch().saturating_sub(work.began);
        if let Some(state) = self.links.iter_mut().find(|l| l.id == link) {
            state.ways.record(kind, attached, work.length, ns);
        }
    }

    /// An RDMA read of memory that cannot be mapped, by copying it out of the peer's process.
    /// `None`: not this way.
    pub(crate) fn transmit_read_attached(&mut self, index: usize, at: u32, moved: &mut u32) -> Option<Step> {
        let vi = self.vis.at(index)?;
        let work = vi.send.works.get(at);
        let mode = self.wire.attach(vi.link);
        let may = work.length >= way::bytes_min(mode) && vi.remote_ptag != 0 && vi.remote_read && matches!(work.way, Way::Undecided | Way::Direct);
        // It must overtake neither writes under way as frames nor reads that the peer serves.
        if !may || work.length == 0 || vi.send.done != at || vi.reads_outstanding != 0 || vi.wrote_frames.is_some() {
            return None;
        }
        let link = vi.link;
        if work.way == Way::Undecided {
            let state = self.links.iter_mut().find(|l| l.id == link)?;
            let attached = state.ways.attach(mode, Kind::Read, work.length);
            vi.send.works.at(at).began = self.wire.stopwatch();
            if !attached {
                return None;
            }
        }
        let n = (work.length - work.moved).min(PULL_BYTES_MAX);
        let wish = wish(&work, vi.remote_ptag, n);
        let gather = Gather::new(work.segments, &vi.send.segments);
        // SAFETY: U1 (user_memory.rs): the segments were checked at post, for writing, and are held
        // since.
        let done = unsafe {
            self.wire.pull_granted(link, &wish, |copy| gather.each(work.moved, n, |to, offset, bytes| copy(u64::from(work.moved) + offset, to, bytes)))
        };
        if done == Direct::No {
            return None;
        }
        *moved += n;
        let stored = vi.send.works.at(at);
        stored.moved += n;
        stored.way = Way::Direct;
        if stored.moved != work.length {
            return Some(Step::More);
        }
        stored.attached = true;
        Some(Step::Gone)
    }

    // ---- the receiver

    /// A part of a message that we are to copy out of the peer's memory.
    pub(crate) fn deliver_send_pull(&mut self, index: usize, head: Head, frame: &Frame) {
        let Some((bulk, address)) = pull_fragment(head, frame) else { return self.protocol_error(index) };
        let arrival = Arrival {
            from: Source::Peer(address, bulk.work),
            offset: bulk.offset,
            length: bulk.length,
            total: bulk.total,
            immediate: head.has_immediate().then_some(bulk.immediate),
            last: head.is_last(),
        };
        self.receive_fragment(index, arrival, Status::OP_RECEIVE);
    }

    /// A part of an RDMA write likewise.
    pub(crate) fn deliver_write_pull(&mut self, index: usize, head: Head, frame: &Frame) {
        let Some((bulk, address)) = pull_fragment(head, frame) else { return self.protocol_error(index) };
        let Some(to) = self.write_target(index, head, &bulk) else { return };
        let to = core::ptr::with_exposed_provenance_mut(to as usize);
        let Some(vi) = self.vis.at(index) else { return };
        if bulk.offset == 0 {
            vi.pull_failed = false;
        } else if vi.pull_failed {
            return;
        }
        // SAFETY: U1 (user_memory.rs): permitted just above.
        if !unsafe { self.wire.pull(vi.link, address, to, bulk.length as usize) } {
            vi.pull_failed = true;
            return self.answer_pull(index, bulk.work, false);
        }
        if head.is_last() {
            if head.has_immediate() {
                self.deliver_write_immediate(index, bulk.total, bulk.immediate);
            }
            self.answer_pull(index, bulk.work, true);
        }
    }

    /// Tells the peer what became of a request that we were to copy.
    pub(crate) fn answer_pull(&mut self, index: usize, work: u32, whole: bool) {
        let Some(vi) = self.vis.at(index) else { return };
        if vi.state != ViState::Connected {
            return;
        }
        let mut line = frame::short(Head::new(Op::Pulled, vi.remote_connection), u64::from(work), u64::from(whole));
        let link = vi.link;
        self.send_control_line(link, &mut line);
    }

    /// The peer has copied our request, or could not.
    pub(crate) fn deliver_pulled(&mut self, index: usize, work: u32, whole: bool) {
        let Some(handle) = self.vis.handle_at(index) else { return };
        let Some(vi) = self.vis.at(index) else { return };
        // Refused while its last parts were still waiting for room.
        let is_leaving = vi.send.next == work && !vi.send.all_sent() && vi.send.works.get(work).way == Way::Pull;
        if vi.pulling != Some(work) && (whole || !is_leaving) {
            return self.protocol_error(index);
        }
        if whole {
            vi.counters.attached += 1;
            vi.pulling = None;
            self.time_way(index, work, true);
            let mut sink = sink!(self);
            let Some(vi) = self.vis.at(index) else { return };
            finish_send(vi, handle, work, Status::empty(), &mut sink);
        } else {
            // It goes as frames, from its beginning; nothing has been sent after it.
            vi.pulling = None;
            let stored = vi.send.works.at(work);
            transmit::rewind(stored);
            (stored.way, stored.began) = (Way::Frames, 0);
            (vi.next_sequence, vi.next_message, vi.send.next) = (stored.sequence, stored.message, work);
            let link = vi.link;
            self.wire.attach_failed(link);
        }
        self.ready.insert(index);
    }
}

/// A fragment to be copied out of the peer's memory, if its lengths agree; and its address there.
fn pull_fragment(head: Head, frame: &Frame) -> Option<(Bulk, u64)> {
    let bulk = Bulk::load(frame);
    let end = bulk.offset.checked_add(bulk.length)?;
    let fits = bulk.length != 0 && bulk.length <= PULL_BYTES_MAX && end <= bulk.total && head.is_last() == (end == bulk.total) && !head.is_bulk();
    fits.then(|| (bulk, frame.word(5)))
}
