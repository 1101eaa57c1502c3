#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The guide's pages of the libraries on RDMA and of MPI, and the first pages' commands that need an
# MPI: every command runs as it stands there.
#   tests/stacks/pages.sh PREFIX OUT       PREFIX: where `make install` put everything
# As an ordinary user, in a folder with the programs that the pages speak of. After a command that is
# left running, the next one waits until it listens. The packages of pip are those that check.sh and
# engines.sh have installed; without them a block is skipped, visibly. The page "RDMA in CI" has a
# test of its own (ci.sh).
set -u
prefix=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
here=$(cd "$(dirname "$0")" && pwd)
guide=$here/../../docs/guide root=$here/../.. programs=$here/../mpi
unset BELLWIRE_ADDRESS BELLWIRE_DEVICE_FILE BELLWIRE_FAULTS LD_PRELOAD LD_LIBRARY_PATH
passed=0 failed=0
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir -p "$place/bin" "$place/lib" "$place/home/.config/bellwire"
cp "$prefix/bin/bellwire" "$place/bin/"
[ ! -x "$prefix/bin/bellwire-bench" ] || cp "$prefix/bin/bellwire-bench" "$place/bin/"
cp -r "$prefix/lib/bellwire" "$place/lib/bellwire"
for mpi in mpich openmpi; do
    ! command -v "mpicc.$mpi" >/dev/null 2>&1 || "mpicc.$mpi" -w -O1 -DNO_MPROBE=1 -o "$place/bin/program-$mpi" "$programs/many.c"
done
[ ! -x "$out/many-mpich-wheel" ] || cp "$out/many-mpich-wheel" "$place/bin/program-wheel"
cp "$here/engines.py" "$place/home/"
chmod -R a+rwX "$place"
user=()
[ "$(id -u)" != 0 ] || user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
export HOME=$place/home TMPDIR=$place/home UCX_WARN_UNUSED_ENV_VARS=n
# The pages start more processes than a small machine has processors.
export OMPI_MCA_rmaps_base_oversubscribe=1
cd "$place/home" || exit 1

listeners() { awk '$4 == "0A"' /proc/net/tcp /proc/net/tcp6 2>/dev/null | wc -l; }
# A page of the guide has no folder in its name.
page() { case $1 in README.md | */*) echo "$root/$1" ;; *) echo "$guide/$1" ;; esac; }
# Runs a block of a page, which has a line that begins with these words.
run() { # page, words
    local said=$out/pages.log before line code=0 server='' commands
    commands=$(awk -v words="$2" '/^```/ {if (hit) printf "%s", text; text = ""; hit = 0; next} {text = text $0 "\n"; if (index($0, words) == 1) hit = 1}' "$(page "$1")")
    : >"$said"
    while IFS= read -r line; do
        # A command may have a remark.
        line=$(sed 's/ *# .*$//' <<<"$line")
        echo "+ $line" >>"$said"
        case $line in
            '' | 'pip install '*) continue ;;
            'export '* | 'eval '*) eval "$line"; continue ;;
            common=*) eval "export $line"; continue ;;
            *mpirun.openmpi*) cp "$place/bin/program-openmpi" program ;;
            'mpirun '*) cp "$place/bin/program-openmpi" program ;;
            *mpiexec.mpich*) cp "$place/bin/program-mpich" program ;;
            *mpiexec* | *'--mpi mpich'*) cp "$place/bin/program-wheel" program ;;
            *:PORT*) line=${line//PORT/$(sed -n 's/.*listening on [0-9.]*:\([0-9]*\).*/\1/p' "$said" | head -n 1)} ;;
        esac
        if [ "${line%&}" != "$line" ]; then
            before=$(listeners)
            "${user[@]}" timeout -k 5 150 bash -c "${line%&}" >>"$said" 2>&1 </dev/null &
            server=$!
            for _ in $(seq 300); do
                [ "$(listeners)" -gt "$before" ] && { [ -z "${common-}" ] || grep -q 'DRAM is used' "$said"; } && break
                sleep 0.1
            done
            continue
        fi
        "${user[@]}" timeout -k 5 150 bash -c "$line" >>"$said" 2>&1 </dev/null || code=$?
        [ -n "$server" ] || continue
        # Mooncake's target serves until it is ended, and so does a server whose client failed.
        { [ -z "${common-}" ] && [ $code = 0 ]; } || kill $server 2>/dev/null
        wait $server 2>/dev/null || [ -n "${common-}" ] || code=$?
        server=
    done <<<"$commands"
    [ -n "$commands" ] && [ $code = 0 ] && { [ -z "${common-}" ] || grep -q 'Test completed' "$said"; }
}
block() { # what it needs, page, words, folder of programs in front of others
    if ! command -v "$1" >/dev/null 2>&1 && [ ! -e "$1" ]; then
        echo "SKIPPED $2, block with \"$3\": no $1"
    elif (PATH=${4:+$4:}$place/bin:$PATH && run "$2" "$3"); then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $2, block with \"$3\": $(grep -v '^\s*$' "$out/pages.log" | tail -n 4 | tr '\n' ' ' | cut -c 1-700)"
    fi
}
block ucx_perftest ucx.md 'bellwire run --verbs ucx_info'
block "$place/bin/program-openmpi" ucx.md 'bellwire run --verbs mpiexec.mpich'
block fi_pingpong libfabric-verbs.md 'bellwire run --verbs fi_info'
awk '/^```/ {inside = ($0 == "```toml"); next} inside' "$guide/libfabric-verbs.md" >"$place/rxe.toml"
chmod a+r "$place/rxe.toml"
BELLWIRE_DEVICE_FILE=$place/rxe.toml block "$place/bin/program-wheel" libfabric-verbs.md 'bellwire run --verbs mpiexec' "$out/wheel-mpich/bin"
block "$place/bin/program-wheel" mpi.md 'eval "$(bellwire env --mpi mpich)"' "$out/wheel-mpich/bin"
block "$place/bin/program-openmpi" mpi.md 'eval "$(bellwire env --mpi openmpi)"'
block "$place/bin/program-wheel" README.md 'bellwire run --mpi mpich' "$out/wheel-mpich/bin"
block "$place/bin/program-wheel" site/index.md 'bellwire run --mpi mpich' "$out/wheel-mpich/bin"
block "$out/wheel-mooncake/whole" transfer-engines.md 'bellwire run --verbs transfer_engine_bench' "$out/wheel-mooncake/bin"
# The program of the page moves memory between two processes, as engines.sh has it.
cat >program.py <<'PYTHON'
import os, subprocess, sys, tempfile
with tempfile.TemporaryDirectory() as d:
    target = subprocess.Popen([sys.executable, "engines.py", "nixl", "target", d, "1048576"])
    code = subprocess.call([sys.executable, "engines.py", "nixl", "initiator", d, "1048576"])
    sys.exit(code or target.wait())
PYTHON
BELLWIRE=$place/bin/bellwire block "$out/wheel-nixl/whole" transfer-engines.md 'pip install --no-deps nixl' "$out/wheel-nixl/bin"
cat >program.py <<'PYTHON'
import ibverbs
device = ibverbs.get_device_list()[0]
print(device)
assert "bellwire0" in str(getattr(device, "name", device))
PYTHON
block "$out/wheel-rdma4py/whole" transfer-engines.md 'pip install ibverbs' "$out/wheel-rdma4py/bin"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
