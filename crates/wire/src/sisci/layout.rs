// SPDX-License-Identifier: MIT OR Apache-2.0
//! The layout of a link's segment. Each NIC has one for each link; its peer connects to it, and
//! writes all of it. The owner only reads.
//!
//! ```text
//!    128   head: how far the writer has read the lines of the other direction
//!    256   armed: the writer sleeps: it is to be woken
//!    384   epoch: odd while the writer is inside the owner's memory
//!    512   rung: counts the wakes, where an event manager looks for them
//!    640   away: which processor the writer lets others have
//!   4096   lines          LINES x 64 bytes
//!          advertisements ADVERTS x 32 bytes       receive descriptors of the writer's
//!          catalogue      CATALOGUE x 64 bytes     registered regions of the writer's
//!          payload        PAYLOAD_BYTES
//! ```
//! Words are 128 bytes apart (adjacent-line prefetch).

use crate::told::{ADVERT_WORDS, ADVERTS, CATALOGUE_WORDS};
use bellwire_memory::line_queue::LINE_BYTES;

/// Slots of the line queue.
pub(super) const LINES: u32 = 1024;
/// Bytes of the payload FIFO.
pub(super) const PAYLOAD_BYTES: u32 = 256 * 1024;
/// Most payload of one frame.
pub(super) const FRAME_PAYLOAD_MAX: u32 = 16 * 1024;
/// Regions that peers can be told of; those beyond go as frames.
pub(super) const CATALOGUE_ENTRIES: usize = 4096;

pub(super) const HEAD_AT: usize = 128;
pub(super) const ARMED_AT: usize = 256;
pub(super) const EPOCH_AT: usize = 384;
pub(super) const RUNG_AT: usize = 512;
pub(super) const AWAY_AT: usize = 640;
pub(super) const LINES_AT: usize = 4096;
pub(super) const ADVERTS_AT: usize = LINES_AT + LINES as usize * LINE_BYTES;
pub(super) const CATALOGUE_AT: usize = ADVERTS_AT + ADVERTS * ADVERT_WORDS * 8;
pub(super) const PAYLOAD_AT: usize = CATALOGUE_AT + CATALOGUE_ENTRIES * CATALOGUE_WORDS * 8;
/// Bytes of the segment.
pub(super) const SEGMENT_BYTES: usize = PAYLOAD_AT + PAYLOAD_BYTES as usize;

const _: () = assert!(ADVERTS_AT.is_multiple_of(LINE_BYTES) && CATALOGUE_AT.is_multiple_of(LINE_BYTES) && PAYLOAD_AT.is_multiple_of(LINE_BYTES));
const _: () = assert!(LINES.is_power_of_two() && PAYLOAD_BYTES.is_power_of_two());
const _: () = assert!(FRAME_PAYLOAD_MAX * 4 <= PAYLOAD_BYTES, "several frames must fit");

/// Changes whenever anything of this layout, of the frames or of the messages does.
pub(super) const VERSION: u32 = 1;
