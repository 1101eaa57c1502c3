// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames whose delivery cannot be shown come back: all of them when the session is down, those of
//! one packet when the peer refuses it for good.

use crate::delivery::{Buffer, Frame, Frames, Returned};
use crate::event::{Refusal, ReturnReason};
use crate::session::{Session, Stage};
use crate::tx_window::State;

impl<B: Buffer> Session<B> {
    /// Copies the frames of a refused packet that the peer did not consume.
    pub(crate) fn take_back(&mut self, psn: u32, reason: Refusal) {
        let consumed = usize::from(self.tx.slot(psn).consumed);
        let session = self.id;
        for frame in Frames::of(self.tx.packet(psn, self.seal.as_deref())).skip(consumed) {
            let returned = returned(session, ReturnReason::Refused(reason), &frame);
            self.returned_bytes += returned.payload.len() + 64;
            self.returned.push_back(returned);
        }
    }

    /// The next frame that came back.
    //= P-RETURN-1
    pub(crate) fn next_returned(&mut self) -> Option<Returned> {
        if let Some(returned) = self.returned.pop_front() {
            self.returned_bytes -= returned.payload.len() + 64;
            return Some(returned);
        }
        let session = self.id;
        let Stage::Down { reason, mut psn, mut frame } = self.stage else { return None };
        let mut found = None;
        while found.is_none() && psn != self.tx.end {
            let slot = *self.tx.slot(psn);
            // A packet refused in part was accepted in part.
            let skip = frame + if slot.state == State::Written { 0 } else { usize::from(slot.consumed) };
            found = Frames::of(self.tx.packet(psn, self.seal.as_deref())).nth(skip).map(|f| returned(session, ReturnReason::Down(reason), &f));
            if found.is_some() {
                frame += 1;
            } else {
                (psn, frame) = (psn.wrapping_add(1), 0);
            }
        }
        self.stage = Stage::Down { reason, psn, frame };
        found
    }

    /// Whether frames wait to be fetched.
    pub(crate) fn has_returned(&self) -> bool {
        !self.returned.is_empty() || matches!(self.stage, Stage::Down { psn, .. } if psn != self.tx.end)
    }
}

fn returned(session: crate::SessionId, reason: ReturnReason, frame: &Frame<'_>) -> Returned {
    Returned { session, reason, head: frame.head, payload: frame.payload.to_vec() }
}
