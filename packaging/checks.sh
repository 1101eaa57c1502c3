# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
# Sourced by the checks of packages: counts them, and says what failed. $out is a folder for logs.
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
counted() {
    echo "$passed passed, $failed failed"
    [ $failed = 0 ] && [ $passed -gt 0 ]
}
