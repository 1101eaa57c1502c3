// SPDX-License-Identifier: MIT OR Apache-2.0
//! RDMA requests leave: by direct access to the peer's memory where the wire has it and the peer
//! permits it, else as frames (`transmit_frames` in transmit.rs) or, a read, as a question. Called
//! by `transmit.rs`, one request or a piece of one at a time.

use crate::engine::Engine;
use crate::frame::{Bulk, Head, Op};
use crate::status::{Operation, WorkFlags};
use crate::transmit::{DIRECT_PIECE_BYTES, Step, announcement, sent_step};
use crate::user_memory::Gather;
use crate::wire::{Direct, RemoteAccess, Wire};
use crate::work_queue::{SendWork, Way};
use bellwire_memory::line_queue::Line;

/// RDMA reads in frames that a VI has outstanding at a time.
pub const READS_OUTSTANDING_MAX: u32 = 16;

impl<W: Wire> Engine<W> {
    pub(crate) fn transmit_write(&mut self, index: usize, at: u32, moved: &mut u32) -> Step {
        match self.transmit_direct(index, at, moved) {
            Some(Step::Gone) => {}
            Some(other) => return other,
            None if self.goes_by_pull(index, at) => return self.transmit_pull(index, at, Op::WritePull),
            None => return self.transmit_frames(index, at, Op::Write, moved),
        }
        let Some(vi) = self.vis.at(index) else { return Step::Ended };
        let work = vi.send.works.get(at);
        if !work.flags.contains(WorkFlags::IMMEDIATE) {
            return Step::Gone;
        }
        vi.send.works.at(at).way = Way::Announce;
        let mut line = announcement(Op::WritePlaced, vi.remote_connection, &work);
        sent_step(self.wire.send(vi.link, &mut line, 3))
    }

    pub(crate) fn transmit_read(&mut self, index: usize, at: u32, moved: &mut u32) -> Step {
        if let Some(step) = self.transmit_direct(index, at, moved) {
            return step;
        }
        if let Some(step) = self.transmit_read_attached(index, at, moved) {
            return step;
        }
        let Some(vi) = self.vis.at(index) else { return Step::Ended };
        if vi.reads_outstanding >= READS_OUTSTANDING_MAX {
            return Step::Blocked;
        }
        let work = vi.send.works.at(at);
        // Bytes that direct access moved before the permission went are asked for again: the owner
        // decides about the whole request.
        work.moved = 0;
        work.way = Way::Frames;
        let mut line = Line::default();
        let bulk = Bulk { total: work.length, remote_address: work.remote_address, remote_handle: work.remote_handle, work: at, ..Bulk::default() };
        bulk.store(Head::new(Op::ReadRequest, vi.remote_connection).sequence(work.sequence), &mut line);
        let step = sent_step(self.wire.send(vi.link, &mut line, 5));
        if step == Step::Gone {
            vi.reads_outstanding += 1;
        }
        step
    }

    /// RDMA by direct access. `None`: not this way.
    fn transmit_direct(&mut self, index: usize, at: u32, moved: &mut u32) -> Option<Step> {
        let vi = self.vis.at(index)?;
        let work = vi.send.works.get(at);
        if work.way == Way::Announce {
            return Some(Step::Gone);
        }
        let write = work.operation == Operation::RdmaWrite;
        let allowed = vi.remote_ptag != 0 && if write { vi.remote_write } else { vi.remote_read };
        // A peer that may refuse messages could get this one before an earlier one that it refused.
        let in_order = !vi.remote_rnr || vi.send.done == at;
        if !matches!(work.way, Way::Undecided | Way::Direct) || !allowed || !in_order || work.length == 0 {
            return None;
        }
        let n = (work.length - work.moved).min(DIRECT_PIECE_BYTES);
        let gather = Gather::new(work.segments, &vi.send.segments);
        let wish = wish(&work, vi.remote_ptag, n);
        if let Some(mark) = vi.wrote_frames
            && self.wire.is_taken(vi.link, mark)
        {
            vi.wrote_frames = None;
        }
        // Writes under way as frames must not be overtaken, nor reads by a read. Wait, if this one
        // could go directly; else it follows them as frames.
        if (vi.wrote_frames.is_some() || (!write && vi.reads_outstanding != 0)) && work.way == Way::Undecided {
            return (self.wire.with_granted(vi.link, &wish, |_| {}) == Direct::Done).then_some(Step::Blocked);
        }
        let (registry, mut there) = (&self.registry, true);
        let done = self.wire.with_granted(vi.link, &wish, |remote| {
            // SAFETY: U1 (user_memory.rs): checked and held since post. The wire gives `n` bytes.
            there = unsafe { if write { gather.copy_out(registry, work.moved, n, remote) } else { gather.copy_in(registry, work.moved, n, remote) } };
        });
        if !there {
            return Some(self.transmit_unmapped(index, at));
        }
        let stored = vi.send.works.at(at);
        if done == Direct::No {
            return None;
        }
        *moved += n;
        stored.moved += n;
        stored.way = Way::Direct;
        Some(if stored.moved == work.length { Step::Gone } else { Step::More })
    }
}

/// Direct access to the next `n` bytes of the target of an RDMA request.
#[inline]
pub(crate) fn wish(work: &SendWork, ptag: u32, n: u32) -> RemoteAccess {
    RemoteAccess {
        handle: work.remote_handle,
        ptag,
        address: work.remote_address,
        length: u64::from(work.length),
        write: work.operation == Operation::RdmaWrite,
        part_offset: u64::from(work.moved),
        part_length: u64::from(n),
    }
}
