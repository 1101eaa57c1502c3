// SPDX-License-Identifier: MIT OR Apache-2.0
//! Echoes of the past: all packets of a connection, heard by somebody who can forge addresses, are
//! said again to a new connection between the same addresses, to the same memory. Nothing of the
//! old one is seen in the new one, and the new one goes on.

use bellwire_faults::Random;
use bellwire_sim::memory::Memory;
use bellwire_sim::{Duration, LinkSpec, NodeId, Overheard, Topology, World, WorldConfig};
use bellwire_via::{MemAttributes, MemHandle, Operation, PtagHandle, ReceiveRequest, Reliability, Segment, SendRequest, ViAttributes, ViHandle, ViState};

/// Messages of a connection in each direction, and bytes of each; after each an RDMA write of as
/// many.
const MESSAGES: u8 = 40;
const BYTES: usize = 3000;
/// In the memory of a side: what it sends, what it receives, what is written by the other.
const RECEIVED: usize = BYTES;
const WRITTEN: usize = 2 * BYTES;

struct Side {
    memory: Memory,
    handle: MemHandle,
    ptag: PtagHandle,
    vi: ViHandle,
}

fn register(world: &mut World, nic: usize, memory: &Memory) -> (MemHandle, PtagHandle) {
    world.with(nic, |e| {
        let ptag = e.create_ptag().unwrap();
        let rights = MemAttributes { ptag: Some(ptag), rdma_write: true, rdma_read: false };
        (memory.register(e, &rights).unwrap(), ptag)
    })
}

fn create_vi(world: &mut World, nic: usize, ptag: PtagHandle) -> ViHandle {
    let attributes = ViAttributes { reliability: Reliability::ReliableDelivery, ptag: Some(ptag), rdma_write: true, ..ViAttributes::default() };
    world.with(nic, |e| e.create_vi(&attributes, None, None, None)).unwrap()
}

fn side(world: &mut World, nic: usize) -> Side {
    let memory = Memory::new(3 * BYTES);
    let (handle, ptag) = register(world, nic, &memory);
    let vi = create_vi(world, nic, ptag);
    Side { memory, handle, ptag, vi }
}

fn state(world: &World, nic: usize, vi: ViHandle) -> ViState {
    world.engine(nic).unwrap().query_vi(vi).unwrap().0
}

/// Connects the two under the same names each time.
fn connect(world: &mut World, sides: &[Side; 2]) {
    for nic in [0, 1] {
        let [here, there] = [nic, 1 - nic].map(|n| world.address(n, b"echo"));
        let until = world.after(nic, Duration::from_secs(10));
        world.with(nic, |e| e.peer_request(sides[nic].vi, &here, &there, until)).unwrap();
    }
    let deadline = world.now() + Duration::from_secs(10);
    let up = world.run_until(deadline, |w| [0, 1].iter().all(|nic| state(w, *nic, sides[*nic].vi) == ViState::Connected));
    assert!(up, "connected");
}

fn bytes_of(memory: &Memory, at: usize) -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    memory.read(at, &mut bytes);
    bytes
}

/// Traffic both ways, each message of bytes that say which it is, beginning with `first`; before
/// each, some of the packets of the past.
fn talk(world: &mut World, sides: &[Side; 2], first: u8, past: &mut dyn FnMut(&mut World)) {
    for message in first..first + MESSAGES {
        past(world);
        let segment = |side: &Side, at: usize| [Segment { address: side.memory.address() + at as u64, length: BYTES as u32, handle: side.handle.raw() }];
        for (nic, side) in sides.iter().enumerate() {
            let segments = segment(side, RECEIVED);
            world.with(nic, |e| e.post_receive(side.vi, &ReceiveRequest { segments: &segments, ..ReceiveRequest::default() })).unwrap();
        }
        past(world);
        for (nic, side) in sides.iter().enumerate() {
            side.memory.write(0, &[message; BYTES]);
            let segments = segment(side, 0);
            let there = &sides[1 - nic];
            let send = SendRequest { segments: &segments, ..SendRequest::default() };
            let (remote_address, remote_handle) = (there.memory.address() + WRITTEN as u64, there.handle.raw());
            let write = SendRequest { operation: Operation::RdmaWrite, remote_address, remote_handle, ..send };
            world.with(nic, |e| e.post_send(side.vi, &write).and_then(|()| e.post_send(side.vi, &send))).unwrap();
        }
        past(world);
        for (nic, side) in sides.iter().enumerate() {
            let deadline = world.now() + Duration::from_secs(20);
            let (mut received, mut sent) = (None, 0);
            let all = world.run_until(deadline, |w| {
                received = received.or_else(|| w.with(nic, |e| e.receive_done(side.vi)).unwrap());
                sent += usize::from(w.with(nic, |e| e.send_done(side.vi)).unwrap().is_some());
                received.is_some() && sent == 2
            });
            assert!(all && received.is_some_and(|c| !c.status.is_error() && c.length == BYTES as u32), "message {message} at {nic}: {received:?}, {sent} sent");
            // The write was before the message.
            assert_eq!(
                (bytes_of(&side.memory, RECEIVED), bytes_of(&side.memory, WRITTEN)),
                (vec![message; BYTES], vec![message; BYTES]),
                "message {message} at {nic}"
            );
            assert!(world.with(nic, |e| e.receive_done(side.vi)).unwrap().is_none(), "one message, once");
        }
    }
}

/// A whole connection, overheard; the sides, unconnected, and its packets are left afterwards.
fn past(world: &mut World) -> ([Side; 2], Vec<Overheard>) {
    world.fabric_mut().listen_in();
    let sides = [0, 1].map(|nic| side(world, nic));
    connect(world, &sides);
    talk(world, &sides, 1, &mut |_| ());
    for (nic, side) in sides.iter().enumerate() {
        world.with(nic, |e| e.disconnect(side.vi)).unwrap();
    }
    world.run_for(Duration::from_millis(100));
    let old = world.fabric_mut().overheard();
    assert!(old.len() > 4 * usize::from(MESSAGES), "{} packets", old.len());
    (sides, old)
}

/// The new connection, to which the old packets are said again: all of them, in pieces, in order
/// and in disorder.
fn present(world: &mut World, sides: &[Side; 2], old: &[Overheard], seed: u64) {
    let mut random = Random::new(seed, 0);
    let mut next = 0;
    let mut said = vec![false; old.len()];
    let mut echo = |w: &mut World| {
        for turn in 0..12 {
            let at = if turn % 2 == 0 { next % old.len() } else { random.below(old.len() as u64) as usize };
            next += usize::from(turn % 2 == 0);
            said[at] = true;
            w.fabric_mut().say_again(&old[at]);
        }
        // Some find the network as they would in between, some all at once.
        if random.below(2) == 0 {
            w.run_for(Duration::from_micros(random.below(50)));
        }
    };
    echo(world);
    connect(world, sides);
    talk(world, sides, 101, &mut echo);
    assert!(said.iter().all(|s| *s), "all of the past was said again");
    // And what they are told when nothing else happens.
    old.iter().for_each(|packet| world.fabric_mut().say_again(packet));
    world.run_for(Duration::from_secs(3));
    for (nic, side) in sides.iter().enumerate() {
        assert_eq!(state(world, nic, side.vi), ViState::Connected, "the new connection goes on");
        assert_eq!(bytes_of(&side.memory, WRITTEN), vec![100 + MESSAGES; BYTES], "nothing is written afterwards");
        assert!(world.with(nic, |e| e.receive_done(side.vi)).unwrap().is_none());
    }
}

fn world(seed: u64) -> World {
    World::new(Topology::mesh(2, LinkSpec::default()).unwrap(), &"".parse().unwrap(), WorldConfig::default(), seed).unwrap()
}

#[test]
fn nothing_of_an_earlier_connection_reaches_a_new_one() {
    for seed in 1..=5 {
        let mut world = world(seed);
        let (sides, old) = past(&mut world);
        present(&mut world, &sides, &old, seed);
    }
}

#[test]
fn nothing_of_an_earlier_life_reaches_a_new_one() {
    for (seed, crashed) in [(1, &[0][..]), (2, &[1]), (3, &[0, 1])] {
        let mut world = world(seed);
        let (mut sides, old) = past(&mut world);
        for &nic in crashed {
            world.fabric_mut().crash(NodeId(nic as u32));
            world.fabric_mut().restart(NodeId(nic as u32));
        }
        world.run_for(Duration::from_millis(1));
        for &nic in crashed {
            // The same memory, under the same handle: only the protocol keeps old writes out.
            let (handle, ptag) = register(&mut world, nic, &sides[nic].memory);
            assert_eq!((handle, ptag), (sides[nic].handle, sides[nic].ptag));
            sides[nic].vi = create_vi(&mut world, nic, ptag);
        }
        present(&mut world, &sides, &old, seed);
    }
}
