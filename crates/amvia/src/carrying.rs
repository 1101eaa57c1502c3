// SPDX-License-Identifier: MIT OR Apache-2.0
//! The terms in which a VI and its users speak of messages, whichever way carries them.
//!
//! Invariant L3: the memory that a posted write reads stays: the program's, as the caller of a
//! request has promised, a segment as `AM_SetSeg` asks, a copy in `Write::_copy`.

use crate::head::HEAD_BYTES_MAX;
use crate::vipl::{CONTROL_RDMA_WRITE, CONTROL_SEND, Descriptor, Segment};
use bellwire_memory::bytes;

/// Messages about segments that may be out, each way: one, and that one has been heard.
pub(crate) const CONTROL: usize = 2;

/// A payload: address and bytes, readable throughout the call that it is given to.
pub(crate) type Data = (*const u8, usize);
/// No payload.
pub(crate) const NO_DATA: Data = (core::ptr::null(), 0);

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
    /// What it needs is not known to be free; completions tell.
    Posted,
    Free(u16),
}

/// The next thing on a VI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    Nothing,
    /// Something of the VI's own.
    Moved,
    /// A message: its number, where it lies, and its bytes. From there on [`HEAD_BYTES_MAX`] bytes
    /// are readable, and `length`; peers may be writing them.
    Message {
        receive: usize,
        at: *const u8,
        length: usize,
    },
    /// The connection has ended.
    Ended,
    /// The peer has broken the rules.
    Wrong,
}

/// Where a write goes to, and how much.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub address: u64,
    pub handle: u32,
    pub length: u32,
}

/// The descriptor of a message that is sent or received.
pub(crate) fn send_of(segment: Segment) -> Descriptor {
    Descriptor { segment_count: 1, control: CONTROL_SEND, length: segment.length, segments: [segment, Segment::default()], ..Descriptor::default() }
}

/// The descriptor of a write.
pub(crate) fn write_of((from, handle): (u64, u32), to: Target) -> Descriptor {
    let remote = Segment { address: to.address, handle: to.handle, length: 0 };
    let local = Segment { address: from, handle, length: to.length };
    Descriptor { segment_count: 2, control: CONTROL_RDMA_WRITE, length: to.length, segments: [remote, local], ..Descriptor::default() }
}

/// The words at the front of a message of at least [`HEAD_BYTES_MAX`] readable bytes.
///
/// # Safety
/// They are readable.
#[inline]
pub(crate) unsafe fn words(at: *const u8) -> [u64; HEAD_BYTES_MAX / 8] {
    let mut words = [0; HEAD_BYTES_MAX / 8];
    // SAFETY: the caller's promise; the copy allows that the peer writes.
    unsafe { bytes::copy(words.as_mut_ptr().cast(), at, HEAD_BYTES_MAX) };
    words
}
