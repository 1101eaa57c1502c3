# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
# Sourced by the checks of packages that have a root with a system of its own.
inside() { # root, user, command ..: with /proc, /sys, /dev and /dev/shm of its own
    local root=$1 user=$2
    shift 2
    # shellcheck disable=SC2016
    timeout 900 unshare --mount --pid --ipc --net --fork sh -c '
        root=$1 user=$2; shift 2
        ip link set lo up 2>/dev/null
        mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" && mount -t tmpfs tmpfs "$root/dev/shm" && exec chroot --userspec="$user" "$root" /usr/bin/env -i PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/tmp "$@"' sh "$root" "$user" "$@"
}
