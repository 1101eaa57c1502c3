#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Instructions of a request of two words: sending it, the poll that runs its handler and replies,
# the poll that takes the reply. Fails if they are too many together (of a release).
#   tests/am/cost.sh OUT      OUT: where the Makefile has put the program
set -eu
out=$1 most=4650
command -v valgrind >/dev/null || { echo "SKIPPED cost: no valgrind"; exit 0; }
sum=0
for call in request serve reply; do
    timeout 200 valgrind --tool=callgrind --fair-sched=yes --callgrind-out-file="$out/cost.$call.out" \
        --toggle-collect="counted_$call" "$out/cost" >"$out/cost.log" 2>&1 || { cat "$out/cost.log"; exit 1; }
    n=$(awk '/^summary:/ {print int($2 / 4000)}' "$out/cost.$call.out")
    echo "$call: $n instructions"
    sum=$((sum + n))
done
[ "$sum" -gt 300 ] && [ "$sum" -le "$most" ] || { echo "FAILED cost: $sum instructions, at most $most"; exit 1; }
echo "cost: all well, $sum instructions"
