// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames are taken back while the session goes on: those that are known not to have been delivered
//! and that never will be, because the latest transmission of their packet was refused, or because
//! it has not left. A layer that unloads an endpoint asks for its frames here, until none is left
//! whose fate is open.

use crate::delivery::{Buffer, Frames, Head, Returned};
use crate::event::ReturnReason;
use crate::session::Session;
use crate::tx_window::State;
use bellwire_time::Instant;
use core::ops::Range;

/// The result of [`Transport::recall`](crate::Transport::recall).
#[derive(Clone, Debug, Default)]
pub struct Recalled {
    /// Frames that were taken back, in the order of sending. They have not been and will not be
    /// delivered.
    pub frames: Vec<Returned>,
    /// Frames whose fate is open: their packet has left, and neither its acceptance nor the refusal
    /// of its latest transmission has come.
    pub open: usize,
}

impl<B: Buffer> Session<B> {
    /// Goes through all packets that are not released.
    //= P-NACK-6
    pub(crate) fn recall(&mut self, now: Instant, wanted: &mut dyn FnMut(&Head) -> bool) -> Recalled {
        let mut recalled = Recalled::default();
        let mut psn = self.tx.una;
        while psn != self.tx.end {
            self.recall_from(now, psn, wanted, &mut recalled);
            psn = psn.wrapping_add(1);
        }
        recalled
    }

    fn recall_from(&mut self, now: Instant, psn: u32, wanted: &mut dyn FnMut(&Head) -> bool, recalled: &mut Recalled) {
        let slot = *self.tx.slot(psn);
        let (session, refused) = (self.id, slot.state == State::Refused);
        let is_settled = refused || slot.state == State::Written;
        let consumed = if slot.state == State::Written { 0 } else { usize::from(slot.consumed) };
        let (mut taken, mut kept): (Vec<Range<usize>>, usize) = (Vec::new(), 0);
        for frame in Frames::of(self.tx.packet(psn, self.seal.as_deref())).skip(consumed) {
            if !wanted(&frame.head) {
                kept += 1;
            } else if is_settled {
                taken.push(frame.place.start - frame.head.len() * 8..frame.place.start);
                recalled.frames.push(Returned { session, reason: ReturnReason::Recalled, head: frame.head, payload: frame.payload.to_vec() });
            } else {
                recalled.open += 1;
            }
        }
        if taken.is_empty() {
            return;
        }
        if refused && kept == 0 {
            // It has nothing left to wait for, and others may wait for it.
            self.tx.empty(psn);
            self.tx.hasten(psn, now);
            return;
        }
        //= P-FRAME-3
        let bytes = self.tx.ring.get_mut(slot.start as usize, slot.length as usize);
        taken.into_iter().for_each(|head| bytes[head].fill(0));
    }
}
