#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Global memory by packets against the engine below it, by turns, over UDP and loopback: pipelined gets, puts and stores of a word against the engine's rate of messages of 8 bytes, a read alone against its round
# trip (twice the median half round trip of single messages). Medians of the rounds, and of the ratios within each. Then streams of bulk operations against the engine's RDMA writes.
#   gas-packets.sh EXAMPLES BELLWIRE [ROUNDS] [words|bulk]      EXAMPLES: the built examples of Split-C (`pipelined`, `bulk`)
set -eu
examples=$(cd "$1" && pwd) bellwire=$2 rounds=${3:-5} part=${4:-all}
[ "$part" = bulk ] || for ((round = 1; round <= rounds; round++)); do
    "$bellwire" perf --wire udp --only rate,lat --quick --rounds 1 --make-up 0 -q
    BELLWIRE_SHM=off "$bellwire" run -n 2 "$examples/pipelined" 50
done | awk '
    /^Message rate/ {in_rate = 1}
    in_rate && $1 == 8 && $2 == "B" {rate = $3; in_rate = 0}
    $1 == "p50" {trip = 2 * $2}
    / right$/ {
        n++
        for (i = 1; i < NF; i += 2) if ($i != "ns,") {
            name = $i; ns = $(i + 1)
            value[name, n] = name == "read" ? ns : 1e3 / ns
            ratio[name, n] = name == "read" ? ns / trip : 1e3 / ns / rate
        }
        value["round trip", n] = trip; value["messages", n] = rate
    }
    function median(of, name,   i, j, sorted, t) {
        for (i = 1; i <= n; i++) sorted[i] = of[name, i]
        for (i = 2; i <= n; i++) for (j = i; j > 1 && sorted[j] < sorted[j - 1]; j--) {t = sorted[j]; sorted[j] = sorted[j - 1]; sorted[j - 1] = t}
        return sorted[int((n + 1) / 2)]
    }
    END {
        if (!n) {print "no round was right"; exit 1}
        printf "%d rounds\nround trip: engine %.0f ns, read %.0f ns, ratio %.2f (goal 1.1)\n", n, median(value, "round trip"), median(value, "read"), median(ratio, "read")
        printf "million a second: messages of the engine %.2f; get %.1f, ratio %.2f (goal 0.7); put %.1f, ratio %.2f; store %.1f, ratio %.2f\n", median(value, "messages"), \
            median(value, "get"), median(ratio, "get"), median(value, "put"), median(ratio, "put"), median(value, "store"), median(ratio, "store")
    }'
[ "$part" = words ] || for ((round = 1; round <= rounds; round++)); do
    "$bellwire" perf --wire udp --only write --rounds 1 --make-up 0 -q
    BELLWIRE_SHM=off "$bellwire" run -n 2 "$examples/bulk" 20
done | awk '
    /^RDMA write: bandwidth/ {in_write = 1}
    in_write && ($2 == "KiB" || $2 == "MiB") {engine[$1 * ($2 == "MiB" ? 1048576 : 1024)] = $3}
    /GB\/s$/ && $2 == "read" {
        if (!($1 in seen)) {seen[$1] = 1; sizes[++of_sizes] = $1}
        n[$1]++
        for (i = 2; i < NF; i += 2) {
            value[$1, $i, n[$1]] = $(i + 1)
            if ($1 in engine) {ratio[$1, $i, n[$1]] = $(i + 1) / engine[$1]; raw[$1, n[$1]] = engine[$1]}
        }
    }
    $1 == "right" {in_write = 0; right++}
    function median(of, name, count,   i, j, sorted, t) {
        for (i = 1; i <= count; i++) sorted[i] = of[name, i]
        for (i = 2; i <= count; i++) for (j = i; j > 1 && sorted[j] < sorted[j - 1]; j--) {t = sorted[j]; sorted[j] = sorted[j - 1]; sorted[j - 1] = t}
        return sorted[int((count + 1) / 2)]
    }
    END {
        if (!right) {print "no round was right"; exit 1}
        split("read write get put store", names, " ")
        printf "bulk, GB/s, %d rounds%s", right, "\n  bytes"
        for (i = 1; i <= 5; i++) printf "%8s", names[i]
        print "   RDMA write of the engine, and in parts of it"
        for (s = 1; s <= of_sizes; s++) {
            size = sizes[s]
            printf "%7d", size
            for (i = 1; i <= 5; i++) printf "%8.2f", median(value, size SUBSEP names[i], n[size])
            if (size in engine) {
                printf "   %.2f:", median(raw, size, n[size])
                for (i = 1; i <= 5; i++) printf " %.2f", median(ratio, size SUBSEP names[i], n[size])
            }
            print ""
        }
    }'
