// SPDX-License-Identifier: MIT OR Apache-2.0
//! A peer that connects properly and then says anything: heads of all kinds with numbers that fit
//! and that do not, payloads of all lengths, counts that cannot be. The endpoint answers or ends
//! the connection; it touches nothing that it was not given, and serves an honest peer afterwards.

use super::*;
use crate::core::Core;
use crate::gather::Gather;
use crate::header::{HEAD_WORDS_MAX, Head, Kind};
use crate::life::VERSION;
use crate::posted::ReceiveFlags;
use crate::regions::{Access, Region};
use crate::remote::{RemoteFlags, Target};
use crate::send::SendFlags;
use bellwire_via::{InboxHandle, Notice, Pieces, Taken, ViAttributes, ViHandle};
use std::sync::Arc;
use std::time::Instant;

const PATIENCE: Duration = Duration::from_secs(60);
const ATTACKS: u64 = 30;
const MESSAGES: u64 = 200;
/// Bytes before and behind what peers may reach, which nobody may touch.
const EDGE: usize = 4096;
const REACH: usize = 8192;
const KEY: u64 = 3;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

struct Attacker {
    nic: Nic,
    name: Name,
    inbox: InboxHandle,
    vi: ViHandle,
}

impl Attacker {
    /// Connects as an endpoint of a new name would.
    fn connect(victim: &Endpoint, number: u64) -> Self {
        let nic = Nic::open(NicConfig::default()).expect("a NIC");
        nic.ignore_errors();
        nic.now();
        let mut id = [0; 16];
        id[8..].copy_from_slice(&number.to_ne_bytes());
        let name = Name::new(&[127, 0, 0, 1], id).unwrap();
        let (inbox, vi) = nic.with(|e| {
            let (inbox, ptag) = (e.create_inbox().unwrap(), e.create_ptag().unwrap());
            let vi = e.create_vi(&ViAttributes { ptag: Some(ptag), qos: VERSION, ..ViAttributes::default() }, None, None, None).unwrap();
            e.set_inbox(vi, inbox, 1 << 20, 1).unwrap();
            let deadline = e.now() + bellwire_via::Duration(60_000_000_000);
            e.connect_request(vi, &name.asks_as().unwrap(), &victim.name().waits_at().unwrap(), deadline).unwrap();
            (inbox, vi)
        });
        let attacker = Self { nic, name, inbox, vi };
        let begun = Instant::now();
        while !matches!(attacker.poll(), Some(Taken::Notice(_, _, Notice::Connected(Ok(_))))) {
            victim.poll().unwrap();
            assert!(begun.elapsed() < PATIENCE, "not connected");
        }
        // Until the victim has heard of it, too: it would connect itself.
        while victim.station.machine().connections.is_empty() {
            victim.poll().unwrap();
            assert!(begun.elapsed() < PATIENCE, "not accepted");
        }
        attacker
    }

    fn poll(&self) -> Option<Taken> {
        let taken = self.nic.poll_with(|e| Ok(e.take(self.inbox, &mut [0; 7]))).unwrap();
        match taken {
            Some(Taken::Kept(_, kept)) => {
                self.nic.with(|e| e.release(kept));
                None
            }
            other => other,
        }
    }

    /// Says something. `false`: the connection is over.
    fn say(&self, words: &[u64], payload: &[u8]) -> bool {
        let pieces = Pieces { head: (words.as_ptr().cast(), 8 * words.len()), body: (payload.as_ptr(), payload.len()) };
        let mut sent = 0;
        while sent < pieces.head.1 + payload.len() {
            // SAFETY: both pieces outlive the call.
            match self.nic.with(|e| unsafe { e.send_copied(self.vi, &pieces, sent) }) {
                // No room: the victim is not in the mood to read any more.
                Ok(n) if n == sent => return true,
                Ok(n) => sent = n,
                Err(_) => return false,
            }
        }
        true
    }
}

/// A head that might be one.
fn words(random: &mut Random, operations: &[u64]) -> Vec<u64> {
    let mut number = || match random.below(5) {
        0 => random.next(),
        1 => random.below(4),
        2 => random.below(REACH as u64 + 100),
        3 => u64::MAX - random.below(100),
        _ => random.one_of(operations) | if random.below(3) == 0 { random.below(3) << 32 } else { 0 },
    };
    let mut fixed = [number(), number(), number(), number()];
    let kind = random.one_of(&[Kind::Eager, Kind::Announce, Kind::Ask, Kind::Data, Kind::Done, Kind::Write, Kind::Read, Kind::Atomic, Kind::Credit]);
    if matches!(kind, Kind::Write | Kind::Read | Kind::Atomic) && random.below(2) == 0 {
        (fixed[0], fixed[1], fixed[3]) = (random.below(REACH as u64 + 50), KEY, random.below(REACH as u64));
        if kind == Kind::Atomic {
            fixed[2] = random.below(100) | random.below(15) << 32 | random.below(21) << 40 | random.below(4) << 48;
            fixed[3] = 1 + random.below(3);
        }
    }
    let mut head = Head::new(kind, random.below(16) as u8, fixed);
    (head.tag, head.data, head.operation) = (random.below(3), random.next(), random.one_of(operations) as u32);
    let mut bytes = head.store(0);
    let handled = if random.below(8) == 0 { random.next() as u32 } else { 0 };
    let mut words: Vec<u64> = bytes.finish(handled, random.below(4) == 0).chunks(8).map(|c| u64::from_ne_bytes(c.try_into().unwrap())).collect();
    if random.below(20) == 0 {
        let at = random.below(words.len() as u64) as usize;
        words[at] ^= 1 << random.below(64);
    }
    words.truncate(HEAD_WORDS_MAX);
    words
}

/// Where the message of an Announce might lie: here, nowhere, or in pieces that are not as long.
fn lent(random: &mut Random, length: u64) -> Vec<u8> {
    static HERE: [u64; 512] = [7; 512];
    let mut number = || match random.below(4) {
        0 => random.next(),
        1 => 4096,
        2 => u64::MAX - random.below(5000),
        _ => HERE.as_ptr().expose_provenance() as u64,
    };
    let mut words = vec![number(), if number() & 1 == 0 { 7 } else { 0 }];
    let mut left = length;
    for i in 0..random.below(5) {
        let n = if i == 3 || random.below(2) == 0 { left } else { left / 2 };
        words.extend([random.one_of(&[4096, u64::MAX - 9, HERE.as_ptr().expose_provenance() as u64]), n]);
        left -= n;
    }
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// Gives the victim something to do with the attacker, so that there are operations to lie about.
fn entangle(victim: &Endpoint, attacker: &Attacker, memory: &mut [Vec<u8>]) {
    victim.learn(1, attacker.name);
    // SAFETY: G1: the memory is dropped only when no operation is left.
    let all = |m: &mut Vec<u8>| unsafe { Gather::one(m.as_mut_ptr(), m.len()) };
    let [a, b, c, d] = memory else { panic!("four") };
    for (from, flags) in [(all(a), SendFlags::empty()), (all(b), SendFlags::DELIVERY)] {
        let _ = victim.send(&SendOut { peer: 1, tag: Some(1), data: None, from, context: 1, flags });
    }
    let read = RemoteRequest { target: Target { peer: 1, address: 0, key: 1 }, local: all(c), data: None, context: 2, flags: RemoteFlags::empty() };
    let _ = victim.read(&read);
    for tagged in [true, false] {
        let want = Want { tagged, source: None, tag: 1, ignore: 0, to: all(d), context: 3, flags: ReceiveFlags::empty() };
        victim.receive(&want).unwrap();
    }
}

fn operations(core: &Core) -> Vec<u64> {
    core.operations.iter().map(|(id, _)| u64::from(id.raw())).chain([0]).collect()
}

/// An endpoint whose completions are kept.
fn open(regions: SharedRegions) -> Endpoint {
    let config = NicConfig { attach: bellwire_via::wire::Attach::Always, ..NicConfig::default() };
    let endpoint = Endpoint::open(config, None, regions).expect("a NIC");
    endpoint.bind(Bindings { queues: [(); 2].map(|()| Some(Arc::default())), ..Bindings::default() });
    endpoint
}

#[test]
fn a_peer_that_says_anything() {
    let regions = SharedRegions::default();
    let victim = open(regions.clone());
    let mut reached = vec![0x5a_u8; EDGE + REACH + EDGE];
    let start = reached[EDGE..].as_mut_ptr().expose_provenance();
    // SAFETY: R1: `reached` outlives the victim's work.
    assert!(unsafe { regions.lock().insert(KEY, Region { start, length: REACH, base: 0, access: Access::all() }) });
    let mut ended = 0;
    for seed in 0..ATTACKS {
        let mut random = Random(seed);
        let mut memory: Vec<Vec<u8>> = [40_000, 100, 20_000, 3000].iter().map(|n| vec![1; *n]).collect();
        let attacker = Attacker::connect(&victim, seed + 1);
        entangle(&victim, &attacker, &mut memory);
        for _ in 0..MESSAGES {
            let known = operations(&victim.station.machine());
            let head = words(&mut random, &known);
            let n = random.one_of(&[0, 0, 1, 8, 16, 100, 5000, 16_320, 16_384, 17_000]);
            let mut payload = vec![random.next() as u8; n];
            if head[0] as u8 == Kind::Announce as u8 && random.below(4) != 0 {
                payload = lent(&mut random, *head.get(1).unwrap_or(&0));
            }
            let said = attacker.say(&head, &payload);
            while victim.poll().unwrap() {}
            if !said || victim.station.machine().connections.is_empty() {
                ended += 1;
                break;
            }
            attacker.poll();
        }
        drop(attacker);
        let begun = Instant::now();
        while !victim.station.machine().connections.is_empty() {
            victim.poll().unwrap();
            assert!(begun.elapsed() < PATIENCE, "seed {seed}: the connection stays");
        }
        // Nothing is read or written for it any more: the memory goes.
        while victim.cancel(3) {}
        assert_eq!(victim.station.machine().operations.len(), 0, "seed {seed}");
    }
    assert!(ended > ATTACKS / 2, "lies are noticed: {ended}");
    assert!(reached[..EDGE].iter().chain(&reached[EDGE + REACH..]).all(|b| *b == 0x5a));
    // What nobody has asked for is dropped with a look at it, and an honest peer is served.
    let honest = open(SharedRegions::default());
    honest.learn(0, victim.name());
    let (mut from, mut to) = (vec![9_u8; 50_000], vec![0_u8; 50_000]);
    // SAFETY: G1: both are kept until they are complete.
    let (to_all, from_all) = unsafe { (Gather::one(to.as_mut_ptr(), to.len()), Gather::one(from.as_mut_ptr(), from.len())) };
    let want = Want { tagged: true, source: None, tag: 77, ignore: 0, to: to_all, context: 9, flags: ReceiveFlags::empty() };
    victim.receive(&want).unwrap();
    let send = SendOut { peer: 0, tag: Some(77), data: None, from: from_all, context: 8, flags: SendFlags::empty() };
    honest.send(&send).unwrap();
    let begun = Instant::now();
    let (mut sent, mut received) = (false, false);
    while !sent || !received {
        honest.poll().unwrap();
        victim.poll().unwrap();
        sent |= !honest.take_completions(Queue::Sends).is_empty();
        received |= victim.take_completions(Queue::Receives).iter().any(|c| c.context == 9);
        assert!(begun.elapsed() < PATIENCE);
    }
    assert_eq!(to, from);
}
