// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers: what the peer says about requests of ours: taken, not ready for it, ready again,
//! refused, over. Requests complete here, or go back in the queue to go out again.

use crate::cause::Cause;
use crate::complete::{finish_send, sink};
use crate::engine::Engine;
use crate::event::AsyncErrorCode;
use crate::frame::DisconnectReason;
use crate::status::{Operation, Status};
use crate::transmit;
use crate::vi::Vi;
use crate::wire::Wire;
use crate::work_queue::{SendWork, Way, WorkState};

impl<W: Wire> Engine<W> {
    /// Everything before `sequence` is in the peer's memory.
    pub(crate) fn deliver_ack(&mut self, index: usize, sequence: u32) {
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
    pub(crate) fn deliver_not_ready(&mut self, index: usize, sequence: u32) {
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

    pub(crate) fn deliver_ready(&mut self, index: usize) {
        let Some(vi) = self.vis.at(index) else { return };
        vi.not_ready_until = crate::time::Instant(0);
        self.ready.insert(index);
    }

    /// The peer ended the connection. If a message of ours was the reason and its completion is
    /// still out, its status says so: it is the oldest not yet acknowledged, since the peer has
    /// acknowledged everything before it.
    #[cold]
    pub(crate) fn deliver_disconnect(&mut self, index: usize, reason: u64) {
        let reason = DisconnectReason::from_bits(reason);
        if let DisconnectReason::ReceiveQueueEmpty | DisconnectReason::TooLong | DisconnectReason::ReceiveFault = reason
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
        self.break_connection(index, Some(AsyncErrorCode::ConnectionLost), Cause::Peer(reason));
    }

    /// Our request `work` was refused with status bits.
    pub(crate) fn deliver_refused(&mut self, index: usize, status: u32, work: u32) {
        let Some(handle) = self.vis.handle_at(index) else { return };
        let mut sink = sink!(self);
        let Some(vi) = self.vis.at(index) else { return };
        // At reliable delivery a write is already done for us: the disconnect that follows tells of
        // it.
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

/// The request that the peer answers, if it is one that is out.
pub(crate) fn sent_work(vi: &mut Vi, index: u32) -> Option<SendWork> {
    if index.wrapping_sub(vi.send.done) >= vi.send.next.wrapping_sub(vi.send.done) {
        return None;
    }
    let work = vi.send.works.get(index);
    (work.state == WorkState::Sent).then_some(work)
}
