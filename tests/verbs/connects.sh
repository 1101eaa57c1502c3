#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Figures of connecting between two processes of this host, by turns over one or more libraries
# (libbellwire-verbs.so, as old and new): connections a second of ucmatose, which asks for all of
# them at once; one connection of rping; and connections that are each alone (alone.c).
#   tests/verbs/connects.sh OUT LIBRARY..
# ROUNDS (9) rounds of COUNT (1000) connections. Prints medians, and all samples.
set -u
out=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
rounds=${ROUNDS:-9} count=${COUNT:-1000} port=$((23000 + $$ % 15000))
mkdir -p "$out"
for program in rping ucmatose; do command -v $program >/dev/null || { echo "SKIPPED: no $program"; exit 0; }; done
cc -O1 -Wall -Wextra -Werror -shared -fPIC -o "$out/rate.so" "$here/rate.c" || exit 1
cc -O1 -Wall -Wextra -Werror -o "$out/alone" "$here/alone.c" -lrdmacm -libverbs || exit 1

listens() { # pid: waits until the server has its names, and a moment for the rest
    for _ in $(seq 200); do
        [ "$(grep -c '@bellwire/.*/w/' "/proc/$1/net/unix")" -ge 2 ] && break
        sleep 0.02
    done
    sleep 0.2
}
run() { # library, program..
    local library=$1
    shift
    LD_PRELOAD=$library:$out/rate.so timeout 60 "$@" 2>&1
}
# One pair; prints what the client took for a connection, in us.
pair() { # library, server's words --  client's words
    local library=$1 server=() pid
    shift
    while [ "$1" != -- ]; do server+=("$1"); shift; done
    shift
    LD_PRELOAD=$library timeout 60 "${server[@]}" >/dev/null 2>&1 &
    pid=$!
    listens $pid
    run "$library" "$@" | sed -n 's/^connected \([0-9]*\) in \([0-9]*\) us$/\1 \2/p' | awk '{printf "%.1f\n", $2 / $1}'
    kill $pid 2>/dev/null
    wait $pid 2>/dev/null
}
for round in $(seq "$rounds"); do
    at=0
    for library in "$@"; do
        at=$((at + 1)) port=$((port + 2))
        pair "$library" ucmatose -p $port -c "$count" -C 0 -- ucmatose -p $port -c "$count" -C 0 -s 127.0.0.1 >>"$out/all.$$.$at"
        pair "$library" rping -s -P -p $((port + 1)) -- rping -c -a 127.0.0.1 -p $((port + 1)) -C 1 >>"$out/rping.$$.$at"
        LD_PRELOAD=$library "$out/alone" 127.0.0.1 200 | sed -n 's/.*median \([0-9]*\) us, .* queue pair \([0-9]*\) us; the first.*/\1 \2/p' >"$out/line"
        awk '{print $1}' "$out/line" >>"$out/step.$$.$at"
        awk '{print $2}' "$out/line" >>"$out/whole.$$.$at"
    done
done
median() { sort -n "$1" | awk '{a[NR] = $1} END {print a[int((NR + 1) / 2)]}'; }
at=0
for library in "$@"; do
    at=$((at + 1))
    echo "$library"
    echo "  ucmatose, $count connections: $(awk -v t="$(median "$out/all.$$.$at")" 'BEGIN {printf "%.0f", 1e6 / t}') a second ($(awk '{printf "%.0f ", 1e6 / $1}' "$out/all.$$.$at"))"
    echo "  rping, one connection: $(median "$out/rping.$$.$at") us ($(tr '\n' ' ' <"$out/rping.$$.$at"))"
    echo "  alone, the connect step: $(median "$out/step.$$.$at") us ($(tr '\n' ' ' <"$out/step.$$.$at"))"
    echo "  alone, with address, route and queue pair: $(median "$out/whole.$$.$at") us ($(tr '\n' ' ' <"$out/whole.$$.$at"))"
done
