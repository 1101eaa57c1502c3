// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program without `unsafe`: messages and remote memory in memory that has an owner.
#![forbid(unsafe_code)]

use bellwire_tag::{
    Access, Bindings, Endpoint, Gather, OwnedBytes, Piece, Queue, ReceiveFlags, RemoteFlags, RemoteRequest, SendFlags, SendOne, SharedRegions, Target, Want,
    WantOne,
};
use bellwire_via::nic::NicConfig;
use std::sync::Arc;

fn open(config: NicConfig, regions: SharedRegions) -> Endpoint {
    let endpoint = Endpoint::open(config, None, regions).unwrap();
    let queue = Some(Arc::default());
    endpoint.bind(Bindings { queues: [queue.clone(), queue], ..Bindings::default() });
    endpoint
}

const KEY: u64 = 5;

#[test]
fn messages_and_remote_memory() {
    let regions = SharedRegions::default();
    let ends = [NicConfig::default(), NicConfig::default()].map(|config| open(config, regions.clone()));
    ends[0].learn(0, ends[1].name());
    let mut done = Vec::new();
    let memory: &'static OwnedBytes = Box::leak(Box::new(OwnedBytes::new(400)));
    memory.write(0, &[7; 100]);
    assert!(Piece::of_owned(memory, 399, 2).is_none() && Piece::of_owned(memory, usize::MAX, 2).is_none());
    let part = |at, length| Piece::of_owned(memory, at, length).unwrap();
    let want = WantOne { tagged: true, source: None, tag: 1, ignore: 0, to: part(100, 100), context: 1, silent: false };
    ends[1].receive_one(&want).unwrap();
    let to: Gather = part(200, 100).into();
    ends[1].receive(&Want { tagged: true, source: None, tag: 2, ignore: 0, to, context: 2, flags: ReceiveFlags::empty() }).unwrap();
    for tag in [1, 2] {
        let send = SendOne { peer: 0, tag: Some(tag), data: None, from: part(0, 100), context: 0, flags: SendFlags::empty() };
        ends[0].send_one(&send).unwrap();
    }
    // Memory of which the program has let go lives as long as it is listed.
    let reached = OwnedBytes::new(100);
    assert!(regions.lock().insert_owned(KEY, &reached, 0, Access::all()));
    assert!(!regions.lock().insert_owned(KEY, &reached, 0, Access::all()));
    let write =
        RemoteRequest { target: Target { peer: 0, address: 10, key: KEY }, local: part(0, 50).into(), data: None, context: 3, flags: RemoteFlags::empty() };
    ends[0].write(&write).unwrap();
    while done.len() < 5 {
        ends.iter().for_each(|end| _ = end.poll().unwrap());
        done.extend(ends.iter().flat_map(|end| end.take_completions(Queue::Sends)));
    }
    assert!(done.iter().all(|c| c.failure.is_none()));
    assert!((0..300).all(|i| memory.byte(i) == 7) && memory.byte(300) == 0);
    let touched: Vec<usize> = (0..100).filter(|i| reached.byte(*i) == 7).collect();
    assert_eq!(touched, (10..60).collect::<Vec<_>>());
    assert!(regions.lock().remove(KEY).is_some());
}
