// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device of a trial, and what the model knows of its queue pairs.

use bellwire_verbs::machine::Machine;
use bellwire_verbs::{Access, Caps, Opcode, QpInit, QpKind, Region, WcStatus, gid_of};
use bellwire_via::world::World;
use std::collections::VecDeque;

/// Requests that a queue holds, and places for their bytes.
pub const DEPTH: usize = 8;
/// A shared queue tells when it has fewer receives.
pub const LOW: usize = 2;
/// Longest message: more than a packet.
pub const SLOT: usize = 20_000;
/// A receive too short for most.
pub const SHORT: usize = 3;
/// Memory that the peer reaches, for one queue pair.
pub const TARGET: usize = 18_000;
/// Sources, receives, target of one queue pair.
pub const SHARE: usize = 2 * DEPTH * SLOT + TARGET;
pub const KINDS: [QpKind; 4] = [QpKind::Rc, QpKind::Rc, QpKind::Uc, QpKind::Ud];
pub const ROUTE: usize = 40;
pub const QKEY: u32 = 5;

pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() >> 33) as usize % end
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// A send as the model has it.
#[derive(Clone)]
pub struct Sent {
    pub opcode: Opcode,
    pub length: usize,
    pub signalled: bool,
    pub immediate: u32,
    /// What it sends.
    pub bytes: Vec<u8>,
    pub slot: usize,
    /// What it is to find.
    pub finds: Vec<u8>,
    /// How it is to fail.
    pub fails: Option<WcStatus>,
    pub is_done: bool,
}

impl Sent {
    pub fn takes_receive(&self) -> bool {
        matches!(self.opcode, Opcode::Send | Opcode::SendImm | Opcode::WriteImm)
    }
}

/// One end of a pair.
pub struct End {
    pub number: u32,
    pub kind: QpKind,
    /// The shared queue that it takes its receives from, alone.
    pub srq: Option<u32>,
    /// Its shared queue has told that it runs low.
    pub has_run_low: bool,
    pub sends: Vec<Sent>,
    /// The first that has not ended, as far as the model knows.
    pub first: usize,
    pub receives: VecDeque<(u64, usize, usize)>,
    pub receives_posted: u64,
    /// Messages of the peer that came so far, or may have been lost.
    pub messages: usize,
    /// The peer's target, as this end's requests leave it.
    pub target: Vec<u8>,
    pub has_failed: bool,
    /// The peer has asked for what it may not have.
    pub has_denied: bool,
    /// It is yet to be connected.
    pub is_late: bool,
    pub receives_failed: bool,
    /// It drains: of `sends`, those that may have begun before.
    pub held: Option<usize>,
    pub is_drained: bool,
    /// The same, and all completions of before have been taken.
    pub was_drained: bool,
}

pub struct Side {
    pub machine: Machine,
    pub memory: Vec<u8>,
    pub key: u32,
    pub foreign_key: u32,
    pub cq: u32,
    pub ends: Vec<End>,
}

pub fn gid(nic: usize) -> [u8; 16] {
    gid_of(&[10, 0, 0, nic as u8 + 1]).unwrap()
}

pub fn base(side: &Side, pair: usize) -> usize {
    // Atomics want words at their places, and an allocator may align bytes by bytes.
    side.memory.as_ptr().expose_provenance().next_multiple_of(8) + pair * SHARE
}

impl End {
    /// Nothing is posted any more; the peer's target is this now.
    pub fn begin_anew(&mut self, target: Vec<u8>) {
        self.sends.clear();
        self.receives.clear();
        (self.first, self.receives_posted, self.messages) = (0, 0, 0);
        (self.has_failed, self.has_denied, self.receives_failed) = (false, false, false);
        (self.held, self.is_drained, self.was_drained) = (None, false, false);
        self.target = target;
    }
}

impl Side {
    /// `shared`: the pair whose receives are in a shared queue.
    pub fn new(world: &mut World, nic: usize, shared: Option<usize>) -> Self {
        let engine = world.engine(nic);
        let mut machine = Machine::new(engine, gid(nic), 3).unwrap();
        let memory = vec![0u8; KINDS.len() * SHARE + 8];
        let (domain, cq) = (machine.create_domain().unwrap(), machine.create_cq(1000).unwrap());
        let address = memory.as_ptr().expose_provenance() as u64;
        let region = Region { domain, address, length: memory.len() as u64, iova: address, access: Access::all(), adopted: None };
        // SAFETY: R1: the side owns the memory as long as the world lives, and copies from and to
        // it.
        let key = unsafe { machine.register(engine, &region) }.unwrap();
        let caps = Caps { sends: DEPTH as u32, receives: DEPTH as u32, send_pieces: 3, receive_pieces: 3, inline: 256 };
        // The same memory in another domain: a key that is good, but not for these queue pairs.
        let other = machine.create_domain().unwrap();
        // SAFETY: R1: the same memory.
        let foreign_key = unsafe { machine.register(engine, &Region { domain: other, ..region }) }.unwrap();
        let end = |(pair, kind)| {
            let srq = (shared == Some(pair)).then(|| machine.create_srq(domain, DEPTH, 3, LOW).unwrap());
            let init = QpInit { kind, domain, send_cq: cq, receive_cq: cq, srq, caps, signal_all: false, cookie: pair as u64 };
            let number = machine.create_qp(&init).unwrap();
            End {
                number,
                kind,
                srq,
                has_run_low: false,
                sends: Vec::new(),
                first: 0,
                receives: VecDeque::new(),
                receives_posted: 0,
                messages: 0,
                target: vec![0; TARGET],
                has_failed: false,
                has_denied: false,
                is_late: false,
                receives_failed: false,
                held: None,
                is_drained: false,
                was_drained: false,
            }
        };
        let ends = KINDS.into_iter().enumerate().map(end).collect();
        Self { machine, memory, key, foreign_key, cq, ends }
    }
}
