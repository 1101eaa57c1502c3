#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Instructions of a put of a word, a get and its answer between processes that share no memory: the
# calls, the looks that serve them, the looks that take what comes. Fails if they are too many
# together (of a release). A count of the calls of both sides, so that a look that finds nothing
# counts too.
#   tests/gas/cost.sh OUT [TEST]      OUT: an absolute folder; TEST: the unit tests of bellwire-gas,
#                                     as built by cargo test --release
set -eu
cd "$(dirname "$0")/../.."
out=$1 most=${MOST:-5950}
command -v valgrind >/dev/null || { echo "SKIPPED cost: no valgrind"; exit 0; }
mkdir -p "$out"
test=${2:-$(cargo test --release --locked -p bellwire-gas --lib --no-run 2>&1 | sed -n 's/.*Executable.*(\(.*\))$/\1/p')}
# One run counts all calls: reading the test's symbols takes longer than counting.
timeout 400 valgrind --tool=callgrind --fair-sched=yes --callgrind-out-file="$out/cost.out" \
    --toggle-collect='*counted_*' "$test" --ignored --exact net::tests::cost::cost >"$out/cost.log" 2>&1 || { cat "$out/cost.log"; exit 1; }
callgrind_annotate --inclusive=yes --threshold=100 "$out/cost.out" >"$out/cost.txt" 2>&1
sum=0
for call in put get serve look; do
    n=$(grep -m 1 "counted_$call" "$out/cost.txt" | sed 's/^ *//; s/[ (].*//; s/,//g')
    [ -n "$n" ] || { echo "FAILED cost: $call was not counted"; exit 1; }
    n=$((n / 4000))
    echo "$call: $n instructions"
    sum=$((sum + n))
done
[ "$sum" -gt 300 ] && [ "$sum" -le "$most" ] || { echo "FAILED cost: $sum instructions, at most $most"; exit 1; }
echo "cost: all well, $sum instructions"
