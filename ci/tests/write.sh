#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# In a job that ci/setup.sh has set up: two processes of ib_write_bw, started as anybody starts
# them, write to each other over Bellwire, says `bellwire top`; without the preloaded library they
# find no device.
set -eu
if env -u LD_PRELOAD ibv_rc_pingpong -d "$1" >/dev/null 2>&1; then echo "FAILED: a device without Bellwire"; exit 1; fi
ib_write_bw -d "$1" -D 4 &
server=$!
client() { # the server may not listen yet
    tries=0
    until ib_write_bw -d "$1" -D 4 localhost; do
        tries=$((tries + 1))
        [ $tries -lt 50 ] || return 1
        sleep 0.1
    done
}
client "$1" &
client=$!
tries=0
until bellwire top --once --json --interval 0.1 | python3 -c '
import json, sys
writes = [vi["others"]["direct"] for nic in json.load(sys.stdin)["nics"] if nic["nic"]["program"] == "ib_write_bw" for vi in nic["nic"]["vis"]]
print("RDMA:", max(writes, default=0), "writes of ib_write_bw went over Bellwire")
sys.exit(max(writes, default=0) < 1000)'; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || exit 1
done
wait $client
wait $server
