#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Instructions of the calls of a message of 8 bytes in a ping-pong: posting its receive, sending it, two polls that find what it brings; and of an empty poll. Fails if the first three are more than 1900 together (of a
# release; 3390 before there was a short way, decision 27). Threads take turns fairly: else the one that polls keeps the others from connecting.
# The same of messages of 512 bytes, which fit no line: at most 2450
# (3864 before they had a short way too).
# The same three with a shared receive queue, to which 16 receives are posted at a time, and two
# pieces inline, as UCX does it: at most 2200.
#   tests/verbs/cost.sh OUT      OUT: where check.sh has put the libraries
set -eu
cd "$(dirname "$0")"
out=$1
command -v valgrind >/dev/null || { echo "SKIPPED cost: no valgrind"; exit 0; }
cc -std=gnu11 -Wall -Wextra -Wno-unused-function -O1 -o "$out/cost" cost.c -libverbs
sum=0 shared=0 packed=0
counted() { # call, the program's argument
    LD_PRELOAD=$out/libbellwire-verbs.so timeout 200 valgrind --tool=callgrind --fair-sched=yes --callgrind-out-file="$out/cost.$1" --toggle-collect="counted_$1" "$out/cost" ${2:+"$2"} >"$out/cost.log" 2>&1 || { cat "$out/cost.log"; exit 1; }
    n=$(awk '/^summary:/ {print int($2 / 4000)}' "$out/cost.$1")
    echo "$1${2:+, $2}: $n instructions"
}
for call in receive send poll vain; do
    counted $call
    [ "$call" = vain ] || sum=$((sum + n))
done
for call in receive send poll; do
    counted $call shared
    shared=$((shared + n))
    counted $call 512
    packed=$((packed + n))
done
[ "$sum" -gt 300 ] && [ "$sum" -le 1900 ] || { echo "FAILED cost: $sum instructions"; exit 1; }
[ "$shared" -gt 300 ] && [ "$shared" -le 2200 ] || { echo "FAILED cost: $shared instructions with a shared receive queue"; exit 1; }
[ "$packed" -gt 300 ] && [ "$packed" -le 2450 ] || { echo "FAILED cost: $packed instructions of 512 bytes"; exit 1; }
echo "cost: all well, $sum instructions, $shared with a shared receive queue, $packed of 512 bytes"
