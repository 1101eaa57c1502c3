// SPDX-License-Identifier: MIT OR Apache-2.0
//! Long messages of layers that send by copy (`copied.rs`): the receiver copies them out of the
//! sender's process by cross-memory attach, instead of taking them in parts through the rings.
//!
//! The layer's own messages carry the addresses. The engine says whether both processes have shown
//! that they may read each other, which of the two ways is the faster one on this link, and copies.
//! Requests of VIs take the same two ways in `pull.rs`.

use crate::attributes::ViState;
use crate::engine::Engine;
use crate::handles::ViHandle;
use crate::way::{self, Kind};
use crate::wire::{Attach, LinkId, Wire};

pub use crate::way::{PULL_BYTES_MAX, TIMED_BYTES_MIN};

impl<W: Wire> Engine<W> {
    fn link_of(&self, handle: ViHandle) -> Option<LinkId> {
        self.vis.get(handle).filter(|vi| vi.state == ViState::Connected).map(|vi| vi.link)
    }

    /// The shortest message to this peer, in bytes, whose address is worth telling; `usize::MAX` if
    /// the peer may not read our memory, or we may not read its memory.
    pub fn lent_bytes_min(&self, handle: ViHandle) -> usize {
        let mode = self.link_of(handle).map_or(Attach::Never, |link| self.wire.attach(link));
        if mode == Attach::Never { usize::MAX } else { way::bytes_min(mode) as usize }
    }

    /// Whether to pull messages of this peer from now on: the receiver asks it for a message of
    /// `length` bytes and reports by [`has_moved_lent`](Self::has_moved_lent) how long it took.
    pub fn pulls_lent(&mut self, handle: ViHandle, length: usize) -> bool {
        let Some(link) = self.link_of(handle) else { return false };
        let mode = self.wire.attach(link);
        let Some(state) = self.links.iter_mut().find(|l| l.id == link) else { return false };
        mode != Attach::Never && state.ways.attach(mode, Kind::Message, u32::try_from(length).unwrap_or(u32::MAX))
    }

    /// `length` bytes of long messages came within `ns`, by pulling or in parts.
    pub fn has_moved_lent(&mut self, handle: ViHandle, pulled: bool, length: usize, ns: u64) {
        let Some(link) = self.link_of(handle) else { return };
        if let Some(state) = self.links.iter_mut().find(|l| l.id == link) {
            state.ways.record(Kind::Message, pulled, u32::try_from(length).unwrap_or(u32::MAX), ns);
        }
    }

    /// A clock for comparing the two ways, nanoseconds; 0 if there is none.
    pub fn stopwatch(&self) -> u64 {
        self.wire.stopwatch()
    }

    /// Copies `length` bytes at `address` in the peer's process to `to`. `false`: it could not be
    /// done; a part may have been copied. At most [`PULL_BYTES_MAX`] bytes, which bounds how long
    /// it takes. An address that the peer has not mapped is a failure, never a fault.
    ///
    /// # Safety
    /// `to` may be written for `length` bytes.
    pub unsafe fn pull_lent(&mut self, handle: ViHandle, address: u64, to: *mut u8, length: usize) -> bool {
        debug_assert!(length <= PULL_BYTES_MAX as usize);
        // SAFETY: the caller's.
        self.link_of(handle).is_some_and(|link| unsafe { self.wire.pull(link, address, to, length) })
    }

    /// Pulling has failed: the link uses no cross-memory attach from now on.
    pub fn refuse_lent(&mut self, handle: ViHandle) {
        if let Some(link) = self.link_of(handle) {
            self.wire.attach_failed(link);
        }
    }

    /// A message was pulled; the live view counts it with the requests that took the same way.
    pub fn count_lent(&mut self, handle: ViHandle) {
        if let Some(vi) = self.vis.get_mut(handle) {
            vi.counters.attached += 1;
        }
    }
}
