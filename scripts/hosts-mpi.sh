#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The libfabric provider between two hosts (two-hosts.sh): fi_pingpong with its data checked, over IPv4, IPv6 and with packets lost, doubled and overtaken; and an MPICH job with ranks on both.
# `hosts-mpi.sh DIR LIBDIR OUT`: OUT is where tests/mpi/check.sh has installed and built.
out=$3
source "$(dirname "$0")/two-hosts.sh"
[ -x "$out/prefix/bin/bellwire" ] || skip "nothing is installed in $out"
eval "$("$out/prefix/bin/bellwire" env)"
faults=loss=0.05,dup=0.05,reorder=0.05:300us,seed=$$

pingpong() { # title: a ping-pong whose two sides find each other by a socket at the IPv4 address
    rm -f "$log"/*
    on "$a" timeout 120 fi_pingpong -p bellwire -e rdm -m tagged -I 10 -c >"$log/server" 2>&1 &
    local server=$! status=1
    for _ in $(seq 100); do
        on "$b" timeout 120 fi_pingpong -p bellwire -e rdm -m tagged -I 10 -c "$here" >"$log/client" 2>&1 && status=0 && break
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    if [ $status = 0 ] && wait "$server"; then ok "$1"; else bad "$1"; fi
}
mpich() { # title, ranks on each host, program
    local program=$out/$3-mpich
    rm -f "$log"/*
    (
        eval "$("$out/prefix/bin/bellwire" env --mpi mpich)"
        timeout 120 "$out/mpich/bin/mpiexec" -n "$2" ip netns exec "$a" env BELLWIRE_ADDRESS="${address[$a]}" "$program" : \
            -n "$2" ip netns exec "$b" env BELLWIRE_ADDRESS="${address[$b]}" "$program"
    ) >"$log/mpich" 2>&1
    if grep -aq "$3: all well" "$log/mpich"; then ok "$1"; else bad "$1"; fi
}
if command -v fi_pingpong >/dev/null 2>&1; then
    pingpong "fi_pingpong"
    BELLWIRE_FAULTS=$faults pingpong "fi_pingpong, packets lost, doubled, overtaken (seed $$)"
    address[$a]=$here6 address[$b]=$there6
    pingpong "fi_pingpong over IPv6"
    address[$a]=eth0 address[$b]=eth0
else
    echo "SKIPPED fi_pingpong: no libfabric-bin"
fi
if [ -x "$out/basics-mpich" ]; then
    mpich "MPICH, 2 and 2 ranks: messages, collectives, one-sided" 2 basics
    mpich "MPICH, 2 and 2 ranks of several threads" 2 threads
    BELLWIRE_FAULTS=$faults mpich "MPICH, packets lost, doubled, overtaken (seed $$)" 1 basics
else
    echo "SKIPPED MPICH: it is not installed in $out"
fi
echo "all of the provider between hosts: $passed"
exit $failed
