// SPDX-License-Identifier: MIT OR Apache-2.0
//! v1 and v3: messages by send and receive, in buffers of one size.
//!
//! ```text
//! sends: k for requests, k for answers, CONTROL for segments; two descriptors each, a write's and
//!        the message's
//! receives: k for requests, k for answers, CONTROL, and one: a buffer is posted again after its
//!           handler, which may have sent the answer that allows the next request
//! ```
//!
//! Invariants
//! - L1: the VI's memory holds as many buffers as sends and receives, where [`Buffers::buffer`]
//!   says.
//! - L2: a send buffer is the library's from a post until the completion of its send; those that
//!   are not are free or belong to the holder of the core. A receive buffer is the core's from its
//!   completion until it is posted again.

use crate::carrying::{CONTROL, Data, Slot, Taken, Target, Write, send_of, write_of};
use crate::head::Head;
use crate::mapping::Shape;
use crate::probe::{Off, Probe, Stage};
use crate::queues::Queues;
use crate::shared::Shared;
use crate::vi::{Memory, Vi};
use crate::vipl::Handle;
use bellwire_am::Error;
use bellwire_memory::bytes;
use std::sync::Arc;

/// The buffers of a VI.
pub(crate) struct Buffers {
    credits: usize,
    /// Bytes of a buffer.
    bytes: usize,
    /// Send buffers for answers and control that are free.
    free_answers: Vec<u16>,
    /// Send buffers of requests that are the library's.
    is_posted: Vec<bool>,
    writes: Vec<Option<Write>>,
}

impl Buffers {
    /// A VI with all its receives posted.
    pub(crate) fn new(shared: &Arc<Shared>, queues: &Arc<Queues>, ptag: Handle, shape: Shape) -> Result<(Vi, Self), Error> {
        let (credits, bytes) = (shape.credits, shape.bytes.next_multiple_of(64));
        let (sends, receives) = (2 * credits + CONTROL, 2 * credits + 1 + CONTROL);
        let vi = Vi::new(shared, queues, ptag, (2 * sends, receives), (sends + receives) * bytes)?;
        let buffers = Self {
            credits,
            bytes,
            free_answers: (credits as u16..sends as u16).collect(),
            is_posted: vec![false; credits],
            writes: (0..sends).map(|_| None).collect(),
        };
        for receive in 0..receives {
            buffers.recycle::<Off>(&vi, receive);
        }
        Ok((vi, buffers))
    }

    fn sends(&self) -> usize {
        2 * self.credits + CONTROL
    }

    /// Buffer `at`: of the sends, then of the receives.
    fn buffer(&self, vi: &Vi, at: usize) -> *mut u8 {
        debug_assert!(at < 2 * self.sends() + 1);
        // L1.
        vi.room(at * self.bytes)
    }

    /// Posts a receive buffer.
    pub(crate) fn recycle<P: Probe<Stage>>(&self, vi: &Vi, receive: usize) {
        let segment = vi.segment(self.buffer(vi, self.sends() + receive), self.bytes);
        // SAFETY: L2: it is not posted; its buffer is the library's from now on.
        unsafe { vi.post_receive::<P>(receive, send_of(segment)) };
    }

    #[inline]
    pub(crate) fn take<P: Probe<Stage>>(&self, vi: &Vi) -> Taken {
        match vi.take_receive::<P>() {
            None => Taken::Nothing,
            Some(None) => Taken::Ended,
            Some(Some((receive, done))) => {
                Taken::Message { receive, at: self.buffer(vi, self.sends() + receive), length: (done.length as usize).min(self.bytes) }
            }
        }
    }

    /// The memory that keeps messages which have come.
    pub(crate) fn keeper<'a>(&self, vi: &'a Vi) -> &'a Arc<Memory> {
        &vi.memory
    }

    /// Whether the send buffer of a request is free.
    #[inline]
    pub(crate) fn room_for_request(&self, slot: u16) -> Slot {
        if self.is_posted[usize::from(slot)] { Slot::Posted } else { Slot::Free(slot) }
    }

    #[inline]
    pub(crate) fn take_answer(&mut self) -> Option<u16> {
        self.free_answers.pop()
    }

    /// Posts a message.
    ///
    /// # Safety
    /// `payload` is readable, and there is room for it behind the head.
    #[inline]
    pub(crate) unsafe fn post<P: Probe<Stage>>(&mut self, vi: &mut Vi, buffer: u16, head: &Head, payload: Data) {
        let (at, start) = (self.buffer(vi, usize::from(buffer)), head.start());
        let words = head.to_words();
        // SAFETY: L1, L2: a head has room in each buffer.
        unsafe { bytes::copy(at, words.as_ptr().cast(), start) };
        if payload.1 > 0 {
            // SAFETY: L2, and the caller's promise; the copy allows that others write the payload.
            unsafe { bytes::copy(at.wrapping_add(start), payload.0, payload.1) };
        }
        let made = send_of(vi.segment(at, start + payload.1));
        // SAFETY: L2: the buffer and its descriptors are the library's from now on.
        unsafe { vi.post_send::<P>(2 * usize::from(buffer) + 1, made) };
        if let Some(is_posted) = self.is_posted.get_mut(usize::from(buffer)) {
            *is_posted = true;
        }
    }

    /// Posts a write, to be followed by the message of the same buffer.
    ///
    /// # Safety
    /// L3 of `carrying.rs`.
    pub(crate) unsafe fn post_write(&mut self, vi: &mut Vi, buffer: u16, from: (u64, u32), to: Target, write: Write) {
        self.writes[usize::from(buffer)] = Some(write);
        // SAFETY: L2, and the caller's promise.
        unsafe { vi.post_send::<Off>(2 * usize::from(buffer), write_of(from, to)) };
    }

    /// Send descriptor `at` has completed.
    #[inline]
    pub(crate) fn retired(&mut self, at: usize) -> Option<Write> {
        let buffer = at / 2;
        if at.is_multiple_of(2) {
            return self.writes.get_mut(buffer)?.take();
        }
        if let Some(is_posted) = self.is_posted.get_mut(buffer) {
            *is_posted = false;
        } else if buffer < self.sends() {
            self.free_answers.push(buffer as u16);
        }
        None
    }

    /// The writes that have not completed.
    pub(crate) fn writes(&mut self) -> impl Iterator<Item = Write> + '_ {
        self.writes.iter_mut().filter_map(Option::take)
    }
}
