// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite over UDP: two NICs, and one NIC with itself.

use bellwire_conformance::fixtures::Udp;

bellwire_conformance::suite!(udp, Udp::new(2));
bellwire_conformance::suite!(udp_loopback, Udp::new(1));
