#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Two hosts (two-hosts.sh): every example runs between them, over IPv4, then over IPv6, with a port and on the link only; then a peer is killed, packets are lost, a cable is pulled for a second and for good. What takes longer is in
# hosts-outages.sh. `hosts.sh DIR LIBDIR`: DIR holds the examples.
source "$(dirname "$0")/two-hosts.sh"

server_host=$here
between() { # title, program, server's arguments, client's arguments
    local title=$1 program=$2
    rm -f "$log"/*
    on "$a" timeout 60 "$examples/$program" server $3 >"$log/server" 2>&1 &
    local server=$!
    if on "$b" timeout 60 "$examples/$program" client --name "$program@$server_host" $4 >"$log/client" 2>&1 && wait $server; then
        ok "$title  ($(tail -qn 1 "$log"/client "$log"/server | head -n 1))"
    else
        kill -9 $server 2>/dev/null
        bad "$title"
    fi
}

between "ping-pong" pingpong "--count 3000" "--count 3000"
between "ping-pong, polling" pingpong "--count 3000 --poll" "--count 3000 --poll"
between "ping-pong, 1 MB" pingpong "--size 1000000 --count 100" "--size 1000000 --count 100"
between "RDMA write and read" rdma_write "" "--count 1000"
between "RDMA write of 4 MB" rdma_write "--size 4194304" "--size 4194304 --count 20"
between "key-value store" kv_store "--clients 1" "--operations 3000"
between "epoll server" epoll_server "--clients 4 --messages 100" "--clients 4 --messages 100"

for kind in IPv6 "IPv6 and a port" "IPv6 of the link"; do
    case $kind in
        IPv6) address[$a]=$here6 address[$b]=$there6 server_host=$here6 ;;
        *port) address[$a]=[$here6]:9000 address[$b]=$there6 server_host=[$here6]:9000 ;;
        *link) address[$a]=$(link_address "$a") address[$b]=$(link_address "$b") server_host=${address[$a]%%%*} ;;
    esac
    between "ping-pong, $kind" pingpong "--count 3000" "--count 3000"
    between "RDMA write and read, $kind" rdma_write "" "--count 1000"
    between "key-value store, $kind" kv_store "--clients 1" "--operations 3000"
    between "epoll server, $kind" epoll_server "--clients 4 --messages 100" "--clients 4 --messages 100"
done
address[$a]=eth0 address[$b]=eth0 server_host=$here

# The network loses, doubles and mixes up packets, in both directions.
export BELLWIRE_FAULTS=loss=0.1,dup=0.1,reorder=0.1:300us,seed=$$
between "ping-pong, a tenth of the packets lost, doubled, overtaken (seed $$)" pingpong "--count 1000" "--count 1000"
between "RDMA write, the same" rdma_write "" "--count 300"
between "key-value store, the same" kv_store "--clients 1" "--operations 1000"
unset BELLWIRE_FAULTS

# The cable is out for a second: nothing is lost.
rm -f "$log"/*
on "$a" timeout 60 "$examples/pingpong" server --count 200000 >"$log/server" 2>&1 &
server=$!
on "$b" timeout 60 "$examples/pingpong" client --name "pingpong@$here" --count 200000 >"$log/client" 2>&1 &
client=$!
sleep 0.5
ip -n "$b" link set eth0 down
sleep 1
ip -n "$b" link set eth0 up
if wait $client && wait $server; then ok "cable out for 1 s"; else bad "cable out for 1 s"; fi

# The peer is killed, then the cable pulled for good: the other side is told in time.
for event in kill cable; do
    rm -f "$log"/*
    on "$a" timeout 60 "$examples/pingpong" server --count 100000000 >"$log/server" 2>&1 &
    server=$!
    on "$b" timeout 60 "$examples/pingpong" client --name "pingpong@$here" --count 100000000 >"$log/client" 2>&1 &
    client=$!
    sleep 0.5
    began=$(date +%s%N)
    if [ $event = kill ]; then ip netns pids "$b" | xargs -r kill -9; else ip -n "$b" link set eth0 down; fi
    wait $server
    code=$?
    took=$((($(date +%s%N) - began) / 1000000))
    # 124: still there when its time was up.
    if [ $code -ne 0 ] && [ $code -ne 124 ] && [ $took -lt 20000 ]; then ok "$event: told after $took ms ($(tail -n 1 "$log/server"))"; else bad "$event: exit $code after $took ms"; fi
    kill -9 $client 2>/dev/null
    wait $client 2>/dev/null
    ip -n "$b" link set eth0 up
done
echo "all hosts: $passed"
exit $failed
