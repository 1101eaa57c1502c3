#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Global memory between two hosts (two-hosts.sh): Split-C programs whose processes share memory within a host and talk by packets between hosts; over IPv4 and IPv6, with packets lost, doubled and
# overtaken, and with a process killed in mid-run. `hosts-gas.sh DIR LIBDIR BELLWIRE [long]`: DIR holds the built examples of Split-C and, in tests/, the built programs of splitcc/tests/run.
bellwire=$3 size=${4:-short}
source "$(dirname "$0")/two-hosts.sh"
command -v setsid >/dev/null || skip "no setsid"
faults=loss=0.05,dup=0.05,reorder=0.05:300us,seed=$$

source "$(dirname "$0")/jobs-on-hosts.sh"
programs() { # title, processes, program..
    local title=$1 n=$2 wrong=
    shift 2
    rm -f "$log"/*
    for program in "$@"; do
        job "$n" "$examples/$program" >"$log/${program//\//-}" 2>&1 || wrong=1
        grep -qE 'right$| 0 failed$' "$log/${program//\//-}" || wrong=1
        [ -z "$wrong" ] && rm -f "$log/${program//\//-}"
    done
    if [ -z "$wrong" ]; then ok "$title, $n processes"; else bad "$title, $n processes"; fi
}
all=(em3d cannon sample radix lu fft components)
tests=()
for program in "$examples"/tests/*; do tests+=("tests/$(basename "$program")"); done

if [ "$size" = long ]; then
    for n in 2 3 4 8 16; do programs "all examples" $n "${all[@]}"; done
    for n in 2 3 4; do programs "the tests of the language" $n "${tests[@]}"; done
    BELLWIRE_FAULTS=$faults programs "all examples, packets lost, doubled, overtaken (seed $$)" 4 "${all[@]}"
    BELLWIRE_FAULTS=$faults programs "the tests of the language, packets lost, doubled, overtaken (seed $$)" 3 "${tests[@]}"
    BELLWIRE_SHM=off programs "all examples, memory shared by nobody" 4 "${all[@]}"
else
    programs "some examples" 4 em3d sample
    programs "the tests of the language" 3 "${tests[@]}"
    BELLWIRE_FAULTS=$faults programs "packets lost, doubled, overtaken (seed $$)" 2 sample tests/scalars
fi
address[$a]=$here6 address[$b]=$there6
programs "IPv6" 2 em3d tests/together
address[$a]=eth0 address[$b]=eth0

# One of four is killed: the job ends soon, with a status and a word of who it was.
rm -f "$log"/*
job 4 "$examples/em3d" simple 20000 8 50 1000 >"$log/killed" 2>&1 &
running=$!
sleep 2
victim=$(pgrep -n -f "^$examples/em3d simple 20000") && kill -9 "$victim"
began=$SECONDS
wait $running
status=$?
if [ -n "$victim" ] && [ $status != 0 ] && [ $((SECONDS - began)) -lt 60 ] && grep -qi 'process [0-9]' "$log/killed"; then
    ok "a killed process ends the job ($(grep -im 1 'process [0-9]' "$log/killed"))"
else
    bad "a killed process ends the job (status $status)"
fi
echo "all of global memory between hosts: $passed"
exit $failed
