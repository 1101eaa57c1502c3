// SPDX-License-Identifier: MIT OR Apache-2.0
//! The layout of the memory that two NICs show each other.
//!
//! ```text
//!  link region, one per direction: written by its owner, mapped read-only by the peer
//!      0   magic, version and sizes (checked once)
//!    128   head: how far the owner has read the peer's lines        written per batch, read by the peer when its view says "full"
//!    256   armed: the owner sleeps, ring its bell                   written by sleepers, read after each frame
//!    384   epoch: odd while the owner is inside the peer's memory   written per direct access, read when memory is taken back
//!    512   proof: the peer's nonce, read out of its memory        written once; 0: the owner cannot read the peer's memory
//!    640   away: which processor the owner lets others have       written when it gives way, read by peers that poll
//!          (all ones: closed in good order)
//!   4096   lines          LINES x 64 bytes
//!          advertisements ADVERTS x 32 bytes
//!
//!  payload, one per direction: PAYLOAD_BYTES, written by its owner; a NIC in mapped mode lets the peer map it for writing too (half.rs)
//!
//!  catalogue, one per NIC: CATALOGUE_ENTRIES x 64 bytes
//! ```
//! Words that different sides write are at least 128 bytes apart (adjacent-line prefetch).

use crate::told::{ADVERT_WORDS, ADVERTS, CATALOGUE_WORDS};
use bellwire_memory::line_queue::LINE_BYTES;

/// Slots of the line queue.
pub(super) const LINES: u32 = 1024;
/// Bytes of the payload FIFO: small enough to stay in a core's cache.
pub(super) const PAYLOAD_BYTES: u32 = 256 * 1024;
/// Most payload of one frame.
pub(super) const FRAME_PAYLOAD_MAX: u32 = 16 * 1024;
/// Regions that peers can be told of; those beyond go as frames.
pub(super) const CATALOGUE_ENTRIES: usize = 4096;

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"bellwire");
/// Changes whenever anything of this layout or of the frames does. Two versions have UDP between
/// them. A build of other versions of UDP (`scripts/versions.sh`) has another one here.
pub(super) const VERSION: u32 = 3 + bellwire_proto::VERSIONS[1] as u32;

pub(super) const HEAD_AT: usize = 128;
pub(super) const ARMED_AT: usize = 256;
pub(super) const EPOCH_AT: usize = 384;
pub(super) const PROOF_AT: usize = 512;
pub(super) const AWAY_AT: usize = 640;
pub(super) const LINES_AT: usize = 4096;
pub(super) const ADVERTS_AT: usize = LINES_AT + LINES as usize * LINE_BYTES;
/// Bytes of a link region.
pub(super) const LINK_BYTES: usize = ADVERTS_AT + ADVERTS * ADVERT_WORDS * 8;
/// Bytes of a catalogue.
pub(super) const CATALOGUE_BYTES: usize = CATALOGUE_ENTRIES * CATALOGUE_WORDS * 8;

const _: () = assert!(LINES_AT.is_multiple_of(LINE_BYTES) && ADVERTS_AT.is_multiple_of(8));
const _: () = assert!(ARMED_AT - HEAD_AT >= 128 && EPOCH_AT - ARMED_AT >= 128 && AWAY_AT - EPOCH_AT >= 128 && LINES_AT - AWAY_AT >= 128);
const _: () = assert!(LINES.is_power_of_two() && PAYLOAD_BYTES.is_power_of_two());
const _: () = assert!(FRAME_PAYLOAD_MAX * 4 <= PAYLOAD_BYTES, "several frames must fit");

/// The 32-byte header of a link region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header;

impl Header {
    pub(super) fn bytes() -> [u8; 32] {
        let mut b = [0; 32];
        b[..8].copy_from_slice(&MAGIC.to_ne_bytes());
        b[8..12].copy_from_slice(&VERSION.to_ne_bytes());
        b[12..16].copy_from_slice(&LINES.to_ne_bytes());
        b[16..20].copy_from_slice(&PAYLOAD_BYTES.to_ne_bytes());
        b[20..24].copy_from_slice(&(ADVERTS as u32).to_ne_bytes());
        b[24..28].copy_from_slice(&(CATALOGUE_ENTRIES as u32).to_ne_bytes());
        b
    }
}
