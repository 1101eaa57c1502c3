#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Random Split-C programs against a sequential interpreter of their meaning (cargo xtask split-c): at -O0, -O2 and with checks, over shared memory, by packets, by packets of which some are lost, and by VIs of libvipl (BELLWIRE_GAS).
# FIRST_ONLY=1 ends with the first that fails; LIMIT is a run's time in seconds.
#   random.sh XTASK BUILD BELLWIRE FOLDER FIRST COUNT [PROCESSES..]      XTASK: the program; BUILD: what make has made; FOLDER is written to
set -u
xtask=$1 splitcc=$2/bin/splitcc bellwire=$3 folder=$4 first=$5 count=$6
shift 6
[ $# = 0 ] && set -- 3
mkdir -p "$folder"
vipl=$(dirname "$(realpath "$(command -v "$bellwire")")")/libvipl.so
[ -e "$vipl" ] && export BELLWIRE_VIPL=${BELLWIRE_VIPL:-$vipl}
passed=0 failed=0
faults=loss=0.05,dup=0.05,reorder=0.05:300us,seed=$$
one() { # seed, processes, flags, way
    local program=$folder/$1 environment=(BELLWIRE_SHM=on)
    case $4 in
    packets) environment=(BELLWIRE_SHM=off) ;;
    lossy) environment=(BELLWIRE_SHM=off "BELLWIRE_FAULTS=$faults") ;;
    vi?) environment=("BELLWIRE_GAS=$4") ;;
    vi?-lossy) environment=("BELLWIRE_GAS=${4%-lossy}" BELLWIRE_SHM=off BELLWIRE_UDP=on "BELLWIRE_FAULTS=$faults") ;;
    esac
    if env "${environment[@]}" timeout -s KILL "${LIMIT:-120}" "$bellwire" run -n "$2" "$program.bin" > "$program.log" 2>&1 && LC_ALL=C sort "$program.log" | cmp -s - "$program.expected.$2"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED program $1 $3 on $2, $4: first lines that differ (process, phase, array, sum)"
        LC_ALL=C sort "$program.log" | diff - "$program.expected.$2" | head -n 4
        [ -n "${FIRST_ONLY:-}" ] && exit 1
    fi
}
for n in "$@"; do "$xtask" split-c "$folder" "$first" "$count" "$n" > "$folder/log" || { cat "$folder/log"; exit 1; }; done
for seed in $(seq "$first" $((first + count - 1))); do
    flags=("-O2" "-O0" "-O1 -fsplitc-check")
    flags=${flags[seed % 3]}
    # shellcheck disable=SC2086
    if ! "$splitcc" $flags -w "$folder/$seed.sc" -o "$folder/$seed.bin" > "$folder/$seed.log" 2>&1; then
        failed=$((failed + 1))
        echo "FAILED program $seed: compile $flags"
        head -n 5 "$folder/$seed.log"
        continue
    fi
    for n in "$@"; do
        one "$seed" "$n" "$flags" memory
        one "$seed" "$n" "$flags" packets
        [ $((seed % 4)) = 0 ] && one "$seed" "$n" "$flags" lossy
        one "$seed" "$n" "$flags" vi$((seed % 2 + 1))
        [ $((seed % 4)) -ge 2 ] && one "$seed" "$n" "$flags" vi$((seed % 2 + 1))-lossy
    done
    [ $failed = 0 ] && rm -f "$folder/$seed".*
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
