// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the paper's abstract states, and how each statement is tested here.

use super::exhibits::{PAPER_REDUCTION, both, ends, mean_reduction};
use super::steps::{CARRIERS, ROUTES, Waits, latency, loads, waiting};
use crate::ladder::Rung;
use crate::papers::judge::{Claim, Test};
use crate::papers::values::Round;

const NS: &str = "ns";

/// A statement about each way: its text for shared memory and for UDP.
type Texts = [&'static str; 2];

fn positive(what: &'static str, unit: &'static str, of: impl Fn(&Round<'_>) -> Option<f64> + 'static) -> Test<'static> {
    Test::Positive { what, unit, of: Box::new(of) }
}

/// What a rung is below the one before it at a size.
fn gain(rung: Rung, before: Rung, bytes: usize, route: &'static str) -> impl Fn(&Round<'_>) -> Option<f64> {
    let (from, to) = (latency(before, bytes, route), latency(rung, bytes, route));
    move |round| Some(round.get(&from)? - round.get(&to)?)
}

/// All of them.
pub fn all(quick: bool) -> Vec<Claim<'static>> {
    let abstract_ = |text, test| Claim { place: "abstract", text, test };
    let here = |text, test| Claim { place: "here", text, test };
    let (small, large) = (4, 16 << 10);
    let mut claims = vec![
        abstract_(
            "a VI in hardware and one in the driver both have far lower latency than UDP on the same network",
            Test::Absent("there is one VI here, in the program; the next statements compare it with UDP sockets"),
        ),
        abstract_(
            "bandwidth is far above UDP's on the same network",
            Test::Absent("bandwidth is measured by `bellwire perf --wire udp --compare`, beside bare sockets"),
        ),
        abstract_("memory must be registered, which costs", Test::Absent("registration pins nothing here; `bellwire perf --only reg` has its cost")),
    ];
    let texts: [(Texts, Rung, Rung, usize); 5] = [
        (["a VI in place of UDP sockets is faster (4 B, shared memory)", "a VI in place of UDP sockets is faster (4 B, UDP)"], Rung::Vi, Rung::Udp, small),
        (
            ["without explicit acknowledgements it is faster (4 B, shared memory)", "without explicit acknowledgements it is faster (4 B, UDP)"],
            Rung::Unacknowledged,
            Rung::Vi,
            small,
        ),
        (
            ["without a copy at the receiver it is faster (16 KiB, shared memory)", "without a copy at the receiver it is faster (16 KiB, UDP)"],
            Rung::Placed,
            Rung::Unacknowledged,
            large,
        ),
        (
            ["without a copy at the sender it is faster (16 KiB, shared memory)", "without a copy at the sender it is faster (16 KiB, UDP)"],
            Rung::Pooled,
            Rung::Placed,
            large,
        ),
        (
            [
                "without any copy it is faster than with both, any memory (16 KiB, shared memory)",
                "without any copy it is faster than with both, any memory (16 KiB, UDP)",
            ],
            Rung::Cached,
            Rung::Unacknowledged,
            large,
        ),
    ];
    for (texts, rung, before, bytes) in texts {
        for (text, (route, _)) in texts.into_iter().zip(ROUTES) {
            claims.push(abstract_(text, positive("half a round trip of the rung before less this rung's", NS, gain(rung, before, bytes, route))));
        }
    }
    for (text, (route, _)) in
        ["all steps together take 55 % off on average (shared memory)", "all steps together take 55 % off on average (UDP)"].into_iter().zip(ROUTES)
    {
        let of = move |round: &Round<'_>| Some(mean_reduction(round, quick, |bytes| ends(bytes, route))? - PAPER_REDUCTION);
        claims.push(abstract_(text, positive("the mean over sizes of what the highest rung is below UDP sockets less the paper's", "%", of)));
    }
    for (text, (route, _)) in ["polling is faster than blocking (4 B, shared memory)", "polling is faster than blocking (4 B, UDP)"].into_iter().zip(ROUTES) {
        let (blocking, polling) = (waiting(Waits::Blocking, small, route), latency(Rung::Cached, small, route));
        let of = move |round: &Round<'_>| Some(round.get(&blocking)? - round.get(&polling)?);
        claims.push(abstract_(text, positive("half a round trip that blocks less one that polls", NS, of)));
    }
    for (text, (route, _)) in
        ["spinning before blocking is faster than blocking (4 B, shared memory)", "spinning before blocking is faster than blocking (4 B, UDP)"]
            .into_iter()
            .zip(ROUTES)
    {
        let (blocking, spinning) = (waiting(Waits::Blocking, small, route), waiting(Waits::SpinThenBlock, small, route));
        let of = move |round: &Round<'_>| Some(round.get(&blocking)? - round.get(&spinning)?);
        claims.push(here(text, positive("half a round trip that blocks less one that spins first", NS, of)));
    }
    let of = loads(quick)[0];
    for (text, vi, other) in [
        ("a VI takes less processor time than UDP (64 B, 1000/s, shared memory)", 1, 3),
        ("a VI takes less processor time than TCP (64 B, 1000/s, shared memory)", 1, 4),
        ("a VI takes less processor time than UDP (64 B, 1000/s, UDP)", 2, 3),
        ("a VI takes less processor time than TCP (64 B, 1000/s, UDP)", 2, 4),
    ] {
        let difference = move |round: &Round<'_>| Some(both(round, CARRIERS[other].0, of)? - both(round, CARRIERS[vi].0, of)?);
        claims.push(abstract_(text, positive("processor time of a message at both ends, a socket's less the VI's", NS, difference)));
    }
    claims
}
