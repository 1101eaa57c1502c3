// SPDX-License-Identifier: MIT OR Apache-2.0
//! Endpoints and frames: packets arrive whatever there are frames for.

mod common;

use bellwire_wire::Transmit;
use bellwire_wire::packet::PacketPort;
use common::{Running, address, config, endpoint, take};
use std::net::SocketAddr;

fn send(port: &mut impl PacketPort, to: SocketAddr, bytes: &[u8]) {
    assert!(port.is_ready());
    port.send(&Transmit { to, bytes, segment: None, fragment: false, session: None });
}

/// Packets that are no data are kept for an endpoint that is being loaded; six endpoints
/// want two frames.
#[test]
fn many_endpoints_take_turns_in_two_frames() {
    let at = address();
    let agent = Running::start(config(at, 2));
    let mut ports: Vec<_> = (0..6).map(|_| endpoint(at)).collect();
    for round in 0..5u8 {
        for i in 0..6 {
            let (to, from) = (ports[(i + 1) % 6].address(), ports[i].address());
            send(&mut ports[i], to, &[0x10, round, i as u8]);
            assert_eq!(take(&mut ports[(i + 1) % 6]), (from, vec![0x10, round, i as u8]));
        }
    }
    assert_eq!(agent.end().broken, 0);
}
