// SPDX-License-Identifier: MIT OR Apache-2.0
//! One frame of a link: received, delivered, consumed. All that the engine takes from its wire goes
//! through here, except a message in a line that its poller takes where it lies (`fast.rs`, and
//! `take_line` of `inbox/take.rs`).

use crate::engine::Engine;
use crate::wire::{Frame, LinkFailure, LinkId, Received, Wire};
use core::convert::Infallible;

/// What a look at a link found.
pub(crate) enum Look<R> {
    /// No frame.
    Empty,
    /// A frame that the caller took.
    Taken(R),
    /// A frame that was delivered.
    Delivered,
    /// The link has failed, and is closed.
    Lost,
}

impl<W: Wire> Engine<W> {
    /// Takes the next frame of a link. `first` may take it, and then consumes it or leaves it where
    /// it is; else it is delivered.
    ///
    /// The use of a frame closes no link (a link that must go is doomed until the next turn)
    /// and looks for no other frame: F2.
    #[inline(always)]
    pub(crate) fn receive_one<R>(&mut self, link: LinkId, first: impl FnOnce(&mut Self, &Frame) -> Option<R>) -> Look<R> {
        // SAFETY: F2: the frame is used before it is consumed, and as said above.
        match unsafe { self.wire.receive(link) } {
            Received::Empty => Look::Empty,
            Received::Frame(frame) => {
                if let Some(taken) = first(self, &frame) {
                    return Look::Taken(taken);
                }
                let fine = self.deliver(link, &frame);
                self.wire.consume(link);
                if fine {
                    return Look::Delivered;
                }
                self.link_failed(link, LinkFailure::BadFrame);
                Look::Lost
            }
            Received::Broken => {
                self.link_broke(link);
                Look::Lost
            }
        }
    }

    /// Delivers the next frame of a link.
    #[inline(always)]
    pub(crate) fn deliver_one(&mut self, link: LinkId) -> Look<Infallible> {
        self.receive_one(link, |_, _| None)
    }
}
