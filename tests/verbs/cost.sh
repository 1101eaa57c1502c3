#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Instructions of the calls of a message of 8 bytes in a ping-pong: posting its receive, sending it, two polls that find what it brings; and of an empty poll. Fails if the first three are more than 1900 together (of a
# release; 3390 before there was a short way, decision 27). Threads take turns fairly: else the one that polls keeps the others from connecting.
#   tests/verbs/cost.sh OUT      OUT: where check.sh has put the libraries
set -eu
cd "$(dirname "$0")"
out=$1
command -v valgrind >/dev/null || { echo "SKIPPED cost: no valgrind"; exit 0; }
cc -std=gnu11 -Wall -Wextra -Wno-unused-function -O1 -o "$out/cost" cost.c -libverbs
sum=0
for call in receive send poll vain; do
    LD_PRELOAD=$out/libbellwire-verbs.so timeout 200 valgrind --tool=callgrind --fair-sched=yes --callgrind-out-file="$out/cost.$call" --toggle-collect="counted_$call" "$out/cost" >"$out/cost.log" 2>&1 || { cat "$out/cost.log"; exit 1; }
    n=$(awk '/^summary:/ {print int($2 / 4000)}' "$out/cost.$call")
    echo "$call: $n instructions"
    [ "$call" = vain ] || sum=$((sum + n))
done
[ "$sum" -gt 300 ] && [ "$sum" -le 1900 ] || { echo "FAILED cost: $sum instructions"; exit 1; }
echo "cost: all well, $sum instructions"
