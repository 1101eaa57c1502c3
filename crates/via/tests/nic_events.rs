// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handlers, errors, the death of a peer, closing, peer-to-peer connections, idleness.

mod nic_common;

use bellwire_via::event::AsyncErrorCode;
use bellwire_via::nic::{NicConfig, OpenError};
use bellwire_via::wire::LinkFailure;
use bellwire_via::wire::shm::ProtectionMode::{Guarded, Mapped};
use bellwire_via::{Cause, Error, Nic, Reliability, ViState, WorkQueueKind};
use nic_common::*;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

#[test]
fn notify_handlers_get_each_completion_in_order() {
    let (a, b) = (Arc::new(open(Mapped)), open(Mapped));
    let (x, y) = pair(&a, &b, None);
    let (tell, told) = mpsc::channel();
    for i in 0..50 {
        x.post_receive(i * 64, 64);
        let tell = tell.clone();
        a.notify(x.vi, WorkQueueKind::Receive, Box::new(move |vi, c| tell.send((vi, c)).unwrap())).unwrap();
    }
    std::thread::sleep(Duration::from_millis(20));
    let mut took = Vec::new();
    for i in 0..50 {
        let began = Instant::now();
        y.send_now(0, 8);
        let (vi, c) = told.recv_timeout(Duration::from_secs(5)).unwrap();
        assert_eq!((vi, c.context, c.length), (x.vi, i * 64, 8));
        took.push(began.elapsed());
    }
    let took = median(took);
    assert!(took < Duration::from_millis(200), "{took:?}");
    assert_eq!(a.notify(bellwire_via::ViHandle::from_raw(12345), WorkQueueKind::Send, Box::new(|_, _| {})).unwrap_err(), Error::InvalidParameter);
}

#[test]
fn a_handler_may_call_the_nic_and_ask_again() {
    fn again(a: Arc<Nic>, vi: bellwire_via::ViHandle, left: usize, tell: mpsc::Sender<usize>) {
        let inner = Arc::clone(&a);
        a.notify(
            vi,
            WorkQueueKind::Receive,
            Box::new(move |vi, _| {
                assert!(inner.is_helper_thread());
                assert_eq!(inner.receive_wait(vi, Some(Duration::from_millis(1))).unwrap_err(), Error::Timeout);
                tell.send(left).unwrap();
                if left > 1 {
                    again(inner, vi, left - 1, tell);
                }
            }),
        )
        .unwrap();
    }
    let (a, b) = (Arc::new(open(Mapped)), open(Mapped));
    let (x, y) = pair(&a, &b, None);
    let (tell, told) = mpsc::channel();
    again(Arc::clone(&a), x.vi, 10, tell);
    for left in (1..=10).rev() {
        x.post_receive(0, 64);
        y.send_now(0, 8);
        assert_eq!(told.recv_timeout(Duration::from_secs(5)).unwrap(), left);
    }
}

#[test]
fn handlers_of_a_completion_queue() {
    let (a, b) = (open(Guarded), open(Guarded));
    let cq = a.with(|e| e.create_cq(16)).unwrap();
    let (x, y) = pair(&a, &b, Some(cq));
    let (tell, told) = mpsc::channel();
    for _ in 0..10 {
        let tell = tell.clone();
        a.notify_cq(cq, Box::new(move |vi, queue| tell.send((vi, queue)).unwrap())).unwrap();
        x.post_receive(0, 64);
        y.send_now(0, 8);
        assert_eq!(told.recv_timeout(Duration::from_secs(5)).unwrap(), (x.vi, WorkQueueKind::Receive));
        assert!(a.receive_done(x.vi).unwrap().is_some());
    }
}

#[test]
fn a_poll_that_is_quicker_leaves_the_handler_waiting() {
    let a = open(Mapped);
    let end = End::new(&a, Reliability::ReliableDelivery, None);
    let (tell, told) = mpsc::channel();
    a.notify(end.vi, WorkQueueKind::Send, Box::new(move |_, c| tell.send(c.context).unwrap())).unwrap();
    // The completion and its dequeuing in one go of the token.
    let taken = a.with(|e| {
        let request = bellwire_via::SendRequest { context: 1, ..Default::default() };
        e.post_send(end.vi, &request).unwrap();
        e.send_done(end.vi).unwrap()
    });
    assert_eq!(taken.unwrap().context, 1);
    assert!(told.recv_timeout(Duration::from_millis(30)).is_err());
    a.post_send(end.vi, &bellwire_via::SendRequest { context: 2, ..Default::default() }).unwrap();
    assert_eq!(told.recv_timeout(Duration::from_secs(5)).unwrap(), 2);
}

#[test]
fn closing_within_a_handler_is_an_error() {
    let a = open(Mapped);
    let end = End::new(&a, Reliability::ReliableDelivery, None);
    let vi = end.vi;
    let slot = Arc::new(Mutex::new(None::<Nic>));
    let (tell, told) = mpsc::channel();
    let theirs = Arc::clone(&slot);
    a.notify(
        vi,
        WorkQueueKind::Send,
        Box::new(move |_, _| {
            let nic = loop {
                if let Some(nic) = theirs.lock().unwrap().take() {
                    break nic;
                }
                std::thread::yield_now();
            };
            let refused = nic.close().unwrap_err();
            *theirs.lock().unwrap() = Some(refused.nic);
            tell.send(()).unwrap();
        }),
    )
    .unwrap();
    a.post_send(vi, &bellwire_via::SendRequest::default()).unwrap();
    *slot.lock().unwrap() = Some(a);
    told.recv_timeout(Duration::from_secs(5)).unwrap();
    let a = slot.lock().unwrap().take().unwrap();
    a.close().unwrap();
}

/// The other process: connects, then waits to be killed.
#[test]
fn peer_to_be_killed() {
    let Some(argument) = peer_argument() else { return };
    let nic = open(Mapped);
    let end = End::new(&nic, Reliability::ReliableDelivery, None);
    call(&end, &named(&argument)).unwrap();
    std::thread::sleep(Duration::from_secs(30));
}

#[test]
fn a_killed_peer_is_told_within_milliseconds() {
    let nic = open(Mapped);
    let mut took = Vec::new();
    for round in 0..10 {
        let name = format!("nic-test/kill/{}/{round}", std::process::id());
        let end = End::new(&nic, Reliability::ReliableDelivery, None);
        let mut child = spawn_peer("peer_to_be_killed", &name);
        serve(&end, &named(&name)).unwrap();
        end.post_receive(0, 64);
        let (tell, told) = mpsc::channel();
        nic.set_error_handler(Some(Arc::new(move |e| {
            let _ = tell.send((e, Instant::now()));
        })));
        std::thread::sleep(Duration::from_millis(30));
        let at = Instant::now();
        child.kill().unwrap();
        // A wait sees it too.
        let c = nic.receive_wait(end.vi, LONG).unwrap();
        assert!(c.status.is_error());
        let (error, when) = told.recv_timeout(Duration::from_secs(5)).unwrap();
        assert_eq!((error.vi, error.code), (Some(end.vi), AsyncErrorCode::ConnectionLost));
        assert_eq!(error.cause, Some(Cause::Link(LinkFailure::PeerDied)));
        assert_eq!(nic.with(|e| e.query_vi(end.vi)).unwrap().0, ViState::Error);
        took.push(when.duration_since(at));
        child.wait().unwrap();
        if round >= 2 && took.iter().any(|t| *t < Duration::from_millis(10)) {
            break;
        }
    }
    println!("death of a peer told after {took:?}");
    // The best of them: the kernel ends a process in its own time when the processors are busy.
    assert!(took.iter().any(|t| *t < Duration::from_millis(10)), "{took:?}");
}

#[test]
fn errors_before_the_handler_are_kept() {
    let a = open(Mapped);
    let x = End::new(&a, Reliability::ReliableDelivery, None);
    {
        let b = open(Mapped);
        let y = End::new(&b, Reliability::ReliableDelivery, None);
        connect(&x, &y);
        b.close().unwrap();
    }
    std::thread::sleep(Duration::from_millis(50));
    let (tell, told) = mpsc::channel();
    a.set_error_handler(Some(Arc::new(move |e| {
        let _ = tell.send(e);
    })));
    let error = told.recv_timeout(Duration::from_secs(5)).unwrap();
    assert_eq!((error.vi, error.code), (Some(x.vi), AsyncErrorCode::ConnectionLost));
    assert_eq!(error.cause, Some(Cause::Link(LinkFailure::PeerClosed)));
}

#[test]
fn what_was_sent_before_closing_arrives() {
    let a = open(Mapped);
    let x = End::new(&a, Reliability::ReliableDelivery, None);
    a.set_error_handler(Some(Arc::new(|_| {})));
    (0..100).for_each(|_| x.post_receive(0, 64));
    {
        let b = open(Mapped);
        let y = End::new(&b, Reliability::ReliableDelivery, None);
        connect(&x, &y);
        (0..100).for_each(|_| y.send_now(0, 8));
        b.close().unwrap();
    }
    for _ in 0..100 {
        assert!(!a.receive_wait(x.vi, LONG).unwrap().status.is_error());
    }
}

#[test]
fn peers_find_each_other() {
    let (a, b) = (open(Mapped), open(Mapped));
    for _ in 0..10 {
        let (x, y) = (End::new(&a, Reliability::ReliableDelivery, None), End::new(&b, Reliability::ReliableDelivery, None));
        let (ax, ay) = (address(), address());
        a.peer_request(x.vi, &ax, &ay, LONG).unwrap();
        assert_eq!(a.peer_done(x.vi).unwrap(), None);
        b.peer_request(y.vi, &ay, &ax, LONG).unwrap();
        let began = Instant::now();
        b.peer_wait(y.vi).unwrap();
        a.peer_wait(x.vi).unwrap();
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        x.post_receive(0, 64);
        y.send_now(0, 8);
        a.receive_wait(x.vi, LONG).unwrap();
    }
    let x = End::new(&a, Reliability::ReliableDelivery, None);
    a.peer_request(x.vi, &address(), &address(), Some(Duration::from_millis(20))).unwrap();
    assert_eq!(a.peer_wait(x.vi).unwrap_err(), Error::Timeout);
    assert_eq!(a.peer_done(x.vi).unwrap_err(), Error::InvalidState);
}

/// The other process: measures idleness, where no other test disturbs it.
#[test]
fn idle_process() {
    if peer_argument().is_none() {
        return;
    }
    for mode in [Mapped, Guarded] {
        let (a, b) = (open(mode), open(mode));
        let (x, y) = pair(&a, &b, None);
        x.post_receive(0, 64);
        x.post_receive(0, 64);
        a.notify(x.vi, WorkQueueKind::Receive, Box::new(|_, _| {})).unwrap();
        y.send_now(0, 8);
        std::thread::sleep(Duration::from_millis(200));
        at_last("an idle second takes no processor time", || {
            let waiter_is_idle_too = std::thread::scope(|s| {
                s.spawn(|| a.receive_wait(x.vi, Some(Duration::from_millis(1500))));
                std::thread::sleep(Duration::from_millis(200));
                let before = cpu_time();
                std::thread::sleep(Duration::from_secs(1));
                cpu_time() - before
            });
            eprintln!("{mode:?}: {waiter_is_idle_too:?} of processor time in an idle second");
            waiter_is_idle_too < Duration::from_millis(2)
        });
    }
}

#[test]
fn an_idle_nic_uses_no_processor_time() {
    assert!(spawn_peer("idle_process", "idle").wait().unwrap().success());
}

#[test]
fn bad_configurations_are_refused() {
    assert_eq!(Nic::open(NicConfig { host: vec![1; 19], ..NicConfig::default() }).unwrap_err(), OpenError::HostAddress);
}
