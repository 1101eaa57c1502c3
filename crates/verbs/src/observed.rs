// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tracing notes how far the queue pairs have come since the NIC's token was let go last
//! (`bellwire-via` says how a NIC is traced). Of more than [`PAIRS_EACH`], so many in turn.

use crate::qp::Qp;
use crate::types::QpState;
use bellwire_trace::turns::Turns;
use bellwire_trace::{Kind, here};

/// Queue pairs compared each time.
const PAIRS_EACH: usize = 64;

/// Where a queue pair stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    number: u32,
    life: u8,
    state: QpState,
    /// Numbers of requests: of the oldest that is not complete, of the next to leave, and of the
    /// next to be posted.
    done: u32,
    left: u32,
    posted: u32,
    /// Number of the next request of the peer.
    expected: u32,
}

impl Places {
    fn of(qp: &Qp) -> Self {
        let (done, left, posted) = (qp.first, qp.first.wrapping_add(qp.left as u32), qp.first.wrapping_add(qp.sends.len() as u32));
        Self { number: qp.number, life: qp.life, state: qp.state, done, left, posted, expected: qp.expected }
    }

    /// Of one that has just been made, or begun again.
    fn new(qp: &Qp) -> Self {
        Self { state: QpState::Reset, done: 0, left: 0, posted: 0, expected: qp.attributes.receive_number, ..Self::of(qp) }
    }
}

/// The places that were seen last.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pairs: Vec<Option<Places>>,
    turns: Turns,
}

impl Observed {
    /// Takes what has been so far as seen, and tells states alone.
    pub(crate) fn begin(&mut self, qps: &[Option<Box<Qp>>]) {
        self.pairs = qps.iter().map(|qp| qp.as_deref().map(Places::of)).collect();
        for qp in qps.iter().flatten() {
            here::note(Kind::PairState, qp.number, [qp.state as u64, qp.attributes.peer.into()]);
        }
    }

    /// Notes what has changed.
    pub(crate) fn look(&mut self, qps: &[Option<Box<Qp>>]) {
        let all = qps.len();
        let Self { pairs, turns } = self;
        pairs.resize(all.max(pairs.len()), None);
        for at in turns.take(all, PAIRS_EACH) {
            let now = qps[at].as_deref().map(|qp| (qp, Places::of(qp)));
            if let Some((qp, now)) = &now {
                let before = pairs[at].filter(|before| (before.number, before.life) == (now.number, now.life)).unwrap_or_else(|| Places::new(qp));
                if before != *now {
                    tell(qp, &before, now);
                }
            }
            pairs[at] = now.map(|(_, now)| now);
        }
    }
}

#[inline(never)]
fn tell(qp: &Qp, before: &Places, now: &Places) {
    let note = |kind, from: u32, to: u32, with: u64| {
        let requests = to.wrapping_sub(from).cast_signed();
        if requests > 0 {
            here::note(kind, now.number, [requests as u64, with]);
        }
        requests
    };
    let mut before = *before;
    if now.state != before.state {
        // Numbers begin where the program says.
        if before.state == QpState::Init {
            before.expected = qp.attributes.receive_number;
        }
        if matches!(before.state, QpState::Init | QpState::Rtr) {
            (before.done, before.left, before.posted) = (qp.attributes.send_number, qp.attributes.send_number, qp.attributes.send_number);
        }
        here::note(Kind::PairState, now.number, [now.state as u64, qp.attributes.peer.into()]);
    }
    note(Kind::PairTaken, before.expected, now.expected, 0);
    note(Kind::PairPosted, before.posted, now.posted, now.posted.wrapping_sub(now.done).into());
    // Complete requests have left, also if they went and were acknowledged in between.
    let left = if now.left.wrapping_sub(now.done).cast_signed() < 0 { now.done } else { now.left };
    if note(Kind::PairLeft, before.left, left, 0) < 0 {
        here::note(Kind::PairAgain, now.number, [before.left.wrapping_sub(left).into(), 0]);
    }
    note(Kind::PairDone, before.done, now.done, 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Opcode, WcStatus};
    use bellwire_trace::kinds::Form;

    /// The table of events has the words of the interface's numbers.
    #[test]
    fn words_and_numbers() {
        let words = |kind: Kind, field: usize| if let Form::Words(words) = kind.about().fields[field].form { words } else { &[] };
        let states = words(Kind::PairState, 0);
        for (state, word) in [(QpState::Reset, "RESET"), (QpState::Init, "INIT"), (QpState::Rtr, "RTR"), (QpState::Rts, "RTS"), (QpState::Err, "ERR")] {
            assert_eq!(states[state as usize], word);
        }
        let requests = words(Kind::PostSend, 2);
        for (opcode, word) in [(Opcode::Send, "SEND"), (Opcode::Write, "RDMA_WRITE"), (Opcode::Read, "RDMA_READ"), (Opcode::FetchAdd, "ATOMIC_FETCH_AND_ADD")] {
            assert_eq!(requests[opcode as usize], word);
        }
        let statuses = words(Kind::WorkCompletion, 1);
        for (status, word) in [(WcStatus::Success, "SUCCESS"), (WcStatus::RetryExceeded, "RETRY_EXC_ERR"), (WcStatus::RemoteAccess, "REM_ACCESS_ERR")] {
            assert_eq!(statuses[status as usize], word);
        }
    }
}
