// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C interface of `libvipl.so`, for those who use it as a program in C does: found and loaded at
//! run time, with nothing of its source linked in. Measuring programs do so (`bellwire-inspect`),
//! and the mappings of Active Messages (`bellwire-amvia`); each declares the functions that it
//! calls.
//!
//! The layouts are declared here a second time on purpose, so that a change of the library's own
//! shows. They are those of the 64-byte descriptor form of `vipl.h` on a 64-bit machine, and are
//! asserted below.

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_ushort, c_void};
use std::path::{Path, PathBuf};

/// `VIP_RETURN` values that callers tell apart.
pub mod code {
    #![allow(missing_docs)]
    pub const SUCCESS: i32 = 0;
    pub const NOT_DONE: i32 = 1;
    pub const ERROR_RESOURCE: i32 = 3;
    pub const TIMEOUT: i32 = 4;
    pub const REJECT: i32 = 5;
    pub const DESCRIPTOR_ERROR: i32 = 11;
    pub const NO_MATCH: i32 = 14;
    pub const NOT_REACHABLE: i32 = 15;
    pub const ERROR_NOT_SUPPORTED: i32 = 16;
}

/// `VIP_CONTROL_*`: the descriptor's control word.
pub mod control {
    #![allow(missing_docs)]
    pub const OP_SENDRECV: u16 = 0;
    pub const OP_RDMAWRITE: u16 = 1;
    pub const OP_RDMAREAD: u16 = 2;
    pub const IMMEDIATE: u16 = 4;
}

/// `VIP_STATUS_ERROR_MASK`.
pub const STATUS_ERROR_MASK: u32 = 0x1FE;

/// `VIP_DESCRIPTOR`: control segment and two segments.
#[repr(C, align(64))]
#[derive(Debug, Clone, Copy, Default)]
pub struct Descriptor {
    /// `CS.Next`.
    pub next: u64,
    /// `CS.NextHandle`.
    pub next_handle: u32,
    /// `CS.SegCount`.
    pub segment_count: u16,
    /// `CS.Control`.
    pub control: u16,
    /// `CS.Reserved`.
    pub reserved: u32,
    /// `CS.ImmediateData`.
    pub immediate: u32,
    /// `CS.Length`, bytes.
    pub length: u32,
    /// `CS.Status`, written by the library when the descriptor completes.
    pub status: u32,
    /// `DS[0]` and `DS[1]`.
    pub segments: [Segment; 2],
}

/// `VIP_DATA_SEGMENT`, and `VIP_ADDRESS_SEGMENT` (whose last word is reserved).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Segment {
    /// `Data`.
    pub address: u64,
    /// `Handle`.
    pub handle: u32,
    /// `Length`, bytes; 0 in an address segment.
    pub length: u32,
}

/// `VIP_NIC_ATTRIBUTES`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct NicAttributes {
    pub name: [c_char; 64],
    pub hardware_version: c_ulong,
    pub provider_version: c_ulong,
    pub nic_address_len: u16,
    pub local_nic_address: *const u8,
    pub thread_safe: c_int,
    pub max_discriminator_len: u16,
    pub max_register_bytes: c_ulong,
    pub max_register_regions: c_ulong,
    pub max_register_block_bytes: c_ulong,
    pub max_vi: c_ulong,
    pub max_descriptors_per_queue: c_ulong,
    pub max_segments_per_desc: c_ulong,
    pub max_cq: c_ulong,
    pub max_cq_entries: c_ulong,
    pub max_transfer_size: c_ulong,
    pub native_mtu: c_ulong,
    pub max_ptags: c_ulong,
    pub reliability_level_support: c_ushort,
    pub rdma_read_support: c_ushort,
}

/// `VIP_VI_ATTRIBUTES`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct ViAttributes {
    pub reliability_level: c_ushort,
    pub max_transfer_size: c_ulong,
    pub qos: *mut c_void,
    pub ptag: *mut c_void,
    pub enable_rdma_write: c_int,
    pub enable_rdma_read: c_int,
}

/// `VIP_MEM_ATTRIBUTES`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct MemAttributes {
    pub ptag: *mut c_void,
    pub enable_rdma_write: c_int,
    pub enable_rdma_read: c_int,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<Descriptor>() == 64 && align_of::<Descriptor>() == 64);
    assert!(offset_of!(Descriptor, status) == 28 && offset_of!(Descriptor, segments) == 32);
    assert!(size_of::<NicAttributes>() == 200 && offset_of!(NicAttributes, local_nic_address) == 88);
    assert!(offset_of!(NicAttributes, max_register_bytes) == 104 && offset_of!(NicAttributes, rdma_read_support) == 194);
    assert!(size_of::<ViAttributes>() == 40 && offset_of!(ViAttributes, enable_rdma_write) == 32);
    assert!(size_of::<MemAttributes>() == 16);
};

const _: () = assert!(size_of::<c_uint>() == 4);

/// Names under which the library is looked for in a directory.
pub const FILE_NAMES: [&str; 2] = ["libvipl.so.1", "libvipl.so"];

/// Loads the first library that can be loaded, and says where it was. Keep it: what it gives is good
/// only while it is loaded.
///
/// # Errors
/// If no library could be loaded: for each place that was tried, in order, a line with the reason.
///
/// # Safety
/// Loading runs the initialisers of whatever lies there: each place must be one where the user has
/// the library, or nothing.
pub unsafe fn load(places: impl IntoIterator<Item = PathBuf>) -> Result<(libloading::Library, PathBuf), Vec<String>> {
    let mut tried = Vec::new();
    for path in places {
        if path.is_absolute() && !path.exists() {
            tried.push(format!("{} (no such file)", path.display()));
            continue;
        }
        // SAFETY: the caller's promise.
        match unsafe { libloading::Library::new(&path) } {
            Ok(library) => return Ok((library, path)),
            Err(error) => tried.push(error.to_string()),
        }
    }
    Err(tried)
}

/// The library's names in some folders, in order.
pub fn within<'a>(folders: impl IntoIterator<Item = &'a Path>) -> Vec<PathBuf> {
    folders.into_iter().flat_map(|folder| FILE_NAMES.map(|name| folder.join(name))).collect()
}
