// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite over UDP: two NICs, one NIC with itself, and two whose packets are lost, doubled and overtaken.

use bellwire_conformance::fixtures::Udp;

bellwire_conformance::suite!(udp, Udp::new(2));
bellwire_conformance::suite!(udp_loopback, Udp::new(1));
bellwire_conformance::suite!(udp_faults, Udp::with_faults(2, Some("loss=0.05,dup=0.05,reorder=0.05:300us,corrupt=0.01,seed=7")));
