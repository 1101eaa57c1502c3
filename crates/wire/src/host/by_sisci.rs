// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames by the wire made of SISCI, where that is in place of the others. They are never inlined:
//! else its code stands in the ways of the other wires, which are slower then (6,009 instructions
//! in place of 5,935, by `tests/gas/cost.sh`).

use super::{HostWire, sisci_link};
use crate::{Frame, LinkId, Peeked, Received, Sent, Wire};
use bellwire_memory::line_queue::Line;

impl HostWire {
    #[inline(never)]
    pub(super) fn send_by_sisci(&mut self, link: LinkId, line: &mut Line, words: usize) -> Sent {
        self.sisci.as_mut().map_or(Sent::Broken, |s| s.send(sisci_link(link), line, words))
    }

    /// # Safety
    /// As [`Wire::send_whole`].
    #[inline(never)]
    pub(super) unsafe fn send_whole_by_sisci(&mut self, link: LinkId, word0: u64, from: *const u8, length: usize) -> Sent {
        // SAFETY: the caller's.
        self.sisci.as_mut().map_or(Sent::Broken, |s| unsafe { s.send_whole(sisci_link(link), word0, from, length) })
    }

    #[inline(never)]
    pub(super) fn send_with_payload_by_sisci<F: FnOnce(*mut u8) -> bool>(&mut self, link: LinkId, line: &mut Line, length: usize, fill: F) -> Sent {
        self.sisci.as_mut().map_or(Sent::Broken, |s| s.send_with_payload(sisci_link(link), line, length, fill))
    }

    #[inline(never)]
    pub(super) fn take_by_sisci<const PAYLOAD: bool, R>(&mut self, link: LinkId, looks: u32, take: impl FnOnce(&Frame) -> Option<R>) -> Option<R> {
        self.sisci.as_mut().and_then(|s| s.take::<PAYLOAD, R>(sisci_link(link), looks, take))
    }

    /// # Safety
    /// F2, as [`Wire::peek_line`].
    #[inline(never)]
    pub(super) unsafe fn peek_line_by_sisci(&mut self, link: LinkId, looks: u32) -> Peeked {
        // SAFETY: F2, the caller's.
        self.sisci.as_mut().map_or(Peeked::Otherwise, |s| unsafe { s.peek_line(sisci_link(link), looks) })
    }

    /// # Safety
    /// F2, as [`Wire::receive`].
    #[inline(never)]
    pub(super) unsafe fn receive_by_sisci(&mut self, link: LinkId) -> Received {
        // SAFETY: F2, the caller's.
        self.sisci.as_mut().map_or(Received::Broken, |s| unsafe { s.receive(sisci_link(link)) })
    }

    #[inline(never)]
    pub(super) fn consume_by_sisci(&mut self, link: LinkId) {
        if let Some(s) = &mut self.sisci {
            s.consume(sisci_link(link));
        }
    }
}
