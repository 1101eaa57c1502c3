#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Active Messages on the mappings to VIs (BELLWIRE_AM): the tests of am.h on each, over shared
# memory, in guarded mode, over UDP, and over UDP with faults; changes of tags and segments; kills;
# storms with few credits.
#   tests/am/mappings.sh BELLWIRE OUT [long]     BELLWIRE: the command; OUT: as the Makefile's
# libvipl lies beside libbellwire_am, or BELLWIRE_VIPL names it.
set -u
[ $# -ge 2 ] || { sed -n '6,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
bellwire=$(realpath "$1") out=$(realpath "$2") long=${3:-}
cd "$out" || exit 1
udp='BELLWIRE_SHM=off BELLWIRE_UDP=on'
faults='BELLWIRE_FAULTS=loss=0.02,dup=0.02,reorder=0.02:300us,seed=3'
guarded='BELLWIRE_MODE=guarded'
# Long enough for a busy machine.
patience=300

passed=0 failed=0
check() { # environment, command ..
    # shellcheck disable=SC2086
    if timeout -k 5 $patience env BELLWIRE_AM=$mapping $1 "${@:2}" >mappings.log 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED BELLWIRE_AM=$mapping $1 ${*:2}: $?"
        tail -n 20 mappings.log
    fi
}
# What a mapping cannot be is refused, with the reason.
refused() { # environment, words of the reason
    # shellcheck disable=SC2086
    env $1 ./cost >mappings.log 2>&1
    if grep -q "AM_Init: .*$2" mappings.log; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $1 is not refused for '$2'"
    fi
}

refused BELLWIRE_AM=v9 'BELLWIRE_AM=v9'
refused 'BELLWIRE_AM=v3 BELLWIRE_AM_CREDITS=0' BELLWIRE_AM_CREDITS=0
refused 'BELLWIRE_AM=v3 BELLWIRE_VIPL=/nowhere/libvipl.so.1' /nowhere
mapping=native
check '' ./changes
check "$guarded" ./changes
check "$udp" ./changes
check '' "$bellwire" run -n 3 ./storm 3000 move
for mapping in v3 v2 v1; do
    check '' ./calls
    check '' ./changes
    check "$guarded" ./changes
    for way in '' "$guarded" "$udp" "$udp $faults"; do
        check "$way" ./exchange
        check "$way" "$bellwire" run -n 3 ./storm 2000
    done
    check '' ./liar 100
    check "$guarded" ./liar 100
    check '' ./mortality
    check "$guarded" ./mortality
    check '' "$bellwire" run -n 4 ./remote 50
    check "$udp" "$bellwire" run -n 2 ./remote 50 wait
    check '' "$bellwire" run -n 2 ./storm 2000 move
    check BELLWIRE_AM_CREDITS=1 "$bellwire" run -n 3 ./storm 2000 move
    [ "$long" = long ] || continue
    for credits in 1 2 8 64 256; do
        for way in '' "$guarded" "$udp" "$udp $faults"; do
            check "$way BELLWIRE_AM_CREDITS=$credits" ./exchange
            check "$way BELLWIRE_AM_CREDITS=$credits" "$bellwire" run -n 4 ./storm 5000
            check "$way BELLWIRE_AM_CREDITS=$credits" "$bellwire" run -n 3 ./storm 3000 move
            check "$way BELLWIRE_AM_CREDITS=$credits" "$bellwire" run -n 4 ./remote 100
            check "$way BELLWIRE_AM_CREDITS=$credits" "$bellwire" run -n 2 ./remote 100 wait
        done
        check "BELLWIRE_AM_CREDITS=$credits" ./mortality
        check "$guarded BELLWIRE_AM_CREDITS=$credits" ./mortality
        check "BELLWIRE_AM_CREDITS=$credits" ./liar 1000
        check "$guarded BELLWIRE_AM_CREDITS=$credits" ./liar 1000
    done
    check 'BELLWIRE_AM_CREDITS=2' "$bellwire" run -n 12 ./storm 1000
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
