// SPDX-License-Identifier: MIT OR Apache-2.0
//! A one-way stream of messages with credits: the sending and the receiving half, each advanced a
//! step at a time so that a process can run both.
//!
//! The receiver keeps a window of receives posted and posts each again after checking it; every so
//! many it says in a small message how many it has taken. The sender never has more than the window
//! under way, so no message finds an empty receive queue. Send completions are collected as they
//! come.

use super::payload::{Pattern, Touch};
use super::{AREA_BYTES, Context, Remote};
use crate::clock::Patience;
use crate::endpoint::{SEND, Vi, arm, rearm};
use crate::error::Error;
use crate::job::Waiting;
use crate::vipl_abi::{Descriptor, Segment, control};

/// Receives that a sender keeps posted for credits; and credits that a receiver may have under way.
const CREDITS: usize = 8;
/// Messages handled in one step.
const BURST: u64 = 32;
/// The stamp of messages that all share one buffer.
const SHARED_STAMP: u64 = 0x5EED_5EED_5EED_5EED;

/// How a stream is shaped. Both sides compute it from the same numbers.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Bytes of a message.
    pub size: usize,
    /// Messages under way at most.
    pub window: usize,
    /// Messages in all.
    pub count: u64,
    /// What the receiver reads.
    pub touch: Touch,
    /// Whether each message of a window has buffers of its own, stamped anew; otherwise all share
    /// one, as in other libraries' benchmarks.
    pub distinct: bool,
    /// RDMA writes with immediate data into the receiver's buffers, instead of sends.
    pub by_write: bool,
    /// Sends without descriptors, of which no completion is collected.
    pub inline: bool,
    /// Number of the VI; also selects descriptors and credit buffers.
    pub index: usize,
}

impl Shape {
    /// A stream of large messages: at most 32 under way and no more than the areas hold.
    pub fn bulk(size: usize, count: u64, touch: Touch, index: usize) -> Self {
        let window = (AREA_BYTES / size.max(1)).clamp(2, 32);
        Shape { size, window, count, touch, distinct: touch == Touch::All, by_write: false, inline: false, index }
    }

    fn credit_every(&self) -> u64 {
        (self.window as u64 / 4).max(1)
    }

    fn buffer_offset(&self, slot: usize) -> usize {
        if self.distinct { slot * self.size.next_multiple_of(64).min(AREA_BYTES / self.window) } else { 0 }
    }

    fn stamp(&self, sequence: u64) -> u64 {
        if self.distinct { sequence } else { SHARED_STAMP }
    }

    /// First descriptor of this stream's share.
    fn first_descriptor(&self) -> usize {
        self.index * (self.window + CREDITS)
    }
}

/// The sending half.
#[derive(Debug)]
pub struct Sender {
    vi: Vi,
    shape: Shape,
    pattern: Pattern,
    data: *mut Descriptor,
    operation: u16,
    may_wait: bool,
    posted: u64,
    collected: u64,
    credited: u64,
}

/// The receiving half.
#[derive(Debug)]
pub struct Receiver {
    vi: Vi,
    shape: Shape,
    pattern: Pattern,
    credits: *mut Descriptor,
    buffers: Vec<*const u8>,
    may_wait: bool,
    received: u64,
    credits_posted: u64,
    credits_collected: u64,
}

impl Sender {
    /// A VI with its credit receives posted and all descriptors written, not connected yet.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn new(context: &Context<'_>, shape: Shape) -> Result<Self, Error> {
        context.check_size(shape.size)?;
        let vi = context.create_vi()?;
        let pattern = Pattern::new(shape.size);
        let first = shape.first_descriptor();
        for credit in 0..CREDITS {
            let descriptor = context.descriptor(first + shape.window + credit);
            // SAFETY: E2: this stream's descriptor, not posted yet.
            unsafe { arm(descriptor, SEND, 8, &[Segment { length: 8, ..context.credit(shape.index * CREDITS * 2 + credit) }]) };
            vi.post_recv(descriptor)?;
        }
        for slot in 0..shape.window {
            let out = context.outgoing(shape.buffer_offset(slot), shape.size);
            // SAFETY: E2 and P1: this stream's descriptor and buffer, not posted yet.
            unsafe {
                pattern.fill(out.address as *mut u8);
                pattern.stamp(out.address as *mut u8, shape.stamp(0));
                arm(context.descriptor(first + slot), SEND, shape.size as u32, &[out]);
            }
        }
        let data = context.descriptor(first);
        let may_wait = vi.waiting() == Waiting::Block;
        Ok(Sender { vi, shape, pattern, data, operation: SEND, may_wait, posted: 0, collected: 0, credited: 0 })
    }

    /// Turns the sends into RDMA writes with immediate data to the same slots of the receiver's
    /// incoming area.
    pub fn aim(&mut self, remote: Remote) {
        self.operation = control::OP_RDMAWRITE | control::IMMEDIATE;
        for slot in 0..self.shape.window {
            let target = remote.segment(self.shape.buffer_offset(slot));
            // SAFETY: E2: nothing is posted yet; the descriptor's first segment is its data.
            unsafe {
                let descriptor = self.data.add(slot);
                let data = (*descriptor).segments[0];
                arm(descriptor, self.operation, self.shape.size as u32, &[target, data]);
            }
        }
    }

    /// Its VI, to be connected.
    pub fn vi(&self) -> &Vi {
        &self.vi
    }

    /// Never sleeps from now on: for a process that runs two halves, of which one must not wait for
    /// what the other could send.
    pub fn only_poll(&mut self) {
        self.may_wait = false;
    }

    /// Lets `more` further messages go.
    pub fn extend(&mut self, more: u64) {
        self.shape.count += more;
    }

    /// Whether every message has arrived and every completion has been collected.
    pub fn is_done(&self) -> bool {
        self.credited == self.shape.count && self.collected == self.shape.count
    }

    /// Posts what the window allows, collects completions and credits. Whether anything moved.
    ///
    /// # Errors
    /// What the library returns.
    #[inline]
    pub fn step(&mut self, patience: &mut Patience) -> Result<bool, Error> {
        let window = self.shape.window as u64;
        let room = (window - (self.posted - self.credited)).min(window - (self.posted - self.collected));
        let burst = room.min(self.shape.count - self.posted).min(BURST);
        for _ in 0..burst {
            let slot = (self.posted % window) as usize;
            // SAFETY: E2 and P1: the slot's previous send has been collected (`room`).
            unsafe {
                let descriptor = self.data.add(slot);
                let data = (*descriptor).segments[usize::from(self.shape.by_write)].address as *mut u8;
                if self.shape.distinct {
                    self.pattern.stamp(data, self.posted);
                }
                if self.shape.inline {
                    self.vi.send_inline(data, self.shape.size)?;
                    self.posted += 1;
                    self.collected += 1;
                    continue;
                }
                rearm(descriptor, self.operation, self.shape.size as u32);
                self.vi.post_send(descriptor)?;
            }
            self.posted += 1;
        }
        let mut moved = burst > 0;
        while self.collected < self.posted && self.vi.send_done()?.is_some() {
            self.collected += 1;
            moved = true;
        }
        // Credits are looked at when half the window is used up or nothing is left to post.
        if (self.posted - self.credited) * 2 >= window || self.posted == self.shape.count {
            moved |= self.take_credits(!moved, patience)?;
        }
        if !moved && self.may_wait && self.collected < self.posted {
            self.vi.next_send(patience)?;
            self.collected += 1;
            moved = true;
        }
        Ok(moved)
    }

    fn take_credits(&mut self, idle: bool, patience: &mut Patience) -> Result<bool, Error> {
        let mut moved = false;
        while self.credited < self.posted {
            let stuck = idle && !moved && self.collected == self.posted;
            let descriptor = if stuck && self.may_wait {
                self.vi.next_recv(patience)?
            } else {
                match self.vi.recv_done()? {
                    Some(descriptor) => descriptor,
                    None => break,
                }
            };
            // SAFETY: E2 and P1: a completed descriptor and its buffer are ours until posted again.
            unsafe {
                self.credited = ((*descriptor).segments[0].address as *const u64).read_volatile();
                rearm(descriptor, SEND, 8);
            }
            if self.credited > self.posted {
                return Err(Error::failed("a credit for messages that were never sent"));
            }
            self.vi.post_recv(descriptor)?;
            moved = true;
        }
        Ok(moved)
    }
}

impl Receiver {
    /// A VI with its window of receives posted, not connected yet.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn new(context: &Context<'_>, shape: Shape) -> Result<Self, Error> {
        context.check_size(shape.size)?;
        let vi = context.create_vi()?;
        let first = shape.first_descriptor();
        let mut buffers = Vec::with_capacity(shape.window);
        for slot in 0..shape.window {
            let buffer = context.incoming(shape.buffer_offset(slot), shape.size);
            let descriptor = context.descriptor(first + slot);
            buffers.push(buffer.address as *const u8);
            // SAFETY: E2 and P1: this stream's descriptor and buffer, not posted yet.
            unsafe {
                core::ptr::write_bytes(buffer.address as *mut u8, 0, shape.size);
                match shape.by_write {
                    true => arm(descriptor, SEND, 0, &[]),
                    false => arm(descriptor, SEND, shape.size as u32, &[buffer]),
                }
            }
            vi.post_recv(descriptor)?;
        }
        for credit in 0..CREDITS {
            let line = context.credit(shape.index * CREDITS * 2 + CREDITS + credit);
            // SAFETY: E2: this stream's descriptor, not posted yet.
            unsafe { arm(context.descriptor(first + shape.window + credit), SEND, 8, &[Segment { length: 8, ..line }]) };
        }
        let credits = context.descriptor(first + shape.window);
        let pattern = Pattern::new(shape.size);
        let may_wait = vi.waiting() == Waiting::Block;
        Ok(Receiver { vi, shape, pattern, credits, buffers, may_wait, received: 0, credits_posted: 0, credits_collected: 0 })
    }

    /// Its VI, to be connected.
    pub fn vi(&self) -> &Vi {
        &self.vi
    }

    /// Never sleeps from now on: for a process that runs two halves, of which one must not wait for
    /// what the other could send.
    pub fn only_poll(&mut self) {
        self.may_wait = false;
    }

    /// Expects `more` further messages.
    pub fn extend(&mut self, more: u64) {
        self.shape.count += more;
    }

    /// Whether every message has been received and every credit has left.
    pub fn is_done(&self) -> bool {
        self.received == self.shape.count && self.credits_collected == self.credits_posted
    }

    /// Takes what has arrived, checks it, posts the receives again, returns credits. Whether
    /// anything moved.
    ///
    /// # Errors
    /// What the library returns, or that something arrived damaged.
    #[inline]
    pub fn step(&mut self, patience: &mut Patience) -> Result<bool, Error> {
        let mut taken = 0;
        let before = self.credits_collected;
        while self.received < self.shape.count && taken < BURST {
            let descriptor = if taken == 0 && self.may_wait {
                self.vi.next_recv(patience)?
            } else {
                match self.vi.recv_done()? {
                    Some(descriptor) => descriptor,
                    None => break,
                }
            };
            self.take(descriptor)?;
            taken += 1;
            if self.received.is_multiple_of(self.shape.credit_every()) || self.received == self.shape.count {
                self.give_credit(patience)?;
            }
        }
        while self.credits_collected < self.credits_posted && self.vi.send_done()?.is_some() {
            self.credits_collected += 1;
        }
        Ok(taken > 0 || self.credits_collected > before)
    }

    #[inline]
    fn take(&mut self, descriptor: *mut Descriptor) -> Result<(), Error> {
        let slot = (self.received % self.shape.window as u64) as usize;
        let expected = self.shape.stamp(self.received);
        // SAFETY: E2 and P1: a completed descriptor and the slot's buffer are ours until posted
        // again and credited.
        let intact = unsafe { (*descriptor).length as usize == self.shape.size && self.pattern.matches(self.buffers[slot], expected, self.shape.touch) };
        if !intact {
            return Err(Error::failed(format!("message {} arrived damaged", self.received)));
        }
        let length = if self.shape.by_write { 0 } else { self.shape.size as u32 };
        // SAFETY: E2: ours since it completed.
        unsafe { rearm(descriptor, SEND, length) };
        self.vi.post_recv(descriptor)?;
        self.received += 1;
        Ok(())
    }

    fn give_credit(&mut self, patience: &mut Patience) -> Result<(), Error> {
        while self.credits_posted - self.credits_collected >= CREDITS as u64 {
            self.vi.next_send(patience)?;
            self.credits_collected += 1;
        }
        // SAFETY: E2 and P1: the slot's previous credit has been collected.
        unsafe {
            let descriptor = self.credits.add((self.credits_posted % CREDITS as u64) as usize);
            ((*descriptor).segments[0].address as *mut u64).write_volatile(self.received);
            rearm(descriptor, SEND, 8);
            self.vi.post_send(descriptor)?;
        }
        self.credits_posted += 1;
        Ok(())
    }
}
