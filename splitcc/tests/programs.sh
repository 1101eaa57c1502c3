# SPDX-License-Identifier: MIT OR Apache-2.0
# Sourced by run.sh: the programs of run/ on 1, 2 and 4 processes over shared memory, on 2 and 3 by packets.
for source in "$here"/run/*.sc; do
    name=$(basename "$source" .sc)
    for flags in -O0 "-O2 -g" "-O1 -fsplitc-check"; do
        # shellcheck disable=SC2086
        if ! "$splitcc" $flags -w "$source" -o "$work/$name" > "$work/log" 2>&1; then
            result "$name: compile $flags" 1 "$work/log"
            continue
        fi
        for n in 1 2 4; do
            timeout -s KILL 60 "$bellwire" run -n $n "$work/$name" > "$work/log" 2>&1 && grep -q ", 0 failed" "$work/log"
            result "$name $flags on $n" $? "$work/log"
        done
        [ "$flags" = -O0 ] && continue
        # As if each process were on a host of its own; then with packets lost, doubled and overtaken.
        BELLWIRE_SHM=off timeout -s KILL 60 "$bellwire" run -n 3 "$work/$name" > "$work/log" 2>&1 && grep -q ", 0 failed" "$work/log"
        result "$name $flags on 3 by packets" $? "$work/log"
        BELLWIRE_SHM=off BELLWIRE_FAULTS=$faults timeout -s KILL 60 "$bellwire" run -n 2 "$work/$name" > "$work/log" 2>&1 && grep -q ", 0 failed" "$work/log"
        result "$name $flags on 2 by packets with $faults" $? "$work/log"
    done
done
