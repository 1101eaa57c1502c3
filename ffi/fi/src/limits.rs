// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names and limits of ours that more than one file needs.

use core::ffi::CStr;

/// Our name.
pub(crate) const NAME: &CStr = c"bellwire";
/// Our version, as libfabric packs such.
pub(crate) const VERSION: u32 = 1;
/// Our address format.
pub(crate) const ADDR_FORMAT: u32 = 1 << 31 | 0x4257;
/// Longest message that is injected.
pub(crate) const INJECT_BYTES: usize = 4096;
/// Operations and completions that a queue is said to hold.
pub(crate) const QUEUE_SIZE: usize = 1024;
/// Bytes before each message where buffers have a prefix.
pub(crate) const PREFIX_BYTES: usize = 16;
/// Contexts of each direction that a scalable endpoint can have.
pub(crate) const CONTEXTS_MAX: usize = 64;
/// An address vector for scalable endpoints numbers its names below this power of two: the bits
/// above say which context is meant.
pub(crate) const CONTEXT_SHIFT: u32 = 14;
/// Longest data of the program that a request for a connection or an answer carries, bytes.
pub(crate) const DATA_BYTES_MAX: usize = 256;
/// The number by which a connected endpoint knows its peer.
pub(crate) const PEER: u64 = 0;
