#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Releases of different versions talk to each other: builds of libvipl that speak the protocol's
# versions 1 (as release 0.1.0), 1 to 2 (as the next one may) and 2 alone, each installed in a place
# of its own, in pairs, over UDP on one host. `bellwire top` says which version they have agreed on.
#   scripts/versions.sh PREFIX PINGPONG OUT
#   PREFIX       an installation
#   PINGPONG     that of examples/c
#   OUT          a folder; builds of other versions are there, whose versions differ by their numbers
#   OLDER        another PREFIX, of an older release: its libvipl is tried beside this one, between
#                two hosts (network namespaces) and on one. PINGPONG has to be made with it
set -u
cd "$(dirname "$0")/.." || exit 1
prefix=$(realpath "$1") program=$(realpath "$2")
mkdir -p "$3"
out=$(realpath "$3")
. packaging/checks.sh
libraries=("$prefix/lib")
for versions in 1-2 2-2; do
    CARGO_TARGET_DIR=$out/build-$versions CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0 BELLWIRE_BUILD_VERSIONS=$versions cargo build -q --locked -p vipl || { echo "FAILED: a build of versions $versions"; exit 1; }
    mkdir -p "$out/$versions"
    cp "$out/build-$versions/debug/libvipl.so" "$out/$versions/libvipl.so.1"
    libraries+=("$out/$versions")
done
named() { # folder of a library
    case $1 in "$out"/*) basename "$1" ;; *) echo 1-1 ;; esac
}
number=0
# A server by one library and a client by another. Their version, or why there is no session.
pair() { # library of the server, of the client
    local server status name=versions-$$-$((number += 1)) tries=0
    env LD_LIBRARY_PATH="$1" BELLWIRE_SHM=off BELLWIRE_UDP=on "$program" server --count 100000000 --name "$name" >"$out/server" 2>&1 &
    server=$!
    env LD_LIBRARY_PATH="$2" BELLWIRE_SHM=off BELLWIRE_UDP=on timeout 30 "$program" client --count 100000000 --name "$name" >"$out/client" 2>&1 &
    local client=$!
    local version=
    while [ $tries -lt 100 ] && kill -0 $client 2>/dev/null; do
        version=$(LD_LIBRARY_PATH=$prefix/lib "$prefix/bin/bellwire" top --once --json --interval 0.05 $server 2>/dev/null | grep -o '"version":[0-9]*' | head -n 1)
        [ -z "$version" ] || break
        tries=$((tries + 1))
    done
    kill $client $server 2>/dev/null
    wait $client
    status=$?
    wait $server 2>/dev/null
    if [ -n "$version" ]; then echo "${version#*:}"; else echo "none ($status): $(tail -n 1 "$out/client")"; fi
}
agree() { # expected, server, client
    local is
    is=$(pair "$2" "$3")
    case $is in
        "$1"*) passed=$((passed + 1)) ;;
        *) failed=$((failed + 1)); echo "FAILED: a server of versions $(named "$2") and a client of $(named "$3"): $is, expected $1" ;;
    esac
}
agree 1 "${libraries[0]}" "${libraries[0]}"
agree 1 "${libraries[0]}" "${libraries[1]}"
agree 1 "${libraries[1]}" "${libraries[0]}"
agree 2 "${libraries[1]}" "${libraries[1]}"
agree 2 "${libraries[1]}" "${libraries[2]}"
agree 2 "${libraries[2]}" "${libraries[1]}"
agree none "${libraries[0]}" "${libraries[2]}"
[ -n "${OLDER:-}" ] || check "the client is told why" grep "other versions of the protocol" "$out/client"
agree none "${libraries[2]}" "${libraries[0]}"

# ---- a release that was installed before
if [ -n "${OLDER:-}" ]; then
    a=bellwire-va-$$ b=bellwire-vb-$$
    trap 'ip netns del $a 2>/dev/null; ip netns del $b 2>/dev/null' EXIT
    ip netns add $a && ip netns add $b && ip link add eth0 netns $a type veth peer name eth0 netns $b || exit 1
    for host in "$a 1" "$b 2"; do
        # shellcheck disable=SC2086 # two words
        set -- $host
        ip -n "$1" addr add "10.118.0.$2/24" dev eth0 && ip -n "$1" link set lo up && ip -n "$1" link set eth0 up
    done
    ran() { # server's library, namespace, client's library, namespace, variable
        local server status
        ip netns exec "$2" env LD_LIBRARY_PATH="$1" "$5" timeout 60 "$program" server --count 1000 >"$out/server" 2>&1 &
        server=$!
        sleep 0.3
        ip netns exec "$4" env LD_LIBRARY_PATH="$3" "$5" timeout 60 "$program" client --count 1000 --name pingpong@10.118.0.1 | grep 'half a round trip'
        status=$?
        wait $server && [ $status = 0 ]
    }
    for libs in "$prefix/lib $OLDER/lib" "$OLDER/lib $prefix/lib"; do
        # shellcheck disable=SC2086 # two words
        set -- $libs
        check "two hosts: a server of $1, a client of $2" ran "$1" $a "$2" $b BELLWIRE_ADDRESS=eth0
        check "one host: a server of $1, a client of $2" ran "$1" $a "$2" $a BELLWIRE_ADDRESS=10.118.0.1
    done
fi
counted
