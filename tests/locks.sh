#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Which locks the calls of a message take in each layer, and how often; which threads a process has.
# In a build without optimization, where entering a lock is a call, callgrind counts how often the
# first instruction of each lock function runs inside the calls that the cost programs count. A
# mutex apart from the tokens' own fails the test, as does a thread beside one for each NIC. Of
# global memory by packets the instructions of this build are bounded as well: what they are in a
# release takes three minutes of a processor to build (tests/gas/cost.sh, in `make test-long`).
#   tests/locks.sh OUT      OUT: a folder; needs valgrind and strace
set -eu
cd "$(dirname "$0")/.."
out=$1 failed=0
for tool in valgrind strace; do
    command -v $tool >/dev/null || { echo "SKIPPED locks: no $tool"; exit 0; }
done
mkdir -p "$out/provider"
out=$(realpath "$out")
build=${CARGO_TARGET_DIR:-$PWD/target}/debug
cargo build -q --locked -p bellwire-verbs-c -p bellwire-fi -p bellwire-am-c
cargo build -q --locked -p bellwire-rpc --example call_cost
gas=$(cargo test --locked -p bellwire-gas --lib --no-run 2>&1 | sed -n 's/.*Executable.*(\(.*\))$/\1/p')

# NAME NICS OTHERS TOKENS ENTRIES MESSAGES FUNCTION COMMAND..: NICS threads of name `bellwire`, and
# OTHERS; at most ENTRIES of TOKENS different tokens for each message, in what FUNCTION (a pattern)
# calls.
layer() {
    local name=$1 nics=$2 others=$3 tokens=$4 entries=$5 messages=$6 function=$7
    shift 7
    timeout 100 strace -f -qq -e trace=prctl -e signal=none -o "$out/$name.threads" "$@" >"$out/$name.log" 2>&1 || { echo "FAILED locks: $name, see $out/$name.log"; failed=1; return; }
    timeout 200 valgrind --tool=callgrind --demangle=no --dump-instr=yes --compress-pos=no --compress-strings=no --fair-sched=yes \
        --callgrind-out-file="$out/$name.out" --toggle-collect="$function" "$@" >"$out/$name.log" 2>&1 || { echo "FAILED locks: $name, see $out/$name.log"; failed=1; return; }
    local threads rest
    threads=$(grep -c 'PR_SET_NAME, "bellwire"' "$out/$name.threads" || true)
    rest=$(sed -nE 's/.*PR_SET_NAME, "(bellwire-[^"]*)".*/\1/p' "$out/$name.threads" | sort | tr '\n' ' ')
    awk -v name="$name" -v tokens="$tokens" -v entries="$entries" -v messages="$messages" '
        /^fn=/ { fn = substr($0, 4) }
        /^calls=/ { getline; next }
        /^0x/ {
            if (!(fn in first) || length($1) < length(first[fn]) || (length($1) == length(first[fn]) && $1 < first[fn])) { first[fn] = $1; n[fn] = 0 }
            if ($1 == first[fn]) n[fn] += $3
        }
        END {
            for (f in n) {
                if (f ~ /Token.*[0-9](try_)?enter17h/) { sum += n[f]; if (n[f] > messages / 100) kinds++ }
                else if (f ~ /Token.*enter_slow/) slow += n[f]
                else if (f ~ /(Mutex|RwLock).*[0-9](lock|read|write|try_lock)17h|pthread_(mutex|rwlock|spin).*lock/ && f !~ /unlock/) mutexes += n[f]
            }
            printf "%-6s %d tokens, entered %.2f times for a message; other locks: %.2f\n", name, kinds, sum / messages, (mutexes - slow) / messages
            exit !(kinds == tokens && sum <= entries * messages && mutexes - slow <= messages / 100)
        }' "$out/$name.out" || { echo "FAILED locks: $name: expected $tokens tokens, at most $entries entries, no other lock"; failed=1; }
    instructions=$(($(sed -n 's/^totals: \([0-9]*\).*/\1/p' "$out/$name.out") / messages))
    [ "$threads" = "$nics" ] && [ "$rest" = "$others" ] || { echo "FAILED locks: $name: $threads helper threads for $nics NICs; others: $rest"; failed=1; }
}

# A message of 8 bytes and what the ping-pong of each cost program does for it: the NIC's token, and
# above it a queue's list of endpoints (fi), a bundle (am), a bundle and a node (rpc).
if echo '#include <infiniband/verbs.h>' | cc -E - >/dev/null 2>&1; then
    ffi/verbs/link.sh "$build/libbellwire_verbs_c.a" "$out"
    cc -std=gnu11 -Wno-unused-function -O1 -o "$out/verbs" tests/verbs/cost.c -libverbs
    LD_PRELOAD=$out/libbellwire-verbs.so layer verbs 2 "bellwire-port " 1 5.5 4000 'counted_*' "$out/verbs"
else
    echo "SKIPPED verbs: no libibverbs-dev"
fi
if echo '#include <rdma/fabric.h>' | cc -E - >/dev/null 2>&1; then
    cp "$build/libbellwire_fi.so" "$out/provider/libbellwire-fi.so"
    cc -O1 -o "$out/fi" tests/fi/cost.c -lfabric
    FI_PROVIDER_PATH=$out/provider layer fi 2 "" 2 4.5 4000 'counted_*' "$out/fi"
else
    echo "SKIPPED fi: no libfabric-dev"
fi
make -s -C tests/am LIBAM="$build/libbellwire_am.so" OUT="$out/am" "$out/am/cost"
layer am 1 "" 2 20 4000 'counted_*' "$out/am/cost"
layer gas 2 "" 1 9 4000 '*counted_*' "$gas" --ignored --exact net::tests::cost::cost
echo "gas: $instructions instructions for a put, a get and its answer, without optimization"
[ "$instructions" -le "${GAS_MOST:-55000}" ] || { echo "FAILED locks: gas: more than ${GAS_MOST:-55000} instructions"; failed=1; }
layer rpc 1 "" 3 22 20000 '*round_trips*' "$build/examples/call_cost"
[ $failed = 0 ] && echo "locks: all well"
exit $failed
