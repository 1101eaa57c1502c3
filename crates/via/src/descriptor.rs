// SPDX-License-Identifier: MIT OR Apache-2.0
//! The VIA descriptor in user memory: read once at post, written once at completion.
//!
//! ```text
//!  control segment, 32 bytes                               then SegCount segments of 16 bytes
//!   0 Next u64 | 8 NextHandle u32 | 12 SegCount u16        RDMA: address segment { u64 address, u32 handle, u32 0 }
//!  14 Control u16 | 16 Reserved u32 | 20 ImmediateData     data segment { u64 address, u32 handle, u32 length }
//!  24 Length u32 | 28 Status u32
//! ```
//!
//! Invariant D1: the caller of post vouches, through a registered region that covers it, that the descriptor's memory stays valid from post to
//! completion; the engine counts it as a user of that region, so the region cannot be deregistered meanwhile.
//! Its content may change under us (the region may be mapped by peers): it is copied once and only the copy is checked and used.

use crate::status::{Operation, Status, WorkFlags};
use crate::work_queue::Segment;
use bellwire_memory::atomic::{AtomicU32, Ordering};
use core::mem::MaybeUninit;

/// Bytes of the control segment.
pub const CONTROL_BYTES: usize = 32;
/// Bytes of each following segment.
pub const SEGMENT_BYTES: usize = 16;
/// Alignment that VIA requires.
pub const DESCRIPTOR_ALIGNMENT: usize = 64;
/// Data segments a descriptor may have.
pub const SEGMENTS_MAX: usize = 32;

const CONTROL_OP_MASK: u16 = 3;
const CONTROL_IMMEDIATE: u16 = 4;
const CONTROL_FENCE: u16 = 8;
const CONTROL_RESERVED: u16 = 0xfff0;

/// Where a descriptor is and which region holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorRef {
    /// Address.
    pub address: usize,
    /// Memory handle of the region that covers it.
    pub handle: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct RawControl {
    next: u64,
    next_handle: u32,
    segment_count: u16,
    control: u16,
    reserved: u32,
    immediate: u32,
    length: u32,
    status: u32,
}
const _: () = assert!(size_of::<RawControl>() == CONTROL_BYTES);

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct RawSegment {
    address: u64,
    handle: u32,
    length: u32,
}
const _: () = assert!(size_of::<RawSegment>() == SEGMENT_BYTES);

/// A copy of a descriptor, decoded.
#[derive(Clone, Copy, Debug)]
pub struct Parsed {
    /// What to do (receives: `Send`).
    pub operation: Operation,
    /// Immediate, fence.
    pub flags: WorkFlags,
    /// Immediate data.
    pub immediate: u32,
    /// `CS.Length`.
    pub length: u32,
    /// RDMA address.
    pub remote_address: u64,
    /// RDMA handle.
    pub remote_handle: u32,
    count: usize,
    /// The first `count` are initialised.
    segments: [MaybeUninit<Segment>; SEGMENTS_MAX],
}

impl Parsed {
    /// An empty send.
    #[inline]
    pub fn new() -> Self {
        Self {
            operation: Operation::Send,
            flags: WorkFlags::empty(),
            immediate: 0,
            length: 0,
            remote_address: 0,
            remote_handle: 0,
            count: 0,
            segments: [const { MaybeUninit::uninit() }; SEGMENTS_MAX],
        }
    }

    /// The data segments.
    #[inline]
    pub fn segments(&self) -> &[Segment] {
        // SAFETY: the first `count` elements are initialised (only `parse` sets `count`), and MaybeUninit<Segment> has Segment's layout.
        unsafe { core::slice::from_raw_parts(self.segments.as_ptr().cast(), self.count) }
    }
}

impl Default for Parsed {
    fn default() -> Self {
        Self::new()
    }
}

/// Number of segments that follow the control segment, from memory; what must lie in the region too.
///
/// # Safety
/// D1 for the control segment at `address`.
#[inline]
pub unsafe fn segment_count(address: usize) -> usize {
    // SAFETY: D1; an aligned u16 inside the control segment.
    usize::from(unsafe { core::ptr::with_exposed_provenance::<u16>(address + 12).read_volatile() })
}

/// Copies a descriptor of `count` segments out of user memory and decodes the copy. `Err` is the status to complete it with.
///
/// # Safety
/// D1 for `CONTROL_BYTES + count * SEGMENT_BYTES` bytes at `address`, which is 64-byte aligned.
#[inline]
pub unsafe fn parse(address: usize, count: usize, is_send: bool, out: &mut Parsed) -> Result<(), Status> {
    // SAFETY: D1; volatile, once: another process may be writing it.
    let c = unsafe { core::ptr::with_exposed_provenance::<RawControl>(address).read_volatile() };
    out.immediate = c.immediate;
    out.length = c.length;
    let mut first = 0;
    if is_send {
        if c.control & CONTROL_RESERVED != 0 || usize::from(c.segment_count) != count {
            return Err(Status::FORMAT_ERROR);
        }
        out.operation = match c.control & CONTROL_OP_MASK {
            0 => Operation::Send,
            1 => Operation::RdmaWrite,
            2 => Operation::RdmaRead,
            _ => return Err(Status::FORMAT_ERROR),
        };
        if c.control & CONTROL_IMMEDIATE != 0 {
            out.flags |= WorkFlags::IMMEDIATE;
        }
        if c.control & CONTROL_FENCE != 0 {
            out.flags |= WorkFlags::FENCE;
        }
        if out.operation != Operation::Send {
            if count == 0 {
                return Err(Status::FORMAT_ERROR);
            }
            // SAFETY: D1.
            let s = unsafe { raw_segment(address, 0) };
            (out.remote_address, out.remote_handle) = (s.address, s.handle);
            first = 1;
        }
    }
    if count - first > SEGMENTS_MAX {
        return Err(Status::FORMAT_ERROR);
    }
    for i in first..count {
        // SAFETY: D1.
        let s = unsafe { raw_segment(address, i) };
        out.segments[i - first].write(Segment { address: s.address, length: s.length, handle: s.handle });
    }
    out.count = count - first;
    Ok(())
}

/// # Safety
/// D1 for segment `index`.
#[inline]
unsafe fn raw_segment(address: usize, index: usize) -> RawSegment {
    // SAFETY: D1; volatile, once.
    unsafe { core::ptr::with_exposed_provenance::<RawSegment>(address + CONTROL_BYTES + index * SEGMENT_BYTES).read_volatile() }
}

/// Writes the outcome into a descriptor: length and immediate data first, `Status` last.
///
/// # Safety
/// D1: the descriptor belongs to the engine and its region is registered.
#[inline]
pub unsafe fn complete(address: usize, status: Status, length: u32, immediate: Option<u32>) {
    let base = core::ptr::with_exposed_provenance_mut::<u8>(address);
    // SAFETY: D1; aligned u32 fields of the control segment.
    unsafe {
        base.add(24).cast::<u32>().write_volatile(length);
        if let Some(value) = immediate {
            base.add(20).cast::<u32>().write_volatile(value);
        }
    }
    // SAFETY: D1. Release: a user thread that reads Status without taking the token sees length, immediate data and payload.
    unsafe { (*base.add(28).cast::<AtomicU32>()).store(status.bits(), Ordering::Release) };
}
