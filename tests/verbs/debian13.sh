#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Debian 13's RDMA programs and rdma-core's tests of that version on the library, on any host:
#   tests/verbs/debian13.sh LIBRARY OUT [--write]
# apt fetches its packages, signed, into OUT/debian13, where they stay for the next run; they
# run there by their own loader and C library, as an ordinary user. Their results are compared with
# tests/verbs/pyverbs-56.tsv (pyverbs-compare.sh). --write makes that table anew from this run.
set -u
library=$(realpath "$1") write=${3:-}
mkdir -p "$2/debian13"
out=$(realpath "$2/debian13")
here=$(cd "$(dirname "$0")" && pwd)
root=$out/root
keys=/usr/share/keyrings/debian-archive-keyring.gpg

fetch() {
    command -v apt-get >/dev/null && [ -r $keys ] && [ "$(dpkg --print-architecture)" = amd64 ] || return 1
    mkdir -p "$out/state/lists/partial" "$out/cache/archives/partial" "$root"
    : >"$out/state/status"
    echo "deb [signed-by=$keys] http://deb.debian.org/debian trixie main" >"$out/sources.list"
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
    apt-get update -qq && apt-get install -y -qq --no-install-recommends --download-only python3-pyverbs rdma-core ibverbs-utils ibverbs-providers rdmacm-utils || return 1
    for package in "$out"/cache/archives/*.deb; do dpkg-deb -x "$package" "$root" || return 1; done
    unset APT_CONFIG
}
if [ ! -e "$out/complete" ]; then
    fetch >"$out/fetch.log" 2>&1 || { echo "SKIPPED debian13: its packages cannot be had: $(tail -n 1 "$out/fetch.log")"; exit 0; }
    touch "$out/complete"
fi
libraries=$root/usr/lib/x86_64-linux-gnu
# A program of Debian 13.
run() {
    PYTHONHOME=$root/usr PYTHONPATH=$root/usr/lib/python3/dist-packages LD_PRELOAD=$library \
        "$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$libraries" "$root/usr/bin/$1" "${@:2}"
}
passed=0 failed=0
ok() { passed=$((passed + 1)); }
bad() {
    failed=$((failed + 1))
    echo "FAILED debian13: $*"
}

# ---- every public symbol of its libibverbs is ours, in each of its versions. Those of drivers and
# of librdmacm (IBVERBS_PRIVATE) are not asked of a preloaded library.
of() { nm -D --defined-only --with-symbol-versions "$1" | sed -nE 's/.* ([A-Za-z0-9_]+)@+(IBVERBS_[0-9.]+)$/\1 \2/p' | sort -u; }
missing=$(comm -23 <(of "$libraries/libibverbs.so.1") <(of "$library"))
if [ -z "$missing" ]; then ok; else bad "symbols of libibverbs that the library has not: $(echo "$missing" | tr '\n' ',')"; fi

# ---- its programs
if run ibv_devices | grep -q bellwire0; then ok; else bad ibv_devices; fi
if run ibv_devinfo -v >"$out/devinfo" 2>&1 && grep -q PORT_ACTIVE "$out/devinfo" && grep -q 'hca_core_clock:.*1000000kHZ' "$out/devinfo"; then ok; else bad "ibv_devinfo: $(tail -n 1 "$out/devinfo")"; fi
port=$((20000 + $$ % 20000))
pair() { # program arguments
    port=$((port + 1))
    run "$1" -p $port "${@:2}" >"$out/server.log" 2>&1 &
    local server=$!
    for _ in $(seq 600); do
        grep -q ":$(printf '%04X' $port) .* 0A " /proc/net/tcp /proc/net/tcp6 && break
        sleep 0.05
    done
    if run "$1" -p $port "${@:2}" 127.0.0.1 >"$out/client.log" 2>&1 && wait $server; then ok; else bad "$*: $(tail -n 1 "$out/client.log")"; fi
}
pair ibv_rc_pingpong -g 0
pair ibv_rc_pingpong -g 0 -t
pair ibv_rc_pingpong -g 0 -N -e
pair ibv_ud_pingpong -g 0
pair ibv_srq_pingpong -g 0
pair ibv_xsrq_pingpong -g 0 -n 200

# ---- its tests. They ask iproute2's `rdma`, which speaks with the kernel alone, for the interface
# of a device: here a script of that name reads it from /sys.
rm -rf "$out/suite"
mkdir -p "$out/suite" "$out/bin"
cp -r "$root/usr/share/doc/rdma-core/tests" "$out/suite/tests"
gunzip -f "$out"/suite/tests/*.gz
rm -f "$out"/suite/tests/test_mlx5* "$out"/suite/tests/test_efa* "$out"/suite/tests/test_cuda*
cat >"$out/bin/rdma" <<'SCRIPT'
#!/bin/sh
[ "$*" = "link show -j" ] || exit 1
row='['
for device in /sys/class/infiniband/*; do
    printf '%s{"ifname":"%s","port":1,"netdev":"%s"}' "$row" "${device##*/}" "$(ls "$device/device/net" | head -n 1)"
    row=,
done
echo ']'
SCRIPT
chmod +x "$out/bin/rdma"
PATH=$out/bin:$PATH
export PATH
run python3.13 -W ignore "$here/rdma_core.py" "$out/suite" --dev bellwire0 >"$out/seen.tsv" 2>"$out/suite.log"
code=$?
if [ $code = 0 ]; then ok; else bad "the suite ended with $code: $(tail -n 3 "$out/suite.log")"; fi
if "$here/pyverbs-compare.sh" 56 "$out/seen.tsv" "$write"; then ok; else bad "the suite"; fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
