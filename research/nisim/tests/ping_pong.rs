// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two nodes send a message to and fro.

use std::cell::Cell;
use std::rc::Rc;

use bellwire_nisim::am::Am;
use bellwire_nisim::cluster;
use bellwire_nisim::machine::Parameters;
use bellwire_nisim::ni;
use bellwire_nisim::time::Time;

const PING: u16 = 1;
const ROUNDS: u32 = 20;

/// Both nodes: the receiver of a message answers it; node 0 begins.
async fn ping_pong(am: Am, bytes: usize, ended: Rc<Cell<(Time, Time)>>) {
    let seen = Rc::new(Cell::new(0));
    let count = seen.clone();
    am.on(PING, move |_, _, payload| {
        assert!(payload.iter().enumerate().all(|(index, &byte)| byte == index as u8), "the bytes arrive as they were sent");
        count.set(count.get() + 1);
        async {}
    });
    let (me, payload): (usize, Vec<u8>) = (am.cpu().node(), (0..bytes).map(|index| index as u8).collect());
    for round in 0..ROUNDS {
        if me == 0 {
            if round == ROUNDS / 2 {
                ended.set((am.cpu().now(), Time::ZERO));
            }
            am.send(1, PING, &payload).await;
        }
        am.wait(|| seen.get() > round).await;
        if me == 1 {
            am.send(0, PING, &payload).await;
        }
    }
    if me == 0 {
        ended.set((ended.get().0, am.cpu().now()));
    }
}

fn round_trip_ns(design: &str, bytes: usize) -> f64 {
    let parameters = Parameters { nodes: 2, ..Parameters::default() };
    let (ended, design) = (Rc::new(Cell::default()), ni::find(design).unwrap());
    let run = || cluster::run(&parameters, design, Time::from_ns(10_000_000), |am| ping_pong(am, bytes, ended.clone())).unwrap();
    let outcome = run();
    assert_eq!(outcome, run(), "the same program on the same machine gives the same");
    let messages = outcome.messages.iter().map(|&(sent, ..)| sent).sum::<u64>();
    assert_eq!(messages, outcome.messages.iter().map(|&(_, taken, _)| taken).sum::<u64>(), "what was sent was taken");
    let (from, to) = ended.get();
    (to - from).as_ns() / f64::from(ROUNDS / 2)
}

/// Round trips of 8, 64 and 256 bytes are within 20 % of the paper's Table 5; `table5.rs` looks
/// closer.
#[test]
fn round_trips_as_in_the_paper() {
    let mut far = Vec::new();
    for (design, paper) in [("ni2w", [2410.0, 5250.0, 15110.0]), ("ap3000", [1950.0, 2480.0, 4470.0])] {
        for (bytes, expected) in [8, 64, 256].into_iter().zip(paper) {
            let found = round_trip_ns(design, bytes);
            println!("{design} {bytes}: {found:.0} ns, paper {expected:.0}, {:+.1} %", (found / expected - 1.0) * 100.0);
            if (found / expected - 1.0).abs() > 0.20 {
                far.push(format!("{design} {bytes}: {found:.0} ns, the paper has {expected:.0}"));
            }
        }
    }
    assert!(far.is_empty(), "{far:?}");
}
