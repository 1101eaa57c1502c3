#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Instructions of the calls of a tagged message of 8 bytes: injecting it, posting its receive, reading the queue. Fails if they are more than 1900 together (of a release; decision 31).
#   tests/fi/cost.sh OUT      OUT: where check.sh has put the provider
set -eu
cd "$(dirname "$0")"
out=$1
command -v valgrind >/dev/null || { echo "SKIPPED cost: no valgrind"; exit 0; }
cc -Wall -Wextra -O1 -o "$out/cost" cost.c -lfabric
sum=0
for call in inject receive read; do
    FI_PROVIDER_PATH=$out/provider timeout 200 valgrind --tool=callgrind --fair-sched=yes --callgrind-out-file="$out/cost.$call" --toggle-collect="counted_$call" "$out/cost" >"$out/cost.log" 2>&1 || { cat "$out/cost.log"; exit 1; }
    n=$(awk '/^summary:/ {print int($2 / 4000)}' "$out/cost.$call")
    echo "$call: $n instructions"
    sum=$((sum + n))
done
[ "$sum" -gt 300 ] && [ "$sum" -le 1900 ] || { echo "FAILED cost: $sum instructions"; exit 1; }
echo "cost: all well, $sum instructions"
