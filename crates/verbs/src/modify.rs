// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state machine of a queue pair: which moves there are, what each needs and allows, by
//! service.

use crate::core::Core;
use crate::qp::{Qp, QpAttributes};
use crate::types::{AsyncKind, Error, QpKind, QpState};
use bellwire_via::Engine;
use bellwire_via::wire::Wire;

bitflags::bitflags! {
    /// Which attributes are given. The numbers are the interface's.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Given: u32 {
        /// The state to move to.
        const STATE = 1;
        /// The state that it is believed to be in.
        const CURRENT_STATE = 1 << 1;
        /// Whether an event says that sends are drained.
        const DRAIN_NOTIFY = 1 << 2;
        /// [`QpAttributes::access`].
        const ACCESS = 1 << 3;
        /// Index of the partition key.
        const PKEY_INDEX = 1 << 4;
        /// [`QpAttributes::port`].
        const PORT = 1 << 5;
        /// [`QpAttributes::qkey`].
        const QKEY = 1 << 6;
        /// [`QpAttributes::gid`].
        const ADDRESS = 1 << 7;
        /// [`QpAttributes::mtu`].
        const MTU = 1 << 8;
        /// [`QpAttributes::timeout`].
        const TIMEOUT = 1 << 9;
        /// [`QpAttributes::retries`].
        const RETRIES = 1 << 10;
        /// [`QpAttributes::rnr_retries`].
        const RNR_RETRIES = 1 << 11;
        /// [`QpAttributes::receive_number`].
        const RECEIVE_NUMBER = 1 << 12;
        /// [`QpAttributes::reads_out`].
        const READS_OUT = 1 << 13;
        /// Alternative path.
        const ALTERNATIVE = 1 << 14;
        /// [`QpAttributes::rnr_timer`].
        const RNR_TIMER = 1 << 15;
        /// [`QpAttributes::send_number`].
        const SEND_NUMBER = 1 << 16;
        /// [`QpAttributes::reads_in`].
        const READS_IN = 1 << 17;
        /// State of the alternative path.
        const MIGRATION = 1 << 18;
        /// Sizes.
        const CAPS = 1 << 19;
        /// [`QpAttributes::peer`].
        const PEER = 1 << 20;
    }
}

/// What a move needs, and what it allows besides; `None`: there is no such move.
fn rules(kind: QpKind, from: QpState, to: QpState) -> Option<(Given, Given)> {
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
    let none = Given::empty();
    let base = Given::PKEY_INDEX | Given::PORT | if kind == QpKind::Ud { Given::QKEY } else { Given::ACCESS };
    let while_up = Given::CURRENT_STATE
        | match kind {
            QpKind::Ud => Given::QKEY,
            QpKind::Uc => Given::ACCESS | Given::ALTERNATIVE | Given::MIGRATION,
            QpKind::Rc | QpKind::XrcReceive => Given::ACCESS | Given::ALTERNATIVE | Given::MIGRATION | Given::RNR_TIMER,
            QpKind::XrcSend => Given::ACCESS | Given::ALTERNATIVE | Given::MIGRATION,
        };
    let connected = Given::ADDRESS | Given::MTU | Given::PEER | Given::RECEIVE_NUMBER;
    Some(match (from, to) {
        (_, Reset | Err) => (none, none),
        (Reset, Init) => (base, none),
        (Init, Init) => (none, base),
        (Init, Rtr) => match kind {
            QpKind::Ud => (none, Given::PKEY_INDEX | Given::QKEY),
            QpKind::Uc | QpKind::XrcSend => (connected, Given::ALTERNATIVE | Given::ACCESS | Given::PKEY_INDEX),
            QpKind::Rc | QpKind::XrcReceive => (connected | Given::READS_IN | Given::RNR_TIMER, Given::ALTERNATIVE | Given::ACCESS | Given::PKEY_INDEX),
        },
        (Rtr, Rts) => match kind {
            QpKind::Rc | QpKind::XrcSend => (Given::SEND_NUMBER | Given::TIMEOUT | Given::RETRIES | Given::RNR_RETRIES | Given::READS_OUT, while_up),
            // It sends nothing; programs that treat it as the sending side may say so.
            QpKind::XrcReceive => (Given::SEND_NUMBER, while_up | Given::TIMEOUT | Given::RETRIES | Given::RNR_RETRIES | Given::READS_OUT),
            _ => (Given::SEND_NUMBER, while_up),
        },
        (Rts, Rts) | (Sqd, Rts) => (none, while_up),
        (Rts, Sqd) => (none, Given::DRAIN_NOTIFY),
        (Sqd, Sqd) => match kind {
            QpKind::Ud => (none, Given::PKEY_INDEX | Given::QKEY),
            QpKind::Uc => (none, Given::ADDRESS | Given::ALTERNATIVE | Given::ACCESS | Given::PKEY_INDEX | Given::MIGRATION),
            QpKind::Rc | QpKind::XrcSend | QpKind::XrcReceive => (
                none,
                Given::PORT
                    | Given::ADDRESS
                    | Given::TIMEOUT
                    | Given::RETRIES
                    | Given::RNR_RETRIES
                    | Given::READS_OUT
                    | Given::READS_IN
                    | Given::ALTERNATIVE
                    | Given::ACCESS
                    | Given::PKEY_INDEX
                    | Given::RNR_TIMER
                    | Given::MIGRATION,
            ),
        },
        (Sqe, Rts) if !kind.is_reliable() => (none, Given::CURRENT_STATE | if kind == QpKind::Ud { Given::QKEY } else { Given::ACCESS }),
        _ => return None,
    })
}

/// The moves of a new queue pair of that service until it may send, and what has to be given with
/// each.
pub fn connecting(kind: QpKind) -> [(QpState, Given); 3] {
    let moves = [(QpState::Reset, QpState::Init), (QpState::Init, QpState::Rtr), (QpState::Rtr, QpState::Rts)];
    moves.map(|(from, to)| (to, rules(kind, from, to).map_or(Given::empty(), |(needed, _)| needed)))
}

impl Qp {
    fn take(&mut self, a: &QpAttributes, given: Given) -> Result<(), Error> {
        let has = |g| given.contains(g);
        let fits = (!has(Given::PORT) || a.port == 1)
            && (!has(Given::RETRIES) || a.retries <= 7)
            && (!has(Given::RNR_RETRIES) || a.rnr_retries <= 7)
            && (!has(Given::TIMEOUT) || a.timeout <= 31)
            && (!has(Given::RNR_TIMER) || a.rnr_timer <= 31)
            && (!has(Given::MTU) || (1..=5).contains(&a.mtu))
            && (!has(Given::PEER) || a.peer < 1 << 24)
            && (!has(Given::READS_OUT) || u32::from(a.reads_out) <= READS_MAX)
            && (!has(Given::READS_IN) || u32::from(a.reads_in) <= READS_MAX);
        if !fits {
            return Err(Error::Invalid);
        }
        let own = &mut self.attributes;
        macro_rules! set {
            ($($flag:ident: $field:ident),*) => { $(if has(Given::$flag) { own.$field = a.$field; })* };
        }
        set!(ACCESS: access, PORT: port, QKEY: qkey, ADDRESS: gid, MTU: mtu, TIMEOUT: timeout, RETRIES: retries, RNR_RETRIES: rnr_retries, RNR_TIMER: rnr_timer);
        set!(READS_OUT: reads_out, READS_IN: reads_in, PEER: peer, SEND_NUMBER: send_number, RECEIVE_NUMBER: receive_number);
        if given.intersects(Given::ADDRESS | Given::PEER) {
            self.known_by = None;
        }
        // Messages are counted here, not packets: of the numbers that both sides have agreed on
        // only the equality matters.
        if has(Given::RECEIVE_NUMBER) {
            (self.expected, self.told) = (a.receive_number & 0xff_ffff, a.receive_number & 0xff_ffff);
        }
        if has(Given::SEND_NUMBER) {
            self.first = a.send_number & 0xff_ffff;
        }
        if has(Given::RNR_RETRIES) {
            self.rnr_left = a.rnr_retries;
        }
        Ok(())
    }
}

/// Reads and atomics of a queue pair that may be under way.
pub const READS_MAX: u32 = 128;

impl Core {
    /// Changes attributes and state.
    pub(crate) fn modify<W: Wire>(
        &mut self,
        engine: &mut Engine<W>,
        number: u32,
        to: Option<QpState>,
        current: Option<QpState>,
        a: &QpAttributes,
        given: Given,
    ) -> Result<(), Error> {
        let qp = self.qp(number).ok_or(Error::Invalid)?;
        let from = qp.state;
        if current.is_some_and(|c| c != from && !(c == QpState::Rts && from == QpState::Sqe)) {
            return Err(Error::Invalid);
        }
        let to = to.unwrap_or(from);
        let (needs, allows) = rules(qp.init.kind, from, to).ok_or(Error::Invalid)?;
        let given = given - Given::STATE;
        if !given.contains(needs) || !(needs | allows).contains(given) {
            return Err(Error::Invalid);
        }
        match to {
            QpState::Reset | QpState::Err => {
                // The peer hears of its requests that are done.
                self.tell(engine, number);
                if to == QpState::Err {
                    self.enter_error(engine, number);
                } else {
                    self.withdraw_grants(engine, number);
                    self.judge(number, usize::MAX);
                    self.forget_completions(number);
                    self.qp(number).ok_or(Error::Invalid)?.reset();
                }
            }
            _ => {
                let before = qp.attributes.access;
                qp.take(a, given)?;
                qp.state = to;
                let is_narrower = !qp.attributes.access.contains(before);
                if from == QpState::Rts && to == QpState::Sqd {
                    if qp.drain(given.contains(Given::DRAIN_NOTIFY) && a.drains) {
                        self.event(number, AsyncKind::Drained);
                    }
                } else if to == QpState::Rts {
                    (qp.begun, qp.tells_drained) = (0, false);
                    self.pump(engine, number, false);
                }
                if is_narrower {
                    self.withdraw_grants(engine, number);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves() {
        use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
        for kind in [QpKind::Rc, QpKind::Uc, QpKind::Ud, QpKind::XrcSend, QpKind::XrcReceive] {
            for from in [Reset, Init, Rtr, Rts, Sqd, Sqe, Err] {
                assert!(rules(kind, from, Reset).is_some() && rules(kind, from, Err).is_some());
            }
            assert!(
                rules(kind, Reset, Rtr).is_none() && rules(kind, Init, Rts).is_none() && rules(kind, Err, Rts).is_none() && rules(kind, Err, Init).is_none()
            );
            assert!(rules(kind, Reset, Init).is_some_and(|(needs, _)| needs.contains(Given::PORT | Given::PKEY_INDEX)));
        }
        assert!(rules(QpKind::Rc, Sqe, Rts).is_none());
        assert!(rules(QpKind::Rc, Rtr, Rts).is_some_and(|(needs, _)| needs.contains(Given::TIMEOUT)));
        assert!(rules(QpKind::Ud, Init, Rtr).is_some_and(|(needs, allows)| needs.is_empty() && !allows.contains(Given::PEER)));
    }
}
