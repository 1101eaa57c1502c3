// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each side brings to a link: its region (words, lines, advertisements), its payload bytes,
//! and its catalogue. Made and checked during the handshake (`rendezvous.rs`), owned by the link
//! afterwards.
//!
//! Payload bytes lie in memory of their own, which in mapped mode the reader maps *for writing*,
//! though it never writes. Processors of today take a line that is loaded through a writable
//! mapping over as their own; loaded through a read-only one it stays shared, and the writer's next
//! store to it costs a round trip more: an eighth and more of the bandwidth (docs/decisions/0011).
//! Lines stay read-only: there it does not pay.
//!
//! - H1: nobody reads what he finds in his own payload bytes: all that a peer with a writable
//!   mapping can spoil is what it was about to be told.
//! - A guarded NIC seals its payload bytes like the rest.

use super::ProtectionMode;
use super::layout::{CATALOGUE_BYTES, Header, LINK_BYTES, PAYLOAD_BYTES};
use bellwire_memory::MemoryError;
use bellwire_memory::region::{Access, Region, RegionKind, RemoteRegion};
use rustix::fd::OwnedFd;

/// How much larger than expected a peer's region may be: its pages may be larger than ours.
const ROUNDED_MAX: usize = 65_536;

/// Ours, to be offered.
#[derive(Debug)]
pub(super) struct OwnHalf {
    pub lines: Region,
    /// Boxed, as those below: a link is found by a multiplication with its size, which another size
    /// makes longer on the path of small messages.
    pub payload: Box<Region>,
}

/// The peer's, mapped.
#[derive(Debug)]
pub(super) struct PeerHalf {
    pub lines: RemoteRegion,
    pub payload: Box<RemoteRegion>,
    pub catalogue: Box<RemoteRegion>,
}

impl OwnHalf {
    pub(super) fn create(mode: ProtectionMode) -> Result<Self, MemoryError> {
        let lines = Region::create("bellwire-link", LINK_BYTES, RegionKind::WriterOwned)?;
        lines.bytes().copy_in(0, &Header::bytes())?;
        let kind = if mode == ProtectionMode::Mapped { RegionKind::Open } else { RegionKind::WriterOwned };
        let payload = Box::new(Region::create("bellwire-payload", PAYLOAD_BYTES as usize, kind)?);
        Ok(Self { lines, payload })
    }
}

impl PeerHalf {
    /// Maps and checks what a peer has sent; `mapped`: it said that its NIC is not guarded.
    pub(super) fn map(lines: OwnedFd, payload: OwnedFd, catalogue: OwnedFd, mapped: bool) -> Result<Self, MemoryError> {
        let lines = RemoteRegion::map(lines, LINK_BYTES, LINK_BYTES + ROUNDED_MAX, Access::ReadOnly)?;
        let mut header = [0; 32];
        lines.bytes().copy_out(0, &mut header)?;
        if header != Header::bytes() {
            return Err(MemoryError::NotMemory);
        }
        let access = if mapped { Access::ReadWrite } else { Access::ReadOnly };
        let bytes = PAYLOAD_BYTES as usize;
        Ok(Self {
            lines,
            payload: Box::new(RemoteRegion::map(payload, bytes, bytes + ROUNDED_MAX, access)?),
            catalogue: Box::new(RemoteRegion::map(catalogue, CATALOGUE_BYTES, CATALOGUE_BYTES + ROUNDED_MAX, Access::ReadOnly)?),
        })
    }
}
