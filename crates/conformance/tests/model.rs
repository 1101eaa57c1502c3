// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine against a small model of VIA: random sequences of posting, connecting, disconnecting,
//! registering and RDMA; every completion, event and byte is compared.

#[path = "model/reference.rs"]
mod reference;

use bellwire_conformance::fixtures::{Shm, Sim};
use bellwire_conformance::stage::pattern;
use bellwire_conformance::{Buffer, Fixture, Memory, Port, Stage};
use bellwire_via::wire::shm::ProtectionMode;
use bellwire_via::wire::sim::SimConfig;
use bellwire_via::{Duration, MemAttributes, Operation, PtagHandle, Reliability, SendRequest, WorkFlags};
use proptest::prelude::*;
use reference::{Model, Request};
use std::collections::BTreeMap;

const PAIRS: usize = 2;
const REGION: usize = 12_000;
const SLOT: usize = 10_000;
const SLOTS: usize = 64;

/// A step of a run.
#[derive(Clone, Debug)]
enum Step {
    Receive {
        side: usize,
        pair: usize,
        capacity: usize,
    },
    Batch {
        side: usize,
        pair: usize,
        requests: Vec<Request>,
    },
    Connect {
        pair: usize,
    },
    Disconnect {
        side: usize,
        pair: usize,
    },
    /// The region of a side is registered anew; the other side goes on with the old handle until it
    /// is told.
    Reregister {
        side: usize,
    },
    Tell {
        side: usize,
    },
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 0..60usize, 1 => Just(0), 2 => 60..2_100usize, 1 => 2_100..9_000usize]
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        4 => (length(), any::<bool>()).prop_map(|(length, immediate)| Request::Send { length, immediate }),
        2 => (0..3_000usize, length(), prop::bool::weighted(0.3)).prop_map(|(offset, length, immediate)| Request::Write { offset, length, immediate, valid: true }),
        1 => (0..3_000usize, length()).prop_map(|(offset, length)| Request::Read { offset, length, valid: true }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let (side, pair) = (0..2usize, 0..PAIRS);
    prop_oneof![
        8 => (side.clone(), pair.clone(), length()).prop_map(|(side, pair, capacity)| Step::Receive { side, pair, capacity }),
        6 => (side.clone(), pair.clone(), prop::collection::vec(request(), 1..6)).prop_map(|(side, pair, requests)| Step::Batch { side, pair, requests }),
        5 => pair.clone().prop_map(|pair| Step::Connect { pair }),
        1 => (side.clone(), pair).prop_map(|(side, pair)| Step::Disconnect { side, pair }),
        1 => side.clone().prop_map(|side| Step::Reregister { side }),
        2 => side.prop_map(|side| Step::Tell { side }),
    ]
}

fn level() -> impl Strategy<Value = Reliability> {
    prop_oneof![Just(Reliability::Unreliable), Just(Reliability::ReliableDelivery), Just(Reliability::ReliableReception)]
}

/// The engines under test beside the model.
struct Run<F: Fixture> {
    stage: Stage<F>,
    model: Model,
    ports: [Vec<Port>; 2],
    tags: [PtagHandle; 2],
    regions: [Buffer; 2],
    /// The handle that the other side uses.
    known: [u32; 2],
    scratch: [Buffer; 2],
    arena: [Buffer; 2],
    /// Slot of a receive or read, by context.
    slots: BTreeMap<u64, usize>,
    next: u64,
}

impl<F: Fixture> Run<F> {
    fn new(fixture: F, level: Reliability, memory: Memory) -> Self {
        let mut stage = Stage::new(fixture);
        let nics = [stage.side(0), stage.side(1)];
        let tags = nics.map(|n| stage.ptag(n));
        let make = |stage: &mut Stage<F>, bytes| [0, 1].map(|i: usize| stage.buffer(nics[i], memory, bytes, Some(tags[i])));
        let (regions, scratch, arena) = (make(&mut stage, REGION), make(&mut stage, SLOT * 8), make(&mut stage, SLOT * SLOTS));
        let ports = [0, 1].map(|i: usize| (0..PAIRS).map(|_| stage.vi(nics[i], &Stage::<F>::attributes(level, Some(tags[i])))).collect());
        let known = [regions[0].handle.raw(), regions[1].handle.raw()];
        Self { stage, model: Model::new(level, PAIRS, regions[0].len), ports, tags, regions, known, scratch, arena, slots: BTreeMap::new(), next: 1 }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Receive { side, pair, capacity } => {
                let context = self.take_context();
                let segment = self.arena[*side].segment(self.slots[&context] * SLOT, *capacity);
                self.stage.receive(self.ports[*side][*pair], &[segment], context);
                self.model.receive(*side, *pair, context, *capacity);
            }
            Step::Batch { side, pair, requests } => self.batch(*side, *pair, requests),
            Step::Connect { pair } => {
                let idle = (0..2).all(|s| self.model.vis[s][*pair].state == bellwire_via::ViState::Idle);
                // Errors are left behind by disconnecting, as a program would.
                for side in 0..2 {
                    if !idle && self.model.vis[side][*pair].state == bellwire_via::ViState::Error {
                        self.disconnect(side, *pair);
                    }
                }
                if (0..2).all(|s| self.model.vis[s][*pair].state == bellwire_via::ViState::Idle) {
                    self.stage.connect(self.ports[0][*pair], self.ports[1][*pair]);
                    self.model.connect(*pair);
                }
            }
            Step::Disconnect { side, pair } => self.disconnect(*side, *pair),
            Step::Reregister { side } => {
                let b = self.regions[*side];
                self.stage.fixture.with(b.nic, |e| e.deregister(b.address(), b.handle)).expect("only peers use it");
                self.regions[*side] =
                    self.stage.register(b.nic, b.base, b.len, MemAttributes { ptag: Some(self.tags[*side]), rdma_write: true, rdma_read: true });
            }
            Step::Tell { side } => self.known[*side] = self.regions[*side].handle.raw(),
        }
        self.stage.settle();
        self.compare();
    }

    fn take_context(&mut self) -> u64 {
        self.next += 1;
        self.slots.insert(self.next, self.next as usize % SLOTS);
        self.next
    }

    fn disconnect(&mut self, side: usize, pair: usize) {
        let p = self.ports[side][pair];
        self.stage.fixture.with(p.nic, |e| e.disconnect(p.vi)).expect("disconnected");
        self.model.disconnect(side, pair);
        self.stage.settle();
    }

    /// Posts all, then lets them go; none of it is acted upon by the other side before.
    fn batch(&mut self, side: usize, pair: usize, requests: &[Request]) {
        let port = self.ports[side][pair];
        let target = self.regions[1 - side];
        let valid_now = self.known[1 - side] == target.handle.raw();
        let mut numbered = Vec::new();
        for (i, request) in requests.iter().enumerate() {
            let context = self.take_context();
            let (operation, offset, length, immediate) = match *request {
                Request::Send { length, immediate } => (Operation::Send, 0, length, immediate),
                Request::Write { offset, length, immediate, .. } => (Operation::RdmaWrite, offset, length, immediate),
                Request::Read { offset, length, .. } => (Operation::RdmaRead, offset, length, false),
            };
            let segment = if operation == Operation::RdmaRead {
                self.arena[side].segment(self.slots[&context] * SLOT, length)
            } else {
                self.scratch[side].write(i * SLOT, &pattern(context as u32, length));
                self.scratch[side].segment(i * SLOT, length)
            };
            let flags = if immediate { WorkFlags::IMMEDIATE } else { WorkFlags::empty() };
            // A read waits for nothing in the model; behind a fence it also keeps later writes from
            // overtaking it.
            let flags = if matches!(request, Request::Write { .. }) { flags | WorkFlags::FENCE } else { flags };
            self.stage.post(
                port,
                &SendRequest {
                    operation,
                    flags,
                    segments: &[segment],
                    immediate: context as u32,
                    remote_address: target.address() + offset as u64,
                    remote_handle: self.known[1 - side],
                    context,
                    descriptor: None,
                },
            );
            numbered.push((
                context,
                match *request {
                    Request::Write { offset, length, immediate, .. } => Request::Write { offset, length, immediate, valid: valid_now },
                    Request::Read { offset, length, .. } => Request::Read { offset, length, valid: valid_now },
                    send => send,
                },
            ));
        }
        self.model.batch(side, pair, &numbered, |context, length| pattern(context as u32, length));
    }

    fn compare(&mut self) {
        for side in 0..2 {
            for pair in 0..PAIRS {
                self.compare_vi(side, pair);
            }
        }
        for side in 0..2 {
            let actual = self.regions[side].bytes();
            let doubtful = core::mem::take(&mut self.model.doubtful[side]);
            for (i, (real, wanted)) in actual.iter().zip(&self.model.regions[side]).enumerate() {
                let allowed = real == wanted || doubtful.iter().any(|(at, bytes)| i >= *at && bytes.get(i - at) == Some(real));
                assert!(allowed, "byte {i} of side {side}'s region");
            }
            self.model.regions[side] = actual;
        }
        self.model.brought.clear();
    }

    fn compare_vi(&mut self, side: usize, pair: usize) {
        let port = self.ports[side][pair];
        let vi = &mut self.model.vis[side][pair];
        let (sends, receives, errors) = (core::mem::take(&mut vi.sends), core::mem::take(&mut vi.receives), core::mem::take(&mut vi.errors));
        assert_eq!(self.stage.state(port), vi.state, "state of side {side}, pair {pair}");
        assert_eq!(self.stage.take_errors(port), errors, "errors of side {side}, pair {pair}");
        let done = self.stage.drain_sends(port);
        assert_eq!(done.iter().map(|c| c.context).collect::<Vec<_>>(), sends.iter().map(|s| s.0).collect::<Vec<_>>(), "sends completed");
        for (c, (context, outcome)) in done.iter().zip(&sends) {
            assert!(outcome.allows(c.status), "{c:?} where {outcome:?} is due");
            if let Some((_, bytes)) = self.model.brought.iter().find(|(c, _)| c == context) {
                assert!(self.arena[side].read(self.slots[context] * SLOT, bytes.len()) == *bytes, "what read {context} brought");
            }
        }
        let done = self.stage.drain_receives(port);
        assert_eq!(done.iter().map(|c| c.context).collect::<Vec<_>>(), receives.iter().map(|r| r.0).collect::<Vec<_>>(), "receives completed");
        for (c, (context, (outcome, length, immediate, from))) in done.iter().zip(&receives) {
            assert!(outcome.allows(c.status), "{c:?} where {outcome:?} is due");
            if *outcome == reference::Outcome::Good {
                let value = c.status.contains(bellwire_via::Status::IMMEDIATE).then_some(c.immediate);
                assert_eq!((c.length as usize, value), (*length, *immediate), "{c:?}");
            }
            if let Some(from) = from {
                assert!(self.arena[side].read(self.slots[context] * SLOT, *length) == pattern(*from as u32, *length), "content of message {from}");
            }
        }
    }
}

fn run<F: Fixture>(fixture: F, level: Reliability, memory: Memory, steps: &[Step]) -> Run<F> {
    let mut run = Run::new(fixture, level, memory);
    for step in steps.iter().take(SLOTS / 2) {
        run.step(step);
    }
    // Everything that was posted completes, once.
    for pair in 0..PAIRS {
        for side in 0..2 {
            run.disconnect(side, pair);
        }
        run.compare();
    }
    run
}

/// Runs of a test; `PROPTEST_CASES` asks for more or fewer.
fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

fn network(seed: u64) -> SimConfig {
    SimConfig {
        seed,
        jitter: Duration(seed % 3_000),
        queue_frames_max: 2 + (seed % 40) as usize,
        payload_bytes_max: 256 + (seed % 3_000) as usize,
        ..SimConfig::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(200), ..ProptestConfig::default() })]
    #[test]
    fn over_the_network_in_memory(steps in prop::collection::vec(step(), 1..32), level in level(), seed in any::<u64>()) {
        let first = run(Sim::new(network(seed), 2), level, Memory::Heap, &steps).stage.fixture.world.network().statistics();
        // The same seed is the same run, frame by frame.
        let second = run(Sim::new(network(seed), 2), level, Memory::Heap, &steps).stage.fixture.world.network().statistics();
        prop_assert_eq!(first, second);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(30), ..ProptestConfig::default() })]
    #[test]
    fn over_shared_memory_mapped(steps in prop::collection::vec(step(), 1..32), level in level()) {
        run(Shm::new(ProtectionMode::Mapped, 2), level, Memory::Engine, &steps);
    }

    #[test]
    fn over_shared_memory_guarded(steps in prop::collection::vec(step(), 1..32), level in level()) {
        run(Shm::new(ProtectionMode::Guarded, 2), level, Memory::Heap, &steps);
    }

    #[test]
    fn within_one_nic(steps in prop::collection::vec(step(), 1..32), level in level()) {
        run(Sim::new(SimConfig::default(), 1), level, Memory::Heap, &steps);
    }
}
