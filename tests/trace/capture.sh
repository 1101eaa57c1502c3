#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# This captures programs of libibverbs by `bellwire capture`, and reads the files by code of its
# own, by tshark and by scapy.
#
#   tests/trace/capture.sh PREFIX OUT
#
# PREFIX is where `make install` put everything.
set -u
prefix=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
here=$(cd "$(dirname "$0")" && pwd)
bellwire=$prefix/bin/bellwire
unset BELLWIRE_ADDRESS BELLWIRE_DEVICE_FILE BELLWIRE_TRACE BELLWIRE_TRACE_BYTES BELLWIRE_CAPTURE LD_PRELOAD
passed=0 failed=0 patience=$("$here/../patience.sh" 120)
ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAILED $*"; }
skip() { echo "SKIPPED $*"; }
holds() { # arguments of capture.py: so it is
    local said
    if said=$(timeout $patience python3 "$here/capture.py" "$@" 2>&1); then ok; else bad "$(tail -n 3 <<<"$said")"; fi
}
has_tshark=$(command -v tshark)
[ -n "$has_tshark" ] || skip "reading captures by tshark: it is not there"
# It guesses at protocols of the messages, NFS over RDMA for example, and takes other programs' for
# malformed ones of these.
no_guesses=$(tshark -G heuristic-decodes 2>/dev/null | awk '$1 ~ /^infiniband/ && $2 != "ethertype" { print "--disable-protocol", $2 }' | sort -u)
[ -z "$no_guesses" ] || no_guesses="$no_guesses --disable-heuristic eth_over_ib"
# Debian's python3 is the one that has Debian's scapy.
scapy=/usr/bin/python3
"$scapy" -c 'import scapy.contrib.roce' 2>/dev/null || { scapy='' && skip "checksums by scapy: it is not there"; }
readable() { # file: tshark finds a packet of RoCE in each, and nothing malformed
    [ -n "$has_tshark" ] || return
    local all right
    # shellcheck disable=SC2086
    all=$(tshark -r "$1" $no_guesses -T fields -e infiniband.bth.psn 2>/dev/null)
    right=$(grep -c . <<<"$all")
    if [ "$right" -gt 0 ] && ! grep -q '^$' <<<"$all"; then ok; else bad "$1: tshark finds $right packets of RoCE"; fi
    # shellcheck disable=SC2086
    all=$(tshark -r "$1" $no_guesses -Y '_ws.malformed || _ws.expert.severity >= error' 2>&1 | grep -v 'Running as user')
    if [ -z "$all" ]; then ok; else bad "$1 by tshark: $(head -n 3 <<<"$all")"; fi
}
checksums() { [ -z "$scapy" ] || { if "$scapy" "$here/capture.py" scapy "$1"; then ok; else bad "$1 by scapy"; fi; }; }
# Two processes of a program: the client is tried again until the server listens.
cat >"$out/both" <<'EOF'
#!/bin/sh
"$@" &
server=$!
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
    "$@" 127.0.0.1 && wait $server && exit 0
    kill -0 $server 2>/dev/null || exit 1
    sleep 0.$i
done
kill $server
exit 1
EOF
chmod +x "$out/both"
cd "$out" || exit 1
captured() { # name, program ..: the file is name.pcapng, what the program said name.log
    local name=$1
    shift
    if timeout $patience "$bellwire" capture $more -o "$name.pcapng" "$bellwire" run --verbs "$@" >"$name.log" 2>&1; then ok; else bad "$name: $(tail -n 3 "$name.log")"; fi
}
more=
if ! command -v ibv_rc_pingpong >/dev/null; then
    skip "captures: no ibv_rc_pingpong (ibverbs-utils)"
    exit 0
fi
free() { echo $((20000 + (RANDOM * 4 + $1) % 9000)); }

# ---- numbers and opcodes are those of the program's requests
captured pingpong ./both ibv_rc_pingpong -g 0 -n 50 -s 4096 -p "$(free 0)"
holds whole pingpong.pcapng
holds pingpong pingpong.pcapng pingpong.log
holds count pingpong.pcapng RC_SEND_FIRST=100 RC_SEND_MIDDLE=200 RC_SEND_LAST=100
readable pingpong.pcapng
checksums pingpong.pcapng
if [ -n "$has_tshark" ]; then
    count=$(tshark -r pingpong.pcapng -Y 'infiniband.bth.opcode == 2' 2>/dev/null | wc -l)
    if [ "$count" = 100 ]; then ok; else bad "tshark counts $count ends of messages, not 100"; fi
fi

# ---- each operation
captured v6 env BELLWIRE_ADDRESS=::1 ./both ibv_rc_pingpong -g 0 -n 5 -s 100 -p "$(free 1)"
holds whole v6.pcapng
readable v6.pcapng
if command -v ib_write_lat >/dev/null; then
    each() { # name, opcodes, program ..
        local name=$1 wanted=$2
        shift 2
        captured "$name" ./both "$@" -d bellwire0 -n 100 -p "$(free 2)"
        holds whole "$name.pcapng"
        # shellcheck disable=SC2086
        holds count "$name.pcapng" $wanted
        readable "$name.pcapng"
    }
    each write "RC_WRITE_FIRST=200 RC_WRITE_LAST=200" ib_write_lat -s 2000 -m 1024
    each read "RC_READ_REQUEST=100 RC_READ_FIRST=100 RC_READ_MIDDLE=300 RC_READ_LAST=100" ib_read_lat -s 5000 -m 1024
    each atomic "RC_FETCH_ADD=100 RC_ATOMIC_ACK=100" ib_atomic_lat -A FETCH_AND_ADD
    each swap "RC_COMPARE_SWAP=100 RC_ATOMIC_ACK=100" ib_atomic_lat -A CMP_AND_SWAP
    each datagram "UD_SEND_ONLY=200" ib_send_lat -c UD -s 999
    each unreliable "UC_WRITE_FIRST=100 UC_WRITE_LAST=100 RC_ACK=0" ib_write_bw -c UC -s 5000 -m 4096

    checksums read.pcapng
    checksums datagram.pcapng

    # ---- a program that sends faster than packets are written waits; with --drop it does not
    more="--bytes 65536"
    captured fast ./both ib_send_bw -d bellwire0 -n 100 -s 65536 -m 1024 -p "$(free 3)"
    holds whole fast.pcapng
    holds count fast.pcapng RC_SEND_FIRST=100 RC_SEND_MIDDLE=6200 RC_SEND_LAST=100
    more="--bytes 65536 --drop"
    captured dropped ./both ib_send_bw -d bellwire0 -n 100 -s 65536 -m 1024 -p "$(free 4)"
    if grep -q 'events are lost' dropped.log; then ok; else bad "nothing is lost of what does not fit"; fi
    more="--snap 100"
    captured cut ./both ib_send_bw -d bellwire0 -n 100 -s 4096 -m 1024 -p "$(free 5)"
    holds cut cut.pcapng
    holds count cut.pcapng RC_SEND_FIRST=100 RC_SEND_MIDDLE=200 RC_SEND_LAST=100
    more=
else
    skip "captures of perftest: it is not there"
fi
if command -v rping >/dev/null; then
    captured rping sh -c 'rping -s -a 127.0.0.1 -p 9917 -C 5 -S 200 & for i in 1 2 3 4 5 6 7 8 9; do rping -c -a 127.0.0.1 -p 9917 -C 5 -S 200 && break; sleep 0.$i; done; wait'
    holds whole rping.pcapng
    holds count rping.pcapng RC_READ_REQUEST=5 RC_READ_ONLY=5 RC_WRITE_ONLY=5
    holds management rping.pcapng
    readable rping.pcapng
    checksums rping.pcapng
    if [ -n "$has_tshark" ]; then
        said=$(tshark -r rping.pcapng -Y infiniband.mad -T fields -e infiniband.mad.attributeid 2>/dev/null | head -n 3 | tr '\n' ' ')
        if [ "$said" = "0x0010 0x0013 0x0014 " ]; then ok; else bad "tshark sees these messages of connection management: $said"; fi
    fi
fi

# ---- what is refused leaves again, by a seed the same each time
export BELLWIRE_FAULTS=rnr=0.2:2,seed=7
for n in 1 2; do captured again$n ./both ibv_rc_pingpong -g 0 -n 40 -s 100 -p "$(free $n)"; done
unset BELLWIRE_FAULTS
holds again again1.pcapng again2.pcapng
readable again1.pcapng

# ---- packets of NICs, of a program of VIPL and of one of verbs in a bad network by seed
# A process that runs already: from when it is asked until Ctrl-C.
attached() { # file, process, options: a capture of the process that ends by a signal when there is something
    # Not one of an earlier run.
    rm -f "$1"
    timeout $patience "$bellwire" capture -o "$1" --pid "$2" "${@:3}" >attached.log 2>&1 &
    local capturer=$!
    for _ in $(seq 600); do [ "$(stat -c %s "$1" 2>/dev/null || echo 0)" -gt 20000 ] && break; sleep 0.05; done
    kill -INT $capturer
    wait $capturer
}
port=$(free 12)
"$bellwire" run --verbs ibv_rc_pingpong -g 0 -n 100000000 -s 3000 -p "$port" >running.log 2>&1 &
server=$!
for _ in $(seq 100); do
    "$bellwire" run --verbs ibv_rc_pingpong -g 0 -n 100000000 -s 3000 -p "$port" 127.0.0.1 >running.log 2>&1 &
    client=$!
    sleep 0.3
    kill -0 $client 2>/dev/null && break
done
pid=$(pgrep -P $server ibv_rc_pingpong | head -n 1)
if attached attached.pcapng "$pid"; then ok; else bad "an attached capture: $(tail -n 3 attached.log)"; fi
holds whole attached.pcapng
readable attached.pcapng
if attached attached2.pcapng "$pid" --snap 10; then ok; else bad "a second attached capture: $(tail -n 3 attached.log)"; fi
holds cut attached2.pcapng
if kill -0 "$pid"; then ok; else bad "the captured process did not go on: $(tail -n 3 running.log)"; fi
peer=$(pgrep -P $client ibv_rc_pingpong | head -n 1)
kill -9 "$pid" "$peer"
wait $server $client 2>/dev/null

# ---- virtual interfaces of a program of VIPL: as reliable queue pairs
cc -O1 -I"$prefix/include" -I"$here/../../examples/c" -o vipl "$here/../../examples/c/pingpong.c" "$here/../../examples/c/common.c" -L"$prefix/lib" -lvipl -lpthread || bad "pingpong.c"
"$bellwire" capture --dissector >bellwire.lua
vipl() { # name, program ..
    local name=$1
    shift
    if LD_LIBRARY_PATH=$prefix/lib timeout $patience "$bellwire" capture -o "$name.pcapng" "$@" >"$name.log" 2>&1; then ok; else bad "$name: $(tail -n 3 "$name.log")"; fi
    holds whole "$name.pcapng"
    readable "$name.pcapng"
}
vipl vis ./vipl --count 100
holds count vis.pcapng RC_SEND_ONLY=200 RC_ACK=200
holds vis vis.pcapng
vipl long ./vipl --count 50 --size 10000
holds count long.pcapng RC_SEND_FIRST=100 RC_SEND_MIDDLE=100 RC_SEND_LAST=100 RC_ACK=100
checksums long.pcapng
cc -O1 -I"$prefix/include" -I"$here/../../examples/c" -o rdma "$here/../../examples/c/rdma_write.c" "$here/../../examples/c/common.c" -L"$prefix/lib" -lvipl -lpthread || bad "rdma_write.c"
vipl rdma ./rdma --size 10000 --count 20
if python3 "$here/capture.py" whole rdma.pcapng | grep -q WRITE; then ok; else bad "no RDMA write of a virtual interface"; fi
udp="env BELLWIRE_ADDRESS=127.0.0.2 BELLWIRE_UDP=on BELLWIRE_SHM=off BELLWIRE_FAULTS=loss=0.05,seed=7"
if LD_LIBRARY_PATH=$prefix/lib timeout $patience $udp "$bellwire" capture -o udp.pcapng ./vipl --count 200 >udp.log 2>&1; then ok; else bad "a capture of UDP: $(tail -n 3 udp.log)"; fi
holds udp udp.pcapng
captured both_kinds $udp ./both ibv_rc_pingpong -g 0 -n 100 -s 1000 -p "$(free 9)"
holds udp both_kinds.pcapng
holds whole both_kinds.pcapng
for name in udp both_kinds; do
    [ -n "$has_tshark" ] || continue
    # shellcheck disable=SC2086
    wrong=$(tshark $no_guesses -X lua_script:bellwire.lua -r $name.pcapng -Y '!bellwire && !infiniband || _ws.malformed || _ws.lua.error || _ws.expert.severity >= error' 2>&1 | grep -v 'Running as user')
    if [ -z "$wrong" ]; then ok; else bad "$name.pcapng by tshark: $(head -n 3 <<<"$wrong")"; fi
    again=$(tshark -X lua_script:bellwire.lua -r $name.pcapng -Y 'bellwire.flags.retransmitted == 1' 2>/dev/null | wc -l)
    if [ "$again" -gt 3 ]; then ok; else bad "$name.pcapng: tshark sees $again packets that left again"; fi
done

# ---- live: the program ends only when its first packet was read
rm -f seen
timeout $patience "$bellwire" capture -o - sh -c "'$bellwire' run --verbs ./both ibv_rc_pingpong -g 0 -n 5 -p $(free 6); until [ -e seen ]; do sleep 0.05; done" 2>live.log | { python3 "$here/capture.py" wait && touch seen && cat >/dev/null; }
if [ "${PIPESTATUS[*]}" = "0 0" ]; then ok; else bad "a capture by a pipe: $(tail -n 3 live.log)"; fi

# ---- the events of a program that was started in another way, and of one that is killed
rm -rf events
env BELLWIRE_TRACE="$out/events" BELLWIRE_CAPTURE=1000000 sh -c 'mkdir "$BELLWIRE_TRACE"; exec "$@"' - "$bellwire" run --verbs ./both ibv_rc_pingpong -g 0 -n 5 -p "$(free 7)" >other.log 2>&1
if timeout $patience "$bellwire" capture --read events -o other.pcapng 2>>other.log; then ok; else bad "--read: $(tail -n 3 other.log)"; fi
holds whole other.pcapng
port=$(free 8)
cat >killed <<EOF
#!/bin/sh
"$bellwire" run --verbs ibv_rc_pingpong -g 0 -n 10000000 -s 64 -p $port >/dev/null 2>&1 &
server=\$!
until "$bellwire" run --verbs ibv_rc_pingpong -g 0 -n 10000000 -s 64 -p $port 127.0.0.1 >client.log 2>&1 & client=\$!; sleep 0.5; kill -0 \$client 2>/dev/null; do :; done
kill -9 \$client \$server
wait
EOF
chmod +x killed
timeout $patience "$bellwire" capture -o killed.pcapng ./killed >killed.log 2>&1
holds whole killed.pcapng
timeout $patience "$bellwire" capture -o status.pcapng sh -c 'exit 7' >/dev/null 2>&1
if [ $? = 7 ]; then ok; else bad "the exit status"; fi
if timeout $patience "$bellwire" capture -o nothing.pcapng true 2>&1 | grep -q 'no captured process'; then ok; else bad "a capture of nothing"; fi

# ---- MPI on UCX
if command -v mpiexec.mpich >/dev/null && command -v mpicc.mpich >/dev/null; then
    mpicc.mpich -O1 -w -o basics "$here/../mpi/basics.c"
    export UCX_TLS=rc_v,ud_v,self UCX_WARN_UNUSED_ENV_VARS=n
    captured mpi mpiexec.mpich -n 2 ./basics
    unset UCX_TLS UCX_WARN_UNUSED_ENV_VARS
    holds whole mpi.pcapng
    readable mpi.pcapng
    checksums mpi.pcapng
else
    skip "a capture of MPI: no MPICH"
fi
echo "$passed tests passed, $failed failed"
[ "$failed" = 0 ]
