// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transmission: queued work leaves, straight into the peer's memory or as frames.
//!
//! Per VI, in this order: what we owe the peer (acknowledgements, "ready again"), reads done for
//! it, then the send queue from `next` on. A request that finds no room stays where it is; its VI
//! stays in the ready bitmap. Large requests move in pieces, so that no turn of the engine takes
//! long.
//!
//! A direct access is only a shortcut: whenever the wire says no, the same bytes go as frames and
//! the owner decides about them. Of RDMA requests: `rdma_out.rs`.

use crate::attributes::ViState;
use crate::cause::Cause;
use crate::complete::{awaits_answer, finish_send, sink};
use crate::engine::{Engine, LinkState};
use crate::frame::{self, Bulk, DisconnectReason, Head, INLINE_BYTES_MAX, INLINE_BYTES_MAX_IMMEDIATE, Op};
use crate::limits::PLACE_BYTES_MIN;
use crate::status::{Operation, Status, WorkFlags};
use crate::time::Duration;
use crate::user_memory::Gather;
use crate::vi::Vi;
use crate::wire::{Direct, LinkId, Placement, Sent, Wire};
use crate::work_queue::{SendWork, Way, WorkState};
use bellwire_memory::line_queue::Line;

/// Most bytes of one direct access: bounds how long a turn of the engine takes.
pub(crate) const DIRECT_PIECE_BYTES: u32 = 128 * 1024;
/// What a message costs of its VI's turn at least.
const MESSAGE_BYTES_MIN: u32 = 64;
/// Sends without an advertised descriptor after which only one in so many looks for one.
const UNADVERTISED_MAX: u32 = 64;
const UNADVERTISED_LOOK: u32 = 16;
/// Unacknowledged requests of a VI; below the range of the sequence number's low bits.
const UNACKNOWLEDGED_MAX: u32 = 8192;

/// First and longest wait after "receiver not ready"; it doubles in between.
pub(crate) const NOT_READY_BACKOFF_MIN: Duration = Duration::from_micros(20);
pub(crate) const NOT_READY_BACKOFF_MAX: Duration = Duration::from_millis(2);

/// How far a piece of work got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Left; the next may follow.
    Gone,
    /// Completed with an error; the next may follow.
    Failed,
    /// Moved something, more to do in a later turn.
    More,
    /// Cannot go on now (fence, limit, control frames first).
    Blocked,
    /// The VI, or what it was to do, is no more.
    Ended,
    /// The link has no room.
    Full,
    /// The link is gone.
    Broken,
}

/// Why a VI stopped sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It has nothing more.
    Empty,
    /// Its turn is over.
    Turn,
    /// It waits for something else than room.
    Blocked,
    /// It waits for room on its link.
    Full,
}

/// Whether control frames wait for room on the link. (A peer that does not read stops its own link
/// only.)
#[cold]
fn owes_control(links: &[LinkState], link: LinkId) -> bool {
    links.iter().any(|l| l.id == link && (l.doomed || !l.control_out.is_empty()))
}

impl<W: Wire> Engine<W> {
    /// Lets the VI at `index` send what it has, up to the budget of the round, from which it is
    /// taken. Keeps its ready bit as it should be. True if anything moved: whether another turn may
    /// move more. And why it stopped.
    pub(crate) fn transmit_some(&mut self, index: usize) -> (bool, Stop) {
        let mut any = false;
        let stop = loop {
            let mut moved = 0;
            let step = self.transmit_step(index, &mut moved);
            any |= moved != 0;
            self.round.budget =
                self.round.budget.saturating_sub(moved.max(if matches!(step, Some(Step::Gone | Step::Failed)) { MESSAGE_BYTES_MIN } else { 0 }));
            match step {
                None | Some(Step::Ended) => break Stop::Empty,
                Some(Step::Gone | Step::Failed | Step::More) => any = true,
                Some(Step::Blocked) => break Stop::Blocked,
                Some(Step::Full) => break Stop::Full,
                Some(Step::Broken) => {
                    any = true;
                    self.link_of_vi_broke(index);
                    break Stop::Empty;
                }
            }
            if self.round.budget == 0 || step == Some(Step::More) {
                break Stop::Turn;
            }
        };
        if stop == Stop::Empty {
            self.ready.remove(index);
        } else {
            self.ready.insert(index);
        }
        (any, stop)
    }

    /// One thing: `None` when there is nothing (more) to do.
    fn transmit_step(&mut self, index: usize, moved: &mut u32) -> Option<Step> {
        let vi = self.vis.at(index)?;
        if vi.state != ViState::Connected {
            return None;
        }
        if self.connections.control_pending && owes_control(&self.links, vi.link) {
            // Control frames that found no room come first: an acceptance must not be overtaken by
            // data.
            return Some(Step::Blocked);
        }
        if vi.ready_due || vi.acknowledges && vi.acknowledged_sequence != vi.expected_sequence {
            return Some(self.transmit_owed(index));
        }
        if !vi.read_jobs.is_empty() {
            return Some(self.transmit_read_job(index, moved));
        }
        // The answer to what the peer is copying comes first.
        if vi.send.all_sent() || vi.not_ready_until > self.now || vi.pulling.is_some() {
            return None;
        }
        Some(self.transmit_next(index, moved))
    }

    /// Acknowledgement, and "ready again".
    fn transmit_owed(&mut self, index: usize) -> Step {
        let Some(vi) = self.vis.at(index) else { return Step::Ended };
        if vi.ready_due {
            let mut line = frame::short(Head::new(Op::ReceiverReady, vi.remote_connection), 0, 0);
            match self.wire.send(vi.link, &mut line, 3) {
                Sent::Yes => {
                    (vi.ready_due, vi.told_not_ready) = (false, false);
                    vi.update_paths();
                }
                other => return stopped(other),
            }
        }
        if vi.acknowledges && vi.acknowledged_sequence != vi.expected_sequence {
            let mut line = frame::short(Head::new(Op::Ack, vi.remote_connection), u64::from(vi.expected_sequence), 0);
            match self.wire.send(vi.link, &mut line, 3) {
                Sent::Yes => vi.acknowledged_sequence = vi.expected_sequence,
                other => return stopped(other),
            }
        }
        Step::Gone
    }

    /// The next fragment of a read done for the peer.
    fn transmit_read_job(&mut self, index: usize, moved: &mut u32) -> Step {
        let Some(vi) = self.vis.at(index) else { return Step::Ended };
        let Some(job) = vi.read_jobs.front().copied() else { return Step::Ended };
        // Checked again for each piece: the region may have been deregistered since.
        if !vi.attributes.rdma_read || !self.registry.permits_remote(job.handle, job.address, u64::from(job.length), vi.ptag, false) {
            self.refuse_read(index, job.work);
            return Step::Gone;
        }
        let n = (job.length - job.moved).min(self.wire.payload_bytes_max(vi.link) as u32);
        let last = job.moved + n == job.length;
        let mut line = Line::default();
        Bulk { offset: job.moved, total: job.length, length: n, work: job.work, ..Bulk::default() }
            .store(Head::new(Op::ReadResponse, vi.remote_connection).bulk().last(last), &mut line);
        let (registry, from) = (&self.registry, job.address + u64::from(job.moved));
        let sent = self.wire.send_with_payload(vi.link, &mut line, n as usize, |to| {
            // SAFETY: U1 (user_memory.rs): permitted just above. The wire gives `n` bytes.
            unsafe { registry.copy_out(from, to, n as usize) }
        });
        match sent {
            Sent::Yes => {}
            Sent::Unfilled => {
                self.refuse_read(index, job.work);
                return Step::Gone;
            }
            other => return stopped(other),
        }
        *moved += n;
        if last {
            vi.read_jobs.pop_front();
        } else if let Some(j) = vi.read_jobs.front_mut() {
            j.moved += n;
        }
        Step::Gone
    }

    /// The request at `send.next`.
    fn transmit_next(&mut self, index: usize, moved: &mut u32) -> Step {
        let Some(handle) = self.vis.handle_at(index) else { return Step::Ended };
        let Some(vi) = self.vis.at(index) else { return Step::Ended };
        let at = vi.send.next;
        let work = vi.send.works.get(at);
        if work.status.is_error() {
            return self.transmit_faulty(index, at);
        }
        if work.flags.contains(WorkFlags::FENCE) && vi.reads_outstanding != 0 {
            return Step::Blocked;
        }
        if vi.acknowledged && at.wrapping_sub(vi.send.done) >= UNACKNOWLEDGED_MAX {
            return Step::Blocked;
        }
        if work.way == Way::Undecided {
            let work = vi.send.works.at(at);
            work.sequence = vi.next_sequence;
            work.message = vi.next_message;
        }
        let step = match work.operation {
            Operation::Send => self.transmit_send(index, at, moved),
            Operation::RdmaWrite => self.transmit_write(index, at, moved),
            Operation::RdmaRead => self.transmit_read(index, at, moved),
        };
        if step != Step::Gone {
            return step;
        }
        let Some(vi) = self.vis.at(index) else { return Step::Ended };
        vi.send.next = at.wrapping_add(1);
        let work = vi.send.works.get(at);
        // A request that went entirely by direct access needs no answer: it is in the peer's
        // memory.
        let silent = work.way == Way::Direct && !work.consumes_receive();
        if !silent {
            vi.next_sequence = vi.next_sequence.wrapping_add(1);
        }
        if work.consumes_receive() {
            vi.next_message = vi.next_message.wrapping_add(1);
        }
        if work.attached {
            vi.counters.attached += 1;
        } else if work.way == Way::Direct || work.way == Way::Announce {
            vi.counters.direct += 1;
        }
        if work.way == Way::Pull {
            vi.pulling = Some(at);
            vi.send.works.at(at).state = WorkState::Sent;
        } else if silent || !awaits_answer(work.operation, vi.acknowledged) {
            self.time_way(index, at, work.attached);
            let mut sink = sink!(self);
            let Some(vi) = self.vis.at(index) else { return Step::Ended };
            finish_send(vi, handle, at, Status::empty(), &mut sink);
        } else {
            vi.send.works.at(at).state = WorkState::Sent;
        }
        Step::Gone
    }

    /// A request that was posted with a fault: completes with it, and a reliable connection breaks.
    fn transmit_faulty(&mut self, index: usize, at: u32) -> Step {
        let Some(handle) = self.vis.handle_at(index) else { return Step::Ended };
        let Some(vi) = self.vis.at(index) else { return Step::Ended };
        if vi.send.done != at {
            // Those before it are still out; it must not overtake them.
            return Step::Blocked;
        }
        let reliable = vi.attributes.reliability.is_reliable();
        let status = vi.send.works.get(at).status;
        vi.send.next = at.wrapping_add(1);
        finish_send(vi, handle, at, status, &mut sink!(self));
        if reliable {
            self.break_connection(index, None, Cause::Here(DisconnectReason::PeerError));
        }
        Step::Failed
    }

    /// Local memory of the request at `send.next` is not there (strict mode): it completes so, when
    /// its turn comes.
    #[cold]
    pub(crate) fn transmit_unmapped(&mut self, index: usize, at: u32) -> Step {
        let Some(vi) = self.vis.at(index) else { return Step::Ended };
        vi.send.works.at(at).status = Status::PROTECTION_ERROR;
        self.transmit_faulty(index, at)
    }

    fn transmit_send(&mut self, index: usize, at: u32, moved: &mut u32) -> Step {
        let Some(vi) = self.vis.at(index) else { return Step::Ended };
        let work = vi.send.works.get(at);
        let immediate = work.flags.contains(WorkFlags::IMMEDIATE);
        let inline_max = if immediate { INLINE_BYTES_MAX_IMMEDIATE } else { INLINE_BYTES_MAX };
        if work.length as usize <= inline_max {
            return self.transmit_inline(index, at);
        }
        let mut can_place = work.length >= PLACE_BYTES_MIN && vi.attributes.reliability.is_reliable() && !vi.remote_rnr;
        if can_place && work.way == Way::Undecided && vi.unadvertised >= UNADVERTISED_MAX {
            // It receives into memory of its own and never advertises: look rarely.
            vi.unadvertised += 1;
            can_place = vi.unadvertised >= UNADVERTISED_MAX + UNADVERTISED_LOOK;
            if can_place {
                vi.unadvertised = UNADVERTISED_MAX;
            }
        }
        if can_place && matches!(work.way, Way::Undecided | Way::Direct) {
            let n = (work.length - work.moved).min(DIRECT_PIECE_BYTES);
            let gather = Gather::new(work.segments, &vi.send.segments);
            let placement = Placement { connection: vi.remote_connection, message: work.message, total: work.length, offset: work.moved, length: n };
            let (registry, mut there) = (&self.registry, true);
            let placed = self.wire.with_advertised(vi.link, &placement, |to| {
                // SAFETY: U1 (user_memory.rs): checked and held since post. The wire gives `n`
                // bytes.
                there = unsafe { gather.copy_out(registry, work.moved, n, to) };
            });
            if !there {
                return self.transmit_unmapped(index, at);
            }
            let stored = vi.send.works.at(at);
            match placed {
                Direct::Done => {
                    *moved += n;
                    stored.moved += n;
                    stored.way = Way::Direct;
                    vi.unadvertised = 0;
                    let stored = vi.send.works.at(at);
                    if stored.moved != work.length {
                        return Step::More;
                    }
                    stored.way = Way::Announce;
                }
                Direct::No => {
                    // Not placed, or the permission went away in the middle: everything goes as
                    // frames.
                    stored.moved = 0;
                    stored.way = Way::Frames;
                    vi.unadvertised = vi.unadvertised.saturating_add(1);
                }
            }
        }
        let work = vi.send.works.get(at);
        if work.way == Way::Announce {
            let mut line = announcement(Op::SendPlaced, vi.remote_connection, &work);
            return sent_step(self.wire.send(vi.link, &mut line, 3));
        }
        if self.goes_by_pull(index, at) {
            return self.transmit_pull(index, at, Op::SendPull);
        }
        self.transmit_frames(index, at, Op::Send, moved)
    }

    fn transmit_inline(&mut self, index: usize, at: u32) -> Step {
        let Some(vi) = self.vis.at(index) else { return Step::Ended };
        let work = vi.send.works.get(at);
        let immediate = work.flags.contains(WorkFlags::IMMEDIATE);
        let mut line = Line::default();
        line.0[0] = Head::new(Op::Send, vi.remote_connection).inline(work.length as usize).immediate(immediate).sequence(work.sequence).0;
        let mut first = 1;
        if immediate {
            line.0[1] = u64::from(work.immediate);
            first = 2;
        }
        if work.flags.contains(WorkFlags::INLINE) {
            let data = vi.send.inline.get(inline_index(vi, at));
            line.0[first..first + data.len()].copy_from_slice(&data);
        } else {
            let to = line.0.as_mut_ptr().wrapping_add(first).cast();
            // SAFETY: U1 (user_memory.rs): checked and held since post; the line has room for an
            // inline message.
            if !unsafe { Gather::new(work.segments, &vi.send.segments).copy_out(&self.registry, 0, work.length, to) } {
                return self.transmit_unmapped(index, at);
            }
        }
        let step = sent_step(self.wire.send(vi.link, &mut line, first + (work.length as usize).div_ceil(8)));
        if step == Step::Gone {
            vi.send.works.at(at).way = Way::Frames;
        }
        step
    }

    /// Fragments with payload, from `moved` on.
    pub(crate) fn transmit_frames(&mut self, index: usize, at: u32, op: Op, moved: &mut u32) -> Step {
        let Some(vi) = self.vis.at(index) else { return Step::Ended };
        let (max, mut next) = (self.wire.payload_bytes_max(vi.link) as u32, self.wire.payload_bytes_next(vi.link, vi.remote_connection) as u32);
        vi.send.works.at(at).way = Way::Frames;
        // Copied once: what was just stored to it could not be copied again before all bytes of the
        // fragment before have left the processor.
        let mut work = vi.send.works.get(at);
        loop {
            let n = (work.length - work.moved).min(core::mem::replace(&mut next, max));
            let last = work.moved + n == work.length;
            let head = Head::new(op, vi.remote_connection).bulk().immediate(work.flags.contains(WorkFlags::IMMEDIATE)).last(last).sequence(work.sequence);
            let mut line = Line::default();
            fragment(&work, at, n).store(head, &mut line);
            let (gather, registry) = (Gather::new(work.segments, &vi.send.segments), &self.registry);
            let sent = self.wire.send_with_payload(vi.link, &mut line, n as usize, |to| {
                // SAFETY: U1 (user_memory.rs): checked and held since post. The wire gives `n`
                // bytes.
                unsafe { gather.copy_out(registry, work.moved, n, to) }
            });
            if sent == Sent::Unfilled {
                return self.transmit_unmapped(index, at);
            }
            if sent != Sent::Yes {
                return stopped(sent);
            }
            *moved += n;
            work.moved += n;
            vi.send.works.at(at).moved = work.moved;
            if op == Op::Write {
                vi.wrote_frames = Some(self.wire.sent_mark(vi.link));
            }
            if last {
                return Step::Gone;
            }
            if *moved >= self.round.budget {
                return Step::More;
            }
        }
    }
}

/// Where the data of the inline request at `at` is: inline data is a FIFO of its own.
fn inline_index(vi: &Vi, at: u32) -> u32 {
    let mut before = 0;
    let mut i = vi.send.done;
    while i != at {
        before += u32::from(vi.send.works.get(i).flags.contains(WorkFlags::INLINE));
        i = i.wrapping_add(1);
    }
    vi.send.inline.head().wrapping_add(before)
}

/// The next `n` bytes of the request at `at`, as the peer is told of them.
#[inline]
pub(crate) fn fragment(work: &SendWork, at: u32, n: u32) -> Bulk {
    Bulk {
        offset: work.moved,
        total: work.length,
        immediate: work.immediate,
        length: n,
        remote_address: work.remote_address,
        remote_handle: work.remote_handle,
        work: at,
    }
}

/// Tells that a request that consumes a receive has been placed.
#[inline]
pub(crate) fn announcement(op: Op, connection: u32, work: &SendWork) -> Line {
    let head = Head::new(op, connection).immediate(work.flags.contains(WorkFlags::IMMEDIATE)).sequence(work.sequence);
    frame::short(head, u64::from(work.message) | u64::from(work.length) << 32, u64::from(work.immediate))
}

#[inline]
pub(crate) fn sent_step(sent: Sent) -> Step {
    if sent == Sent::Yes { Step::Gone } else { stopped(sent) }
}

#[inline]
pub(crate) fn stopped(sent: Sent) -> Step {
    match sent {
        Sent::Broken => Step::Broken,
        Sent::Yes | Sent::NoRoom | Sent::Unfilled => Step::Full,
    }
}

/// A request starts over: after "receiver not ready".
pub(crate) fn rewind(work: &mut SendWork) {
    work.state = WorkState::Queued;
    work.way = Way::Undecided;
    work.moved = 0;
}
