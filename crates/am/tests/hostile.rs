// SPDX-License-Identifier: MIT OR Apache-2.0
//! A peer that speaks nonsense, over a connection of its own that it asked for properly: at worst
//! it is cut off. Honest peers of the same endpoint are answered meanwhile.

mod common;

use bellwire_am::{Bundle, Death, Name};
use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_via::{NetAddress, Nic, Pieces, ViAttributes, ViHandle};
use common::{Side, TAG, device, poll_until};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use std::sync::Arc;
use std::time::Duration;

const ECHO: u8 = 1;

/// Where an endpoint's device waits, and the address of one who asks for it: docs of name.rs, from
/// the bytes of a name.
fn addresses(name: &Name) -> (NetAddress, NetAddress) {
    let bytes = name.to_bytes();
    let (host, device, endpoint) = (&bytes[2..2 + usize::from(bytes[1])], &bytes[24..40], &bytes[40..48]);
    let remote = [&b"AM\x02\x02"[..], device].concat();
    let ask = [&b"AM\x02\x02"[..], endpoint, &TAG.to_le_bytes(), &7u64.to_le_bytes(), &[9; 16], &[0, 0]].concat();
    (NetAddress::new(host, &ask).unwrap(), NetAddress::new(host, &remote).unwrap())
}

fn connect(nic: &Nic, name: &Name, server: &Bundle) -> ViHandle {
    let vi = nic
        .with(|e| {
            let ptag = e.create_ptag()?;
            e.create_vi(&ViAttributes { ptag: Some(ptag), rdma_write: true, qos: u64::MAX, ..ViAttributes::default() }, None, None, None)
        })
        .unwrap();
    let (local, remote) = addresses(name);
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| nic.connect_request(vi, &local, &remote, Some(Duration::from_secs(10))));
        while !asks.is_finished() {
            server.poll().unwrap();
        }
        asks.join().unwrap().expect("anybody may ask");
    });
    vi
}

/// A message: mostly a head that could be, with anything in it.
fn nonsense() -> impl Strategy<Value = Vec<u8>> {
    let head = (any::<u8>(), prop_oneof![Just(ECHO), any::<u8>()], 0u8..19, prop_oneof![9 => Just(0u8), 1 => any::<u8>()], any::<u32>());
    let words = prop::collection::vec(prop_oneof![Just(0u64), 0u64..100_000, (0u64..20_000).prop_map(|bytes| bytes | 1 << 32), any::<u64>()], 0..12);
    let shape = (0usize..9, any::<bool>(), any::<bool>());
    (head, 1u8..16, words, shape).prop_map(|((any, handler, count, zero, handled), kind, words, (cut, is_kind, fits))| {
        let mut message = vec![if is_kind { kind } else { any }, handler, count, zero];
        message.extend(handled.to_le_bytes());
        words.iter().for_each(|w| message.extend(w.to_le_bytes()));
        if fits {
            let own = [3, 11].contains(&kind).then_some(16).or([4, 5].contains(&kind).then_some(24)).unwrap_or(0);
            message.resize(8 + own + 4 * usize::from(count), 1);
            return message;
        }
        message.truncate((message.len() - cut.min(message.len() - 1)).max(1));
        message
    })
}

#[test]
fn nonsense_harms_nobody_else() {
    let served = Side::new(&device());
    let honest = Side::new(&device());
    served.bundle.set_segment(served.endpoint, Some(&served.device.allocate(10_000).unwrap())).unwrap();
    let echo = |m: &mut bellwire_am::Message<'_>| {
        // The requester may be cut off already.
        let _ = m.reply(2, &[m.args().len() as i32, m.payload().to_vec().len() as i32]);
    };
    served.bundle.set_handler(served.endpoint, ECHO, echo).unwrap();
    let cut = Arc::new(AtomicU32::new(0));
    let departed = Arc::clone(&cut);
    let on_departure = move |d: &bellwire_am::Departed| _ = departed.fetch_add(u32::from(d.death == Some(Death::Misbehaved)), Ordering::SeqCst);
    served.bundle.set_departure_handler(served.endpoint, on_departure).unwrap();
    honest.map(&served);
    let answers = Arc::new(AtomicU32::new(0));
    let heard = Arc::clone(&answers);
    honest.bundle.set_handler(honest.endpoint, 2, move |_| _ = heard.fetch_add(1, Ordering::SeqCst)).unwrap();
    let name = served.bundle.name(served.endpoint).unwrap();
    common::served(&served.bundle, || {
        honest.bundle.request(honest.endpoint, 0, ECHO, &[1]).unwrap();
        poll_until(&[&honest.bundle], "an answer", || answers.load(Ordering::SeqCst) == 1);
    });
    let nic = Nic::open(bellwire_via::nic::NicConfig::default()).unwrap();
    nic.ignore_errors();
    let (mut vi, mut asked, mut cut_off) = (connect(&nic, &name, &served.bundle), 1, 0);
    let mut runner = TestRunner::new(Config { cases: 1, failure_persistence: None, ..Config::default() });
    for _ in 0..2_000 {
        let message = nonsense().new_tree(&mut runner).unwrap().current();
        let pieces = Pieces { head: (message.as_ptr(), message.len()), body: (message.as_ptr(), 0) };
        // SAFETY: U2: the message outlives the call.
        let sent = nic.with(|e| unsafe { e.send_copied(vi, &pieces, 0) });
        nic.with(|e| e.progress());
        for _ in 0..3 {
            served.bundle.poll().unwrap();
        }
        if sent.is_err() {
            let _ = nic.with(|e| e.disconnect(vi).and_then(|()| e.destroy_vi(vi)));
            vi = connect(&nic, &name, &served.bundle);
            cut_off += 1;
        }
        if cut_off % 10 == 9 {
            honest.bundle.request(honest.endpoint, 0, ECHO, &[1]).unwrap();
            asked += 1;
        }
    }
    poll_until(&[&honest.bundle, &served.bundle], "all answers", || answers.load(Ordering::SeqCst) == asked);
    assert!(cut_off > 10, "{cut_off}");
    let malformed = || served.bundle.counters(served.endpoint).unwrap().malformed;
    poll_until(&[&served.bundle], "a reason for each", || u64::from(cut.load(Ordering::SeqCst)) == malformed());
    assert!(malformed() > 10);
    assert_eq!(honest.bundle.counters(honest.endpoint).unwrap().returned, 0);
}

/// As server: whatever it says, each request of the client comes back at most once, and the client
/// goes on.
#[test]
fn a_server_of_nonsense_harms_nobody_else() {
    let client = Side::new(&device());
    let honest = Side::new(&device());
    client.bundle.set_segment(client.endpoint, Some(&client.device.allocate(10_000).unwrap())).unwrap();
    honest.bundle.set_handler(honest.endpoint, ECHO, |m| m.reply(2, &[]).unwrap()).unwrap();
    client.bundle.map(client.endpoint, 1, honest.bundle.name(honest.endpoint).unwrap(), TAG).unwrap();
    let (over, answers) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (handled, back, heard) = (Arc::clone(&over), Arc::clone(&over), Arc::clone(&answers));
    client.bundle.set_handler(client.endpoint, ECHO, move |_| _ = handled.fetch_add(1, Ordering::SeqCst)).unwrap();
    client.bundle.set_handler(client.endpoint, 2, move |_| _ = heard.fetch_add(1, Ordering::SeqCst)).unwrap();
    let cut = Arc::new(AtomicU32::new(0));
    let misbehaved = Arc::clone(&cut);
    let on_return = move |r: &bellwire_am::Returned| {
        misbehaved.fetch_add(u32::from(r.death == Some(Death::Misbehaved)), Ordering::SeqCst);
        back.fetch_add(1, Ordering::SeqCst);
    };
    client.bundle.set_error_handler(client.endpoint, on_return).unwrap();
    let nic = Nic::open(bellwire_via::nic::NicConfig::default()).unwrap();
    nic.ignore_errors();
    // The name of an endpoint of nobody, whose device is this NIC.
    let mut bytes = honest.bundle.name(honest.endpoint).unwrap().to_bytes();
    bytes[24..40].fill(5);
    let name = Name::from_bytes(&bytes).unwrap();
    let here = addresses(&name).1;
    let ptag = nic.with(|e| e.create_ptag()).unwrap();
    let mut runner = TestRunner::new(Config { cases: 1, failure_persistence: None, ..Config::default() });
    let rounds = 150;
    for _ in 0..rounds {
        let messages: Vec<Vec<u8>> = (0..12).map(|_| nonsense().new_tree(&mut runner).unwrap().current()).collect();
        client.bundle.map(client.endpoint, 0, name, TAG).unwrap();
        std::thread::scope(|scope| {
            let serves = scope.spawn(|| {
                let request = nic.connect_wait(&here, Some(Duration::from_secs(10))).expect("it asks");
                let attributes = ViAttributes { ptag: Some(ptag), rdma_write: true, qos: 4, ..ViAttributes::default() };
                let vi = nic.with(|e| e.create_vi(&attributes, None, None, None)).unwrap();
                nic.with(|e| e.accept(request.incoming, vi)).expect("it still wants to");
                for message in &messages {
                    let pieces = Pieces { head: (message.as_ptr(), message.len()), body: (message.as_ptr(), 0) };
                    // SAFETY: U2: the message outlives the call. It may be cut off already; and
                    // there may be no room yet.
                    while nic.with(|e| unsafe { e.send_copied(vi, &pieces, 0) }) == Ok(0) {
                        nic.with(|e| e.progress());
                    }
                }
                let _ = nic.with(|e| e.disconnect(vi).and_then(|()| e.destroy_vi(vi)));
            });
            client.bundle.request(client.endpoint, 0, ECHO, &[1]).unwrap();
            while !serves.is_finished() {
                client.bundle.poll().unwrap();
            }
        });
        client.bundle.unmap(client.endpoint, 0).unwrap();
    }
    let before = answers.load(Ordering::SeqCst);
    common::served(&honest.bundle, || {
        client.bundle.request(client.endpoint, 1, ECHO, &[]).unwrap();
        poll_until(&[&client.bundle], "an answer", || answers.load(Ordering::SeqCst) > before);
    });
    poll_until(&[&client.bundle], "nothing more", || client.bundle.poll().unwrap() == 0);
    let over = over.load(Ordering::SeqCst) + answers.load(Ordering::SeqCst) - 1;
    assert!(over <= rounds && over > rounds / 2, "{over}");
    assert!(client.bundle.counters(client.endpoint).unwrap().malformed > rounds as u64 / 10);
    assert!(cut.load(Ordering::SeqCst) > rounds / 10, "requests that come back say why");
}
