# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
# Two hosts for the scripts that source this with DIR (the examples) and LIBDIR: network namespaces $a and $b joined by a veth pair, made here and removed at the end. Needs root and `ip`;
# without them the script ends, visibly skipped.
set -u
examples=$(cd "$1" && pwd) || exit 1
export LD_LIBRARY_PATH=$2
failed=0 passed=0
a=bellwire-a-$$ b=bellwire-b-$$
log=$(mktemp -d)

skip() { echo "SKIPPED two hosts: $1"; rm -rf "$log"; exit 0; }
command -v ip >/dev/null 2>&1 || skip "no ip command (Debian: iproute2)"
ip netns add "$a" 2>/dev/null || skip "network namespaces cannot be made here (not root?)"
cleanup() {
    jobs -p | xargs -r kill -9 2>/dev/null
    wait 2>/dev/null
    ip netns del "$a" 2>/dev/null
    ip netns del "$b" 2>/dev/null
    rm -rf "$log"
}
trap cleanup EXIT
trap 'exit 1' INT TERM
ip netns add "$b"
if ! ip link add eth0 netns "$a" type veth peer name eth0 netns "$b" 2>/dev/null; then skip "no veth devices"; fi
for host in "$a 1" "$b 2"; do
    set -- $host
    ip -n "$1" addr add "10.118.0.$2/24" dev eth0
    # Without the wait for somebody else who has an address.
    ip netns exec "$1" sh -c 'echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_dad' 2>/dev/null
    ip -n "$1" addr add "fd76::$2/64" dev eth0 nodad 2>/dev/null
    ip -n "$1" link set lo up
    ip -n "$1" link set eth0 up
done
here=10.118.0.1 there=10.118.0.2 here6=fd76::1 there6=fd76::2

link_address() { # namespace: the address that its interface has for the link only
    ip -n "$1" -6 -o addr show dev eth0 scope link | awk '{sub("/.*", "", $4); print $4 "%eth0"; exit}'
}

declare -A address=([$a]=eth0 [$b]=eth0)
on() { # namespace, command..: as a host of its own, whose address is that of its interface, unless another is chosen
    local namespace=$1
    shift
    ip netns exec "$namespace" env BELLWIRE_ADDRESS="${address[$namespace]}" "$@"
}
ok() { echo "ok: $1"; passed=$((passed + 1)); }
bad() { echo "FAILED: $1"; tail -n 15 "$log"/* | sed 's/^/    /'; failed=1; }

