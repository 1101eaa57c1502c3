#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Transfer engines and RDMA for Python, as PyPI has them, over Bellwire's device:
#   tests/stacks/engines.sh PREFIX OUT [long]       PREFIX: where `make install` put everything
# The wheels are fetched into OUT once; without a network this is skipped, visibly. Each run shows
# that the device carried its data: by the bytes that `bellwire top` reports, or by what UCX says.
set -u
prefix=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2") mode=${3:-short}
here=$(cd "$(dirname "$0")" && pwd)
unset BELLWIRE_ADDRESS LD_PRELOAD
export BELLWIRE_DEVICE_FILE=
passed=0 failed=0 patience=$("$here/../patience.sh" 150)
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
cp "$here/engines.py" "$place/"
chmod -R a+rX "$place"
user=()
if [ "$(id -u)" = 0 ]; then
    chmod a+rwx "$place/home"
    user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi
export HOME=$place/home TMPDIR=$place/home BELLWIRE=$place/bin/bellwire
device() { (cd "$place/home" && exec timeout -k 5 $patience "${user[@]}" "$BELLWIRE" run --verbs "$@"); }
# The distribution's Python first: an ordinary user finds it, wherever root's own one is.
python=/usr/bin/python3
[ -x $python ] || python=python3
wheel() { # name, what pip is to install ..
    local at=$out/wheel-$1
    [ -e "$at/whole" ] && return 0
    rm -rf "$at"
    $python -m venv "$at" >"$out/wheel.log" 2>&1 && "$at/bin/pip" install -q --disable-pip-version-check "${@:2}" >>"$out/wheel.log" 2>&1 && touch "$at/whole" && return 0
    echo "SKIPPED $1 of PyPI: $(tail -n 1 "$out/wheel.log")"
    return 1
}
engine() { # nixl|mooncake, bytes, devices that must have carried at least a quarter of them
    # In this mode every byte goes by messages, which the device counts; else writes and reads within
    # a host are copies from mapping to mapping.
    local -x BELLWIRE_MODE=guarded
    local kind=$1 size=$2 devices=$3 target code other d
    d=$(mktemp -d -p "$place")
    chmod a+rwx "$d"
    device "$out/wheel-$kind/bin/python" "$place/engines.py" "$kind" target "$d" "$size" >"$out/$kind-target.log" 2>&1 &
    target=$!
    device "$out/wheel-$kind/bin/python" "$place/engines.py" "$kind" initiator "$d" "$size" >"$out/$kind.log" 2>&1
    code=$?
    [ $code = 0 ] || kill $target 2>/dev/null
    wait $target
    other=$?
    [ $code = 0 ] && [ $other = 0 ] || { end "$* ${OUTAGE:-}" "$code, $other" "$out/$kind.log" "$out/$kind-target.log"; return; }
    carried "$d/counted" "$size" "$devices" >"$out/$kind-carried.log" 2>&1
    code=$?
    if [ $code = 0 ]; then ok; else end "$* ${OUTAGE:-}: not carried by the device" $code "$out/$kind-carried.log"; fi
}
carried() { # file of bellwire top, bytes, devices
    $python - "$@" <<'PYTHON'
import json, sys
nics = json.load(open(sys.argv[1]))["nics"]
moved = [sum(vi["sent_bytes"] + vi["received_bytes"] for vi in nic["nic"]["vis"]) for nic in nics]
print("bytes by device:", moved)
least = int(sys.argv[2]) // 4 // int(sys.argv[3])
sys.exit(sum(m >= least for m in moved) < int(sys.argv[3]))
PYTHON
}

# ---- Mooncake
printf '[[device]]\n[[device]]\n' >"$place/two.toml"
chmod a+r "$place/two.toml"
bench() { # read|write
    local target code segment i
    device "$out/wheel-mooncake/bin/transfer_engine_bench" --mode=target --metadata_server=P2PHANDSHAKE --protocol=rdma --device_name=bellwire0 --local_server_name=127.0.0.1 --threads=2 --buffer_size=67108864 >"$out/bench-target.log" 2>&1 &
    target=$!
    for i in $(seq 600); do
        grep -q 'DRAM is used' "$out/bench-target.log" && break
        sleep 0.05
    done
    segment=$(sed -n 's/.*listening on \([0-9.:]*\).*/\1/p' "$out/bench-target.log" | head -n 1)
    device "$out/wheel-mooncake/bin/transfer_engine_bench" --metadata_server=P2PHANDSHAKE --protocol=rdma --device_name=bellwire0 --local_server_name=127.0.0.1 --segment_id="$segment" --operation="$1" --duration=2 --threads=2 --batch_size=16 --block_size=65536 --buffer_size=67108864 >"$out/bench.log" 2>&1
    code=$?
    kill $target
    wait $target 2>/dev/null
    if [ $code = 0 ] && grep -q 'Test completed: .*batch count [1-9]' "$out/bench.log" && grep -q 'Received RDMA ready ACK' "$out/bench-target.log"; then ok; else end "transfer_engine_bench $1" $code "$out/bench.log" "$out/bench-target.log"; fi
}
if wheel mooncake mooncake-transfer-engine-non-cuda==0.3.13.post1 numpy; then
    engine mooncake 16777216 1
    bench read
    bench write
    export BELLWIRE_DEVICE_FILE=$place/two.toml DEVICES=bellwire0,bellwire1
    OUTAGE=$$ engine mooncake 16777216 2
    [ "$mode" = short ] || for seed in 1 2 3 4; do OUTAGE=$seed engine mooncake 33554432 2; done
    export BELLWIRE_DEVICE_FILE=
    unset DEVICES
fi

# ---- NIXL, by the UCX that it brings along. It names torch as what it needs, and runs without.
nixl() { # transports, bytes
    UCX_TLS=$1 UCX_NET_DEVICES=bellwire0:1 UCX_LOG_LEVEL=info engine nixl "$2" 1
    if grep -q 'cfg#.*rma(rc_verbs/bellwire0:1)' "$out/nixl.log" && ! grep 'cfg#' "$out/nixl.log" | grep -qE '(tcp|posix|sysv|cma)/'; then ok; else end "nixl $1: not over the device" 0 "$out/nixl.log"; fi
}
if wheel nixl numpy && { [ -d "$out/wheel-nixl/lib/"python*/site-packages/nixl_cu12 ] || "$out/wheel-nixl/bin/pip" install -q --disable-pip-version-check --no-deps nixl==1.5.1 nixl-cu12==1.5.1 >"$out/wheel.log" 2>&1; }; then
    nixl rc_v,ud_v,self 16777216
    [ "$mode" = short ] || nixl rc_v,self 67108864
else
    echo "SKIPPED NIXL of PyPI: $(tail -n 1 "$out/wheel.log")"
fi

# ---- rdma4py: its own tests, from its source package, on two devices
if wheel rdma4py numpy pytest Cython 'setuptools>=77' ibverbs==2026.10.22 && { [ -d "$out/rdma4py/tests" ] || { mkdir -p "$out/rdma4py" &&
    timeout 200 "$out/wheel-rdma4py/bin/pip" download -q --disable-pip-version-check --no-deps --no-build-isolation --no-binary :all: -d "$out/rdma4py" ibverbs==2026.10.22 >"$out/wheel.log" 2>&1 &&
    tar -xzf "$out/rdma4py/"ibverbs-*.tar.gz -C "$out/rdma4py" --strip-components 1; }; }; then
    cp -r "$out/rdma4py/tests" "$place/home/"
    chmod -R a+rwX "$place/home"
    BELLWIRE_DEVICE_FILE=$place/two.toml device "$out/wheel-rdma4py/bin/python" -m pytest -q -rs -p no:cacheprovider tests >"$out/rdma4py.log" 2>&1
    code=$?
    count=$(sed -n 's/^\([0-9]*\) passed.*/\1/p' "$out/rdma4py.log")
    if [ $code = 0 ] && [ "${count:-0}" -ge 88 ]; then ok; else end "rdma4py's tests" $code "$out/rdma4py.log"; fi
else
    echo "SKIPPED rdma4py of PyPI: $(tail -n 1 "$out/wheel.log")"
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
