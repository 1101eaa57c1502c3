// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where datagrams arrive: slots of the largest size, used again as soon as nobody refers to them. No copy, no allocation once made.
//!
//! The transport keeps packets that came out of order by reference. Each may hold a slot of 64 KiB, so the last free slots are never lent to such: see
//! [`Buffers::is_scarce`].

use bellwire_proto::Buffer;
use std::sync::Arc;

/// Bytes of a slot: the longest datagram, and what the kernel joins from several.
pub(super) const SLOT_BYTES: usize = 65536;
/// Slots of a NIC. Their pages are taken as they are first used.
const SLOTS: usize = 64;
/// Free slots below which nothing is kept that can be had again.
const SCARCE: usize = 16;

/// A datagram, or a part of what the kernel joined.
#[derive(Clone, Debug)]
pub struct UdpBuffer {
    slot: Arc<[u8]>,
    start: u32,
    end: u32,
}

impl AsRef<[u8]> for UdpBuffer {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.slot[self.start as usize..self.end as usize]
    }
}

impl Buffer for UdpBuffer {}

/// The slots.
#[derive(Debug)]
pub(super) struct Buffers {
    slots: Vec<Arc<[u8]>>,
}
