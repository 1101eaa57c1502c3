#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Active Messages between two hosts (two-hosts.sh): the example `ask` over IPv4 and IPv6, and with packets lost, doubled and overtaken; then, if STORM is given, random traffic of many processes
# on both, with and without that. `hosts-am.sh DIR LIBDIR [STORM [processes,seconds]]`: DIR holds the examples of Active Messages, STORM is the test program crates/am/tests/storm.rs.
storm=${3:-} size=${4:-6,5}
source "$(dirname "$0")/two-hosts.sh"
root=$(cd "$(dirname "$0")/.." && pwd)

between() { # title, rounds
    rm -f "$log"/*
    local at_a="ip netns exec $a env BELLWIRE_ADDRESS=${address[$a]}" at_b="ip netns exec $b env BELLWIRE_ADDRESS=${address[$b]}"
    if SERVER=$at_a CLIENT=$at_b "$root/examples/am/ask.sh" "$examples/ask" "$2" >"$log/ask" 2>&1; then
        ok "$1  ($(head -n 1 "$log/ask"))"
    else
        bad "$1"
    fi
}
storm() { # title
    rm -f "$log"/*
    if BELLWIRE_STORM=$size BELLWIRE_STORM_HOSTS=$a,$b timeout 600 "$storm" --exact a_storm_of_processes --nocapture >"$log/storm" 2>&1; then
        ok "$1  ($(grep -m 1 answered "$log/storm"))"
    else
        bad "$1"
    fi
}
faults=loss=0.1,dup=0.1,reorder=0.1:300us,seed=$$

between "Active Messages" 1000
BELLWIRE_FAULTS=$faults between "a tenth of the packets lost, doubled, overtaken (seed $$)" 100
address[$a]=$here6 address[$b]=$there6
between "IPv6" 1000
address[$a]=eth0 address[$b]=eth0
if [ -n "$storm" ]; then
    storm "random traffic, $size"
    BELLWIRE_FAULTS=$faults storm "random traffic, a tenth of the packets lost, doubled, overtaken (seed $$)"
fi
echo "all Active Messages between hosts: $passed"
exit $failed
