// SPDX-License-Identifier: MIT OR Apache-2.0
//! Client and server: before and after, matched by discriminator, refused, timed out, cancelled,
//! with attributes that do not fit.

use crate::stage::{Memory, Stage, refused};
use crate::{Fixture, Port};
use bellwire_via::event::AsyncErrorCode;
use bellwire_via::{Error, Instant, NetAddress, Reliability, ViAttributes, ViState};

fn reliable<F: Fixture>(s: &mut Stage<F>, side: usize) -> Port {
    let nic = s.side(side);
    s.vi(nic, &Stage::<F>::attributes(Reliability::ReliableDelivery, None))
}

/// The outcome of a VI's request.
#[track_caller]
fn outcome<F: Fixture>(s: &mut Stage<F>, p: Port) -> Result<ViAttributes, Error> {
    s.wait("the outcome of a request", |s| s.fixture.with(p.nic, |e| e.connect_status(p.vi)).transpose())
}

fn request<F: Fixture>(s: &mut Stage<F>, a: Port, local: &NetAddress, remote: &NetAddress, deadline: Instant) {
    s.fixture.with(a.nic, |e| e.connect_request(a.vi, local, remote, deadline)).expect("begun");
}

#[track_caller]
fn incoming<F: Fixture>(s: &mut Stage<F>, nic: usize, wait: bellwire_via::WaitHandle) -> Result<bellwire_via::ConnectionRequest, Error> {
    s.wait("a request", |s| s.fixture.with(nic, |e| e.poll_wait(wait)).transpose())
}

/// A server on `nic` that waits hears of a request by `a`; `addresses`: local and remote.
#[track_caller]
fn asked<F: Fixture>(s: &mut Stage<F>, a: Port, nic: usize, addresses: (&NetAddress, &NetAddress), deadline: Instant) -> bellwire_via::ConnectionRequest {
    let wait = s.fixture.with(nic, |e| e.connect_wait(addresses.1, Instant::NEVER)).expect("a wait");
    request(s, a, addresses.0, addresses.1, deadline);
    incoming(s, nic, wait).expect("a request")
}

/// A request finds a server that waits already, and one that begins to wait later.
pub fn before_and_after<F: Fixture>(s: &mut Stage<F>) {
    for server_first in [true, false] {
        let (a, b) = (reliable(s, 0), reliable(s, 1));
        let (local, remote) = (s.fresh_address(a.nic), s.fresh_address(b.nic));
        let mut wait = None;
        if server_first {
            wait = Some(s.fixture.with(b.nic, |e| e.connect_wait(&remote, Instant::NEVER)).expect("a wait"));
            s.settle();
        }
        let deadline = s.in_time();
        request(s, a, &local, &remote, deadline);
        s.settle();
        let wait = wait.unwrap_or_else(|| s.fixture.with(b.nic, |e| e.connect_wait(&remote, Instant::NEVER)).expect("a wait"));
        let found = incoming(s, b.nic, wait).expect("a request");
        assert_eq!(found.remote, local, "the requester's address");
        assert_eq!(found.attributes.reliability, Reliability::ReliableDelivery);
        assert_eq!(s.state(a), ViState::ConnectPending);
        s.fixture.with(b.nic, |e| e.accept(found.incoming, b.vi)).expect("accepted");
        assert_eq!(s.state(b), ViState::Connected);
        let theirs = outcome(s, a).expect("connected");
        assert_eq!(theirs.reliability, Reliability::ReliableDelivery);
        refused(s.fixture.with(a.nic, |e| e.connect_request(a.vi, &local, &remote, Instant::NEVER)), Error::InvalidState);
        refused(s.fixture.with(b.nic, |e| e.accept(found.incoming, b.vi)), Error::InvalidParameter);
        refused(s.fixture.with(b.nic, |e| e.reject(found.incoming)), Error::InvalidParameter);
    }
}

/// Requests go to the waiter for their discriminator, whatever its length.
pub fn discriminators<F: Fixture>(s: &mut Stage<F>) {
    let nb = s.side(1);
    let names: [&[u8]; 6] = [b"", b"a", b"b", b"ab", &[0xff; 64], &[0; 64]];
    let waits: Vec<_> = names
        .iter()
        .map(|n| {
            let address = s.address(nb, n);
            s.fixture.with(nb, |e| e.connect_wait(&address, Instant::NEVER)).expect("a wait")
        })
        .collect();
    for (i, name) in names.iter().enumerate().rev() {
        let a = reliable(s, 0);
        let (local, remote) = (s.fresh_address(a.nic), s.address(nb, name));
        request(s, a, &local, &remote, Instant::NEVER);
        let found = incoming(s, nb, waits[i]).expect("a request");
        assert_eq!(found.remote, local);
        for w in &waits[..i] {
            assert!(s.fixture.with(nb, |e| e.poll_wait(*w)).expect("still waiting").is_none());
        }
        let b = reliable(s, 1);
        s.fixture.with(nb, |e| e.accept(found.incoming, b.vi)).expect("accepted");
        outcome(s, a).expect("connected");
    }
}

/// Several servers wait at one address: requests are served in the order of the waits.
pub fn several_waits<F: Fixture>(s: &mut Stage<F>) {
    let nb = s.side(1);
    let remote = s.fresh_address(nb);
    let waits: Vec<_> = (0..4).map(|_| s.fixture.with(nb, |e| e.connect_wait(&remote, Instant::NEVER)).expect("a wait")).collect();
    for wait in &waits {
        let a = reliable(s, 0);
        let local = s.fresh_address(a.nic);
        request(s, a, &local, &remote, Instant::NEVER);
        let found = incoming(s, nb, *wait).expect("a request");
        assert_eq!(found.remote, local);
        s.fixture.with(nb, |e| e.reject(found.incoming)).expect("rejected");
        assert_eq!(outcome(s, a), Err(Error::Rejected));
    }
}

/// Nobody waits there; nobody is there at all.
pub fn no_match<F: Fixture>(s: &mut Stage<F>) {
    let a = reliable(s, 0);
    let nb = s.side(1);
    let other = s.fresh_address(nb);
    let wait = s.fixture.with(nb, |e| e.connect_wait(&other, Instant::NEVER)).expect("a wait");
    let (local, remote) = (s.fresh_address(a.nic), s.fresh_address(nb));
    let deadline = s.after(30);
    request(s, a, &local, &remote, deadline);
    assert_eq!(outcome(s, a), Err(Error::NoMatch));
    assert!(s.now() >= deadline);
    assert_eq!(s.state(a), ViState::Idle);
    assert!(s.fixture.with(nb, |e| e.poll_wait(wait)).expect("still waiting").is_none());
    let nowhere = NetAddress::new(&[203, 0, 113, 77], b"nobody").expect("short");
    let deadline = s.after(30);
    request(s, a, &local, &nowhere, deadline);
    let error = outcome(s, a).expect_err("there is nobody");
    assert!(matches!(error, Error::NoMatch | Error::NotReachable), "{error:?}");
    assert_eq!(s.state(a), ViState::Idle);
    refused(s.fixture.with(a.nic, |e| e.connect_status(a.vi)), Error::InvalidState);
}

/// Waits that end without a request, and requests that nobody answers.
pub fn timeouts<F: Fixture>(s: &mut Stage<F>) {
    let (a, b) = (reliable(s, 0), reliable(s, 1));
    let (local, remote) = (s.fresh_address(a.nic), s.fresh_address(b.nic));
    let deadline = s.after(20);
    let wait = s.fixture.with(b.nic, |e| e.connect_wait(&remote, deadline)).expect("a wait");
    assert_eq!(incoming(s, b.nic, wait).map(|_| ()), Err(Error::Timeout));
    refused(s.fixture.with(b.nic, |e| e.poll_wait(wait)), Error::InvalidParameter);

    // The server takes the request and does not answer.
    // Long enough for the request to get there, on a busy machine too.
    let deadline = s.after(1_000) + F::QUIET + F::QUIET;
    let found = asked(s, a, b.nic, (&local, &remote), deadline);
    assert_eq!(outcome(s, a), Err(Error::Timeout));
    assert_eq!(s.state(a), ViState::Idle);
    s.settle();
    refused(s.fixture.with(b.nic, |e| e.accept(found.incoming, b.vi)), Error::Timeout);
    assert_eq!(s.state(b), ViState::Idle);
    s.connect(a, b);
}

/// Two times: a name without a waiter is an error soon; a waiter that has been found may take
/// longer.
pub fn found_and_slow<F: Fixture>(s: &mut Stage<F>) {
    let (a, b) = (reliable(s, 0), reliable(s, 1));
    let (local, remote) = (s.fresh_address(a.nic), s.fresh_address(b.nic));
    let within = |s: &mut Stage<F>, found_by, answered_by| {
        s.fixture.with(a.nic, |e| e.connect_request_within(a.vi, &local, &remote, found_by, answered_by)).expect("begun");
    };
    let (soon, late) = (s.after(20), s.in_time());
    within(s, soon, late);
    assert_eq!(outcome(s, a), Err(Error::NoMatch));

    let wait = s.fixture.with(b.nic, |e| e.connect_wait(&remote, Instant::NEVER)).expect("a wait");
    // Long enough for the request to get there, on a busy machine too.
    let found_by = s.after(1_000) + F::QUIET + F::QUIET;
    within(s, found_by, Instant::NEVER);
    let found = incoming(s, b.nic, wait).expect("a request");
    s.until("the time by which it was to be found has passed", |s| s.now() > found_by);
    s.settle();
    assert_eq!(s.state(a), ViState::ConnectPending);
    s.fixture.with(b.nic, |e| e.accept(found.incoming, b.vi)).expect("accepted");
    outcome(s, a).expect("connected");
}

/// A server of many may have no place for more, and then not even listen for a moment: a client
/// that has been told of a waiter goes on asking.
pub fn found_and_away_for_a_moment<F: Fixture>(s: &mut Stage<F>) {
    let (a, other, b) = (reliable(s, 0), reliable(s, 0), reliable(s, 1));
    let (local, remote) = (s.fresh_address(a.nic), s.fresh_address(b.nic));
    let wait = s.fixture.with(b.nic, |e| e.connect_wait(&remote, Instant::NEVER)).expect("a wait");
    let late = s.in_time();
    s.fixture.with(a.nic, |e| e.connect_request(other.vi, &local, &remote, late)).expect("begun");
    let first = incoming(s, b.nic, wait).expect("a request");
    // The only place is taken, but somebody listens.
    let listening = s.fixture.with(b.nic, |e| e.connect_wait(&remote, Instant::NEVER)).expect("a wait");
    let taken = reliable(s, 0);
    s.fixture.with(a.nic, |e| e.connect_request(taken.vi, &local, &remote, Instant::NEVER)).expect("begun");
    s.settle();
    let found_by = s.after(1_000) + F::QUIET + F::QUIET;
    s.fixture.with(a.nic, |e| e.connect_request_within(a.vi, &local, &remote, found_by, Instant::NEVER)).expect("begun");
    s.until("the time by which it was to be found has passed", |s| s.now() > found_by);
    s.settle();
    assert_eq!(s.state(a), ViState::ConnectPending);
    // Nobody listens.
    s.fixture.with(b.nic, |e| e.reject(first.incoming)).expect("refused");
    s.fixture.with(b.nic, |e| e.cancel_wait(listening));
    s.settle();
    assert_eq!(s.state(a), ViState::ConnectPending);
    let wait = s.fixture.with(b.nic, |e| e.connect_wait(&remote, Instant::NEVER)).expect("a wait");
    let found = incoming(s, b.nic, wait).expect("a request");
    s.fixture.with(b.nic, |e| e.accept(found.incoming, b.vi)).expect("accepted");
    outcome(s, a).expect("connected");
}

/// The server says no, or goes away.
pub fn reject_and_cancel<F: Fixture>(s: &mut Stage<F>) {
    let (a, b) = (reliable(s, 0), reliable(s, 1));
    let (local, remote) = (s.fresh_address(a.nic), s.fresh_address(b.nic));
    let found = asked(s, a, b.nic, (&local, &remote), Instant::NEVER);
    s.fixture.with(b.nic, |e| e.reject(found.incoming)).expect("rejected");
    assert_eq!(outcome(s, a), Err(Error::Rejected));
    assert_eq!(s.state(a), ViState::Idle);

    // A wait that is cancelled after a request has matched it refuses that request.
    let wait = s.fixture.with(b.nic, |e| e.connect_wait(&remote, Instant::NEVER)).expect("a wait");
    request(s, a, &local, &remote, Instant::NEVER);
    s.settle();
    s.fixture.with(b.nic, |e| e.cancel_wait(wait));
    assert_eq!(outcome(s, a), Err(Error::Rejected));
    refused(s.fixture.with(b.nic, |e| e.poll_wait(wait)), Error::InvalidParameter);

    // The client gives up while the server thinks.
    let found = asked(s, a, b.nic, (&local, &remote), Instant::NEVER);
    s.fixture.with(a.nic, |e| e.disconnect(a.vi)).expect("given up");
    s.settle();
    refused(s.fixture.with(b.nic, |e| e.accept(found.incoming, b.vi)), Error::Timeout);
    assert_eq!((s.state(a), s.state(b)), (ViState::Idle, ViState::Idle));
    s.connect(a, b);
}

/// The client gives up while the acceptance is on its way: the server's VI does not stay connected
/// to nobody.
pub fn given_up_while_accepted<F: Fixture>(s: &mut Stage<F>) {
    if s.is_loopback() {
        return;
    }
    let (a, b) = (reliable(s, 0), reliable(s, 1));
    let (local, remote) = (s.fresh_address(a.nic), s.fresh_address(b.nic));
    let found = asked(s, a, b.nic, (&local, &remote), Instant::NEVER);
    s.fixture.with(b.nic, |e| e.accept(found.incoming, b.vi)).expect("accepted");
    s.fixture.with(a.nic, |e| e.disconnect(a.vi)).expect("given up");
    s.broken(b, &[AsyncErrorCode::ConnectionLost]);
    assert_eq!(s.state(a), ViState::Idle);
    s.part(&[b]);
    s.connect(a, b);
}

/// Attributes that do not agree: the server is told and may accept with another VI.
pub fn attributes_must_agree<F: Fixture>(s: &mut Stage<F>) {
    let nb = s.side(1);
    let base = Stage::<F>::attributes(Reliability::ReliableDelivery, None);
    let wrong = [
        (ViAttributes { reliability: Reliability::ReliableReception, ..base }, Error::InvalidReliability),
        (ViAttributes { reliability: Reliability::Unreliable, rdma_read: false, ..base }, Error::InvalidReliability),
        (ViAttributes { max_transfer_bytes: 4096, ..base }, Error::InvalidMtu),
    ];
    for (attributes, why) in wrong {
        let a = reliable(s, 0);
        let (b, fitting) = (s.vi(nb, &attributes), reliable(s, 1));
        let (local, remote) = (s.fresh_address(a.nic), s.fresh_address(nb));
        let found = asked(s, a, nb, (&local, &remote), Instant::NEVER);
        refused(s.fixture.with(nb, |e| e.accept(found.incoming, b.vi)), why);
        assert_eq!((s.state(b), s.state(a)), (ViState::Idle, ViState::ConnectPending));
        s.fixture.with(nb, |e| e.accept(found.incoming, fitting.vi)).expect("accepted with another");
        outcome(s, a).expect("connected");
        let (from, to) = (s.buffer(a.nic, Memory::Heap, 64, None), s.buffer(nb, Memory::Heap, 64, None));
        s.ping(a, fitting, &from, &to);
        // A VI that is connected cannot accept.
        let again = reliable(s, 0);
        let found = asked(s, again, nb, (&local, &remote), Instant::NEVER);
        refused(s.fixture.with(nb, |e| e.accept(found.incoming, fitting.vi)), Error::InvalidState);
        s.fixture.with(nb, |e| e.reject(found.incoming)).expect("rejected");
        assert_eq!(outcome(s, again), Err(Error::Rejected));
    }
}

/// An outcome that nobody asks for does not stand in the way.
pub fn unasked_outcome<F: Fixture>(s: &mut Stage<F>) {
    let (a, b) = (reliable(s, 0), reliable(s, 1));
    let (local, remote) = (s.fresh_address(a.nic), s.fresh_address(b.nic));
    for round in 0..3 {
        let found = asked(s, a, b.nic, (&local, &remote), Instant::NEVER);
        s.fixture.with(b.nic, |e| e.accept(found.incoming, b.vi)).expect("accepted");
        s.until("a connection", |s| s.state(a) == ViState::Connected);
        s.part(&[a]);
        s.until("the other hears", |s| s.state(b) == ViState::Error);
        s.part(&[b]);
        assert_eq!(s.take_errors(b), [AsyncErrorCode::ConnectionLost], "round {round}");
    }
}

/// The same two VIs again and again.
pub fn reconnect<F: Fixture>(s: &mut Stage<F>) {
    let p = s.pair(Reliability::ReliableReception);
    let from = s.buffer(p.a.nic, Memory::Heap, 64, p.tag_a);
    let to = s.buffer(p.b.nic, Memory::Heap, 64, p.tag_b);
    for round in 0..20 {
        s.ping(p.a, p.b, &from, &to);
        s.ping(p.b, p.a, &to, &from);
        let (first, second) = if round % 2 == 0 { (p.a, p.b) } else { (p.b, p.a) };
        s.part(&[first]);
        if round % 3 == 0 {
            s.broken(second, &[AsyncErrorCode::ConnectionLost]);
        }
        s.part(&[second]);
        s.take_errors(second);
        if round % 2 == 0 {
            s.connect(p.a, p.b);
        } else {
            s.connect(p.b, p.a);
        }
    }
}
