#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The C tests of two processes in places where other libraries fail: a user namespace, a pid and mount namespace with a /dev/shm of 64 KB, a memory cgroup of
# 64 MB. `places.sh DIR`: DIR holds the test programs. What this machine does not allow is skipped, visibly.
set -u
cd "$1" || exit 1
export LD_LIBRARY_PATH=$PWD/lib
failed=0
passed=0
try() { # name, command...
    local name=$1
    shift
    if out=$("$@" 2>&1); then echo "ok: $name"; passed=$((passed + 1)); else echo "FAILED: $name"; echo "$out" | tail -n 12; failed=1; fi
}
skip() { echo "SKIPPED $1: $2"; }

if unshare -Ur true 2>/dev/null; then
    for program in two_process protection; do try "user namespace: $program" unshare -Ur "./$program"; done
    # Without a mapping: nobody, with no capability at all.
    try "user namespace, not root: attach" unshare -U ./attach
else
    skip "user namespace" "not permitted"
fi

small_shm='mount -t tmpfs -o size=64k tmpfs /dev/shm && exec "$0"'
if unshare -mpf --mount-proc true 2>/dev/null; then
    for program in two_process attach; do try "64 KB /dev/shm: $program" unshare -mpf --mount-proc sh -c "$small_shm" "./$program"; done
else
    skip "small /dev/shm" "mount namespaces are not permitted"
fi

# A cgroup of either version, made here and removed again.
group=
if [ -w /sys/fs/cgroup/memory ]; then
    group=/sys/fs/cgroup/memory/bellwire-test-$$ limit=memory.limit_in_bytes
elif grep -qw memory /sys/fs/cgroup/cgroup.subtree_control 2>/dev/null && [ -w /sys/fs/cgroup ]; then
    group=/sys/fs/cgroup/bellwire-test-$$ limit=memory.max
fi
if [ -n "$group" ] && mkdir "$group" 2>/dev/null && echo 64M >"$group/$limit"; then
    for program in two_process extensions semantics; do
        try "64 MB memory cgroup: $program" sh -c 'echo $$ >"$1/cgroup.procs" && exec "$2"' sh "$group" "./$program"
    done
    rmdir "$group"
else
    [ -n "$group" ] && rmdir "$group" 2>/dev/null
    skip "memory cgroup" "none can be made here"
fi
echo "all places: $passed"
exit $failed
