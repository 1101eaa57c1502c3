// SPDX-License-Identifier: MIT OR Apache-2.0
//! A VI of a MAP object with its memory: descriptors and buffers for `k` requests each way and
//! their answers, a record for each request that is out.
//!
//! ```text
//! sends: k for requests, k for answers, CONTROL for segments
//! receives: k for requests, k for answers, CONTROL, and one: a buffer is posted again after its
//!           handler, which may have sent the answer that allows the next request
//! ```
//!
//! Invariants
//! - L1: the memory holds `2 * sends + receives` descriptors, and as many buffers as sends and
//!   receives, at offsets that [`Lane::descriptor`] and [`Lane::buffer`] give; it lives as long as
//!   a [`Memory`] of it.
//! - L2: a send buffer and its descriptors are the library's from a post until the completion of
//!   its send; those that are not are free or belong to the holder of the core. A receive buffer is
//!   the core's from its completion until it is posted again.
//! - L3: what a posted write reads stays: memory of the program as the caller of the request has
//!   promised, a segment as `AM_SetSeg` asks, a copy in `Write::_copy`.

use crate::head::{HEAD_BYTES_MAX, Head};
use crate::mapping::Shape;
use crate::queues::Queues;
use crate::record::Record;
use crate::shared::Shared;
use crate::vipl::{CONTROL_RDMA_WRITE, CONTROL_SEND, Cause, Descriptor, Handle, Segment};
use bellwire_am::Error;
use bellwire_memory::bytes;
use std::sync::Arc;

/// Messages about segments that may be out, each way: one, and that one has been heard.
const CONTROL: usize = 2;
const DESCRIPTOR_BYTES: usize = size_of::<Descriptor>();

/// A payload: address and bytes, readable throughout the call that it is given to.
pub(crate) type Data = (*const u8, usize);
/// No payload.
pub(crate) const NO_DATA: Data = (core::ptr::null(), 0);

/// Memory of the library's, registered.
pub(crate) struct Memory {
    shared: Arc<Shared>,
    base: *mut u8,
    handle: u32,
}

// SAFETY: L1: the memory belongs to the process; L2 says who uses which part.
unsafe impl Send for Memory {}
// SAFETY: L1: the memory belongs to the process; L2 says who uses which part.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(shared: &Arc<Shared>, bytes: usize, ptag: Handle) -> Result<Self, Error> {
        let base = shared.nic.allocate(bytes).map_err(|_| Error::Resource)?;
        // SAFETY: memory of the library's, which is freed after its registration has ended.
        match unsafe { shared.nic.register(base.expose_provenance() as u64, bytes, ptag, false) } {
            Ok(handle) => Ok(Self { shared: Arc::clone(shared), base, handle }),
            Err(_) => {
                let _ = shared.nic.free(base);
                Err(Error::Resource)
            }
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = self.shared.nic.deregister(self.base.addr() as u64, self.handle);
        let _ = self.shared.nic.free(self.base);
    }
}

/// What a posted write reads.
pub(crate) struct Write {
    /// To be released: address and handle.
    pub cached: Option<(u64, u32)>,
    /// Bytes of this layer.
    pub _copy: Option<Box<[u8]>>,
}

/// The answer to the wish for a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slot {
    None,
    Posted,
    Free(u16),
}

/// Where a write goes to, and how much.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub address: u64,
    pub handle: u32,
    pub length: u32,
}

/// A VI.
pub(crate) struct Lane {
    shared: Arc<Shared>,
    queues: Arc<Queues>,
    pub vi: Handle,
    memory: Arc<Memory>,
    credits: usize,
    /// Bytes of a buffer.
    pub bytes: usize,
    /// Requests that are out, by slot; the slot's number is that of its send buffer.
    pub records: Vec<Option<Record>>,
    free_slots: Vec<u16>,
    /// Requests out, and how many may be.
    pub out: u32,
    pub window: u32,
    /// Send buffers for answers and control that are free.
    free_answers: Vec<u16>,
    /// Send buffers of requests that are the library's.
    is_posted: Vec<bool>,
    writes: Vec<Option<Write>>,
    /// Descriptors posted to the send queue, and completed, which they do in order.
    pub posted: u64,
    pub done: u64,
}

impl Lane {
    /// A VI with all its receives posted, to be connected.
    pub(crate) fn new(shared: &Arc<Shared>, queues: &Arc<Queues>, ptag: Handle, shape: Shape) -> Result<Self, Error> {
        let (credits, bytes) = (shape.credits, shape.bytes.next_multiple_of(64));
        let (sends, receives) = (2 * credits + CONTROL, 2 * credits + 1 + CONTROL);
        let memory = Memory::new(shared, (2 * sends + receives) * DESCRIPTOR_BYTES + (sends + receives) * bytes, ptag)?;
        queues.reserve(&shared.nic, 2 * sends, receives)?;
        let vi = match shared.nic.create_vi(ptag, usize::from(shared.credits), queues.send, queues.receive) {
            Ok(vi) => vi,
            Err(_) => {
                queues.release(2 * sends, receives);
                return Err(Error::Resource);
            }
        };
        let lane = Self {
            shared: Arc::clone(shared),
            queues: Arc::clone(queues),
            vi,
            memory: Arc::new(memory),
            credits,
            bytes,
            records: (0..credits).map(|_| None).collect(),
            free_slots: (0..credits as u16).rev().collect(),
            out: 0,
            window: 0,
            free_answers: (credits as u16..sends as u16).collect(),
            is_posted: vec![false; credits],
            writes: (0..sends).map(|_| None).collect(),
            posted: 0,
            done: 0,
        };
        for receive in 0..receives {
            lane.post_receive(receive);
        }
        Ok(lane)
    }

    fn sends(&self) -> usize {
        2 * self.credits + CONTROL
    }

    fn receives(&self) -> usize {
        2 * self.credits + 1 + CONTROL
    }

    /// Descriptor `at`: of sends two each, a write and the send; then those of the receives.
    fn descriptor(&self, at: usize) -> *mut Descriptor {
        debug_assert!(at < 2 * self.sends() + self.receives());
        // L1.
        self.memory.base.wrapping_add(at * DESCRIPTOR_BYTES).cast()
    }

    /// Buffer `at`: of the sends, then of the receives.
    fn buffer(&self, at: usize) -> *mut u8 {
        debug_assert!(at < self.sends() + self.receives());
        // L1.
        self.memory.base.wrapping_add((2 * self.sends() + self.receives()) * DESCRIPTOR_BYTES + at * self.bytes)
    }

    fn local(&self, at: *mut u8, length: usize) -> Segment {
        Segment { address: at.addr() as u64, handle: self.memory.handle, length: length as u32 }
    }

    /// Posts a receive buffer.
    pub(crate) fn post_receive(&self, receive: usize) {
        let (sends, descriptor) = (self.sends(), self.descriptor(2 * self.sends() + receive));
        let segment = self.local(self.buffer(sends + receive), self.bytes);
        let made =
            Descriptor { segment_count: 1, control: CONTROL_SEND, length: self.bytes as u32, segments: [segment, Segment::default()], ..Descriptor::default() };
        // SAFETY: L2: it is not posted; L1: it lies within the memory.
        unsafe { descriptor.write(made) };
        // SAFETY: L2: its buffer is the library's from now on.
        unsafe { self.shared.nic.post_receive(self.vi, descriptor, self.memory.handle) };
    }

    /// The next receive that is complete: its number and length. `Some(None)`: the connection has
    /// ended.
    pub(crate) fn take_receive(&self) -> Option<Option<(usize, usize)>> {
        let (descriptor, is_well) = self.shared.nic.receive_done(self.vi)?;
        let at = descriptor.addr().wrapping_sub(self.descriptor(2 * self.sends()).addr()) / DESCRIPTOR_BYTES;
        if !is_well || at >= self.receives() {
            return Some(None);
        }
        // SAFETY: L2: it has completed; L1: the check above.
        let length = unsafe { (*self.descriptor(2 * self.sends() + at)).length } as usize;
        Some(Some((at, length.min(self.bytes))))
    }

    /// The words at the front of a received message.
    pub(crate) fn words(&self, receive: usize) -> [u64; HEAD_BYTES_MAX / 8] {
        let mut words = [0; HEAD_BYTES_MAX / 8];
        // SAFETY: L1, L2; the copy allows that the peer writes.
        unsafe { bytes::copy(words.as_mut_ptr().cast(), self.buffer(self.sends() + receive), HEAD_BYTES_MAX) };
        words
    }

    /// Where a received message lies, and what keeps it.
    pub(crate) fn received(&self, receive: usize) -> (*const u8, Arc<Memory>) {
        (self.buffer(self.sends() + receive), Arc::clone(&self.memory))
    }

    /// A slot for a request, if there is a credit. [`Slot::Posted`]: its send buffer is not known
    /// to be free; completions tell.
    #[inline]
    pub(crate) fn take_slot(&mut self) -> Slot {
        if self.out >= self.window {
            return Slot::None;
        }
        match self.free_slots.last().copied() {
            None => Slot::None,
            Some(slot) if self.is_posted[usize::from(slot)] => Slot::Posted,
            Some(slot) => {
                self.free_slots.pop();
                self.out += 1;
                Slot::Free(slot)
            }
        }
    }

    /// A request is over.
    pub(crate) fn give_slot(&mut self, slot: u16) {
        self.out -= 1;
        self.free_slots.push(slot);
    }

    /// A send buffer for an answer, of those that are known to be free.
    #[inline]
    pub(crate) fn take_answer(&mut self) -> Option<u16> {
        self.free_answers.pop()
    }

    /// Posts a message.
    ///
    /// # Safety
    /// `payload` is readable, and there is room for it behind the head.
    #[inline]
    pub(crate) unsafe fn post(&mut self, buffer: u16, head: &Head, payload: Data) {
        let (at, start) = (self.buffer(usize::from(buffer)), head.start());
        let words = head.to_words();
        // SAFETY: L1, L2: a head has room in each buffer.
        unsafe { bytes::copy(at, words.as_ptr().cast(), start) };
        if payload.1 > 0 {
            // SAFETY: L2, and the caller's promise; the copy allows that others write the payload.
            unsafe { bytes::copy(at.wrapping_add(start), payload.0, payload.1) };
        }
        let length = start + payload.1;
        let made = Descriptor {
            segment_count: 1,
            control: CONTROL_SEND,
            length: length as u32,
            segments: [self.local(at, length), Segment::default()],
            ..Descriptor::default()
        };
        self.post_descriptor(2 * usize::from(buffer) + 1, made);
        if let Some(is_posted) = self.is_posted.get_mut(usize::from(buffer)) {
            *is_posted = true;
        }
    }

    /// Posts a write, to be followed by the message of the same buffer.
    ///
    /// # Safety
    /// L3: the bytes at `from`, of the region `handle`, stay until the write has completed.
    pub(crate) unsafe fn post_write(&mut self, buffer: u16, (from, handle): (u64, u32), to: Target, write: Write) {
        let remote = Segment { address: to.address, handle: to.handle, length: 0 };
        let local = Segment { address: from, handle, length: to.length };
        let made = Descriptor { segment_count: 2, control: CONTROL_RDMA_WRITE, length: to.length, segments: [remote, local], ..Descriptor::default() };
        self.writes[usize::from(buffer)] = Some(write);
        self.post_descriptor(2 * usize::from(buffer), made);
    }

    #[inline]
    fn post_descriptor(&mut self, at: usize, made: Descriptor) {
        let descriptor = self.descriptor(at);
        // SAFETY: L2: it is not posted; L1: it lies within the memory.
        unsafe { descriptor.write(made) };
        // SAFETY: L2, L3: it and what it names are the library's from now on.
        if unsafe { self.shared.nic.post_send(self.vi, descriptor, self.memory.handle) } {
            self.posted += 1;
        }
    }

    /// Takes one completed send off the VI's queue.
    #[inline]
    pub(crate) fn retire_one(&mut self) -> bool {
        let Some((descriptor, _)) = self.shared.nic.send_done(self.vi) else { return false };
        self.done += 1;
        let at = descriptor.addr().wrapping_sub(self.memory.base.addr()) / DESCRIPTOR_BYTES;
        let buffer = at / 2;
        if buffer >= self.sends() {
            return true;
        }
        if at.is_multiple_of(2) {
            self.finish_write(buffer);
        } else if let Some(is_posted) = self.is_posted.get_mut(buffer) {
            *is_posted = false;
        } else {
            self.free_answers.push(buffer as u16);
        }
        true
    }

    fn finish_write(&mut self, buffer: usize) {
        if let Some(write) = self.writes[buffer].take()
            && let Some((address, handle)) = write.cached
        {
            self.shared.nic.release_cached(address, handle);
        }
    }

    /// Whether all that was posted has left.
    pub(crate) fn is_idle(&self) -> bool {
        self.done == self.posted
    }

    /// Why the connection ended.
    pub(crate) fn cause(&self) -> Cause {
        self.shared.nic.cause(self.vi)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // L2, L3: nothing of it is used any more after this.
        self.shared.nic.end_vi(self.vi);
        for buffer in 0..self.writes.len() {
            self.finish_write(buffer);
        }
        self.queues.release(2 * self.sends(), self.receives());
    }
}
