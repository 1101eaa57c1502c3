#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Figures of global memory: the cost of read, write, get, put and store on each scalar type and in bulk, over shared memory and by packets; em3d's time per edge against the share of remote edges; sample sort
# and em3d on 1 and 2 processes. Tables here, JSON in OUT.
#   split-c-figures.sh EXAMPLES BELLWIRE OUT       EXAMPLES: the built examples of Split-C
set -eu
examples=$(cd "$1" && pwd) bellwire=$2 out=$3
mkdir -p "$out"
for way in on off; do
    [ $way = on ] && echo "== operations over shared memory" || echo "== operations by packets (UDP over loopback)"
    BELLWIRE_SHM=$way "$bellwire" run -n 2 "$examples/operations" 20 "$out/operations-shm-$way.json"
done
echo "== em3d: ns for an edge, by percent of remote edges"
nodes=20000 degree=16 steps=20
printf '[' >"$out/em3d.json"
comma=
for way in on off; do
    [ $way = off ] && nodes=400
    for version in simple bundle ghost get put store bulk; do
        printf '%s %-7s' "$([ $way = on ] && echo memory || echo packets)" $version
        for percent in 0 10 20 30 40 50; do
            ns=$(BELLWIRE_SHM=$way "$bellwire" run -n 2 "$examples/em3d" $version $nodes $degree $percent $steps | sed -n 's/.*: *\([0-9.]*\) ns for an edge, right/\1/p')
            printf '%11s' "$ns"
            printf '%s\n  {"shm": "%s", "version": "%s", "percent": %s, "ns": %s}' "$comma" $way $version $percent "${ns:-null}" >>"$out/em3d.json"
            comma=,
        done
        echo
    done
done
printf '\n]\n' >>"$out/em3d.json"
echo "== 1 process and 2: the same work, over shared memory"
one=$("$bellwire" run -n 1 "$examples/em3d" ghost 40000 16 10 30 | sed -n 's/.*: *\([0-9.]*\) ns for an edge.*/\1/p')
two=$("$bellwire" run -n 2 "$examples/em3d" ghost 20000 16 10 30 | sed -n 's/.*: *\([0-9.]*\) ns for an edge.*/\1/p')
# Each counts the edges of one process: half of them at the same time per edge is twice as fast.
awk -v a="$one" -v b="$two" 'BEGIN {printf "em3d ghost, 80000 nodes of 16 edges: %.2f times as fast on 2\n", 2 * a / b}'
one=$("$bellwire" run -n 1 "$examples/sample" 2000000 | sed -n 's/.*: *\([0-9.]*\) ns for a key.*/\1/p')
two=$("$bellwire" run -n 2 "$examples/sample" 1000000 | sed -n 's/.*: *\([0-9.]*\) ns for a key.*/\1/p')
awk -v a="$one" -v b="$two" 'BEGIN {printf "sample sort, 2000000 keys: %.2f times as fast on 2\n", 2 * a / b}'
echo "all figures are in $out"
