#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# perftest's figures beside the engine's own, by turns, on this host:
#   scripts/verbs-figures.sh BELLWIRE LIBRARY [rounds] [udp]
# BELLWIRE is the command, LIBRARY libbellwire-verbs.so. Each program of a pair has a processor of its own. Prints a line per operation: medians, their ratio, the goal; all samples, and how many were taken while the machine was fast (the median is of those).
# With "udp" both go by packets over the loopback interface, as between hosts.
set -u
bellwire=$1 library=$2 rounds=${3:-5} wire=${4:-shm}
for program in ib_write_lat ib_write_bw taskset; do
    command -v $program >/dev/null 2>&1 || {
        echo "SKIPPED verbs figures: no $program"
        exit 0
    }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
port=$((20000 + $$ % 20000))
# The two first processors that we may use.
read -r first second < <(taskset -pc $$ | sed 's/.*: //' | tr ',' '\n' | awk -F- '{for (i = $1; i <= ($2 == "" ? $1 : $2); i++) printf "%d ", i} END {print ""}')
second=${second%% *}

# The environment of perftest.
settings=(LD_PRELOAD="$library")
[ "$wire" = udp ] && settings+=(BELLWIRE_SHM=off BELLWIRE_UDP=on)

listens() {
    local hex
    hex=$(printf ':%04X ' "$1")
    for _ in $(seq 200); do
        awk -v p="$hex" '$4 == "0A" && index($2 " ", p) {found = 1} END {exit !found}' /proc/net/tcp /proc/net/tcp6 2>/dev/null && return
        sleep 0.02
    done
}
# A program of perftest: the client's last line of figures, its column.
perftest() { # column program arguments
    local column=$1
    shift
    port=$((port + 1))
    env "${settings[@]}" timeout 60 taskset -c "$first" "$1" -p $port "${@:2}" >/dev/null 2>&1 &
    listens $port
    env "${settings[@]}" timeout 60 taskset -c "$second" "$1" -p $port "${@:2}" 127.0.0.1 >"$work/client" 2>&1
    wait $!
    awk -v c="$column" '$1 ~ /^[0-9]+$/ && NF >= 4 {figure = $c} END {print figure == "" ? "nan" : figure}' "$work/client"
}
# The engine's own, of a run of `bellwire perf`: the figure in the first column of the line that begins with a size, under a title.
engine() { # title, size
    awk -v title="$1" -v size="$2" 'index($0, title) == 1 {inside = 1; next} /^$/ {inside = 0} inside && index($0, "  " size " ") == 1 {sub("^  " size " +", ""); print $1; exit}' "$work/perf"
}
# Of the latencies of one kind those of the machine's faster speed, as `bellwire perf` has it: lines between two processors take three times as long at other times.
near() { sort -g | awk 'NR == 1 {most = 1.7 * $1} $1 <= most'; }
median() { tr ' ' '\n' | grep -v '^$' | sort -g | awk '{v[NR] = $1} END {print NR ? v[int((NR + 1) / 2)] : "nan"}'; }

note() { # name, figure
    echo "$2" >>"$work/$1"
}
# Column 5 is the median, us; for bandwidth column 4 the mean, MB/s (of 2^20 bytes).
latency() { perftest 5 "$@" | awk '{print $1 * 1000}'; }
bandwidth() { perftest 4 "$@" | awk '{print $1 * 1.048576 / 1000}'; }
within_host() {
    "$bellwire" perf --quick --only lat,write,read --rounds 1 --cpus "$first,$second" >"$work/perf" 2>/dev/null
    note send-engine "$(engine 'Latency: half round trip' '8 B')"
    note write-engine "$(engine 'RDMA write: half round trip' '8 B')"
    note read-engine "$(engine 'RDMA read: time of one read' '8 B')"
    note write-bw-engine "$(engine 'RDMA write: bandwidth' '64 KiB')"
    note send-program "$(latency ib_send_lat -s 8 -n 50000)"
    note write-program "$(latency ib_write_lat -s 8 -n 50000)"
    note read-program "$(latency ib_read_lat -s 8 -n 50000)"
    note atomic-program "$(latency ib_atomic_lat -n 20000)"
    note write-bw-program "$(bandwidth ib_write_bw -s 65536 -n 200000)"
}
by_packets() {
    "$bellwire" perf --wire udp --quick --only lat,bw,write --rounds 1 --cpus "$first,$second" >"$work/perf" 2>/dev/null
    note send-engine "$(engine 'Latency: half round trip' '8 B')"
    note write-engine "$(engine 'RDMA write: half round trip' '8 B')"
    note send-bw-engine "$(engine 'Bandwidth, one way' '64 KiB')"
    note write-bw-engine "$(engine 'RDMA write: bandwidth' '64 KiB')"
    note send-program "$(latency ib_send_lat -s 8 -n 20000)"
    note write-program "$(latency ib_write_lat -s 8 -n 20000)"
    note read-program "$(latency ib_read_lat -s 8 -n 10000)"
    note atomic-program "$(latency ib_atomic_lat -n 10000)"
    note send-bw-program "$(bandwidth ib_send_bw -s 65536 -n 10000)"
    note write-bw-program "$(bandwidth ib_write_bw -s 65536 -n 10000)"
    note read-bw-program "$(bandwidth ib_read_bw -s 65536 -n 10000)"
}
for _ in $(seq "$rounds"); do
    if [ "$wire" = udp ]; then by_packets; else within_host; fi
done
line() { # what, name, unit, goal
    local engine program only=cat
    case $wire-$3 in shm-ns) only=near ;; esac
    program=$($only <"$work/$2-program" | median)
    engine=$([ -e "$work/$2-engine" ] && $only <"$work/$2-engine" | median || echo -)
    printf '%-24s %10s %10s %-5s' "$1" "$program" "$engine" "$3"
    if [ "$engine" = - ]; then printf '%17s' ''; else awk -v p="$program" -v e="$engine" -v g="$4" 'BEGIN {printf " ratio %5.2f  %s", (e > 0 ? p / e : 0), g}'; fi
    echo "  [$(tr '\n' ' ' <"$work/$2-program")] near $($only <"$work/$2-program" | wc -l)/$rounds"
}
printf '%-24s %10s %10s\n' '' perftest engine
if [ "$wire" = udp ]; then
    line 'send, 8 B, half way' send ns 'goal 1.2'
    line 'write, 8 B, half way' write ns 'goal 1.2'
    line 'read, 8 B' read ns ''
    line 'fetch and add' atomic ns ''
    line 'send, 64 KiB' send-bw GB/s 'goal 0.83'
    line 'write, 64 KiB' write-bw GB/s 'goal 0.83'
    line 'read, 64 KiB' read-bw GB/s ''
else
    line 'send, 8 B, half way' send ns 'goal 1.5'
    line 'write, 8 B, half way' write ns 'goal 1.5'
    line 'read, 8 B' read ns 'goal 1.5'
    line 'fetch and add' atomic ns ''
    line 'write, 64 KiB' write-bw GB/s 'goal 0.9'
fi
