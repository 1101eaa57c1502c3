#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# What happens to hosts and networks, between two hosts (two-hosts.sh): silence in both or one direction, a link that goes down and comes back, for a moment, for 10 s, for ever; a
# peer killed; a host that crashes. Both sides are told in the time that docs/guide/hosts.md promises, a server that lives through all of it serves on, and nothing is left behind.
# `hosts-outages.sh DIR LIBDIR`: DIR holds the examples. Takes two minutes.
source "$(dirname "$0")/two-hosts.sh"
# Told after so many milliseconds: a silent peer (5 to 7 s after the last sign of life, and a second for this machine), and one whose host says that it is gone.
silent="4500 8000" gone="0 2500"

milliseconds() { echo $(($(date +%s%N) / 1000000)); }
mac() { ip -n "$1" -o link show eth0 | sed 's/.*link.ether \([^ ]*\).*/\1/'; }
# What a host sends to the other goes to nobody. No interface knows of it.
mute() { ip -n "$1" neigh replace "10.118.0.$2" lladdr 02:00:00:00:00:77 dev eth0 nud permanent; }
unmute() { ip -n "$1" neigh replace "10.118.0.$2" lladdr "$3" dev eth0 nud reachable; }
silence() { mute "$a" 2; mute "$b" 1; }
link() { ip -n "$b" link set eth0 "$1"; }
mend() { link up; unmute "$a" 2 "$(mac "$b")"; unmute "$b" 1 "$(mac "$a")"; }

survivor_fds() { find "/proc/$survivor/fd" -mindepth 1 2>/dev/null | wc -l; }
survivor_kib() { awk '/^VmRSS/ {print $2}' "/proc/$survivor/status"; }

side() { # file, namespace, command..: runs it and writes down its end
    local file=$log/$1
    shift
    on "$@" >"$file" 2>&1
    echo "$? $(milliseconds)" >"$file.end"
}
# Ping-pong that nobody but an outage ends, and a client of the server that survives.
begin() {
    rm -f "$log"/server* "$log"/client* "$log"/visitor*
    side server "$a" timeout 40 "$examples/pingpong" server --count 100000000 &
    side client "$b" timeout 40 "$examples/pingpong" client --name "pingpong@$here" --count 100000000 &
    side visitor "$b" timeout 40 "$examples/kv_store" client --name "kv_store@$here" --operations 100000000 &
    sleep 1
    struck=$(milliseconds)
}
told() { # title, side, least, most: whether that side failed by itself in time
    local i code at
    for i in $(seq 120); do [ -s "$log/$2.end" ] && break; sleep 0.1; done
    read -r code at <"$log/$2.end" 2>/dev/null || { bad "$1: $2 has not been told"; return; }
    at=$((at - struck))
    if [ "$code" -ne 0 ] && [ "$code" -ne 124 ] && [ "$at" -ge "$3" ] && [ "$at" -le "$4" ]; then
        ok "$1: $2 told after $at ms ($(tail -n 1 "$log/$2"))"
    else
        bad "$1: $2 ended with $code after $at ms"
    fi
}
# Nothing is left, and the server that survives serves on.
nothing_left() { # title
    local i left fds=0
    for i in $(seq 50); do
        left="$(ip netns pids "$b") $(ip netns exec "$b" ss -Huan) $(ip netns exec "$b" ss -Hxal | grep bellwire)"
        fds=$(survivor_fds)
        [ -z "${left// /}" ] && [ "$fds" -le "$idle_fds" ] && break
        sleep 0.2
    done
    if [ -n "${left// /}" ]; then bad "$1: left behind: $left"; fi
    if [ "$fds" -gt "$idle_fds" ]; then bad "$1: the server has $fds descriptors, $idle_fds before"; fi
    if on "$b" timeout 30 "$examples/kv_store" client --name "kv_store@$here" --operations 300 >"$log/after" 2>&1; then
        ok "$1: nothing left, and the server serves on"
    else
        bad "$1: the server does not serve"
    fi
}

on "$a" "$examples/kv_store" server >"$log/survivor" 2>&1 &
sleep 0.3
survivor=$(ip netns pids "$a" | head -n 1)
on "$b" timeout 30 "$examples/kv_store" client --name "kv_store@$here" --operations 300 >"$log/first" 2>&1 || bad "the server serves"
sleep 1
idle_fds=$(survivor_fds) idle_kib=$(survivor_kib)

# Short ones: nothing is lost.
for event in silence "link down"; do
    begin
    $event
    sleep 1
    mend
    sleep 2
    if [ -e "$log/server.end" ] || [ -e "$log/client.end" ] || [ -e "$log/visitor.end" ]; then bad "$event for 1 s"; else ok "$event for 1 s: all go on"; fi
    struck=$(milliseconds)
    ip netns pids "$b" | xargs -r kill -9
    told "$event for 1 s, then killed" server $gone
    nothing_left "$event for 1 s"
done

outage() { # title, what happens, least and most milliseconds for each side
    begin
    $2
    told "$1" server $silent
    told "$1" client $silent
    told "$1" visitor $silent
    # Ten seconds in all.
    while [ $(($(milliseconds) - struck)) -lt 10000 ]; do sleep 0.1; done
    mend
    nothing_left "$1"
}
outage "silence for 10 s" silence
outage "nothing from the one host arrives, for 10 s" "mute $a 2"
outage "nothing from the other host arrives, for 10 s" "mute $b 1"
outage "link down for 10 s" "link down"

# A host crashes: all that it was is gone, nobody answers.
begin
silence
ip netns pids "$b" | xargs -r kill -9
told "host crashed" server $silent
mend
nothing_left "host crashed"

# One process of it is killed: the others there go on.
begin
kill -9 "$(ip netns pids "$b" | while read -r pid; do grep -lz pingpong "/proc/$pid/cmdline" >/dev/null && readlink "/proc/$pid/exe" | grep -q pingpong && echo "$pid"; done | head -n 1)"
told "one process killed" server $gone
if [ -e "$log/visitor.end" ]; then bad "one process killed: the other is gone, too"; else ok "one process killed: the other goes on"; fi
ip netns pids "$b" | xargs -r kill -9
nothing_left "all processes killed"

kib=$(survivor_kib)
if [ "$kib" -le $((idle_kib + 16384)) ]; then ok "the server's memory: $idle_kib KiB at first, $kib in the end"; else bad "the server's memory grew from $idle_kib to $kib KiB"; fi
kill -9 "$survivor"
echo "all outages: $passed"
exit $failed
