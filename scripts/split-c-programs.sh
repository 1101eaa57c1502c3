#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Split-C programs of the 1990s, written by others and not part of this tree: image processing (github.com/Bader-Research/ImageU, 25,000 lines) and sorting (github.com/Bader-Research/PSort, 8,000 lines).
# Compiles them as they are, and runs them on 1, 2, 4 and 8 processes over shared memory, by packets, and by packets of which some are lost: what they print, times aside, has to be the same each time,
# and they check themselves.
#   split-c-programs.sh SPLITCC BELLWIRE IMAGEU PSORT         the compiler, the launcher, the two trees
set -u
splitcc=$1 bellwire=$2 image=$(cd "$3" && pwd) sort=$(cd "$4" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
faults=loss=0.02,dup=0.02,reorder=0.02:300us,seed=$$

result() { # name, status, file with output
    if [ "$2" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAILED $1" && head -n 12 "$3" | sed 's/^/    /'; fi
}
compile() { # name, sources..: with the constants of a machine that has no library beside Split-C's
    local name=$1
    shift
    "$splitcc" -O2 -w -DMEIKO "$@" -o "$work/$name" -lm >"$work/log" 2>&1
    result "compile $name" $? "$work/log"
}
run() { # smallest number of processes, program, arguments..
    local least=$1 n way environment
    shift
    for n in 1 2 4 8; do
        [ $n -lt "$least" ] && continue
        rm -f "$work"/said.*
        for way in memory packets lossy; do
            environment=(BELLWIRE_SHM=on)
            [ $way != memory ] && environment=(BELLWIRE_SHM=off)
            [ $way = lossy ] && environment+=("BELLWIRE_FAULTS=$faults")
            (cd "$image" && exec env "${environment[@]}" timeout -s KILL 300 "$bellwire" run -n $n "$work/$@") >"$work/log" 2>&1
            local status=$?
            sed -E 's/[0-9]+\.[0-9]+(e[-+][0-9]+)?/TIME/g; s/^-+$//' "$work/log" >"$work/said.$way"
            [ $status = 0 ] && ! grep -qi 'error' "$work/log" && [ -s "$work/log" ] && cmp -s "$work/said.memory" "$work/said.$way"
            result "$* on $n, $way" $? "$work/log"
        done
    done
}

mapfile -t sources < <(ls "$image"/*.sc | grep -v com_ccl)
compile images "${sources[@]}"
for program in ran_i_sort ran_d_sort reg_i_sort reg_d_sort; do compile $program "$sort/$program"/*.sc; done
cat "$image"/*.sc "$image"/*.h "$sort"/*/*.sc "$sort"/*/*.h | wc -l | sed 's/$/ lines of source/'
run 1 images -n 128 -k 16 -i 3 -h -v
run 1 images -n 128 -k 2 -i 6 -b -B
run 1 images -n 128 -k 256 -f im/copty.im3.128 -g -G
run 1 images -n 128 -k 256 -f im/copty.im3.128 -s
# These want two processes at least.
for program in ran_i_sort ran_d_sort reg_i_sort reg_d_sort; do run 2 $program 65536 1; done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
