#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# MVAPICH2, an MPI written for verbs alone, over Bellwire's device:
#   tests/stacks/mvapich.sh PREFIX OUT MVAPICH       PREFIX: where `make install` put everything
# MVAPICH is where MVAPICH2 is installed; Debian has no package. 2.3.7 builds on Debian 12 by
#   autogen.sh; configure --with-device=ch3:mrail --with-rdma=gen2 --with-pm=hydra --disable-fortran
#   --disable-cxx --disable-romio --disable-mcast --without-cma CFLAGS="-fcommon -O1 -w"
# (its osu_benchmarks do not, which are not needed). It knows HCAs by name: Bellwire's device
# imitates mlx5. It is told to use no shared memory of its own, and has no other way then. Its
# one-sided operations go by RDMA, with the fence for many processes: that for few (below 1024)
# counts only operations that waited at their origin, so that a target of a put that was posted at
# once does not wait for it, and sees the window of before if the put takes longer than a message
# by way of a third rank (MPID_Win_fence of 2.3.7).
set -u
if [ ! -x "${3:-/none}/bin/mpicc" ]; then
    echo "SKIPPED mvapich: no MVAPICH2 in ${3:-the third argument}"
    exit 0
fi
prefix=$(realpath "$1") mvapich=$(realpath "$3")
mkdir -p "$2"
out=$(realpath "$2")
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
chmod a+rwx "$place"
user=()
[ "$(id -u)" != 0 ] || user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
passed=0 failed=0
ok() { passed=$((passed + 1)); }
bad() {
    failed=$((failed + 1))
    echo "FAILED mvapich: $*"
}
export LD_LIBRARY_PATH=$mvapich/lib BELLWIRE_DEVICE_FILE=$place/device.toml
printf '[[device]]\nname = "mlx5_0"\nimitate = "mlx5"\n' >"$BELLWIRE_DEVICE_FILE"
export MV2_USE_SHARED_MEM=0 MV2_SMP_USE_CMA=0 MV2_ENABLE_AFFINITY=0 MV2_USE_RoCE=1 MPIR_CVAR_CH3_RMA_SCALABLE_FENCE_PROCESS_NUM=1 MV2_SUPPRESS_JOB_STARTUP_PERFORMANCE_WARNING=1
for program in basics collectives; do
    "$mvapich/bin/mpicc" -O1 -o "$place/$program" "$here/../mpi/$program.c" >"$out/mvapich.log" 2>&1 || bad "$program.c: $(tail -n 1 "$out/mvapich.log")"
done
cp "$prefix/bin/bellwire" "$place/" && mkdir -p "$place/lib" && cp -r "$prefix/lib/bellwire" "$place/lib/" && mkdir -p "$place/bin" && mv "$place/bellwire" "$place/bin/"
chmod -R a+rX "$place"
job() { # ranks, program, arguments
    (cd "$place" && exec timeout -k 5 "${MVAPICH_SECONDS:-120}" "${user[@]}" "$place/bin/bellwire" run --verbs "$mvapich/bin/mpiexec" -n "$1" "$place/$2" "${@:3}") >"$out/mvapich.log" 2>&1
    local code=$?
    if [ $code = 0 ] && grep -q "all well, $1 ranks" "$out/mvapich.log"; then ok; else bad "$* ($code): $(grep -v "^$" "$out/mvapich.log" | head -n 4 | tr '\n' ' ' | cut -c 1-400)"; fi
}
job 2 basics
job 4 basics
job 4 collectives 1 1000 20000
export BELLWIRE_SHM=off BELLWIRE_UDP=on BELLWIRE_FAULTS=loss=0.01,seed=7
job 4 collectives 1 1000
echo "$passed passed, $failed failed"
[ $failed = 0 ]
