// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two endpoints in one process, each on a NIC of its own, and what tests do with them.
#![allow(dead_code, reason = "each test uses some of it")]

use bellwire_tag::{Bindings, Completion, Endpoint, Error, Gather, Outlet, Piece, Queue, ReceiveFlags, SendFlags, SendOut, SharedRegions, Target, Want};
use bellwire_via::nic::{NicConfig, Udp};
use std::cell::{RefCell, RefMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Long enough for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Side {
    pub endpoint: Endpoint,
    done: RefCell<Vec<Completion>>,
    pub regions: SharedRegions,
    pub other: u64,
}

pub fn pair() -> [Side; 2] {
    pair_on([NicConfig::default(), NicConfig::default()])
}

/// Two that reach each other by UDP, with faults on purpose; `test` tells their addresses from
/// other tests'.
pub fn pair_by_packets(test: u8, faults: &str) -> [Side; 2] {
    let pid = std::process::id();
    let faults = Some(faults.parse().expect("a plan"));
    let config = |last| NicConfig {
        host: vec![127, (pid >> 8) as u8 | 0x80, pid as u8, last],
        udp: Some(Udp::default()),
        shm: false,
        faults: faults.clone(),
        ..NicConfig::default()
    };
    pair_on([config(2 * test + 1), config(2 * test + 2)])
}

/// An endpoint with a queue for all.
pub fn open(config: NicConfig, regions: SharedRegions) -> Endpoint {
    let endpoint = Endpoint::open(config, None, regions).expect("a NIC");
    let queue = Some(Arc::new(Outlet::default()));
    endpoint.bind(Bindings { queues: [queue.clone(), queue], ..Bindings::default() });
    endpoint
}

fn pair_on(configs: [NicConfig; 2]) -> [Side; 2] {
    let mut sides = configs.map(|config| {
        let regions = SharedRegions::default();
        Side { endpoint: open(config, regions.clone()), done: RefCell::default(), regions, other: 0 }
    });
    for i in 0..2 {
        let name = sides[1 - i].endpoint.name();
        sides[i].other = 40 + i as u64;
        sides[i].endpoint.learn(40 + i as u64, name);
    }
    sides
}

/// Polls all until `until` is true.
pub fn run(sides: &mut [Side; 2], what: &str, until: impl Fn(&[Side; 2]) -> bool) {
    let begun = Instant::now();
    while !until(sides) {
        turn(sides);
        assert!(begun.elapsed() < PATIENCE, "{what}: {:?} and {:?}", sides[0].done().last(), sides[1].done().last());
    }
}

/// One poll of each.
pub fn turn(sides: &mut [Side; 2]) {
    for side in sides {
        side.endpoint.poll().expect("not forked");
    }
}

pub fn bytes(n: usize, seed: u8) -> Vec<u8> {
    (0..n).map(|i| (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8) ^ seed).collect()
}

/// Tests keep what they give until it is complete.
pub fn memory(of: &mut [u8]) -> Gather {
    // SAFETY: G1, as all callers see to.
    unsafe { Gather::one(of.as_mut_ptr(), of.len()) }
}

/// The same for the short ways.
pub fn piece(of: &mut [u8]) -> Piece {
    // SAFETY: G1, as all callers see to.
    unsafe { Piece::new(of.as_mut_ptr(), of.len()) }
}

impl Side {
    /// The completions that were not taken from here.
    pub fn done(&self) -> RefMut<'_, Vec<Completion>> {
        let mut done = self.done.borrow_mut();
        done.extend(self.endpoint.take_completions(Queue::Sends));
        done
    }

    pub fn send(&mut self, from: &mut [u8], tag: Option<u64>, context: usize, flags: SendFlags) -> Result<(), Error> {
        let send = SendOut { peer: self.other, tag, data: Some(context as u64), from: memory(from), context, flags };
        self.endpoint.send(&send)
    }

    pub fn want(&self, to: &mut [u8], tag: Option<u64>, context: usize) -> Want {
        Want { tagged: tag.is_some(), source: None, tag: tag.unwrap_or(0), ignore: 0, to: memory(to), context, flags: ReceiveFlags::empty() }
    }

    pub fn receive(&mut self, to: &mut [u8], tag: Option<u64>, context: usize) {
        let want = self.want(to, tag, context);
        self.endpoint.receive(&want).expect("room");
    }

    pub fn target(&self, key: u64, address: u64) -> Target {
        Target { peer: self.other, address, key }
    }
}
