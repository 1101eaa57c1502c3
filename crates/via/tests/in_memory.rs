// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine over the network in memory, small enough for Miri (`scripts/miri.sh`): messages of
//! all kinds, RDMA, inboxes, the death of a peer, memory that is given back.

use bellwire_via::inbox::LineWords;
use bellwire_via::time::{Duration, Instant};
use bellwire_via::wire::sim::SimConfig;
use bellwire_via::world::World;
use bellwire_via::*;

const BYTES: usize = 8192;
/// Shorter than a line, a line, one frame, several.
const LENGTHS: [usize; 6] = [0, 8, 56, 57, 1000, 2500];

/// One side: its VI, its memory.
struct Side {
    vi: ViHandle,
    at: u64,
    handle: MemHandle,
}

impl Side {
    fn new(engine: &mut Engine<wire::sim::SimWire>) -> Self {
        let ptag = engine.create_ptag().unwrap();
        let rights = MemAttributes { ptag: Some(ptag), rdma_write: true, rdma_read: true };
        let at = engine.allocate(BYTES).unwrap().expose_provenance() as u64;
        let handle = engine.register_allocated(at, BYTES as u64, &rights).unwrap();
        let attributes = ViAttributes { ptag: Some(ptag), rdma_write: true, rdma_read: true, ..ViAttributes::default() };
        Self { vi: engine.create_vi(&attributes, None, None, None).unwrap(), at, handle }
    }

    fn segment(&self, offset: usize, length: usize) -> Segment {
        Segment { address: self.at + offset as u64, length: length as u32, handle: self.handle.raw() }
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + length) as u8).collect()
}

fn deadline(world: &World) -> Instant {
    world.now() + Duration::from_secs(1)
}

fn until(world: &mut World, condition: impl FnMut(&mut World) -> bool) {
    let deadline = deadline(world);
    assert!(world.run_until(deadline, condition), "it does not come about");
}

fn connect(world: &mut World, sides: &[Side; 2]) {
    let names = [1, 2].map(|n| NetAddress::new(&[10, 0, 0, n], b"x").unwrap());
    let until_then = deadline(world);
    for (nic, side) in sides.iter().enumerate() {
        world.engine(nic).peer_request(side.vi, &names[nic], &names[1 - nic], until_then).unwrap();
    }
    until(world, |w| (0..2).all(|nic| w.engine(nic).query_vi(sides[nic].vi).unwrap().0 == ViState::Connected));
}

fn pair() -> (World, [Side; 2]) {
    let mut world = World::with_nics(SimConfig::default(), 2);
    let sides = [0, 1].map(|nic| Side::new(world.engine(nic)));
    connect(&mut world, &sides);
    (world, sides)
}

fn completion(world: &mut World, nic: usize, side: &Side, receives: bool) -> Completion {
    let mut done = None;
    until(world, |w| {
        let engine = w.engine(nic);
        done = if receives { engine.poll_receive(side.vi) } else { engine.poll_send(side.vi) }.unwrap();
        done.is_some()
    });
    done.unwrap()
}

#[test]
fn messages_into_descriptors() {
    let (mut world, [a, b]) = pair();
    for length in LENGTHS {
        // In two pieces each.
        let halves = [b.segment(0, length / 2), b.segment(length / 2, length - length / 2)];
        world.engine(1).post_receive(b.vi, &ReceiveRequest { segments: &halves, ..ReceiveRequest::default() }).unwrap();
        world.engine(0).copy_to_allocated(a.at, &pattern(length)).unwrap();
        let segments = [a.segment(0, length)];
        world.engine(0).post_send(a.vi, &SendRequest { segments: &segments, ..SendRequest::default() }).unwrap();
        let received = completion(&mut world, 1, &b, true);
        assert_eq!((received.length as usize, received.status.is_error()), (length, false));
        let mut got = vec![0; length];
        world.engine(1).copy_from_allocated(b.at, &mut got).unwrap();
        assert_eq!(got, pattern(length));
        assert!(!completion(&mut world, 0, &a, false).status.is_error());
    }
}

#[test]
fn writes_and_reads() {
    let (mut world, [a, b]) = pair();
    for (operation, from, to) in [(Operation::RdmaWrite, 0, 1), (Operation::RdmaRead, 1, 0)] {
        let ends = [a.at, b.at];
        world.engine(from).copy_to_allocated(ends[from], &pattern(2500)).unwrap();
        let segments = [a.segment(0, 2500)];
        let remote = SendRequest { operation, segments: &segments, remote_address: b.at, remote_handle: b.handle.raw(), ..SendRequest::default() };
        world.engine(0).post_send(a.vi, &remote).unwrap();
        assert!(!completion(&mut world, 0, &a, false).status.is_error());
        let mut got = vec![0; 2500];
        until(&mut world, |w| {
            w.engine(to).copy_from_allocated(ends[to], &mut got).unwrap();
            got == pattern(2500)
        });
        world.engine(1).copy_to_allocated(b.at, &[0; 2500]).unwrap();
        world.engine(0).copy_to_allocated(a.at, &[0; 2500]).unwrap();
    }
}

#[test]
fn messages_into_an_inbox() {
    let mut world = World::with_nics(SimConfig::default(), 2);
    let sides = [0, 1].map(|nic| Side::new(world.engine(nic)));
    let inbox = world.engine(1).create_inbox().unwrap();
    world.engine(1).set_inbox(sides[1].vi, inbox, 8, 5).unwrap();
    connect(&mut world, &sides);
    for length in LENGTHS.into_iter().filter(|length| *length != 0) {
        let data = pattern(length);
        let pieces = Pieces { head: (data.as_ptr(), length / 3), body: (data[length / 3..].as_ptr(), length - length / 3) };
        let mut sent = 0;
        until(&mut world, |w| {
            // SAFETY: U2: `data` outlives the call.
            sent = unsafe { w.engine(0).send_copied(sides[0].vi, &pieces, sent) }.unwrap();
            sent == length
        });
        let mut got = None;
        until(&mut world, |w| {
            let mut line: LineWords = [0; 7];
            match w.engine(1).take(inbox, &mut line) {
                Some(Taken::Line(5, n)) => got = Some(line.iter().flat_map(|word| word.to_ne_bytes()).take(n as usize).collect()),
                Some(Taken::Waited(5, bytes)) => got = Some(bytes),
                Some(Taken::Notice(..)) | None => {}
                Some(other) => panic!("{other:?}"),
            }
            got.is_some()
        });
        assert_eq!(got, Some(data));
    }
}

#[test]
fn a_dead_peer_and_memory_that_is_given_back() {
    let (mut world, [a, _]) = pair();
    let segments = [a.segment(0, 2500)];
    world.engine(0).post_receive(a.vi, &ReceiveRequest { segments: &segments, ..ReceiveRequest::default() }).unwrap();
    world.engine(0).post_send(a.vi, &SendRequest { segments: &segments, ..SendRequest::default() }).unwrap();
    world.crash(1);
    until(&mut world, |w| w.engine(0).query_vi(a.vi).unwrap().0 == ViState::Error);
    assert!(completion(&mut world, 0, &a, true).status.is_error());
    let _ = completion(&mut world, 0, &a, false);
    let engine = world.engine(0);
    engine.disconnect(a.vi).unwrap();
    engine.destroy_vi(a.vi).unwrap();
    engine.deregister(a.at, a.handle).unwrap();
    engine.free(core::ptr::with_exposed_provenance_mut(a.at as usize)).unwrap();
    assert_eq!(engine.copy_from_allocated(a.at, &mut [0; 8]), Err(Error::InvalidParameter));
}
