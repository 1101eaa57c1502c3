#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Global memory by packets against the engine below it, by turns, over UDP and loopback: pipelined gets, puts and stores of a word against the engine's rate of messages of 8 bytes, a read alone against its round
# trip (twice the median half round trip of single messages). Medians of the rounds, and of the ratios within each.
#   gas-packets.sh EXAMPLES BELLWIRE [ROUNDS]      EXAMPLES: the built examples of Split-C (`pipelined`)
set -eu
examples=$(cd "$1" && pwd) bellwire=$2 rounds=${3:-5}
for ((round = 1; round <= rounds; round++)); do
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
