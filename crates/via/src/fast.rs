// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fast paths: a request of one segment posted, sent, received and collected when everything is
//! as usual. Each does all or nothing; for nothing the general path (`post.rs`, `deliver.rs`,
//! `complete.rs`) does the same with every case there is.
//!
//! They are short for these reasons, besides the cases that they leave to the others:
//! - one comparison with [`Paths`](crate::vi::Paths) says whether a VI is as usual;
//! - regions are *leased* ([`Lease`](crate::work_queue::Lease)): checked and held once per queue,
//!   not once per request;
//! - a message for the VI that is polled goes from the line to the caller without passing through
//!   the queue;
//! - which VI an arriving message is for is a prediction (a comparison with the polled VI's head),
//!   not a look-up that the rest waits for.
//!
//! Instructions of a message of 8 bytes, C boundary and token included (rustc 1.95): 172 to post a
//! receive, 268 for a send, 171 to collect it, 297 to receive; gated by `tests/c/instructions.c`.

use crate::complete::{self, Completion, sink};
use crate::descriptor::{self, ControlWord, DESCRIPTOR_ALIGNMENT, DescriptorRef};
use crate::engine::Engine;
use crate::frame::{Bulk, Head, INLINE_BYTES_MAX, WHOLE_MASK};
use crate::handles::{ViHandle, WorkQueueKind};
use crate::limits::PLACE_BYTES_MIN;
use crate::registration::MemHandle;
use crate::status::{Operation, Status};
use crate::user_memory;
use crate::wire::{Direct, Frame, RemoteAccess, Sent, Wire};
use crate::work_queue::{INLINE_SEND_BYTES_MAX, Leases, Segment};
use bellwire_memory::line_queue::Line;

/// Looks at the link in one poll of a VI that has been polled last, too.
const LOOKS_PER_POLL: u32 = 4;
/// Bytes of a descriptor that the fast paths read: control segment and up to two more.
const READ_BYTES: u64 = DESCRIPTOR_ALIGNMENT as u64;

/// A send or RDMA write of one segment.
#[derive(Clone, Copy)]
pub(crate) struct FastSend {
    pub operation: Operation,
    pub segment: Segment,
    /// RDMA write: address and handle at the target.
    pub to: (u64, u32),
    pub context: u64,
    /// Address of the descriptor, 0 for none; it lies in leased memory.
    pub descriptor: usize,
}

impl<W: Wire> Engine<W> {
    /// Posts a send or RDMA write that is done at once; with `PAYLOAD`, a send of more than fits
    /// into a line. `false`: nothing done.
    #[inline(always)]
    pub(crate) fn post_send_fast<const PAYLOAD: bool>(&mut self, handle: ViHandle, d: DescriptorRef) -> bool {
        let Some(vi) = self.vis.get(handle) else { return false };
        if !d.address.is_multiple_of(DESCRIPTOR_ALIGNMENT) || !vi.send.leases.descriptors.covers(d.handle, d.address as u64, READ_BYTES) {
            return false;
        }
        // SAFETY: D1 (descriptor.rs): covered by a leased region and aligned.
        let (word, first) = unsafe { (ControlWord::read(d.address), descriptor::segment(d.address, 0)) };
        if word == ControlWord::ONE_SEGMENT {
            let send = FastSend { operation: Operation::Send, segment: first, to: (0, 0), context: 0, descriptor: d.address };
            self.send_now::<PAYLOAD>(handle, &send)
        } else if !PAYLOAD && word == ControlWord::ONE_WRITE {
            // SAFETY: D1 (descriptor.rs): covered by a leased region and aligned.
            let segment = unsafe { descriptor::segment(d.address, 1) };
            let write = FastSend { operation: Operation::RdmaWrite, segment, to: (first.address, first.handle), context: 0, descriptor: d.address };
            self.send_now::<PAYLOAD>(handle, &write)
        } else {
            false
        }
    }

    /// Sends, or writes, and completes the request. `false`: nothing done.
    #[inline(always)]
    pub(crate) fn send_now<const PAYLOAD: bool>(&mut self, handle: ViHandle, send: &FastSend) -> bool {
        let Some(vi) = self.vis.get_mut(handle) else { return false };
        debug_assert_eq!(vi.paths, vi.paths_now());
        let FastSend { operation, segment: s, .. } = *send;
        if vi.send.done != vi.send.works.tail() || !vi.send.leases.data.covers(s.handle, s.address, u64::from(s.length)) {
            return false;
        }
        let from = core::ptr::with_exposed_provenance(s.address as usize);
        if operation == Operation::Send {
            if self.connections.control_pending | self.round.waits {
                return false;
            }
            let sent = if !PAYLOAD && s.length < vi.paths.send_limit {
                // SAFETY: U1 (user_memory.rs): covered by a leased region.
                unsafe { self.wire.send_whole(vi.link, vi.paths.whole_out | u64::from(s.length) << 8, from, s.length as usize) }
            } else if PAYLOAD && s.length < vi.paths.copy_limit && s.length as usize <= self.wire.payload_bytes_max(vi.link) {
                let mut line = Line::default();
                Bulk { total: s.length, length: s.length, ..Bulk::default() }.store(Head(vi.paths.whole_out).bulk(), &mut line);
                self.wire.send_with_payload(vi.link, &mut line, s.length as usize, |to| {
                    // SAFETY: U1 (user_memory.rs): covered by a leased region. The wire gives as
                    // many bytes.
                    unsafe { user_memory::copy(to, from, s.length as usize) };
                    true
                })
            } else {
                return false;
            };
            if sent != Sent::Yes {
                return false;
            }
            vi.next_message = vi.next_message.wrapping_add(1);
        } else {
            // No write may overtake those that went as frames.
            if s.length >= vi.paths.write_limit || vi.wrote_frames.is_some() || s.length == 0 {
                return false;
            }
            let length = u64::from(s.length);
            let wish = RemoteAccess { handle: send.to.1, ptag: vi.remote_ptag, address: send.to.0, length, write: true, part_offset: 0, part_length: length };
            let direct = self.wire.with_granted(vi.link, &wish, |remote| {
                // SAFETY: U1 (user_memory.rs): covered by a leased region. The wire gives `length`
                // bytes.
                unsafe { user_memory::copy(remote, from, s.length as usize) }
            });
            if direct == Direct::No {
                return false;
            }
            vi.counters.direct += 1;
        }
        complete::push_completed_send(vi, handle, send.operation, send.context, send.descriptor, s.length, &mut sink!(self));
        true
    }

    /// Sends `length` bytes at `from` that need no completion, if all sends before have left.
    /// `false`: nothing done, and [`post_send_inline`](Self::post_send_inline) does it, or says why
    /// not.
    ///
    /// # Safety
    /// `from` is readable for `length` bytes.
    #[inline(always)]
    pub unsafe fn send_inline_now(&mut self, handle: ViHandle, from: *const u8, length: usize) -> bool {
        let Some(vi) = self.vis.get_mut(handle) else { return false };
        debug_assert_eq!(vi.paths, vi.paths_now());
        let is_usual = vi.send.done == vi.send.works.tail() && !(self.connections.control_pending | self.round.waits);
        if !is_usual || length > INLINE_SEND_BYTES_MAX || length as u32 >= vi.paths.send_limit {
            return false;
        }
        // SAFETY: the caller's.
        let sent = unsafe { self.wire.send_whole(vi.link, vi.paths.whole_out | (length as u64) << 8, from, length) };
        if sent != Sent::Yes {
            return false;
        }
        vi.next_message = vi.next_message.wrapping_add(1);
        vi.counters.sent += 1;
        vi.counters.sent_bytes += length as u64;
        true
    }

    /// Posts a receive by putting it into the queue. `false`: nothing done.
    #[inline(always)]
    pub(crate) fn post_receive_fast(&mut self, handle: ViHandle, d: DescriptorRef) -> bool {
        let Some(vi) = self.vis.get(handle) else { return false };
        if !d.address.is_multiple_of(DESCRIPTOR_ALIGNMENT) || !vi.receive.leases.descriptors.covers(d.handle, d.address as u64, READ_BYTES) {
            return false;
        }
        // SAFETY: D1 (descriptor.rs): covered by a leased region and aligned.
        let (word, segment) = unsafe { (ControlWord::read(d.address), descriptor::segment(d.address, 0)) };
        word.segment_count() == 1 && self.queue_receive(handle, segment, 0, d.address, d.handle)
    }

    /// Puts a receive of one segment into the queue; its descriptor, if it has one, lies in leased
    /// memory. `false`: nothing done.
    #[inline(always)]
    pub(crate) fn queue_receive(&mut self, handle: ViHandle, s: Segment, context: u64, descriptor: usize, descriptor_handle: u32) -> bool {
        let Some(vi) = self.vis.get_mut(handle) else { return false };
        debug_assert_eq!(vi.paths, vi.paths_now());
        if !vi.paths.plain_receives || !vi.receive.leases.data.covers(s.handle, s.address, u64::from(s.length)) {
            return false;
        }
        let Some(work) = vi.receive.works.push_slot_in_place() else { return false };
        work.fill(&s, context, (descriptor, descriptor_handle), true);
        // Both, so that what is released need not know which it used.
        vi.receive.leases.descriptors.users += 1;
        vi.receive.leases.data.users += 1;
        true
    }

    /// Takes a whole message in a line (with `PAYLOAD`, in a frame with payload) from the wire for
    /// a poller of this VI. `None`: nothing done.
    #[inline(always)]
    pub(crate) fn take_whole<const PAYLOAD: bool>(&mut self, handle: ViHandle) -> Option<Completion> {
        let vi = self.vis.get_mut(handle)?;
        debug_assert_eq!(vi.paths, vi.paths_now());
        let queue = &mut vi.receive;
        if queue.has_done() || vi.paths.announced[WorkQueueKind::Receive as usize] {
            return None;
        }
        let work = if queue.has_posted() { queue.works.front()? } else { return None };
        if !work.leased || work.advertised {
            return None;
        }
        // A caller that asks for nothing but this VI again and again spins; it may as well spin in
        // here, close to the line.
        let looks = if !PAYLOAD && self.polled_last == handle { LOOKS_PER_POLL } else { 1 };
        self.polled_last = handle;
        let status = Status::DONE | Status::OP_RECEIVE;
        let (descriptor, context) = (work.descriptor, work.context);
        let length = self.wire.take::<PAYLOAD, _>(vi.link, looks, |frame| {
            let head = frame.head();
            if head.0 & WHOLE_MASK != vi.paths.whole_in || head.is_bulk() != PAYLOAD {
                return None;
            }
            let (from, length) = if PAYLOAD { whole_payload(frame)? } else { (frame.words_from(1), u32::from((head.0 >> 8) as u8)) };
            if length > work.capacity || (!PAYLOAD && length > INLINE_BYTES_MAX as u32) {
                return None;
            }
            let to = core::ptr::with_exposed_provenance_mut(work.segments.only.address as usize);
            // SAFETY: U1 (user_memory.rs): held by a lease since post; `length` is within the
            // capacity. F1 for what is read.
            unsafe { user_memory::copy(to, from, length as usize) };
            if descriptor != 0 {
                // SAFETY: D1 (descriptor.rs): held by a lease since post.
                unsafe { descriptor::complete(descriptor, status, length, None) };
            }
            Some(length)
        })?;
        queue.end_leased();
        queue.works.advance(1);
        queue.done = queue.works.head();
        vi.message = vi.message.wrapping_add(1);
        vi.counters.received += 1;
        vi.counters.received_bytes += u64::from(length);
        self.completions += 1;
        if queue.has_posted() && queue.works.front().is_some_and(|w| w.status.is_error()) {
            self.settle_faulty_receives(handle.index());
        }
        Some(Completion { context, descriptor, status, length, immediate: 0 })
    }

    // ---- leases

    /// Lets a queue lease the regions of a request that it did not have, unless posted requests
    /// still rely on those that it has.
    #[inline(never)]
    pub(crate) fn renew_leases(&mut self, handle: ViHandle, kind: WorkQueueKind, descriptor_handle: u32, segments: &[Segment]) {
        let [only] = segments else { return };
        let Some(vi) = self.vis.get_mut(handle) else { return };
        let receives = kind == WorkQueueKind::Receive;
        if !receives && vi.captured {
            return;
        }
        let ptag = vi.ptag;
        let leases = if receives { &mut vi.receive.leases } else { &mut vi.send.leases };
        for (lease, wanted, tag, write) in [(&mut leases.descriptors, descriptor_handle, None, true), (&mut leases.data, only.handle, Some(ptag), receives)] {
            if lease.handle != wanted
                && lease.users == 0
                && let Some(new) = self.registry.lease(wanted, tag, write)
            {
                self.registry.release(lease.handle);
                *lease = new;
            }
        }
    }

    /// Ends all leases of a VI, on which nothing relies.
    pub(crate) fn end_leases(&mut self, handle: ViHandle) {
        let Some(vi) = self.vis.get_mut(handle) else { return };
        for leases in [&mut vi.send.leases, &mut vi.receive.leases] {
            debug_assert!(leases.descriptors.users == 0 && leases.data.users == 0);
            self.registry.release(leases.descriptors.handle);
            self.registry.release(leases.data.handle);
            *leases = Leases::default();
        }
    }

    /// Has the requests of all VIs go the general way, in whose queues a capture sees them; or no
    /// more.
    #[cold]
    pub(crate) fn be_captured(&mut self, captured: bool) {
        self.captured = captured;
        for (_, vi) in self.vis.iter_mut() {
            vi.captured = captured;
            for lease in [&mut vi.send.leases.descriptors, &mut vi.send.leases.data] {
                if lease.users == 0 {
                    self.registry.release(lease.handle);
                    *lease = crate::work_queue::Lease::default();
                }
            }
        }
    }

    /// Ends the leases of a region on which nothing relies. Costs by the VI, and only if somebody
    /// holds the region.
    pub(crate) fn revoke_leases(&mut self, region: MemHandle) {
        if !self.registry.is_held(region) {
            return;
        }
        for (_, vi) in self.vis.iter_mut() {
            for leases in [&mut vi.send.leases, &mut vi.receive.leases] {
                for lease in [&mut leases.descriptors, &mut leases.data] {
                    if lease.handle == region.raw() && lease.users == 0 {
                        self.registry.release(lease.handle);
                        *lease = crate::work_queue::Lease::default();
                    }
                }
            }
        }
    }
}

/// The payload of a frame that is all of a message, and not so long that the receiver would want to
/// advertise. Where it is, and its length.
#[inline(always)]
fn whole_payload(frame: &Frame) -> Option<(*const u8, u32)> {
    let bulk = Bulk::load(frame);
    let is_whole = bulk.offset == 0 && bulk.total == bulk.length && bulk.length as usize == frame.payload_len() && bulk.length != 0;
    (is_whole && bulk.length < PLACE_BYTES_MIN).then(|| (frame.payload(), bulk.length))
}
