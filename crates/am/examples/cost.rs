// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a short request and its reply cost in instructions: one thread, two bundles of one device,
//! no waiting. For callgrind:
//!
//! `cargo build --release -p bellwire-am --example cost; valgrind --tool=callgrind
//! --toggle-collect='*round_trips*' target/release/examples/cost`

use bellwire_am::{Bundle, Device, EndpointId};
use bellwire_via::nic::NicConfig;

const PING: u8 = 1;
const PONG: u8 = 2;

#[inline(never)]
fn round_trips(one: (&Bundle, EndpointId), other: &Bundle, count: i32) {
    for i in 0..count {
        one.0.request(one.1, 0, PING, &[i, 0]).expect("it leaves");
        while other.poll().expect("polls") == 0 {}
        while one.0.poll().expect("polls") == 0 {}
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::open(NicConfig::default())?;
    let (one, other) = (Bundle::new(&device)?, Bundle::new(&device)?);
    let (a, b) = (one.create_endpoint()?, other.create_endpoint()?);
    other.set_tag(b, 1)?;
    one.map(a, 0, other.name(b)?, 1)?;
    other.set_handler(b, PING, |m| {
        let args = [m.args()[0], m.args()[1]];
        m.reply(PONG, &args).expect("it leaves");
    })?;
    one.set_handler(a, PONG, |_| ())?;
    std::thread::scope(|scope| {
        // The connection needs both; no other thread afterwards.
        let serves = scope.spawn(|| {
            for _ in 0..2_000_000 {
                if other.counters(b).is_ok_and(|c| c.replies_sent[0] > 0) {
                    return;
                }
                let _ = other.poll();
            }
        });
        one.request(a, 0, PING, &[0, 0]).expect("it connects");
        serves.join().expect("it serves");
    });
    while one.counters(a)?.replies_received[0] == 0 {
        one.poll()?;
        other.poll()?;
    }
    round_trips((&one, a), &other, 20_000);
    Ok(())
}
