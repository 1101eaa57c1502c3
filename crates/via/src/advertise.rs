// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advertising: posted receives are made known to the peer, which may then fill them directly and
//! say so. A VI begins when its peer sends something large and ends after many small messages
//! (`end_arrival` in arrive.rs); a lost entry costs speed only.

use crate::attributes::ViState;
use crate::engine::Engine;
use crate::frame::Head;
use crate::limits::PLACE_BYTES_MIN;
use crate::status::Status;
use crate::wire::{Advertisement, Frame, Wire};

/// Receive descriptors of a VI that are made known to the peer at a time.
pub const ADVERTISED_MAX: u32 = 32;

impl<W: Wire> Engine<W> {
    /// Makes posted receives known to the peer, as far as they lie in memory it may map.
    pub(crate) fn advertise_posted(&mut self, index: usize) {
        let Some(vi) = self.vis.at(index) else { return };
        if vi.state != ViState::Connected {
            return;
        }
        let Some(connection) = vi.connection else { return };
        let done = vi.receive.done;
        let end = if vi.receive.posted() > ADVERTISED_MAX { done.wrapping_add(ADVERTISED_MAX) } else { vi.receive.works.tail() };
        if vi.advertised_to.wrapping_sub(done) > ADVERTISED_MAX {
            vi.advertised_to = done;
        }
        while vi.advertised_to != end {
            let at = vi.advertised_to;
            vi.advertised_to = at.wrapping_add(1);
            let work = vi.receive.works.at(at);
            if work.advertised || work.capacity < PLACE_BYTES_MIN || work.segments.count != 1 || work.status.is_error() {
                continue;
            }
            let Some(place) = self.registry.place_of(&work.segments.only) else { continue };
            work.advertised = true;
            self.registry.mark_advertised(place);
            let message = vi.message.wrapping_add(at.wrapping_sub(done));
            self.wire.advertise(vi.link, connection.raw(), message, &Advertisement { segment: place.segment, length: work.capacity, offset: place.offset });
        }
    }

    pub(crate) fn deliver_send_placed(&mut self, index: usize, head: Head, frame: &Frame) {
        let placed = frame.word(1);
        let (message, total) = (placed as u32, (placed >> 32) as u32);
        let Some(vi) = self.vis.at(index) else { return };
        let fits = vi.receive.has_posted() && vi.message == message && {
            let work = vi.receive.works.get(vi.receive.done);
            work.advertised && total <= work.capacity
        };
        if !fits {
            return self.protocol_error(index);
        }
        let (link, connection) = (vi.link, vi.connection);
        if let Some(c) = connection {
            self.wire.withdraw(link, c.raw(), message);
        }
        let immediate = head.has_immediate().then_some(frame.word(2) as u32);
        if let Some(handle) = self.vis.handle_at(index) {
            self.end_arrival(index, handle, total, immediate, Status::OP_RECEIVE);
        }
    }
}
