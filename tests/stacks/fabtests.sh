#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# fabtests, the tests of libfabric, over its verbs provider on Bellwire's device. They are no part
# of Bellwire, nor of Debian: install them and say where. LD_LIBRARY_PATH chooses their libfabric.
#   FABTESTS=DIR tests/stacks/fabtests.sh PREFIX OUT [ADDRESS]      DIR: folder of fi_rdm ..
# The quick set, without what libfabric's own lists for verbs and ofi_rxm leave out. This provider
# ignores the port of a loopback address: each run has a network namespace with an address of its
# own, which root can make; others say an ADDRESS of this host.
set -u
prefix=$(realpath "$1") programs=${FABTESTS:-} address=${3:-}
mkdir -p "$2"
out=$(realpath "$2")
[ -x "$programs/fi_rdm" ] || { echo "SKIPPED fabtests over verbs: they are not there (FABTESTS=DIR says where they are)"; exit 0; }
if [ -z "$address" ]; then
    unshare -n true 2>/dev/null || { echo "SKIPPED fabtests over verbs: not root, and no address said"; exit 0; }
    exec unshare -n sh -c 'ip link set lo up && ip link add eth0 type veth peer name eth1 && ip addr add 10.121.0.1/24 dev eth0 && ip link set eth0 up && ip link set eth1 up && exec "$0" "$@" 10.121.0.1' "$0" "$prefix" "$out"
fi
unset LD_PRELOAD
export FI_PROVIDER=verbs BELLWIRE_ADDRESS=$address BELLWIRE_DEVICE_FILE=
passed=0 failed=0 patience=120
device() { exec timeout -k 5 $patience "$prefix/bin/bellwire" run --verbs "$programs/fi_$1" -p "$provider" "${@:2}"; }
verdict() { # code, name, logs ..
    if [ "$1" = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $provider: $2 ($1): $(tail -qn 3 "${@:3}" | grep -v '^bellwire:' | tr '\n' ' ' | cut -c 1-400)"
    fi
}
alone() { # program, arguments
    (device "$@") >"$out/alone" 2>&1
    verdict $? "$*" "$out/alone"
}
# A client is refused until its server listens, which no file shows: it tries again.
pair() { # program, arguments
    local server client code served i port=$((20000 + RANDOM % 20000))
    for i in 1 2 3; do
        (device "$@" -s "$address" -B $port) >"$out/server" 2>&1 &
        server=$!
        sleep $((i * 2))
        (device "$@" -s "$address" -P $port "$address") >"$out/client" 2>&1
        code=$?
        [ $code = 0 ] || kill $server 2>/dev/null
        wait $server
        served=$?
        [ $code != 0 ] && grep -q 'Connection refused' "$out/client" || break
        port=$((port + 1))
    done
    [ $code != 0 ] || code=$served
    verdict $code "$*" "$out/client" "$out/server"
}
each() { # lines of a program and its arguments
    local line
    while read -r line; do
        # shellcheck disable=SC2086
        pair $line </dev/null
    done
}
provider=verbs
each <<'END'
cm_data
cq_data -e msg
msg
msg_epoll
shared_ctx -e msg --no-tx-shared-ctx
multi_ep -e msg -v
msg_inject -e msg -v
bw -e msg -v -T 1
msg_pingpong -I 5
msg_pingpong -I 5 -v
msg_pingpong -I 5 -c sread
msg_pingpong -I 5 -c fd
msg_bw -I 5
msg_bw -I 5 -v
rma_bw -e msg -o write -I 5
rma_bw -e msg -o read -I 5
rma_bw -e msg -o writedata -I 5
END
provider='verbs;ofi_rxm'
each <<'END'
av_xfer -e rdm
cq_data -e rdm
poll -t queue
poll -t counter
rdm
rdm -U
rdm_tagged_peek
recv_cancel -e rdm -V
unexpected_msg -e rdm -I 10
msg_inject -A inject -v
msg_inject -N -A inject -v
bw -e rdm -v -T 1
bw -e rdm -v -T 1 -U
rdm_multi_client -C 10 -I 5
rma_bw -e rdm -o write -I 5
rma_bw -e rdm -o read -I 5
rma_bw -e rdm -o writedata -I 5
multi_recv -e rdm -I 5
rdm_cntr_pingpong -I 5
rdm_pingpong -I 5
rdm_pingpong -I 5 -v
rdm_pingpong -I 5 -v -U
rdm_pingpong -I 5 -c sread
rdm_pingpong -I 5 -c fd
rdm_tagged_pingpong -I 5
rdm_tagged_pingpong -I 5 -v
rdm_tagged_pingpong -I 5 -v -U
rdm_tagged_bw -I 5
rdm_tagged_bw -I 5 -v
rdm_tagged_bw -I 5 -v -U
END
for provider in verbs 'verbs;ofi_rxm'; do
    kind=msg
    [ "$provider" = verbs ] || kind=rdm
    alone getinfo_test -e $kind -s "$address" "$address"
    for test in 'dom_test -n 2' eq_test cq_test mr_test cntr_test; do
        # shellcheck disable=SC2086
        alone $test
    done
done
alone av_test -g "$address" -n 1 -s "$address" -e rdm
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
