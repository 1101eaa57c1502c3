// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory half of the terms between engine and wire: memory that is published, granted,
//! advertised and reached directly.

/// Whether a direct access took place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Direct {
    /// Yes; permission held throughout.
    Done,
    /// Not possible, not yet, or not permitted: use frames, the owner decides.
    No,
}

/// When to use cross-memory attach for memory that cannot be mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attach {
    /// Never: bytes pass through the rings, copied by both cores.
    Never,
    /// When it has been faster than the rings.
    #[default]
    Auto,
    /// Whenever it is possible.
    Always,
}

/// A region of this NIC as told to its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatalogueEntry {
    /// Memory handle.
    pub handle: u32,
    /// Changes whenever an entry is told again under the same handle.
    pub version: u32,
    /// Protection tag, 0 for none.
    pub ptag: u32,
    /// Whether peers may write.
    pub write: bool,
    /// Whether peers may read.
    pub read: bool,
    /// First address.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// The allocation it lies in, or [`NO_SEGMENT`].
    pub segment: u32,
    /// Where in that allocation.
    pub segment_offset: u64,
}

/// Stands for an allocation where there is none: memory of the program.
pub const NO_SEGMENT: u32 = u32::MAX;

/// A wish to reach a peer's region directly.
#[derive(Clone, Copy, Debug)]
pub struct RemoteAccess {
    /// The peer's memory handle.
    pub handle: u32,
    /// Protection tag of the peer's VI.
    pub ptag: u32,
    /// First byte of the whole request.
    pub address: u64,
    /// Length of the whole request.
    pub length: u64,
    /// Write (else read).
    pub write: bool,
    /// The part to reach now: offset in the request.
    pub part_offset: u64,
    /// The part to reach now: bytes.
    pub part_length: u64,
}

/// A wish to fill a part of an advertised receive descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// The peer's connection id.
    pub connection: u32,
    /// Number of the message.
    pub message: u32,
    /// Bytes of the whole message.
    pub total: u32,
    /// The part to fill now: offset in the message.
    pub offset: u32,
    /// The part to fill now: bytes.
    pub length: u32,
}

/// A receive descriptor that the peer may fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertisement {
    /// The allocation it lies in.
    pub segment: u32,
    /// Capacity in bytes.
    pub length: u32,
    /// Where in the allocation.
    pub offset: u64,
}

/// Memory made by the wire's allocator.
#[derive(Clone, Copy, Debug)]
pub struct Allocation {
    /// First byte, page-aligned, zeroed.
    pub base: *mut u8,
    /// Bytes, whole pages.
    pub length: usize,
    /// Its number, as in [`CatalogueEntry::segment`].
    pub segment: u32,
}

// SAFETY: it names memory of the process, which no thread owns; code that dereferences `base`
// answers for that.
unsafe impl Send for Allocation {}

/// What a range of the process's memory is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Readable and writable.
    Writable,
    /// Readable only.
    ReadOnly,
    /// Not mapped, at least in part.
    Unmapped,
}

/// What a peer may do with an allocation that it maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapAccess {
    /// Read it.
    Read,
    /// Read and write it.
    Write,
}
