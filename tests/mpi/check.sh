#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Real software on the libfabric provider: Debian's fi_info and fi_pingpong, and programs of ours under MPICH and Open MPI as PyPI has them. Packages that cannot be installed are skipped, and named.
#   tests/mpi/check.sh PROVIDER OUT BELLWIRE      PROVIDER: libbellwire_fi.so; OUT: where to build and install; BELLWIRE: the command
set -u
source "$(dirname "$0")/common.sh"

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
tried() { # MPI: programs of ours, on shared memory and by UDP
    local name=$1 ranks
    for ranks in 1 2 5; do
        check "$name-basics-$ranks" "$name" 'basics: all well' "$ranks" "$out/basics-$name"
    done
    check "$name-threads" "$name" 'threads: all well' 3 "$out/threads-$name"
    # More ranks than processors, each with connections to all others.
    check "$name-many" "$name" 'many: all well' 12 "$out/many-$name" 2
    check "$name-dies" ends "$name" 3 "$out/dies-$name"
    # By UDP, as if all were on hosts of their own; also when packets are lost.
    export BELLWIRE_SHM=off BELLWIRE_UDP=on
    check "$name-udp" "$name" 'basics: all well' 3 "$out/basics-$name"
    BELLWIRE_FAULTS=loss=0.02,dup=0.02,reorder=0.02:300us,seed=$$ check "$name-udp-faults" "$name" 'basics: all well' 2 "$out/basics-$name"
    unset BELLWIRE_SHM BELLWIRE_UDP
}
for package in $packages; do
    name=${package%:*}
    has "$name" "${package#*:}" || continue
    check "build-$name" builds "$name"
    tried "$name"
done
if command -v mpicc.openmpi >/dev/null 2>&1 && command -v mpirun.openmpi >/dev/null 2>&1; then
    check build-debian builds_debian
    tried debian
else
    echo "SKIPPED Debian's Open MPI: no openmpi-bin and libopenmpi-dev"
fi
# A window whose owner computes, or waits, on processors that others want too. Of these MPIs it is
# MPICH that leaves putting and getting to the network.
if [ -x "$out/mpich/bin/mpiexec" ]; then
    check mpich-passive mpich 'passive: all well' 3 "$out/passive-mpich"
    BELLWIRE_SHM=off BELLWIRE_UDP=on check mpich-passive-udp mpich 'passive: all well' 3 "$out/passive-mpich" 100
fi
# Open MPI's names for what is under it say nothing; MPICH's do: that it was us.
if [ -x "$out/mpich/bin/mpiexec" ]; then
    export MPIR_CVAR_DEBUG_SUMMARY=1
    check mpich-uses-it mpich 'libfabric provider: bellwire' 1 "$out/basics-mpich"
    unset MPIR_CVAR_DEBUG_SUMMARY
    check run-mpich run_mpich 'basics: all well, 4 ranks' 4 "$out/basics-mpich"
    check run-mpich-dies ends run_mpich 3 "$out/dies-mpich"
fi
if [ -x "$out/openmpi/bin/mpirun" ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    check run-openmpi says 'basics: all well, 2 ranks' env PATH="$out/openmpi/bin:$PATH" "$bellwire" run --mpi openmpi -n 2 "$out/basics-openmpi" two-sided
fi
# Their measurement; a second of it.
for name in mpich openmpi; do
    [ -x "$out/$name/bin/mpicc" ] && check "bench-$name" says 'Barrier' "$bellwire" bench mpi --quick --quiet --rounds 1 --mpi $name --mpi-folder "$out/$name" --ways bellwire --ranks 2 --only pingpong,barrier
done
finish
