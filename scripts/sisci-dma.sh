#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# sisci-dma.sh [PROGRAM [TURNS]]: DMA to a segment of another host beside the engine's RDMA write,
# by turns in one run, between two network namespaces; medians. PROGRAM: the example dma_hosts, as
# built by cargo build --release -p bellwire-sisci --example dma_hosts.
program=$(realpath "${1:-target/release/examples/dma_hosts}") || exit 1
turns=${2:-40}
. "$(dirname "$0")/two-hosts.sh" "$(dirname "$program")" ""
export BELLWIRE_SISCI_NODES=4=$here,8=$there
on "$a" "$program" owner >"$log/owner" 2>&1 &
on "$b" timeout 300 "$program" user 4 "$turns" || bad "user: $?"
ip netns pids "$a" | xargs -r kill -9
exit $failed
