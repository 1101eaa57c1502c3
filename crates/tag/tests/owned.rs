// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program without `unsafe`: messages and remote memory in memory that has an owner.
#![forbid(unsafe_code)]

use bellwire_tag::{
    Access, Completion, Endpoint, Gather, Notes, OwnedBytes, Piece, ReceiveFlags, RemoteFlags, RemoteRequest, SendFlags, SendOne, SharedRegions, Sink, Target,
    Want, WantOne,
};
use bellwire_via::nic::NicConfig;

#[derive(Default)]
struct Log(Vec<Completion>);

impl Sink for Log {
    fn done(&mut self, completion: &Completion) {
        self.0.push(*completion);
    }

    fn touched(&mut self, _: usize, _: Notes) {}
}

const KEY: u64 = 5;

#[test]
fn messages_and_remote_memory() {
    let regions = SharedRegions::default();
    let ends = [NicConfig::default(), NicConfig::default()].map(|config| Endpoint::open(config, None, regions.clone()).unwrap());
    ends[0].learn(0, ends[1].name());
    let mut logs = [Log::default(), Log::default()];
    let memory: &'static OwnedBytes = Box::leak(Box::new(OwnedBytes::new(400)));
    memory.write(0, &[7; 100]);
    assert!(Piece::of_owned(memory, 399, 2).is_none() && Piece::of_owned(memory, usize::MAX, 2).is_none());
    let part = |at, length| Piece::of_owned(memory, at, length).unwrap();
    let want = WantOne { tagged: true, source: None, tag: 1, ignore: 0, to: part(100, 100), context: 1, silent: false };
    ends[1].receive_one(&mut logs[1], &want).unwrap();
    let to: Gather = part(200, 100).into();
    ends[1].receive(&mut logs[1], &Want { tagged: true, source: None, tag: 2, ignore: 0, to, context: 2, flags: ReceiveFlags::empty() }).unwrap();
    for tag in [1, 2] {
        let send = SendOne { peer: 0, tag: Some(tag), data: None, from: part(0, 100), context: 0, flags: SendFlags::empty() };
        ends[0].send_one(&mut logs[0], &send).unwrap();
    }
    // Memory of which the program has let go lives as long as it is listed.
    let reached = OwnedBytes::new(100);
    assert!(regions.lock().insert_owned(KEY, &reached, 0, Access::all(), 0));
    assert!(!regions.lock().insert_owned(KEY, &reached, 0, Access::all(), 0));
    let write =
        RemoteRequest { target: Target { peer: 0, address: 10, key: KEY }, local: part(0, 50).into(), data: None, context: 3, flags: RemoteFlags::empty() };
    ends[0].write(&mut logs[0], &write).unwrap();
    while logs.iter().map(|log| log.0.len()).sum::<usize>() < 5 {
        ends.iter().zip(&mut logs).for_each(|(end, log)| _ = end.poll(log).unwrap());
    }
    assert!(logs.iter().flat_map(|log| &log.0).all(|c| c.failure.is_none()));
    assert!((0..300).all(|i| memory.byte(i) == 7) && memory.byte(300) == 0);
    let touched: Vec<usize> = (0..100).filter(|i| reached.byte(*i) == 7).collect();
    assert_eq!(touched, (10..60).collect::<Vec<_>>());
    assert!(regions.lock().remove(KEY).is_some());
}
