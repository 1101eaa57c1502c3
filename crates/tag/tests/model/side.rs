// SPDX-License-Identifier: MIT OR Apache-2.0
//! An endpoint of a trial, and what the model knows of its messages, receives and remote requests.

use bellwire_tag::machine::Machine;
use bellwire_tag::{Access, Bindings, Completion, Gather, Name, OwnedBytes, Queue, SendFlags, SharedRegions};
use bellwire_via::world::World;
use std::sync::Arc;

/// Places in a side's memory that each other side writes and reads.
pub const SLOTS: usize = 2;
/// Bytes of one: more than goes in one message's part.
pub const SLOT: usize = 20_000;
pub const SIDES: usize = 3;
/// Where the word lies that all others add to.
pub const COUNTER: usize = SIDES * SLOTS * SLOT;
pub const KEY: u64 = 3;
/// What a byte is that nothing was written to.
pub const UNTOUCHED: u8 = 0xa5;

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

/// A message that a call accepted.
pub struct Message {
    pub from: usize,
    pub to: usize,
    pub tag: Option<u64>,
    pub flags: SendFlags,
    /// Kept until the world is gone.
    pub _memory: OwnedBytes,
    pub bytes: Vec<u8>,
    /// The sender was told how it ended; whether well.
    pub ended: Option<bool>,
    /// The receive that took it.
    pub taken_by: Option<usize>,
}

impl Message {
    /// Whether the sender hears of its end.
    pub fn is_told(&self) -> bool {
        !self.flags.contains(SendFlags::INJECT) || self.flags.contains(SendFlags::COUNTED)
    }
}

/// How a receive ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    Message(usize),
    Canceled,
    Lost,
}

/// A receive that was posted.
pub struct Posted {
    pub at: usize,
    pub tagged: bool,
    pub source: Option<usize>,
    pub tag: u64,
    pub ignore: u64,
    pub memory: OwnedBytes,
    pub ended: Option<Received>,
}

impl Posted {
    /// Whether it may take the message.
    pub fn fits(&self, message: &Message) -> bool {
        let is_tag = message.tag.is_none_or(|tag| (tag ^ self.tag) & !self.ignore == 0);
        self.at == message.to && self.tagged == message.tag.is_some() && self.source.is_none_or(|source| source == message.from) && is_tag
    }
}

pub enum What {
    Write(Vec<u8>),
    Read(Vec<u8>),
    Add(u64),
    /// Beyond the peer's memory.
    Refused,
}

/// A remote request that a call accepted.
pub struct Remote {
    pub from: usize,
    pub to: usize,
    pub slot: usize,
    pub what: What,
    pub memory: OwnedBytes,
    pub ended: Option<bool>,
}

pub struct Side {
    pub machine: Machine,
    /// What the others reach, and what the model says is in it.
    pub memory: OwnedBytes,
    pub expected: Vec<u8>,
    /// The sum that was added, and the values that were found by those who added.
    pub added: u64,
    pub found: Vec<u64>,
}

/// What every side calls side `side`.
pub fn number(side: usize) -> u64 {
    40 + side as u64
}

fn name(side: usize) -> Name {
    let n = side as u8 + 1;
    Name::new(&[10, 0, 0, n], [n; 16]).unwrap()
}

/// Where slot `slot` of the side `of` lies in a side's memory.
pub fn place(of: usize, slot: usize) -> usize {
    (of * SLOTS + slot) * SLOT
}

/// All of `memory`.
pub fn piece(memory: &OwnedBytes) -> Gather {
    // SAFETY: G1: the trial keeps it until the world is gone, and reads and writes it by copying.
    unsafe { Gather::one(memory.as_ptr(), memory.len()) }
}

pub fn filled(bytes: &[u8]) -> OwnedBytes {
    let memory = OwnedBytes::new(bytes.len());
    memory.write(0, bytes);
    memory
}

pub fn contents(memory: &OwnedBytes) -> Vec<u8> {
    let mut bytes = vec![0; memory.len()];
    memory.read(0, &mut bytes);
    bytes
}

impl Side {
    pub fn new(world: &mut World, me: usize) -> Self {
        let regions = SharedRegions::default();
        let mut machine = Machine::new(world.engine(me), name(me), regions.clone()).unwrap();
        let queue = Some(Arc::default());
        machine.bind(Bindings { queues: [queue.clone(), queue], ..Bindings::default() });
        (0..SIDES).filter(|side| *side != me).for_each(|side| assert!(machine.learn(number(side), name(side))));
        let mut expected = vec![UNTOUCHED; COUNTER];
        expected.extend([0; 8]);
        let memory = filled(&expected);
        assert!(regions.lock().insert_owned(KEY, &memory, 0, Access::all()));
        Self { machine, memory, expected, added: 0, found: Vec::new() }
    }

    /// Looks until there is nothing, and takes what has ended.
    pub fn look(&mut self, world: &mut World, me: usize) -> Vec<Completion> {
        while self.machine.poll(world.engine(me)) {}
        self.machine.take_completions(Queue::Sends).into()
    }
}
