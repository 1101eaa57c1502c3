#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Programs of the installed Bellwire by the host's agent, with real processes that are killed:
# check.sh INSTALLED OUT [long]. Shared memory is off, so all goes through the agent. The agent has
# an address of 127.0.0.0/8 of its own, so runs beside each other do not meet.
set -u
installed=$1 out=$2 mode=${3:-short}
root=$(cd "$(dirname "$0")/../.." && pwd)
kills=10
[ "$mode" != long ] || kills=500
mkdir -p "$out"
rm -f "$out/networks.json"
passed=0 failed=0 agent=
# For the programs: the examples find their libraries there.
export LD_LIBRARY_PATH=$installed/lib BELLWIRE_NIC=host BELLWIRE_SHM=off
BELLWIRE_ADDRESS=127.97.$((($$ >> 8) & 255)).$((($$ & 255) | 1))
export BELLWIRE_ADDRESS
unset BELLWIRE_ALLOW BELLWIRE_MODE BELLWIRE_UDP BELLWIRE_FAULTS

cc=${CC:-cc}
for example in am/ask:-lbellwire_am am/all_to_all:-lbellwire_am c/kv_store:-lvipl; do
    source=$root/examples/${example%%:*}.c name=$(basename "${example%%:*}")
    common=
    case $example in c/*) common=$root/examples/c/common.c ;; esac
    # shellcheck disable=SC2086 # no file, or one
    "$cc" -std=c11 -D_GNU_SOURCE -O1 -I"$installed/include" "$source" $common -o "$out/$name" -L"$installed/lib" "${example##*:}" -lpthread || exit 1
done

start_agent() {
    rm -f "$out/agent"
    "$installed/bin/bellwired" --address "$BELLWIRE_ADDRESS" --networks "$out/networks.json" "$@" >"$out/agent" 2>&1 &
    agent=$!
    for _ in $(seq 200); do
        grep -qs serving "$out/agent" && return
        sleep 0.05
    done
    echo "the agent does not start:" && cat "$out/agent"
    exit 1
}
end_agent() { # signal
    [ -z "$agent" ] || { kill "-$1" "$agent" && wait "$agent"; } 2>/dev/null
    agent=
}
trap 'end_agent KILL' EXIT

ok() { passed=$((passed + 1)) && echo "ok: $1"; }
bad() { # what [log ..]
    failed=$((failed + 1))
    echo "FAILED: $1"
    shift
    tail -n 20 "$out/agent" "$@"
}
check() { # name command ..
    local name=$1
    shift
    if timeout 120 "$@" >"$out/log" 2>&1; then ok "$name"; else bad "$name" "$out/log"; fi
}

kv_store() {
    timeout 60 stdbuf -oL "$out/kv_store" server --clients 1 >"$out/server" 2>&1 &
    local server=$!
    until grep -q waiting "$out/server" || ! kill -0 $server; do sleep 0.05; done
    timeout 60 "$out/kv_store" client --operations 300 --name "kv_store@$BELLWIRE_ADDRESS" && wait $server
}
export -f kv_store
export out

start_agent
check "Active Messages" "$root/examples/am/ask.sh" "$out/ask" 1000
check "VIPL" bash -c kv_store
# A pair of a program of others: a server, and the client that is given the agent's address.
pair() { # command ..
    timeout 60 "$@" >"$out/server" 2>&1 &
    local server=$!
    # The server says nothing of being ready: the client comes again while it is not.
    for _ in $(seq 100); do
        if timeout 60 "$@" "$BELLWIRE_ADDRESS"; then
            wait $server
            return
        fi
        kill -0 $server 2>/dev/null || return 1
        sleep 0.1
    done
    return 1
}
export -f pair
have() { command -v "$1" >/dev/null 2>&1 || { echo "SKIPPED $1: not installed"; false; }; }
if have ib_send_lat; then
    port=$((20000 + $$ % 10000))
    for program in "ib_send_lat -n 200" "ib_write_bw -n 100 -s 65536" "ib_read_lat -n 100" "ib_atomic_lat -n 100"; do
        check "libibverbs: $program" env LD_PRELOAD="$installed/lib/bellwire/libbellwire-verbs.so" bash -c "pair $program -p $port"
    done
fi
if have fi_pingpong; then
    check "the provider: fi_pingpong" env FI_PROVIDER_PATH="$installed/lib/bellwire" bash -c "pair fi_pingpong -p bellwire -e rdm -I 500 -S 64"
fi
check "a job of four processes" "$installed/bin/bellwire" run -n 4 "$out/all_to_all" 500
# Virtual networks: programs of one find each other, also by shared memory; others are not found.
vn=("$installed/bin/bellwire" vn --agent "$BELLWIRE_ADDRESS")
network_of() { # server's network, client's network: the client's status
    rm -f "$out/names"
    BELLWIRE_NETWORK=$1 timeout 60 "$out/ask" server >"$out/names" 2>"$out/server" &
    local server=$! status
    until [ -s "$out/names" ] || ! kill -0 $server 2>/dev/null; do sleep 0.02; done
    kill -0 $server || return 0
    BELLWIRE_NETWORK=$2 timeout 60 "$out/ask" client "$(head -n 1 "$out/names")" 100
    status=$?
    kill $server 2>/dev/null
    wait $server
    return $status
}
export -f network_of
printf 'a key of these tests\n' >"$out/key" && chmod 600 "$out/key"
check "a network is made" "${vn[@]}" make physics --key-file "$out/key" --member 4711
check "a network without a key" "${vn[@]}" make chemistry
"${vn[@]}" list >"$out/log" 2>&1
if grep -Eq '^physics +0  yes  4711$' "$out/log" && grep -Eq '^chemistry +0  -    -$' "$out/log" && ! grep -q "a key of" "$out/log"; then ok "vn list"; else bad "vn list" "$out/log"; fi
for shm in off on; do
    check "in one network, shared memory $shm" env BELLWIRE_SHM=$shm bash -c "network_of physics physics && grep -q answers $out/log"
    if BELLWIRE_SHM=$shm network_of physics chemistry >"$out/log" 2>&1; then bad "in different networks, shared memory $shm" "$out/log"; else ok "in different networks, shared memory $shm"; fi
done
if BELLWIRE_NETWORK=history timeout 60 "$out/ask" server >"$out/log" 2>&1 || ! grep -q "no such virtual network" "$out/log"; then bad "a network that is not there" "$out/log"; else ok "a network that is not there"; fi
if BELLWIRE_NIC=own BELLWIRE_NETWORK=physics timeout 60 "$out/ask" server >"$out/log" 2>&1 || ! grep -q "BELLWIRE_NETWORK must be" "$out/log"; then bad "a network without the agent" "$out/log"; else ok "a network without the agent"; fi
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    # Root's agent, and programs of other users. They read their own copies.
    readable=$(mktemp -d) && chmod 755 "$readable" && cp "$out/ask" "$readable/ask" && cp -r "$installed/lib" "$readable/lib"
    cp "$out/key" "$readable/key" && chown 4713 "$readable/key"
    begins() { # uid command ..: whether a server of the user begins
        rm -f "$out/names"
        LD_LIBRARY_PATH=$readable/lib timeout 60 setpriv --reuid "$1" --regid "$1" --clear-groups env BELLWIRE_NETWORK=physics "${@:2}" "$readable/ask" server >"$out/names" 2>"$out/server" &
        local server=$!
        until [ -s "$out/names" ] || ! kill -0 $server 2>/dev/null; do sleep 0.02; done
        kill $server && wait $server
        [ -s "$out/names" ]
    } 2>/dev/null
    if begins 4711; then ok "a member of a network"; else bad "a member of a network" "$out/server"; fi
    if begins 4713 BELLWIRE_NETWORK_KEY_FILE="$readable/key"; then ok "who shows the key of a network"; else bad "who shows the key of a network" "$out/server"; fi
    if begins 4712 || ! grep -q "no member of it" "$out/server"; then bad "who is no member of a network" "$out/server"; else ok "who is no member of a network"; fi
    rm -rf "$readable"
else
    echo "SKIPPED networks of other users: not root, or no setpriv"
fi
check "a network is removed" "${vn[@]}" remove physics
if "${vn[@]}" remove physics >"$out/log" 2>&1 || ! grep -q "no network physics" "$out/log"; then bad "a network that was removed" "$out/log"; else ok "a network that was removed"; fi
"$installed/bin/bellwire" top --once --interval 0.1 --json >"$out/log" 2>&1
if grep -q "\"address\":\"$BELLWIRE_ADDRESS:7120\"" "$out/log"; then ok "bellwire top shows the agent"; else bad "bellwire top shows the agent" "$out/log"; fi
end_agent TERM
if BELLWIRE_SHM=off timeout 60 "$out/ask" server >"$out/log" 2>&1; then
    bad "without an agent there is no NIC" "$out/log"
elif grep -q "start bellwired" "$out/log"; then
    ok "without an agent a program says what to start"
else
    bad "without an agent a program says what to start" "$out/log"
fi
# With fewer frames than programs.
start_agent --frames 2
check "four processes and two frames" "$installed/bin/bellwire" run -n 4 "$out/all_to_all" 200

serve() { # command ..: `ask` as a server, in $server; its name is in $out/names
    rm -f "$out/names"
    "$@" "$out/ask" server >"$out/names" 2>"$out/server" &
    server=$!
    until [ -s "$out/names" ] || ! kill -0 $server 2>/dev/null; do sleep 0.02; done
}

# Waits for a program, for a minute at most; its status.
ends() { # process
    local tries=0
    while kill -0 "$1" 2>/dev/null && [ $((tries += 1)) -lt 1200 ]; do sleep 0.05; done
    if kill -KILL "$1" 2>/dev/null; then wait "$1"; return 124; fi
    wait "$1"
}

# The agent is killed, and another one started, under traffic. No message is lost or comes twice:
# both sides count them, and `ask` compares their bytes.
rounds=2000 killed=0 runs=0 wrong=
while [ $killed -lt "$kills" ]; do
    serve
    "$out/ask" client "$(head -n 1 "$out/names")" $rounds >"$out/log" 2>&1 &
    program=$!
    # Without an agent it would not begin.
    until grep -q bellwire-endpoint /proc/$program/maps 2>/dev/null || ! kill -0 $program 2>/dev/null; do sleep 0.01; done
    while kill -0 $program 2>/dev/null && [ $killed -lt "$kills" ]; do
        sleep "0.$((RANDOM % 3))$((RANDOM % 10))"
        end_agent KILL
        start_agent --frames 2
        killed=$((killed + 1))
    done
    ends $program && ends $server || { wrong=ended && break; }
    grep -qx "$((4 * rounds + 1)) answers" "$out/log" && grep -qx "$((3 * rounds)) requests served" "$out/names" || { wrong=counts && break; }
    runs=$((runs + 1))
done
what="agents killed under the traffic of $runs pairs: $killed"
if [ -z "$wrong" ]; then ok "$what"; else bad "$what: $wrong" "$out/log" "$out/names" "$out/server"; fi

# Programs are killed: a client ends with a reason, a server goes on, and the agent serves the next.
ended=0
for _ in $(seq "$kills"); do
    serve
    "$out/ask" client "$(head -n 1 "$out/names")" 1000000 >"$out/client" 2>&1 &
    client=$!
    sleep "0.$((RANDOM % 2))$((RANDOM % 10))"
    if [ $((RANDOM % 2)) = 0 ]; then
        kill -KILL $server
        wait $server
        ends $client
        [ $? = 1 ] && [ -s "$out/client" ] && ended=$((ended + 1))
    else
        kill -KILL $client
        wait $client
        kill -0 $server && ended=$((ended + 1))
        kill $server
        wait $server
    fi
done 2>/dev/null
if [ $ended = "$kills" ] && kill -0 "$agent"; then ok "programs killed: $ended"; else bad "programs killed: $ended of $kills" "$out/client" "$out/server"; fi
check "after all that" "$root/examples/am/ask.sh" "$out/ask" 1000
end_agent TERM
echo "$passed tests passed, $failed failed"
[ $failed = 0 ]
