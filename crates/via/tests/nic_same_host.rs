// SPDX-License-Identifier: MIT OR Apache-2.0
//! NICs at different addresses of one host find each other by shared memory, whoever of the two is
//! there first.

mod nic_common;

use bellwire_via::nic::{NicConfig, Udp};
use bellwire_via::{Nic, Reliability};
use nic_common::*;
use std::time::Duration;

const ROUNDS: u64 = 60;

/// Two NICs, connected by shared memory or UDP as it comes, each at a loopback address of its own.
fn both() -> [Nic; 2] {
    let own = |nic| NicConfig { host: at(nic, "").host().to_vec(), udp: Some(Udp::default()), ..NicConfig::default() };
    [201, 202].map(|nic| Nic::open(own(nic)).unwrap())
}

fn wire_of(end: &End<'_>) -> &'static str {
    end.nic.with(|e| e.vi_link(end.vi)).unwrap().expect("a link").1.wire
}

#[test]
fn a_client_may_come_before_its_server() {
    let [a, b] = both();
    for round in 0..ROUNDS {
        let (server, client) = (End::new(&a, Reliability::ReliableDelivery, None), End::new(&b, Reliability::ReliableDelivery, None));
        let place = at(201, &format!("early/{round}"));
        std::thread::scope(|s| {
            s.spawn(|| {
                std::thread::sleep(Duration::from_micros(round * 170));
                serve(&server, &place).unwrap();
            });
            call(&client, &place).unwrap();
        });
        assert_eq!([wire_of(&server), wire_of(&client)], ["shm"; 2], "round {round}");
    }
}

#[test]
fn either_of_two_peers_may_come_first() {
    let [a, b] = both();
    for round in 0..ROUNDS {
        let (x, y) = (End::new(&a, Reliability::ReliableDelivery, None), End::new(&b, Reliability::ReliableDelivery, None));
        let (here, there) = (at(201, &format!("peer/{round}")), at(202, &format!("peer/{round}")));
        a.peer_request(x.vi, &here, &there, LONG).unwrap();
        std::thread::sleep(Duration::from_micros(round * 170));
        b.peer_request(y.vi, &there, &here, LONG).unwrap();
        b.peer_wait(y.vi).unwrap();
        a.peer_wait(x.vi).unwrap();
        assert_eq!([wire_of(&x), wire_of(&y)], ["shm"; 2], "round {round}");
    }
}
