// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two work queues of a VI and the shared receive queue: FIFOs of requests between post and
//! dequeue.
//!
//! ```text
//!  send:     head .. done      completed, not yet dequeued
//!            done .. next      left this NIC, answer awaited (acknowledged connections, RDMA reads)
//!            next .. tail      posted, not (entirely) sent
//!  receive:  head .. done      completed, not yet dequeued
//!            done .. tail      posted
//! ```
//!
//! Indices run freely. Queues grow by doubling and keep what they grew to: after warm-up nothing is
//! allocated.

use crate::status::{Operation, Status, WorkFlags};

/// A growing FIFO over a power-of-two buffer with free-running indices, so that a place in the
/// middle has a lasting name.
#[derive(Debug)]
pub struct Fifo<T> {
    slots: Box<[T]>,
    head: u32,
    tail: u32,
}

impl<T: Copy + Default> Fifo<T> {
    /// Empty, without memory.
    pub fn new() -> Self {
        Self { slots: Box::default(), head: 0, tail: 0 }
    }

    /// Index of the oldest element.
    #[inline]
    pub fn head(&self) -> u32 {
        self.head
    }

    /// Index of the next element to be pushed.
    #[inline]
    pub fn tail(&self) -> u32 {
        self.tail
    }

    /// Elements.
    #[inline]
    pub fn len(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Appends; returns the element's index.
    #[inline]
    pub fn push(&mut self, value: T) -> u32 {
        if self.len() as usize == self.slots.len() {
            self.grow();
        }
        let at = self.tail;
        let mask = self.slots.len() - 1;
        self.slots[at as usize & mask] = value;
        self.tail = at.wrapping_add(1);
        at
    }

    /// Appends an element that keeps whatever its place held before, for the caller to fill field
    /// by field: a value built elsewhere and copied in wide moves would wait for the narrow stores
    /// that built it.
    #[inline]
    pub fn push_slot(&mut self) -> &mut T {
        if self.len() as usize == self.slots.len() {
            self.grow();
        }
        let at = self.tail;
        self.tail = at.wrapping_add(1);
        let mask = self.slots.len() - 1;
        &mut self.slots[at as usize & mask]
    }

    /// As [`push_slot`](Self::push_slot), only if nothing has to be allocated for it.
    #[inline(always)]
    pub fn push_slot_in_place(&mut self) -> Option<&mut T> {
        let slots = self.slots.len();
        if self.len() as usize >= slots {
            return None;
        }
        let at = self.tail as usize & (slots - 1);
        self.tail = self.tail.wrapping_add(1);
        self.slots.get_mut(at)
    }

    /// The oldest element, if there is one.
    #[inline(always)]
    pub fn front(&mut self) -> Option<&mut T> {
        let slots = self.slots.len();
        self.slots.get_mut(self.head as usize & slots.wrapping_sub(1))
    }

    /// The element at `index`, which lies between head and tail.
    #[inline]
    pub fn at(&mut self, index: u32) -> &mut T {
        debug_assert!(index.wrapping_sub(self.head) < self.len());
        let mask = self.slots.len() - 1;
        &mut self.slots[index as usize & mask]
    }

    /// A copy of the element at `index`.
    #[inline]
    pub fn get(&self, index: u32) -> T {
        debug_assert!(index.wrapping_sub(self.head) < self.len());
        self.slots[index as usize & (self.slots.len() - 1)]
    }

    /// Drops the oldest `count` elements.
    #[inline]
    pub fn advance(&mut self, count: u32) {
        debug_assert!(count <= self.len());
        self.head = self.head.wrapping_add(count);
    }

    /// Whether `index` names an element.
    #[inline]
    pub fn contains(&self, index: u32) -> bool {
        index.wrapping_sub(self.head) < self.len()
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        size_of_val::<[T]>(&self.slots)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let old = self.slots.len();
        let new = (old * 2).max(8);
        let mut slots = vec![T::default(); new].into_boxed_slice();
        for i in 0..self.len() {
            let at = self.head.wrapping_add(i) as usize;
            slots[at & (new - 1)] = self.slots[at & (old - 1)];
        }
        self.slots = slots;
    }
}

impl<T: Copy + Default> Default for Fifo<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// A piece of local memory inside a registered region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// The region's handle.
    pub handle: u32,
}

/// The segments of one request: one in place, more in the queue's own FIFO.
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentList {
    /// The only segment, if `count` is 1.
    pub only: Segment,
    /// How many.
    pub count: u16,
    /// If `count` is over 1: index of the first in the queue's segment FIFO.
    pub more_at: u32,
}

/// Where a send-side request stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum WorkState {
    /// Posted.
    #[default]
    Queued,
    /// Sent; an answer is awaited.
    Sent,
    /// Completed with its `status`.
    Done,
}

/// How a large request leaves; chosen when it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Way {
    /// Not started.
    #[default]
    Undecided,
    /// Straight into the peer's memory.
    Direct,
    /// As frames.
    Frames,
    /// All bytes are there; the announcing frame is not out yet.
    Announce,
    /// The peer copies it out of our memory.
    Pull,
}

/// A send-side request.
#[derive(Clone, Copy, Debug)]
pub struct SendWork {
    /// The caller's name for it.
    pub context: u64,
    /// The VIA descriptor to complete, 0 for none.
    pub descriptor: usize,
    /// Local memory.
    pub segments: SegmentList,
    /// The region that holds the descriptor, 0 for none.
    pub descriptor_handle: u32,
    /// What to do.
    pub operation: Operation,
    /// How.
    pub flags: WorkFlags,
    /// Where it stands.
    pub state: WorkState,
    /// How it leaves.
    pub way: Way,
    /// Its bytes were copied out of the peer's process.
    pub attached: bool,
    /// Immediate data.
    pub immediate: u32,
    /// Bytes in all.
    pub length: u32,
    /// RDMA: address.
    pub remote_address: u64,
    /// RDMA: handle.
    pub remote_handle: u32,
    /// Status when done; before that: the error to complete with when its turn comes.
    pub status: Status,
    /// Bytes that have moved.
    pub moved: u32,
    /// Sequence number on an acknowledged connection.
    pub sequence: u32,
    /// Number among the messages that consume a receive descriptor.
    pub message: u32,
    /// When it began to leave, by the wire's stopwatch; 0: not timed.
    pub began: u64,
}

impl Default for SendWork {
    fn default() -> Self {
        Self {
            context: 0,
            descriptor: 0,
            segments: SegmentList::default(),
            descriptor_handle: 0,
            operation: Operation::Send,
            flags: WorkFlags::empty(),
            state: WorkState::Queued,
            way: Way::Undecided,
            attached: false,
            immediate: 0,
            length: 0,
            remote_address: 0,
            remote_handle: 0,
            status: Status::empty(),
            moved: 0,
            sequence: 0,
            message: 0,
            began: 0,
        }
    }
}

impl SendWork {
    /// Whether it consumes a receive descriptor at the target.
    #[inline]
    pub fn consumes_receive(&self) -> bool {
        match self.operation {
            Operation::Send => true,
            Operation::RdmaWrite => self.flags.contains(WorkFlags::IMMEDIATE),
            Operation::RdmaRead => false,
        }
    }
}

/// Data copied at post, for requests that could not leave at once: up to six words.
pub type InlineData = [u64; 6];
/// Bytes that an inline send may have.
pub const INLINE_SEND_BYTES_MAX: usize = size_of::<InlineData>();

/// The send queue.
#[derive(Debug, Default)]
pub struct SendQueue {
    /// The requests.
    pub works: Fifo<SendWork>,
    /// Everything before is completed.
    pub done: u32,
    /// Everything before has been sent.
    pub next: u32,
    /// Segments of requests with more than one.
    pub segments: Fifo<Segment>,
    /// Data of inline requests.
    pub inline: Fifo<InlineData>,
    /// Regions in use.
    pub leases: Leases,
}

impl SendQueue {
    /// Whether everything posted has been sent.
    #[inline]
    pub fn all_sent(&self) -> bool {
        self.next == self.works.tail()
    }

    /// Whether a completed request waits to be dequeued.
    #[inline]
    pub fn has_done(&self) -> bool {
        self.done != self.works.head()
    }
}

/// A region that a queue uses again and again: checked and held once, as long as it is leased.
/// While it is held it can be neither deregistered nor changed, so a request inside it needs two
/// comparisons and no look at the table of regions. Deregistration revokes
/// leases that nothing posted uses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lease {
    /// The region's handle, 0 for none.
    pub handle: u32,
    /// Posted requests that rely on it.
    pub users: u32,
    /// First address.
    pub start: u64,
    /// Bytes; 0 if there is none.
    pub length: u64,
}

impl Lease {
    /// Whether `length` bytes at `address` lie in it.
    #[inline(always)]
    pub fn covers(&self, handle: u32, address: u64, length: u64) -> bool {
        let offset = address.wrapping_sub(self.start);
        self.handle == handle && offset < self.length && length <= self.length - offset
    }
}

/// The leases of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leases {
    /// Of the memory that holds descriptors.
    pub descriptors: Lease,
    /// Of the memory that they name.
    pub data: Lease,
}

/// A receive request.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReceiveWork {
    /// The caller's name for it.
    pub context: u64,
    /// The VIA descriptor to complete, 0 for none.
    pub descriptor: usize,
    /// Local memory.
    pub segments: SegmentList,
    /// The region that holds the descriptor, 0 for none.
    pub descriptor_handle: u32,
    /// What it uses is held by the queue's leases.
    pub leased: bool,
    /// Bytes it can take.
    pub capacity: u32,
    /// The peer knows it.
    pub advertised: bool,
    /// Status when done; before that: the error to complete with when its turn comes.
    pub status: Status,
    /// Immediate data received.
    pub immediate: u32,
    /// Bytes received.
    pub length: u32,
}

impl ReceiveWork {
    /// Makes it a request of one segment, whatever it was before; field by field, see
    /// [`Fifo::push_slot`]. The descriptor: address and handle.
    #[inline(always)]
    pub(crate) fn fill(&mut self, s: &Segment, context: u64, descriptor: (usize, u32), leased: bool) {
        self.context = context;
        (self.descriptor, self.descriptor_handle) = descriptor;
        (self.segments.only.address, self.segments.only.length, self.segments.only.handle) = (s.address, s.length, s.handle);
        (self.segments.count, self.segments.more_at) = (1, 0);
        (self.capacity, self.length, self.immediate) = (s.length, 0, 0);
        (self.advertised, self.leased, self.status) = (false, leased, Status::empty());
    }
}

/// A receive queue: of a VI, or shared.
#[derive(Debug, Default)]
pub struct ReceiveQueue {
    /// The requests.
    pub works: Fifo<ReceiveWork>,
    /// Everything before is completed.
    pub done: u32,
    /// Segments of requests with more than one.
    pub segments: Fifo<Segment>,
    /// Regions in use.
    pub leases: Leases,
}

impl ReceiveQueue {
    /// A request that relied on the leases is completed.
    #[inline(always)]
    pub fn end_leased(&mut self) {
        self.leases.descriptors.users -= 1;
        self.leases.data.users -= 1;
    }

    /// Whether a completed request waits to be dequeued.
    #[inline]
    pub fn has_done(&self) -> bool {
        self.done != self.works.head()
    }

    /// Whether a posted request is there for the next message.
    #[inline]
    pub fn has_posted(&self) -> bool {
        self.done != self.works.tail()
    }

    /// Posted, not completed.
    #[inline]
    pub fn posted(&self) -> u32 {
        self.works.tail().wrapping_sub(self.done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifo_against_a_deque() {
        let mut f = Fifo::new();
        let mut d = std::collections::VecDeque::new();
        let mut x = 1u64;
        for step in 0..10_000u32 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if x >> 62 != 0 || d.is_empty() {
                f.push(step);
                d.push_back(step);
            } else {
                f.advance(1);
                d.pop_front();
            }
            if step % 100 == 0 {
                while d.len() > 3 {
                    f.advance(1);
                    d.pop_front();
                }
            }
            assert_eq!(f.len() as usize, d.len());
            for (i, v) in d.iter().enumerate() {
                assert_eq!(f.get(f.head().wrapping_add(i as u32)), *v);
            }
        }
    }
}
