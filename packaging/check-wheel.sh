#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The wheel as a stranger finds it: in clean roots of Debian and Ubuntu without a network, an
# ordinary user installs it with pip and runs programs of RDMA and MPI.
#   packaging/check-wheel.sh WHEELS OUT [SUITE ..]     OUT: a folder
#   SUITE              bookworm trixie noble (default), bullseye, focal, bionic ..
#   ROOTS, FETCHED     folders for the roots and for wheels of PyPI (default: in OUT)
# In each suite:
#   - from the wheel to the end of ib_write_bw between two processes, by at most 30 s of processors
#     (on an idle machine that is less on the wall, too);
#   - MPICH's and Open MPI's wheels beside it: the three lines of docs/guide/packages.md start an
#     MPI program on two hosts (network namespaces), which is shown to go over Bellwire;
#   - the same beside a device mlx5_0 that is there and does not work.
# bionic (Ubuntu 18.04) has the oldest C library that the wheel is for, 2.27.
# SKIPPED without root, debootstrap or a mirror.
set -u
cd "$(dirname "$0")/.." || exit 1
wheel=$(find "$(realpath "$1")" -name "bellwire-*$(uname -m).whl" | sort | head -n 1)
[ -n "$wheel" ] || { echo "SKIPPED: no wheel in $1 (packaging/wheels.sh)"; exit 0; }
mkdir -p "$2"
out=$(realpath "$2")
shift 2
[ $# -gt 0 ] || set -- bookworm trixie noble
[ "$(id -u)" = 0 ] || { echo "SKIPPED: not root"; exit 0; }
roots=${ROOTS:-$out/roots} fetched=${FETCHED:-$out/fetched}
mkdir -p "$roots"
. packaging/checks.sh
. packaging/inside.sh
fetch_wheels "$fetched" 3.9 3.11 3.12 3.13
page=docs/guide/packages.md

# The hosts a and b: namespaces of the network with a cable between them.
a=bellwire-wa-$$ b=bellwire-wb-$$
hosts_up() {
    ip netns add $a && ip netns add $b && ip link add eth0 netns $a type veth peer name eth0 netns $b || return 1
    for host in "$a 1" "$b 2"; do
        set -- $host
        ip -n "$1" addr add "10.118.0.$2/24" dev eth0 && ip -n "$1" link set lo up && ip -n "$1" link set eth0 up || return 1
    done
}
server=
hosts_down() {
    [ -z "$server" ] || kill "$server" 2>/dev/null
    server=
    ip netns del $a 2>/dev/null
    ip netns del $b 2>/dev/null
}
trap hosts_down EXIT
# A command of the user on a host, in the suite's root. With BROKEN=mlx5_0 the system has such a
# device: its files are there, as in a container on a machine with RDMA, and opening them fails.
on() { # host or -, user, script
    local host=$1 user=$2 script=$3 net=(unshare --net)
    local name=alone
    case $host in "$a") name=a ;; "$b") name=b ;; esac
    [ "$host" = - ] || net=(ip netns exec "$host")
    # shellcheck disable=SC2016
    BROKEN=${BROKEN:-} NAME=$name timeout 300 "${net[@]}" unshare --mount --pid --ipc --uts --fork --kill-child sh -c '
        hostname "$NAME"
        root=$1 user=$2; shift 2
        ip link set lo up
        mount --make-rprivate / && mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" && mount -t tmpfs tmpfs "$root/dev/shm" || exit 1
        if [ -n "$BROKEN" ]; then
            class=$(mktemp -d) && mount -t tmpfs tmpfs "$class" || exit 1
            cp -a /sys/class/. "$class/" 2>/dev/null # what is a link; a few files cannot be read
            mkdir -p "$class/infiniband/$BROKEN/ports/1" "$class/infiniband_verbs/uverbs0"
            echo "4: ACTIVE" >"$class/infiniband/$BROKEN/ports/1/state"
            echo "1: CA" >"$class/infiniband/$BROKEN/node_type"
            echo "$BROKEN" >"$class/infiniband_verbs/uverbs0/ibdev"
            echo 1 >"$class/infiniband_verbs/uverbs0/abi_version"
            echo 6 >"$class/infiniband_verbs/abi_version"
            echo 231:192 >"$class/infiniband_verbs/uverbs0/dev"
            mount --bind "$class" "$root/sys/class" && mkdir -p "$root/dev/infiniband" || exit 1
            mount -t tmpfs tmpfs "$root/dev/infiniband" && mknod -m 666 "$root/dev/infiniband/uverbs0" c 231 192 || exit 1
        fi
        home=/home/guest; [ "$user" != root ] || home=/root
        exec chroot --userspec="$user" --groups="" "$root" /usr/bin/env -i PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME="$home" USER="$user" LANG=C.UTF-8 bash -euc "cd; $1"' sh "$root" "$user" "$script"
}
# A program that is a server without an argument and a client with a host. Prints the seconds.
both='both() { "$@" >server.log 2>&1 & for i in $(seq 100); do if "$@" localhost; then wait $!; return; fi; sleep 0.1; done; cat server.log; return 1; }'

for suite in "$@"; do
    why=$(root_of "$suite" "$roots") || { echo "SKIPPED $suite: $why"; continue; }
    root=$roots/$suite
    rm -rf "$root/packages" "$root/home/guest"
    mkdir -p "$root/packages" "$root/home/guest/.ssh"
    cp "$wheel" "$fetched"/*.whl "$root/packages/"
    chmod -R a+rX "$root/packages"
    cp ci/tests/ring.c "$root/home/guest/"
    chroot "$root" chown -R guest:guest /home/guest
    libc=$(chroot "$root" ldd --version | sed -n '1s/.* //p')
    # Where Python is too old for the wheel's module, its programs and libraries are tried alone.
    is_old=$(chroot "$root" python3 -c 'import sys; print("yes" if sys.version_info < (3, 9) else "no")')
    install='python3 -m venv venv; venv/bin/pip install -q --no-index --find-links /packages bellwire'
    [ "$is_old" = no ] || install="python3 -m zipfile -e /packages/$(basename "$wheel") unpacked; mkdir -p venv/bin; chmod +x unpacked/bellwire/_native/bin/*; ln -s ../../unpacked/bellwire/_native/bin/bellwire venv/bin/bellwire"
    # ---- RDMA, from nothing
    start=$SECONDS TIMEFORMAT='%0U %0S'
    { time check "$suite: the wheel, and ib_write_bw between two processes" on - guest "$both
        $install
        both venv/bin/bellwire run --verbs ib_write_bw -n 1000"; } 2>"$out/processors"
    took=$((SECONDS - start))
    cp "$out/log" "$out/said"
    check "$suite: a table of ib_write_bw" grep -E '^ 65536 +1000 ' "$out/said"
    # On a machine that others use, too, the time on the wall says nothing.
    used=$(($(tail -n 1 "$out/processors" | tr ' ' +)))
    check "$suite: $used s of processors, at most 30" test $used -le 30
    echo "$suite (glibc $libc): $took s from the wheel to the end of ib_write_bw, $used s of processors"
    check "$suite: info" on - guest "venv/bin/bellwire info"
    # A job in C, whose processes load and unload a library of the wheel's.
    cp packaging/debian/tests/jobs "$root/packages/"
    native=/home/guest/unpacked/bellwire/_native
    [ "$is_old" = yes ] || native=$(chroot "$root" sh -c 'echo /home/guest/venv/lib/python3*/site-packages/bellwire/_native')
    check "$suite: jobs" on - guest "PATH=$native/bin:\$PATH LD_LIBRARY_PATH=$native/lib PKG_CONFIG_PATH=$native/lib/pkgconfig sh /packages/jobs"
    for broken in "" mlx5_0; do
        BROKEN=$broken
        with=${broken:+ beside a broken $broken}
        if [ -n "$broken" ]; then
            check "$suite: the device is there and does not work" on - guest "ls /sys/class/infiniband/mlx5_0 && ! ibv_devinfo 2>&1 | grep -q 'hca_id:.*mlx5_0' && ! cat /dev/infiniband/uverbs0"
            check "$suite: ib_write_bw$with" on - guest "$both
                both venv/bin/bellwire run --verbs ib_write_bw -n 1000; venv/bin/bellwire run --verbs ibv_devinfo -l"
            cp "$out/log" "$out/said"
            check "$suite: its devices$with" sh -c "grep -q bellwire0 '$out/said' && ! grep -q mlx5 '$out/said'"
            check "$suite: info$with" on - guest "venv/bin/bellwire info"
        fi
        # ---- MPI between two hosts, by the lines of the page
        for mpi in mpich openmpi; do
            [ "$is_old" = no ] || break
            case " $mpis " in *" $mpi "*) ;; *) continue ;; esac
            hosts_up || { echo "SKIPPED hosts: no network namespaces"; break; }
            awk -v of="$mpi" '/^```text / { inside = $2 == of; next } /^```/ { inside = 0 } inside' $page >"$out/lines"
            check "$suite: the page has three lines for $mpi" test "$(grep -c . "$out/lines")" = 3
            sed -e 's/^pip install /pip install -q --no-index --find-links \/packages /' "$out/lines" >"$root/home/guest/lines-$mpi"
            on $b root 'mkdir -p /run/sshd; ssh-keygen -A >/dev/null; rm -f ~guest/.ssh/*; runuser -u guest -- ssh-keygen -q -t ed25519 -N "" -f ~guest/.ssh/id_ed25519
                cat ~guest/.ssh/id_ed25519.pub >~guest/.ssh/authorized_keys; echo "StrictHostKeyChecking accept-new" >~guest/.ssh/config; chown -R guest: ~guest/.ssh
                exec /usr/sbin/sshd -D -e -o UsePAM=no -o StrictModes=no' >"$out/sshd.log" 2>&1 &
            server=$!
            for _ in $(seq 200); do ip netns exec $b ss -ltn | grep -q ':22 ' && break; sleep 0.05; done
            check "$suite: $mpi between two hosts$with" on $a guest "
                python3 -m venv --system-site-packages $mpi; . $mpi/bin/activate
                $(cat "$root/home/guest/lines-$mpi" 2>/dev/null)"
            cp "$out/log" "$out/said"
            check "$suite: over Bellwire$with" grep -E '^MPI: [0-9]{4,} messages of rank 0 of 2 went over Bellwire' "$out/said"
            kill "$server" 2>/dev/null
            wait "$server" 2>/dev/null
            hosts_down
        done
    done
    BROKEN=
    rm -rf "$root/home/guest" "$root/packages"
done
counted
