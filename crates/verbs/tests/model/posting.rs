// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a trial posts.

use super::Trial;
use super::side::{DEPTH, KINDS, QKEY, SLOT, Sent, TARGET, base, gid};
use bellwire_verbs::{Destination, Opcode, QpKind, SendFlags, SendRequest, Sge, WcStatus};

/// A request that is to be posted.
pub struct Wish {
    pub opcode: Opcode,
    pub length: usize,
    pub flags: SendFlags,
    /// How it is to fail.
    pub fails: Option<WcStatus>,
}

impl Trial {
    /// Cuts a range into one to three pieces.
    pub fn pieces(&mut self, address: usize, length: usize, key: u32) -> Vec<Sge> {
        let mut cuts = vec![0, length];
        let more = if self.is_brief && !self.random.one_in(8) { 0 } else { self.random.below(3) };
        for _ in 0..more {
            cuts.push(self.random.below(length + 1));
        }
        cuts.sort_unstable();
        cuts.windows(2).map(|w| Sge { address: (address + w[0]) as u64, length: (w[1] - w[0]) as u32, key }).collect()
    }

    pub fn post_receive(&mut self, me: usize, pair: usize, length: usize) {
        let side = &self.sides[me];
        if side.ends[pair].receives.len() >= DEPTH || side.ends[pair].is_late {
            return;
        }
        let id = side.ends[pair].receives_posted;
        let address = base(side, pair) + (DEPTH + id as usize % DEPTH) * SLOT;
        let pieces = self.pieces(address, length, side.key);
        let side = &mut self.sides[me];
        let end = &mut side.ends[pair];
        match end.srq {
            Some(srq) => side.machine.post_srq(srq, id, &pieces).unwrap(),
            None => side.machine.post_receive(end.number, id, &pieces).unwrap(),
        }
        end.receives.push_back((id, address, length));
        end.receives_posted += 1;
    }

    /// Posts a request; `fails`: one that fails so.
    pub fn post_send(&mut self, me: usize, pair: usize, fails: Option<WcStatus>) {
        let kind = KINDS[pair];
        let all = [Opcode::Send, Opcode::SendImm, Opcode::Write, Opcode::WriteImm, Opcode::Read, Opcode::FetchAdd, Opcode::CompareSwap];
        let is_brief = self.is_brief && fails.is_none() && !self.random.one_in(8);
        let opcode = match (kind, fails) {
            (_, None) if is_brief => all[self.random.below(2)],
            (_, Some(WcStatus::RemoteAccess)) => all[2 + self.random.below(4)],
            (_, Some(_)) => all[self.random.below(2)],
            (QpKind::Rc, None) => all[self.random.below(7)],
            (QpKind::Uc, None) => [Opcode::Send, Opcode::SendImm, Opcode::Write][self.random.below(3)],
            (QpKind::Ud, None) => all[self.random.below(2)],
            (QpKind::XrcSend | QpKind::XrcReceive, None) => unreachable!("KINDS has none"),
        };
        let is_atomic = matches!(opcode, Opcode::FetchAdd | Opcode::CompareSwap);
        let to_memory = !matches!(opcode, Opcode::Send | Opcode::SendImm);
        let most = match kind {
            _ if to_memory => TARGET,
            QpKind::Ud => 4096,
            _ => SLOT,
        };
        let length = match self.random.below(6) {
            _ if is_atomic => 8,
            _ if is_brief => self.random.below(36),
            0 if fails.is_none() => 0,
            1 | 2 => 1 + self.random.below(64),
            _ => 1 + self.random.below(most),
        };
        let flags = [SendFlags::SIGNALED, SendFlags::FENCE, SendFlags::SOLICITED, SendFlags::INLINE];
        let mut flags: SendFlags = flags.into_iter().filter(|_| self.random.one_in(2)).collect();
        if is_brief {
            flags -= SendFlags::FENCE;
        }
        self.post(me, pair, &Wish { opcode, length, flags, fails });
    }

    /// The same, where that is chosen.
    pub fn post(&mut self, me: usize, pair: usize, wish: &Wish) {
        let Wish { opcode, length, mut flags, fails } = *wish;
        let (kind, is_atomic) = (KINDS[pair], matches!(opcode, Opcode::FetchAdd | Opcode::CompareSwap));
        let at = if is_atomic { 8 * self.random.below(TARGET / 8) } else { self.random.below(TARGET - length.min(TARGET) + 1) };
        let (place, there, key, key_there, number) = {
            let (side, peer) = (&self.sides[me], &self.sides[1 - me]);
            let end = &side.ends[pair];
            if end.sends.len() - end.first >= DEPTH || end.is_late {
                return;
            }
            (end.sends.len() % DEPTH, base(peer, pair) + 2 * DEPTH * SLOT, side.key, peer.key, end.number)
        };
        let bytes: Vec<u8> = (0..length).map(|_| self.random.next() as u8).collect();
        let address = base(&self.sides[me], pair) + place * SLOT;
        let start = address - self.sides[me].memory.as_ptr().addr();
        self.sides[me].memory[start..start + length].copy_from_slice(&bytes);
        if length > 256 || fails.is_some() {
            flags -= SendFlags::INLINE;
        }
        // A read may be done after what comes behind it, if that is not fenced: so the rules are.
        let changes = matches!(opcode, Opcode::Write | Opcode::WriteImm | Opcode::FetchAdd | Opcode::CompareSwap);
        let end = &self.sides[me].ends[pair];
        if changes && fails.is_none() && end.sends[end.first..].iter().any(|s| s.opcode == Opcode::Read) {
            flags |= SendFlags::FENCE;
        }
        // An invalid key, or one of another domain.
        let is_foreign = self.random.one_in(2);
        let bad = |key: u32, foreign: u32| if is_foreign { foreign } else { key ^ 1 << 19 };
        let here = if fails == Some(WcStatus::LocalProtection) { bad(key, self.sides[me].foreign_key) } else { key };
        let key_there = if fails == Some(WcStatus::RemoteAccess) { bad(key_there, self.sides[1 - me].foreign_key) } else { key_there };
        let pieces = self.pieces(address, length, here);
        let operands = [self.random.next() % 3, self.random.next() % 3];
        let request = SendRequest {
            wr_id: self.sides[me].ends[pair].sends.len() as u64,
            opcode,
            flags,
            pieces: &pieces,
            immediate: self.random.next() as u32,
            address: (there + at) as u64,
            key: key_there,
            operands,
            extra: bellwire_verbs::Extra::None,
            to: (kind == QpKind::Ud).then(|| Destination { gid: Some(gid(1 - me)), qp: self.sides[1 - me].ends[pair].number, qkey: QKEY }),
        };
        let (machine, engine) = (&mut self.sides[me].machine, self.world.engine(me));
        // SAFETY: R2: the pieces lie in the side's memory.
        unsafe { machine.post_send(engine, number, &request) }.unwrap_or_else(|e| panic!("seed {}: {e}", self.seed));
        let end = &mut self.sides[me].ends[pair];
        let mut finds = Vec::new();
        if fails.is_none() {
            let word = |t: &[u8]| u64::from_ne_bytes(t[at..at + 8].try_into().unwrap());
            match opcode {
                Opcode::Write | Opcode::WriteImm => end.target[at..at + length].copy_from_slice(&bytes),
                Opcode::Read => finds = end.target[at..at + length].to_vec(),
                Opcode::FetchAdd | Opcode::CompareSwap => {
                    let old = word(&end.target);
                    finds = old.to_ne_bytes().to_vec();
                    let new = match opcode {
                        Opcode::FetchAdd => old.wrapping_add(operands[0]),
                        _ if old == operands[1] => operands[0],
                        _ => old,
                    };
                    end.target[at..at + 8].copy_from_slice(&new.to_ne_bytes());
                }
                _ => {}
            }
        }
        let immediate = request.immediate;
        end.sends.push(Sent { opcode, length, signalled: flags.contains(SendFlags::SIGNALED), immediate, bytes, slot: start, finds, fails, is_done: false });
    }
}
