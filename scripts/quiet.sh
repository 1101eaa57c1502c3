#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# With the peer awake, messages of up to 4 KiB make no system call: strace counts all calls of a ping-pong between two processes, short and long. The
# difference belongs to the messages. (Allocations: crates/via/tests/zero_alloc.rs.)
#   scripts/quiet.sh TARGET_DIR      needs strace, and examples/c built in TARGET_DIR/examples-c
# Polls that find nothing let others run now and then (sched_yield). Under strace there always are others, so that call is left alone by strace (a seccomp
# filter) and counted by a library of our own put before the C library, which also keeps the two processes apart.
set -u
target=$1
program=$target/examples-c/pingpong
export LD_LIBRARY_PATH=$target/tests-c/lib:$target/release${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
passed=0 failed=0
# Prints the number of system calls of a run.
calls() { # size rounds
    strace -f --seccomp-bpf -e 'trace=!sched_yield' -E LD_PRELOAD="$apart" -c -o "$target/quiet.txt" "$program" --poll --size "$1" --count "$2" >/dev/null 2>&1 || return 1
    # "% time, seconds, usecs/call, calls, [errors,] total"
    awk '$NF == "total" {print $4; found = 1} END {exit !found}' "$target/quiet.txt"
}
# Counts a result: well if the number is below the limit.
judge() { # number limit text
    if [ "$1" -lt "$2" ]; then
        echo "ok: $3"
        passed=$((passed + 1))
    else
        echo "FAILED: $3"
        failed=$((failed + 1))
    fi
}
apart=$target/apart.so
cc -D_GNU_SOURCE -O1 -shared -fPIC -o "$apart" tests/c/apart.c -ldl || exit 1
# Whether more threads want to run than there are processors: then letting others run is what it is
# for.
crowded() { awk -v most="$(nproc)" '$1 == "procs_running" {found = $2 > most} END {exit !found}' /proc/stat; }
for size in 1 56 4096; do
    count='' alone=no
    # The least of several, with time between them: where others want a processor, letting them run
    # is what it is for.
    for pause in 0 0 0 1 1 2 2 4 4 8; do
        sleep "$pause"
        crowd=no
        crowded && crowd=yes
        n=$(LD_PRELOAD=$apart "$program" --poll --size $size --count 22000 2>&1 >/dev/null | awk '/^yields/ {n += $2} END {print n + 0}')
        [ -z "$count" ] || [ "$n" -lt "$count" ] && count=$n
        [ "$count" -lt 440 ] && break
        [ $crowd = no ] && ! crowded && alone=yes
    done
    if [ "$count" -ge 440 ] && [ $alone = no ]; then
        echo "SKIPPED: $size bytes: $count times another was let run: there were others each time"
        continue
    fi
    # Of both processes, connecting included; one in a hundred messages would be 440.
    judge "$count" 440 "$size bytes: $count times another was let run, 44000 messages"
done
for size in 1 56 4096; do
    few=$(calls $size 2000) && began=$(date +%s%N) && many=$(calls $size 22000) || { echo "FAILED: $program --size $size"; failed=$((failed + 1)); continue; }
    # The helper threads look now and then: some calls for each tenth of a second, however long a
    # busy machine takes.
    limit=$((400 + ($(date +%s%N) - began) / 10000000))
    # The least of several: strace and whatever else runs here want a processor, too.
    for pause in 0 0 0 1 1 2 2 4 4 8; do
        sleep "$pause"
        [ $((many - few)) -lt $limit ] && break
        n=$(calls $size 22000) && [ "$n" -lt "$many" ] && many=$n
    done
    # 40000 messages more.
    judge $((many - few)) $limit "$size bytes: $few calls for 4000 messages, $many for 44000"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
