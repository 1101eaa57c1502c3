// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of completions.

use super::Trial;
use super::side::{KINDS, ROUTE, SHORT, SLOT, Sent};
use bellwire_verbs::{Completion, Opcode, QpKind, WcFlags, WcOpcode, WcStatus};

impl Trial {
    pub fn completed(&mut self, me: usize, c: &Completion) {
        let seed = self.seed;
        let pair = self.sides[me].ends.iter().position(|e| e.number == c.qp).unwrap_or_else(|| panic!("seed {seed}: {c:?}"));
        match c.opcode {
            WcOpcode::Receive | WcOpcode::ReceiveWrite => self.received(me, pair, c),
            _ => self.sent(me, pair, c),
        }
    }

    pub fn sent(&mut self, me: usize, pair: usize, c: &Completion) {
        let (seed, side) = (self.seed, &mut self.sides[me]);
        let end = &mut side.ends[pair];
        let index = c.wr_id as usize;
        assert!(index >= end.first && index < end.sends.len(), "seed {seed}: {c:?} again, or never posted");
        for before in end.first..index {
            assert!(!end.sends[before].signalled && !end.has_failed, "seed {seed}: {before} was left out before {c:?}");
            assert_eq!(end.sends[before].fails, None, "seed {seed}: pair {pair}: {before} went well");
        }
        end.first = index + 1;
        let s = &mut end.sends[index];
        s.is_done = true;
        match c.status {
            WcStatus::Success => {
                let kind = match s.opcode {
                    Opcode::Write | Opcode::WriteImm => WcOpcode::Write,
                    Opcode::Send | Opcode::SendImm => WcOpcode::Send,
                    Opcode::Read => WcOpcode::Read,
                    Opcode::FetchAdd => WcOpcode::FetchAdd,
                    Opcode::CompareSwap => WcOpcode::CompareSwap,
                    Opcode::LocalInvalidate | Opcode::Bind | Opcode::SendInvalidate => unreachable!("no program here has windows"),
                };
                assert_eq!((c.opcode, c.byte_len as usize), (kind, s.length), "seed {seed}: pair {pair}: {c:?} of another");
                assert!(!end.has_failed && s.signalled && s.fails.is_none(), "seed {seed}: pair {pair}: {c:?}");
                assert!(end.held.is_none_or(|held| index < held && !end.was_drained), "seed {seed}: pair {pair}: {c:?} while it drains");
                if !s.finds.is_empty() {
                    assert!(side.memory[s.slot..s.slot + s.finds.len()] == s.finds, "seed {seed}: {c:?} found something else");
                }
            }
            // The requests before it are done, or failed; or this end has refused something.
            WcStatus::Flushed => assert!(end.has_failed || end.receives_failed || end.has_denied, "seed {seed}: pair {pair}: {c:?} before the one that failed"),
            status => {
                let by_peer = self.victim == Some(pair)
                    && match status {
                        WcStatus::RetryExceeded => true,
                        WcStatus::RnrExceeded => s.takes_receive(),
                        // The receive was too short.
                        WcStatus::RemoteInvalid => s.takes_receive() && s.length > SHORT,
                        _ => false,
                    };
                assert!(!end.has_failed && (s.fails == Some(status) || by_peer), "seed {seed}: pair {pair}: {c:?}, not {:?}", s.fails);
            }
        }
        end.has_failed |= c.status != WcStatus::Success;
    }

    pub fn received(&mut self, me: usize, pair: usize, c: &Completion) {
        let (seed, kind) = (self.seed, KINDS[pair]);
        let end = &mut self.sides[me].ends[pair];
        let (id, address, length) = end.receives.pop_front().unwrap_or_else(|| panic!("seed {seed}: {c:?} without a receive"));
        assert_eq!(id, c.wr_id, "seed {seed}: receives in order");
        if c.status != WcStatus::Success {
            let is_known = matches!(c.status, WcStatus::Flushed | WcStatus::LocalLength);
            assert!(is_known && self.victim == Some(pair), "seed {seed}: pair {pair}: {c:?}");
            end.receives_failed = true;
            return;
        }
        assert!(!end.receives_failed, "seed {seed}: {c:?} after a failure");
        let start = address - self.sides[me].memory.as_ptr().addr();
        let peer = &self.sides[1 - me].ends[pair];
        let front = if kind == QpKind::Ud { ROUTE } else { 0 };
        let came = &self.sides[me].memory[start + front..start + length.min(SLOT)];
        let is_this = |s: &Sent| {
            let is_write = s.opcode == Opcode::WriteImm;
            let has_immediate = s.opcode != Opcode::Send;
            s.takes_receive()
                && c.byte_len as usize == s.length + front
                && (c.opcode == WcOpcode::ReceiveWrite) == is_write
                && c.flags.contains(WcFlags::WITH_IMM) == has_immediate
                && (!has_immediate || c.immediate == s.immediate)
                && (is_write || came.starts_with(&s.bytes))
        };
        let mut next = (self.sides[me].ends[pair].messages..peer.sends.len()).filter(|i| peer.sends[*i].takes_receive());
        let found = match kind {
            QpKind::Rc => next.next().filter(|i| is_this(&peer.sends[*i])),
            // Some may be lost.
            _ => next.find(|i| is_this(&peer.sends[*i])),
        };
        let found = found.unwrap_or_else(|| panic!("seed {seed}: pair {pair}: {c:?} is not the next message"));
        assert_eq!(c.flags.contains(WcFlags::GRH), kind == QpKind::Ud);
        assert_eq!(c.source, peer.number, "seed {seed}");
        self.sides[me].ends[pair].messages = found + 1;
    }
}
