#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The same programs under every launcher that is installed; called by the Makefile with the folder they are in. BELLWIRE names the command, RING and TEAM the examples of crates/job and crates/spmd.
set -u
here=$(cd "$(dirname "$0")" && pwd)
cd "$1" || exit 1
RING=${RING:-} TEAM=${TEAM:-}
passed=0 failed=0
log=$PWD/launchers.log
# Started from inside a job of another launcher, this is not that job's business.
unset PMI_FD PMI_RANK PMI_SIZE PMIX_NAMESPACE PMIX_RANK
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# status wanted (a pattern), text wanted in the output, command ..
expect() {
    local status=$1 text=$2
    shift 2
    timeout -k 5 60 "$@" > "$log" 2>&1 < /dev/null
    local got=$?
    # shellcheck disable=SC2254
    case $got in
        $status) if [ -z "$text" ] || grep -q -- "$text" "$log"; then passed=$((passed + 1)); return; fi ;;
    esac
    failed=$((failed + 1))
    echo "FAILED: $*: status $got (wanted $status, \"$text\")"
    tail -n 15 "$log" | sed 's/^/    /'
}

# What every launcher must do: launcher .., up to the program.
every() {
    expect 0 "all well: 4 processes, 4 here, job .* by $by" "$@" ./spmd 4
    expect 0 "all well: 4 processes, 4 here" "$@" ./spmd_cxx17 2
    [ ! -x "$RING" ] || expect 0 "100 rounds by 4 processes" "$@" "$RING" 100
    expect 0 "team: all well: 4 processes" "$@" ./team
    expect 0 "team: all well: 4 processes" "$@" ./team_cxx17 20
    expect 0 "both: all well: 4 processes" "$@" ./both
    [ ! -x "$TEAM" ] || expect 0 "messages among 4 processes, all well" "$@" "$TEAM" 200
    expect "$exit_status" "" "$@" ./spmd exit 7
    expect "$exit_status" "" "$@" ./team exit 7
    expect "$exit_status" "" "$@" ./team again 7
    # Whatever the launcher makes of it, nobody waits for ever, and it is no success.
    expect '[1-9]*' "" "$@" ./spmd die 3
    expect '[1-9]*' "" "$@" ./spmd kill
    expect '[1-9]*' "" "$@" ./team kill
}

summary() {
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
    exit
}

# Inside scripts/slurm.sh. -K: without it Slurm lets the others wait for a process that has died.
if [ "${2:-}" = slurm ]; then
    by=pmi exit_status='[1-9]*'
    every srun -K -O --mpi=pmi2 -n 4
    by=pmix
    every srun -K -O --mpi=pmix -n 4
    expect '[1-9]*' "add --mpi=pmix" srun -O --mpi=none -n 2 ./spmd
    summary
fi

[ -x "$RING" ] || echo "SKIPPED the ring in Rust: cargo test has not built it"
[ -x "$TEAM" ] || echo "SKIPPED the team in Rust: cargo test has not built it"
[ ! -x ./pmix_layout ] && echo "SKIPPED PMIx's layout: no header" || expect 0 "all well" ./pmix_layout
expect 0 "all well: 1 processes, 1 here, job .* by alone" ./spmd
by=pmi exit_status=7
every "$BELLWIRE" run -n 4
expect 0 "all well: 64 processes" "$BELLWIRE" run -n 64 ./spmd 2
expect 0 "team: all well: 1 processes" ./team
expect 0 "team: all well: 4 processes" env BELLWIRE_UDP=on BELLWIRE_SHM=off "$BELLWIRE" run -n 4 ./team 50
expect 137 "SIGKILL" "$BELLWIRE" run -n 4 ./team kill
expect 0 "" "$BELLWIRE" run -n 4 ./spmd exit 0
expect 3 "ended with status 3" "$BELLWIRE" run -n 4 ./spmd die 3
expect 1 "will not come" "$BELLWIRE" run -n 4 ./spmd die 0
expect 137 "SIGKILL" "$BELLWIRE" run -n 4 ./spmd kill
if [ -x ./mpich ]; then
    expect 0 "mpich: all well: 4 processes" "$BELLWIRE" run -n 4 ./mpich
    expect 5 "rank 1 ended the job with status 5" "$BELLWIRE" run -n 3 ./mpich 5
else
    echo "SKIPPED programs of MPICH under bellwire run: no mpicc.mpich"
fi
if command -v mpiexec.hydra > /dev/null; then
    every mpiexec.hydra -n 4
else
    echo "SKIPPED MPICH's mpiexec: not installed (Debian: mpich)"
fi
by=pmix
if command -v mpirun.openmpi > /dev/null; then
    every mpirun.openmpi --oversubscribe -n 4
else
    echo "SKIPPED Open MPI's mpirun: not installed (Debian: openmpi-bin)"
fi
slurm=$("$here/../../scripts/slurm.sh" "$here/launchers.sh" "$PWD" slurm 2>&1)
case $? in
    0) ;;
    77) echo "SKIPPED Slurm's srun: $(tail -n 1 <<< "$slurm")"; slurm="0 passed, 0 failed" ;;
    *) grep -v ' passed, ' <<< "$slurm"; failed=$((failed + 1)) ;;
esac
passed=$((passed + $(sed -n 's/ passed, .*//p' <<< "$slurm")))
summary
