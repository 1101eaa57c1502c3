#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# RDMA programs of the distribution, as they are, on the library:
#   tests/verbs/check.sh ARCHIVE OUT [long]
# ARCHIVE is what Cargo makes of ffi/verbs. Prints a line per program that failed, and how many were
# well.
set -u
archive=$1 out=$2 mode=${3:-short}
here=$(cd "$(dirname "$0")" && pwd)
source=$here/../../ffi/verbs
mkdir -p "$out"
out=$(realpath "$out")
for program in ibv_devinfo ib_send_bw qperf; do
    if ! command -v $program >/dev/null 2>&1 || [ ! -e /usr/include/infiniband/verbs.h ]; then
        echo "SKIPPED verbs: no $program, or no libibverbs-dev"
        exit 0
    fi
done
"$source/link.sh" "$archive" "$out" || exit 1
preloaded=$out/libbellwire-verbs.so
passed=0 failed=0
ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAILED $*"; }
# shellcheck disable=SC1091
. "$here/pairs.sh"

# ---- the libraries: symbols, shapes
symbols() { readelf --dyn-syms -W "$1" | awk '$7 != "UND" && $8 ~ /@@IBVERBS/ {sub("@@", " ", $8); print $8}' | sort; }
symbols_are() { # library, lists
    local library=$1
    shift
    awk '{print $1 " " $2}' "$@" | sort | diff - <(symbols "$library") >"$out/symbols.diff"
}
if symbols_are "$out/libbellwire-verbs.so" "$source/symbols.txt"; then ok; else bad symbols of libbellwire-verbs.so; fi
# libibverbs.so.1 has names that nothing calls, and versions. The other one stands before it.
if symbols_are "$out/bellwire-verbs/libibverbs.so.1" "$source/unused.txt"; then ok; else bad symbols of libibverbs.so.1; fi
versions() { readelf -V -W "$1" | sed -nE 's/.* Name: (IBVERBS_[A-Z0-9_.]+).*/\1/p' | sort -u; }
if [ "$(versions "$out/bellwire-verbs/libibverbs.so.1")" = "$(awk '{print $2} END {print "IBVERBS_1.0"}' "$source/symbols.txt" "$source/unused.txt" | sort -u)" ]; then ok; else bad versions of libibverbs.so.1; fi
if readelf -d "$out/bellwire-verbs/libibverbs.so.1" | grep -q 'FILTER.*\[libbellwire-verbs\.so\]'; then ok; else bad "libibverbs.so.1 is no filter of libbellwire-verbs.so"; fi
# The second versions of names, for programs of 2006.
older_are() { readelf --dyn-syms -W "$1" | sed -nE 's/.* (\w+)@IBVERBS_1.0( .*)?$/\1/p' | sort | diff - "$source/older.txt" >"$out/symbols.diff"; }
if older_are "$out/libbellwire-verbs.so"; then ok; else bad second versions of names: "$(cat "$out/symbols.diff")"; fi
# Every public name of the distribution's libibverbs, with each of its versions.
public() { readelf --dyn-syms -W "$1" | sed -nE 's/.* (\w+)@+(IBVERBS_[0-9.]+).*/\1 \2/p' | sort -u; }
genuine=$(LC_ALL=C ldconfig -p | awk '/libibverbs\.so\.1 / {print $NF; exit}')
lacking=$(comm -23 <(public "${genuine:-/dev/null}" | grep -v '^ibv_register_driver') <(public "$out/libbellwire-verbs.so"))
if [ -n "$genuine" ] && [ -z "$lacking" ]; then ok; else bad "symbols that $genuine has and we have not: $lacking"; fi
{
    echo '#include <stddef.h>'
    sed -nE 's/^    (Ibv\w+|VerbsContext) ([0-9]+) \{ (.*) \};/\1 \2 \3/p' "$source/src/layout.in" | while read -r type size fields; do
        name=$(grep -E "^$type " "$here/names.txt" | cut -d' ' -f2)
        echo "_Static_assert(sizeof(struct $name) == $size, \"$name\");"
        echo "$fields" | tr ',' '\n' | while read -r field offset; do
            echo "_Static_assert(offsetof(struct $name, $field) == $offset, \"$name.$field\");"
        done
    done
} >"$out/layout.h"
if cc -std=c11 -D_GNU_SOURCE -I"$out" -o "$out/layout" "$here/layout.c" 2>"$out/layout.log" && [ "$(wc -l <"$out/layout.h")" -gt 100 ]; then ok; else bad layout: "$(head -3 "$out/layout.log")"; fi

# ---- devices, by both libraries
if LD_PRELOAD=$preloaded ibv_devices | grep -q bellwire0 && LD_LIBRARY_PATH=$out/bellwire-verbs ibv_devices | grep -q bellwire0; then ok; else bad ibv_devices; fi
LD_PRELOAD=$preloaded ibv_devinfo -v >"$out/devinfo" 2>&1
if grep -q PORT_ACTIVE "$out/devinfo" && grep -q 'RoCE v2' "$out/devinfo" && grep -q ATOMIC_HCA "$out/devinfo"; then ok; else bad ibv_devinfo; fi

# ---- what the calls of a short message cost
if "$here/cost.sh" "$out" >"$out/cost.txt" 2>&1; then
    ok
    grep '^SKIPPED' "$out/cost.txt"
else
    bad "$(cat "$out/cost.txt")"
fi

# ---- the rules: errors, codes, flushing, forks, a thousand queue pairs, death of a peer; as C and as C++
if cc -std=gnu11 -Wall -Wextra -Werror -o "$out/rules" "$here/rules.c" -libverbs && c++ -x c++ -Wall -Wextra -Werror -o "$out/rules++" "$here/rules.c" -libverbs; then ok; else bad rules.c; fi
alone() { # NAME=VALUE program arguments
    if env "$1" timeout $patience "${@:2}" >"$out/alone.log" 2>&1; then ok; else bad "${@:2}: $(head -n 3 "$out/alone.log" | tr '\n' ' ')"; fi
}
alone "LD_PRELOAD=$preloaded" "$out/rules"
alone "LD_LIBRARY_PATH=$out/bellwire-verbs" "$out/rules++"
alone "LD_PRELOAD=$preloaded" "$out/rules" dies
alone "LD_PRELOAD=$preloaded" "$out/rules" reasons
alone "LD_PRELOAD=$preloaded" "$out/rules" still
BELLWIRE_MODE=guarded alone "LD_PRELOAD=$preloaded" "$out/rules"

# ---- newer interfaces; events, order, unreliable services: by both libraries, with and without mapped memory, and by packets
for program in newer events objects groups import waiting; do
    if cc -std=gnu11 -Wall -Wextra -Werror -o "$out/$program" "$here/$program.c" -libverbs && c++ -x c++ -Wall -Wextra -Werror -o "$out/$program++" "$here/$program.c" -libverbs; then ok; else bad "$program.c"; fi
    alone "LD_PRELOAD=$preloaded" "$out/$program"
    alone "LD_LIBRARY_PATH=$out/bellwire-verbs" "$out/$program++"
    BELLWIRE_MODE=guarded alone "LD_PRELOAD=$preloaded" "$out/$program"
    BELLWIRE_SHM=off BELLWIRE_UDP=on alone "LD_PRELOAD=$preloaded" "$out/$program"
done

# ---- memory that is unmapped while it is registered: by a peer's requests nobody is killed
if cc -std=gnu11 -Wall -Wextra -Werror -o "$out/unmapped" "$here/unmapped.c" -libverbs && c++ -x c++ -Wall -Wextra -Werror -o "$out/unmapped++" "$here/unmapped.c" -libverbs; then ok; else bad unmapped.c; fi
alone "LD_PRELOAD=$preloaded" "$out/unmapped" kept
alone "LD_LIBRARY_PATH=$out/bellwire-verbs" "$out/unmapped++" kept
export BELLWIRE_ADOPT=never
alone "LD_PRELOAD=$preloaded" "$out/unmapped"
BELLWIRE_MODE=guarded alone "LD_PRELOAD=$preloaded" "$out/unmapped"
BELLWIRE_SHM=off BELLWIRE_UDP=on alone "LD_PRELOAD=$preloaded" "$out/unmapped"
unset BELLWIRE_ADOPT

# ---- a program of 2006, bound to the second versions of names: by both libraries
if cc -std=gnu11 -Wall -Wextra -Werror -o "$out/older" "$here/older.c" -libverbs; then ok; else bad older.c; fi
alone "LD_PRELOAD=$preloaded" "$out/older"
alone "LD_LIBRARY_PATH=$out/bellwire-verbs" "$out/older"
BELLWIRE_MODE=guarded alone "LD_PRELOAD=$preloaded" "$out/older"

# ---- faults on purpose: the program sees each; the same seed, the same story
if cc -std=gnu11 -Wall -Wextra -Werror -o "$out/faults" "$here/faults.c" -libverbs; then ok; else bad faults.c; fi
trace() { # file, seed, trace or slowly
    BELLWIRE_FAULTS=rnr=0.2:5,unanswered=0.03,denied=0.1,qp=0.03,seed=$2 LD_PRELOAD=$preloaded timeout $patience "$out/faults" "${3:-trace}" >"$out/$1" 2>&1
}
if trace trace-1 7 && trace trace-2 7 && trace trace-3 8 && cmp -s "$out/trace-1" "$out/trace-2" && ! cmp -s "$out/trace-1" "$out/trace-3"; then ok; else bad "faults trace: $(tail -n 1 "$out/trace-1")"; fi
# Requests that are flushed have their fates too, whether or not they would have left in time.
if trace trace-4 7 slowly && cmp -s "$out/trace-1" "$out/trace-4"; then ok; else bad "faults trace, one by one: $(diff "$out/trace-1" "$out/trace-4" | head -n 2 | tr '\n' ' ')"; fi
for what in 'RNR retry' 'transport retry' 'remote access error' 'Flushed' 'at the sender: local work queue catastrophic' 'at the receiver: local access violation' success; do
    if grep -q "$what" "$out/trace-1"; then ok; else bad "faults trace: no $what"; fi
done
BELLWIRE_FAULTS=port=300ms..700ms alone "LD_PRELOAD=$preloaded" "$out/faults" port
BELLWIRE_FAULTS=port=300ms.. alone "LD_PRELOAD=$preloaded" "$out/faults" impatient
died() { LD_PRELOAD=$preloaded timeout $patience "$out/faults" death "death=0.05,seed=$1"; }
if one=$(died 3) && two=$(died 3) && three=$(died 4) && [ "$one" = "$two" ] && [ "$one" != "$three" ]; then ok; else bad "faults death: $one, $two, $three"; fi
BELLWIRE_FAULTS=rnr=0.2:2,seed=1 pair ibv_rc_pingpong -c -n 500

# ---- the strict mode: each rule broken is reported by name, kept is not; programs that keep them all give no report
if cc -std=gnu11 -Wall -Wextra -Werror -o "$out/strict" "$here/strict.c" -libverbs; then ok; else bad strict.c; fi
for pair in memory:memory-in-use registration:memory-in-use receives:missing-receive given-up:missing-receive keys:key domains:key rights:key queue:send-queue-full route-room:grh-room lost-datagram:missing-receive left:completions-left; do
    what=${pair%:*}
    rm -f "$out/reports"
    BELLWIRE_VERBS_STRICT=json:$out/reports alone "LD_PRELOAD=$preloaded" "$out/strict" "$what" bad
    if grep -q "\"rule\":\"${pair#*:}\"" "$out/reports"; then ok; else bad "strict: $what is not reported"; fi
    rm -f "$out/reports"
    BELLWIRE_VERBS_STRICT=text:$out/reports alone "LD_PRELOAD=$preloaded" "$out/strict" "$what" good
    if [ ! -s "$out/reports" ]; then ok; else bad "strict: $what: $(head -n 1 "$out/reports")"; fi
done
rm -f "$out/reports"
strictly() { BELLWIRE_VERBS_STRICT=text:$out/reports pair "$@"; }
strictly ibv_rc_pingpong -c
strictly ibv_uc_pingpong -g 0
strictly ibv_ud_pingpong -g 0
strictly ibv_srq_pingpong -g 0
strictly ib_send_lat -n 300
strictly ib_send_bw -n 500
strictly ib_write_bw -n 500 -q 4 -b
strictly ib_read_bw -n 300
strictly ib_atomic_bw -n 300
strictly ib_send_bw -n 500 -c UD
if [ ! -s "$out/reports" ]; then ok; else bad "strict: programs that keep the rules: $(head -n 3 "$out/reports")"; fi

# ---- libibverbs' examples
pair ibv_rc_pingpong
pair ibv_rc_pingpong -g 0 -e -c -s 10000
pair ibv_rc_pingpong -c -s 1 -n 2000
pair ibv_rc_pingpong -c -s 1048577 -n 50
pair ibv_rc_pingpong -N -n 500
pair ibv_rc_pingpong -t -n 500
pair ibv_uc_pingpong -g 0
pair ibv_uc_pingpong -e -s 100000
pair ibv_ud_pingpong -g 0
pair ibv_ud_pingpong -g 0 -e -s 4096
pair ibv_srq_pingpong -g 0
pair ibv_srq_pingpong -e -q 8
pair ibv_xsrq_pingpong -g 0 -n 200
by_library ibv_rc_pingpong -g 0

# ---- perftest
pair ib_send_lat -n 500
pair ib_send_bw -n 500
pair ib_read_lat -n 500
pair ib_read_bw -n 500
pair ib_write_bw -n 1000 -q 16 -b
pair ib_atomic_lat -n 300
pair ib_atomic_bw -n 500 -A CMP_AND_SWAP
pair ib_send_bw -n 300 -e
pair ib_send_lat -n 300 -c UD
pair ib_send_bw -n 500 -c UD
pair ib_send_bw -n 500 -c UC
pair ib_write_lat -n 300 -c UC
pair ib_write_bw -n 500 -c UC
pair ib_send_bw -n 500 -q 4 -b -e
pair ib_send_bw -n 500 --use-srq -q 4
pair ib_read_bw -n 500 -q 4 -b
pair ib_atomic_bw -n 300 -q 4 -b
by_library ib_write_bw -n 500

# ---- by packets, as between hosts
export BELLWIRE_SHM=off BELLWIRE_UDP=on
pair ibv_rc_pingpong -g 0 -c -s 100000 -n 200
pair ibv_ud_pingpong -g 0 -n 300
pair ib_read_bw -n 300
pair ib_atomic_lat -n 300
# A program that waits for a write looks at its memory only: the answers of both sides still come with the writes, not by threads that stand in.
median() { awk '$1 ~ /^[0-9]+$/ && NF >= 4 {figure = $5} END {print figure + 0}' "$out/client.log"; }
# Beside other work a processor may be taken away in the middle, so this is measured again, twice
# at most.
for _ in 1 2 3; do
    pair ib_send_lat -n 1000
    sends=$(median)
    pair ib_write_lat -n 1000
    writes=$(median)
    if awk -v s="$sends" -v w="$writes" 'BEGIN {exit !(w > 0 && w < 10 * s)}'; then break; fi
done
if awk -v s="$sends" -v w="$writes" 'BEGIN {exit !(w > 0 && w < 10 * s)}'; then ok; else bad "by packets: a write takes $writes us, a send $sends"; fi
unset BELLWIRE_SHM BELLWIRE_UDP

# ---- qperf: a server for all of its tests
port=$((port + 1))
BELLWIRE_VERBS_STRICT=text:$out/reports LD_PRELOAD=$preloaded qperf -lp $port >"$out/qperf.log" 2>&1 &
server=$!
listens $port
qperf_test() {
    if LD_PRELOAD=$preloaded timeout $patience qperf 127.0.0.1 -lp $port -t 1 -i bellwire0:1 "$1" >"$out/client.log" 2>&1 && grep -qE 'bw|latency|msg_rate' "$out/client.log"; then ok; else bad qperf "$1: $(tail -n 2 "$out/client.log" | tr '\n' ' ')"; fi
}
tests="rc_bw rc_lat ver_rc_compare_swap ver_rc_fetch_add ud_lat"
[ "$mode" = long ] && tests="$tests rc_bi_bw rc_rdma_read_bw rc_rdma_read_lat rc_rdma_write_bw rc_rdma_write_lat rc_rdma_write_poll_lat rc_compare_swap_mr rc_fetch_add_mr uc_bw uc_lat uc_rdma_write_bw uc_rdma_write_lat ud_bw ud_bi_bw"
for t in $tests; do qperf_test "$t"; done
kill $server
wait $server 2>/dev/null
# It waits for an event before each poll, whatever the last one left; and its streams of unreliable messages do lose some. Both are reported, and nothing else is.
known='strict: completions-left:'
[ "$mode" = long ] && known="$known|strict: missing-receive:"
if ! grep -vE "$known" "$out/reports" >"$out/other-reports" 2>/dev/null; then ok; else bad "strict: qperf: $(head -n 3 "$out/other-reports")"; fi

if [ "$mode" = long ]; then
    pair ib_write_lat -n 300
    pair ib_send_bw -a -n 100
    pair ib_write_bw -a -n 100 -b
    pair ib_read_bw -a -n 100
    pair ibv_srq_pingpong -s 100000 -q 16
    pair ib_send_lat -I 60 -n 1000
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
