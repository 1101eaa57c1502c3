#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Users of one host, and a third one who attacks them: users.sh LIBVIPL LIBAM OUT. It needs root, to
# become root, nobody and another user. root and nobody run kv_store and Active Messages at the
# host's own address, both ways: by UDP without a grant, by shared memory with both grants, and not
# at all with one grant and no UDP. Then the same beside an outsider, who has taken all their names
# first (outsider.c), and beside one who sends them sockets that take an hour to close (lingerer.c).
set -u
vipl=$1 am=$2 out=$3
root=$(cd "$(dirname "$0")/../.." && pwd)
if [ "$(id -u)" != 0 ] || ! setpriv --reuid=65534 --clear-groups true 2>/dev/null; then echo "users of one host: skipped, needs root and setpriv"; exit 0; fi
if [ "${USERS_APART:-}" = "" ]; then
    # An address and names of this test alone.
    USERS_APART=yes exec unshare -n "$0" "$@" || exit 1
fi
ip link set lo up && ip addr add 10.78.0.1/24 dev lo || exit 1
work=$(mktemp -d) || exit 1
outsider=
lingerer=
trap 'for p in $outsider $lingerer; do kill $p 2>/dev/null; done; rm -rf "$work"' EXIT
# Where every user may read and run it.
chmod 755 "$work"
mkdir "$work/lib" "$work/bin"
cp -L "$vipl" "$work/lib/libvipl.so.1" && cp -L "$am" "$work/lib/libbellwire_am.so" || exit 1
ln -s libvipl.so.1 "$work/lib/libvipl.so"
soname=$(readelf -d "$am" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
if [ -n "$soname" ] && [ "$soname" != libbellwire_am.so ]; then ln -s libbellwire_am.so "$work/lib/$soname"; fi
c="${CC:-cc} -std=c11 -D_GNU_SOURCE -O1 -Wall"
$c -I"$root/ffi/vipl/include" "$root"/examples/c/kv_store.c "$root"/examples/c/common.c -o "$work/bin/kv_store" -L"$work/lib" -lvipl -lpthread || exit 1
$c -I"$root/ffi/am/include" "$root"/examples/am/ask.c -o "$work/bin/ask" -L"$work/lib" -lbellwire_am || exit 1
cp "$out/outsider" "$out/lingerer" "$work/bin/" || exit 1
chmod -R a+rX "$work"
export LD_LIBRARY_PATH="$work/lib" BELLWIRE_ADDRESS=10.78.0.1
unset BELLWIRE_ALLOW BELLWIRE_MODE BELLWIRE_UDP BELLWIRE_SHM
nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
stranger="setpriv --reuid=12345 --regid=12345 --clear-groups"
as_root=env
failed=

# kv DESCRIPTION EXPECTED(0|1) SERVER-ENV CLIENT-ENV; SERVER and CLIENT say as whom.
kv() {
    # shellcheck disable=SC2086 # words
    $SERVER env $3 timeout 90 stdbuf -oL "$work/bin/kv_store" server --clients 1 >"$work/server" 2>&1 &
    server=$!
    # A client that allows nobody takes any user's process that waits: the server comes first.
    tries=0
    until grep -q waiting "$work/server" || [ $tries -gt 100 ]; do tries=$((tries + 1)); sleep 0.1; done
    sleep 1
    # shellcheck disable=SC2086
    $CLIENT env $4 timeout 60 "$work/bin/kv_store" client --operations 300 --name kv_store@10.78.0.1 >"$work/client" 2>&1
    code=$?
    if [ $code != 0 ]; then code=1; kill $server 2>/dev/null; fi
    wait $server
    judge "kv_store, $1" "$2" $code
}

# ask DESCRIPTION EXPECTED SERVER-ENV CLIENT-ENV.
ask() {
    SERVER="$SERVER env $3" CLIENT="$CLIENT env $4" "$root/examples/am/ask.sh" "$work/bin/ask" 50 >"$work/client" 2>&1
    code=$?
    if [ $code != 0 ]; then code=1; fi
    judge "Active Messages, $1" "$2" $code
}

judge() {
    if [ "$2" = "$3" ]; then echo "ok: $1"; return; fi
    echo "FAILED: $1"; cat "$work/server" "$work/client" 2>/dev/null
    failed="$failed [$1]"
}

both_ways() {
    for way in "root serves nobody" "nobody serves root"; do
        case $way in root*) SERVER=$as_root CLIENT=$nobody; s=nobody t=root;; *) SERVER=$nobody CLIENT=$as_root; s=root t=nobody;; esac
        "$@"
    done
}

without_outsider() {
    kv "$way, no grant: by UDP" 0 A= A=
    ask "$way, no grant: by UDP" 0 A= A=
    kv "$way, both grants, no UDP: by shared memory" 0 "BELLWIRE_ALLOW=$s BELLWIRE_UDP=off" "BELLWIRE_ALLOW=$t BELLWIRE_UDP=off"
    ask "$way, both grants, no UDP: by shared memory" 0 "BELLWIRE_ALLOW=$s BELLWIRE_UDP=off" "BELLWIRE_ALLOW=$t BELLWIRE_UDP=off"
    ask "$way, one grant: by UDP" 0 "BELLWIRE_ALLOW=$s" A=
}
both_ways without_outsider
SERVER=$as_root CLIENT=$nobody
kv "nobody's group is granted" 0 "BELLWIRE_ALLOW=@65534 BELLWIRE_UDP=off" "BELLWIRE_ALLOW=@root BELLWIRE_UDP=off"
kv "the server does not grant it, no UDP: refused" 1 "BELLWIRE_UDP=off" "BELLWIRE_ALLOW=root BELLWIRE_UDP=off"
kv "the client does not grant it, no UDP: refused" 1 "BELLWIRE_ALLOW=nobody BELLWIRE_UDP=off" "BELLWIRE_UDP=off"

$stranger "$work/bin/outsider" 600 10.78.0.1 kv_store kv_store:ask 0 65534 >"$work/outsider" 2>"$work/breaches" &
outsider=$!
tries=0
until grep -q ready "$work/outsider"; do
    tries=$((tries + 1))
    if [ $tries -gt 100 ] || ! kill -0 $outsider 2>/dev/null; then echo "the outsider does not start"; cat "$work/breaches"; exit 1; fi
    sleep 0.05
done
beside_outsider() {
    kv "$way, outsider, both grants: by shared memory" 0 "BELLWIRE_ALLOW=$s BELLWIRE_UDP=off" "BELLWIRE_ALLOW=$t BELLWIRE_UDP=off"
    kv "$way, outsider, both grants: by UDP" 0 "BELLWIRE_ALLOW=$s BELLWIRE_SHM=off" "BELLWIRE_ALLOW=$t BELLWIRE_SHM=off"
    ask "$way, outsider, both grants" 0 "BELLWIRE_ALLOW=$s" "BELLWIRE_ALLOW=$t"
    ask "$way, outsider, no grant: by UDP" 0 A= A=
}
both_ways beside_outsider
kill $outsider
wait $outsider
code=$?
outsider=
tail -n 1 "$work/outsider"
if [ $code != 0 ]; then sort "$work/breaches" | uniq -c | head -n 20; failed="$failed [breaches]"; fi

# Another user's sockets that linger for an hour: the server goes on, and keeps none of them.
lingers() {
    # shellcheck disable=SC2086 # words
    $SERVER timeout -k 1 200 stdbuf -oL "$work/bin/kv_store" server --clients 1 >"$work/server" 2>&1 &
    server=$!
    tries=0
    until grep -q waiting "$work/server" || [ $tries -gt 100 ]; do tries=$((tries + 1)); sleep 0.1; done
    $stranger "$work/bin/lingerer" 3600 >"$work/lingerer" 2>&1 &
    lingerer=$!
    tries=0
    until [ "$(sed -n '$s/sent //p' "$work/lingerer")" -ge 200 ] 2>/dev/null || [ $tries -gt 1200 ]; do tries=$((tries + 1)); sleep 0.1; done
    # shellcheck disable=SC2086
    $CLIENT timeout 60 "$work/bin/kv_store" client --operations 300 --name kv_store@10.78.0.1 >"$work/client" 2>&1
    code=$?
    if [ $code != 0 ]; then code=1; kill $server 2>/dev/null; fi
    wait $server
    sent=$(sed -n '$s/sent //p' "$work/lingerer")
    kill $lingerer 2>/dev/null
    wait $lingerer 2>/dev/null
    lingerer=
    [ "${sent:-0}" -ge 200 ] || { cat "$work/lingerer"; code=1; }
    judge "kv_store, $way, a stranger's sockets that linger ($sent)" 0 $code
}
both_ways lingers
if [ -n "$failed" ]; then echo "failed:$failed"; exit 1; fi
echo "users of one host: all well"
