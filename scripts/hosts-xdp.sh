#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# hosts-xdp.sh EXAMPLES LIBDIR BELLWIRE [SUITE]: packets between two hosts (two-hosts.sh) past the
# kernel's stack (BELLWIRE_XDP). EXAMPLES holds those of examples/c. SUITE: the program of the
# conformance suite's test `udp`, to run it whole in both modes, over IPv4 and IPv6.
bellwire=$(realpath "$3") || exit 1
suite=${4:+$(realpath "$4")}
. "$(dirname "$0")/two-hosts.sh" "$1" "$2"
cd "$(dirname "$0")/.." || exit 1

# UDP datagrams that the stack of a host has handed on to sockets.
handed_on() { # namespace
    ip netns exec "$1" awk '/^Udp: [0-9]/ {sum += $2} /^Udp6InDatagrams/ {sum += $2} END {print sum}' /proc/net/snmp /proc/net/snmp6
}
attached() { ip -n "$1" -d link show eth0 | grep -q 'prog/xdp'; }
until_true() { # command ..
    for _ in $(seq 300); do "$@" && return; sleep 0.05; done
    return 1
}
serve() { # log, arguments of pingpong ..
    local name=$1
    shift
    on "$a" env "${variables[@]}" timeout 120 "$examples/pingpong" server "$@" >"$log/$name" 2>&1 &
}
variables=()
# A ping-pong from $b to $a: NAME ADDRESS ARGUMENTS ..
pingpong() {
    local what=$1 at=$2
    shift 2
    rm -f "$log"/*
    serve server "$@"
    if on "$b" env "${variables[@]}" timeout 120 "$examples/pingpong" client --name "pingpong@$at" "$@" >"$log/client" 2>&1 && wait $!; then
        ok "$what ($(tail -n 1 "$log/client"))"
        return
    fi
    bad "$what"
    return 1
}
rounds=3000
# The stack has seen less than a tenth of the datagrams that the ping-pong had, or it has seen all.
past_the_stack() { # name, address
    local before after
    before=$(handed_on "$a")
    pingpong "$@" --count $rounds --poll || return
    after=$(handed_on "$a")
    local seen=$((after - before))
    if [[ ${variables[*]} != *XDP=off* ]]; then
        if [ $seen -lt $((rounds / 10)) ]; then ok "past the stack: it has handed on $seen datagrams of $rounds"; else bad "past the stack: $seen datagrams went through it"; fi
    elif [ $seen -ge $rounds ]; then ok "without AF_XDP: $seen"; else bad "without AF_XDP the stack has handed on $seen of $rounds"; fi
}

for mode in off on native; do
    variables=(BELLWIRE_XDP=$mode)
    past_the_stack "$mode, IPv4" "$here"
    declare -A address=([$a]=$here6 [$b]=$there6)
    past_the_stack "$mode, IPv6" "$here6"
    declare -A address=([$a]=eth0 [$b]=eth0)
    pingpong "$mode, 100,000 bytes" "$here" --count 300 --size 100000
    pingpong "$mode, sleeping between packets" "$here" --count 1000
    attached "$a" && bad "$mode: the program is still there"
done

variables=(BELLWIRE_XDP=on)
# One side without it.
rm -f "$log"/*
serve server --count $rounds
if on "$b" timeout 120 "$examples/pingpong" client --name "pingpong@$here" --count $rounds >"$log/client" 2>&1 && wait $!; then ok "one side alone"; else bad "one side alone"; fi

variables=(BELLWIRE_XDP=on BELLWIRE_FAULTS=loss=0.02,dup=0.02,reorder=0.05,seed=$RANDOM)
pingpong "packets lost, doubled, overtaken (${variables[1]})" "$here" --count 1000
pingpong "the same, 100,000 bytes" "$here" --count 30 --size 100000
"$bellwire" key --shared "$log.key" >/dev/null 2>&1
variables=(BELLWIRE_XDP=on BELLWIRE_KEY_FILE="$log.key")
pingpong "with a key" "$here" --count 1000
rm -f "$log.key"

# One process has the interface; a second goes by sockets, and says so.
variables=(BELLWIRE_XDP=on)
rm -f "$log"/*
serve first --count 100000000 --name first
first=$!
until_true attached "$a" || bad "the first server has the interface"
serve second --count 1000 --name second
if on "$b" timeout 60 "$examples/pingpong" client --name "second@$here" --count 1000 >"$log/client" 2>&1 && grep -q 'another process has the interface' "$log/second"; then
    ok "the second process: $(head -n 1 "$log/second")"
else
    bad "the second process"
fi
# A process that is killed leaves nothing behind, and the next one has the interface.
kill -9 "$(ip netns pids "$a" | head -n 1)" 2>/dev/null
ip netns pids "$a" | xargs -r kill -9
wait $first 2>/dev/null
if until_true eval '! attached "$a"'; then ok "nothing is left of a process that was killed"; else bad "a killed process left its program"; fi
past_the_stack "after the kill" "$here"

# A neighbour gets another address of its network: packets reach it, since the kernel is asked anew.
rm -f "$log"/*
serve server --count 200000 --poll
server=$!
on "$b" env BELLWIRE_XDP=on timeout 120 "$examples/pingpong" client --name "pingpong@$here" --count 200000 --poll >"$log/client" 2>&1 &
client=$!
until_true attached "$b"
sleep 0.2
# Packets that are on their way then are lost.
ip -n "$b" link set eth0 address 02:00:00:00:77:01
if wait $client && wait $server; then ok "a neighbour that moved"; else bad "a neighbour that moved"; fi

# An ordinary user may not; the program goes on.
rm -f "$log"/*
serve server --count 1000
if on "$b" env BELLWIRE_XDP=on BELLWIRE_ALLOW=root timeout 60 setpriv --reuid=65534 --regid=65534 --clear-groups "$examples/pingpong" client --name "pingpong@$here" --count 1000 >"$log/client" 2>&1 &&
    grep -q CAP_NET_RAW "$log/client"; then
    ok "an ordinary user: $(grep CAP_NET_RAW "$log/client")"
else
    bad "an ordinary user"
fi
said=$(on "$b" "$bellwire" info 2>&1 | grep -A 2 AF_XDP)
if [[ $said == *"possible at eth0"* ]]; then ok "bellwire info says that it is possible"; else bad "bellwire info: $said"; fi
said=$(on "$b" setpriv --reuid=65534 --regid=65534 --clear-groups "$bellwire" info 2>&1 | grep -A 2 AF_XDP)
if [[ $said == *"not possible"*CAP_NET_RAW* ]]; then ok "and why it is not"; else bad "bellwire info of an ordinary user: $said"; fi

for mode in ${suite:+on native}; do
    for pair in "$here/$there" "$here6/$there6" "$(link_address "$a")/$(link_address "$b")"; do
        rm -f "$log"/*
        if BELLWIRE_XDP=$mode BELLWIRE_TEST_HOSTS=$a,${pair%/*},$b,${pair#*/} "$suite" --ignored --test-threads=1 udp_hosts >"$log/suite" 2>&1; then
            ok "conformance, $mode, $pair ($(grep -h '^test result' "$log/suite" | cut -d';' -f1))"
        else
            bad "conformance, $mode, $pair"
        fi
    done
done
echo "$passed passed, $failed failed"
exit $failed
