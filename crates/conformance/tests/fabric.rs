// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite over simulated packets: a clean fabric, one NIC with itself, and fabrics that do what
//! networks do.

use bellwire_conformance::fixtures::Fabric;
use bellwire_sim::{Duration, LinkSpec, WhenFull};

const BAD: &str = "loss=0.1,dup=0.1,reorder=0.1:200us,corrupt=0.01,jitter=5us,skew=~100ppm/5ms,seed=4";

/// Queues for a few packets that hold instead of dropping, and a path that carries less than
/// packets could be.
fn narrow() -> LinkSpec {
    LinkSpec { latency: Duration::from_micros(5), bits_per_second: 1_000_000_000, queue_bytes: 4096, when_full: WhenFull::Hold, mtu_bytes: 1452 }
}

bellwire_conformance::suite!(clean, Fabric::new(LinkSpec::default(), "", 2));
bellwire_conformance::suite!(loopback, Fabric::new(LinkSpec::default(), "", 1));
bellwire_conformance::suite!(lossy, Fabric::new(LinkSpec::default(), BAD, 2));
bellwire_conformance::suite!(bursts, Fabric::new(LinkSpec::default(), "burst=0.02:0.5,delay=300us,reorder=0.05,seed=9", 2));
bellwire_conformance::suite!(narrow_queues, Fabric::new(narrow(), "", 2));
