#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# RDMA programs of the distribution between two hosts (network namespaces):
#   scripts/hosts-verbs.sh EXAMPLES LIBDIR
# shellcheck disable=SC1091
. "$(dirname "$0")/two-hosts.sh"
command -v ib_write_bw >/dev/null 2>&1 || skip "no perftest"
library=$LD_LIBRARY_PATH/bellwire/libbellwire-verbs.so
unset LD_LIBRARY_PATH
port=18600

# A program on both hosts; the client names the server.
both() { # program arguments
    local server code served i
    port=$((port + 1))
    ip netns exec "$a" env LD_PRELOAD="$library" BELLWIRE_ADDRESS=10.118.0.1 timeout 60 "$1" -p $port "${@:2}" >"$log/server" 2>&1 &
    server=$!
    for i in $(seq 600); do
        ip netns exec "$a" cat /proc/net/tcp /proc/net/tcp6 | awk -v p="$(printf ':%04X ' $port)" '$4 == "0A" && index($2 " ", p) {found = 1} END {exit !found}' && break
        sleep 0.05
    done
    ip netns exec "$b" env LD_PRELOAD="$library" BELLWIRE_ADDRESS=10.118.0.2 timeout 60 "$1" -p $port "${@:2}" 10.118.0.1 >"$log/client" 2>&1
    code=$?
    wait $server
    served=$?
    if [ $code = 0 ] && [ $served = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $* ($code, $served): $(tail -n 2 "$log/client" | tr '\n' ' ') | $(tail -n 2 "$log/server" | tr '\n' ' ')"
    fi
}
both ibv_rc_pingpong -g 0 -c
both ibv_rc_pingpong -g 0 -e -s 1048577 -n 20
both ibv_uc_pingpong -g 0 -n 200 -s 1024
both ibv_srq_pingpong -g 0 -q 4
both ibv_ud_pingpong -g 0 -n 200
both ib_send_lat -n 200
both ib_send_bw -n 200
both ib_write_bw -n 200 -q 4
both ib_read_bw -n 200
both ib_atomic_lat -n 100
both ibv_uc_pingpong -g 0 -e -n 100
both ibv_ud_pingpong -g 0 -e -n 100
both ibv_srq_pingpong -g 0 -e -n 100 -s 100000
both ib_write_lat -n 200
both ib_send_bw -n 200 -c UD
both ib_read_bw -n 200 -q 4 -b
both ib_atomic_bw -n 200 -b
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
