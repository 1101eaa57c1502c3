// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peers that speak Active Messages well and this protocol badly: at worst their own calls fail.
//! Honest peers of the same node are served meanwhile.

mod common;

use bellwire_am::{Bundle, NAME_BYTES, Name};
use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_rpc::{ADDRESS_BYTES, Address, CallError, Limits, Node, Procedure, Responder};
use common::{device, served};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ECHO: Procedure<Vec<u8>, Vec<u8>> = Procedure::new("echo", 1);
const KEEP: Procedure<Vec<u8>, Vec<u8>> = Procedure::new("keep", 1);

/// A message: a handler, arguments that could be or not, and a payload or none.
type Nonsense = (u8, Vec<i32>, Option<Vec<u8>>);

fn nonsense() -> impl Strategy<Value = Nonsense> {
    let word = prop_oneof![4 => 0i32..4, 2 => 0i32..300, 1 => Just(-1), 1 => Just(i32::MAX), 2 => any::<i32>()];
    let payload = prop_oneof![Just(b"echo".to_vec()), Just(b"keepxyz".to_vec()), prop::collection::vec(any::<u8>(), 0..300)];
    (1u8..13, prop::collection::vec(word, 0..13), prop::option::of(payload)).prop_map(|(handler, mut args, payload)| {
        // So that some get far: a greeting of this version, and names of the right length and type.
        if handler == 1 && args.len() == 5 {
            args[0] = 1;
        }
        if (handler == 3 || handler == 4) && args.len() >= 7 {
            (args[4], args[5]) = (ECHO.signature().0 as i32, (ECHO.signature().0 >> 32) as i32);
            args[6] = 4;
        }
        (handler, args, payload)
    })
}

fn name_and_tag(address: &Address) -> (Name, u64) {
    let bytes: [u8; ADDRESS_BYTES] = address.to_bytes();
    let (name, tag) = bytes.split_first_chunk::<NAME_BYTES>().unwrap();
    (Name::from_bytes(name).unwrap(), u64::from_le_bytes(tag.try_into().unwrap()))
}

fn send(bundle: &Bundle, endpoint: bellwire_am::EndpointId, (handler, args, payload): &Nonsense) {
    // It may not be able to leave; then it does not.
    let _ = match payload {
        None => bundle.try_request(endpoint, 0, *handler, args),
        Some(payload) => bundle.try_request_medium(endpoint, 0, *handler, payload, args),
    };
}

#[test]
fn callers_of_nonsense() {
    let node = Node::on(&device()).unwrap();
    node.set_limits(Limits { served: 10, memory: 1 << 20, ..Limits::default() });
    let kept: Arc<Mutex<Vec<Responder<Vec<u8>>>>> = Arc::default();
    let keeps = Arc::clone(&kept);
    node.serve(&ECHO, |data, _| Ok(data)).unwrap();
    node.serve_later(&KEEP, move |_, responder| keeps.lock().unwrap().push(responder)).unwrap();
    let honest = Node::on(&device()).unwrap();
    let peer = honest.connect(&node.address()).unwrap();
    let (name, tag) = name_and_tag(&node.address());
    let mut runner = TestRunner::new(Config { cases: 1, failure_persistence: None, ..Config::default() });
    for round in 0..10 {
        // Each time another caller, which ends without a word.
        let bundle = Bundle::new(&device()).unwrap();
        let endpoint = bundle.create_endpoint().unwrap();
        bundle.set_tag(endpoint, 2 + round).unwrap();
        bundle.set_error_handler(endpoint, |_| ()).unwrap();
        let answers = Arc::new(AtomicU32::new(0));
        for handler in 1..=12 {
            let count = Arc::clone(&answers);
            bundle.set_handler(endpoint, handler, move |_| _ = count.fetch_add(1, Ordering::SeqCst)).unwrap();
        }
        bundle.map(endpoint, 0, name, tag).unwrap();
        for _ in 0..300 {
            send(&bundle, endpoint, &nonsense().new_tree(&mut runner).unwrap().current());
            for _ in 0..3 {
                node.poll().unwrap();
                bundle.poll().unwrap();
            }
            assert!(kept.lock().unwrap().len() <= 10 * (1 + round as usize), "no more calls of one caller are kept than allowed");
        }
        assert!(answers.load(Ordering::SeqCst) > 0);
        served(&node, || assert_eq!(honest.call(peer, &ECHO, &vec![7; 1000]), Ok(vec![7; 1000])));
    }
    kept.lock().unwrap().drain(..).for_each(|responder| responder.reply(Ok(Vec::new())));
    served(&node, || assert_eq!(honest.call(peer, &ECHO, &vec![8; 500_000]), Ok(vec![8; 500_000]), "memory was given back"));
}

#[test]
fn servers_of_nonsense() {
    let client = Node::on(&device()).unwrap();
    client.set_limits(Limits { memory: 1 << 20, ..Limits::default() });
    let honest = Node::on(&device()).unwrap();
    honest.serve(&ECHO, |data, _| Ok(data)).unwrap();
    let good = client.connect(&honest.address()).unwrap();
    let mut runner = TestRunner::new(Config { cases: 1, failure_persistence: None, ..Config::default() });
    let mut ended = 0;
    for _ in 0..8 {
        let bundle = Bundle::new(&device()).unwrap();
        let endpoint = bundle.create_endpoint().unwrap();
        bundle.set_tag(endpoint, 77).unwrap();
        bundle.set_error_handler(endpoint, |_| ()).unwrap();
        let script: Arc<Mutex<Vec<Nonsense>>> = Arc::new(Mutex::new((0..200).map(|_| nonsense().new_tree(&mut runner).unwrap().current()).collect()));
        let secret: Arc<Mutex<Vec<i32>>> = Arc::default();
        for handler in 1..=6 {
            let (script, heard) = (Arc::clone(&script), Arc::clone(&secret));
            bundle
                .set_handler(endpoint, handler, move |message| {
                    if handler == 1 {
                        *heard.lock().unwrap() = message.args()[1..].to_vec();
                        return;
                    }
                    let Some((_, mut args, payload)) = script.lock().unwrap().pop() else { return };
                    // Often of the call that was made.
                    if args.len() > 2 && message.args().len() > 2 && args[0] != 0 {
                        args[..2].copy_from_slice(&message.args()[1..3]);
                    }
                    let _ = match payload {
                        None => message.reply(10, &args),
                        Some(payload) => message.reply_medium(10, &payload, &args),
                    };
                })
                .unwrap();
        }
        let mut address = [0; ADDRESS_BYTES];
        address[..NAME_BYTES].copy_from_slice(&bundle.name(endpoint).unwrap().to_bytes());
        address[NAME_BYTES..].copy_from_slice(&77u64.to_le_bytes());
        let peer = client.connect(&Address::from_bytes(&address).unwrap()).unwrap();
        let (own, own_tag) = name_and_tag(&client.address());
        bundle.map(endpoint, 0, own, own_tag).unwrap();
        let mut calls: Vec<_> = (0..30).map(|i| client.start(peer, &ECHO, &vec![1; i * 3000], Some(Duration::from_millis(300))).unwrap()).collect();
        while !calls.iter().all(|call| call.is_done()) {
            bundle.poll().unwrap();
            client.poll().unwrap();
            let Some((_, mut args, payload)) = script.lock().unwrap().pop() else { continue };
            // And answers that come later, with the right secret or not.
            let known = secret.lock().unwrap();
            args.resize(10, 0);
            if args[0] % 2 == 0 && known.len() == 4 {
                args[4..6].copy_from_slice(&known[2..]);
                args[0] = args[0].rem_euclid(30);
                args[1] = 1;
            }
            drop(known);
            send(&bundle, endpoint, &(11, args, Some(payload.unwrap_or_default())));
        }
        for call in calls.drain(..) {
            ended += u32::from(!matches!(call.wait(), Err(CallError::Deadline)));
        }
        served(&honest, || assert_eq!(client.call(good, &ECHO, &vec![7; 1000]), Ok(vec![7; 1000])));
        client.disconnect(peer).unwrap();
    }
    assert!(ended > 20, "{ended} calls were ended by what came");
    served(&honest, || assert_eq!(client.call(good, &ECHO, &vec![8; 1_000_000]), Ok(vec![8; 1_000_000]), "memory was given back"));
}
