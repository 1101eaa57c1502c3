// SPDX-License-Identifier: MIT OR Apache-2.0
//! Posting: a request is checked once, queued, and, when it is small and nothing is before it,
//! leaves here.
//!
//! Post never blocks and copies at most [`POST_COPY_BYTES_MAX`] bytes. A request with a fault is
//! queued like any other and completes with the fault when its turn comes, so completions stay in
//! order. Budget of a small send: one look-up of the VI, one of the region, one line into the wire.
//! Sends, and VIA's descriptors of both kinds; receives are in `post_receive.rs`.

use crate::attributes::ViState;
use crate::complete::{self, sink};
use crate::descriptor::{self, CONTROL_BYTES, ControlWord, DESCRIPTOR_ALIGNMENT, DescriptorRef, Parsed, SEGMENT_BYTES, SEGMENTS_MAX};
use crate::engine::Engine;
use crate::error::Error;
use crate::fast::FastSend;
use crate::frame::{Head, INLINE_BYTES_MAX, INLINE_BYTES_MAX_IMMEDIATE, Op};
use crate::handles::{SrqHandle, ViHandle, WorkQueueKind};
use crate::limits::DESCRIPTORS_PER_QUEUE_MAX;
use crate::limits::POST_COPY_BYTES_MAX;
use crate::request::ReceiveRequest;
use crate::request::SendRequest;
use crate::status::{Operation, Status, WorkFlags};
use crate::user_memory;
use crate::wire::{Direct, RemoteAccess, Sent, Wire};
use crate::work_queue::{Fifo, INLINE_SEND_BYTES_MAX, InlineData, Segment, SegmentList, SendWork};
use bellwire_memory::line_queue::Line;

impl<W: Wire> Engine<W> {
    /// Posts a send, RDMA write or read. Errors mean that nothing was posted; faults in the request
    /// itself complete it with a status.
    #[inline]
    pub fn post_send(&mut self, handle: ViHandle, request: &SendRequest<'_>) -> Result<(), Error> {
        if let [segment] = *request.segments
            && request.flags.is_empty()
            && request.operation != Operation::RdmaRead
            && request.descriptor.is_none()
        {
            let to = (request.remote_address, request.remote_handle);
            let send = FastSend { operation: request.operation, segment, to, context: request.context, descriptor: 0 };
            if self.send_now::<false>(handle, &send) || self.send_now::<true>(handle, &send) {
                return Ok(());
            }
            self.renew_leases(handle, WorkQueueKind::Send, 0, request.segments);
        }
        self.post_send_checked(handle, request, Status::empty())
    }

    #[inline(always)]
    fn post_send_checked(&mut self, handle: ViHandle, request: &SendRequest<'_>, fault: Status) -> Result<(), Error> {
        let vi = self.vis.get_mut(handle).ok_or(Error::InvalidParameter)?;
        if let [only] = request.segments
            && vi.state == ViState::Connected
            && vi.send.all_sent()
            && !vi.acknowledged
            && !vi.captured
            && fault.is_empty()
            && !self.connections.control_pending
            && !self.registry.is_strict()
            && !(request.flags.contains(WorkFlags::FENCE) && vi.reads_outstanding != 0)
            && request.operation == Operation::Send
            && only.length as usize <= if request.flags.contains(WorkFlags::IMMEDIATE) { INLINE_BYTES_MAX_IMMEDIATE } else { INLINE_BYTES_MAX }
            && vi.send.works.len() < DESCRIPTORS_PER_QUEUE_MAX
            && u64::from(only.length) <= vi.attributes.max_transfer_bytes
            && self.registry.check_local(only, vi.ptag, false).is_ok()
        {
            // A message of one line, as far as fast.rs leaves it over: immediate data, a fence, no
            // completion wanted, regions not leased. Completed at once (reliability is the wire's
            // business).
            let immediate = request.flags.contains(WorkFlags::IMMEDIATE);
            let length = only.length as usize;
            let mut line = Line::default();
            line.0[0] = Head::new(Op::Send, vi.remote_connection).inline(length).immediate(immediate).0;
            let first = 1 + usize::from(immediate);
            if immediate {
                line.0[1] = u64::from(request.immediate);
            }
            // SAFETY: U1 (user_memory.rs): checked just above. The line has room for `length` bytes
            // from word `first`.
            unsafe { user_memory::copy(line.0.as_mut_ptr().add(first).cast(), core::ptr::with_exposed_provenance(only.address as usize), length) };
            match self.wire.send(vi.link, &mut line, first + length.div_ceil(8)) {
                Sent::Yes => {
                    vi.next_message = vi.next_message.wrapping_add(1);
                    return self.complete_posted(handle, request, length as u32);
                }
                Sent::NoRoom | Sent::Broken | Sent::Unfilled => {}
            }
        }
        if request.operation != Operation::Send && fault.is_empty() && !self.registry.is_strict() && self.post_direct(handle, request) {
            return Ok(());
        }
        self.post_send_queued(handle, request, fault)
    }

    /// RDMA at once, as far as fast.rs leaves it over: a small read, or a write from a region that
    /// is not leased, in memory that is mapped here, with nothing before it. `false`: nothing done.
    #[inline]
    fn post_direct(&mut self, handle: ViHandle, request: &SendRequest<'_>) -> bool {
        let Some(vi) = self.vis.get_mut(handle) else { return false };
        let [only] = request.segments else { return false };
        let write = request.operation == Operation::RdmaWrite;
        let allowed = vi.remote_ptag != 0 && if write { vi.remote_write } else { vi.remote_read };
        let plain = !request.flags.intersects(WorkFlags::IMMEDIATE | WorkFlags::UNSIGNALED);
        // Nothing posted is unfinished, and no write is under way as frames: so it cannot overtake
        // anything, and a fence holds.
        let first = vi.send.done == vi.send.works.tail() && vi.wrote_frames.is_none() && vi.send.works.len() < DESCRIPTORS_PER_QUEUE_MAX;
        let fits = only.length != 0 && only.length <= POST_COPY_BYTES_MAX && u64::from(only.length) <= vi.attributes.max_transfer_bytes;
        if vi.state != ViState::Connected || vi.captured || !allowed || !plain || !first || !fits || self.registry.check_local(only, vi.ptag, !write).is_err() {
            return false;
        }
        let wish = RemoteAccess {
            handle: request.remote_handle,
            ptag: vi.remote_ptag,
            address: request.remote_address,
            length: u64::from(only.length),
            write,
            part_offset: 0,
            part_length: u64::from(only.length),
        };
        let (local, length) = (core::ptr::with_exposed_provenance_mut::<u8>(only.address as usize), only.length as usize);
        let direct = self.wire.with_granted(vi.link, &wish, |remote| {
            // SAFETY: U1 (user_memory.rs): checked just above. The wire gives `length` bytes.
            unsafe { if write { user_memory::copy(remote, local, length) } else { user_memory::copy(local, remote, length) } }
        });
        if direct == Direct::No {
            return false;
        }
        vi.counters.direct += 1;
        complete::push_completed_send(
            vi,
            handle,
            request.operation,
            request.context,
            request.descriptor.map_or(0, |d| d.address),
            only.length,
            &mut sink!(self),
        );
        true
    }

    /// Queues a request that has just been done: completed already, unless RDMA reads before it are
    /// still out.
    #[inline(always)]
    fn complete_posted(&mut self, handle: ViHandle, request: &SendRequest<'_>, length: u32) -> Result<(), Error> {
        let mut sink = sink!(self);
        let Some(vi) = self.vis.get_mut(handle) else { return Err(Error::InvalidParameter) };
        if vi.send.done != vi.send.works.tail() || request.flags.contains(WorkFlags::UNSIGNALED) {
            return complete::queue_done(vi, handle, request, length, &mut sink);
        }
        complete::push_completed_send(vi, handle, request.operation, request.context, request.descriptor.map_or(0, |d| d.address), length, &mut sink);
        Ok(())
    }

    #[inline(never)]
    fn post_send_queued(&mut self, handle: ViHandle, request: &SendRequest<'_>, fault: Status) -> Result<(), Error> {
        let Some(vi) = self.vis.get_mut(handle) else { return Err(Error::InvalidParameter) };
        if vi.send.works.len() >= DESCRIPTORS_PER_QUEUE_MAX {
            return Err(Error::Resource);
        }
        let write = request.operation == Operation::RdmaRead;
        let (mut status, mut total) = (fault, 0u64);
        if request.segments.len() > SEGMENTS_MAX {
            status |= Status::FORMAT_ERROR;
        }
        if write && !vi.attributes.reliability.is_reliable() {
            status |= Status::FORMAT_ERROR;
        }
        for s in request.segments {
            total += u64::from(s.length);
            status |= self.registry.check_local(s, vi.ptag, write).err().unwrap_or(Status::empty());
        }
        if total > vi.attributes.max_transfer_bytes {
            status |= Status::LENGTH_ERROR;
        }
        let segments = if status.is_error() { SegmentList::default() } else { store_segments(request.segments, &mut vi.send.segments) };
        if !status.is_error() {
            for s in request.segments.iter().filter(|s| s.length != 0) {
                self.registry.hold(s.handle);
            }
        }
        if let Some(d) = request.descriptor {
            self.registry.hold(d.handle);
        }
        let work = SendWork {
            context: request.context,
            descriptor: request.descriptor.map_or(0, |d| d.address),
            descriptor_handle: request.descriptor.map_or(0, |d| d.handle),
            segments,
            operation: request.operation,
            flags: request.flags,
            immediate: request.immediate,
            length: if status.is_error() { 0 } else { total as u32 },
            remote_address: request.remote_address,
            remote_handle: request.remote_handle,
            status,
            ..SendWork::default()
        };
        self.enqueue(handle, work);
        Ok(())
    }

    /// Queues a request and lets it go if it may.
    fn enqueue(&mut self, handle: ViHandle, work: SendWork) {
        let index = handle.index();
        let Some(vi) = self.vis.at(index) else { return };
        let first = vi.send.all_sent();
        vi.send.works.push(work);
        if vi.state != ViState::Connected {
            self.flush_sends(index);
        } else if first && work.length <= POST_COPY_BYTES_MAX {
            let _ = self.transmit(index);
            self.wire.flush();
        } else {
            self.ready.insert(index);
        }
    }

    /// Sends a copy of `data` (at most [`INLINE_SEND_BYTES_MAX`] bytes), which need not be
    /// registered and may be reused at once. Extension.
    pub fn post_send_inline(&mut self, handle: ViHandle, data: &[u8], request: &SendRequest<'_>) -> Result<(), Error> {
        let vi = self.vis.get_mut(handle).ok_or(Error::InvalidParameter)?;
        if data.len() > INLINE_SEND_BYTES_MAX || request.operation != Operation::Send || !request.segments.is_empty() {
            return Err(Error::InvalidParameter);
        }
        if vi.send.works.len() >= DESCRIPTORS_PER_QUEUE_MAX {
            return Err(Error::Resource);
        }
        // SAFETY: the bytes are a slice's.
        if request.flags == WorkFlags::UNSIGNALED && unsafe { self.send_inline_now(handle, data.as_ptr(), data.len()) } {
            return Ok(());
        }
        let vi = self.vis.get_mut(handle).ok_or(Error::InvalidParameter)?;
        let mut words: InlineData = [0; 6];
        for (word, bytes) in words.iter_mut().zip(data.chunks(8)) {
            let mut b = [0; 8];
            b[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(b);
        }
        vi.send.inline.push(words);
        let status = if data.len() as u64 > vi.attributes.max_transfer_bytes { Status::LENGTH_ERROR } else { Status::empty() };
        self.enqueue(
            handle,
            SendWork {
                context: request.context,
                flags: request.flags | WorkFlags::INLINE,
                immediate: request.immediate,
                length: data.len() as u32,
                status,
                ..SendWork::default()
            },
        );
        Ok(())
    }

    // ---- VIA descriptors

    /// Posts a VIA descriptor to the send queue. [`Error::InvalidParameter`] if it is misaligned or
    /// `handle` does not cover it.
    #[inline(always)]
    pub fn post_send_descriptor(&mut self, vi: ViHandle, descriptor: DescriptorRef) -> Result<(), Error> {
        if self.post_send_fast::<false>(vi, descriptor) { Ok(()) } else { self.post_send_descriptor_any(vi, descriptor) }
    }

    #[inline(never)]
    fn post_send_descriptor_any(&mut self, vi: ViHandle, descriptor: DescriptorRef) -> Result<(), Error> {
        if self.post_send_fast::<true>(vi, descriptor) {
            self.wire.flush();
            return Ok(());
        }
        let mut parsed = Parsed::new();
        let fault = self.parse(descriptor, true, &mut parsed)?;
        let request = SendRequest {
            operation: parsed.operation,
            flags: parsed.flags,
            segments: parsed.segments(),
            immediate: parsed.immediate,
            remote_address: parsed.remote_address,
            remote_handle: parsed.remote_handle,
            context: 0,
            descriptor: Some(descriptor),
        };
        self.renew_leases(vi, WorkQueueKind::Send, descriptor.handle, request.segments);
        self.post_send_checked(vi, &request, fault)
    }

    /// Posts a VIA descriptor to the receive queue.
    #[inline(always)]
    pub fn post_receive_descriptor(&mut self, vi: ViHandle, descriptor: DescriptorRef) -> Result<(), Error> {
        if self.post_receive_fast(vi, descriptor) { Ok(()) } else { self.post_receive_descriptor_any(vi, descriptor) }
    }

    #[inline(never)]
    fn post_receive_descriptor_any(&mut self, vi: ViHandle, descriptor: DescriptorRef) -> Result<(), Error> {
        let mut parsed = Parsed::new();
        let fault = self.parse(descriptor, false, &mut parsed)?;
        self.renew_leases(vi, WorkQueueKind::Receive, descriptor.handle, parsed.segments());
        self.post_receive_checked(vi, &ReceiveRequest { segments: parsed.segments(), context: 0, descriptor: Some(descriptor) }, fault)
    }

    /// Posts a VIA descriptor to a shared receive queue.
    pub fn post_shared_receive_descriptor(&mut self, srq: SrqHandle, descriptor: DescriptorRef) -> Result<(), Error> {
        let mut parsed = Parsed::new();
        let fault = self.parse(descriptor, false, &mut parsed)?;
        self.post_shared_receive_checked(srq, &ReceiveRequest { segments: parsed.segments(), context: 0, descriptor: Some(descriptor) }, fault)
    }

    #[inline(always)]
    fn parse(&self, d: DescriptorRef, is_send: bool, out: &mut Parsed) -> Result<Status, Error> {
        if d.address == 0 || !d.address.is_multiple_of(DESCRIPTOR_ALIGNMENT) || !self.registry.covers(d.handle, d.address as u64, CONTROL_BYTES as u64) {
            return Err(Error::InvalidParameter);
        }
        // SAFETY: D1 (descriptor.rs): the control segment is covered and aligned.
        let word = unsafe { ControlWord::read(d.address) };
        let count = word.segment_count();
        if count > SEGMENTS_MAX + 1 || !self.registry.covers(d.handle, d.address as u64, (CONTROL_BYTES + count * SEGMENT_BYTES) as u64) {
            return Ok(Status::FORMAT_ERROR);
        }
        // SAFETY: D1: covered, aligned.
        match unsafe { descriptor::parse(d.address, word, is_send, out) } {
            Ok(()) => Ok(Status::empty()),
            Err(fault) => Ok(fault),
        }
    }
}

/// One segment in place, more in the FIFO.
#[inline]
pub(crate) fn store_segments(segments: &[Segment], more: &mut Fifo<Segment>) -> SegmentList {
    match segments {
        [] => SegmentList::default(),
        [only] => SegmentList { only: *only, count: 1, more_at: 0 },
        many => {
            let more_at = more.tail();
            for s in many {
                more.push(*s);
            }
            SegmentList { only: Segment::default(), count: many.len() as u16, more_at }
        }
    }
}

const _: () = assert!(INLINE_SEND_BYTES_MAX <= INLINE_BYTES_MAX_IMMEDIATE && INLINE_BYTES_MAX_IMMEDIATE <= INLINE_BYTES_MAX);
