// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live view: what a reader gets, and that readers who misbehave disturb nobody.

mod nic_common;

use bellwire_via::nic::{NicConfig, Udp};
use bellwire_via::wire::shm::ProtectionMode::{Guarded, Mapped};
use bellwire_via::{NetAddress, Nic, Reliability};
use nic_common::*;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect as connect_socket, socket};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Connections to the live view of the NIC with this number.
fn reader(number: u64) -> Option<UnixStream> {
    let fd = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    let name = format!("bellwire/stat/{}/{number}", std::process::id());
    connect_socket(&fd, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).ok()?;
    let stream = UnixStream::from(fd);
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    Some(stream)
}

fn ask(stream: &mut UnixStream) -> std::io::Result<Value> {
    stream.write_all(b"?")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// The live view of a NIC of this process: the one that has `vis` VIs, a number that the test alone
/// uses.
fn find(vis: usize) -> (UnixStream, Value) {
    for number in 0..64 {
        if let Some(mut stream) = reader(number)
            && let Ok(value) = ask(&mut stream)
            && value["vis"].as_array().unwrap().len() + value["vis_left_out"].as_u64().unwrap() as usize == vis
        {
            assert_eq!(value["nic"], number);
            return (stream, value);
        }
    }
    panic!("no such NIC");
}

fn more_vis<'a>(nic: &'a Nic, count: usize) -> Vec<End<'a>> {
    (0..count).map(|_| End::new(nic, Reliability::ReliableReception, None)).collect()
}

/// A link says its wire and why; one of packets also where to, and how that goes.
#[test]
fn links_say_which_wire_and_why() {
    let host = |last| vec![127, 118, 7, last];
    let open = |last, shm| Nic::open(NicConfig { host: host(last), udp: Some(Udp::default()), shm, ..NicConfig::default() }).unwrap();
    let talk = |a: &Nic, b: &Nic, vis: usize| {
        let (x, y) = (End::new(a, Reliability::ReliableDelivery, None), End::new(b, Reliability::ReliableDelivery, None));
        let _rest = more_vis(a, vis - 1);
        connect_at(&y, &x, &NetAddress::new(&host(2), format!("stat/{}/{vis}", std::process::id()).as_bytes()).unwrap());
        for i in 0..10 {
            y.post_receive(i * 64, 64);
            x.send_now(0, 8);
            y.nic.receive_wait(y.vi, LONG).unwrap();
        }
        find(vis).1
    };
    let (a, b) = (open(1, false), open(2, false));
    let far = talk(&a, &b, 9);
    let link = &far["links"][0];
    assert_eq!(
        (&far["wires"], &link["wire"], &link["why"], &link["peer_pid"]),
        (&"shm+udp".into(), &"udp".into(), &"shared memory is switched off".into(), &0.into())
    );
    assert!(far["udp"].as_str().unwrap().starts_with("127.118.7.1:") && link["address"].as_str().unwrap().starts_with("127.118.7.2:"), "{far}");
    for (figure, least) in [("datagram_bytes", 1200), ("rtt_ns", 1), ("rtt_min_ns", 1), ("window", 1), ("packets_out", 10)] {
        assert!(link[figure].as_u64().unwrap() >= least, "{figure}: {far}");
    }
    assert!(link["lost"].is_u64() && link["resent"].is_u64() && link["in_flight"].is_u64(), "{far}");
    drop((a, b));
    let (a, b) = (open(1, true), open(2, true));
    let near = talk(&a, &b, 10);
    let link = &near["links"][0];
    assert_eq!((&link["wire"], &link["why"], &link["peer_pid"]), (&"shm".into(), &"the peer is on this host".into(), &std::process::id().into()));
    assert!(link["address"].is_null(), "{near}");
}

#[test]
fn figures_are_those_of_the_nic() {
    let (a, b) = (open(Mapped), open(Guarded));
    let (x, y) = (End::new(&a, Reliability::ReliableDelivery, None), End::new(&b, Reliability::ReliableDelivery, None));
    b.ignore_errors();
    let rest = more_vis(&a, 6);
    connect(&x, &y);
    let (mut stream, first) = find(7);
    assert_eq!(first["format"], 1);
    assert_eq!(first["pid"], std::process::id());
    assert_eq!(first["mode"], "mapped");
    assert_eq!(first["host"], "127.0.0.1");
    assert!(first["program"].as_str().unwrap().starts_with("nic_stat"));
    assert_eq!(first["links"][0]["mapped"], false);
    assert_eq!(first["links"][0]["peer_pid"], std::process::id());
    for i in 0..10 {
        x.post_receive(i * 64, 64);
        y.send_now(0, 8);
        x.nic.receive_wait(x.vi, LONG).unwrap();
    }
    x.post_receive(0, 64);
    let second = ask(&mut stream).unwrap();
    let vi = second["vis"].as_array().unwrap().iter().find(|v| v["vi"] == format!("{:?}", x.vi)).unwrap();
    assert_eq!(vi["state"], "connected");
    assert_eq!(vi["link"], second["links"][0]["link"]);
    assert_eq!(vi["peer_pid"], std::process::id());
    assert_eq!(vi["reliability"], "delivery");
    assert_eq!((&vi["received"], &vi["received_bytes"], &vi["posted_receives"]), (&10.into(), &80.into(), &1.into()));
    let idle = second["vis"].as_array().unwrap().iter().find(|v| v["vi"] == format!("{:?}", rest[0].vi)).unwrap();
    assert_eq!((&idle["state"], &idle["link"], &idle["peer_pid"]), (&"idle".into(), &Value::Null, &Value::Null));
    assert_eq!(second["regions"], 7);
    assert_eq!(second["registered_bytes"], 7 * AREA as u64);
    assert!(second["uptime_ms"].as_u64() >= first["uptime_ms"].as_u64());
    // The peer goes, and the view says why the link was lost and the VI broke.
    a.ignore_errors();
    b.close().unwrap();
    let third = loop {
        let answer = ask(&mut stream).unwrap();
        if answer["links_lost"] == 1 {
            break answer;
        }
        std::thread::yield_now();
    };
    let lost = &third["lost"][0];
    assert_eq!((&lost["why"], &lost["wire"], &lost["peer_pid"]), (&"the peer closed its NIC".into(), &"shm".into(), &std::process::id().into()), "{third}");
    assert_eq!(entry(&third, "vis", "vi", &format!("{:?}", x.vi))["broke"], "the peer closed its NIC");
    // The NIC goes, and with it the connection.
    drop((x, rest));
    a.close().unwrap();
    assert_eq!(stream.read(&mut [0; 16]).unwrap_or(0), 0);
}

/// The figures of waits of a VI or completion queue: waits, those that slept, microseconds, waiting
/// now.
fn waits(of: &Value) -> [u64; 4] {
    ["waits", "waits_slept", "waited_us", "waiting"].map(|name| of[name].as_u64().unwrap())
}

fn entry<'a>(answer: &'a Value, list: &str, key: &str, name: &str) -> &'a Value {
    answer[list].as_array().unwrap().iter().find(|v| v[key] == name).unwrap()
}

#[test]
fn waits_are_counted_where_they_belong() {
    let (a, b) = (open(Mapped), open(Mapped));
    b.ignore_errors();
    let cq = a.with(|e| e.create_cq(16)).unwrap();
    let (x, y) = (End::new(&a, Reliability::ReliableDelivery, None), End::new(&b, Reliability::ReliableDelivery, None));
    let (bound, z) = (End::new(&a, Reliability::ReliableDelivery, Some(cq)), End::new(&b, Reliability::ReliableDelivery, None));
    let _rest = more_vis(&a, 15);
    connect(&x, &y);
    connect(&bound, &z);
    let (mut stream, first) = find(17);
    let (vi, queue) = (format!("{:?}", x.vi), format!("{cq:?}"));
    assert_eq!(waits(entry(&first, "vis", "vi", &vi)), [0; 4]);
    assert_eq!(waits(entry(&first, "cqs", "cq", &queue)), [0; 4]);
    // A completion that is there already is no wait, nor is polling.
    x.post_receive(0, 64);
    y.send_now(0, 8);
    std::thread::sleep(Duration::from_millis(20));
    x.nic.receive_wait(x.vi, LONG).unwrap();
    (0..1000).for_each(|_| assert!(x.nic.receive_done(x.vi).unwrap().is_none()));
    assert_eq!(waits(entry(&ask(&mut stream).unwrap(), "vis", "vi", &vi)), [0; 4]);
    // One that sleeps, seen while it does and afterwards; one that ends without it; and one for the
    // queue.
    x.post_receive(0, 64);
    bound.post_receive(0, 64);
    std::thread::scope(|s| {
        s.spawn(|| x.nic.receive_wait(x.vi, LONG).unwrap());
        s.spawn(|| x.nic.cq_wait(cq, LONG).unwrap());
        std::thread::sleep(Duration::from_millis(300));
        let now = ask(&mut stream).unwrap();
        for figures in [waits(entry(&now, "vis", "vi", &vi)), waits(entry(&now, "cqs", "cq", &queue))] {
            assert!(figures[..2] == [0, 0] && figures[2] >= 200_000 && figures[3] == 1, "{figures:?}");
        }
        y.send_now(0, 8);
        z.send_now(0, 8);
    });
    assert!(x.nic.send_wait(x.vi, Some(Duration::from_millis(50))).is_err());
    let then = ask(&mut stream).unwrap();
    let [count, slept, us, waiting] = waits(entry(&then, "vis", "vi", &vi));
    assert!(count == 2 && slept == 2 && (330_000..5_000_000).contains(&us) && waiting == 0, "{count} {slept} {us} {waiting}");
    let [count, slept, us, waiting] = waits(entry(&then, "cqs", "cq", &queue));
    assert!(count == 1 && slept == 1 && us >= 280_000 && waiting == 0, "{count} {slept} {us} {waiting}");
    assert_eq!(waits(entry(&then, "vis", "vi", &format!("{:?}", bound.vi))), [0; 4]);
}

#[test]
fn short_waits_are_counted_too() {
    let (a, b) = (open(Mapped), open(Mapped));
    b.ignore_errors();
    let (x, y) = (End::new(&a, Reliability::ReliableDelivery, None), End::new(&b, Reliability::ReliableDelivery, None));
    let _rest = more_vis(&a, 22);
    connect(&x, &y);
    let (mut stream, _) = find(23);
    y.post_receive(0, 64);
    let mut round_trips = || {
        std::thread::scope(|s| {
            s.spawn(|| {
                for _ in 0..2000 {
                    y.nic.receive_wait(y.vi, LONG).unwrap();
                    y.post_receive(0, 64);
                    y.send_now(64, 8);
                }
            });
            for _ in 0..2000 {
                x.post_receive(0, 64);
                x.send_now(64, 8);
                x.nic.receive_wait(x.vi, LONG).unwrap();
            }
        });
        waits(entry(&ask(&mut stream).unwrap(), "vis", "vi", &format!("{:?}", x.vi)))
    };
    // Every answer is waited for, unless it was there first: on a busy machine most are, so there
    // may be several tries.
    let [count, slept, us, _] = (0..10).map(|_| round_trips()).find(|[count, ..]| *count > 500).expect("waits are counted");
    // (How long is sampled, and on a busy machine one sample may be any time.)
    assert!(slept <= count && us > 0, "{count} waits, {slept} slept, {us} us");
}

#[test]
fn thousands_of_vis_are_cut_short() {
    let nic = open(Mapped);
    nic.with(|e| {
        let attributes = bellwire_via::ViAttributes::default();
        (0..3001).for_each(|_| assert!(e.create_vi(&attributes, None, None, None).is_ok()));
    });
    let (mut stream, value) = find(3001);
    assert_eq!(value["vis"].as_array().unwrap().len(), 256);
    assert_eq!(value["vis_left_out"], 3001 - 256);
    let began = Instant::now();
    (0..20).for_each(|_| drop(ask(&mut stream).unwrap()));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn readers_that_misbehave_disturb_nobody() {
    let (a, b) = (open(Mapped), open(Mapped));
    let (x, y) = (End::new(&a, Reliability::ReliableDelivery, None), End::new(&b, Reliability::ReliableDelivery, None));
    let _rest = more_vis(&a, 40);
    connect(&x, &y);
    let (stream, value) = find(41);
    let number = value["nic"].as_u64().unwrap();
    // Asks again and again and never reads: cut off when its answers do not fit any more.
    let mut deaf = stream;
    deaf.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let began = Instant::now();
    while deaf.write_all(b"?").is_ok() {
        assert!(began.elapsed() < Duration::from_secs(60), "never cut off");
        std::thread::sleep(Duration::from_micros(200));
    }
    // More than there is room for, silent or gone at once.
    let many: Vec<_> = (0..40).filter_map(|_| reader(number)).collect();
    for i in 0..200 {
        x.post_receive(0, 64);
        y.send_now(0, 8);
        x.nic.receive_wait(x.vi, LONG).unwrap();
        if i % 10 == 0 {
            drop(reader(number));
        }
    }
    drop(many);
    // There is room again.
    let began = Instant::now();
    loop {
        if let Some(mut again) = reader(number)
            && ask(&mut again).is_ok()
        {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "no room again");
        std::thread::sleep(Duration::from_millis(10));
    }
}
