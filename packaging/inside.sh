# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
# Sourced by the checks of packages that have a root with a system of its own.

# A fresh root of a suite of Debian (bookworm, trixie ..) or of Ubuntu (noble, bionic ..), which is
# kept for the next run, with the packages that any check wants there and a user `guest`. If it
# cannot be had, the reason is printed and the status is 1.
#   MIRROR, UBUNTU_MIRROR     where packages are fetched
# Debian 12 has no keys of Ubuntu's and no script for its newer suites, which are all alike.
root_of() { # suite, folder for roots
    local suite=$1 root=$2/$1 mirror=${MIRROR:-http://deb.debian.org/debian} options=() script=()
    [ ! -e "$root.whole" ] || return 0
    command -v debootstrap >/dev/null || { echo "no debootstrap"; return 1; }
    case $suite in
        bionic | focal | jammy | noble)
            mirror=${UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu} script=(gutsy) options=(--components=main,universe)
            [ -e /usr/share/keyrings/ubuntu-archive-keyring.gpg ] || options+=(--no-check-gpg) ;;
    esac
    rm -rf "$root"
    debootstrap --variant=minbase "${options[@]}" \
        --include=gcc,libc6-dev,make,pkg-config,ibverbs-utils,perftest,python3-venv,git,iproute2,openssh-server "$suite" "$root" "$mirror" "${script[@]}" >"$root.log" 2>&1 ||
        { grep -E '^(E|W):' "$root.log" | tail -n 1; return 1; }
    # A password that nobody can have; without any, sshd takes an account to be closed.
    chroot "$root" useradd --create-home --shell /bin/bash --password '*' guest
    printf '127.0.0.1 localhost\n10.118.0.1 a\n10.118.0.2 b\n' >"$root/etc/hosts"
    touch "$root.whole"
}

inside() { # root, user, command ..: with /proc, /sys, /dev and /dev/shm of its own
    local root=$1 user=$2
    shift 2
    # shellcheck disable=SC2016
    timeout 900 unshare --mount --pid --ipc --net --fork sh -c '
        root=$1 user=$2; shift 2
        ip link set lo up 2>/dev/null
        mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" && mount -t tmpfs tmpfs "$root/dev/shm" && exec chroot --userspec="$user" "$root" /usr/bin/env -i PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/tmp "$@"' sh "$root" "$user" "$@"
}
