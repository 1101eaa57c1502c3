#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# sisci-wire.sh EXAMPLES LIBDIR: VIPL programs on the wire that is made of SISCI calls
# (BELLWIRE_WIRE=sisci), on one host with each switch of the report, and between two hosts
# (two-hosts.sh). EXAMPLES holds those of examples/c, LIBDIR the libraries.
. "$(dirname "$0")/two-hosts.sh" "$1" "$2"
export BELLWIRE_WIRE=sisci

# One host: NAME PROGRAM [ARGUMENTS ..]
here_alone() {
    local name=$1
    shift
    rm -f "$log"/*
    if timeout 60 "$examples/$1" "${@:2}" >"$log/one" 2>&1; then ok "$name ($(tail -n 1 "$log/one"))"; else bad "$name"; fi
}
for switches in "" memory=shadow descriptors=32 dma=4096 events=memory memory=shadow,descriptors=32,dma=8192,events=memory; do
    export BELLWIRE_SISCI_WIRE=$switches
    here_alone "ping-pong, ${switches:-as it is}" pingpong --count 3000
    here_alone "100,000 bytes, ${switches:-as it is}" pingpong --size 100000 --count 300
    here_alone "RDMA, ${switches:-as it is}" rdma_write --count 300
    here_alone "four clients, ${switches:-as it is}" kv_store --clients 4 --operations 500
    here_alone "sleeping server, ${switches:-as it is}" epoll_server --clients 4 --messages 100
done
unset BELLWIRE_SISCI_WIRE

# A server is killed at a random moment, also while it is being connected to: its client's
# connection ends, or it finds nobody; and the next pair of the same name works.
kills=${KILLS:-10} ended=0
for _ in $(seq "$kills"); do
    "$examples/pingpong" server --name killed-$$ --count 100000000 >"$log/one" 2>&1 &
    server=$!
    timeout 60 "$examples/pingpong" client --name killed-$$ --count 100000000 >"$log/two" 2>&1 &
    client=$!
    sleep "0.$((RANDOM % 4))$((RANDOM % 10))"
    kill -9 $server
    wait $server 2>/dev/null
    wait $client
    status=$?
    [ $status -ne 0 ] && [ $status -ne 124 ] && ended=$((ended + 1))
done
if [ "$ended" -eq "$kills" ]; then ok "$kills servers killed ($(tail -n 1 "$log/two"))"; else bad "$ended of $kills clients heard of the end"; fi
here_alone "after the kills" pingpong --name killed-$$ --count 1000

# Two hosts: NAME PROGRAM SERVER-ARGUMENTS CLIENT-ARGUMENTS
between() {
    rm -f "$log"/*
    on "$a" timeout 100 "$examples/$2" server $3 >"$log/server" 2>&1 &
    local server=$!
    if on "$b" timeout 100 "$examples/$2" client --name "$2@$here" $4 >"$log/client" 2>&1 && wait $server; then
        ok "between hosts: $1 ($(tail -qn 1 "$log"/client "$log"/server | head -n 1))"
    else
        kill -9 $server 2>/dev/null
        bad "between hosts: $1"
    fi
}
between "ping-pong" pingpong "--count 500" "--count 500"
between "ping-pong, 100,000 bytes" pingpong "--size 100000 --count 50" "--size 100000 --count 50"
between "RDMA" rdma_write "" "--count 50"
between "key-value store" kv_store "--clients 1" "--operations 300"
between "sleeping server" epoll_server "--clients 4 --messages 50" "--clients 4 --messages 50"
BELLWIRE_SISCI_WIRE=events=memory between "ping-pong, events in memory" pingpong "--count 200" "--count 200"
BELLWIRE_FAULTS=loss=0.05,dup=0.05,reorder=0.05:300us,seed=$$ between "packets lost, doubled, overtaken (seed $$)" pingpong "--count 200" "--count 200"

# The server is killed: the client's connection ends, and it says so.
rm -f "$log"/*
on "$a" timeout 100 "$examples/pingpong" server --count 100000000 >"$log/server" 2>&1 &
on "$b" timeout 100 "$examples/pingpong" client --name "pingpong@$here" --count 100000000 >"$log/client" 2>&1 &
client=$!
for _ in $(seq 100); do ip netns pids "$a" >"$log/pids"; sleep 0.1; [ -s "$log/pids" ] && break; done
sleep 2
ip netns pids "$a" | xargs -r kill -9
wait $client
status=$?
if [ $status -ne 0 ] && [ $status -ne 124 ]; then ok "the server is killed: $(tail -n 1 "$log/client")"; else bad "the server is killed: $status"; fi
echo "$passed passed"
exit $failed
