#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# sisci-hosts.sh TESTS EXAMPLES LIBDIR: SISCI between two hosts (two-hosts.sh), by the programs of
# tests/sisci and examples/sisci. KILLS: peers that are killed at a random moment.
tests=$(cd "$1" && pwd) programs=$(cd "$2" && pwd) || exit 1
. "$(dirname "$0")/two-hosts.sh" "$1" "$3"
export BELLWIRE_SISCI_NODES=4=$here,8=$there
fixed="loss=0.05,dup=0.05,reorder=0.05:300us"

# A test of two programs: NAME OWNER-ARGUMENTS USER-ARGUMENTS [PROGRAM]
pair() {
    rm -f "$log"/*
    on "$a" timeout 100 "$tests/${4:-hosts}" $2 >"$log/owner" 2>&1 &
    local owner=$!
    on "$b" timeout 100 "$tests/${4:-hosts}" $3 >"$log/user" 2>&1
    local user=$?
    # Nothing to test here.
    if [ $user -eq 77 ]; then kill $owner; tail -n 1 "$log/user"; return; fi
    if wait $owner && [ $user -eq 0 ]; then ok "$1 ($(tail -n 1 "$log/user"))"; else bad "$1: user $user"; fi
}
pair "transfers, maps, interrupts" "owner 8" "user 4"
BELLWIRE_FAULTS=$fixed,seed=$$ pair "the same, packets lost, doubled, overtaken (seed $$)" "owner 8" "user 4"

pair "stores that interrupt" "owner 8" "user 4" flags
BELLWIRE_FAULTS=$fixed,seed=$$ pair "the same, packets lost, doubled, overtaken (seed $$)" "owner 8" "user 4" flags

BELLWIRE_SISCI=stores=compare pair "maps that are compared" "owner 8" "user 4"
BELLWIRE_SISCI=loads=2000 pair "loads that are kept fresh" "owner 8" "user 4"

# Addresses alone, without a table: the last 16 bits.
unset BELLWIRE_SISCI_NODES
pair "derived nodes" "owner $((0x0002))" "user $((0x0001))"
export BELLWIRE_SISCI_NODES=4=$here,8=$there

# The examples.
example() { # NAME PROGRAM
    rm -f "$log"/*
    on "$a" timeout 60 "$programs/$2" 0 8 300 >"$log/one" 2>&1 &
    local one=$!
    on "$b" timeout 60 "$programs/$2" 1 4 300 >"$log/two" 2>&1
    local two=$?
    if wait $one && [ $two -eq 0 ]; then ok "example $2"; else bad "example $2: $two"; fi
}
for program in ping_pong double_buffer interrupt; do example "$program" $program; done

# The owner is killed, or the cable is out: the user is told, and connects to the next owner.
for event in kill cable; do
    rm -f "$log"/*
    on "$a" "$tests/hosts" owner >"$log/owner" 2>&1 &
    on "$b" timeout 100 "$tests/hosts" waiter 4 >"$log/waiter" 2>&1 &
    waiter=$!
    for _ in $(seq 600); do grep -q ready "$log/waiter" && break; sleep 0.1; done
    if [ $event = cable ]; then
        ip -n "$a" link set eth0 down
        for _ in $(seq 600); do grep -q lost "$log/waiter" && break; sleep 0.1; done
    fi
    ip netns pids "$a" | xargs -r kill -9
    # Not before: the user would find the owner that is about to be killed.
    ip -n "$a" link set eth0 up
    on "$a" "$tests/hosts" owner >>"$log/owner" 2>&1 &
    if wait $waiter; then ok "$event: $(grep lost "$log/waiter"), connected again"; else bad "$event"; fi
    ip netns pids "$a" | xargs -r kill -9
    wait 2>/dev/null
done

# Users and owners are killed at random moments; the others go on, and a sound pair still works.
rm -f "$log"/*
as() { # as on, in place of this shell: its process is the program
    exec ip netns exec "$1" env BELLWIRE_ADDRESS="${address[$1]}" "${@:2}"
}
as "$a" "$tests/hosts" owner >"$log/owner" 2>&1 &
owner=$!
as "$b" "$tests/hosts" worker 4 >"$log/steady" 2>&1 &
kills=${KILLS:-10}
for n in $(seq "$kills"); do
    as "$b" "$tests/hosts" worker 4 >"$log/worker" 2>&1 &
    worker=$!
    sleep "0.$((RANDOM % 4))$((RANDOM % 10))"
    # The program, not the commands around it, which may be there still.
    if [ $((n % 2)) -eq 0 ]; then
        kill -9 $owner
        wait $owner 2>/dev/null
        as "$a" "$tests/hosts" owner >>"$log/owner" 2>&1 &
        owner=$!
    fi
    kill -9 $worker
    wait $worker 2>/dev/null
done
on "$b" timeout 60 "$tests/hosts" worker 4 5 >"$log/last" 2>&1
if [ $? -eq 0 ] && kill -0 $owner && ! grep -q failed: "$log/steady" "$log/owner"; then ok "$kills peers killed"; else bad "$kills peers killed"; fi
ip netns pids "$a" | xargs -r kill -9
ip netns pids "$b" | xargs -r kill -9

echo "$passed passed, $failed failed"
exit $failed
