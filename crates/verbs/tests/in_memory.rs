// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue pairs over the network in memory, small enough for Miri (`scripts/miri.sh`): messages by
//! the short ways and the long one, writes, reads, atomics, a request that the peer refuses, a
//! receive that is too short, the death of a peer, an end in good order.

use bellwire_memory::owned_bytes::OwnedBytes;
use bellwire_verbs::machine::Machine;
use bellwire_verbs::{
    Access, Caps, Completion, Extra, Given, Opcode, QpAttributes, QpInit, QpKind, QpState, Region, SendFlags, SendRequest, Sge, WcStatus, gid_of,
};
use bellwire_via::Instant;
use bellwire_via::time::Duration;
use bellwire_via::wire::sim::SimConfig;
use bellwire_via::world::World;

/// Longer than a packet of the network.
const LONG: usize = 3000;
const HALF: usize = 4096;
const BYTES: usize = 2 * HALF;

struct Side {
    machine: Machine,
    /// The first half is for what the side sends and reads, the second for what comes.
    memory: OwnedBytes,
    key: u32,
    cq: u32,
    qp: u32,
}

impl Side {
    fn new(world: &mut World, nic: usize) -> Self {
        let engine = world.engine(nic);
        let mut machine = Machine::new(engine, gid(nic), 3).unwrap();
        let (domain, cq) = (machine.create_domain().unwrap(), machine.create_cq(64).unwrap());
        let memory = OwnedBytes::new(BYTES);
        let address = memory.as_ptr().expose_provenance() as u64;
        let region = Region { domain, address, length: BYTES as u64, iova: address, access: Access::all(), adopted: None };
        // SAFETY: R1: the memory is changed as atomics or by copying, and outlives the machine's
        // world, as the pair is dropped in this order.
        let key = unsafe { machine.register(engine, &region) }.unwrap();
        let caps = Caps { sends: 8, receives: 8, send_pieces: 2, receive_pieces: 2, inline: 64 };
        let init = QpInit { kind: QpKind::Rc, domain, send_cq: cq, receive_cq: cq, srq: None, caps, signal_all: true, cookie: 0 };
        let qp = machine.create_qp(&init).unwrap();
        Self { machine, memory, key, cq, qp }
    }

    fn piece(&self, at: usize, length: usize) -> Sge {
        Sge { address: self.memory.as_ptr().addr() as u64 + at as u64, length: length as u32, key: self.key }
    }

    fn bytes(&self, at: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory.read(at, &mut bytes);
        bytes
    }
}

/// The world is dropped first: nothing reaches the memory of the sides then.
struct Pair {
    world: World,
    sides: [Side; 2],
    done: [Vec<Completion>; 2],
}

fn gid(nic: usize) -> [u8; 16] {
    gid_of(&[10, 0, 0, nic as u8 + 1]).unwrap()
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + length) as u8).collect()
}

impl Pair {
    fn new() -> Self {
        let mut world = World::with_nics(SimConfig::default(), 2);
        let sides = [0, 1].map(|nic| Side::new(&mut world, nic));
        let mut pair = Self { world, sides, done: [const { Vec::new() }; 2] };
        for nic in 0..2 {
            let access = Access::all();
            let peer = pair.sides[1 - nic].qp;
            let given = QpAttributes {
                access,
                gid: Some(gid(1 - nic)),
                peer,
                timeout: 14,
                retries: 2,
                rnr_retries: 7,
                rnr_timer: 1,
                reads_out: 4,
                reads_in: 4,
                mtu: 5,
                port: 1,
                ..QpAttributes::default()
            };
            let connected = Given::ADDRESS | Given::MTU | Given::PEER | Given::RECEIVE_NUMBER | Given::READS_IN | Given::RNR_TIMER;
            let sends = Given::SEND_NUMBER | Given::TIMEOUT | Given::RETRIES | Given::RNR_RETRIES | Given::READS_OUT;
            let Side { machine, qp, .. } = &mut pair.sides[nic];
            for (to, what) in [(QpState::Init, Given::PKEY_INDEX | Given::PORT | Given::ACCESS), (QpState::Rtr, connected), (QpState::Rts, sends)] {
                machine.modify_qp(pair.world.engine(nic), *qp, to, &given, what).unwrap();
            }
        }
        pair
    }

    /// Posts a request of side 0, which ends as `wr_id`.
    fn post(&mut self, wr_id: u64, opcode: Opcode, length: usize, change: impl FnOnce(&mut SendRequest<'_>)) {
        let [side, peer] = &mut self.sides;
        let pieces = [side.piece(0, length / 2), side.piece(length / 2, length - length / 2)];
        let mut request = SendRequest {
            wr_id,
            opcode,
            flags: SendFlags::SIGNALED,
            pieces: if length < 2 { &pieces[1..] } else { &pieces },
            immediate: 0,
            address: peer.piece(HALF, 0).address,
            key: peer.key,
            operands: [0; 2],
            extra: Extra::None,
            to: None,
        };
        if matches!(opcode, Opcode::FetchAdd | Opcode::CompareSwap) {
            request.pieces = &pieces[1..];
        }
        change(&mut request);
        // SAFETY: R2: the pieces lie in the side's memory, which lives as long as its machine.
        unsafe { side.machine.post_send(self.world.engine(0), side.qp, &request) }.unwrap();
    }

    fn post_receive(&mut self, nic: usize, wr_id: u64, length: usize) {
        let piece = self.sides[nic].piece(HALF, length);
        let Side { machine, qp, .. } = &mut self.sides[nic];
        machine.post_receive(*qp, wr_id, &[piece]).unwrap();
    }

    /// Polls the machines of the first `alive` sides, and lets time go on to the next event.
    fn turn(&mut self, alive: usize) {
        let mut next = self.world.now() + Duration::from_micros(1000);
        for nic in 0..alive {
            let Side { machine, cq, .. } = &mut self.sides[nic];
            while machine.poll(self.world.engine(nic)) {}
            self.done[nic].extend(machine.poll_cq(*cq, 64).unwrap());
            next = machine.next_time().map_or(next, |at| next.min(Instant(at)));
        }
        self.world.step_at_most(next.max(Instant(self.world.now().0 + 1)));
    }

    fn until(&mut self, alive: usize, what: &str, is_so: impl Fn(&Self) -> bool) {
        let end = self.world.now() + Duration::from_secs(60);
        while !is_so(self) {
            assert!(self.world.now() < end, "{what}: {:?}", self.done);
            self.turn(alive);
        }
    }

    /// Waits for the next end of a side; its number and status.
    fn ended(&mut self, nic: usize) -> (u64, WcStatus, usize) {
        self.until(2, "a completion", |pair| !pair.done[nic].is_empty());
        let c = self.done[nic].remove(0);
        (c.wr_id, c.status, c.byte_len as usize)
    }
}

#[test]
fn messages() {
    let mut pair = Pair::new();
    // The first finds no connection, the next ones take the short ways; each comes once with a
    // receive that waits and once before it is posted.
    for (turn, length) in [0, 8, 8, 60, 60, 500, LONG, 8].into_iter().enumerate() {
        let data = pattern(length);
        pair.sides[0].memory.write(0, &data);
        let is_inline = length <= 8;
        if turn % 2 == 0 {
            pair.post_receive(1, 7, HALF);
        }
        pair.post(3, Opcode::Send, length, |request| request.flags.set(SendFlags::INLINE, is_inline));
        if turn % 2 == 1 {
            pair.turn(2);
            pair.post_receive(1, 7, HALF);
        }
        assert_eq!(pair.ended(1), (7, WcStatus::Success, length));
        assert_eq!(pair.sides[1].bytes(HALF, length), data);
        assert_eq!(pair.ended(0).1, WcStatus::Success);
    }
    for side in 0..2 {
        let Side { machine, qp, .. } = &mut pair.sides[side];
        machine.destroy_qp(pair.world.engine(side), *qp).unwrap();
        machine.close(pair.world.engine(side));
        assert_eq!(machine.connections(), 0);
    }
}

#[test]
fn remote_memory() {
    let mut pair = Pair::new();
    for length in [8, LONG] {
        let data = pattern(length);
        pair.sides[0].memory.write(0, &data);
        pair.post(1, Opcode::Write, length, |_| ());
        assert_eq!(pair.ended(0).1, WcStatus::Success);
        assert_eq!(pair.sides[1].bytes(HALF, length), data);
        pair.sides[0].memory.write(0, &vec![0; length]);
        pair.post(2, Opcode::Read, length, |_| ());
        assert_eq!(pair.ended(0), (2, WcStatus::Success, length));
        assert_eq!(pair.sides[0].bytes(0, length), data);
    }
    let before: [u8; 8] = pair.sides[1].bytes(HALF, 8).try_into().unwrap();
    pair.post(3, Opcode::FetchAdd, 16, |request| request.operands = [5, 0]);
    assert_eq!(pair.ended(0).1, WcStatus::Success);
    assert_eq!(pair.sides[0].bytes(8, 8), before);
    let added = u64::from_ne_bytes(before).wrapping_add(5);
    pair.post(4, Opcode::CompareSwap, 16, |request| request.operands = [9, added]);
    assert_eq!(pair.ended(0).1, WcStatus::Success);
    assert_eq!(pair.sides[1].bytes(HALF, 8), 9u64.to_ne_bytes());
}

#[test]
fn a_request_that_is_refused_flushes_the_others() {
    let mut pair = Pair::new();
    pair.post_receive(0, 9, 8);
    pair.post(1, Opcode::Write, 8, |_| ());
    pair.post(2, Opcode::Write, 8, |request| request.address += HALF as u64 - 7);
    pair.post(3, Opcode::Send, 8, |_| ());
    let ends = [(); 4].map(|()| pair.ended(0)).map(|(wr_id, status, _)| (wr_id, status));
    assert_eq!(ends[..3], [(1, WcStatus::Success), (2, WcStatus::RemoteAccess), (3, WcStatus::Flushed)]);
    assert_eq!(ends[3], (9, WcStatus::Flushed));
    let qp = pair.sides[0].qp;
    assert_eq!(pair.sides[0].machine.state(qp), Ok(QpState::Err));
}

#[test]
fn a_receive_that_is_too_short() {
    let mut pair = Pair::new();
    pair.post_receive(1, 9, 10);
    pair.post(1, Opcode::Send, 500, |_| ());
    assert_eq!(pair.ended(1).1, WcStatus::LocalLength);
    assert_eq!(pair.ended(0).1, WcStatus::RemoteInvalid);
    assert_eq!(pair.sides[1].bytes(HALF + 10, 500), [0; 500]);
}

#[test]
fn a_peer_that_dies() {
    let mut pair = Pair::new();
    pair.post_receive(1, 7, HALF);
    pair.post(1, Opcode::Send, 8, |_| ());
    assert_eq!(pair.ended(0).1, WcStatus::Success);
    pair.post(2, Opcode::Read, LONG, |_| ());
    pair.post(3, Opcode::Send, LONG, |_| ());
    pair.turn(2);
    pair.world.crash(1);
    pair.until(1, "both end", |pair| pair.done[0].len() == 2);
    let ends = [0, 1].map(|i| (pair.done[0][i].wr_id, pair.done[0][i].status));
    assert_eq!(ends, [(2, WcStatus::RetryExceeded), (3, WcStatus::Flushed)]);
    pair.sides[0].machine.close(pair.world.engine(0));
}
