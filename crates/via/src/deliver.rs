// SPDX-License-Identifier: MIT OR Apache-2.0
//! Delivery: a frame has arrived; find its VI and the code for its kind. A whole
//! message in a line is placed here.
//!
//! | frame | file |
//! |---|---|
//! | a message for a receive descriptor | `arrive.rs`; one that was written there directly: `advertise.rs` |
//! | a message for an inbox | `inbox.rs` |
//! | RDMA write and read, and what a read brings | `rdma_in.rs` |
//! | data to be copied from the peer's process | `pull.rs` |
//! | what the peer says about requests of ours | `answer.rs` |
//! | connections | `connection/arrival.rs` |
//! | frames that cannot be taken | `refuse.rs` |
//!
//! Everything in a frame was written by a peer. Lengths, offsets, handles and ids are checked in
//! these files against what this NIC knows; an impossible value breaks the connection (or, for the
//! link's own rules, the link), and a frame that belongs to a connection that is no more is dropped
//! and counted.

use crate::arrive::send_arrival;
use crate::attributes::ViState;
use crate::complete::{finish_receive, sink};
use crate::engine::Engine;
use crate::frame::{Head, Op};
use crate::handle::Handle;
use crate::status::Status;
use crate::user_memory::{self};
use crate::wire::{Frame, LinkId, Wire};

impl<W: Wire> Engine<W> {
    /// Handles one frame. `false`: the link's peer broke its rules.
    #[inline(always)]
    pub(crate) fn deliver(&mut self, link: LinkId, frame: &Frame) -> bool {
        self.deliver_inline(link, frame) || self.deliver_any(link, frame)
    }

    /// A whole message in one line, for a VI with nothing unusual about it that is not being polled
    /// (then `take_whole` of fast.rs has it). `false`: not that, nothing done.
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
        // SAFETY: U1 (user_memory.rs): checked and held since post; `length` is within the
        // capacity. F1 for the words.
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
            // Somebody else's connection: a lie, since ids are told to one peer each. A pending
            // connection has no link yet and only takes control frames.
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
}
