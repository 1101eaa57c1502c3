#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Tries scripts/parts.sh with made-up parts: they pass, fail, fail at first, are skipped.
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0 checks=0

# Runs the lines of standard input as a test run; its output is in $work/out, its status in $status.
run() { # [VARIABLE=value ..]
    rm -rf "$work/logs" "$work/counts"
    mkdir -p "$work/logs" "$work/counts"
    {
        echo "log=$work/logs counts=$work/counts"
        echo ". $here/parts.sh"
        # A command that has run N times fails if N is at most its second word.
        cat <<'HELPERS'
fails_first() { # name times
    local n=$(($(cat "$counts/$1" 2>/dev/null || echo 0) + 1))
    echo $n >"$counts/$1"
    echo "try $n${PART_FIRST:+ after $PART_FIRST}"
    [ $n -gt "$2" ] || { echo "FAILED: made up, try $n"; return 1; }
    echo "all well: $1"
}
HELPERS
        cat
        echo finish
    } >"$work/script"
    env -u RETRIES "$@" bash "$work/script" >"$work/out" 2>&1
    status=$?
}
check() { # what, command ..
    checks=$((checks + 1))
    local what=$1
    shift
    "$@" && return
    failed=$((failed + 1))
    echo "FAILED: $what; the run said:"
    sed 's/^/    /' "$work/out"
}
says() { grep -qF -- "$1" "$work/out"; }
says_not() { ! grep -qF -- "$1" "$work/out"; }
tries() { [ "$(cat "$work/counts/$1" 2>/dev/null || echo 0)" = "$2" ]; }

run <<'E1'
part good fails_first good 0
certain sure fails_first sure 0
skip absent "no such program"
E1
check "parts that pass make a run that passes" test $status = 0
check "a part's last word is shown" says "all well: good"
check "the totals count each kind" says "2 passed, 0 failed, 1 skipped"
check "a part that passes runs once" tries good 1

run <<'E2'
part once fails_first once 1
part good fails_first good 0
E2
check "a part that fails once does not fail the run" test $status = 0
check "it is called flaky" says "FLAKY   once"
check "what went wrong at first is shown" says "FAILED: made up, try 1"
check "the first log is kept" grep -q "try 1" "$work/logs/once.first.log"
check "the second log is the part's" grep -q "try 2 after $work/logs/once.first.log" "$work/logs/once.log"
check "it is counted apart" says "flaky: 1 of the 2 parts that passed"

run <<'E3'
part never fails_first never 9
part good fails_first good 0
E3
check "a part that fails twice fails the run" test $status != 0
check "it has two tries and no third" tries never 2
check "later parts run all the same" says "ok      good"

run <<'E4'
certain never fails_first never 1
E4
check "a certain part that fails fails the run" test $status != 0
check "it has one try" tries never 1

run RETRIES=0 <<'E5'
part once fails_first once 1
E5
check "RETRIES=0 forbids a second try" test $status != 0
check "there was none" tries once 1

run <<'E6'
part a fails_first a 1
part b fails_first b 1
E6
check "two flaky parts do not fail the run" test $status = 0
run <<'E7'
part a fails_first a 1
part b fails_first b 1
part c fails_first c 1
E7
check "a third flaky part fails the run" test $status != 0
check "the run says why" says "more than 2 flaky parts"
check "nothing is called failed" says_not "FAILED  "

run <<'E8'
one() { part a until_there b; part c fails_first c 1; skip d "no such program"; }
two() { touch "$counts/b"; certain e false; }
until_there() { local i; for i in $(seq 600); do [ -e "$counts/$1" ] && return; sleep 0.1; done; return 1; }
lane one
lane two
lanes_end
part last fails_first last 0
E8
check "lanes run beside each other, and all their parts count" says "3 passed, 1 failed, 1 skipped"
check "a flaky part of a lane counts" says "flaky: 1 of the 3 parts that passed"
check "a part that fails in a lane fails the run" test $status != 0
check "the time of processors is told" says " s of processors)"
run LANES=3 <<'E8b'
one() { touch "$counts/a"; part a until_there b; }
two() { touch "$counts/b"; part b until_there c; }
three() { touch "$counts/c"; part c until_there a; }
until_there() { local i; for i in $(seq 600); do [ -e "$counts/$1" ] && return; sleep 0.1; done; return 1; }
lane one
lane two
lane three
E8b
check "three lanes run beside each other" says "3 passed, 0 failed, 0 skipped"
run LANES=1 <<'E9'
one() { sleep 0.3; touch "$counts/done"; part a true; }
two() { part b test -e "$counts/done"; }
lane one
lane two
E9
check "LANES=1 runs lanes one after another" says "2 passed, 0 failed, 0 skipped"

# A run that is ended ends its lanes.
mkdir -p "$work/logs"
cat >"$work/script" <<E10
log=$work/logs
. $here/parts.sh
one() { part slow sleep 1000.$$; }
two() { touch $work/begun; while :; do sleep 0.1; done; }
lane one
lane two
lanes_end
E10
bash "$work/script" >"$work/out" 2>&1 &
run=$!
until [ -e "$work/begun" ] && [ -e "$work/logs/slow.log" ]; do sleep 0.1; done
slow=$(ps -o pid=,args= -e | awk '$2 == "sleep" && $3 == "1000.'$$'" {print $1}')
kill -TERM $run
wait $run
check "a run that is ended says so" test $? = 143
gone() { local i; for i in $(seq 100); do kill -0 $slow 2>/dev/null || return 0; sleep 0.1; done; return 1; }
check "its lanes end" gone

[ $failed = 0 ] && echo "all well: $checks checks of scripts/parts.sh"
[ $failed = 0 ]
