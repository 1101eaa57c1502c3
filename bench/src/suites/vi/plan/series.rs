// SPDX-License-Identifier: MIT OR Apache-2.0
//! The columns.

#![allow(missing_docs)]
use crate::samples::{Kind, Series};

const fn ours(name: &'static str) -> Series {
    Series { name, kind: Kind::Ours }
}
const fn limit(name: &'static str) -> Series {
    Series { name, kind: Kind::Limit }
}
const fn peer(name: &'static str, cma: bool) -> Series {
    Series { name, kind: Kind::Peer { cma } }
}

pub const OURS: Series = ours("bellwire");
pub const VI: Series = ours("VI");
pub const VI_CQ: Series = ours("VI, completion queue");
pub const TAG: Series = ours("tag matching");
pub const VERBS: Series = ours("verbs");
pub const VERBS_UNREAD: Series = ours("verbs, data not read");
pub const FETCH_ADD: Series = ours("fetch and add");
pub const COMPARE_SWAP: Series = ours("compare and swap");
pub const AM: Series = ours("Active Messages");
pub const AM_IN_MESSAGES: Series = ours("Active Messages, data in the message");
pub const AMVIA_V1: Series = ours("AMVIA v1");
pub const AMVIA_V3: Series = ours("AMVIA v3");
pub const AM_ONE_WAY: Series = ours("Active Messages, one way");
pub const RPC: Series = ours("remote procedure calls");
pub const RPC_MANY: Series = ours("remote procedure calls, 16 under way");
pub const OURS_TOUCHED: Series = ours("bellwire touched");
pub const OURS_ENGINE: Series = ours("engine memory");
pub const OURS_INLINE: Series = ours("without descriptors");
pub const OURS_USER: Series = ours("user memory");
pub const GUARDED: Series = ours("guarded mode");
pub const GUARDED_USER: Series = ours("guarded, user memory");
pub const POLLING: Series = ours("polling");
pub const BLOCKING: Series = ours("blocking");
pub const SLEEPING: Series = ours("sleeping at once");
pub const EVENTFD: Series = limit("bare eventfd");
pub const FUTEX: Series = limit("bare futex");
pub const ATTACH: Series = limit("process_vm_readv");
pub const BOUNCE: Series = limit("bounce");
pub const INTEL_MPI: Series = peer("Intel MPI", false);
pub const SENDER: Series = ours("sender, polling");
pub const RECEIVER: Series = ours("receiver, polling");
pub const SENDER_BLOCKING: Series = ours("sender, blocking");
pub const RECEIVER_BLOCKING: Series = ours("receiver, blocking");
pub const EXCHANGE: Series = limit("exchange");
pub const MEMCPY: Series = limit("memcpy");
pub const MEMCPY_TOUCHED: Series = limit("memcpy touched");
pub const RING: Series = limit("ring");
pub const UCX_TAG: Series = peer("UCX tag", true);
pub const UCX_AM: Series = peer("UCX am", true);
pub const UCX_UCT_AM: Series = peer("UCX uct am", false);
pub const UCX_PUT: Series = peer("UCX put", false);
pub const UCX_UCT_PUT: Series = peer("UCX uct put", false);
pub const GASNET: Series = peer("GASNet-EX smp", false);
pub const SHM_MESSAGE: Series = peer("libfabric shm", true);
pub const SHM_TAGGED: Series = peer("shm tagged", true);
pub const MPICH: Series = peer("MPICH", true);
pub const OPEN_MPI: Series = peer("Open MPI", true);
pub const SEGMENTS: Series = ours("segments, no RDMA");
pub const REGISTERING: Series = ours("RDMA, registering");
pub const CACHED: Series = ours("RDMA, cached");
pub const POLLED: Series = ours("short ones polled");
pub const MPI_OWN: Series = peer("own", true);
pub const LOSSY: Series = ours("2 % lost");
pub const UDP: Series = limit("bare UDP");
pub const TCP: Series = limit("bare TCP");
pub const UDP_BULK: Series = limit("UDP, GSO+GRO");
pub const UDP_LONG: Series = limit("UDP, 64 KiB datagrams");
pub const UCX_TCP: Series = peer("UCX tcp", false);
pub const FABRIC_TCP: Series = peer("libfabric tcp", false);
pub const STACK_RC: Series = ours("verbs, rc_v");
pub const STACK_RC_AM: Series = ours("am by verbs, rc_v");
pub const STACK_TCP_AM: Series = peer("am by UCX tcp", false);
pub const STACK_SHM: Series = peer("UCX shm", true);
pub const STACK_SHM_AM: Series = peer("am by UCX shm", true);
pub const STACK_VERBS: Series = ours("verbs");
pub const STACK_RXM: Series = ours("verbs;ofi_rxm");
pub const STACK_PROVIDER: Series = ours("bellwire's provider");
pub const STACK_PERFTEST: Series = ours("perftest, verbs");
pub const FABRIC_RXD: Series = peer("libfabric udp;ofi_rxd", false);
