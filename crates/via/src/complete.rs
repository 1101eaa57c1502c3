// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion: status into the descriptor, the request into the completed part of its queue, an
//! entry into the completion queue; and dequeuing.
//!
//! Every posted request is completed exactly once, in order. The functions take the engine's parts
//! one by one, so that callers can hold a VI.

use crate::completion_queue::Cq;
use crate::descriptor;
use crate::engine::Engine;
use crate::error::Error;
use crate::event::{AsyncError, AsyncErrorCode, Event};
use crate::handle::Slab;
use crate::handles::CqTag;
use crate::handles::{CqHandle, SrqHandle, ViHandle, WorkQueueKind};
use crate::registration::Registry;
use crate::request::SendRequest;
use crate::status::{Operation, Status, WorkFlags};
use crate::vi::Vi;
use crate::wire::Wire;
use crate::work_queue::{ReceiveWork, SegmentList, SendWork, Way, WorkState};
use std::collections::VecDeque;

/// A completed request, dequeued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The name given at post.
    pub context: u64,
    /// Address of the VIA descriptor, 0 if it was posted without one.
    pub descriptor: usize,
    /// The outcome.
    pub status: Status,
    /// Bytes sent or received.
    pub length: u32,
    /// Immediate data received, valid if `status` says so.
    pub immediate: u32,
}

/// The parts of the engine that completing needs besides the VI.
pub(crate) struct Sink<'a> {
    pub registry: &'a mut Registry,
    pub cqs: &'a mut Slab<Cq, CqTag>,
    pub events: &'a mut VecDeque<Event>,
    pub completions: &'a mut u64,
}

/// The engine's parts for completing, apart from `vis`.
macro_rules! sink {
    ($engine:expr) => {
        $crate::complete::Sink { registry: &mut $engine.registry, cqs: &mut $engine.cqs, events: &mut $engine.events, completions: &mut $engine.completions }
    };
}
pub(crate) use sink;

impl Sink<'_> {
    /// One completion of a queue of `vi` is there.
    #[inline(always)]
    pub(crate) fn announce(&mut self, vi: &mut Vi, handle: ViHandle, kind: WorkQueueKind) {
        *self.completions += 1;
        if vi.paths.announced[kind as usize] {
            self.tell(vi, handle, kind);
        }
    }

    #[inline(never)]
    fn tell(&mut self, vi: &mut Vi, handle: ViHandle, kind: WorkQueueKind) {
        let cq = match kind {
            WorkQueueKind::Send => vi.send_cq,
            WorkQueueKind::Receive => vi.receive_cq,
        };
        if let Some(cq) = cq {
            self.push_entry(cq, handle, kind);
        }
        if vi.notify[kind as usize] != 0 {
            vi.notify[kind as usize] -= 1;
            vi.update_paths();
            self.events.push_back(Event::Notify(handle, kind));
        }
    }

    #[inline]
    fn push_entry(&mut self, cq: CqHandle, vi: ViHandle, kind: WorkQueueKind) {
        let Some(q) = self.cqs.get_mut(cq) else { return };
        if q.entries.len() >= q.capacity {
            if !q.overflowed {
                q.overflowed = true;
                self.events.push_back(Event::AsyncError(AsyncError { vi: Some(vi), cq: Some(cq), code: AsyncErrorCode::Catastrophic, cause: None }));
            }
            return;
        }
        q.entries.push_back((vi, kind));
        if q.notify != 0 {
            q.notify -= 1;
            self.events.push_back(Event::NotifyCq(cq));
        }
    }
}

/// Queues a request that has left and is completed, with nothing before it that is not. The fast
/// path: what it held was never counted.
#[inline(always)]
pub(crate) fn push_completed_send(vi: &mut Vi, handle: ViHandle, operation: Operation, context: u64, descriptor: usize, length: u32, sink: &mut Sink<'_>) {
    let status = Status::DONE | operation.status();
    // Only what dequeuing looks at (Fifo::push_slot).
    let work = vi.send.works.push_slot();
    work.context = context;
    (work.descriptor, work.descriptor_handle) = (descriptor, 0);
    (work.operation, work.flags, work.state, work.way) = (operation, WorkFlags::empty(), WorkState::Done, Way::Undecided);
    (work.length, work.moved, work.status) = (length, 0, status);
    work.segments.count = 0;
    let tail = vi.send.works.tail();
    (vi.send.done, vi.send.next) = (tail, tail);
    vi.counters.sent += 1;
    vi.counters.sent_bytes += u64::from(length);
    if descriptor != 0 {
        // SAFETY: D1 (descriptor.rs): checked at post, which has not returned yet.
        unsafe { descriptor::complete(descriptor, status, length, None) };
    }
    sink.announce(vi, handle, WorkQueueKind::Send);
}

/// Queues a send that has left while RDMA reads before it are still out, or that is unsignalled.
#[cold]
pub(crate) fn queue_done(vi: &mut Vi, handle: ViHandle, request: &SendRequest<'_>, length: u32, sink: &mut Sink<'_>) -> Result<(), Error> {
    // It completes later, and its descriptor is in use until then.
    let descriptor_handle = request.descriptor.map_or(0, |d| d.handle);
    if descriptor_handle != 0 {
        sink.registry.hold(descriptor_handle);
    }
    let index = vi.send.works.push(SendWork {
        context: request.context,
        descriptor: request.descriptor.map_or(0, |d| d.address),
        descriptor_handle,
        operation: request.operation,
        flags: request.flags & (WorkFlags::IMMEDIATE | WorkFlags::UNSIGNALED),
        length,
        ..SendWork::default()
    });
    vi.send.next = index.wrapping_add(1);
    finish_send(vi, handle, index, Status::empty(), sink);
    Ok(())
}

/// Marks a send-side request done; it completes when all before it have.
#[inline]
pub(crate) fn finish_send(vi: &mut Vi, handle: ViHandle, index: u32, status: Status, sink: &mut Sink<'_>) {
    let work = vi.send.works.at(index);
    debug_assert!(work.state != WorkState::Done);
    work.state = WorkState::Done;
    work.status = status;
    if index == vi.send.done {
        advance_send(vi, handle, sink);
    }
}

/// Completes the requests at the front that are done.
pub(crate) fn advance_send(vi: &mut Vi, handle: ViHandle, sink: &mut Sink<'_>) {
    while vi.send.done != vi.send.works.tail() {
        let index = vi.send.done;
        let work = vi.send.works.get(index);
        if work.state != WorkState::Done {
            break;
        }
        if vi.send.next == index {
            vi.send.next = index.wrapping_add(1);
        }
        vi.send.done = index.wrapping_add(1);
        let status = settle_send(vi, &work, sink.registry);
        vi.send.works.at(index).status = status;
        if is_silent(vi.send.works.at(index)) {
            // Nobody will dequeue it: drop it now if it is the oldest, else when those before it
            // are dequeued.
            if vi.send.works.head() == index {
                vi.send.works.advance(1);
            }
        } else {
            sink.announce(vi, handle, WorkQueueKind::Send);
        }
    }
}

/// Gives back what a send-side request held and writes its descriptor; returns its full status.
#[inline]
fn settle_send(vi: &mut Vi, work: &SendWork, registry: &mut Registry) -> Status {
    let status = work.status | Status::DONE | work.operation.status();
    if !status.is_error() {
        vi.counters.sent += 1;
        vi.counters.sent_bytes += u64::from(work.length);
    } else {
        vi.counters.errors += 1;
    }
    release(&work.segments, work.descriptor_handle, registry, |i| vi.send.segments.get(i));
    if work.segments.count > 1 {
        vi.send.segments.advance(u32::from(work.segments.count));
    }
    if work.flags.contains(WorkFlags::INLINE) {
        vi.send.inline.advance(1);
    }
    if work.descriptor != 0 {
        let length = if status.is_error() { work.moved } else { work.length };
        // SAFETY: D1 (descriptor.rs): checked at post and held until here.
        unsafe { descriptor::complete(work.descriptor, status, length, None) };
    }
    status
}

#[inline]
fn release(list: &SegmentList, descriptor_handle: u32, registry: &mut Registry, more: impl Fn(u32) -> crate::work_queue::Segment) {
    match list.count {
        0 => {}
        1 => {
            if list.only.length != 0 {
                registry.release(list.only.handle);
            }
        }
        n => {
            for i in 0..u32::from(n) {
                let s = more(list.more_at.wrapping_add(i));
                if s.length != 0 {
                    registry.release(s.handle);
                }
            }
        }
    }
    if descriptor_handle != 0 {
        registry.release(descriptor_handle);
    }
}

/// Completes the receive request at the front of the posted ones.
#[inline(always)]
pub(crate) fn finish_receive(vi: &mut Vi, handle: ViHandle, status: Status, length: u32, immediate: Option<u32>, sink: &mut Sink<'_>) {
    let index = vi.receive.done;
    debug_assert!(vi.receive.has_posted());
    let status = status | Status::DONE | if immediate.is_some() { Status::IMMEDIATE } else { Status::empty() };
    let work = vi.receive.works.at(index);
    work.status = status;
    work.length = length;
    work.immediate = immediate.unwrap_or(0);
    let descriptor = work.descriptor;
    if work.leased {
        vi.receive.end_leased();
    } else if work.segments.count <= 1 {
        if work.segments.only.length != 0 {
            sink.registry.release(work.segments.only.handle);
        }
        if work.descriptor_handle != 0 {
            sink.registry.release(work.descriptor_handle);
        }
    } else {
        let (segments, descriptor_handle) = (work.segments, work.descriptor_handle);
        release(&segments, descriptor_handle, sink.registry, |i| vi.receive.segments.get(i));
        vi.receive.segments.advance(u32::from(segments.count));
    }
    if descriptor != 0 {
        // SAFETY: D1 (descriptor.rs): checked at post and held until here.
        unsafe { descriptor::complete(descriptor, status, length, immediate) };
    }
    vi.receive.done = index.wrapping_add(1);
    if !status.is_error() {
        vi.counters.received += 1;
        vi.counters.received_bytes += u64::from(length);
    } else {
        vi.counters.errors += 1;
    }
    sink.announce(vi, handle, WorkQueueKind::Receive);
}

impl<W: Wire> Engine<W> {
    /// Dequeues the oldest completed send-side request. Does not move anything: see
    /// [`Engine::progress`].
    #[inline(always)]
    pub fn send_done(&mut self, vi: ViHandle) -> Result<Option<Completion>, Error> {
        let v = self.vis.get_mut(vi).ok_or(Error::InvalidParameter)?;
        while v.send.has_done() {
            let Some(work) = v.send.works.front() else { return Ok(None) };
            // Field by field: a copy of the whole would wait for what has just been stored.
            let (context, descriptor, status) = (work.context, work.descriptor, work.status);
            let length = if status.is_error() { work.moved } else { work.length };
            let silent = is_silent(work);
            v.send.works.advance(1);
            if silent {
                continue;
            }
            while v.send.has_done() && v.send.works.front().is_some_and(|next| is_silent(next)) {
                v.send.works.advance(1);
            }
            return Ok(Some(Completion { context, descriptor, status, length, immediate: 0 }));
        }
        Ok(None)
    }

    /// Dequeues the oldest completed receive. Does not move anything: see [`Engine::progress`].
    #[inline(always)]
    pub fn receive_done(&mut self, vi: ViHandle) -> Result<Option<Completion>, Error> {
        let v = self.vis.get_mut(vi).ok_or(Error::InvalidParameter)?;
        if !v.receive.has_done() {
            return Ok(None);
        }
        // Field by field, as in send_done().
        let work = v.receive.works.at(v.receive.works.head());
        let completion = Completion { context: work.context, descriptor: work.descriptor, status: work.status, length: work.length, immediate: work.immediate };
        v.receive.works.advance(1);
        Ok(Some(completion))
    }

    /// The oldest entry of a completion queue.
    #[inline]
    pub fn cq_done(&mut self, cq: CqHandle) -> Result<Option<(ViHandle, WorkQueueKind)>, Error> {
        Ok(self.cqs.get_mut(cq).ok_or(Error::InvalidParameter)?.entries.pop_front())
    }

    /// Completes everything in both queues of the VI at `index` as flushed, each once, in order.
    pub(crate) fn flush(&mut self, index: usize) {
        self.withdraw_advertised(index);
        self.flush_sends(index);
        self.flush_receives(index);
    }

    /// Completes everything in the send queue as flushed.
    pub(crate) fn flush_sends(&mut self, index: usize) {
        let Some(handle) = self.vis.handle_at(index) else { return };
        let mut sink = sink!(self);
        let Some(vi) = self.vis.at(index) else { return };
        let mut i = vi.send.done;
        while i != vi.send.works.tail() {
            let work = vi.send.works.at(i);
            if work.state != WorkState::Done {
                work.state = WorkState::Done;
                let partial = if work.moved != 0 && work.moved != work.length { Status::PARTIAL_ERROR } else { Status::empty() };
                // A request that was posted with a fault keeps it.
                work.status = if work.status.is_error() { work.status } else { Status::FLUSHED | partial };
            }
            i = i.wrapping_add(1);
        }
        advance_send(vi, handle, &mut sink);
        vi.send.next = vi.send.works.tail();
        vi.reads_outstanding = 0;
    }

    /// Completes everything in the receive queue as flushed. What the peer may fill has been
    /// withdrawn.
    fn flush_receives(&mut self, index: usize) {
        let Some(handle) = self.vis.handle_at(index) else { return };
        let mut sink = sink!(self);
        let Some(vi) = self.vis.at(index) else { return };
        while vi.receive.has_posted() {
            let partial = vi.arriving && vi.arrived != 0;
            let length = if partial { vi.arrived } else { 0 };
            vi.set_arriving(false);
            let work = vi.receive.works.get(vi.receive.done);
            let status = if work.status.is_error() { work.status } else { Status::FLUSHED };
            let status = status | Status::OP_RECEIVE | if partial { Status::PARTIAL_ERROR } else { Status::empty() };
            finish_receive(vi, handle, status, length, None, &mut sink);
        }
        vi.read_jobs.clear();
    }

    /// Takes back what the peer may fill, and waits until it is not inside.
    pub(crate) fn withdraw_advertised(&mut self, index: usize) {
        let Some(vi) = self.vis.at(index) else { return };
        let Some(connection) = vi.connection else { return };
        let mut any = false;
        let mut i = vi.receive.done;
        let mut message = vi.message;
        while i != vi.receive.works.tail() {
            let work = vi.receive.works.at(i);
            if work.advertised {
                work.advertised = false;
                any = true;
                self.wire.withdraw(vi.link, connection.raw(), message);
            }
            i = i.wrapping_add(1);
            message = message.wrapping_add(1);
        }
        if any {
            self.wire.quiesce(vi.link);
        }
    }

    /// Gives back everything posted to a shared receive queue.
    pub(crate) fn flush_srq(&mut self, srq: SrqHandle) {
        let Some(s) = self.srqs.get_mut(srq) else { return };
        let q = &mut s.queue;
        while !q.works.is_empty() {
            let work: ReceiveWork = q.works.get(q.works.head());
            release(&work.segments, work.descriptor_handle, &mut self.registry, |i| q.segments.get(i));
            debug_assert!(!work.leased, "nothing of a shared queue is leased");
            if work.segments.count > 1 {
                q.segments.advance(u32::from(work.segments.count));
            }
            if work.descriptor != 0 {
                // SAFETY: D1 (descriptor.rs): checked at post and held until here.
                unsafe { descriptor::complete(work.descriptor, Status::DONE | Status::FLUSHED | Status::OP_RECEIVE, 0, None) };
            }
            q.works.advance(1);
        }
        q.done = q.works.head();
    }
}

/// Whether a completed request is one that nobody is to hear of.
#[inline]
fn is_silent(work: &SendWork) -> bool {
    work.flags.contains(WorkFlags::UNSIGNALED) && !work.status.is_error()
}

/// Whether an operation is one that a peer answers.
#[inline]
pub(crate) fn awaits_answer(operation: Operation, acknowledged: bool) -> bool {
    acknowledged || operation == Operation::RdmaRead
}
