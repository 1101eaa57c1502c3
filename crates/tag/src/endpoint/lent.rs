// SPDX-License-Identifier: MIT OR Apache-2.0
//! Long messages between endpoints of one host, in one copy and in parts: the same messages come,
//! whatever their pieces, and whatever becomes of the sender or of the permission meanwhile.

use super::*;
use crate::completion::Failure;
use crate::connection::{Doing, Operation};
use crate::gather::{Gather, PIECES_MAX};
use crate::posted::ReceiveFlags;
use crate::send::SendFlags;
use bellwire_via::wire::Attach;
use std::sync::Arc;
use std::time::Instant;

const PATIENCE: Duration = Duration::from_secs(60);
/// Names the endpoint that the child process of [`a_killed_sender`] sends to.
const TO: &str = "BELLWIRE_TAG_LENT_TO";
const KILLED_BYTES: usize = 64 << 20;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((z ^ (z >> 27)) % n as u64) as usize
    }
}

fn open(attach: Attach) -> Endpoint {
    let endpoint = Endpoint::open(NicConfig { attach, ..NicConfig::default() }, None, SharedRegions::default()).expect("a NIC");
    endpoint.bind(Bindings { queues: [(); 2].map(|()| Some(Arc::default())), ..Bindings::default() });
    endpoint
}

/// Two that are connected: the sender, the receiver.
fn pair(attach: Attach) -> [Endpoint; 2] {
    let both = [open(attach), open(attach)];
    both[0].learn(0, both[1].name());
    send(&both[0], &mut [], 0);
    receive(&both[1], memory(&mut []), 0);
    finish(&both, 2);
    both
}

fn memory(of: &mut [u8]) -> Gather {
    // SAFETY: G1: the tests keep it until what uses it is complete.
    unsafe { Gather::one(of.as_mut_ptr(), of.len()) }
}

fn send(by: &Endpoint, from: &mut [u8], context: usize) {
    send_pieces(by, memory(from), context, SendFlags::empty());
}

fn send_pieces(by: &Endpoint, from: Gather, context: usize, flags: SendFlags) {
    by.send(&SendOut { peer: 0, tag: Some(context as u64), data: None, from, context, flags }).expect("room");
}

fn receive(by: &Endpoint, to: Gather, context: usize) {
    let flags = ReceiveFlags::empty();
    by.receive(&Want { tagged: true, source: None, tag: context as u64, ignore: 0, to, context, flags }).expect("room");
}

fn taken(of: &Endpoint) -> Vec<Completion> {
    [Queue::Sends, Queue::Receives].into_iter().flat_map(|queue| of.take_completions(queue)).collect()
}

/// Polls both until there are so many completions.
fn finish(both: &[Endpoint; 2], expected: usize) -> Vec<Completion> {
    let (mut all, begun) = (Vec::new(), Instant::now());
    while all.len() < expected {
        for endpoint in both {
            endpoint.poll().unwrap();
            all.extend(taken(endpoint));
        }
        assert!(begun.elapsed() < PATIENCE, "{all:?} of {expected}");
    }
    all
}

/// Messages that this side of the connection has moved in one copy.
fn pulled(of: &Endpoint) -> u64 {
    let vis: Vec<_> = of.station.machine().connections.iter().map(|(_, c)| c.channel.vi()).collect();
    let count = |vi| of.station.with(|_, engine| engine.vi_counters(vi).map_err(Error::from)).unwrap().attached;
    vis.into_iter().map(count).sum()
}

/// Polls both until the receiver pulls, and has pulled `bytes`.
fn run_until_pulled(both: &[Endpoint; 2], bytes: usize) {
    let begun = Instant::now();
    while !operations(&both[1], |o| o.doing == Doing::Pulling && o.moved >= bytes) {
        both.iter().for_each(|endpoint| assert!(endpoint.poll().is_ok()));
        assert!(begun.elapsed() < PATIENCE, "nothing is pulled");
    }
}

fn operations(of: &Endpoint, are: impl Fn(&Operation) -> bool) -> bool {
    of.station.machine().operations.iter().any(|(_, o)| are(o))
}

/// Cuts memory into pieces.
fn cut(random: &mut Random, of: &mut [u8]) -> Gather {
    let mut cuts: Vec<usize> = (0..random.below(PIECES_MAX)).map(|_| random.below(of.len() + 1)).chain([0, of.len()]).collect();
    cuts.sort_unstable();
    let start = of.as_mut_ptr();
    // SAFETY: G1, as in `memory`; the pieces lie within.
    unsafe { Gather::of(cuts.windows(2).map(|w| (start.wrapping_add(w[0]), w[1] - w[0]))) }.unwrap()
}

#[test]
fn both_ways_bring_the_same() {
    for attach in [Attach::Always, Attach::Auto, Attach::Never] {
        let both = pair(attach);
        for seed in 0..12 {
            let mut random = Random(seed);
            const COUNT: usize = 12;
            let mut from: Vec<Vec<u8>> = (0..COUNT).map(|i| vec![i as u8 + 1; 1 + random.below(600_000)]).collect();
            from.iter_mut().for_each(|m| m.iter_mut().enumerate().for_each(|(i, b)| *b ^= (i >> 3) as u8));
            // Some receives are too short, some too long.
            let mut to: Vec<Vec<u8>> = from.iter().map(|m| vec![0xee; [m.len(), m.len() / 2, m.len() + 9][random.below(3)]]).collect();
            // Some messages wait for their receives.
            let late = random.below(COUNT);
            for i in (0..COUNT).filter(|i| *i < late) {
                receive(&both[1], cut(&mut random, &mut to[i]), 1 + i);
            }
            for (i, m) in from.iter_mut().enumerate() {
                let flags = if random.below(3) == 0 { SendFlags::DELIVERY } else { SendFlags::empty() };
                send_pieces(&both[0], cut(&mut random, m), 1 + i, flags);
            }
            (0..random.below(30)).for_each(|_| both.iter().for_each(|e| assert!(e.poll().is_ok())));
            for i in (0..COUNT).filter(|i| *i >= late) {
                receive(&both[1], cut(&mut random, &mut to[i]), 1 + i);
            }
            let all = finish(&both, 2 * COUNT);
            for c in &all {
                let (m, n) = (&from[c.context - 1], to[c.context - 1].len());
                let is_short = n < m.len() && c.notes.contains(crate::Notes::RECEIVE);
                assert_eq!(c.failure, is_short.then_some(Failure::Truncated), "{attach:?} {seed} {c:?}");
            }
            for (m, t) in from.iter().zip(&to) {
                let n = m.len().min(t.len());
                assert!(m[..n] == t[..n] && t[n..].iter().all(|b| *b == 0xee), "{attach:?} {seed}");
            }
            assert!(both.iter().all(|e| e.station.machine().operations.is_empty()));
        }
        let counts = (pulled(&both[0]), pulled(&both[1]));
        assert_eq!(counts.0, counts.1, "both sides count");
        match attach {
            Attach::Never => assert_eq!(counts.0, 0),
            Attach::Always => assert!(counts.0 > 100, "{counts:?}"),
            Attach::Auto => assert!(counts.0 > 0, "both ways are tried"),
        }
    }
}

#[test]
fn one_side_that_forbids_it_is_enough() {
    let both = [open(Attach::Always), open(Attach::Never)];
    both[0].learn(0, both[1].name());
    let (mut from, mut to) = (vec![7; 1 << 20], vec![0; 1 << 20]);
    for context in 0..3 {
        receive(&both[1], memory(&mut to), context);
        send(&both[0], &mut from, context);
        finish(&both, 2);
    }
    assert!(to == from && pulled(&both[0]) == 0);
}

/// The sender closes in the midst: the receive fails, although the memory can still be read and is
/// another's by then.
#[test]
fn a_sender_that_closes() {
    let [sender, receiver] = pair(Attach::Always);
    let (mut from, mut to) = (vec![7; 4 << 20], vec![0; 4 << 20]);
    receive(&receiver, memory(&mut to), 1);
    send(&sender, &mut from, 1);
    let both = [sender, receiver];
    run_until_pulled(&both, 1);
    let [sender, receiver] = both;
    drop(sender);
    from.fill(9);
    let (begun, mut ends) = (Instant::now(), Vec::new());
    while ends.is_empty() {
        receiver.poll().unwrap();
        ends = taken(&receiver);
        assert!(begun.elapsed() < PATIENCE, "the receive does not end");
    }
    assert!(matches!(ends[0].failure, Some(Failure::ConnectionLost(_))), "{ends:?}");
    assert!(receiver.station.machine().operations.is_empty() && from[0] == 9);
}

/// The receiver closes in the midst: the send fails, and its memory is the program's.
#[test]
fn a_receiver_that_closes() {
    let both = pair(Attach::Always);
    let (mut from, mut to) = (vec![7; 4 << 20], vec![0; 4 << 20]);
    receive(&both[1], memory(&mut to), 1);
    send(&both[0], &mut from, 1);
    run_until_pulled(&both, 1);
    let [sender, receiver] = both;
    drop(receiver);
    let (begun, mut ends) = (Instant::now(), Vec::new());
    while ends.is_empty() {
        sender.poll().unwrap();
        ends = taken(&sender);
        assert!(begun.elapsed() < PATIENCE, "the send does not end");
    }
    assert!(matches!(ends[0].failure, Some(Failure::ConnectionLost(_))), "{ends:?}");
}

/// Reading fails in the midst: the message comes in parts, from its beginning, and so do all later
/// ones.
#[test]
fn a_permission_that_ends() {
    let both = pair(Attach::Always);
    let mut from: Vec<u8> = (0..3 << 20).map(|i: u32| (i >> 4) as u8).collect();
    let mut to = vec![0; from.len()];
    for context in 1..3 {
        receive(&both[1], memory(&mut to), context);
        send(&both[0], &mut from, context);
        if context == 1 {
            run_until_pulled(&both, 1);
            // Nothing is mapped there.
            for operation in both[1].station.machine().operations.iter_mut().map(|(_, o)| o) {
                operation.lent.as_mut().unwrap().0.forget_pieces();
            }
        }
        let ends = finish(&both, 2);
        assert!(ends.iter().all(|c| c.failure.is_none()) && to == from, "{ends:?}");
        to.fill(0);
    }
    assert_eq!((pulled(&both[0]), pulled(&both[1])), (0, 0));
}

/// A message that was pulled while its sender took it back comes in parts.
#[test]
fn a_message_that_is_taken_back() {
    let both = pair(Attach::Always);
    let (mut from, mut to) = (vec![3; 3 << 20], vec![0; 3 << 20]);
    receive(&both[1], memory(&mut to), 1);
    send(&both[0], &mut from, 1);
    run_until_pulled(&both, 1);
    for connection in both[0].station.machine().connections.iter_mut().map(|(_, c)| c) {
        connection.word = None;
    }
    let ends = finish(&both, 2);
    assert!(ends.iter().all(|c| c.failure.is_none()) && to == from, "{ends:?}");
    assert_eq!((pulled(&both[0]), pulled(&both[1])), (0, 0));
}

/// A sender that is killed in the midst. Its own program is this test, started again.
#[test]
fn a_killed_sender() {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    if let Ok(to) = std::env::var(TO) {
        let bytes: Vec<u8> = (0..to.len() / 2).map(|i| u8::from_str_radix(&to[2 * i..2 * i + 2], 16).unwrap()).collect();
        let endpoint = open(Attach::Always);
        endpoint.learn(0, Name::from_bytes(&bytes.try_into().unwrap()).unwrap());
        let mut from = vec![7; KILLED_BYTES];
        send(&endpoint, &mut [], 0);
        while taken(&endpoint).is_empty() {
            endpoint.poll().unwrap();
        }
        send(&endpoint, &mut from, 1);
        loop {
            endpoint.poll().unwrap();
        }
    }
    let receiver = open(Attach::Always);
    let mut to = vec![0; KILLED_BYTES];
    (0..2).for_each(|context| receive(&receiver, memory(&mut to), context));
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["endpoint::lent::a_killed_sender", "--exact"])
        .env(TO, hex(&receiver.name().to_bytes()))
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let (begun, mut ends) = (Instant::now(), Vec::new());
    let mut alive = true;
    while ends.len() < 2 && begun.elapsed() < PATIENCE {
        receiver.poll().unwrap();
        ends.extend(taken(&receiver));
        if alive && operations(&receiver, |o| o.doing == Doing::Pulling && o.moved != 0) {
            child.kill().unwrap();
            alive = false;
        }
    }
    let _ = child.kill();
    child.wait().unwrap();
    assert!(!alive && ends.len() == 2 && matches!(ends[1].failure, Some(Failure::ConnectionLost(_))), "{ends:?}");
    assert!(receiver.station.machine().operations.is_empty());
}
