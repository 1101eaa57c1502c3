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
out=$1 most=${MOST:-5800}
command -v valgrind >/dev/null || { echo "SKIPPED cost: no valgrind"; exit 0; }
mkdir -p "$out"
test=${2:-$(cargo test --release --locked -p bellwire-gas --lib --no-run 2>&1 | sed -n 's/.*Executable.*(\(.*\))$/\1/p')}
sum=0
for call in put get serve look; do
    timeout 200 valgrind --tool=callgrind --fair-sched=yes --callgrind-out-file="$out/cost.$call.out" \
        --toggle-collect="*counted_$call*" "$test" --ignored --exact net::tests::cost::cost >"$out/cost.log" 2>&1 || { cat "$out/cost.log"; exit 1; }
    n=$(awk '/^summary:/ {print int($2 / 4000)}' "$out/cost.$call.out")
    echo "$call: $n instructions"
    sum=$((sum + n))
done
[ "$sum" -gt 300 ] && [ "$sum" -le "$most" ] || { echo "FAILED cost: $sum instructions, at most $most"; exit 1; }
echo "cost: all well, $sum instructions"
