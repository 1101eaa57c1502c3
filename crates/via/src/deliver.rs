// SPDX-License-Identifier: MIT OR Apache-2.0
//! Delivery: a frame has arrived; find its VI, place its bytes, answer.
//!
//! Everything in a frame was written by a peer. Lengths, offsets, handles and ids are checked here against what this NIC knows; what cannot be breaks the
//! connection (or, for the link's own rules, the link), and what belongs to a connection that is no more is dropped and counted.

use crate::attributes::ViState;
use crate::complete::{finish_receive, finish_send, sink};
use crate::engine::Engine;
use crate::event::AsyncErrorCode;
use crate::frame::{self, Bulk, DisconnectReason, Head, INLINE_BYTES_MAX, Op};
use crate::handle::Handle;
use crate::status::{Operation, Status};
use crate::transmit::{self, PLACE_BYTES_MIN, READS_OUTSTANDING_MAX};
use crate::user_memory::{self, Gather};
use crate::vi::{ReadJob, Vi};
use crate::wire::{Advertisement, Frame, LinkId, Wire};
use crate::work_queue::{SendWork, Way, WorkState};

/// Receive descriptors of a VI that are made known to the peer at a time.
pub const ADVERTISED_MAX: u32 = 32;
/// Small messages in a row after which a VI stops advertising.
const SMALL_IN_A_ROW_MAX: u32 = 64;

/// Where the bytes of a fragment are.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// In the wire.
    Here(*const u8),
    /// In the memory of the peer's process, to be copied by us; the peer's name for the request.
    Peer(u64, u32),
}

/// A fragment of a message for a receive descriptor.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub from: Source,
    pub offset: u32,
    pub length: u32,
    pub total: u32,
    pub immediate: Option<u32>,
    pub last: bool,
}

/// What to do with the rest of a message.
enum Taken {
    /// Placed or dropped: fine.
    Fine,
    /// The connection breaks: event here, reason for the peer.
    Break(AsyncErrorCode, DisconnectReason),
}

impl<W: Wire> Engine<W> {
    /// Handles one frame. `false`: the link's peer broke its rules.
    #[inline(always)]
    pub(crate) fn deliver(&mut self, link: LinkId, frame: &Frame) -> bool {
        self.deliver_inline(link, frame) || self.deliver_any(link, frame)
    }

    /// A whole message in one line, for a VI with nothing unusual about it that is not being polled (then `take_whole` of fast.rs has it). `false`: not that,
    /// nothing done.
    #[inline(always)]
    fn deliver_inline(&mut self, link: LinkId, frame: &Frame) -> bool {
        let head = frame.head();
        let Some(length) = head.inline_len() else { return false };
        if head.op() != Some(Op::Send) || !head.is_last() {
            return false;
        }
        let Some(connection) = self.connection_ids.get(Handle::from_raw(head.to())) else { return false };
        let index = connection.vi as usize;
        let mut sink = sink!(self);
        let Some((handle, vi)) = self.vis.entry_at(index) else { return false };
        if vi.link != link
            || vi.state != ViState::Connected
            || vi.acknowledges
            || vi.arriving
            || vi.advertises
            || !vi.receive.has_posted()
            || sink.registry.is_strict()
        {
            return false;
        }
        let work = vi.receive.works.at(vi.receive.done);
        if work.segments.count > 1 || length as u32 > work.capacity || work.status.is_error() {
            return false;
        }
        let immediate = head.has_immediate().then(|| frame.word(1) as u32);
        let to = core::ptr::with_exposed_provenance_mut(work.segments.only.address as usize);
        // SAFETY: U1 (user_memory.rs): checked and held since post; `length` is within the capacity. F1 for the words.
        unsafe { user_memory::copy(to, frame.words_from(1 + usize::from(immediate.is_some())), length) };
        vi.message = vi.message.wrapping_add(1);
        finish_receive(vi, handle, Status::OP_RECEIVE, length as u32, immediate, &mut sink);
        if vi.receive.has_posted() && vi.receive.works.at(vi.receive.done).status.is_error() {
            self.settle_faulty_receives(index);
        }
        true
    }

    #[inline(never)]
    fn deliver_any(&mut self, link: LinkId, frame: &Frame) -> bool {
        let head = frame.head();
        let Some(op) = head.op() else { return false };
        if head.to() == 0 {
            return self.deliver_control(link, op, frame);
        }
        let Some(connection) = self.connection_ids.get(Handle::from_raw(head.to())) else {
            self.stale_frames += 1;
            self.decline_late_acceptance(link, op, frame);
            return true;
        };
        let index = connection.vi as usize;
        let Some(vi) = self.vis.at(index) else { return true };
        if vi.link != link {
            // Somebody else's connection: a lie, since ids are told to one peer each. A pending connection has no link yet and only takes control frames.
            return self.deliver_to_pending(link, index, op, frame);
        }
        if vi.state != ViState::Connected {
            return self.deliver_to_pending(link, index, op, frame);
        }
        if vi.acknowledges
            && matches!(op, Op::Send | Op::SendPlaced | Op::Write | Op::WritePlaced | Op::ReadRequest)
            && head.sequence_low() != vi.expected_sequence as u16
        {
            // Sent before the peer heard "not ready"; it comes again.
            return true;
        }
        match op {
            Op::Send if vi.inbox.is_some() => self.deliver_to_inbox(index, head, frame),
            Op::Send => self.deliver_send(index, head, frame),
            Op::SendPlaced => self.deliver_send_placed(index, head, frame),
            Op::Write => self.deliver_write(index, head, frame),
            Op::SendPull => self.deliver_send_pull(index, head, frame),
            Op::WritePull => self.deliver_write_pull(index, head, frame),
            Op::Pulled => self.deliver_pulled(index, frame.word(1) as u32, frame.word(2) == 1),
            Op::WritePlaced => self.deliver_write_placed(index, head, frame),
            Op::ReadRequest => self.deliver_read_request(index, frame),
            Op::ReadResponse => self.deliver_read_response(index, head, frame),
            Op::Ack => self.deliver_ack(index, frame.word(1) as u32),
            Op::ReceiverNotReady => self.deliver_not_ready(index, frame.word(1) as u32),
            Op::ReceiverReady => self.deliver_ready(index),
            Op::Refused => self.deliver_refused(index, frame.word(1) as u32, frame.word(2) as u32),
            Op::Disconnect => self.deliver_disconnect(index, frame.word(1)),
            Op::PeerAccept | Op::ConnectReply | Op::ConnectCancel => {}
            Op::ConnectRequest | Op::PeerRequest => return false,
        }
        true
    }

    #[inline]
    fn deliver_send(&mut self, index: usize, head: Head, frame: &Frame) {
        let Some(arrival) = send_arrival(head, frame) else { return self.protocol_error(index) };
        self.receive_fragment(index, arrival, Status::OP_RECEIVE);
    }

    /// Takes a fragment into the descriptor at the front, with all that can be wrong about it.
    #[inline]
    pub(crate) fn receive_fragment(&mut self, index: usize, arrival: Arrival, operation: Status) {
        match self.place_fragment(index, arrival, operation) {
            Taken::Fine => {}
            Taken::Break(code, reason) => self.break_connection(index, Some(code), Some(reason)),
        }
    }

    #[inline]
    fn place_fragment(&mut self, index: usize, a: Arrival, operation: Status) -> Taken {
        let Some(handle) = self.vis.handle_at(index) else { return Taken::Fine };
        let mut vi = match self.vis.at(index) {
            Some(vi) => vi,
            None => return Taken::Fine,
        };
        if !(vi.arriving && a.offset != 0 && a.offset == vi.arrived) {
            if (a.offset != 0 || vi.arriving) && !self.restart_arrival(index, &a) {
                return Taken::Fine;
            }
            match self.begin_arrival(index, &a, operation) {
                Ok(true) => {}
                Ok(false) => return Taken::Fine,
                Err(broken) => return broken,
            }
            vi = match self.vis.at(index) {
                Some(vi) => vi,
                None => return Taken::Fine,
            };
        }
        let work = vi.receive.works.at(vi.receive.done);
        if a.offset > work.capacity || a.length > work.capacity - a.offset {
            return Taken::Break(AsyncErrorCode::ConnectionLost, DisconnectReason::Protocol);
        }
        let segments = work.segments;
        let there = match a.from {
            Source::Here(from) if segments.count == 1 => {
                // SAFETY: U1 (user_memory.rs): checked and held since post; bounds just checked. `from` is readable for `length` bytes (send_arrival).
                unsafe { self.registry.copy_in(segments.only.address + u64::from(a.offset), from, a.length as usize) }
            }
            // SAFETY: as above.
            Source::Here(from) => unsafe { Gather::new(segments, &vi.receive.segments).copy_in(&self.registry, a.offset, a.length, from) },
            Source::Peer(address, name) => {
                let (wire, link) = (&mut self.wire, vi.link);
                // SAFETY: U1: as above.
                let whole = Gather::new(segments, &vi.receive.segments)
                    .each(a.offset, a.length, |to, at, n| unsafe { wire.pull(link, address.wrapping_add(at), to, n) });
                if !whole {
                    // It comes again, from its beginning, as frames. What is left of it is dropped like the rest of a message that was cut off.
                    vi.set_arriving(false);
                    vi.arrived = 0;
                    self.answer_pull(index, name, false);
                    return Taken::Fine;
                }
                true
            }
        };
        if !there {
            self.receive_faulted(index, &a, operation);
            return Taken::Fine;
        }
        if a.last {
            vi.set_arriving(false);
            self.end_arrival(index, handle, a.total, a.immediate, operation);
            if let Source::Peer(_, name) = a.from {
                self.answer_pull(index, name, true);
            }
        } else {
            vi.set_arriving(true);
            vi.arrived = a.offset + a.length;
        }
        Taken::Fine
    }

    /// A fragment that does not continue what was arriving: `true` if it begins a message.
    #[cold]
    fn restart_arrival(&mut self, index: usize, a: &Arrival) -> bool {
        let Some(vi) = self.vis.at(index) else { return false };
        // The message before was cut off by loss; its descriptor stays for the next one.
        vi.set_arriving(false);
        vi.arrived = 0;
        if a.offset != 0 {
            if a.last {
                vi.discarding = false;
            }
            return false;
        }
        true
    }

    /// Finds a descriptor for a new message. `Ok(false)`: the message is dropped or refused for now.
    #[inline]
    fn begin_arrival(&mut self, index: usize, a: &Arrival, operation: Status) -> Result<bool, Taken> {
        let Some(vi) = self.vis.at(index) else { return Ok(false) };
        vi.discarding = false;
        let there = vi.receive.has_posted() || vi.srq.is_some() && self.take_shared(index);
        if !there {
            return self.no_descriptor(index);
        }
        let Some(vi) = self.vis.at(index) else { return Ok(false) };
        if a.total > vi.receive.works.at(vi.receive.done).capacity {
            return Err(self.too_long(index, a, operation));
        }
        Ok(true)
    }

    #[cold]
    fn no_descriptor(&mut self, index: usize) -> Result<bool, Taken> {
        let Some(vi) = self.vis.at(index) else { return Ok(false) };
        if !vi.attributes.reliability.is_reliable() {
            vi.counters.dropped += 1;
            return Ok(false);
        }
        if !vi.attributes.rnr_wait {
            return Err(Taken::Break(AsyncErrorCode::ReceiveQueueEmpty, DisconnectReason::ReceiveQueueEmpty));
        }
        vi.told_not_ready = true;
        vi.update_paths();
        let mut line = frame::short(Head::new(Op::ReceiverNotReady, vi.remote_connection), u64::from(vi.expected_sequence), 0);
        let link = vi.link;
        if let Some(srq) = vi.srq
            && let Some(handle) = self.vis.handle_at(index)
            && let Some(s) = self.srqs.get_mut(srq)
            && !s.waiting.contains(&handle)
        {
            s.waiting.push_back(handle);
        }
        self.send_control_line(link, &mut line);
        Ok(false)
    }

    #[cold]
    fn too_long(&mut self, index: usize, a: &Arrival, operation: Status) -> Taken {
        let Some(handle) = self.vis.handle_at(index) else { return Taken::Fine };
        let mut sink = sink!(self);
        let Some(vi) = self.vis.at(index) else { return Taken::Fine };
        vi.message = vi.message.wrapping_add(1);
        finish_receive(vi, handle, Status::LENGTH_ERROR | operation, 0, a.immediate, &mut sink);
        if vi.attributes.reliability.is_reliable() {
            Taken::Break(AsyncErrorCode::Overrun, DisconnectReason::TooLong)
        } else {
            vi.discarding = !a.last;
            Taken::Fine
        }
    }

    /// The message is whole.
    #[inline]
    fn end_arrival(&mut self, index: usize, handle: crate::vi::ViHandle, total: u32, immediate: Option<u32>, operation: Status) {
        let mut sink = sink!(self);
        let Some(vi) = self.vis.at(index) else { return };
        vi.message = vi.message.wrapping_add(1);
        finish_receive(vi, handle, operation, total, immediate, &mut sink);
        let faulty_next = vi.receive.has_posted() && vi.receive.works.at(vi.receive.done).status.is_error();
        let acknowledge = vi.acknowledges;
        if acknowledge {
            vi.expected_sequence = vi.expected_sequence.wrapping_add(1);
            if vi.told_not_ready {
                vi.told_not_ready = false;
                vi.update_paths();
            }
        }
        if total >= PLACE_BYTES_MIN {
            vi.small_in_a_row = 0;
            if !vi.advertises && vi.srq.is_none() && vi.attributes.reliability.is_reliable() && !vi.attributes.rnr_wait {
                vi.advertises = true;
                vi.update_paths();
            }
        } else if vi.advertises {
            vi.small_in_a_row += 1;
            if vi.small_in_a_row > SMALL_IN_A_ROW_MAX {
                vi.advertises = false;
                vi.update_paths();
            }
        }
        let advertises = vi.advertises;
        if acknowledge {
            self.ready.insert(index);
        }
        if faulty_next {
            self.settle_faulty_receives(index);
        }
        if advertises {
            self.advertise_posted(index);
        }
    }

    /// Moves a descriptor of the shared receive queue to the VI. `false`: there is none.
    fn take_shared(&mut self, index: usize) -> bool {
        let Some(vi) = self.vis.at(index) else { return false };
        let Some(s) = vi.srq.and_then(|s| self.srqs.get_mut(s)) else { return false };
        if s.queue.works.is_empty() {
            return false;
        }
        let mut work = s.queue.works.get(s.queue.works.head());
        if work.segments.count > 1 {
            let from = work.segments.more_at;
            work.segments.more_at = vi.receive.segments.tail();
            for i in 0..u32::from(work.segments.count) {
                vi.receive.segments.push(s.queue.segments.get(from.wrapping_add(i)));
            }
            s.queue.segments.advance(u32::from(work.segments.count));
        }
        s.queue.works.advance(1);
        s.queue.done = s.queue.works.head();
        vi.receive.works.push(work);
        true
    }

    /// Makes posted receives known to the peer, as far as they lie in memory it may map.
    pub(crate) fn advertise_posted(&mut self, index: usize) {
        let Some(vi) = self.vis.at(index) else { return };
        if vi.state != ViState::Connected {
            return;
        }
        let Some(connection) = vi.connection else { return };
        let done = vi.receive.done;
        let end = if vi.receive.posted() > ADVERTISED_MAX { done.wrapping_add(ADVERTISED_MAX) } else { vi.receive.works.tail() };
        if vi.advertised_to.wrapping_sub(done) > ADVERTISED_MAX {
            vi.advertised_to = done;
        }
        while vi.advertised_to != end {
            let at = vi.advertised_to;
            vi.advertised_to = at.wrapping_add(1);
            let work = vi.receive.works.at(at);
            if work.advertised || work.capacity < PLACE_BYTES_MIN || work.segments.count != 1 || work.status.is_error() {
                continue;
            }
            let Some(place) = self.registry.place_of(&work.segments.only) else { continue };
            work.advertised = true;
            self.registry.mark_advertised(work.segments.only.address);
            let message = vi.message.wrapping_add(at.wrapping_sub(done));
            self.wire.advertise(vi.link, connection.raw(), message, &Advertisement { segment: place.segment, length: work.capacity, offset: place.offset });
        }
    }

    fn deliver_send_placed(&mut self, index: usize, head: Head, frame: &Frame) {
        let placed = frame.word(1);
        let (message, total) = (placed as u32, (placed >> 32) as u32);
        let Some(vi) = self.vis.at(index) else { return };
        let fits = vi.receive.has_posted() && vi.message == message && {
            let work = vi.receive.works.get(vi.receive.done);
            work.advertised && total <= work.capacity
        };
        if !fits {
            return self.protocol_error(index);
        }
        let (link, connection) = (vi.link, vi.connection);
        if let Some(c) = connection {
            self.wire.withdraw(link, c.raw(), message);
        }
        let immediate = head.has_immediate().then_some(frame.word(2) as u32);
        if let Some(handle) = self.vis.handle_at(index) {
            self.end_arrival(index, handle, total, immediate, Status::OP_RECEIVE);
        }
    }

    fn deliver_write(&mut self, index: usize, head: Head, frame: &Frame) {
        let bulk = Bulk::load(frame);
        let end = bulk.offset.checked_add(bulk.length);
        if !head.is_bulk() || bulk.length as usize != frame.payload_len() || end.is_none_or(|e| e > bulk.total || head.is_last() != (e == bulk.total)) {
            return self.protocol_error(index);
        }
        let Some(to) = self.write_target(index, head, &bulk) else { return };
        // SAFETY: U1 (user_memory.rs): permitted just above; the wire has checked `payload_len`.
        if !unsafe { self.registry.copy_in(to, frame.payload(), bulk.length as usize) } {
            return self.refuse_write(index, bulk.work, head.is_last());
        }
        let Some(vi) = self.vis.at(index) else { return };
        if !head.is_last() {
            return;
        }
        if head.has_immediate() {
            self.deliver_write_immediate(index, bulk.total, bulk.immediate);
        } else if vi.acknowledges {
            vi.expected_sequence = vi.expected_sequence.wrapping_add(1);
            self.ready.insert(index);
        }
    }

    /// Where a fragment of an RDMA write goes, if it is permitted; else it is refused here. Its lengths agree.
    pub(crate) fn write_target(&mut self, index: usize, head: Head, bulk: &Bulk) -> Option<u64> {
        let vi = self.vis.at(index)?;
        // The whole range is checked with every fragment: nothing moves if any of it is refused.
        let permitted = vi.attributes.rdma_write || bulk.total == 0;
        if !permitted || !self.registry.permits_remote(bulk.remote_handle, bulk.remote_address, u64::from(bulk.total), vi.ptag, true) {
            self.refuse_write(index, bulk.work, head.is_last());
            return None;
        }
        Some(bulk.remote_address.wrapping_add(u64::from(bulk.offset)))
    }

    fn deliver_write_placed(&mut self, index: usize, head: Head, frame: &Frame) {
        let total = (frame.word(1) >> 32) as u32;
        // How much was written is the peer's word alone; a program may rely on it being no more than was agreed.
        let possible = self.vis.at(index).is_some_and(|vi| vi.attributes.rdma_write && u64::from(total) <= vi.attributes.max_transfer_bytes);
        if !head.has_immediate() || !possible {
            return self.protocol_error(index);
        }
        self.deliver_write_immediate(index, total, frame.word(2) as u32);
    }

    /// The data is in memory; its immediate data takes a descriptor, of any size.
    pub(crate) fn deliver_write_immediate(&mut self, index: usize, total: u32, immediate: u32) {
        let a = Arrival { from: Source::Here(core::ptr::null()), offset: 0, length: 0, total: 0, immediate: Some(immediate), last: true };
        match self.begin_arrival(index, &a, Status::OP_REMOTE_RDMA_WRITE) {
            Ok(true) => {
                let Some(handle) = self.vis.handle_at(index) else { return };
                let advertised = self.vis.at(index).is_some_and(|vi| vi.receive.works.get(vi.receive.done).advertised);
                if advertised && let Some(vi) = self.vis.at(index) {
                    let (link, connection, message) = (vi.link, vi.connection, vi.message);
                    if let Some(c) = connection {
                        self.wire.withdraw(link, c.raw(), message);
                    }
                }
                self.end_arrival(index, handle, total, Some(immediate), Status::OP_REMOTE_RDMA_WRITE);
            }
            Ok(false) => {}
            Err(Taken::Break(code, reason)) => self.break_connection(index, Some(code), Some(reason)),
            Err(Taken::Fine) => {}
        }
    }

    fn deliver_read_request(&mut self, index: usize, frame: &Frame) {
        let bulk = Bulk::load(frame);
        let Some(vi) = self.vis.at(index) else { return };
        if vi.read_jobs.len() >= READS_OUTSTANDING_MAX as usize || !vi.attributes.reliability.is_reliable() {
            return self.protocol_error(index);
        }
        if vi.acknowledges {
            vi.expected_sequence = vi.expected_sequence.wrapping_add(1);
        }
        let permitted = vi.attributes.rdma_read || bulk.total == 0;
        if !permitted || !self.registry.permits_remote(bulk.remote_handle, bulk.remote_address, u64::from(bulk.total), vi.ptag, false) {
            return self.refuse_read(index, bulk.work);
        }
        vi.read_jobs.push_back(ReadJob { address: bulk.remote_address, handle: bulk.remote_handle, length: bulk.total, work: bulk.work, moved: 0 });
        self.ready.insert(index);
    }

    fn deliver_read_response(&mut self, index: usize, head: Head, frame: &Frame) {
        let bulk = Bulk::load(frame);
        let Some(handle) = self.vis.handle_at(index) else { return };
        let Some(vi) = self.vis.at(index) else { return };
        let Some(work) = sent_work(vi, bulk.work).filter(|w| w.operation == Operation::RdmaRead) else { return self.protocol_error(index) };
        let fits = head.is_bulk()
            && bulk.length as usize == frame.payload_len()
            && bulk.total == work.length
            && bulk.offset == work.moved
            && bulk.length <= work.length - work.moved
            && head.is_last() == (bulk.offset + bulk.length == work.length);
        if !fits {
            return self.protocol_error(index);
        }
        // SAFETY: U1 (user_memory.rs): checked and held since post; bounds just checked; the wire has checked `payload_len`.
        if !unsafe { Gather::new(work.segments, &vi.send.segments).copy_in(&self.registry, bulk.offset, bulk.length, frame.payload()) } {
            vi.reads_outstanding -= 1;
            finish_send(vi, handle, bulk.work, Status::PROTECTION_ERROR, &mut sink!(self));
            return self.break_connection(index, None, Some(DisconnectReason::PeerError));
        }
        vi.send.works.at(bulk.work).moved += bulk.length;
        if head.is_last() {
            vi.reads_outstanding -= 1;
            self.time_way(index, bulk.work, false);
            let mut sink = sink!(self);
            let Some(vi) = self.vis.at(index) else { return };
            finish_send(vi, handle, bulk.work, Status::empty(), &mut sink);
            if !vi.send.all_sent() {
                self.ready.insert(index);
            }
        }
    }

    /// Everything before `sequence` is in the peer's memory.
    fn deliver_ack(&mut self, index: usize, sequence: u32) {
        let Some(handle) = self.vis.handle_at(index) else { return };
        let mut sink = sink!(self);
        let Some(vi) = self.vis.at(index) else { return };
        if !vi.acknowledged || sequence.wrapping_sub(vi.next_sequence) as i32 > 0 {
            return self.protocol_error(index);
        }
        let mut i = vi.send.done;
        while i != vi.send.next {
            let work = vi.send.works.get(i);
            // Acknowledged means taken; a read is done when its data is here.
            if work.state == WorkState::Sent && work.operation != Operation::RdmaRead {
                if work.sequence.wrapping_sub(sequence) as i32 >= 0 {
                    break;
                }
                finish_send(vi, handle, i, Status::empty(), &mut sink);
            }
            i = i.wrapping_add(1);
        }
        vi.not_ready_backoff = crate::time::Duration(0);
        if !vi.send.all_sent() {
            self.ready.insert(index);
        }
    }

    /// The peer had no descriptor for message `sequence`: it and what follows go out again later.
    fn deliver_not_ready(&mut self, index: usize, sequence: u32) {
        let now = self.now;
        let Some(vi) = self.vis.at(index) else { return };
        if !vi.remote_rnr {
            return self.protocol_error(index);
        }
        let mut i = vi.send.done;
        while i != vi.send.works.tail() {
            let work = vi.send.works.get(i);
            let begun = i.wrapping_sub(vi.send.done) < vi.send.next.wrapping_sub(vi.send.done) || work.way != Way::Undecided;
            if begun && work.state != WorkState::Done && work.sequence == sequence {
                break;
            }
            i = i.wrapping_add(1);
        }
        if i == vi.send.works.tail() {
            return; // Of a message that has been taken meanwhile.
        }
        let first = vi.send.works.get(i);
        (vi.next_sequence, vi.next_message) = (first.sequence, first.message);
        let mut k = i;
        while k != vi.send.works.tail() {
            let work = vi.send.works.at(k);
            if work.state == WorkState::Sent && work.operation == Operation::RdmaRead {
                vi.reads_outstanding -= 1;
            }
            if work.state != WorkState::Done {
                transmit::rewind(work);
            }
            k = k.wrapping_add(1);
        }
        vi.send.next = i;
        vi.counters.receiver_not_ready += 1;
        let wait = vi.not_ready_backoff.clamp(transmit::NOT_READY_BACKOFF_MIN, transmit::NOT_READY_BACKOFF_MAX);
        vi.not_ready_backoff = crate::time::Duration(wait.0 * 2);
        vi.not_ready_until = now + wait;
        self.connections.schedule_not_ready(vi.not_ready_until, index);
    }

    fn deliver_ready(&mut self, index: usize) {
        let Some(vi) = self.vis.at(index) else { return };
        vi.not_ready_until = crate::time::Instant(0);
        self.ready.insert(index);
    }

    /// The peer ended the connection. If a message of ours was the reason and its completion is still out, its status says so: it is the oldest not yet
    /// acknowledged, since the peer has acknowledged everything before it.
    #[cold]
    fn deliver_disconnect(&mut self, index: usize, reason: u64) {
        if let DisconnectReason::ReceiveQueueEmpty | DisconnectReason::TooLong | DisconnectReason::ReceiveFault = DisconnectReason::from_bits(reason)
            && let Some(vi) = self.vis.at(index)
            && vi.acknowledged
        {
            let mut i = vi.send.done;
            while i != vi.send.next {
                let work = vi.send.works.at(i);
                if work.state == WorkState::Sent && work.consumes_receive() {
                    work.status = Status::REMOTE_DESCRIPTOR_ERROR;
                    break;
                }
                i = i.wrapping_add(1);
            }
            // Or the one whose first parts have gone.
            if i == vi.send.next && !vi.send.all_sent() {
                let work = vi.send.works.at(i);
                if work.state == WorkState::Queued && work.moved != 0 && work.consumes_receive() {
                    work.status = Status::REMOTE_DESCRIPTOR_ERROR;
                }
            }
        }
        self.break_connection(index, Some(AsyncErrorCode::ConnectionLost), None);
    }

    /// Our request `work` was refused with status bits.
    fn deliver_refused(&mut self, index: usize, status: u32, work: u32) {
        let Some(handle) = self.vis.handle_at(index) else { return };
        let mut sink = sink!(self);
        let Some(vi) = self.vis.at(index) else { return };
        // At reliable delivery a write is already done for us: the disconnect that follows tells of it.
        let leaving =
            work == vi.send.next && !vi.send.all_sent() && vi.send.works.get(work).way == Way::Frames && vi.send.works.get(work).state != WorkState::Done;
        let found = if leaving { Some(vi.send.works.get(work)) } else { sent_work(vi, work) };
        if let Some(w) = found {
            if w.operation == Operation::RdmaRead && !leaving {
                vi.reads_outstanding -= 1;
            }
            let status = Status::from_bits_truncate(status) & (Status::RDMA_PROTECTION_ERROR | Status::REMOTE_DESCRIPTOR_ERROR);
            let status = if status.is_empty() { Status::TRANSPORT_ERROR } else { status };
            finish_send(vi, handle, work, status, &mut sink);
        }
    }
}

/// A send frame's fragment, if its lengths agree.
#[inline]
pub(crate) fn send_arrival(head: Head, frame: &Frame) -> Option<Arrival> {
    if head.is_bulk() {
        let b = Bulk::load(frame);
        let end = b.offset.checked_add(b.length)?;
        if b.length as usize != frame.payload_len() || end > b.total || head.is_last() != (end == b.total) || (b.length == 0 && b.total != 0) {
            return None;
        }
        return Some(Arrival {
            from: Source::Here(frame.payload()),
            offset: b.offset,
            length: b.length,
            total: b.total,
            immediate: head.has_immediate().then_some(b.immediate),
            last: head.is_last(),
        });
    }
    let length = head.inline_len()?;
    if !head.is_last() {
        return None;
    }
    let immediate = head.has_immediate();
    debug_assert!(length <= INLINE_BYTES_MAX);
    Some(Arrival {
        from: Source::Here(frame.words_from(1 + usize::from(immediate))),
        offset: 0,
        length: length as u32,
        total: length as u32,
        immediate: immediate.then_some(frame.word(1) as u32),
        last: true,
    })
}

/// The request that the peer answers, if it is one that is out.
fn sent_work(vi: &mut Vi, index: u32) -> Option<SendWork> {
    if index.wrapping_sub(vi.send.done) >= vi.send.next.wrapping_sub(vi.send.done) {
        return None;
    }
    let work = vi.send.works.get(index);
    (work.state == WorkState::Sent).then_some(work)
}
