// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite over UDP: two NICs, one NIC with itself, two whose packets are lost, doubled and
//! overtaken, those with authenticated packets too, two at one IPv6 address with ports, and two on
//! two hosts. In the long tests: authenticated packets without faults.

use bellwire_conformance::fixtures::Udp;

bellwire_conformance::suite!(udp, Udp::<false>::new(2));
bellwire_conformance::suite!(udp_loopback, Udp::<false>::new(1));
bellwire_conformance::suite!(udp_faults, Udp::<true>::with_faults(2, Some("loss=0.05,dup=0.05,reorder=0.05:300us,corrupt=0.01,seed=7")));
bellwire_conformance::suite!(udp_keys, Udp::<false>::with_keys(2, None), ignore = "in the long tests");
bellwire_conformance::suite!(udp_keys_loopback, Udp::<false>::with_keys(1, None), ignore = "in the long tests");
bellwire_conformance::suite!(udp_keys_faults, Udp::<true>::with_keys(2, Some("loss=0.05,dup=0.05,reorder=0.05:300us,corrupt=0.01,seed=7")));
bellwire_conformance::suite!(udp_v6_ports, Udp::<false>::at_ports());
bellwire_conformance::suite!(udp_hosts, Udp::<false>::between_hosts(), ignore = "needs two hosts: scripts/hosts-conformance.sh");
