// SPDX-License-Identifier: MIT OR Apache-2.0
//! A VI with its descriptors and buffers: `2k` sends, `2k + 1` receives. Invariants E1 to E3 of
//! [`crate::endpoint`]: a descriptor that is free or has completed is ours, with its buffer.

use crate::endpoint::cq::Cq;
use crate::endpoint::{Block, Nic, SEND, Vi, arm};
use crate::error::Error;
use crate::shared::LINE_BYTES;
use crate::vipl_abi::{Descriptor, Segment};

/// Bytes of a message without bulk data.
pub(super) const HEAD_BYTES: usize = 24;
/// Bulk data of a message, at most.
pub(super) const FRAGMENT: usize = 4096 - HEAD_BYTES;
/// Bytes of a buffer.
const BUFFER: usize = 4096;

/// A message's head, as words: what it is with its bytes, where, and a word.
pub(super) type Head = [u64; HEAD_BYTES / 8];

/// See the module.
#[derive(Debug)]
pub(super) struct Lane {
    pub vi: Vi,
    _block: Block,
    pub credits: usize,
    free: Vec<*mut Descriptor>,
    /// Stores that have come since the last acknowledgement, and after how many one leaves.
    pub unacknowledged: usize,
    pub acknowledge_after: usize,
}

impl Lane {
    /// With all its receives posted, to be connected.
    pub(super) fn new(nic: &Nic, reliability: u16, credits: usize, sends: &Cq, receives: &Cq) -> Result<Self, Error> {
        let count = 4 * credits + 1;
        let descriptors = (count * LINE_BYTES).next_multiple_of(BUFFER);
        let block = nic.allocate(descriptors + count * BUFFER, true)?;
        let vi = nic.create_vi_completing(reliability, &block, sends, receives)?;
        let mut free = Vec::new();
        for i in 0..count {
            let descriptor = block.at(i * LINE_BYTES, LINE_BYTES).cast::<Descriptor>();
            // SAFETY: E2: of this lane alone, not posted yet.
            unsafe { arm(descriptor, SEND, BUFFER as u32, &[block.segment(descriptors + i * BUFFER, BUFFER)]) };
            if i < 2 * credits {
                free.push(descriptor);
            } else {
                vi.post_recv(descriptor)?;
            }
        }
        Ok(Self { vi, _block: block, credits, free, unacknowledged: 0, acknowledge_after: (credits / 4).max(1) })
    }

    /// Whether a message can leave now.
    pub(super) fn has_buffer(&self) -> bool {
        !self.free.is_empty()
    }

    /// Puts a message together in a free buffer: its head, data that is copied behind it, and data
    /// that the NIC gathers.
    ///
    /// # Safety
    /// `copied` is readable; `gathered` is registered and stays until the send has completed.
    #[inline]
    pub(super) unsafe fn build(&mut self, head: Head, copied: &[u8], gathered: Option<Segment>) -> Result<*mut Descriptor, Error> {
        assert!(copied.len() <= FRAGMENT, "a fragment too long");
        let descriptor = self.free.pop().ok_or_else(|| Error::failed("a send buffer too few"))?;
        // SAFETY: E2: a free descriptor is ours.
        let buffer = Segment { length: (HEAD_BYTES + copied.len()) as u32, ..unsafe { (*descriptor).segments[0] } };
        let at = buffer.address as *mut u8;
        // SAFETY: E2: its buffer has room for a head and a fragment.
        unsafe { at.cast::<Head>().write(head) };
        // SAFETY: E2: the buffer has room for a fragment, as asserted; a slice is readable.
        unsafe { at.add(HEAD_BYTES).copy_from_nonoverlapping(copied.as_ptr(), copied.len()) };
        let length = buffer.length + gathered.map_or(0, |data| data.length);
        match gathered {
            // SAFETY: E2.
            Some(data) => unsafe { arm(descriptor, SEND, length, &[buffer, data]) },
            // SAFETY: E2.
            None => unsafe { arm(descriptor, SEND, length, &[buffer]) },
        }
        Ok(descriptor)
    }

    /// A send has completed.
    #[inline]
    pub(super) fn recycle_send(&mut self, descriptor: *mut Descriptor) {
        self.free.push(descriptor);
    }

    /// What a completed receive holds: its head, where its data is, and how much.
    #[inline]
    pub(super) fn read(descriptor: *mut Descriptor) -> (Head, *const u8, usize) {
        // SAFETY: E2: a completed descriptor and its buffer are ours until posted again.
        let (at, length) = unsafe { ((*descriptor).segments[0].address as *const u8, (*descriptor).length as usize) };
        // SAFETY: E2: a buffer has room for a head.
        let head = unsafe { at.cast::<Head>().read() };
        (head, at.wrapping_add(HEAD_BYTES), length.saturating_sub(HEAD_BYTES).min(FRAGMENT))
    }

    /// Makes a receive ready to be posted again.
    #[inline]
    pub(super) fn rearm(descriptor: *mut Descriptor) {
        // SAFETY: E2: received and read.
        let buffer = Segment { length: BUFFER as u32, ..unsafe { (*descriptor).segments[0] } };
        // SAFETY: E2.
        unsafe { arm(descriptor, SEND, BUFFER as u32, &[buffer]) };
    }
}
