#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs Active Messages programs that others wrote, as they are: the tests that came with AMUDP and AMMPI (other/amxtests in GASNet's sources), on Bellwire's start-up layer.
#
#   scripts/am-programs.sh PREFIX BELLWIRE PROGRAMS [OUT]
#
# PREFIX: an installed Bellwire (make install); BELLWIRE: the command; PROGRAMS: the directory with testam.c and the others; OUT: where to build.
set -u
[ $# -ge 3 ] || { sed -n '4,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
prefix=$(realpath "$1") bellwire=$(realpath "$2") programs=$(realpath "$3")
out=${4:-${TMPDIR:-/tmp}/am-programs.$$}
mkdir -p "$out"
here=$(cd "$(dirname "$0")/.." && pwd)
passed=0 failed=0
limit=${AM_PROGRAMS_TIMEOUT:-120}

# program, what to call the run, arguments (flags for the compiler among them)
runs() {
    cat <<'RUNS'
testping -P 1000 P
testping -B 1000 B
testping -ALL 1000 P -DONE_TO_ALL=1
testam -P 100 P
testam -B 100 B
testlatency -P 1000 P
testlatency -B 1000 B
testlatencyM -P 1000 P 4096
testbulk -P 100 10000000 P F
testbulk -B 20 1000000 B H
testbounce -P 1 P
testgetput -W 1000
testreadwrite -W 1000
testreduce -W
testoutput -W 10
RUNS
}

build() { # name, binary, flags
    ${CC:-cc} -O2 -std=gnu11 -DAMMPI "${@:3}" -I"$here/tests/am/others" -I"$prefix/include" -I"$programs" "$programs/$1.c" "$programs/apputils.c" -o "$2" \
        -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -lbellwire_am -lpthread
}

one() { # processes, label, binary, arguments
    local log=$out/$2.$1.log
    if timeout -k 5 "$limit" "$bellwire" run -n "$1" "$3" "${@:4}" > "$log" 2>&1 && ! grep -qiE 'error|mismatch|fail' "$log"; then
        passed=$((passed + 1)); echo "ok      $2 on $1 processes"
    else
        failed=$((failed + 1)); echo "FAILED  $2 on $1 processes"; tail -5 "$log"
    fi
}

while read -r name label arguments; do
    flags=() plain=()
    for word in $arguments; do case $word in -D*) flags+=("$word") ;; *) plain+=("$word") ;; esac; done
    binary=$out/$name$label
    if ! build "$name" "$binary" "${flags[@]}" > "$binary.cc.log" 2>&1; then
        failed=$((failed + 1)); echo "FAILED  $name does not compile"; tail -5 "$binary.cc.log"; continue
    fi
    for processes in ${AM_PROGRAMS_PROCESSES:-1 2 4}; do
        [ "$name" = testbounce ] && [ "$processes" -gt 2 ] && continue # a gigabyte for each buffer
        one "$processes" "$name$label" "$binary" "${plain[@]}"
    done
done < <(runs)
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
