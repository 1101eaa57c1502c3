#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# libfabric's own test programs (the quick and the standard set of fabtests 1.17) on the provider. They are not part of Bellwire: to try them, install them and say where.
#   FABTESTS=DIR scripts/fabtests.sh PREFIX OUT      DIR: folder of the programs (fi_rdm ..); PREFIX: where Bellwire is installed (lib/bellwire/libbellwire-fi.so); OUT: for logs
set -u
prefix=$1 out=$2 programs=${FABTESTS:-}
[ -x "$programs/fi_rdm" ] || { echo "SKIPPED fabtests: they are not there (FABTESTS=DIR says where they are)"; exit 0; }
mkdir -p "$out/log"
passed=0 failed=0
# Most take seconds.
patience=300

export FI_PROVIDER_PATH=$prefix/lib/bellwire
verdict() { # how it went, name, logs ..
    local status=$1 name=$2
    shift 2
    if [ "$status" = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $name"
        tail -qn 4 "$@" | sed 's/^/    /'
    fi
}
listens() { # port
    grep -qi ":$(printf %04X "$1") [0-9A-F]*:0000 0A" /proc/net/tcp /proc/net/tcp6 2>/dev/null
}
pair() { # how they find each other (oob: by a socket of their own; node: by the provider; source: so, and the client says from where; bound: and from which service), program, arguments ..
    local way=$1 program=$2 port=$((20000 + RANDOM % 20000)) status
    shift 2
    local how=(-p bellwire)
    [[ "$way" =~ source|bound ]] && how+=(-s 127.0.0.1)
    if [ "$way" = oob ]; then how+=(-E="$port"); else how+=(-B "$port"); fi
    timeout "$patience" "$programs/fi_$program" "${how[@]}" "$@" >"$out/log/server" 2>&1 &
    local server=$!
    # A program too early for the socket of its own gives up; the provider tries again.
    if [ "$way" = oob ]; then
        for _ in $(seq 100); do
            listens "$port" && break
            sleep 0.1
        done
    else
        sleep 0.5
    fi
    [ "$way" = oob ] || how=("${how[@]/#-B/-P}")
    [ "$way" = bound ] && how+=(-B $((port + 1)))
    timeout "$patience" "$programs/fi_$program" "${how[@]}" "$@" 127.0.0.1 >"$out/log/client" 2>&1
    status=$?
    wait "$server" && [ $status = 0 ]
    verdict $? "$program $*" "$out/log/server" "$out/log/client"
}
alone() { # program, arguments ..
    local program=$1
    shift
    timeout "$patience" "$programs/fi_$program" -p bellwire "$@" >"$out/log/alone" 2>&1
    verdict $? "$program $*" "$out/log/alone"
}
while read -r arguments; do
    # shellcheck disable=SC2086
    [ -z "$arguments" ] || pair $arguments
done <<'END'
oob av_xfer -e rdm
oob cq_data -e rdm
node poll -t queue
node poll -t counter
oob rdm
oob rdm -U
node rdm
oob rdm_rma_event
oob rdm_rma_trigger
node scalable_ep
node rdm_shared_av
oob rdm_tagged_peek
oob multi_mr -e rdm -V
oob multi_ep -e rdm -v
oob recv_cancel -e rdm -V
oob unexpected_msg -e rdm -I 10
oob msg_inject -A inject -v
oob msg_inject -N -A inject -v
oob msg_inject -A inj_complete -v
oob msg_inject -N -A inj_complete -v
oob bw -e rdm -v -T 1
oob bw -e rdm -v -T 1 -U
oob rdm_multi_client -C 10 -I 5
oob rdm_multi_client -C 10 -I 5 -U
node rdm_multi_client -C 10 -I 5
oob rdm_multi_domain
oob unmap_mem
oob rma_bw -e rdm -o write -I 5
oob rma_bw -e rdm -o write -I 5 -U
oob rma_bw -e rdm -o read -I 5
oob rma_bw -e rdm -o read -I 5 -U
oob rma_bw -e rdm -o writedata -I 5
oob rma_bw -e rdm -o writedata -I 5 -U
oob rdm_atomic -I 5 -o all
oob rdm_atomic -I 5 -o all -U
oob multi_recv -e rdm -I 5
oob rdm_cntr_pingpong -I 5
oob rdm_cntr_pingpong -I 5 -c counter
oob rdm_pingpong -I 5
oob rdm_pingpong -I 5 -U
oob rdm_pingpong -I 5 -v
oob rdm_pingpong -I 5 -v -U
oob rdm_pingpong -I 5 -c sread
oob rdm_pingpong -I 5 -c fd
oob rdm_tagged_pingpong -I 5
oob rdm_tagged_pingpong -I 5 -U
oob rdm_tagged_pingpong -I 5 -v
oob rdm_tagged_pingpong -I 5 -v -U
oob rdm_tagged_bw -I 5
oob rdm_tagged_bw -I 5 -U
oob rdm_tagged_bw -I 5 -v
oob rdm_tagged_bw -I 5 -v -U
source av_xfer -e dgram
source cm_data
source cq_data -e msg
source cq_data -e dgram
source dgram
source msg
source msg_epoll
bound msg_sockets
source dgram_waitset
source shared_ctx
source shared_ctx --no-tx-shared-ctx
source shared_ctx --no-rx-shared-ctx
source shared_ctx -e msg
source shared_ctx -e msg --no-tx-shared-ctx
source shared_ctx -e msg --no-rx-shared-ctx
source shared_ctx -e dgram
source shared_ctx -e dgram --no-tx-shared-ctx
source shared_ctx -e dgram --no-rx-shared-ctx
source multi_mr -e msg -V
source multi_ep -e msg -v
source unexpected_msg -e msg -I 10
source bw -e msg -v -T 1
source msg_pingpong -I 5
source msg_pingpong -I 5 -v
source msg_bw -I 5
source msg_bw -I 5 -v
source rma_bw -e msg -o write -I 5
source rma_bw -e msg -o read -I 5
source rma_bw -e msg -o writedata -I 5
source multi_recv -e msg -I 5
source dgram_pingpong -I 5
END
alone getinfo_test -s 127.0.0.1 127.0.0.1
alone dom_test -n 2
alone eq_test
alone cq_test
alone mr_test
alone cntr_test
alone av_test -g 127.0.0.1 -n 1 -s 127.0.0.1 -e rdm
alone av_test -g 127.0.0.1 -n 1 -s 127.0.0.1 -e dgram
# The standard set: the benchmarks with all their lengths and rounds.
while read -r arguments; do
    # shellcheck disable=SC2086
    pair $arguments
done <<'END'
source msg_pingpong
source msg_pingpong -v
source msg_bw
source msg_bw -v
source rma_bw -e msg -o write
source rma_bw -e msg -o read
source rma_bw -e msg -o writedata
oob rma_bw -e rdm -o write
oob rma_bw -e rdm -o write -U
oob rma_bw -e rdm -o read
oob rma_bw -e rdm -o read -U
oob rma_bw -e rdm -o writedata
oob rma_bw -e rdm -o writedata -U
oob rdm_atomic -o all -I 1000
oob rdm_atomic -o all -I 1000 -U
oob rdm_cntr_pingpong
oob multi_recv -e rdm
source multi_recv -e msg
oob rdm_pingpong
oob rdm_pingpong -U
oob rdm_pingpong -v
oob rdm_pingpong -v -U
oob rdm_tagged_pingpong
oob rdm_tagged_pingpong -U
oob rdm_tagged_pingpong -v
oob rdm_tagged_pingpong -v -U
oob rdm_tagged_bw
oob rdm_tagged_bw -U
oob rdm_tagged_bw -v
oob rdm_tagged_bw -v -U
source dgram_pingpong
source msg_pingpong -k
source msg_pingpong -k -v
oob rdm_pingpong -k
oob rdm_pingpong -k -U
oob rdm_pingpong -k -v
oob rdm_pingpong -k -v -U
source dgram_pingpong -k
END
echo "$passed passed, $failed failed, none left out"
[ "$failed" = 0 ]
