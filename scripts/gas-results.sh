#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# All examples of Split-C have the same results whichever way their processes reach each other: on each number of processes, what is printed over shared memory is compared with what is printed by packets (UDP over
# loopback), by VIs of libvipl in both ways (BELLWIRE_GAS), between two network namespaces, and the same with packets lost, doubled and overtaken. Every line has a number of all bytes of the result (examples/splitc/result.h); times are left out.
#   gas-results.sh EXAMPLES LIBDIR BELLWIRE [long]      1, 2, 4, 8 and 16 processes; without `long` 2 and 4, smaller. With ALONE=1 on this host alone.
set -u
examples=$(cd "$1" && pwd) || exit 1
bellwire=$3 size=${4:-short}
export LD_LIBRARY_PATH=$2
compared=0 differ=0
faults=loss=0.02,dup=0.02,reorder=0.02:300us,seed=$$
work=$(mktemp -d) || exit 1
# Also where two hosts cannot be made, and the rest is left out.
trap 'rm -rf "$work"; [ $differ = 0 ] || exit 1' EXIT

numbers=(2 4)
[ "$size" = long ] && numbers=(1 2 4 8 16)
# With more processes than processors, who waits for a word waits for others to have their turns: less of it then.
programs() { # number of processes
    if [ "$size" = long ] && [ "$1" -le 4 ]; then
        printf '%s\n' "em3d all 400 8 30 4" "cannon 60" "lu 96" "fft 12" "radix 5000" "sample 20000" "components 300 400"
    elif [ "$1" -le 4 ]; then
        printf '%s\n' "em3d all 60 4 30 2" "cannon 24" "lu 32" "fft 8" "radix 800" "sample 2000" "components 60 80"
    else
        printf '%s\n' "em3d all 40 4 30 2" "cannon 24" "lu 32" "fft 8" "radix 500" "sample 2000" "components 24 30"
    fi
}
# The output, without parts that differ from run to run: times, and the rounds of components.
results() { sed -E 's/(, result [0-9a-f]{16}):.*, /\1: /'; }
compare() { # way, number of processes, program and arguments, status, what it printed
    results <"$5" >"$work/said"
    compared=$((compared + 1))
    local reference="$work/reference.$2.${3%% *}"
    [ "$1" = memory ] && cp "$work/said" "$reference"
    if [ "$4" != 0 ] || ! grep -q 'result [0-9a-f]\{16\}: right$' "$work/said" || ! cmp -s "$reference" "$work/said"; then
        differ=$((differ + 1))
        echo "FAILED $3 on $2 processes, $1 (status $4)"
        diff "$reference" "$work/said" | head -n 6 | sed 's/^/    /'
    fi
}
runs() { # way, command..: all programs on all numbers of processes; the command has the number of processes and the program behind it
    local way=$1 n line began=$SECONDS
    shift
    for n in "${numbers[@]}"; do
        while IFS= read -r line; do
            # shellcheck disable=SC2086
            "$@" "$n" "$examples"/$line >"$work/log" 2>"$work/errors" </dev/null
            compare "$way" "$n" "$line" $? "$work/log"
            [ -s "$work/errors" ] && head -n 3 "$work/errors" | sed 's/^/    /'
        done < <(programs "$n")
    done
    echo "$way: ${numbers[*]} processes, $((SECONDS - began)) s"
}
here() { timeout -s KILL 300 "$bellwire" run -n "$@"; }
runs memory here
BELLWIRE_SHM=off runs packets here
BELLWIRE_SHM=off BELLWIRE_FAULTS=$faults runs "packets, some lost, doubled, overtaken (seed $$)" here
vipl=$(dirname "$(realpath "$(command -v "$bellwire")")")/libvipl.so
[ -e "$vipl" ] && export BELLWIRE_VIPL=${BELLWIRE_VIPL:-$vipl}
if [ "$size" = long ]; then
    for version in vi1 vi2; do
        BELLWIRE_GAS=$version runs "VIs ($version)" here
        BELLWIRE_GAS=$version BELLWIRE_MODE=guarded runs "VIs ($version), guarded" here
        BELLWIRE_GAS=$version BELLWIRE_SHM=off BELLWIRE_UDP=on runs "VIs ($version) over UDP" here
        BELLWIRE_GAS=$version BELLWIRE_SHM=off BELLWIRE_UDP=on BELLWIRE_FAULTS=$faults runs "VIs ($version) over UDP, packets lost, doubled, overtaken (seed $$)" here
    done
else
    all=("${numbers[@]}") numbers=(2)
    BELLWIRE_GAS=vi1 runs "VIs (vi1)" here
    BELLWIRE_GAS=vi2 BELLWIRE_SHM=off BELLWIRE_UDP=on BELLWIRE_FAULTS=$faults runs "VIs (vi2) over UDP, packets lost, doubled, overtaken (seed $$)" here
    numbers=("${all[@]}")
fi
[ -z "${ALONE:-}" ] || exit $((differ != 0))
set -- "$1" "$2"
source "$(dirname "$0")/two-hosts.sh"
source "$(dirname "$0")/jobs-on-hosts.sh"
trap 'cleanup; rm -rf "$work"' EXIT
runs "two hosts" job
BELLWIRE_FAULTS=$faults runs "two hosts, packets lost, doubled, overtaken (seed $$)" job
BELLWIRE_SHM=off runs "two hosts, memory shared by nobody" job
[ "$size" = long ] && for version in vi1 vi2; do BELLWIRE_GAS=$version runs "two hosts, VIs ($version)" job; done
echo "$((compared - differ)) passed, $differ failed"
[ $differ = 0 ] && echo "all results are the same"
exit $((differ != 0))
