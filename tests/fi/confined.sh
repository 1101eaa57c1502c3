#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The provider in the limits of a default container: process_vm_* and ptrace refused by a filter, a /dev/shm of 64 MB, a memory limit. It needs none of what is refused, and `bellwire info` says what is.
#   tests/fi/confined.sh OUT BELLWIRE      OUT: where check.sh has built; what this machine does not allow is skipped, and said
set -u
out=$1 bellwire=$2
export FI_PROVIDER_PATH=$out/provider
passed=0 failed=0
cc -Wall -Wextra -O1 -o "$out/confined" "$(dirname "$0")/confined.c" || exit 1
"$out/confined" true
case $? in
0) ;;
77) echo "SKIPPED confined: no filters of system calls here"; exit 0 ;;
*) exit 1 ;;
esac
try() { # name, command ..
    local name=$1
    shift
    if "$@" >"$out/confined.log" 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED $name"; tail -n 12 "$out/confined.log"; fi
}
# Two processes, each behind a launcher: all lengths, the data checked.
two() { # launcher ..
    local port=$((20000 + RANDOM % 20000)) common=(-p bellwire -e rdm -m tagged -c -I 10 -S all) status
    timeout 120 "$@" fi_pingpong "${common[@]}" -B "$port" &
    local server=$!
    sleep 0.5
    timeout 120 "$@" fi_pingpong "${common[@]}" -P "$port" 127.0.0.1
    status=$?
    wait "$server" && [ $status = 0 ]
}

launcher=("$out/confined")
try sharing timeout 300 "${launcher[@]}" "$out/sharing"
limits=()
# The single quotes are meant: another shell expands it.
# shellcheck disable=SC2016
if unshare -m true 2>/dev/null; then
    limits=(unshare -m sh -c 'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$0" "$@"')
else
    echo "SKIPPED small /dev/shm: mount namespaces are not permitted"
fi
group=
if [ -w /sys/fs/cgroup/memory ]; then
    group=/sys/fs/cgroup/memory/bellwire-fi-$$ limit=memory.limit_in_bytes
elif grep -qw memory /sys/fs/cgroup/cgroup.subtree_control 2>/dev/null && [ -w /sys/fs/cgroup ]; then
    group=/sys/fs/cgroup/bellwire-fi-$$ limit=memory.max
fi
# shellcheck disable=SC2016
if [ -n "$group" ] && mkdir "$group" 2>/dev/null && echo 128M >"$group/$limit"; then
    limits=(sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "${limits[@]}")
else
    echo "SKIPPED memory limit: no cgroup can be made here"
fi
if command -v fi_pingpong >/dev/null; then
    try "fi_pingpong" two "${limits[@]}" "${launcher[@]}"
else
    echo "SKIPPED two processes: no fi_pingpong"
fi
[ -z "$group" ] || rmdir "$group" 2>/dev/null
# Missing resources are reported, not guessed.
attach() { "$@" info | grep -a 'cross-memory attach' | head -n 1; }
open=$(attach "$bellwire") confined=$(attach "${launcher[@]}" "$bellwire")
if [ -n "$confined" ] && [ "$open" != "$confined" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED info: '$confined', and not confined '$open'"; fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
