#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs every command line of the user guide, README and the site's other pages as written: all
# blocks marked "sh", those of docs/guide first, in the order of its README, in one shell, with a
# home folder of its own, starting in the checkout. scripts/blocks.py says what a block may ask for.
#   scripts/guide.sh [long]               with long, also the blocks that take long
#   TARGET_DIR=... scripts/guide.sh       where cargo builds (default: target)
set -u
cd "$(dirname "$0")/.." || exit 1
target=${TARGET_DIR:-${CARGO_TARGET_DIR:-target}}
case $target in /*) ;; *) target=$PWD/$target ;; esac
export CARGO_TARGET_DIR=$target CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
unset BELLWIRE_TRACE BELLWIRE_TRACE_BYTES BELLWIRE_VIPL BELLWIRE_MODE BELLWIRE_ATTACH BELLWIRE_ADOPT BELLWIRE_MEMORY BELLWIRE_SPIN_US BELLWIRE_ADDRESS BELLWIRE_UDP BELLWIRE_SHM BELLWIRE_FAULTS BELLWIRE_DIRECTORY_PORT BELLWIRE_JOB_VIA BELLWIRE_JOB_TIMEOUT_S BELLWIRE_SISCI BELLWIRE_SISCI_NODES MAKEFLAGS MAKELEVEL
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

cat >"$scratch/guide.sh" <<'END'
listening() { awk '$4 == "0A"' /proc/net/tcp /proc/net/tcp6 2>/dev/null | wc -l; }
# For half a second at most: some wait elsewhere than at a TCP port.
until_one_listens() { # how many did before
    local i
    for i in $(seq 50); do
        [ "$(listening)" -le "$1" ] || return 0
        sleep 0.01
    done
}
# Stands for an RDMA program: a short ping-pong of two processes.
mkdir "$HOME/rdma"
cat > "$HOME/rdma/program" <<'PROGRAM'
#!/bin/sh
ibv_rc_pingpong -g 0 -n 10 -r 20 -p 18600 > server.txt &
until ibv_rc_pingpong -g 0 -n 10 -r 20 -p 18600 localhost 2> /dev/null; do
    kill -0 $! 2> /dev/null || exit 1
    sleep 0.05
done
wait $!
PROGRAM
chmod +x "$HOME/rdma/program"
# For tracing.md. A request may have waited before it went its way.
explained() {
    bellwire explain bellwire run --verbs sh -c 'ib_write_lat -s 8 > /dev/null & sleep 0.5; ib_write_lat -s 8 localhost > /dev/null; wait' 2>&1 |
        sed 's/, [0-9]* waited first//'
}
# For waiting.md: a file with a function's body.
compiles_in_a_function() {
    {
        printf '#include <sys/epoll.h>\n#include <viplx.h>\nint handle(VIP_VI_HANDLE, VIP_BOOLEAN);\n'
        printf 'void wait_for_all(VIP_CQ_HANDLE cq, int epoll) {\nVIP_VI_HANDLE vi; VIP_BOOLEAN is_receive;\n'
        cat "$1"
        echo '}'
    } | cc -Wall -Werror -fsyntax-only $(pkg-config --cflags vipl) -x c -
}
END
# One script out of all blocks. Each begins by saying where it stands, so that a failure is found.
scripts/blocks.py script "$@" >>"$scratch/guide.sh" || exit 1
blocks=$(grep -c '^echo "== ' "$scratch/guide.sh")
[ "$blocks" -gt 10 ] || { echo "FAILED: only $blocks blocks found"; exit 1; }

# The pages' programs listen at their usual ports, where those of another test would be in the way:
# root has a network of its own.
alone=()
# shellcheck disable=SC2016
if unshare --net ip link set lo up 2>/dev/null; then alone=(unshare --net sh -c 'ip link set lo up && exec "$@"' sh) && cargo fetch -q --locked; fi
mkdir "$scratch/home"
HOME=$scratch/home "${alone[@]}" bash -eu "$scratch/guide.sh" > "$scratch/output" 2>&1 3> "$scratch/progress" < /dev/null
status=$?
grep SKIPPED "$scratch/progress"
if [ $status != 0 ]; then
    echo "FAILED in the block at $(tail -n 1 "$scratch/progress" | sed 's/^== //'), status $status; the last output:"
    tail -n 40 "$scratch/output"
    exit 1
fi
[ -z "${VERBOSE:-}" ] || cat "$scratch/output" "$scratch/progress"
echo "all well: $blocks blocks of the pages ran as written"
