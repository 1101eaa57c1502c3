# shellcheck shell=bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs the parts of a test run and counts how they end. Sourced by test.sh; tried by check-parts.sh.
#   certain NAME COMMAND ..   a part whose result is certain: it runs once
#   part NAME COMMAND ..      a part with processes or threads: if it fails, it runs a second time
#   skip NAME WHY             a part that cannot run here
#   lane FUNCTION             runs the parts of a function one after another, beside other lanes
#   lanes_end                 waits until all lanes have ended
#   finish                    prints the totals; its status is that of the run
# LANES=1 runs the lanes one after another, too. A part tells its time, and how much of it was
# processor time.
# A part that passes at its second try is FLAKY: the run says what failed at first and keeps that
# log as NAME.first.log. The third flaky part fails the run. RETRIES=0 forbids second tries.
# While a second try runs, PART_FIRST names the log of the first: a command may repeat less.
# Reads: log (folder of the logs).

PART_FIRST=
: "${RETRIES:=1}"
: "${LANES:=3}"
lanes=()
# Lanes are processes: each part adds a word to this file.
results=$log/results
: >"$results"
TIMEFORMAT='%0U %0S'
# The run passes with at most this many flaky parts.
flaky_max=2

certain() { run_part 0 "$@"; }
part() { run_part "$RETRIES" "$@"; }
skip() { result skipped; echo "SKIPPED $1: $2"; }

result() { echo "$1" >>"$results"; }
count() { grep -cx "$1" "$results"; }

# One lane fewer than LANES runs in the background.
lane() { # function
    if [ "${#lanes[@]}" -ge $((LANES - 1)) ]; then
        "$1"
    else
        # A group of its own, which an interrupted run can end.
        set -m
        "$1" </dev/null &
        lanes+=($!)
        set +m
    fi
}
end_lanes_at_once() { # signal number
    trap - INT TERM
    for group in "${lanes[@]}"; do kill -TERM -- "-$group" 2>/dev/null; done
    exit $((128 + $1))
}
trap 'end_lanes_at_once 2' INT
trap 'end_lanes_at_once 15' TERM
lanes_end() {
    [ "${#lanes[@]}" = 0 ] || wait "${lanes[@]}"
    lanes=()
}

# The lines about a part are written at once, so that lanes do not mix.
run_part() { # retries name command ..
    try_part "$@" >"$log/$2.said"
    cat "$log/$2.said"
    rm -f "$log/$2.said"
}

# Runs a command with its output in a log, and its processor time in $log/NAME.time.
timed() { # name command ..
    local name=$1
    shift
    { time "$@" >"$log/$name.log" 2>&1; } 2>"$log/$name.time"
}

took() { # name start
    local user=0 system=0
    read -r user system <"$log/$1.time"
    echo "($((SECONDS - $2)) s, $((user + system)) s of processors)"
}

try_part() { # retries name command ..
    local retries=$1 name=$2 start=$SECONDS
    shift 2
    rm -f "$log/$name.first.log"
    PART_FIRST=
    if timed "$name" "$@"; then
        result passed
        echo "ok      $name  $(took "$name" "$start")  $(summary "$log/$name.log")"
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
    if timed "$name" "$@"; then
        result flaky
        echo "FLAKY   $name  $(took "$name" "$start"): it passed at the second try. At first, in $log/$name.first.log:"
        what_failed "$log/$name.first.log"
        [ "$(count flaky)" -le "$flaky_max" ] || echo "        more than $flaky_max flaky parts: the run fails"
    else
        complain "$name" "$start" ", twice"
    fi
}

complain() { # name start [, twice]
    result failed
    echo "FAILED  $1  $(took "$1" "$2")${3:-}: what went wrong, and the last lines, of $log/$1.log"
    what_failed "$log/$1.log"
}

# A failure is rarely at the end: a test runner reports it and goes on with its next program.
what_failed() {
    grep -nE -A 6 '^error|^test .* \.\.\. FAILED|panicked at|^FAILED|^failed|^not ok|SIGSEGV|SIGABRT|^failures:' "$1" | cut -c 1-300 | head -n 120 | sed 's/^/    /'
    echo "    .."
    tail -n 25 "$1" | cut -c 1-300 | sed 's/^/    /'
}

# Adds up the results that test runners print: "5 passed, 0 failed", also behind a name and a colon.
summary() {
    awk '/^test result/ {p += $4; f += $6; seen = 1} match($0, /(^|: )[0-9]+ (tests )?passed, [0-9]+ failed/) && !/^test result/ {s = substr($0, RSTART, RLENGTH); sub(/^: /, "", s); k = split(s, n); p += n[1]; f += n[k - 1]; seen = 1}
         /^all |all well/ || /^[0-9]+ trials/ || /^mutations of/ {text = $0}
         END {if (seen) printf "%d tests passed, %d failed", p, f; if (text) printf "%s%s", seen ? "; " : "", text}' "$1"
}

finish() {
    lanes_end
    local passed failed skipped flaky
    passed=$(count passed) failed=$(count failed) skipped=$(count skipped) flaky=$(count flaky)
    # The last line is one that runners of tests print everywhere: a flaky part has passed.
    [ "$flaky" = 0 ] || echo "flaky: $flaky of the $((passed + flaky)) parts that passed"
    echo "$((passed + flaky)) passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ] && [ "$flaky" -le "$flaky_max" ]
}
