#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The guide's blocks whose lines belong to two hosts run as they stand there, in two network
# namespaces with its addresses:
#   scripts/hosts-pages.sh EXAMPLES INSTALLED SISCI     EXAMPLES, SISCI: folders of the examples
# shellcheck disable=SC1091
installed=$(realpath "$2") sisci=$(realpath "$3")
set -- "$1" "$installed/lib"
. "$(dirname "$0")/two-hosts.sh"
guide=$(cd "$(dirname "$0")/.." && pwd)/docs/guide
for host in "$a 5" "$b 6"; do
    # shellcheck disable=SC2086
    set -- $host
    ip -n "$1" addr flush dev eth0
    ip -n "$1" addr add "10.0.0.$2/24" dev eth0
done
ip -n "$a" route add default via 10.0.0.6
ip -n "$b" route add default via 10.0.0.5
# An ordinary user's programs, in a folder of each host's own.
user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
place=$(mktemp -d)
trap 'cleanup; rm -rf "$place"' EXIT
mkdir "$place/$a" "$place/$b" "$place/bin"
cp "$installed"/bin/* "$examples/kv_store" "$place/bin/"
cp -r "$installed/lib" "$place/lib"
for host in "$a" "$b"; do cp "$sisci/ping_pong" "$place/$host/"; done
printf '#!/bin/sh\nexec kv_store server --clients 1\n' >"$place/$a/program"
printf '#!/bin/sh\nexec kv_store client --operations 300 --name kv_store@10.0.0.5\n' >"$place/$b/program"
chmod +x "$place"/*/program
chown -R 65534:65534 "$place"
unset BELLWIRE_ADDRESS BELLWIRE_FAULTS BELLWIRE_NIC BELLWIRE_SHM

at() { # namespace, line: as a user of that host, in place of this shell
    exec ip netns exec "$1" "${user[@]}" env -C "$place/$1" HOME="$place/$1" PATH="$place/bin:$PATH" LD_LIBRARY_PATH="$place/lib" timeout 60 bash -c "$2"
}
run() { (at "$@"); }
# A line of the block that begins with these words.
line() { # page, words, number
    local found
    found=$(awk -v words="$2" -v number="$3" '/^```/ {count = 0; inside = !inside; hit = 0; next}
        inside {count++; text[count] = $0; if (count == 1 && index($0, words) == 1) hit = 1; if (hit && count == number) {print; exit}}' "$guide/$1" | sed 's/^host [AB]\$ //')
    [ -n "$found" ] || echo "echo 'no line $3 of the block of $1 that begins with $2'; false"
    echo "$found"
}
started=()
begin() { # namespace, line: goes on until `ended`
    at "$1" "$2" >"$log/begun-${#started[@]}" 2>&1 &
    started+=($!)
}
ended() {
    local process
    for process in "${started[@]}"; do kill "$process" 2>/dev/null; done
    wait "${started[@]}" 2>/dev/null
    started=()
}
# The second side comes again until the first one is there.
until_there() { # namespace, line
    local i
    for i in $(seq 10); do
        run "$1" "$2" >"$log/second" 2>&1 && return
        sleep 0.3
    done
    return 1
}
block() { # page, words: its first line on a, its second one on b
    rm -f "$log"/*
    begin "$a" "$(line "$1" "$2" 1)"
    if until_there "$b" "$(line "$1" "$2" 2)"; then ok "$1: $2"; else bad "$1: $2"; fi
    ended
}
block hosts.md "BELLWIRE_ADDRESS=eth0 kv_store server"
if command -v ib_send_bw >/dev/null; then block verbs.md "BELLWIRE_ADDRESS=10.0.0.5"; else echo "SKIPPED verbs.md: no perftest"; fi
BELLWIRE_SISCI_NODES=4=10.0.0.5,8=10.0.0.6 block sisci.md "host A$ BELLWIRE_ADDRESS=eth0 ./ping_pong"

# The same line on both hosts.
everywhere() { # page, words, number
    rm -f "$log"/*
    begin "$a" "$(line "$1" "$2" "$3")"
    if until_there "$b" "$(line "$1" "$2" "$3")"; then ok "$1: line $3 of $2"; else bad "$1: line $3 of $2"; fi
    ended
}
run "$a" "$(line hosts.md 'bellwire key --shared' 1)" >/dev/null && cp -p "$place/$a/cluster.key" "$place/$b/"
everywhere hosts.md 'bellwire key --shared' 2
for host in "$a 10.0.0.5" "$b 10.0.0.6"; do echo "${host#* }     $(run "${host% *}" 'bellwire key host.key')"; done >"$place/known-hosts"
cp "$place/known-hosts" "$place/$a/" && cp "$place/known-hosts" "$place/$b/"
everywhere hosts.md 'BELLWIRE_KEY_FILE=host.key' 1

# The agent: one on each host.
agents() { # title, function that does the rest
    rm -f "$log"/*
    local host
    for host in "$a" "$b"; do begin "$host" "$(line agent.md 'bellwired --address' 1)"; done
    for _ in $(seq 100); do [ "$(cat "$log"/begun-* | grep -c serving)" = 2 ] && break; sleep 0.05; done
    if "$2"; then ok "$1"; else bad "$1"; fi
    ended
}
served() {
    begin "$a" "$(line agent.md 'bellwired --address' 2)"
    until_there "$b" "$(line agent.md 'bellwired --address' 2 | sed 's/server$/client --operations 300 --name kv_store@10.0.0.5/')"
}
networks() {
    run "$a" "$(line agent.md '(umask 077' 1)" && cp -p "$place/$a/physics.key" "$place/$b/" || return 1
    for host in "$a" "$b"; do run "$host" "$(line agent.md '(umask 077' 2)" >>"$log/made" 2>&1 || return 1; done
    begin "$a" "$(line agent.md '(umask 077' 3)"
    until_there "$b" "$(line agent.md '(umask 077' 3)"
}
agents "agent.md: a server" served
agents "agent.md: a virtual network" networks
echo "$passed passed, $((failed)) failed"
[ "$failed" = 0 ]
