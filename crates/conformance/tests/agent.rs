// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite over the host's agent: two NICs at one agent. In the long tests: two in a crowd of
//! endpoints that want its three frames, one NIC with itself, two agents, and two agents between
//! which packets are lost, doubled and overtaken.

use bellwire_conformance::fixtures::ByAgent;

bellwire_conformance::suite!(agent, ByAgent::<false>::at_one(2, 8));
bellwire_conformance::suite!(agent_crowd, ByAgent::<true>::in_a_crowd(), ignore = "in the long tests");
bellwire_conformance::suite!(
    agents_faults,
    ByAgent::<true>::at_two(Some("loss=0.05,dup=0.05,reorder=0.05:300us,corrupt=0.01,seed=7")),
    ignore = "in the long tests"
);
bellwire_conformance::suite!(agent_loopback, ByAgent::<false>::at_one(1, 8), ignore = "in the long tests");
bellwire_conformance::suite!(agents, ByAgent::<false>::at_two(None), ignore = "in the long tests");
