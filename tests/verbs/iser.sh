#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# iSER of the distribution's tgt (target) and libiscsi (initiator), as they are, on the library:
# login, inquiry, capacity, then writes and reads that are compared.
#   tests/verbs/iser.sh LIBRARY OUT
set -u
library=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
here=$(cd "$(dirname "$0")" && pwd)
for program in tgtd tgtadm iscsi-inq iscsi-readcapacity16; do
    command -v $program >/dev/null || PATH=$PATH:/usr/sbin
    command -v $program >/dev/null || { echo "SKIPPED iser: no $program (tgt, libiscsi-bin)"; exit 0; }
done
[ "$(id -u)" = 0 ] || { echo "SKIPPED iser: tgtd wants root"; exit 0; }
[ -e /usr/include/iscsi/iscsi.h ] || { echo "SKIPPED iser: no libiscsi-dev"; exit 0; }
passed=0 failed=0
ok() { passed=$((passed + 1)); }
bad() {
    failed=$((failed + 1))
    echo "FAILED iser: $*"
}
if cc -std=gnu11 -Wall -Wextra -Werror -o "$out/iser" "$here/iser.c" -liscsi; then ok; else bad iser.c; fi
head -c 8388608 /dev/urandom >"$out/disk"
cp "$out/disk" "$out/must"
export TGT_IPC_SOCKET=$out/ipc BELLWIRE_ADDRESS=127.0.0.1
rm -f "$out"/ipc.*
LD_PRELOAD=$library tgtd -f --iscsi portal=127.0.0.1:3261 >"$out/tgtd.log" 2>&1 &
target=$!
trap 'kill -9 $target 2>/dev/null; rm -f "$out"/ipc.*' EXIT
manage() { tgtadm --lld iser --mode "$@"; }
name=iqn.2026-11.net.bellwire:disk initiator=iqn.2007-10.com.github:sahlberg:libiscsi
for _ in $(seq 300); do
    manage target --op new --tid 1 --targetname $name 2>/dev/null && break
    kill -0 $target 2>/dev/null || break
    sleep 0.1
done
# tgt's iSER asks for the address and for the name.
if manage logicalunit --op new --tid 1 --lun 1 -b "$out/disk" && manage target --op bind --tid 1 -I ALL; then ok; else bad "the target: $(tail -n 3 "$out/tgtd.log")"; fi
for of in iscsi-inq iscsi-readcapacity16 iser; do manage target --op bind --tid 1 -Q $initiator:$of; done
url=iser://127.0.0.1:3260/$name/1
asks() { # what it says, command
    local said
    said=$(LD_PRELOAD=$library timeout -k 1 60 "${@:2}" 2>&1)
    if [[ $said == *"$1"* ]]; then ok; else bad "${*:2}: $said"; fi
}
asks VIRTUAL-DISK iscsi-inq $url
asks "Total size:8388608" iscsi-readcapacity16 $url
asks "all well" "$out/iser" $url $initiator:iser "$out/must"
if cmp "$out/must" "$out/disk"; then ok; else bad "the disk is not what was written"; fi
echo "iser: $passed passed, $failed failed"
[ $failed = 0 ]
