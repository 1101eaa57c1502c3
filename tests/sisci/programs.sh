#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# programs.sh SOURCES LIBDIR OUT: public programs of SISCI, built as they are, in two processes of
# one host and in two network namespaces. SOURCES is a clone of
# https://github.com/kritjo/sisci-perf (it has no licence, so nothing of it is kept here); LIBDIR
# has libsisci.so.1. The standalone ping-pong runs for two seconds of its processor. With MEASURE=1,
# initiator and peer go through PIO, DMA, vectors and interrupts as well, which takes long.
set -u
sources=${1:-} out=${3:-}
[ -d "$sources/standalone" ] || { echo "SKIPPED public programs: no sources (git clone https://github.com/kritjo/sisci-perf)"; exit 0; }
libdir=$(cd "$2" && pwd) here_dir=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
flags="-I$here_dir/../../ffi/sisci/include -I$sources/lib -D_REENTRANT -pthread -std=gnu99 -w"
# Not optimised: it spins on plain variables.
for program in ping-pong-server ping-pong-client; do gcc -O0 $flags "$sources/standalone/$program.c" -o "$out/$program" "$libdir/libsisci.so.1" -lm || exit 1; done
for program in peer initiator; do gcc -O2 $flags "$sources/$program"/*.c "$sources/lib"/*.c -o "$out/$program" "$libdir/libsisci.so.1" -lm || exit 1; done
. "$here_dir/../../scripts/two-hosts.sh" "$out" "$libdir"

both() { # NAME SERVER-HOST CLIENT-HOST NODE-OF-SERVER NODE-OF-CLIENT
    rm -f "$log"/*
    $2 timeout 60 "$examples/ping-pong-server" "$5" 8 >"$log/server" 2>&1 &
    local server=$!
    $3 timeout 60 "$examples/ping-pong-client" "$4" 8 >"$log/client" 2>&1
    local client=$?
    local count
    count=$(sed -n 's/^Response count: //p' "$log/client")
    if [ $client -eq 0 ] && [ "${count:-0}" -gt 0 ]; then ok "$1: ping-pong, $count answers"; else bad "$1: ping-pong: $client"; fi
    kill $server 2>/dev/null
    wait $server 2>/dev/null
}
measure() { # NAME PEER-HOST INITIATOR-HOST NODE-OF-PEER NODE-OF-INITIATOR
    rm -f "$log"/*
    $2 timeout 900 "$examples/peer" "$5" >"$log/peer" 2>&1 &
    local peer=$!
    $3 timeout 900 "$examples/initiator" 1 "$4" >"$log/initiator" 2>&1
    local status=$?
    if [ $status -eq 0 ]; then ok "$1: initiator and peer, $(grep -c . "$log/initiator") lines"; else bad "$1: initiator: $status"; fi
    kill $peer 2>/dev/null
    wait $peer 2>/dev/null
}
as_a() { on "$a" "$@"; }
as_b() { on "$b" "$@"; }
alone() { env -u BELLWIRE_SISCI_NODES BELLWIRE_SISCI=node=4 "$@"; }
export BELLWIRE_SISCI_NODES=4=$here,8=$there
both "one host" alone alone 4 4
both "two hosts" as_a as_b 4 8
if [ "${MEASURE:-}" ]; then
    measure "one host" alone alone 4 4
    measure "two hosts" as_a as_b 4 8
fi
echo "$passed passed"
exit $failed
