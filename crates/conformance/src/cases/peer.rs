// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peer-to-peer connections: both sides ask.

use crate::stage::{Memory, Stage};
use crate::{Fixture, Port};
use bellwire_via::{Duration, Error, Instant, NetAddress, Reliability, ViAttributes, ViState};

fn vi<F: Fixture>(s: &mut Stage<F>, side: usize) -> Port {
    let nic = s.side(side);
    s.vi(nic, &Stage::<F>::attributes(Reliability::ReliableDelivery, None))
}

fn ask<F: Fixture>(s: &mut Stage<F>, p: Port, local: &NetAddress, remote: &NetAddress, deadline: Instant) {
    s.fixture.with(p.nic, |e| e.peer_request(p.vi, local, remote, deadline)).expect("begun");
}

#[track_caller]
fn outcome<F: Fixture>(s: &mut Stage<F>, p: Port) -> Result<ViAttributes, Error> {
    s.wait("the outcome of a peer request", |s| s.fixture.with(p.nic, |e| e.connect_status(p.vi)).transpose())
}

/// Both ask at the same time, or one after the other, either first.
pub fn crossed_and_staggered<F: Fixture>(s: &mut Stage<F>) {
    for turns in [0usize, 1, 2, 3, 5, 8, 200] {
        for swapped in [false, true] {
            let (a, b) = (vi(s, 0), vi(s, 1));
            let (at_a, at_b) = (s.fresh_address(a.nic), s.fresh_address(b.nic));
            let deadline = s.in_time();
            let order = if swapped { [(b, at_b, at_a), (a, at_a, at_b)] } else { [(a, at_a, at_b), (b, at_b, at_a)] };
            ask(s, order[0].0, &order[0].1, &order[0].2, deadline);
            assert_eq!(s.state(order[0].0), ViState::ConnectPending);
            for _ in 0..turns {
                s.turn();
            }
            ask(s, order[1].0, &order[1].1, &order[1].2, deadline);
            outcome(s, a).expect("connected");
            outcome(s, b).expect("connected");
            assert_eq!((s.state(a), s.state(b)), (ViState::Connected, ViState::Connected));
            let (from, to) = (s.buffer(a.nic, Memory::Heap, 64, None), s.buffer(b.nic, Memory::Heap, 64, None));
            s.ping(a, b, &from, &to);
            s.ping(b, a, &to, &from);
            s.part(&[a, b]);
        }
    }
}

/// Several VIs ask with the same two addresses: each gets one partner, and the partners agree.
pub fn several_with_the_same_addresses<F: Fixture>(s: &mut Stage<F>) {
    for reversed in [false, true] {
        for turns in [0usize, 1, 4] {
            const COUNT: usize = 4;
            let at_a = s.fresh_address(s.side(0));
            let at_b = s.fresh_address(s.side(1));
            let a: Vec<Port> = (0..COUNT).map(|_| vi(s, 0)).collect();
            let b: Vec<Port> = (0..COUNT).map(|_| vi(s, 1)).collect();
            let deadline = s.in_time();
            for (i, partner) in b.iter().enumerate() {
                let k = if reversed { COUNT - 1 - i } else { i };
                ask(s, a[k], &at_a, &at_b, deadline);
                for _ in 0..turns {
                    s.turn();
                }
                ask(s, *partner, &at_b, &at_a, deadline);
            }
            for p in a.iter().chain(&b) {
                outcome(s, *p).expect("connected");
            }
            s.settle();
            for p in a.iter().chain(&b) {
                assert_eq!(s.state(*p), ViState::Connected, "reversed {reversed}, {turns} turns");
                s.receive(*p, &[], 1);
            }
            // Pairs hear from each other one to one.
            for (i, p) in a.iter().enumerate() {
                s.send(*p, &[], Some(i as u32), 2);
                s.sent(*p, 2);
            }
            let mut heard = Vec::new();
            for p in &b {
                let from = s.received(*p, 1).immediate;
                heard.push(from);
                s.send(*p, &[], Some(from), 3);
                s.sent(*p, 3);
            }
            heard.sort_unstable();
            assert_eq!(heard, (0..COUNT as u32).collect::<Vec<_>>());
            for (i, p) in a.iter().enumerate() {
                assert_eq!(s.received(*p, 1).immediate as usize, i, "the answer comes from the partner");
            }
            s.part(&a);
            s.part(&b);
        }
    }
}

/// Only one side asks.
pub fn one_sided<F: Fixture>(s: &mut Stage<F>) {
    for side in 0..2 {
        let (a, b) = (vi(s, side), vi(s, 1 - side));
        let (at_a, at_b) = (s.fresh_address(a.nic), s.fresh_address(b.nic));
        let deadline = s.after(20);
        ask(s, a, &at_a, &at_b, deadline);
        assert_eq!(outcome(s, a), Err(Error::Timeout));
        assert!(s.now() >= deadline);
        assert_eq!(s.state(a), ViState::Idle);
        // Too late.
        let deadline = s.after(20);
        ask(s, b, &at_b, &at_a, deadline);
        assert_eq!(outcome(s, b), Err(Error::Timeout));
        // And given up by hand.
        ask(s, a, &at_a, &at_b, Instant::NEVER);
        s.settle();
        s.fixture.with(a.nic, |e| e.disconnect(a.vi)).expect("given up");
        assert_eq!(s.state(a), ViState::Idle);
        let deadline = s.after(20);
        ask(s, b, &at_b, &at_a, deadline);
        assert_eq!(outcome(s, b), Err(Error::Timeout));
        // The other NIC's word that nobody asked there may come just when the time is over.
        for us in (0..2_000).step_by(40) {
            let deadline = s.now() + Duration::from_micros(us);
            ask(s, b, &at_b, &at_a, deadline);
            assert_eq!(outcome(s, b), Err(Error::Timeout), "after {us} us");
        }
        s.connect(a, b);
    }
}

/// Other addresses do not meet.
pub fn other_addresses_do_not_meet<F: Fixture>(s: &mut Stage<F>) {
    let (a, b) = (vi(s, 0), vi(s, 1));
    let (at_a, at_b, other) = (s.fresh_address(a.nic), s.fresh_address(b.nic), s.fresh_address(a.nic));
    let deadline = s.after(20);
    ask(s, a, &at_a, &at_b, deadline);
    ask(s, b, &at_b, &other, deadline);
    assert_eq!(outcome(s, a), Err(Error::Timeout));
    assert_eq!(outcome(s, b), Err(Error::Timeout));
}

/// Attributes that do not agree end both requests with the reason.
pub fn attributes_must_agree<F: Fixture>(s: &mut Stage<F>) {
    for first in 0..2 {
        let (na, nb) = (s.side(0), s.side(1));
        let base = Stage::<F>::attributes(Reliability::ReliableDelivery, None);
        let other = ViAttributes { reliability: Reliability::ReliableReception, ..base };
        for (theirs, why) in [(other, Error::InvalidReliability), (ViAttributes { max_transfer_bytes: 77, ..base }, Error::InvalidMtu)] {
            let (a, b) = (s.vi(na, &base), s.vi(nb, &theirs));
            let (at_a, at_b) = (s.fresh_address(na), s.fresh_address(nb));
            let deadline = s.in_time();
            if first == 0 {
                ask(s, a, &at_a, &at_b, deadline);
                ask(s, b, &at_b, &at_a, deadline);
            } else {
                ask(s, b, &at_b, &at_a, deadline);
                s.settle();
                ask(s, a, &at_a, &at_b, deadline);
            }
            assert_eq!(outcome(s, a), Err(why));
            assert_eq!(outcome(s, b), Err(why));
            assert_eq!((s.state(a), s.state(b)), (ViState::Idle, ViState::Idle));
        }
    }
}
