// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random messages on random machines: nothing is lost, doubled or changed, nothing waits forever,
//! and the same seed gives the same.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bellwire_nisim::am::Am;
use bellwire_nisim::cluster::{self, Outcome};
use bellwire_nisim::machine::{Costs, Parameters};
use bellwire_nisim::ni::DESIGNS;
use bellwire_nisim::programs::collective::Barrier;
use bellwire_nisim::programs::random::Random;
use bellwire_nisim::time::Time;

const FORTH: u16 = 1;
const BACK: u16 = 2;

fn machine(random: &mut Random) -> Parameters {
    let block_bytes = [32, 64, 128][random.below(3)];
    Parameters {
        nodes: 2 + random.below(8),
        cache_bytes: block_bytes << (4 + random.below(8)),
        cache_ways: 1 << random.below(3),
        block_bytes,
        bus_bytes: [8, 16, 32][random.below(3)],
        message_bytes: [64, 256, 512][random.below(3)],
        memory: Time::from_ns(20 + random.below(200) as u64),
        memory_banks: 1 + random.below(4),
        ni_memory: Time::from_ns(random.below(100) as u64),
        pcie: Time::from_ns(random.below(400) as u64),
        cxl: Time::from_ns(random.below(200) as u64),
        core: Time::from_ns(random.below(100) as u64),
        network: Time::from_ns(random.below(300) as u64),
        buffers: [Some(1), Some(2), Some(5), None][random.below(4)],
        costs: Costs { poll_interval: random.below(3000) as u64, retry: Time::from_ns(random.below(500) as u64), ..Costs::default() },
        ..Parameters::default()
    }
}

/// What a message carries, made from its sender and number.
fn content(from: usize, number: usize) -> Vec<u8> {
    let mut random = Random::new(from as u64, number as u64);
    (0..random.below(700)).map(|_| random.bits() as u8).collect()
}

/// Sends to random nodes; each message is answered with its length by its handler. Ends when all
/// answers have come.
async fn node(am: Am, seed: u64, messages: usize, handled: Rc<RefCell<Vec<(usize, usize)>>>) {
    let (me, answered) = (am.cpu().node(), Rc::new(Cell::new(0)));
    let (count, barrier) = (answered.clone(), Barrier::new(&am));
    am.on(FORTH, move |am, from, payload| {
        let handled = handled.clone();
        async move {
            am.fetch_payload().await;
            let number = u32::from_le_bytes(payload[..4].try_into().unwrap()) as usize;
            assert_eq!(payload[4..], content(from, number), "a message arrives as it was sent");
            handled.borrow_mut().push((from, number));
            am.send(from, BACK, &(payload.len() as u32).to_le_bytes()).await;
        }
    });
    am.on(BACK, move |_, _, _| {
        count.set(count.get() + 1);
        async {}
    });
    let mut random = Random::new(seed, me as u64);
    for number in 0..messages {
        let to = (me + 1 + random.below(am.cpu().nodes() - 1)) % am.cpu().nodes();
        let payload = [&(number as u32).to_le_bytes()[..], &content(me, number)].concat();
        am.send(to, FORTH, &payload).await;
        am.cpu().compute(random.below(400) as u64);
        am.breathe().await;
        am.cpu().store(random.below(1 << 16) as u64 * 8).await;
    }
    am.wait(|| answered.get() == messages).await;
    barrier.wait().await;
}

fn run(seed: u64) -> Outcome {
    let mut random = Random::new(seed, 99);
    let (machine, design, messages) = (machine(&mut random), &DESIGNS[seed as usize % DESIGNS.len()], 20 + random.below(40));
    let handled = Rc::new(RefCell::new(Vec::new()));
    let outcome = cluster::run(&machine, design, Time::from_ns(100_000_000), |am| node(am, seed, messages, handled.clone()));
    let outcome = outcome.unwrap_or_else(|stuck| panic!("seed {seed}, {} on {machine:?}: {stuck}", design.name));
    let mut all = handled.take();
    all.sort_unstable();
    let expected: Vec<(usize, usize)> = (0..machine.nodes).flat_map(|from| (0..messages).map(move |number| (from, number))).collect();
    assert_eq!(all, expected, "seed {seed}: each message is handled once");
    outcome
}

#[test]
fn nothing_is_lost_on_random_machines() {
    let seeds = std::env::var("BELLWIRE_NISIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(120);
    for seed in 0..seeds {
        let outcome = run(seed);
        if seed % 10 == 0 {
            assert_eq!(outcome, run(seed), "seed {seed} gives the same");
        }
    }
}
