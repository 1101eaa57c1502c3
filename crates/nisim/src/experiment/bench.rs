// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's two microbenchmarks, between two nodes: round trip and bandwidth. Both let every queue go round once before they measure.

use std::cell::Cell;
use std::rc::Rc;

use crate::am::Am;
use crate::cluster::{self, Outcome};
use crate::engine::Stuck;
use crate::machine::Parameters;
use crate::ni::Design;
use crate::time::Time;

const DATA: u16 = 1;
const DONE: u16 = 2;
/// Network messages before measuring: more than the longest queue to send holds.
const WARM: u64 = 600;
const MEASURED: u64 = 400;
/// No benchmark takes as long.
const LIMIT: Time = Time::from_ns(1_000_000_000);

/// A counter that a handler raises.
fn count(am: &Am, handler: u16) -> Rc<Cell<u64>> {
    let seen = Rc::new(Cell::new(0));
    let counted = seen.clone();
    am.on(handler, move |_, _, _| {
        counted.set(counted.get() + 1);
        async {}
    });
    seen
}

/// Mean time of a message of `payload` bytes there and one back.
///
/// # Errors
/// If the simulation gets stuck.
pub fn round_trip(machine: &Parameters, design: &Design, payload: usize) -> Result<(Time, Outcome), Stuck> {
    let machine = Parameters { nodes: 2, ..machine.clone() };
    let span = Rc::new(Cell::new(Time::ZERO));
    let outcome = cluster::run(&machine, design, LIMIT, |am| {
        let span = span.clone();
        async move {
            let (seen, me, bytes) = (count(&am, DATA), am.cpu().node(), vec![0; payload]);
            let mut start = Time::ZERO;
            for round in 0..WARM + MEASURED {
                if round == WARM {
                    start = am.cpu().now();
                }
                if me == 0 {
                    am.send(1, DATA, &bytes).await;
                }
                am.wait(|| seen.get() > round).await;
                if me == 1 {
                    am.send(0, DATA, &bytes).await;
                }
            }
            if me == 0 {
                span.set(am.cpu().now() - start);
            }
        }
    })?;
    Ok((Time(span.get().0 / MEASURED), outcome))
}

/// Bytes of payload per microsecond, that is MB/s, of a stream of messages in one direction, as the receiver sees it.
///
/// # Errors
/// If the simulation gets stuck.
pub fn bandwidth(machine: &Parameters, design: &Design, payload: usize) -> Result<(f64, Outcome), Stuck> {
    let machine = Parameters { nodes: 2, ..machine.clone() };
    let span = Rc::new(Cell::new(Time::ZERO));
    let outcome = cluster::run(&machine, design, LIMIT, |am| {
        let span = span.clone();
        async move {
            let (seen, ended, bytes) = (count(&am, DATA), count(&am, DONE), vec![0; payload]);
            if am.cpu().node() == 0 {
                for _ in 0..WARM + MEASURED {
                    am.send(1, DATA, &bytes).await;
                }
                am.wait(|| ended.get() == 1).await;
                return;
            }
            am.wait(|| seen.get() >= WARM).await;
            let start = am.cpu().now();
            am.wait(|| seen.get() >= WARM + MEASURED).await;
            span.set(am.cpu().now() - start);
            am.send(0, DONE, &[0; 8]).await;
        }
    })?;
    Ok(((MEASURED * payload as u64) as f64 * 1e3 / span.get().as_ns(), outcome))
}
