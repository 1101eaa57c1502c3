# SPDX-License-Identifier: MIT OR Apache-2.0
# Sourced by run.sh: one process of four is killed at a random point, over shared memory and by
# packets, or in the ways that the caller names. The job ends soon, not well, with a word of who it
# was; nothing of it stays.
cat > "$work/endless.sc" <<'PROGRAM'
#include <split-c/split-c.h>
long words[4096], from[4096];
splitc_main() {
    int round, i, next = (MYPROC + 1) % PROCS;
    for (round = 0; round < 100000000; round++) {
        long *global there = toglobal(next, words);
        for (i = 0; i < 64; i++) from[i] := there[i];
        for (i = 64; i < 128; i++) there[i] := from[i];
        for (i = 128; i < 192; i++) there[i] :- from[i];
        sync();
        bulk_write(there, from, sizeof from);
        from[0] += *there;
        if (round % 4 == 0) all_store_sync();
        barrier();
    }
    return 0;
}
PROGRAM
"$splitcc" -w -O2 "$work/endless.sc" -o "$work/endless" > "$work/log" 2>&1
result "killed: compile" $? "$work/log"
RANDOM=$$
[ -n "${kill_ways:-}" ] || kill_ways=(BELLWIRE_SHM=on BELLWIRE_SHM=off)
for way in "${kill_ways[@]}"; do
    for round in 1 2 3; do
        ls /dev/shm > "$work/shm"
        # shellcheck disable=SC2086
        env $way timeout -s KILL 60 "$bellwire" run -n 4 "$work/endless" > "$work/log" 2>&1 &
        job=$!
        sleep "$((RANDOM % 2)).$((100 + RANDOM % 900))"
        mapfile -t victims < <(pgrep -f "^$work/endless")
        [ ${#victims[@]} = 4 ] && kill -9 "${victims[RANDOM % 4]}"
        began=$SECONDS
        wait $job
        status=$?
        took=$((SECONDS - began))
        {
            echo "status $status after $took s, ${#victims[@]} processes; still there: $(pgrep -f "^$work/endless" | tr '\n' ' ')"
            ls /dev/shm | diff "$work/shm" - | grep '^> .*bellwire'
        } >> "$work/log"
        [ $status != 0 ] && [ $took -lt 20 ] && [ ${#victims[@]} = 4 ] && grep -qi 'rank [0-3]' "$work/log" && ! pgrep -f "^$work/endless" > /dev/null && ! grep -q '^> ' "$work/log"
        result "killed at a random point, $way, $round" $? "$work/log"
    done
done
