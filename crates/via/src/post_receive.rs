// SPDX-License-Identifier: MIT OR Apache-2.0
//! Posting receives: to a VI or to a shared receive queue. Checked, copied, queued; nothing leaves,
//! but a peer that was told "not ready" hears of it, and large ones are advertised.

use crate::attributes::ViState;
use crate::complete::{finish_receive, sink};
use crate::descriptor::SEGMENTS_MAX;
use crate::engine::Engine;
use crate::error::Error;
use crate::handles::{SrqHandle, ViHandle, WorkQueueKind};
use crate::limits::DESCRIPTORS_PER_QUEUE_MAX;
use crate::post::store_segments;
use crate::request::ReceiveRequest;
use crate::status::Status;
use crate::wire::Wire;
use crate::work_queue::{Fifo, ReceiveWork, Segment, SegmentList};

impl<W: Wire> Engine<W> {
    /// Posts a receive. Allowed in every state; in the error state it is flushed at once.
    #[inline]
    pub fn post_receive(&mut self, handle: ViHandle, request: &ReceiveRequest<'_>) -> Result<(), Error> {
        if let ([segment], None) = (request.segments, request.descriptor) {
            if self.queue_receive(handle, *segment, request.context, 0, 0) {
                return Ok(());
            }
            self.renew_leases(handle, WorkQueueKind::Receive, 0, request.segments);
        }
        self.post_receive_checked(handle, request, Status::empty())
    }

    #[inline(always)]
    pub(crate) fn post_receive_checked(&mut self, handle: ViHandle, request: &ReceiveRequest<'_>, fault: Status) -> Result<(), Error> {
        let vi = self.vis.get_mut(handle).ok_or(Error::InvalidParameter)?;
        if vi.srq.is_some() || vi.inbox.is_some() {
            return Err(Error::InvalidState);
        }
        if vi.receive.works.len() >= DESCRIPTORS_PER_QUEUE_MAX {
            return Err(Error::Resource);
        }
        let mut faulty = false;
        if let ([only], true) = (request.segments, fault.is_empty())
            && self.registry.check_local(only, vi.ptag, true).is_ok()
        {
            let (descriptor, descriptor_handle) = request.descriptor.map_or((0, 0), |d| (d.address, d.handle));
            vi.receive.works.push_slot().fill(only, request.context, (descriptor, descriptor_handle), false);
            if only.length != 0 {
                self.registry.hold(only.handle);
            }
            if descriptor_handle != 0 {
                self.registry.hold(descriptor_handle);
            }
        } else {
            let work = receive_work(request, fault, vi.ptag, &mut self.registry, &mut vi.receive.segments);
            faulty = work.status.is_error();
            vi.receive.works.push(work);
        }
        if faulty || vi.state == ViState::Error || vi.advertises || vi.told_not_ready {
            self.receive_posted(handle);
        }
        Ok(())
    }

    /// The steps after a posted receive when not everything is as usual.
    #[cold]
    #[inline(never)]
    fn receive_posted(&mut self, handle: ViHandle) {
        let index = handle.index();
        let Some(vi) = self.vis.at(index) else { return };
        if vi.state == ViState::Error {
            self.flush(index);
            return;
        }
        self.settle_faulty_receives(index);
        let Some(vi) = self.vis.at(index) else { return };
        if vi.told_not_ready && vi.receive.has_posted() {
            vi.ready_due = true;
            self.ready.insert(index);
        }
        if vi.advertises {
            self.advertise_posted(index);
        }
    }

    /// Completes faulty receives that have come to the front: they can take no message.
    pub(crate) fn settle_faulty_receives(&mut self, index: usize) {
        let Some(handle) = self.vis.handle_at(index) else { return };
        let mut sink = sink!(self);
        let Some(vi) = self.vis.at(index) else { return };
        while vi.receive.has_posted() && !vi.arriving {
            let status = vi.receive.works.get(vi.receive.done).status;
            if !status.is_error() {
                break;
            }
            finish_receive(vi, handle, status | Status::OP_RECEIVE, 0, None, &mut sink);
        }
    }

    /// Posts a receive to a shared receive queue. A faulty request is refused.
    pub fn post_shared_receive(&mut self, srq: SrqHandle, request: &ReceiveRequest<'_>) -> Result<(), Error> {
        self.post_shared_receive_checked(srq, request, Status::empty())
    }

    pub(crate) fn post_shared_receive_checked(&mut self, srq: SrqHandle, request: &ReceiveRequest<'_>, fault: Status) -> Result<(), Error> {
        let s = self.srqs.get_mut(srq).ok_or(Error::InvalidParameter)?;
        if s.queue.works.len() >= DESCRIPTORS_PER_QUEUE_MAX {
            return Err(Error::Resource);
        }
        let faulty =
            fault.is_error() || request.segments.len() > SEGMENTS_MAX || request.segments.iter().any(|x| self.registry.check_local(x, s.ptag, true).is_err());
        if faulty {
            return Err(Error::InvalidParameter);
        }
        let work = receive_work(request, fault, s.ptag, &mut self.registry, &mut s.queue.segments);
        s.queue.works.push(work);
        while let Some(waiting) = s.waiting.pop_front() {
            if let Some(vi) = self.vis.get_mut(waiting)
                && vi.told_not_ready
            {
                vi.ready_due = true;
                self.ready.insert(waiting.index());
                break;
            }
        }
        Ok(())
    }
}

/// Checks and builds a receive request; what it holds is counted.
#[inline]
fn receive_work(request: &ReceiveRequest<'_>, fault: Status, ptag: u32, registry: &mut crate::registration::Registry, more: &mut Fifo<Segment>) -> ReceiveWork {
    let (mut status, mut total) = (fault, 0u64);
    if request.segments.len() > SEGMENTS_MAX {
        status |= Status::FORMAT_ERROR;
    }
    for s in request.segments {
        total += u64::from(s.length);
        if let Err(e) = registry.check_local(s, ptag, true) {
            status |= e;
        }
    }
    let mut segments = SegmentList::default();
    if status.is_empty() {
        segments = store_segments(request.segments, more);
        for s in request.segments {
            if s.length != 0 {
                registry.hold(s.handle);
            }
        }
    }
    if let Some(d) = request.descriptor {
        registry.hold(d.handle);
    }
    ReceiveWork {
        context: request.context,
        descriptor: request.descriptor.map_or(0, |d| d.address),
        descriptor_handle: request.descriptor.map_or(0, |d| d.handle),
        segments,
        capacity: if status.is_empty() { total.min(u64::from(u32::MAX)) as u32 } else { 0 },
        status,
        ..ReceiveWork::default()
    }
}
