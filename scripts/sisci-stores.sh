#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# sisci-stores.sh TESTS LIBDIR [UNIT]: what a store through a map of another host costs, by the
# size of the map and by how stores are found: system calls for each store that leaves with a
# flush, or by itself (every 5 ms), and the instructions of a look at a page (UNIT: the unit tests
# of bellwire-memory as built by cargo test --release); and the processor time that keeps a map
# fresh (loads=). No other time is measured, so that a busy machine does not matter much.
command -v strace >/dev/null || { echo "SKIPPED stores: no strace"; exit 0; }
tests=$(cd "$1" && pwd) unit=${3:-} || exit 1
. "$(dirname "$0")/two-hosts.sh" "$1" "$2"
export BELLWIRE_SISCI_NODES=4=$here,8=$there
on "$a" "$tests/hosts" owner >"$log/owner" 2>&1 &

# System calls of so many rounds: of each kind that is asked for, one number.
calls() { # FINDING BYTES ROUNDS HOW
    on "$b" env BELLWIRE_SISCI="stores=$1" strace -f -c -U calls,name -o "$log/calls" "$tests/hosts" stores 4 "$2" "$3" "$4" >"$log/user" 2>&1 || bad "stores: $*"
    for kind in ioctl clock_nanosleep futex read; do
        awk -v kind=$kind '$2 == kind { n = $1 } END { print n + 0 }' "$log/calls"
    done
}

rounds=200
printf '%-8s %-9s %-6s %8s %8s %8s %8s\n' found "map, KiB" leaves ioctl sleep futex read
for bytes in 65536 1048576; do
    for finding in pages compare; do
        for how in flush self; do
            mapfile -t base < <(calls $finding $bytes 1 $how)
            mapfile -t all < <(calls $finding $bytes $((rounds + 1)) $how)
            printf '%-8s %-9s %-6s' $finding $((bytes / 1024)) $how
            # The program's own sleep is not counted.
            own=$([ $how = self ] && echo 1 || echo 0)
            for i in 0 1 2 3; do
                awk -v a="${base[i]}" -v b="${all[i]}" -v n=$rounds -v own=$((i == 1 ? own : 0)) 'BEGIN { printf " %8.2f", (b - a) / n - own }'
            done
            echo
        done
    done
done
# Maps that are kept fresh: page by page when they are touched, or as a whole.
printf '\n%-8s %-9s %-6s %s\n' loads "map, KiB" "" "processor time, ms a second"
for bytes in 65536 1048576; do
    for way in touched:loads=2000 whole:loads=2000,stores=compare; do
        for how in idle polls; do
            printf '%-8s %-9s %-6s ' "${way%%:*}" $((bytes / 1024)) $how
            on "$b" env BELLWIRE_SISCI="${way#*:}" "$tests/hosts" loads 4 $bytes $how || bad "loads: $way $how"
        done
    done
done
if [ -n "$unit" ] && command -v valgrind >/dev/null; then
    valgrind --tool=callgrind --callgrind-out-file="$log/cost" --toggle-collect='*refresh*cost*' "$unit" --ignored --exact refresh::tests::cost >"$log/cost.log" 2>&1
    awk '/^summary:|^totals:/ { n = $2 } END { printf "instructions of a look at a page: %d\n", n / 1000 }' "$log/cost"
fi
ip netns pids "$a" | xargs -r kill -9
exit $failed
