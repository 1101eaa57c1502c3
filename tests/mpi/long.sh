#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The tests that take minutes with MPIs on the provider: hundreds of ranks on few processors, and mpi4py's own test-suite.
#   tests/mpi/long.sh PROVIDER OUT BELLWIRE      as check.sh
set -u
source "$(dirname "$0")/common.sh"
patience=600
mpi4py=4.1.2
# Open MPI's mpirun asks for these as root and with more ranks than processors.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
log_of() { sed 's/^/    /' "$out/log" | grep -a ' a rank, '; }

# A connection of two ranks that talk takes up to 0.8 MiB of the host's memory: 128 ranks, each with
# each, 6.4 GiB.
available=$(($(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo) >> 20))
many() { # MPI: hundreds if there is room
    local ranks=128
    [ "$available" -ge 10 ] || ranks=64
    "$1" "many: all well, $ranks ranks" "$ranks" "$out/many-$2" 3
}

# mpi4py's own tests, as its source has them, with its wheel. Tests left out are in mpi4py-MPI.skip,
# with the reason before it.
suite() { # MPI, ranks
    local source=$out/mpi4py-$mpi4py
    "$out/$1/bin/pip" install -q --disable-pip-version-check "mpi4py==$mpi4py" || return 1
    if [ ! -f "$source/test/main.py" ]; then
        "$out/$1/bin/pip" download -q --disable-pip-version-check --no-deps --no-binary mpi4py -d "$out" "mpi4py==$mpi4py" && tar xzf "$source.tar.gz" -C "$out" || return 1
    fi
    grep -v '^#' "$here/mpi4py-$1.skip" >"$out/skip-$1"
    # Rank 0 tells how it ended; another that fails ends the job.
    "$1" '^OK' "$2" "$out/$1/bin/python" "$source/test/main.py" -f --xfile "$out/skip-$1"
}

for package in $packages; do
    name=${package%:*}
    has "$name" "${package#*:}" || continue
    check "$name-build" builds "$name"
    check "$name-many" many "$name" "$name"
    log_of
    check "$name-mpi4py" suite "$name" 3
    echo "$name: $(grep -a '^Ran ' "$out/log" | head -n 1), $(grep -cv '^#' "$here/mpi4py-$name.skip") patterns of tests left out (tests/mpi/mpi4py-$name.skip)"
done
if [ -x "$out/mpich/bin/mpiexec" ]; then
    check run-256 run_mpich 'many: all well, 256 ranks' 256 "$out/many-mpich" 3 collectives
    log_of
fi
finish
