// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's two microbenchmarks, between two nodes: round trip and bandwidth. Both let every
//! queue to send go round once before they measure.

use std::cell::Cell;
use std::rc::Rc;

use crate::am::Am;
use crate::cluster::{self, Outcome};
use crate::engine::Stuck;
use crate::machine::Parameters;
use crate::ni::{Design, MEMORY_BLOCKS};
use crate::time::Time;

const DATA: u16 = 1;
const DONE: u16 = 2;
/// Messages before measuring: more than the longest queue to send holds.
const WARM: u64 = 600;
/// Messages that are measured, at least.
const MEASURED: u64 = 400;
/// How often the longest queue to receive goes round while a stream is measured: where the receiver
/// is the slower one, the stream then runs most of the time against a full queue, at the receiver's
/// pace, as one that does not end would.
const LAPS: u64 = 8;
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

/// How many messages of `payload` bytes a stream has.
fn stream_length(machine: &Parameters, payload: usize) -> u64 {
    let (whole, rest) = ((payload / machine.payload_max()) as u64, payload % machine.payload_max());
    let blocks = whole * machine.blocks(machine.payload_max()) + if rest > 0 || whole == 0 { machine.blocks(rest) } else { 0 };
    (LAPS * MEMORY_BLOCKS).div_ceil(blocks).max(MEASURED)
}

/// Bytes of payload per microsecond, that is MB/s, of a stream of messages in one direction: from
/// the first send until the last message has been taken.
///
/// # Errors
/// If the simulation gets stuck.
pub fn bandwidth(machine: &Parameters, design: &Design, payload: usize) -> Result<(f64, Outcome), Stuck> {
    let machine = Parameters { nodes: 2, ..machine.clone() };
    let measured = stream_length(&machine, payload);
    let (start, end) = (Rc::new(Cell::new(Time::ZERO)), Rc::new(Cell::new(Time::ZERO)));
    let outcome = cluster::run(&machine, design, LIMIT, |am| {
        let (start, end) = (start.clone(), end.clone());
        async move {
            let (me, done, bytes, seen) = (am.cpu().node(), count(&am, DONE), vec![0; payload], Rc::new(Cell::new(0)));
            let counted = seen.clone();
            // The handler looks at the clock, as a poll does not end while messages come.
            am.on(DATA, move |am, _, _| {
                counted.set(counted.get() + 1);
                end.set(am.cpu().now());
                async {}
            });
            for (lap, messages) in [WARM, measured].into_iter().enumerate() {
                if me == 1 {
                    am.wait(|| seen.get() == messages).await;
                    seen.set(0);
                    am.send(0, DONE, &[0; 8]).await;
                    continue;
                }
                start.set(am.cpu().now());
                for _ in 0..messages {
                    am.send(1, DATA, &bytes).await;
                }
                am.wait(|| done.get() > lap as u64).await;
            }
        }
    })?;
    Ok(((measured * payload as u64) as f64 * 1e3 / (end.get() - start.get()).as_ns(), outcome))
}
