// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bulk messages, bulk replies and gets, over each wire, out of and into each kind of memory; and
//! what lies outside a segment.

mod common;

use bellwire_am::{Device, Error, Operation, Region, Returned, Status};
use bellwire_memory::atomic::{AtomicUsize, Ordering};
use common::{Side, device, pattern, poll_until, served, udp_device};
use std::sync::{Arc, Mutex};

const TAKE: u8 = 1;
const TAKEN: u8 = 2;
const TURN: u8 = 3;
const GOT: u8 = 4;
const SEGMENT: usize = 600_000;
const LENGTHS: [usize; 8] = [0, 1, 57, 4_096, 65_000, 131_072, 200_001, 500_000];

type Log<T> = Arc<Mutex<Vec<T>>>;

/// Two sides, one of which answers: TAKE by what arrived, TURN by sending it back; each with a
/// segment. What the first hears comes in its log.
struct Stage {
    asks: Side,
    serves: Side,
    segment: Arc<Region>,
    arrived: Log<(Vec<i32>, Vec<u8>)>,
    answers: Log<(u8, Vec<i32>, Vec<u8>)>,
    returned: Log<Returned>,
}

impl Stage {
    fn new(devices: [&Arc<Device>; 2]) -> Self {
        let (asks, serves) = (Side::new(devices[0]), Side::new(devices[1]));
        let (own, theirs) = (devices[0].allocate(SEGMENT).unwrap(), devices[1].allocate(SEGMENT).unwrap());
        asks.bundle.set_segment(asks.endpoint, Some(&own)).unwrap();
        serves.bundle.set_segment(serves.endpoint, Some(&theirs)).unwrap();
        asks.map(&serves);
        let stage = Self { asks, serves, segment: own, arrived: Log::default(), answers: Log::default(), returned: Log::default() };
        let arrived = Arc::clone(&stage.arrived);
        let (b, e) = (&stage.serves.bundle, stage.serves.endpoint);
        b.set_handler(e, TAKE, move |m| {
            arrived.lock().unwrap().push((m.args().to_vec(), m.payload().to_vec()));
            m.reply(TAKEN, &[7]).expect("it waits");
        })
        .unwrap();
        b.set_handler(e, TURN, |m| {
            let (data, args) = (m.payload().to_vec(), m.args().to_vec());
            assert_eq!(m.reply_bulk(TAKEN, SEGMENT as u64, &[1], &args), Err(Error::BadArgument), "outside: it may still be answered");
            m.reply_bulk(TAKEN, 11, &data, &args).expect("it waits");
        })
        .unwrap();
        let (b, e) = (&stage.asks.bundle, stage.asks.endpoint);
        for handler in [TAKEN, GOT] {
            let answers = Arc::clone(&stage.answers);
            b.set_handler(e, handler, move |m| answers.lock().unwrap().push((handler, m.args().to_vec(), m.payload().to_vec()))).unwrap();
        }
        let returned = Arc::clone(&stage.returned);
        b.set_error_handler(e, move |r| returned.lock().unwrap().push(*r)).unwrap();
        stage
    }

    fn answered(&self) -> (u8, Vec<i32>, Vec<u8>) {
        poll_until(&[&self.asks.bundle], "an answer", || !self.answers.lock().unwrap().is_empty());
        self.answers.lock().unwrap().remove(0)
    }

    fn came_back(&self) -> Returned {
        poll_until(&[&self.asks.bundle], "what came back", || !self.returned.lock().unwrap().is_empty());
        self.returned.lock().unwrap().remove(0)
    }

    /// Data of each length goes there, comes back, and is got.
    fn talk(&self) {
        let (b, e) = (&self.asks.bundle, self.asks.endpoint);
        let source = self.asks.device.allocate(SEGMENT).unwrap();
        for (i, length) in LENGTHS.into_iter().enumerate() {
            let data = pattern(i, length);
            let args: Vec<i32> = (0..2 * i as i32).collect();
            b.request_bulk(e, 0, TAKE, 3, &data, &args).unwrap();
            assert_eq!(self.answered(), (TAKEN, vec![7], vec![]));
            assert!(self.arrived.lock().unwrap().pop() == Some((args.clone(), data.clone())), "{length} bytes arrive");
            source.write(5, &data).unwrap();
            b.request_bulk_from(e, 0, TURN, 100, (&source, 5, length), &args).unwrap();
            assert!(self.answered() == (TAKEN, args.clone(), data.clone()), "{length} bytes come back");
            b.get(e, 0, GOT, 100, 50_001, length, &args).unwrap();
            assert!(self.answered() == (GOT, args, data.clone()), "{length} bytes are got");
            let mut there = vec![0; length];
            self.segment.read(50_001, &mut there).unwrap();
            assert!(there == data, "{length} bytes are in the segment");
        }
        self.many(&source);
        self.outside();
    }

    /// Many in a row, in order, shorts between them.
    fn many(&self, source: &Arc<Region>) {
        let (b, e) = (&self.asks.bundle, self.asks.endpoint);
        let count = 100;
        for i in 0..count {
            let length = 1 + (i * 797) % 9_000;
            if i % 3 == 0 {
                b.request_bulk(e, 0, TAKE, 0, &pattern(i, length), &[i as i32]).unwrap();
            } else {
                // Not the bytes that are still being read: each its own.
                source.write(i * 5_000, &pattern(i, length.min(5_000))).unwrap();
                b.request_bulk_from(e, 0, TAKE, 0, (source, i * 5_000, length.min(5_000)), &[i as i32]).unwrap();
            }
        }
        poll_until(&[b], "all of them", || self.answers.lock().unwrap().len() == count);
        self.answers.lock().unwrap().clear();
        let arrived = core::mem::take(&mut *self.arrived.lock().unwrap());
        assert!(arrived.iter().map(|(args, _)| args[0]).eq(0..count as i32), "each once, in order");
        let counters = b.counters(e).unwrap();
        assert_eq!((counters.requests_sent[3], counters.replies_received[3], counters.returned), (LENGTHS.len() as u64, LENGTHS.len() as u64, 0));
    }

    /// A message that does not fit comes back, and harms nothing.
    fn outside(&self) {
        let (b, e) = (&self.asks.bundle, self.asks.endpoint);
        for offset in [SEGMENT as u64 - 9, u64::MAX - 4] {
            b.request_bulk(e, 0, TAKE, offset, &[1; 10], &[1]).unwrap();
            let back = self.came_back();
            assert_eq!((back.status, back.operation, back.offset, back.length), (Status::BadSegmentOffset, Operation::RequestXfer, offset, 10));
            b.get(e, 0, GOT, offset, 0, 10, &[2]).unwrap();
            let back = self.came_back();
            assert_eq!((back.status, back.operation, back.args()), (Status::BadSegmentOffset, Operation::Get, &[2][..]));
        }
        assert_eq!(b.get(e, 0, GOT, 0, SEGMENT as u64 - 9, 10, &[]), Err(Error::BadArgument), "outside of its own segment");
        b.request_bulk(e, 0, TAKE, 0, &[1; 10], &[1]).unwrap();
        assert_eq!(self.answered(), (TAKEN, vec![7], vec![]));
    }
}

fn between(devices: [&Arc<Device>; 2]) {
    let stage = Stage::new(devices);
    served(&stage.serves.bundle, || stage.talk());
}

#[test]
fn bulk_within_a_nic() {
    let device = common::device();
    between([&device, &device]);
}

#[test]
fn bulk_over_shared_memory() {
    between([&common::device(), &common::device()]);
}

#[test]
fn bulk_over_udp() {
    between([&udp_device(1, None), &udp_device(2, None)]);
}

/// Memory of the program that is sent from again is not registered again, wherever in it.
#[test]
fn bulk_over_udp_registers_once() {
    let devices = [&udp_device(5, None), &udp_device(6, None)];
    let stage = Stage::new(devices);
    let data = pattern(3, 400_000);
    served(&stage.serves.bundle, || {
        for i in 0..20usize {
            // The whole first, then parts of it.
            let part = &data[i * 4_100..];
            stage.asks.bundle.request_bulk(stage.asks.endpoint, 0, TAKE, 0, part, &[i as i32]).unwrap();
            assert_eq!(stage.answered(), (TAKEN, vec![7], vec![]));
            assert_eq!(stage.arrived.lock().unwrap().pop(), Some((vec![i as i32], part.to_vec())));
        }
    });
    let cache = devices[0].registration_cache();
    assert_eq!((cache.misses, cache.hits), (1, 19), "{cache:?}");
}

#[test]
fn bulk_over_udp_that_loses_packets() {
    let plan = Some("loss=0.02,dup=0.02,reorder=0.02:300us,seed=9");
    between([&udp_device(3, plan), &udp_device(4, plan)]);
}

/// A segment of the program's own memory, which peers cannot reach directly; and then another one,
/// and none.
#[test]
fn segments_change() {
    let devices = [common::device(), common::device()];
    let stage = Stage::new([&devices[0], &devices[1]]);
    let memory = Box::leak(vec![0u8; 100_000].into_boxed_slice());
    let (base, length) = (memory.as_mut_ptr(), memory.len());
    let (b, e) = (&stage.serves.bundle, stage.serves.endpoint);
    // SAFETY: P2: leaked, and reached by the pointer only.
    unsafe { b.set_segment_of_program(e, base, length) }.unwrap();
    assert_eq!(b.segment(e).unwrap(), Some((base, length)));
    served(b, || {
        let (b, e) = (&stage.asks.bundle, stage.asks.endpoint);
        for length in [10, 5_000, 90_000] {
            let data = pattern(length, length);
            b.request_bulk(e, 0, TAKE, 1_000, &data, &[]).unwrap();
            assert_eq!(stage.answered().0, TAKEN);
            assert!(stage.arrived.lock().unwrap().pop() == Some((vec![], data.clone())), "{length} bytes arrive");
            b.get(e, 0, GOT, 1_000, 0, length, &[]).unwrap();
            assert!(stage.answered() == (GOT, vec![], data), "{length} bytes are got");
        }
        stage.serves.bundle.set_segment(stage.serves.endpoint, None).unwrap();
        b.get(e, 0, GOT, 0, 0, 1, &[]).unwrap();
        assert_eq!(stage.came_back().status, Status::BadSegmentOffset);
        b.request_bulk(e, 0, TAKE, 0, &[1], &[]).unwrap();
        assert_eq!(stage.came_back().status, Status::BadSegmentOffset);
        let other = devices[1].allocate(50).unwrap();
        stage.serves.bundle.set_segment(stage.serves.endpoint, Some(&other)).unwrap();
        assert_eq!(stage.serves.bundle.set_segment(stage.serves.endpoint, Some(&devices[0].allocate(50).unwrap())), Err(Error::BadArgument));
        // It hears of the new one before the answer to this.
        b.get(e, 0, GOT, 0, 0, 50, &[]).unwrap();
        assert_eq!(stage.answered().2, vec![0; 50]);
        b.request_bulk(e, 0, TAKE, 40, &[3; 10], &[]).unwrap();
        assert_eq!(stage.answered().0, TAKEN);
        let mut there = [0; 50];
        other.read(0, &mut there).unwrap();
        assert_eq!(there[38..], [0, 0, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3]);
    });
}

/// A medium is copied once, by its sender, and lies where that has put it while its handler runs. A
/// poll takes it from there: only messages that come while nobody polls are set aside.
#[test]
fn mediums_are_copied_once() {
    const COUNT: usize = 500;
    let (client, server) = (Side::new(&device()), Side::new(&device()));
    let data = pattern(3, 4096);
    let (expected, done) = (data.clone(), Arc::new(AtomicUsize::new(0)));
    server
        .bundle
        .set_handler(server.endpoint, 1, move |m| {
            assert_eq!(m.payload().to_vec(), expected);
            m.reply_medium(2, &expected, &[]).expect("it leaves");
        })
        .unwrap();
    let d = Arc::clone(&done);
    // Relaxed: handlers run on the thread that reads it.
    client.bundle.set_handler(client.endpoint, 2, move |_| _ = d.fetch_add(1, Ordering::Relaxed)).unwrap();
    client.map(&server);
    served(&server.bundle, || client.bundle.request_medium(client.endpoint, 0, 1, &data, &[]).unwrap());
    // From here on one thread does both sides' work.
    // Relaxed: as above.
    let count = || done.load(Ordering::Relaxed);
    poll_until(&[&client.bundle, &server.bundle], "the first reply", || count() == 1);
    let (c, s) = (|| client.bundle.counters(client.endpoint).unwrap(), || server.bundle.counters(server.endpoint).unwrap());
    let before = c().copied + s().copied;
    for i in 1..=COUNT {
        client.bundle.request_medium(client.endpoint, 0, 1, &data, &[]).unwrap();
        poll_until(&[&server.bundle, &client.bundle], "a reply", || count() == i + 1);
    }
    let copied = c().copied + s().copied - before;
    println!("{copied} of {} mediums were copied once more", 2 * COUNT);
    // A helper that finds its program not polling takes what has come: on a machine that stands
    // still for a while.
    assert!(copied < COUNT as u64 / 2, "{copied} of {} mediums were copied once more", 2 * COUNT);
}
