// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two endpoints over the network in memory, small enough for Miri (`scripts/miri.sh`): messages
//! that are expected and that are not, short and long, a message that is cut off, a write, a read,
//! an atomic, a target that is refused, the death of a peer, an end in good order.

use bellwire_tag::machine::Machine;
use bellwire_tag::{
    Access, AtomicOp, AtomicRequest, Bindings, Completion, DataType, Failure, Form, Gather, Name, Notes, OwnedBytes, Queue, ReceiveFlags, RemoteFlags,
    RemoteRequest, SendFlags, SendOut, SharedRegions, Target, Want,
};
use bellwire_via::time::Duration;
use bellwire_via::wire::sim::SimConfig;
use bellwire_via::world::World;
use std::sync::Arc;

/// A message that waits at its sender until somebody wants it.
const LONG: usize = 17_000;
const HALF: usize = 18_000;
const KEY: u64 = 3;
/// What each side calls the other.
const PEER: u64 = 40;

struct Side {
    machine: Machine,
    /// The first half is for what the side sends and reads, the second for what comes.
    memory: OwnedBytes,
    done: Vec<Completion>,
}

/// The world is dropped first: nothing reaches the memory of the sides then.
struct Pair {
    world: World,
    sides: [Side; 2],
}

fn name(nic: usize) -> Name {
    let number = nic as u8 + 1;
    Name::new(&[10, 0, 0, number], [number; 16]).unwrap()
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + length) as u8).collect()
}

impl Side {
    fn new(world: &mut World, nic: usize) -> Self {
        let regions = SharedRegions::default();
        let mut machine = Machine::new(world.engine(nic), name(nic), regions.clone()).unwrap();
        let queue = Some(Arc::default());
        machine.bind(Bindings { queues: [queue.clone(), queue], ..Bindings::default() });
        assert!(machine.learn(PEER, name(1 - nic)));
        let memory = OwnedBytes::new(2 * HALF);
        assert!(regions.lock().insert_owned(KEY, &memory, 0, Access::all()));
        Self { machine, memory, done: Vec::new() }
    }

    fn piece(&self, at: usize, length: usize) -> Gather {
        assert!(at + length <= self.memory.len());
        // SAFETY: G1: the memory lives as long as the side, and is changed as atomics or by
        // copying.
        unsafe { Gather::one(self.memory.as_ptr().wrapping_add(at), length) }
    }

    fn bytes(&self, at: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory.read(at, &mut bytes);
        bytes
    }
}

impl Pair {
    fn new() -> Self {
        let mut world = World::with_nics(SimConfig::default(), 2);
        let sides = [0, 1].map(|nic| Side::new(&mut world, nic));
        Self { world, sides }
    }

    /// Side 0 sends its first bytes.
    fn send(&mut self, length: usize, tag: u64, flags: SendFlags) {
        let side = &mut self.sides[0];
        let send = SendOut { peer: PEER, tag: Some(tag), data: Some(tag + 1), from: side.piece(0, length), context: 1, flags };
        side.machine.send(self.world.engine(0), &send).unwrap();
    }

    /// Side 1 wants a message.
    fn receive(&mut self, length: usize, tag: u64) {
        let side = &mut self.sides[1];
        let to = side.piece(HALF, length);
        let want = Want { tagged: true, source: None, tag, ignore: 0, to, context: 2, flags: ReceiveFlags::empty() };
        side.machine.receive(self.world.engine(1), &want).unwrap();
    }

    fn reach(&mut self, address: usize, length: usize, is_write: bool) {
        let side = &mut self.sides[0];
        let target = Target { peer: PEER, address: address as u64, key: KEY };
        let request = RemoteRequest { target, local: side.piece(0, length), data: None, context: 3, flags: RemoteFlags::empty() };
        side.machine.reach(self.world.engine(0), &request, is_write).unwrap();
    }

    /// Polls the machines of the first `alive` sides, and lets time go on to the next event.
    fn turn(&mut self, alive: usize) {
        for (nic, side) in self.sides.iter_mut().enumerate().take(alive) {
            while side.machine.poll(self.world.engine(nic)) {}
            side.done.extend(side.machine.take_completions(Queue::Sends));
        }
        self.world.step_at_most(self.world.now() + Duration::from_micros(1000));
    }

    /// Waits for the next completion of a side.
    fn ended(&mut self, nic: usize, alive: usize) -> Completion {
        let end = self.world.now() + Duration::from_secs(60);
        while self.sides[nic].done.is_empty() {
            assert!(self.world.now() < end, "no completion of side {nic}");
            self.turn(alive);
        }
        self.sides[nic].done.remove(0)
    }
}

#[test]
fn messages() {
    let mut pair = Pair::new();
    for (tag, length) in (0..).zip([0, 8, 500, LONG, 60, 8]) {
        let data = pattern(length);
        pair.sides[0].memory.write(0, &data);
        // By turns wanted first, and sent first.
        if tag % 2 == 0 {
            pair.receive(HALF, tag);
            pair.turn(2);
        }
        // Of one that is copied at once only a failure is told.
        let is_copied = length <= 8;
        pair.send(length, tag, if is_copied { SendFlags::INJECT } else { SendFlags::empty() });
        if tag % 2 == 1 {
            (0..20).for_each(|_| pair.turn(2));
            pair.receive(HALF, tag);
        }
        let came = pair.ended(1, 2);
        assert_eq!((came.context, came.failure, came.length, came.tag, came.data), (2, None, length, tag, tag + 1));
        assert!(came.notes.contains(Notes::RECEIVE));
        assert_eq!(pair.sides[1].bytes(HALF, length), data);
        if !is_copied {
            let left = pair.ended(0, 2);
            assert_eq!((left.context, left.failure), (1, None));
        }
    }
    assert!(pair.sides[0].done.is_empty());
    for (nic, side) in pair.sides.iter_mut().enumerate() {
        side.machine.close(pair.world.engine(nic));
        assert_eq!(side.machine.holds(), (0, 0));
    }
}

#[test]
fn a_message_that_is_cut_off() {
    let mut pair = Pair::new();
    for length in [500, LONG] {
        let data = pattern(length);
        pair.sides[0].memory.write(0, &data);
        pair.receive(100, 1);
        pair.send(length, 1, SendFlags::empty());
        assert_eq!(pair.ended(1, 2).failure, Some(Failure::Truncated));
        pair.ended(0, 2);
        assert_eq!(pair.sides[1].bytes(HALF, 100), data[..100]);
        assert_eq!(pair.sides[1].bytes(HALF + 100, 400), [0; 400]);
    }
}

#[test]
fn remote_memory() {
    let mut pair = Pair::new();
    for length in [8, 5000] {
        let data = pattern(length);
        pair.sides[0].memory.write(0, &data);
        pair.reach(HALF, length, true);
        assert_eq!(pair.ended(0, 2).failure, None);
        assert_eq!(pair.sides[1].bytes(HALF, length), data);
        pair.sides[0].memory.write(0, &vec![0; length]);
        pair.reach(HALF, length, false);
        assert_eq!(pair.ended(0, 2).failure, None);
        assert_eq!(pair.sides[0].bytes(0, length), data);
    }
    pair.reach(2 * HALF - 7, 8, true);
    assert_eq!(pair.ended(0, 2).failure, Some(Failure::RemoteAccess));
    let before: [u8; 8] = pair.sides[1].bytes(HALF, 8).try_into().unwrap();
    pair.sides[0].memory.write(0, &5u64.to_ne_bytes());
    let side = &mut pair.sides[0];
    let [operands, result, compare] = [side.piece(0, 8), side.piece(8, 8), side.piece(0, 0)];
    let target = Target { peer: PEER, address: HALF as u64, key: KEY };
    let (data_type, op, form) = (DataType::U64, AtomicOp::Sum, Form::Fetch);
    let add = AtomicRequest { target, data_type, op, form, count: 1, operands, compare, result, context: 4, flags: RemoteFlags::empty() };
    side.machine.atomic(pair.world.engine(0), &add).unwrap();
    assert_eq!(pair.ended(0, 2).failure, None);
    assert_eq!(pair.sides[0].bytes(8, 8), before);
    assert_eq!(pair.sides[1].bytes(HALF, 8), u64::from_ne_bytes(before).wrapping_add(5).to_ne_bytes());
}

#[test]
fn a_peer_that_dies() {
    let mut pair = Pair::new();
    pair.receive(HALF, 1);
    pair.send(8, 1, SendFlags::empty());
    assert_eq!(pair.ended(0, 2).failure, None);
    // A message that nobody wants, and a read that is on its way.
    pair.send(LONG, 2, SendFlags::empty());
    pair.reach(HALF, 5000, false);
    pair.turn(2);
    pair.world.crash(1);
    for _ in 0..2 {
        assert!(matches!(pair.ended(0, 1).failure, Some(Failure::ConnectionLost(_))));
    }
    assert_eq!(pair.sides[0].machine.operations().count(), 0);
    pair.sides[0].machine.close(pair.world.engine(0));
}
