// SPDX-License-Identifier: MIT OR Apache-2.0
//! How requests end: answered, failed, flushed; each gives its completion, if it is to, once and in
//! order (C1).

use crate::core::Core;
use crate::name::Name;
use crate::reason::Reason;
use crate::types::{AsyncKind, Completion, QpState, WcStatus};
use bellwire_via::Engine;
use bellwire_via::wire::Wire;

impl Core {
    /// All requests below that number are done.
    pub(crate) fn answered(&mut self, number: u32, below: u32) {
        let Some(qp) = self.qp(number) else { return };
        let n = below.wrapping_sub(qp.first) as usize;
        if n == 0 || n > qp.left {
            return;
        }
        for i in 0..n {
            let send = &mut qp.sends[i];
            send.done |= !send.opcode.fetches();
        }
        qp.rnr_left = qp.attributes.rnr_retries;
        qp.absent_since = 0;
        self.end_done(number);
    }

    /// Completes the requests at the front that are done.
    pub(crate) fn end_done(&mut self, number: u32) {
        while self.qp(number).is_some_and(|q| q.left != 0 && q.sends.front().is_some_and(|s| s.done)) {
            self.end_first(number, WcStatus::Success);
        }
    }

    pub(crate) fn end_first(&mut self, number: u32, status: WcStatus) {
        let Some(qp) = self.qp(number) else { return };
        let Some(send) = qp.sends.pop_front() else { return };
        qp.first = qp.first.wrapping_add(1);
        qp.left = qp.left.saturating_sub(1);
        qp.again &= !qp.sends.is_empty();
        let is_drained = qp.begun != 0 && qp.drains_one();
        let is_told = qp.is_told(&send, status);
        let (cq, completion) = (qp.init.send_cq, qp.completion(&send, status));
        if self.is_witnessed {
            self.witness_end(number, &send, status, is_told);
        }
        if is_told {
            self.complete(cq, completion, false);
        }
        if is_drained {
            self.event(number, AsyncKind::Drained);
        }
    }

    /// The request at `index` has failed. Requests before it that are not done are flushed with the
    /// rest, and the queue pair fails.
    #[cold]
    pub(crate) fn fail_send<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32, index: usize, status: WcStatus) {
        self.fail_send_because(engine, number, index, status, Reason::None);
    }

    /// As [`fail_send`](Self::fail_send), for a reason that the status does not say.
    #[cold]
    pub(crate) fn fail_send_because<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32, index: usize, status: WcStatus, reason: Reason) {
        if self.strict.is_some() {
            self.saw_failure(number, index, status);
        }
        self.end_done(number);
        let Some(qp) = self.qp(number) else { return };
        qp.reason = reason;
        let is_reliable = qp.init.kind.is_reliable();
        for _ in 0..index.min(qp.sends.len()) {
            self.end_first(number, WcStatus::Flushed);
        }
        self.end_first(number, status);
        if let Some(qp) = self.qp(number) {
            // The requests behind it have not succeeded, even if the peer has done them.
            (0..qp.sends.len()).for_each(|i| qp.sends[i].done = false);
        }
        if is_reliable {
            self.enter_error(engine, number);
        } else if let Some(qp) = self.qp(number) {
            qp.state = QpState::Sqe;
            self.flush_sends(number);
        }
    }

    /// Everything in the send queue ends undone.
    pub(crate) fn flush_sends(&mut self, number: u32) {
        self.end_done(number);
        self.judge(number, usize::MAX);
        while self.qp(number).is_some_and(|q| !q.sends.is_empty()) {
            self.end_first(number, WcStatus::Flushed);
        }
        if let Some(qp) = self.qp(number) {
            (qp.left, qp.part, qp.fetching, qp.pause) = (0, 0, 0, 0);
        }
    }

    /// Everything in the receive queue ends undone.
    pub(crate) fn flush_receives(&mut self, number: u32) {
        let Some(qp) = self.qp(number) else { return };
        let reason = qp.reason;
        let arriving = qp.arriving.take().and_then(|a| a.receive);
        let mut posted = core::mem::take(&mut qp.receives.posted);
        for receive in arriving.into_iter().chain(core::iter::from_fn(|| posted.pop_front())) {
            let cq = self.receive_cq(number, &receive);
            self.complete(cq, Completion { reason, ..Completion::of_receive(receive.wr_id, number, WcStatus::Flushed) }, false);
        }
    }

    /// The queue pair fails: nothing is taken or sent any more, and its peer does nothing in our
    /// memory.
    #[cold]
    pub(crate) fn enter_error<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32) {
        self.withdraw_grants(engine, number);
        self.stop(number);
    }

    /// The part of [`enter_error`](Self::enter_error) for a queue pair that has granted nothing.
    #[cold]
    pub(crate) fn stop(&mut self, number: u32) {
        let Some(qp) = self.qp(number) else { return };
        let was = core::mem::replace(&mut qp.state, QpState::Err);
        let is_shared = qp.init.srq.is_some();
        self.flush_sends(number);
        self.flush_receives(number);
        if is_shared && was != QpState::Err {
            self.event(number, AsyncKind::LastWqe);
        }
    }

    /// All queue pairs fail.
    #[cold]
    pub(crate) fn fail_all<W: Wire>(&mut self, engine: &mut Engine<W>) {
        let numbers: Vec<u32> = self.qps.iter().flatten().filter(|q| q.state != QpState::Reset).map(|q| q.number).collect();
        numbers.into_iter().for_each(|number| self.enter_error(engine, number));
    }

    /// Datagrams to a process that is not there are lost, as on a wire.
    #[cold]
    pub(crate) fn drop_datagrams<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32, peer: Name) {
        let gid = self.name.gid;
        loop {
            let Some(qp) = self.qp(number) else { return };
            let Some(first) = qp.sends.front() else { return };
            let goes_there = first.to.is_none_or(|to| Name::of(to.gid.unwrap_or(gid), to.qp) == peer);
            if !goes_there {
                break;
            }
            qp.part = 0;
            self.end_first(number, WcStatus::Success);
        }
        self.pump(engine, number, false);
    }
}
