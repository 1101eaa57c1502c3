#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Libraries on RDMA between hosts: two and four network namespaces on one bridge.
#   tests/stacks/hosts.sh PREFIX OUT [long]       PREFIX: where `make install` put everything
# Root makes the namespaces and starts the launchers; the programs run as an ordinary user. Each run
# shows that the device carried its data: by what UCX reports, or because no other provider is
# allowed. With loss, 1 % of the packets of every process are dropped by seed.
set -u
prefix=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2") mode=${3:-short}
here=$(cd "$(dirname "$0")" && pwd)
unset BELLWIRE_DEVICE_FILE BELLWIRE_SHM BELLWIRE_UDP LD_PRELOAD UCX_IB_ROCE_REACHABILITY_MODE
passed=0 failed=0 patience=$("$here/../patience.sh" 150)
port=$((20000 + $$ % 20000))
ok() { passed=$((passed + 1)); }
end() { # what, code, file: the last lines that say why
    failed=$((failed + 1))
    echo "FAILED $1 ($2): $(grep -viE '^\s*$|^#' "$3" | tail -n 3 | tr '\n' ' ' | cut -c 1-500)"
}

# ---- four hosts, h1 to h4, at 10.119.0.1 to .4
place=$(mktemp -d)
hosts=() switch=bellwire-switch-$$
skip() { echo "SKIPPED libraries on RDMA between hosts: $1"; exit 0; }
cleanup() {
    jobs -p | xargs -r kill -9 2>/dev/null
    wait 2>/dev/null
    for host in "${hosts[@]}" "$switch"; do ip netns del "$host" 2>/dev/null; done
    rm -rf "$place"
}
trap cleanup EXIT
trap 'exit 1' INT TERM
[ "$(id -u)" = 0 ] || skip "not root"
command -v ip >/dev/null 2>&1 || skip "no ip command (Debian: iproute2)"
ip netns add "$switch" 2>/dev/null || skip "network namespaces cannot be made here"
ip -n "$switch" link add br0 type bridge 2>/dev/null || skip "no bridges in this kernel"
ip -n "$switch" addr add 10.119.0.254/24 dev br0
ip -n "$switch" link set br0 up
for i in 1 2 3 4; do
    host=bellwire-h$i-$$
    hosts+=("$host")
    ip netns add "$host" && ip link add eth0 netns "$host" type veth peer name "port$i" netns "$switch" 2>/dev/null || skip "no veth devices"
    ip -n "$switch" link set "port$i" master br0
    ip -n "$switch" link set "port$i" up
    ip -n "$host" addr add "10.119.0.$i/24" dev eth0
    ip -n "$host" link set lo up
    ip -n "$host" link set eth0 up
done

mkdir -p "$place/bin" "$place/lib" "$place/home"
cp "$prefix/bin/bellwire" "$place/bin/"
cp -r "$prefix/lib/bellwire" "$place/lib/bellwire"
chmod -R a+rX "$place"
mkdir "$place"/home/{1,2,3,4}
chmod a+rwx "$place/home" "$place"/home/*
# What the launchers call instead of ssh: HOST COMMAND .., on that host, as an ordinary user.
cat >"$place/bin/on" <<ON
#!/bin/bash
while :; do case \$1 in -*) shift ;; *) break ;; esac; done
host=\${1##*.} # of 10.119.0.N
shift
cd "$place/home/\$host" || exit
exec ip netns exec bellwire-h\$host-$$ sh -c '[ -z "\$HOSTS" ] || mount --bind "\$HOSTS" /etc/hosts; exec "\$@"' sh \
    setpriv --reuid=65534 --regid=65534 --clear-groups \
    env HOME="$place/home" TMPDIR="$place/home/\$host" BELLWIRE_ADDRESS=eth0 \
    "$place/bin/bellwire" run --verbs bash -c "\$*"
ON
chmod a+rx "$place/bin/on"
for i in 1 2 3 4; do echo "10.119.0.$i localhost" >"$place/hosts.$i"; done
on() { # number, command ..
    local number=$1
    shift
    timeout -k 5 $patience "$place/bin/on" "10.119.0.$number" "$(printf '%q ' "$@")"
}
listens() { # number, port
    local i
    for i in $(seq 600); do
        ip netns exec "bellwire-h$1-$$" cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
            awk -v p="$(printf ':%04X ' "$2")" '$4 == "0A" && index($2 " ", p) {found = 1} END {exit !found}' && return
        sleep 0.05
    done
    return 1
}

export UCX_NET_DEVICES=bellwire0:1 UCX_WARN_UNUSED_ENV_VARS=n
carried() { # transport, file: endpoints are of that transport alone
    grep -q "$1/bellwire0:1" "$2" && ! grep -E 'cfg\[[0-9]+\]|cfg#' "$2" | grep -qE '(tcp|posix|sysv|cma|knem|xpmem)/'
}
ucx() { # transport, test, size, iterations
    local server code served
    port=$((port + 1))
    export UCX_TLS=$1,self
    on 1 ucx_perftest -p $port >"$out/hosts-server.log" 2>&1 &
    server=$!
    listens 1 $port
    UCX_LOG_LEVEL=info on 2 ucx_perftest 10.119.0.1 -p $port -t "$2" -s "$3" -n "$4" -w 10 >"$out/hosts-client.log" 2>&1
    code=$?
    wait $server
    served=$?
    unset UCX_TLS
    if [ $code = 0 ] && [ $served = 0 ] && grep -q '^Final:' "$out/hosts-client.log" && carried "${1/%_v/_verbs}" "$out/hosts-client.log"; then ok; else end "ucx_perftest $* ${BELLWIRE_FAULTS:-}" "$code, $served" "$out/hosts-client.log"; fi
}
# All operations of UCP, connected by rdma_cm.
by_rdmacm() { # transport
    local server code served
    port=$((port + 1))
    export UCX_TLS=$1,self UCX_SOCKADDR_TLS_PRIORITY=rdmacm
    on 1 "$place/bin/operations" $port >"$out/hosts-server.log" 2>&1 &
    server=$!
    for _ in $(seq 600); do
        grep -q '^listening' "$out/hosts-server.log" && break
        sleep 0.1
    done
    UCX_LOG_LEVEL=info on 2 "$place/bin/operations" $port 10.119.0.1 >"$out/hosts-client.log" 2>&1
    code=$?
    wait $server
    served=$?
    unset UCX_TLS UCX_SOCKADDR_TLS_PRIORITY
    if [ $code = 0 ] && [ $served = 0 ] && grep -q 'all well' "$out/hosts-client.log" && carried "${1/%_v/_verbs}" "$out/hosts-client.log"; then ok; else end "all operations by $1 and rdma_cm ${BELLWIRE_FAULTS:-}" "$code, $served" <(grep -v "^bellwire: rank" "$out/hosts-server.log" | tail -n 2; tail -n 1 "$out/hosts-client.log"); fi
}
if [ -e /usr/include/ucp/api/ucp.h ] && cc -O1 -o "$place/bin/operations" "$here/operations.c" -lucp -lucs >"$out/cc.log" 2>&1; then
    by_rdmacm rc_v
    by_rdmacm ud_v
    BELLWIRE_FAULTS=loss=0.01,seed=$$ by_rdmacm rc_v
else
    echo "SKIPPED all operations of UCP by rdma_cm between hosts: no libucx-dev"
fi
if command -v ucx_perftest >/dev/null 2>&1; then
    for t in tag_lat ucp_put_lat ucp_get ucp_fadd; do ucx rc_v $t 8 500; done
    ucx ud_v tag_lat 8 500
    for t in tag_bw ucp_put_bw ucp_get; do
        ucx rc_v $t 1048576 20
        ucx ud_v $t 20000 50
    done
    export BELLWIRE_FAULTS=loss=0.01,seed=$$
    for transport in rc_v ud_v; do
        ucx $transport tag_bw 100000 100
        ucx $transport ucp_put_bw 100000 100
    done
    unset BELLWIRE_FAULTS
    if [ "$mode" = long ]; then
        for t in tag_lat tag_bw tag_sync_lat ucp_am_lat ucp_am_bw stream_lat stream_bw ucp_put_bw ucp_get ucp_add ucp_swap ucp_cswap; do
            for transport in rc_v ud_v; do ucx $transport $t 8 500; done
        done
    fi
else
    echo "SKIPPED ucx_perftest between hosts: no ucx-utils"
fi

# ---- MPI: the ranks are dealt out to the hosts; the launcher runs on none of them, at the switch
programs=$here/../mpi
mpich() { # transport, ranks, hosts, program, arguments
    local transport=$1 ranks=$2 code list
    list=$(seq -s , -f '10.119.0.%g' "$3")
    shift 3
    UCX_TLS=$transport,self UCX_LOG_LEVEL=info MPIR_CVAR_NOLOCAL=1 timeout -k 5 $patience ip netns exec "$switch" mpiexec.mpich -launcher ssh -launcher-exec "$place/bin/on" -iface br0 -hosts "$list" -ppn 1 -n "$ranks" "$place/bin/$1-mpich" "${@:2}" >"$out/hosts-mpich.log" 2>&1
    code=$?
    if [ $code = 0 ] && grep -q 'all well' "$out/hosts-mpich.log" && carried "${transport/%_v/_verbs}" "$out/hosts-mpich.log"; then ok; else end "mpich $transport $ranks of $list: $* ${BELLWIRE_FAULTS:-}" $code "$out/hosts-mpich.log"; fi
}
openmpi() {
    local transport=$1 ranks=$2 code list
    list=$(seq -s , -f '10.119.0.%g:8' "$3")
    shift 3
    UCX_TLS=$transport,self UCX_LOG_LEVEL=info timeout -k 5 $patience ip netns exec "$switch" mpirun.openmpi --allow-run-as-root --leave-session-attached --mca plm_rsh_agent "$place/bin/on" --mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include 10.119.0.0/24 -x UCX_TLS -x UCX_LOG_LEVEL -x UCX_NET_DEVICES -x UCX_WARN_UNUSED_ENV_VARS ${BELLWIRE_FAULTS:+-x BELLWIRE_FAULTS} --host "$list" --map-by node -n "$ranks" --mca pml ucx --mca osc ucx --mca btl self "$place/bin/$1-openmpi" "${@:2}" >"$out/hosts-openmpi.log" 2>&1
    code=$?
    if [ $code = 0 ] && grep -q 'all well' "$out/hosts-openmpi.log" && carried "${transport/%_v/_verbs}" "$out/hosts-openmpi.log"; then ok; else end "openmpi $transport $ranks of $list: $* ${BELLWIRE_FAULTS:-}" $code "$out/hosts-openmpi.log"; fi
}
tried() { # mpich|openmpi, options of the compiler
    local mpi=$1 source
    command -v "mpicc.$mpi" >/dev/null 2>&1 && command -v "mpiexec.$mpi" >/dev/null 2>&1 || { echo "SKIPPED Debian's $mpi between hosts: it is not installed"; return; }
    shift
    for source in basics many; do
        "mpicc.$mpi" "$@" -w -O1 -o "$place/bin/$source-$mpi" "$programs/$source.c" >"$out/cc.log" 2>&1 || { end "mpicc.$mpi $source.c" $? "$out/cc.log"; return; }
    done
    "$mpi" rc_v 2 2 basics
    "$mpi" rc_v 4 4 basics
    "$mpi" ud_v 4 4 basics
    BELLWIRE_FAULTS=loss=0.01,seed=$$ "$mpi" rc_v 8 4 basics
    [ "$mode" = long ] || return
    BELLWIRE_FAULTS=loss=0.01,seed=$$ "$mpi" rc_v 8 4 many 5
    BELLWIRE_FAULTS=loss=0.01,seed=$$ "$mpi" ud_v 8 4 basics
}
if ldconfig -p | grep -q libuct; then
    tried mpich
    tried openmpi -DNO_MPROBE=1
else
    echo "SKIPPED MPI on UCX between hosts: no libucx0"
fi

# ---- libfabric: its verbs provider of 1.17 listens at the address of "localhost", which so far is
# this host's own (the namespace that `ip netns exec` makes for mounts ends with the program)
fabric() { # provider, endpoint, mode, sizes
    local server code served
    port=$((port + 1))
    export FI_PROVIDER=verbs
    HOSTS=$place/hosts.1 on 1 fi_pingpong -p "$1" -e "$2" -m "$3" -I 20 -S "$4" -c -B $port >"$out/hosts-server.log" 2>&1 &
    server=$!
    listens 1 $port
    HOSTS=$place/hosts.2 on 2 fi_pingpong -p "$1" -e "$2" -m "$3" -I 20 -S "$4" -c -P $port 10.119.0.1 >"$out/hosts-client.log" 2>&1
    code=$?
    wait $server
    served=$?
    unset FI_PROVIDER
    if [ $code = 0 ] && [ $served = 0 ] && grep -q '^[0-9]' "$out/hosts-client.log"; then ok; else end "fi_pingpong $* ${BELLWIRE_FAULTS:-}" "$code, $served" <(cat "$out/hosts-client.log" "$out/hosts-server.log"); fi
}
if command -v fi_pingpong >/dev/null 2>&1; then
    fabric verbs msg msg all
    fabric verbs dgram msg 1024
    fabric 'verbs;ofi_rxm' rdm tagged all
    BELLWIRE_FAULTS=loss=0.01,seed=$$ fabric verbs msg msg 65536
else
    echo "SKIPPED libfabric's verbs provider between hosts: no libfabric-bin"
fi

# ---- transfer engines: Mooncake and NIXL, if engines.sh has fetched them and others can read them
engine() { # mooncake|nixl
    local python=$out/wheel-$1/bin/python d=$place/home/$1 target code served
    [ -e "$python" ] && "${as_user[@]}" "$python" -c 'import numpy' 2>/dev/null || { echo "SKIPPED $1 between hosts: not fetched by tests/stacks/engines.sh, or not for every user to read"; return; }
    mkdir "$d"
    chmod a+rwx "$d"
    HOST=10.119.0.1 on 1 "$python" "$place/engines.py" "$1" target "$d" 4194304 >"$out/hosts-server.log" 2>&1 &
    target=$!
    HOST=10.119.0.2 on 2 "$python" "$place/engines.py" "$1" initiator "$d" 4194304 >"$out/hosts-client.log" 2>&1
    code=$?
    [ $code = 0 ] || kill $target 2>/dev/null
    wait $target
    served=$?
    if [ $code = 0 ] && [ $served = 0 ] && grep -qE '"sent_bytes":[0-9]{7,}' "$d/counted"; then ok; else end "$1 ${BELLWIRE_FAULTS:-}" "$code, $served" <(cat "$out/hosts-client.log" "$out/hosts-server.log"); fi
    rm -r "$d"
}
as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
export BELLWIRE=$place/bin/bellwire
cp "$here/engines.py" "$place/"
chmod a+r "$place/engines.py"
BELLWIRE_FAULTS=loss=0.01,seed=$$ engine mooncake
UCX_TLS=rc_v,ud_v,self engine nixl
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
