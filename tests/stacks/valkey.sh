#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Valkey, a key-value store, over RDMA on Bellwire's device, by its own test client:
#   VALKEY=DIR tests/stacks/valkey.sh PREFIX OUT       PREFIX: where `make install` put everything
# DIR is the folder of its sources, where it was built: Debian 12 has no package. Version 8.1:
#   make BUILD_RDMA=module MALLOC=libc && make -C tests/rdma
# The client sets and gets some thousand values from one and from four threads, which the server
# also saves meanwhile: it forks with its registered memory.
set -u
valkey=${VALKEY:-}
if [ ! -x "$valkey/src/valkey-server" ] || [ ! -e "$valkey/src/valkey-rdma.so" ] || [ ! -x "$valkey/tests/rdma/rdma-test" ]; then
    echo "SKIPPED Valkey over RDMA: it is not there (VALKEY=DIR says where it was built)"
    exit 0
fi
prefix=$(realpath "$1") valkey=$(realpath "$valkey")
mkdir -p "$2"
out=$(realpath "$2")
unset BELLWIRE_ADDRESS LD_PRELOAD
export BELLWIRE_DEVICE_FILE=
passed=0 failed=0 port=$((20000 + RANDOM % 20000))
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
store() { # threads, variables
    local threads=$1 server code
    shift
    local device=(timeout -k 5 150 env "$@" "$prefix/bin/bellwire" run --verbs)
    port=$((port + 2))
    (cd "$place" && exec "${device[@]}" "$valkey/src/valkey-server" --protected-mode no --save "" --loadmodule "$valkey/src/valkey-rdma.so" bind=127.0.0.1 port=$port --port $((port + 1))) >"$out/valkey-server.log" 2>&1 &
    server=$!
    for _ in $(seq 300); do
        grep -q 'Ready to accept connections rdma' "$out/valkey-server.log" && break
        sleep 0.1
    done
    "${device[@]}" "$valkey/tests/rdma/rdma-test" --thread "$threads" -h 127.0.0.1 -p $port >"$out/valkey-client.log" 2>&1
    code=$?
    kill $server
    wait $server
    if [ $code = 0 ] && ! grep -q FAILED "$out/valkey-client.log" && grep -q 'GET .*\[OK\]' "$out/valkey-client.log" && grep -q 'DB saved on disk' "$out/valkey-server.log"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED valkey, $threads threads $* ($code): $(tail -qn 3 "$out/valkey-client.log" "$out/valkey-server.log" | tr '\n' ' ' | cut -c 1-500)"
    fi
}
store 1
store 4
store 4 BELLWIRE_SHM=off BELLWIRE_UDP=on BELLWIRE_FAULTS=loss=0.01,seed=7
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
