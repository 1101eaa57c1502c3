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
//! Invariant D1: the caller of post vouches, through a registered region that covers it, that the
//! descriptor's memory stays valid from post to completion; the engine counts it as a user of that
//! region, so the region cannot be deregistered meanwhile. Its content may change under us (the
//! region may be mapped by peers): it is copied once and only the copy is checked and used.

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

/// A copy of a descriptor, decoded.
#[derive(Clone, Copy, Debug)]
pub struct Parsed {
    /// What to do (receives: `Send`).
    pub operation: Operation,
    /// Immediate, fence.
    pub flags: WorkFlags,
    /// Immediate data.
    pub immediate: u32,
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
            remote_address: 0,
            remote_handle: 0,
            count: 0,
            segments: [const { MaybeUninit::uninit() }; SEGMENTS_MAX],
        }
    }

    /// The data segments.
    #[inline]
    pub fn segments(&self) -> &[Segment] {
        // SAFETY: the first `count` elements are initialised (only `parse` sets `count`), and
        // MaybeUninit<Segment> has Segment's layout.
        unsafe { core::slice::from_raw_parts(self.segments.as_ptr().cast(), self.count) }
    }
}

impl Default for Parsed {
    fn default() -> Self {
        Self::new()
    }
}

/// `CS.SegCount` and `CS.Control`, read together, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlWord(u32);

impl ControlWord {
    /// A send of one segment, nothing else.
    pub const ONE_SEGMENT: Self = Self(1);
    /// An RDMA write of one segment, nothing else.
    pub const ONE_WRITE: Self = Self(2 | 1 << 16);

    /// Out of a descriptor.
    ///
    /// # Safety
    /// D1 for the control segment at `address`, which is 64-byte aligned.
    #[inline]
    pub unsafe fn read(address: usize) -> Self {
        // SAFETY: D1; an aligned u32 inside the control segment; volatile, once: another process
        // may be writing it.
        Self(unsafe { field::<u32>(address + 12) })
    }

    /// Segments that follow, the address segment included.
    #[inline]
    pub fn segment_count(self) -> usize {
        (self.0 & 0xffff) as usize
    }

    #[inline]
    fn control(self) -> u16 {
        (self.0 >> 16) as u16
    }
}

const _: () = assert!(cfg!(target_endian = "little"), "SegCount is the lower half of the word at 12");

/// Copies a descriptor out of user memory, field by field, and decodes the copy. `Err` is the
/// status to complete it with. (Field by field also because wider reads would wait for the user's
/// stores of single fields.)
///
/// # Safety
/// D1 for the control segment and `word.segment_count()` segments at `address`, which is 64-byte
/// aligned.
#[inline(always)]
pub unsafe fn parse(address: usize, word: ControlWord, is_send: bool, out: &mut Parsed) -> Result<(), Status> {
    let count = word.segment_count();
    // SAFETY: D1.
    out.immediate = unsafe { field::<u32>(address + 20) };
    let mut first = 0;
    if is_send {
        let control = word.control();
        if control & CONTROL_RESERVED != 0 {
            return Err(Status::FORMAT_ERROR);
        }
        out.operation = match control & CONTROL_OP_MASK {
            0 => Operation::Send,
            1 => Operation::RdmaWrite,
            2 => Operation::RdmaRead,
            _ => return Err(Status::FORMAT_ERROR),
        };
        if control & CONTROL_IMMEDIATE != 0 {
            out.flags |= WorkFlags::IMMEDIATE;
        }
        if control & CONTROL_FENCE != 0 {
            out.flags |= WorkFlags::FENCE;
        }
        if out.operation != Operation::Send {
            if count == 0 {
                return Err(Status::FORMAT_ERROR);
            }
            // SAFETY: D1.
            let s = unsafe { segment(address, 0) };
            (out.remote_address, out.remote_handle) = (s.address, s.handle);
            first = 1;
        }
    }
    if count - first > SEGMENTS_MAX {
        return Err(Status::FORMAT_ERROR);
    }
    for i in first..count {
        // SAFETY: D1.
        out.segments[i - first].write(unsafe { segment(address, i) });
    }
    out.count = count - first;
    Ok(())
}

/// A copy of one segment.
///
/// # Safety
/// D1 for segment `index`.
#[inline(always)]
pub unsafe fn segment(address: usize, index: usize) -> Segment {
    let at = address + CONTROL_BYTES + index * SEGMENT_BYTES;
    // SAFETY: D1; aligned fields; volatile, once each.
    unsafe { Segment { address: field(at), handle: field(at + 8), length: field(at + 12) } }
}

/// # Safety
/// D1: `at` is the address of an aligned `T` in the descriptor.
#[inline(always)]
unsafe fn field<T: Copy>(at: usize) -> T {
    // SAFETY: D1.
    unsafe { core::ptr::with_exposed_provenance::<T>(at).read_volatile() }
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
    // SAFETY: D1. Release: a user thread that reads Status without taking the token sees length,
    // immediate data and payload.
    unsafe { (*base.add(28).cast::<AtomicU32>()).store(status.bits(), Ordering::Release) };
}
