// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a small call costs in instructions, both sides together: one thread, two nodes of one
//! device, no waiting. For callgrind:
//!
//! `cargo build --release -p bellwire-rpc --example call_cost; valgrind --tool=callgrind
//! --toggle-collect='*round_trips*' target/release/examples/call_cost`

use bellwire_rpc::{Device, Node, Peer, Procedure};
use bellwire_via::nic::NicConfig;

const NUMBER: Procedure<u64, u64> = Procedure::new("number", 1);

#[inline(never)]
fn round_trips(client: &Node, peer: Peer, server: &Node, count: u64) {
    for i in 0..count {
        let call = client.start(peer, &NUMBER, &i, None).expect("it leaves");
        while server.poll().expect("polls") == 0 {}
        while client.poll().expect("polls") == 0 {}
        assert_eq!(call.wait(), Ok(i));
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::open(NicConfig::default())?;
    let (server, client) = (Node::on(&device)?, Node::on(&device)?);
    server.serve(&NUMBER, |number, _| Ok(number))?;
    let peer = client.connect(&server.address())?;
    // The first call connects, the second knows the procedure's number.
    for _ in 0..2 {
        let call = client.start(peer, &NUMBER, &7, None)?;
        while !call.is_done() {
            server.poll()?;
            client.poll()?;
        }
        call.wait()?;
    }
    round_trips(&client, peer, &server, 20_000);
    Ok(())
}
