// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite over the network in memory: two NICs, one NIC with itself, and a network that is slow,
//! narrow and jittery.

use bellwire_conformance::fixtures::Sim;
use bellwire_via::Duration;
use bellwire_via::wire::sim::SimConfig;

fn awkward() -> SimConfig {
    SimConfig {
        seed: 77,
        latency: Duration(3_000),
        jitter: Duration(5_000),
        bits_per_second: 10_000_000_000,
        queue_frames_max: 3,
        payload_bytes_max: 333,
        turn: Duration(1_100),
        ..SimConfig::default()
    }
}

bellwire_conformance::suite!(two_nics, Sim::new(SimConfig::default(), 2));
bellwire_conformance::suite!(loopback, Sim::new(SimConfig::default(), 1));
bellwire_conformance::suite!(awkward_network, Sim::new(awkward(), 2));
