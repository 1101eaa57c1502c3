#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Programs of librdmacm as the distribution has them, on the emulated device file: in two processes
# of this host, in two network namespaces (as root), and with processes that are killed.
#   tests/verbs/cm.sh LIBRARY OUT [long | kills]
# LIBRARY is libbellwire-verbs.so. Says which programs failed, and how many did well.
set -u
library=$1 out=$2 mode=${3:-short}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
if ! command -v rping >/dev/null 2>&1 || [ ! -e "$library" ]; then
    echo "SKIPPED rdma_cm: no rdmacm-utils, or no $library"
    exit 0
fi
work=$(mktemp -d)
server_at=() client_at=() host=127.0.0.1
# Namespaces and processes of this test end with it.
cleanup() {
    [ -n "${a:-}" ] && ip netns del "$a" 2>/dev/null
    [ -n "${b:-}" ] && ip netns del "$b" 2>/dev/null
    rm -rf "$work"
}
trap cleanup EXIT
patience=$("$here/../patience.sh" 60) passed=0 failed=0
ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAILED $where: $*"; }
where="one host"

# The program itself, behind env and timeout.
inner() {
    local pid=$1 child
    while child=$(cat "/proc/$pid/task/$pid/children" 2>/dev/null) && [ -n "${child// /}" ]; do pid=${child%% *}; done
    echo "$pid"
}
# Waits until a process has a device and sleeps, for five looks in a row; or has one for a second,
# as a program that polls for its clients. Without shared memory its names are not to be seen.
sleeps() { # pid
    local pid asleep=0 awake=0
    for _ in $(seq 400); do
        pid=$(inner "$1")
        if grep -qx bellwire "/proc/$pid"/task/*/comm 2>/dev/null; then
            awake=$((awake + 1))
            if [ "$(awk '{print $3}' "/proc/$pid/stat" 2>/dev/null)" = S ]; then asleep=$((asleep + 1)); else asleep=0; fi
        fi
        if [ $asleep -ge 5 ] || [ $awake -ge 35 ]; then return 0; fi
        kill -0 "$1" 2>/dev/null || return 1
        sleep 0.03
    done
    return 1
}
# Waits until a process waits under so many names of the host: one for its place, and one for each
# service.
waits() { # pid, names
    local pid i count
    [ "$2" = 0 ] && { sleeps "$1"; return; }
    for i in $(seq 400); do
        pid=$(inner "$1")
        count=$(ls -l "/proc/$pid/fd" 2>/dev/null | sed -n 's/.*socket:\[\([0-9]*\)\].*/\1/p' | grep -cxFf - <(awk '/@bellwire\/.*\/w\// {print $7}' "/proc/$pid/net/unix" 2>/dev/null))
        [ "${count:-0}" -ge "$2" ] && return 0
        kill -0 "$1" 2>/dev/null || return 1
        sleep 0.03
    done
    return 1
}
# Waits until a process, which may tell its client by TCP where it is, listens there.
calls() { # pid, port
    local i
    for i in $(seq 400); do
        awk -v at=":$(printf %04X "$2")" '$2 ~ at "$" && $4 == "0A" {found = 1} END {exit !found}' "/proc/$(inner "$1")/net/tcp" 2>/dev/null && return 0
        kill -0 "$1" 2>/dev/null || return 1
        sleep 0.03
    done
    return 1
}
serve() { # command
    env "${server_env[@]}" "${server_at[@]}" timeout -k 1 $patience env LD_PRELOAD="$library${spread:+:$spread}" "$@" >"$out/cm-server.log" 2>&1 &
    server=$!
}
ask() { env "${client_env[@]}" "${client_at[@]}" timeout -k 1 $patience env LD_PRELOAD="$library${spread:+:$spread}" "$@" >"$out/cm-client.log" 2>&1; }
server_env=(A=1) client_env=(A=1) spread=
logs() { echo "$(tail -n 2 "$out/cm-client.log" | tr '\n' ' ') | $(tail -n 2 "$out/cm-server.log" | tr '\n' ' ')"; }
# Ends the server, if it does not end itself.
stop() { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; }
# rping's thread of events outlives its channel, on any device: if it asks for an event once more
# after the channel was destroyed, it ends the process with 255, although all went well.
outlived() { # program, its code, its log
    [ "$1" = rping ] && [ "$2" = 255 ] && grep -q 'rdma_get_cm_event: Bad file descriptor' "$3"
}
# pair SERVER -- CLIENT: both end well. `says=TEXT`: one of them prints that. `stays=1`: the server
# is to be ended. `names=N`: how many names the server waits under. `tcp=PORT`: where it listens,
# too.
pair() {
    local first=() code served
    while [ "$1" != -- ]; do first+=("$1"); shift; done
    shift
    serve "${first[@]}"
    { waits $server "${names:-2}" && { [ -z "${tcp:-}" ] || calls $server "$tcp"; }; } || { bad "${first[*]}: it does not listen: $(logs)"; stop; return; }
    ask "$@"
    code=$?
    if outlived "$1" $code "$out/cm-client.log"; then code=0; fi
    if [ -n "${stays:-}" ]; then
        served=0
        stop
    else
        wait $server
        served=$?
        if outlived "${first[0]}" $served "$out/cm-server.log"; then served=0; fi
    fi
    if [ $code = 0 ] && [ $served = 0 ] && { [ -z "${says:-}" ] || grep -q -- "$says" "$out/cm-client.log" "$out/cm-server.log"; }; then ok; else bad "$* ($code, $served): $(logs)"; fi
}
port=$((21000 + $$ % 15000))
# With a port of its own.
ported() { # option of the port, server's options; client's options behind --
    local option=$1 program=$2 first=()
    shift 2
    port=$((port + 1))
    while [ "$1" != -- ]; do first+=("$1"); shift; done
    shift
    pair "$program" "$option" $port "${first[@]}" -- "$program" "$option" $port "$@"
}

# Two members of a group and a third process that sends to it.
multicast() { # group, its address as the kernel lists it
    local members=() code=0 count=0
    for _ in 1 2; do
        serve mckey -m "$1" -C 20
        members+=("$server")
    done
    for _ in $(seq 600); do
        count=$("${server_at[@]}" cat /proc/net/udp /proc/net/udp6 | grep -ci " $2:1BCF ")
        [ "$count" -ge 2 ] && break
        sleep 0.05
    done
    ask mckey -m "$1" -s -C 20 || code=1
    for server in "${members[@]}"; do wait "$server" || code=2; done
    if [ $code = 0 ]; then ok; else bad "mckey -m $1 ($code, $count members): $(logs)"; fi
}

programs() {
    multicast 239.77.1.2 02014DEF
    says='rdma-ping-9' ported -p rping -s -C 10 -v -- -c -a $host -C 10 -v
    ported -p rping -s -C 3 -V -S 4000 -- -c -a $host -C 3 -V -S 4000
    says='return status 0' ported -p ucmatose -c 20 -C 30 -S 3000 -- -c 20 -C 30 -S 3000 -s $host
    says='return status 0' ported -p ucmatose -c 5 -m -- -c 5 -m -s $host
    # Its port is fixed. The server ends when it has sent its last datagrams.
    for _ in $(seq "$([ "$mode" = long ] && echo 30 || echo 3)"); do says='return status 0' pair udaddy -c 5 -- udaddy -c 5 -s $host; done
    stays=1 says='disconnect' ported -p cmtime -- -s $host -c 200
    port=$((port + 2))
    says='rdma_client: end 0' pair rdma_server -p $port -- rdma_client -p $port -s $host
    says='rdma_xclient: end 0' pair rdma_xserver -p $((port - 1)) -- rdma_xclient -p $((port - 1)) -s $host
    # The same with extended reliable connections.
    says='rdma_xclient: end 0' pair rdma_xserver -p $((port - 1)) -c x -- rdma_xclient -p $((port - 1)) -c x -s $host
    # Without -b its server waits at ::1.
    stays=1 names=1 ported -p udpong -b $host -- -s $host -C 20 -S 64
    ported -p rstream -I 50 -C 2 -S 4096 -- -I 50 -C 2 -S 4096 -s $host
    ported -p rstream -I 50 -C 2 -S 64 -T n -- -I 50 -C 2 -S 64 -T n -s $host
    ported -p riostream -I 20 -C 1 -S 64 -- -I 20 -C 1 -S 64 -s $host
    head -c 3000000 /dev/urandom >"$work/sent"
    rm -f "$work/received"
    stays=1 pair rcopy -- rcopy "$work/sent" "$host:$work/received"
    if cmp -s "$work/sent" "$work/received"; then ok; else bad "rcopy: the file is another one"; fi
    if command -v ib_send_bw >/dev/null 2>&1; then
        for program in "ib_send_lat -n 100" "ib_send_bw -n 200" "ib_write_bw -n 200 -q 4" "ib_read_bw -n 200" "ib_send_bw -n 200 -c UD"; do
            # shellcheck disable=SC2086
            set -- $program
            ported -p "$1" -R "${@:2}" -- -R "${@:2}" $host
        done
    fi
}

# fio's writes, reads and sends. It asks for no tries when a receive is missing (rnr_retry_count 0)
# and waits for ever after a completion with an error. So the receiver's queue is to be deeper than
# the sender's, as the comments of its engine say: here it has room for all messages.
fio_pair() { # verb
    port=$((port + 1))
    printf '[global]\nioengine=rdma\nhostname=%s\nport=%s\nbs=64k\nsize=4m\n' $host $port >"$work/job"
    { cat "$work/job"; printf 'iodepth=64\n[in]\nrw=read\nfilename=none\n'; } >"$work/server.fio"
    { cat "$work/job"; printf 'iodepth=8\n[out]\nrw=write\nverb=%s\n' "$1"; } >"$work/client.fio"
    # What a send brings its receiver can check.
    if [ "$1" = send ]; then
        printf 'verify=crc32c\nverify_fatal=1\n' >>"$work/server.fio"
        printf 'verify=crc32c\ndo_verify=0\nverify_state_save=0\n' >>"$work/client.fio"
    fi
    says='err= 0' pair fio "$work/server.fio" -- fio "$work/client.fio"
}

# Programs over IPv6, between addresses of interfaces. (rdma_xserver waits at IPv4 addresses only.)
programs_by_ipv6() {
    multicast ff15::77:1 000015FF000000000000000001007700
    says='rdma-ping-9' ported -p rping -s -a $host -C 10 -v -- -c -a $host -C 10 -v
    says='return status 0' ported -p ucmatose -f ip6 -b $host -c 20 -C 30 -S 3000 -- -f ip6 -c 20 -C 30 -S 3000 -s $host
    says='return status 0' pair udaddy -b $host -c 5 -- udaddy -c 5 -s $host
    stays=1 says='disconnect' ported -p cmtime -b $host -- -s $host -c 100
    port=$((port + 1))
    says='rdma_client: end 0' pair rdma_server -p $port -s $host -- rdma_client -p $port -s $host
    ported -p rstream -b $host -I 50 -C 2 -S 4096 -- -I 50 -C 2 -S 4096 -s $host
    ported -p riostream -b $host -I 20 -C 1 -S 64 -- -I 20 -C 1 -S 64 -s $host
    stays=1 names=1 ported -p udpong -b $host -- -s $host -C 20 -S 64
}

# By packets that get lost, doubled and late, and with requests that find no receive: by a seed.
faults() { # seed
    server_env=(BELLWIRE_SHM=off BELLWIRE_UDP=on "BELLWIRE_FAULTS=loss=0.03,dup=0.02,reorder=0.05:300us,seed=$1")
    client_env=("${server_env[@]}")
    local names=0
    says='rdma-ping-9' ported -p rping -s -C 10 -v -- -c -a $host -C 10 -v
    says='return status 0' ported -p ucmatose -c 20 -C 20 -S 3000 -- -c 20 -C 20 -S 3000 -s $host
    says='return status 0' pair udaddy -c 5 -- udaddy -c 5 -s $host
    ported -p rstream -I 50 -C 2 -S 4096 -- -I 50 -C 2 -S 4096 -s $host
    port=$((port + 1))
    says='rdma_client: end 0' pair rdma_server -p $port -- rdma_client -p $port -s $host
    names=2 server_env=("BELLWIRE_FAULTS=rnr=0.01:1,seed=$1") client_env=("BELLWIRE_FAULTS=rnr=0.01:1,seed=$1")
    says='rdma-ping-9' ported -p rping -s -C 10 -v -- -c -a $host -C 10 -v
    server_env=(A=1) client_env=(A=1)
}

# Processes of two users: by packets, since they share no memory. A port is a user's own.
users() {
    local as=(setpriv --clear-groups --reuid)
    "${as[@]}" 65533 --regid=65533 test -r "$library" 2>/dev/null || { echo "SKIPPED rdma_cm of two users: not permitted, or they cannot read $library"; return; }
    server_at=("${as[@]}" 65533 --regid=65533) client_at=("${as[@]}" 65532 --regid=65532)
    server_env=(BELLWIRE_SHM=off BELLWIRE_UDP=on) client_env=(BELLWIRE_SHM=off BELLWIRE_UDP=on)
    says='rdma-ping-9' names=0 ported -p rping -s -C 10 -v -- -c -a $host -C 10 -v
    server_at=() client_at=() server_env=(A=1) client_env=(A=1)
}

# A program of DAT, which connects by librdmacm.
dat() {
    command -v dtest >/dev/null 2>&1 || { echo "SKIPPED rdma_cm: no dapl2-utils"; return; }
    echo 'bellwire u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "lo 0" ""' >"$work/dat.conf"
    server_env=("DAT_OVERRIDE=$work/dat.conf") client_env=("${server_env[@]}")
    says='PASSED' tcp=15828 pair dtest -P bellwire -s -b 65536 -B 10 -- dtest -P bellwire -h $host -b 65536 -B 10
    # With its data compared.
    says=PASSED tcp=15828 pair dtest -P bellwire -s -D -b 65536 -B 10 -- dtest -P bellwire -h $host -D -b 65536 -B 10
    server_env=(A=1) client_env=(A=1)
}

# In strict mode, and with the library in the place of libibverbs.
packagings() {
    local way
    for way in BELLWIRE_VERBS_STRICT=text "LD_LIBRARY_PATH=$(dirname "$library")/bellwire-verbs"; do
        server_env=("$way") client_env=("$way")
        says='rdma-ping-9' ported -p rping -s -C 10 -v -- -c -a $host -C 10 -v
        says='return status 0' ported -p ucmatose -c 20 -C 30 -S 3000 -- -c 20 -C 30 -S 3000 -s $host
        if command -v ib_send_lat >/dev/null 2>&1; then ported -p ib_send_lat -R -n 100 -- -R -n 100 $host; fi
    done
    server_env=(A=1) client_env=(A=1)
}

# Beside librspreload, which takes the C library's sockets: programs of streams, and one that shows
# that the way to a peer is not asked by such sockets.
rsockets() {
    local rs=/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so.1
    if [ -e $rs ] && cc -O1 -Wall -Wextra -Werror -o "$work/echo" "$here/echo.c"; then
        port=$((port + 1))
        spread=$rs says='the same bytes' pair "$work/echo" $port -- "$work/echo" $port $host
    else
        echo "SKIPPED rdma_cm: no $rs"
    fi
    if cc -O1 -Wall -Wextra -Werror -shared -fPIC -o "$work/taken.so" "$here/taken.c"; then
        spread=$work/taken.so says='rdma-ping-9' ported -p rping -s -C 10 -v -- -c -a $host -C 10 -v
        if grep -q '^taken' "$out/cm-client.log"; then bad "a socket of the program's C library was used to find the way"; else ok; fi
    else
        bad "taken.c"
    fi
}

# rping prints librdmacm's events when there is nobody.
refusals() {
    ask rping -c -a $host -p 1 -C 1 -d
    if grep -q RDMA_CM_EVENT_REJECTED "$out/cm-client.log"; then ok; else bad "nobody listens: $(logs)"; fi
    ask rping -c -a 240.0.0.1 -p 1 -C 1 -d
    if grep -q 'RDMA_CM_EVENT_ADDR_ERROR\|RDMA_CM_EVENT_UNREACHABLE\|rdma_resolve_addr' "$out/cm-client.log"; then ok; else bad "no way there: $(logs)"; fi
}

# One of two processes is killed at a moment that chance chooses; the other one hears of it.
kills() { # how many
    [ -x /usr/bin/python3 ] || { echo "SKIPPED kills: no python3"; return; }
    /usr/bin/python3 "$(dirname "$0")/kills.py" "$library" "$1" && ok || bad kills
}

if [ "$mode" = kills ]; then
    kills "${BELLWIRE_KILLS:-500}"
    echo "$passed passed, $failed failed"
    [ $failed = 0 ]
    exit
fi
programs
refusals
packagings
rsockets
dat
for seed in $(seq "$([ "$mode" = long ] && echo 20 || echo 1)"); do faults $((seed + RANDOM)); done
where="two users" && users
where="one host"
# Any bytes are an errno, and never a crash.
if [ -x /usr/bin/python3 ]; then
    ask /usr/bin/python3 "$(dirname "$0")/cm_bytes.py" 5 "$([ "$mode" = long ] && echo 2000000 || echo 40000)"
    if grep -q "^done" "$out/cm-client.log"; then ok; else bad "any bytes: $(logs)"; fi
fi
if command -v fio >/dev/null 2>&1; then
    for verb in write read send; do fio_pair $verb; done
else
    echo "SKIPPED rdma_cm: no fio"
fi
if command -v qperf >/dev/null 2>&1; then
    port=$((port + 1))
    env LD_PRELOAD="$library" timeout $patience qperf -lp $port >"$out/cm-server.log" 2>&1 &
    server=$!
    for _ in $(seq 200); do
        awk -v p="$(printf ':%04X ' $port)" '$4 == "0A" && index($2 " ", p) {found = 1} END {exit !found}' /proc/net/tcp /proc/net/tcp6 && break
        sleep 0.05
    done
    if ask qperf -lp $port -cm 1 -t 1 $host rc_lat rc_bw && grep -q 'rc_bw' "$out/cm-client.log"; then ok; else bad "qperf: $(logs)"; fi
    stop
fi
kills "$([ "$mode" = long ] && echo "${BELLWIRE_KILLS:-500}" || echo 22)"

# ---- two namespaces with addresses of their own, joined by a pair of interfaces
if [ "$(id -u)" = 0 ] && a=bwcm$$a b=bwcm$$b && ip netns add $a 2>/dev/null && ip netns add $b && ip link add bwc$$a netns $a type veth peer name bwc$$b netns $b; then
    where="two namespaces"
    ip -n $a addr add 10.119.0.1/24 dev bwc$$a && ip -n $b addr add 10.119.0.2/24 dev bwc$$b
    for side in "$a bwc$$a" "$b bwc$$b"; do
        # shellcheck disable=SC2086
        set -- $side
        ip -n "$1" link set "$2" up && ip -n "$1" link set lo up
    done
    host=10.119.0.1
    server_at=(ip netns exec $a) client_at=(ip netns exec $b)
    server_env=(BELLWIRE_ADDRESS=10.119.0.1) client_env=(BELLWIRE_ADDRESS=10.119.0.2)
    programs
    where="two namespaces, IPv6"
    ip -n $a -6 addr add fd71::1/64 dev bwc$$a nodad && ip -n $b -6 addr add fd71::2/64 dev bwc$$b nodad
    host=fd71::1
    server_env=(BELLWIRE_ADDRESS=fd71::1) client_env=(BELLWIRE_ADDRESS=fd71::2)
    programs_by_ipv6
else
    echo "SKIPPED rdma_cm in two namespaces: not permitted"
fi

echo "$passed passed, $failed failed"
[ $failed = 0 ]
