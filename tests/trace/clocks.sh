#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Traces of two hosts: network namespaces, one of which has other clocks, are put on one clock by
# the messages between them, within the error that is stated.
#   tests/trace/clocks.sh PREFIX OUT
# PREFIX is where `make install` put everything.
prefix=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
tests=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/two-hosts.sh
. "$tests/../../scripts/two-hosts.sh" "$tests/../../examples/c" "$prefix/lib"
bellwire=$prefix/bin/bellwire
unset BELLWIRE_TRACE BELLWIRE_TRACE_BYTES BELLWIRE_CAPTURE
unshare --time --monotonic 1 true 2>/dev/null || skip "no time namespaces (Linux 5.6, util-linux 2.36)"
cd "$out" || exit 1
rm -rf a b false
cc -O1 -I"$prefix/include" -I"$examples" -o pingpong "$examples/pingpong.c" "$examples/common.c" -L"$prefix/lib" -lvipl -lpthread || bad "pingpong.c"
ahead=1234567
count=500

# ---- a ping-pong; the second host's monotonic clock is ahead by so many seconds
mkdir -p a b
on "$a" env BELLWIRE_TRACE=a BELLWIRE_TRACE_BYTES=16777216 ./pingpong server --name clocks --count $count >"$log/server" 2>&1 &
server=$!
for _ in $(seq 100); do
    on "$b" env BELLWIRE_TRACE=b BELLWIRE_TRACE_BYTES=16777216 unshare --time --monotonic $ahead ./pingpong client --name clocks@$here --count $count >"$log/client" 2>&1 && break
    kill -0 $server 2>/dev/null || break
    sleep 0.1
done
if wait $server; then ok "a traced ping-pong between two hosts"; else bad "a traced ping-pong between two hosts"; fi
holds() { # what, arguments of clocks.py
    local what=$1
    shift
    if timeout 120 python3 "$tests/clocks.py" "$@" >"$log/said" 2>&1; then ok "$what: $(tail -n 1 "$log/said")"; else bad "$what"; fi
}
"$bellwire" trace --read a --read b --format json -o both.json >"$log/read" 2>&1 || bad "reading two folders"
holds "the clocks of two hosts" tied both.json $ahead 0

# ---- the same, with a host whose time of day is wrong by three seconds, as its files would say it
cp -r b false
holds "a wrong time of day" falsify false 3000000000
"$bellwire" trace --read a --read false --format json -o false.json >"$log/read" 2>&1 || bad "reading two folders"
holds "a time of day that is wrong" tied false.json $ahead 3000000000
"$bellwire" trace --read a --read false -o tree.txt >"$log/read" 2>&1 || bad "a tree of two hosts"
if grep -q 'clock of .* us to that of .*+-.* us, by .* messages' tree.txt && grep -q 'all times are by this one' tree.txt; then ok "a tree says how the clocks are known"; else head -n 3 tree.txt; bad "a tree says how the clocks are known"; fi
"$bellwire" trace --read a --read false --format perfetto -o both.perfetto-trace >"$log/read" 2>&1 || bad "a file for Perfetto of two hosts"
if grep -qa 'us, by .* messages' both.perfetto-trace; then ok "a file for Perfetto says it"; else bad "a file for Perfetto says it"; fi

# ---- without messages both ways, the time of day is believed; nonsense is no reason to fail
rm -f b/*.x
mkdir -p alone && rm -rf alone/* && for file in b/*; do cp "$file" alone/; done
holds "a session that nobody else knows" unknown alone
"$bellwire" trace --read a --read alone --format json -o alone.json >"$log/read" 2>&1 || bad "reading a host without messages"
holds "a host without messages" believed alone.json
holds "files of nonsense" nonsense "$bellwire" a b

echo "$passed passed, $failed failed"
[ $failed = 0 ]
