# shellcheck shell=bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs the parts of a test run and counts how they end. Sourced by test.sh; tried by check-parts.sh.
#   certain NAME COMMAND ..   a part whose result is certain: it runs once
#   part NAME COMMAND ..      a part with processes or threads: if it fails, it runs a second time
#   skip NAME WHY             a part that cannot run here
#   finish                    prints the totals; its status is that of the run
# A part that passes at its second try is FLAKY: the run says what failed at first and keeps that
# log as NAME.first.log. The third flaky part fails the run. RETRIES=0 forbids second tries.
# While a second try runs, PART_FIRST names the log of the first: a command may repeat less.
# Reads: log (folder of the logs).

passed=0 failed=0 skipped=0 flaky=0 PART_FIRST=
: "${RETRIES:=1}"
# The run passes with at most this many flaky parts.
flaky_max=2

certain() { run_part 0 "$@"; }
part() { run_part "$RETRIES" "$@"; }
skip() { skipped=$((skipped + 1)); echo "SKIPPED $1: $2"; }

run_part() { # retries name command ..
    local retries=$1 name=$2 start=$SECONDS
    shift 2
    rm -f "$log/$name.first.log"
    PART_FIRST=
    if "$@" >"$log/$name.log" 2>&1; then
        passed=$((passed + 1))
        echo "ok      $name  ($((SECONDS - start)) s)  $(summary "$log/$name.log")"
        grep -h '^SKIPPED' "$log/$name.log" | sed 's/^/        /'
        return
    fi
    if [ "$retries" = 0 ]; then
        complain "$name" "$start"
        return
    fi
    mv "$log/$name.log" "$log/$name.first.log"
    PART_FIRST=$log/$name.first.log
    export PART_FIRST
    if "$@" >"$log/$name.log" 2>&1; then
        flaky=$((flaky + 1))
        echo "FLAKY   $name  ($((SECONDS - start)) s): it passed at the second try. At first, in $log/$name.first.log:"
        what_failed "$log/$name.first.log"
        [ "$flaky" -le "$flaky_max" ] || echo "        more than $flaky_max flaky parts: the run fails"
    else
        complain "$name" "$start" ", twice"
    fi
}

complain() { # name start [, twice]
    failed=$((failed + 1))
    echo "FAILED  $1  ($((SECONDS - $2)) s)${3:-}: what went wrong, and the last lines, of $log/$1.log"
    what_failed "$log/$1.log"
}

# A failure is rarely at the end: a test runner reports it and goes on with its next program.
what_failed() {
    grep -nE -A 6 '^error|^test .* \.\.\. FAILED|panicked at|^FAILED|^failed|^not ok|SIGSEGV|SIGABRT|^failures:' "$1" | cut -c 1-300 | head -n 120 | sed 's/^/    /'
    echo "    .."
    tail -n 25 "$1" | cut -c 1-300 | sed 's/^/    /'
}

# Adds up the results that test runners print.
summary() {
    awk '/^test result/ {p += $4; f += $6; seen = 1} /passed, [0-9]+ failed/ && !/^test result/ {p += $1; f += $3; seen = 1}
         /^all |all well/ || /^[0-9]+ trials/ || /^mutations of/ {text = $0}
         END {if (seen) printf "%d tests passed, %d failed", p, f; if (text) printf "%s%s", seen ? "; " : "", text}' "$1"
}

finish() {
    # The last line is one that runners of tests print everywhere: a flaky part has passed.
    [ "$flaky" = 0 ] || echo "flaky: $flaky of the $((passed + flaky)) parts that passed"
    echo "$((passed + flaky)) passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ] && [ "$flaky" -le "$flaky_max" ]
}
