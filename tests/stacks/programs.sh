#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Programs on libibverbs and librdmacm that are neither UCX nor libfabric, over Bellwire's device:
#   tests/stacks/programs.sh PREFIX OUT       PREFIX: where `make install` put everything
# Gloo's ibverbs transport, QEMU's migration by rdma, librpma. They name the device or transport by
# themselves and have no other way. They run as an ordinary user.
set -u
prefix=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
here=$(cd "$(dirname "$0")" && pwd)
unset BELLWIRE_ADDRESS LD_PRELOAD
export BELLWIRE_DEVICE_FILE=
passed=0 failed=0 patience=$("$here/../patience.sh" 150)
port=$((20000 + $$ % 20000))
ok() { passed=$((passed + 1)); }
end() { # what, code, file ..: the last lines that say why
    failed=$((failed + 1))
    echo "FAILED $1 ($2): $(tail -qn 4 "${@:3}" | tr '\n' ' ' | cut -c 1-700)"
}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir -p "$place/bin" "$place/lib" "$place/home"
cp "$prefix/bin/bellwire" "$place/bin/"
cp -r "$prefix/lib/bellwire" "$place/lib/bellwire"
cp "$here/migrate.py" "$place/"
chmod -R a+rX "$place"
user=()
if [ "$(id -u)" = 0 ]; then
    chmod a+rwx "$place/home"
    user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi
export HOME=$place/home TMPDIR=$place/home
bellwire=$place/bin/bellwire
ordinary() { (cd "$place/home" && exec timeout -k 5 $patience "${user[@]}" "$@"); }

# ---- Gloo
gloo() { # ranks
    local rank code=0 pids=() d
    d=$(mktemp -d -p "$place/home")
    chmod a+rwx "$d"
    for rank in $(seq 0 $(($1 - 1))); do
        ordinary "$bellwire" run --verbs "$place/bin/all_reduce" "$rank" "$1" "$d" >"$out/gloo-$rank.log" 2>&1 &
        pids+=($!)
    done
    for rank in "${!pids[@]}"; do
        wait "${pids[$rank]}" && grep -q '^all well' "$out/gloo-$rank.log" || code=1
    done
    if [ $code = 0 ]; then ok; else end "gloo: all-reduces of $1 ${BELLWIRE_FAULTS:-}" $code "$out"/gloo-?.log; fi
}
if [ -f /usr/include/gloo/transport/ibverbs/device.h ] && [ -f /usr/include/infiniband/verbs.h ]; then
    if g++ -O1 -std=c++14 -w -o "$place/bin/all_reduce" "$here/all_reduce.cc" -lgloo -libverbs -lpthread >"$out/gloo-build.log" 2>&1; then
        gloo 2
        gloo 4
        BELLWIRE_SHM=off BELLWIRE_UDP=on BELLWIRE_FAULTS=loss=0.01,seed=$$ gloo 4
    else
        end "gloo: all_reduce.cc does not build" 1 "$out/gloo-build.log"
    fi
else
    echo "SKIPPED Gloo: no libgloo-dev and libibverbs-dev"
fi

# ---- QEMU
migrate() { # [pin]
    local d code
    d=$(mktemp -d -p "$place/home")
    chmod a+rwx "$d"
    port=$((port + 1))
    ordinary python3 "$place/migrate.py" "$bellwire" "$d" $port "$@" >"$out/migrate.log" 2>&1
    code=$?
    rm -rf "$d"
    if [ $code = 0 ] && grep -q '^all well' "$out/migrate.log"; then ok; else end "QEMU's migration $*" $code "$out/migrate.log"; fi
}
if command -v qemu-system-x86_64 >/dev/null 2>&1 && ldd "$(command -v qemu-system-x86_64)" | grep -q librdmacm; then
    PATH=/usr/bin:$PATH migrate
    PATH=/usr/bin:$PATH migrate pin
else
    echo "SKIPPED QEMU's migration by rdma: no qemu-system-x86"
fi

# ---- librpma
remote_memory() { # variables
    local server code served
    port=$((port + 1))
    (ordinary env "$@" "$bellwire" run --verbs "$place/bin/rpma" server 127.0.0.1 $port) >"$out/rpma-server.log" 2>&1 &
    server=$!
    for _ in $(seq 300); do
        grep -q listening "$out/rpma-server.log" && break
        sleep 0.1
    done
    (ordinary env "$@" "$bellwire" run --verbs "$place/bin/rpma" client 127.0.0.1 $port) >"$out/rpma-client.log" 2>&1
    code=$?
    [ $code = 0 ] || kill $server 2>/dev/null
    wait $server
    served=$?
    if [ $code = 0 ] && [ $served = 0 ] && grep -q '^all well' "$out/rpma-client.log" && grep -q '^all well' "$out/rpma-server.log"; then ok; else end "librpma $*" "$code, $served" "$out/rpma-client.log" "$out/rpma-server.log"; fi
}
if [ -f /usr/include/librpma.h ] && [ -f /usr/include/infiniband/verbs.h ]; then
    if cc -O1 -o "$place/bin/rpma" "$here/rpma.c" -lrpma -libverbs >"$out/rpma-build.log" 2>&1; then
        remote_memory
        remote_memory BELLWIRE_SHM=off BELLWIRE_UDP=on "BELLWIRE_FAULTS=loss=0.01,seed=$$"
    else
        end "librpma: rpma.c does not build" 1 "$out/rpma-build.log"
    fi
else
    echo "SKIPPED librpma: no librpma-dev and libibverbs-dev"
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
