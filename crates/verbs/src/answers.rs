// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers of peers: bytes that were read, the value that an atomic found, refusals and the pauses
//! after them.

use crate::cm::CM_TIMER;
use crate::core::Core;
use crate::header::{AGAIN, Code, Head};
use crate::qp::{Send, rnr_time};
use crate::reason::Reason;
use crate::struck::PORT_TIMER;
use crate::types::{Opcode, QpState, WcStatus};
use bellwire_via::Engine;
use bellwire_via::wire::Wire;

/// How often a peer is asked again that is not there, ns.
const ABSENT_PAUSE: u64 = 2_000_000;

impl Core {
    /// The request of that number was not taken.
    #[cold]
    pub(crate) fn refused<W: Wire>(&mut self, engine: &mut Engine<W>, head: &Head) {
        let now = self.now;
        let (Some(code), timer) = (Code::from_bits(head.words[0] as u32), (head.words[0] >> 32) as u8) else { return };
        if self.qp(head.to).is_none_or(|qp| qp.again != (head.flags & AGAIN != 0)) {
            // Of the try before this one, which went back for another refusal already.
            return;
        }
        // The peer has done the requests before it in this try.
        self.answered(head.to, head.number);
        let Some(qp) = self.qp(head.to) else { return };
        let index = head.number.wrapping_sub(qp.first) as usize;
        if index > qp.left || (index == qp.left && qp.part == 0) || qp.state == QpState::Err {
            return;
        }
        let pause = match code {
            Code::NotReady => {
                if qp.attributes.rnr_retries != 7 {
                    if qp.rnr_left == 0 {
                        return self.fail_send(engine, head.to, index, WcStatus::RnrExceeded);
                    }
                    qp.rnr_left -= 1;
                }
                if let Some(send) = qp.sends.get_mut(index) {
                    send.judged.unready = send.judged.unready.saturating_sub(1);
                }
                rnr_time(timer)
            }
            Code::Nobody => {
                if qp.absent_since == 0 {
                    qp.absent_since = now;
                }
                let absent = now.saturating_sub(qp.absent_since);
                if qp.patience().is_some_and(|p| absent >= p) {
                    return self.fail_send_because(engine, head.to, index, WcStatus::RetryExceeded, Reason::NoQueuePair);
                }
                qp.patience().map_or(ABSENT_PAUSE, |p| ABSENT_PAUSE.min(p - absent))
            }
            Code::Access => return self.fail_send(engine, head.to, index, WcStatus::RemoteAccess),
            Code::Invalid => return self.fail_send(engine, head.to, index, WcStatus::RemoteInvalid),
            Code::Operation => return self.fail_send(engine, head.to, index, WcStatus::RemoteOperation),
        };
        let begun = qp.left + usize::from(qp.part != 0);
        qp.go_back(index);
        qp.pause = now + pause;
        let at = qp.pause;
        self.timers.insert((at, head.to));
        if self.is_witnessed {
            self.capture_refusal(head.to, begun, index, (code == Code::NotReady).then_some(timer));
        }
        self.timeouts(engine);
    }

    /// Goes on where a pause is over.
    pub(crate) fn timeouts<W: Wire>(&mut self, engine: &mut Engine<W>) {
        while let Some((at, number)) = self.timers.first().copied().filter(|(at, _)| *at <= self.now) {
            self.timers.remove(&(at, number));
            if number == CM_TIMER {
                self.manage_time(engine);
                continue;
            }
            if number == PORT_TIMER {
                self.change_port(engine);
                continue;
            }
            if self.qp(number).is_some_and(|q| q.orphaned == at) {
                self.end_orphan(engine, number);
            }
            if let Some(qp) = self.qp(number).filter(|q| q.pause == at) {
                qp.pause = 0;
                let reason = qp.reason;
                if qp.is_deserted {
                    self.fail_send_because(engine, number, 0, WcStatus::RetryExceeded, reason);
                }
                self.pump(engine, number, false);
            }
        }
    }

    /// Bytes that we have asked to read.
    pub(crate) fn read_arrived<W: Wire>(&mut self, engine: &mut Engine<W>, head: &Head, payload: (*const u8, usize)) {
        let Some((index, send)) = self.fetching(head, |o| o == Opcode::Read) else { return };
        if head.offset != send.fetched || payload.1 > (send.length - send.fetched) as usize {
            return;
        }
        send.fetched += payload.1 as u32;
        let (length, at) = (send.length, head.offset as usize);
        let Some(qp) = self.qps.get_mut(head.to as usize & (crate::name::QPS_MAX - 1)).and_then(Option::as_deref_mut) else { return };
        let pieces = qp.sends[index].data.pieces();
        // SAFETY: the payload is readable.
        if unsafe { self.regions.scatter(pieces, qp.init.domain, at, payload.0, payload.1) }.is_err() {
            return self.fail_send(engine, head.to, index, WcStatus::LocalProtection);
        }
        if self.strict.is_some() {
            self.saw_answer(head.to, index);
        }
        if at + payload.1 == length as usize {
            self.has_fetched(engine, head.to, index);
        }
    }

    /// What an atomic of ours found.
    pub(crate) fn atomic_arrived<W: Wire>(&mut self, engine: &mut Engine<W>, head: &Head) {
        let Some((index, _)) = self.fetching(head, Opcode::is_atomic) else { return };
        let Some(qp) = self.qps.get_mut(head.to as usize & (crate::name::QPS_MAX - 1)).and_then(Option::as_deref_mut) else { return };
        let value = head.words[0].to_ne_bytes();
        // SAFETY: eight bytes of ours.
        if unsafe { self.regions.scatter(qp.sends[index].data.pieces(), qp.init.domain, 0, value.as_ptr(), 8) }.is_err() {
            return self.fail_send(engine, head.to, index, WcStatus::LocalProtection);
        }
        if self.strict.is_some() {
            self.saw_answer(head.to, index);
        }
        self.has_fetched(engine, head.to, index);
    }

    /// The request that an answer is for.
    fn fetching(&mut self, head: &Head, fits: impl Fn(Opcode) -> bool) -> Option<(usize, &mut Send)> {
        let qp = self.qp(head.to)?;
        let index = head.number.wrapping_sub(qp.first) as usize;
        if index >= qp.left {
            return None;
        }
        let send = &mut qp.sends[index];
        (fits(send.opcode) && !send.done).then_some((index, send))
    }

    fn has_fetched<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32, index: usize) {
        let Some(qp) = self.qp(number) else { return };
        qp.sends[index].done = true;
        qp.fetching = qp.fetching.saturating_sub(1);
        self.end_done(number);
        self.pump(engine, number, false);
    }
}
