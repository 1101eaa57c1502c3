#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Remote operations by Active Messages (remote.c) on 2 and 4 processes: over shared memory, over
# UDP, and over UDP that loses, repeats and reorders packets.
#   tests/am/remote.sh BELLWIRE OUT              BELLWIRE: the command; OUT: as the Makefile's
#   tests/am/remote.sh BELLWIRE OUT --beside BUSY [OPERATIONS]
# With --beside, BUSY processes compute beside two that communicate; a table says where the time
# of an operation goes.
set -u
[ $# -ge 2 ] || { sed -n '5,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
bellwire=$(realpath "$1") out=$(realpath "$2")
cd "$out" || exit 1
udp='BELLWIRE_SHM=off BELLWIRE_UDP=on'
faults='BELLWIRE_FAULTS=loss=0.02,dup=0.02,reorder=0.02:300us,seed=7'
# Packets are lost in rows of five, too, and overtaken by all that leaves within a millisecond.
harsh='BELLWIRE_FAULTS=loss=0.05,burst=0.01:0.2,dup=0.1,reorder=0.1:1ms,seed=11'
# Long enough for a busy machine: a run takes a second on a quiet one.
patience=300

busy=()
stop() { [ ${#busy[@]} = 0 ] || kill "${busy[@]}"; busy=(); }
trap stop EXIT
compute() { # how many processes
    for _ in $(seq "$1"); do
        (while :; do :; done) &
        busy+=($!)
    done
}
if [ "${3:-}" = --beside ]; then
    operations=${5:-20}
    compute "$4"
    for way in '' "$udp" "$udp $faults"; do
        for how in times wait; do
            echo "== ${way:-shared memory}, $([ $how = wait ] && echo asleep in AM_WaitSema || echo polling)"
            # shellcheck disable=SC2086
            timeout -k 5 3000 env $way "$bellwire" run -n 2 ./remote "$operations" $how || exit 1
        done
    done
    exit 0
fi

passed=0 failed=0
check() { # processes, operations, how, environment
    # shellcheck disable=SC2086
    if timeout -k 5 $patience env $4 "$bellwire" run -n "$1" ./remote "$2" $3 >remote.log 2>&1 && grep -q '^remote: all well' remote.log; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED remote on $1 processes $3 $4"
        tail -n 20 remote.log
    fi
}
for way in '' "$udp" "$udp $faults"; do
    for processes in 2 4; do
        check $processes 100 '' "$way"
        check $processes 100 wait "$way"
    done
done
check 4 100 '' "$udp $harsh"
check 4 100 wait "$udp $harsh"
# Where others compute, polls sleep until something comes.
compute $((3 * $(nproc)))
check 2 100 crowded ''
check 2 100 crowded "$udp"
stop
echo "$passed passed, $failed failed"
[ $failed = 0 ]
