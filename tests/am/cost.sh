#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Instructions of a request of two words: sending it, the poll that runs its handler and replies,
# the poll that takes the reply. Fails if they are too many together (of a release). A NIC's helper
# thread that got no processor in time sleeps deeply, and each call then asks whether to wake it.
# So the program runs before others where this user may have it so; and while the sum is too high
# all are counted again, five times at most, and the least of each call counts.
#   tests/am/cost.sh OUT      OUT: where the Makefile has put the program
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$1 most=4680
command -v valgrind >/dev/null || { echo "SKIPPED cost: no valgrind"; exit 0; }
declare -A least
for try in 1 2 3 4 5 6; do
    sum=0
    for call in request serve reply; do
        timeout 200 "$here/../steady.sh" valgrind --tool=callgrind --fair-sched=yes --callgrind-out-file="$out/cost.$call.out" \
            --toggle-collect="counted_$call" "$out/cost" >"$out/cost.log" 2>&1 || { cat "$out/cost.log"; exit 1; }
        n=$(awk '/^summary:/ {print int($2 / 4000)}' "$out/cost.$call.out")
        echo "$call: $n instructions"
        [ "${least[$call]:-$n}" -lt "$n" ] || least[$call]=$n
        sum=$((sum + least[$call]))
    done
    [ "$sum" -gt "$most" ] || break
done
[ "$sum" -gt 300 ] && [ "$sum" -le "$most" ] || { echo "FAILED cost: $sum instructions, at most $most (try $try)"; exit 1; }
echo "cost: all well, $sum instructions"
