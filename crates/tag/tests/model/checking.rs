// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each end of an operation must say, and what must be true when all have ended.

use crate::side::{COUNTER, Received, SIDES, SLOT, UNTOUCHED, What, contents, place};
use crate::{PATIENCE, RECEIVES, Trial};
use bellwire_tag::{Completion, Failure, Notes, SendFlags};

impl Trial {
    pub fn check_send(&mut self, me: usize, id: usize, c: &Completion) {
        let (seed, dead) = (self.seed, self.dead);
        let message = &mut self.messages[id];
        assert_eq!((message.from, message.ended), (me, None), "message {id} ends twice, or elsewhere: {c:?}, seed {seed}");
        assert!(c.notes.contains(Notes::SEND) && c.notes.contains(Notes::TAGGED) == message.tag.is_some());
        // Of one that was copied at once failures alone are told.
        assert!(message.is_told() || c.failure.is_some(), "message {id}: {c:?}, seed {seed}");
        match c.failure {
            None => {
                let is_delivered = message.flags.contains(SendFlags::DELIVERY);
                assert!(!is_delivered || message.taken_by.is_some() || dead == Some(message.to), "message {id} not delivered, seed {seed}");
            }
            Some(Failure::ConnectionLost(_) | Failure::Unreachable(_)) if dead == Some(message.to) => {}
            Some(failure) => panic!("message {id}: {failure:?}, seed {seed}"),
        }
        message.ended = Some(c.failure.is_none());
    }

    pub fn check_receive(&mut self, me: usize, id: usize, c: &Completion) {
        let seed = self.seed;
        let receive = &mut self.receives[id];
        assert_eq!((receive.at, receive.ended), (me, None), "receive {id} ends twice, or elsewhere: {c:?}, seed {seed}");
        assert!(c.notes.contains(Notes::RECEIVE) && c.notes.contains(Notes::TAGGED) == receive.tagged);
        receive.ended = Some(match c.failure {
            Some(Failure::Canceled) => Received::Canceled,
            Some(Failure::ConnectionLost(_) | Failure::Unreachable(_)) if self.dead.is_some() => Received::Lost,
            None | Some(Failure::Truncated) => Received::Message(c.data as usize),
            Some(failure) => panic!("receive {id}: {failure:?}, seed {seed}"),
        });
        let got = contents(&receive.memory);
        let Some(Received::Message(sent)) = receive.ended else {
            // Of a peer that died a part may have come.
            assert!(receive.ended == Some(Received::Lost) || got.iter().all(|byte| *byte == UNTOUCHED), "receive {id}, seed {seed}");
            return;
        };
        let message = &mut self.messages[sent];
        assert!(receive.fits(message) && message.taken_by.is_none(), "message {sent} to receive {id}, seed {seed}");
        assert_eq!(c.source, crate::number(message.from), "seed {seed}");
        assert_eq!(c.tag, message.tag.unwrap_or(0), "seed {seed}");
        let length = message.bytes.len().min(got.len());
        assert_eq!(c.failure.is_some(), message.bytes.len() > got.len(), "message {sent}: {c:?}, seed {seed}");
        assert_eq!((c.length, c.excess), (length, message.bytes.len() - length), "message {sent}, seed {seed}");
        assert!(got[..length] == message.bytes[..length], "bytes of message {sent}, seed {seed}");
        assert!(got[length..].iter().all(|byte| *byte == UNTOUCHED), "bytes beyond message {sent}, seed {seed}");
        message.taken_by = Some(id);
    }

    pub fn check_remote(&mut self, me: usize, id: usize, c: &Completion) {
        let (seed, dead) = (self.seed, self.dead);
        let remote = &mut self.remotes[id];
        assert_eq!((remote.from, remote.ended), (me, None), "request {id} ends twice, or elsewhere: {c:?}, seed {seed}");
        remote.ended = Some(c.failure.is_none());
        if matches!(c.failure, Some(Failure::ConnectionLost(_) | Failure::Unreachable(_))) && dead == Some(remote.to) {
            return;
        }
        if matches!(remote.what, What::Refused) {
            assert_eq!(c.failure, Some(Failure::RemoteAccess), "request {id}, seed {seed}");
            return;
        }
        assert_eq!(c.failure, None, "request {id}, seed {seed}");
        let (owner, at) = (&mut self.sides[remote.to], place(remote.from, remote.slot));
        match &remote.what {
            What::Write(bytes) => owner.expected[at..at + bytes.len()].copy_from_slice(bytes),
            What::Read(bytes) => assert!(contents(&remote.memory) == *bytes, "read {id}, seed {seed}"),
            What::Add(operand) => {
                let mut found = [0; 8];
                remote.memory.read(8, &mut found);
                owner.added += operand;
                owner.found.push(u64::from_ne_bytes(found));
            }
            What::Refused => {}
        }
    }

    /// A message between sides that are alive which nobody has taken.
    fn waiting(&self) -> Option<usize> {
        self.messages.iter().position(|m| m.taken_by.is_none() && self.is_alive(m.from) && self.is_alive(m.to))
    }

    /// Operations that somebody alive waits for, but for receives.
    fn is_under_way(&self) -> bool {
        let sends = self.messages.iter().any(|m| m.is_told() && m.ended.is_none() && self.is_alive(m.from));
        sends || self.remotes.iter().any(|r| r.ended.is_none() && self.is_alive(r.from))
    }

    /// Takes what nobody has asked for, until all has ended; then checks the whole.
    pub fn end(&mut self) {
        let end = self.world.now() + PATIENCE;
        let begun = self.receives.len();
        while let Some(message) = self.waiting() {
            let (to, is_tagged) = (self.messages[message].to, self.messages[message].tag.is_some());
            // One that takes anything waits there, until it has.
            if !self.receives[begun..].iter().any(|r| (r.at, r.tagged, r.ended) == (to, is_tagged, None)) {
                self.post(to, is_tagged, None, (0, u64::MAX), SLOT);
            }
            self.turn();
            assert!(self.world.now() < end, "message {message} is never taken, seed {}", self.seed);
        }
        while self.is_under_way() {
            self.turn();
            assert!(self.world.now() < end, "something never ends, seed {}", self.seed);
        }
        for receive in 0..self.receives.len() {
            if self.receives[receive].ended.is_none() && self.is_alive(self.receives[receive].at) && !self.take_back(receive) {
                // It has a message of the dead side, which never comes.
                while self.receives[receive].ended.is_none() {
                    self.turn();
                    assert!(self.world.now() < end, "receive {} never ends, seed {}", RECEIVES + receive, self.seed);
                }
            }
        }
        self.check_order();
        self.check_memory();
        for me in (0..SIDES).filter(|side| self.dead != Some(*side)) {
            self.sides[me].machine.close(self.world.engine(me));
            assert_eq!(self.sides[me].machine.holds(), (0, 0), "seed {}", self.seed);
        }
    }

    /// Of one sender's messages no receive takes a later one while an earlier one that fits waits
    /// for a later receive, or for none.
    fn check_order(&self) {
        for (r, receive) in self.receives.iter().enumerate() {
            let taken = match receive.ended {
                Some(Received::Message(taken)) => Some(taken),
                Some(Received::Canceled | Received::Lost) => continue,
                None => None,
            };
            for (m, message) in self.messages.iter().enumerate() {
                let is_lost = message.taken_by.is_none() && !(self.is_alive(message.from) && self.is_alive(message.to));
                if is_lost || !receive.fits(message) {
                    continue;
                }
                let is_passed = taken.is_some_and(|t| self.messages[t].from == message.from && t > m);
                assert!(!is_passed || message.taken_by.is_some_and(|other| other < r), "message {m} was passed at receive {r}, seed {}", self.seed);
            }
        }
    }

    fn check_memory(&mut self) {
        for owner in (0..SIDES).filter(|side| self.dead != Some(*side)) {
            let memory = contents(&self.sides[owner].memory);
            // What a dead side wrote last is not known.
            for from in (0..SIDES).filter(|side| *side != owner && self.dead != Some(*side)) {
                let slots = place(from, 0)..place(from, 0) + crate::SLOTS * SLOT;
                assert!(memory[slots.clone()] == self.sides[owner].expected[slots], "memory of side {owner} for side {from}, seed {}", self.seed);
            }
            let side = &mut self.sides[owner];
            let sum = u64::from_ne_bytes(memory[COUNTER..].try_into().unwrap());
            assert!(sum == side.added || (self.dead.is_some() && sum > side.added), "sum of side {owner}: {sum}, {}, seed {}", side.added, self.seed);
            let count = side.found.len();
            side.found.sort_unstable();
            side.found.dedup();
            assert!(side.found.len() == count && side.found.iter().all(|found| *found < sum), "what was found at side {owner}, seed {}", self.seed);
        }
    }
}
