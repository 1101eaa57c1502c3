#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# redis and iperf3 under librspreload of rdma-core 65 or later, which has epoll, on the library:
#   tests/verbs/rsockets.sh LIBRARY OUT
# apt fetches Debian sid's packages, signed, into OUT/rsockets, where they stay for the next run.
# They run there by their own loader and C library. redis-benchmark, whose many sockets connect
# without blocking, runs with one_connector.c, which says why; how many runs end well without it is
# told.
set -u
library=$(realpath "$1")
mkdir -p "$2/rsockets"
out=$(realpath "$2/rsockets")
here=$(cd "$(dirname "$0")" && pwd)
root=$out/root
keys=/usr/share/keyrings/debian-archive-keyring.gpg

fetch() {
    command -v apt-get >/dev/null && [ -r $keys ] && [ "$(dpkg --print-architecture)" = amd64 ] || return 1
    mkdir -p "$out/state/lists/partial" "$out/cache/archives/partial" "$root"
    : >"$out/state/status"
    echo "deb [signed-by=$keys] http://deb.debian.org/debian sid main" >"$out/sources.list"
    cat >"$out/apt.conf" <<CONFIG
Dir::State "$out/state";
Dir::State::status "$out/state/status";
Dir::Cache "$out/cache";
Dir::Etc::sourcelist "$out/sources.list";
Dir::Etc::sourceparts "-";
APT::Sandbox::User "";
Acquire::Languages "none";
CONFIG
    export APT_CONFIG=$out/apt.conf
    apt-get update -qq && apt-get install -y -qq --no-install-recommends --download-only rdmacm-utils librdmacm1t64 ibverbs-providers redis-server redis-tools iperf3 || return 1
    for package in "$out"/cache/archives/*.deb; do dpkg-deb -x "$package" "$root" || return 1; done
    unset APT_CONFIG
}
if [ ! -e "$out/complete" ]; then
    fetch >"$out/fetch.log" 2>&1 || { echo "SKIPPED rsockets: the packages cannot be had: $(tail -n 1 "$out/fetch.log")"; exit 0; }
    touch "$out/complete"
fi
libraries=$root/usr/lib/x86_64-linux-gnu spread=$libraries/rsocket/librspreload.so.1
cc -O1 -Wall -Wextra -Werror -shared -fPIC -o "$out/one_connector.so" "$here/one_connector.c" -ldl || exit 1
if ! nm -D "$spread" | grep -q ' T epoll_wait'; then
    echo "SKIPPED rsockets: $spread has no epoll"
    exit 0
fi
# A program of the packages, with more libraries before ours, if any; ended after so many seconds.
within() { # seconds, libraries before, program, arguments
    exec timeout -k 1 "$1" "$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$libraries" --preload "${2:+$2:}$library:$spread" "$root/usr/bin/$3" "${@:4}"
}
passed=0 failed=0
ok() { passed=$((passed + 1)); }
bad() {
    failed=$((failed + 1))
    echo "FAILED rsockets: $*"
}
# The service of a listener is a name of the host beside that of its process.
serves() { # pid
    local i pid count
    for i in $(seq 400); do
        # The program itself, behind `timeout`.
        pid=$(awk '{print $1}' "/proc/$1/task/$1/children" 2>/dev/null)
        count=$(ls -l "/proc/${pid:-0}/fd" 2>/dev/null | sed -n 's/.*socket:\[\([0-9]*\)\].*/\1/p' | grep -cxFf - <(awk '/@bellwire\/.*\/w\// {print $7}' /proc/net/unix))
        [ "${count:-0}" -ge 2 ] && return
        kill -0 "$1" 2>/dev/null || return 1
        sleep 0.05
    done
    return 1
}
port=$((20000 + $$ % 20000))
(within 200 "" iperf3 -s -1 -B 127.0.0.1 -p $port) >"$out/iperf3-server.log" 2>&1 &
server=$!
if serves $server && (within 60 "" iperf3 -c 127.0.0.1 -p $port -n 64M >"$out/iperf3.log" 2>&1) && grep -q receiver "$out/iperf3.log"; then
    ok
    echo "iperf3: $(awk '/receiver/ {print $7, $8}' "$out/iperf3.log")"
else
    bad "iperf3: $(tail -n 2 "$out/iperf3.log" | tr '\n' ' ')"
fi
kill $server 2>/dev/null
wait $server 2>/dev/null

port=$((port + 1))
(within 900 "" redis-server --port $port --bind 127.0.0.1 --save "" --appendonly no --protected-mode no --dir "$out") >"$out/redis-server.log" 2>&1 &
server=$!
serves $server || bad "redis-server: $(tail -n 2 "$out/redis-server.log" | tr '\n' ' ')"
for i in $(seq 5); do
    (within 30 "" redis-cli -h 127.0.0.1 -p $port set "key$i" "value$i") >"$out/redis-cli.log" 2>&1 && (within 30 "" redis-cli -h 127.0.0.1 -p $port get "key$i") >"$out/redis-cli.log" 2>&1
    if grep -qx "value$i" "$out/redis-cli.log"; then ok; else bad "redis-cli: $(tail -n 2 "$out/redis-cli.log" | tr '\n' ' ')"; fi
done
benchmark() { # libraries before
    (within 40 "$1" redis-benchmark -h 127.0.0.1 -p $port -t set,get -n 2000 -c 10 -q) >"$out/redis-benchmark.log" 2>&1 && tr '\r' '\n' <"$out/redis-benchmark.log" | grep -q 'GET: .* requests per second'
}
for i in $(seq 6); do
    if benchmark "$out/one_connector.so"; then ok; else bad "redis-benchmark: $(tr '\r' '\n' <"$out/redis-benchmark.log" | tail -n 1)"; fi
done
well=0
for i in 1 2 3; do ! benchmark "" || well=$((well + 1)); done 2>/dev/null
echo "redis-benchmark with librdmacm's thread for connections: $well of 3 end well"
kill $server
wait $server 2>/dev/null
echo "$passed passed, $failed failed"
[ $failed = 0 ]
