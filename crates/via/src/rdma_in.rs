// SPDX-License-Identifier: MIT OR Apache-2.0
//! RDMA that a peer asks for: its writes and reads of this NIC's memory, and what it answers to
//! reads of ours.
//!
//! What a frame says of addresses is checked against the registered regions each time
//! (`permits_remote`); a request that is not permitted is refused (refuse.rs) and moves no byte.

use crate::answer::sent_work;
use crate::arrive::{Arrival, Source, Taken};
use crate::cause::Cause;
use crate::complete::{finish_send, sink};
use crate::engine::Engine;
use crate::frame::{Bulk, DisconnectReason, Head};
use crate::rdma_out::READS_OUTSTANDING_MAX;
use crate::status::{Operation, Status};
use crate::user_memory::Gather;
use crate::vi::ReadJob;
use crate::wire::{Frame, Wire};

impl<W: Wire> Engine<W> {
    pub(crate) fn deliver_write(&mut self, index: usize, head: Head, frame: &Frame) {
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

    /// Where a fragment of an RDMA write goes, if it is permitted; else it is refused here. Its
    /// lengths agree.
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

    pub(crate) fn deliver_write_placed(&mut self, index: usize, head: Head, frame: &Frame) {
        let total = (frame.word(1) >> 32) as u32;
        // How much was written is the peer's word alone; a program may rely on it being no more
        // than was agreed.
        let possible = self.vis.at(index).is_some_and(|vi| vi.attributes.rdma_write && u64::from(total) <= vi.attributes.max_transfer_bytes);
        if !head.has_immediate() || !possible {
            return self.protocol_error(index);
        }
        self.deliver_write_immediate(index, total, frame.word(2) as u32);
    }

    /// The data is in memory; its immediate data takes a descriptor, of any size.
    pub(crate) fn deliver_write_immediate(&mut self, index: usize, total: u32, immediate: u32) {
        if self.vis.at(index).is_some_and(|vi| vi.inbox.is_some()) {
            return self.deliver_immediate_to_inbox(index, immediate);
        }
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
            Err(Taken::Break(code, reason)) => self.break_connection(index, Some(code), Cause::Here(reason)),
            Err(Taken::Fine) => {}
        }
    }

    pub(crate) fn deliver_read_request(&mut self, index: usize, frame: &Frame) {
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

    pub(crate) fn deliver_read_response(&mut self, index: usize, head: Head, frame: &Frame) {
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
        // SAFETY: U1 (user_memory.rs): checked and held since post; bounds just checked; the wire
        // has checked `payload_len`.
        if !unsafe { Gather::new(work.segments, &vi.send.segments).copy_in(&self.registry, bulk.offset, bulk.length, frame.payload()) } {
            vi.reads_outstanding -= 1;
            finish_send(vi, handle, bulk.work, Status::PROTECTION_ERROR, &mut sink!(self));
            return self.break_connection(index, None, Cause::Here(DisconnectReason::PeerError));
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
}
