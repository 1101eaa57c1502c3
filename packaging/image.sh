#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# An image of a container, without a daemon: Debian 12, Bellwire's packages, and RDMA's commands.
#   packaging/image.sh PACKAGES OUT      PACKAGES: the folder of packaging/deb.sh
#   INCLUDE    more of Debian's packages (default: ibverbs-utils perftest mpich)
#   MIRROR     of Debian (http://deb.debian.org/debian)
# OUT/bellwire-VERSION-oci.tar is an OCI archive: `podman load -i`, `skopeo copy oci-archive:..`,
# and with Docker 25 or later `docker load -i`. SKIPPED without root, debootstrap or a mirror.
set -eu
cd "$(dirname "$0")/.."
packages=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
mirror=${MIRROR:-http://deb.debian.org/debian}
include=${INCLUDE-ibverbs-utils perftest mpich}
[ "$(id -u)" = 0 ] || { echo "SKIPPED: not root"; exit 0; }
for tool in debootstrap python3; do
    command -v $tool >/dev/null || { echo "SKIPPED: no $tool"; exit 0; }
done
ls "$packages"/*.deb >/dev/null 2>&1 || { echo "SKIPPED: no packages in $packages (packaging/deb.sh)"; exit 0; }
. packaging/release.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
debootstrap --variant=minbase ${include:+--include="${include// /,}"} bookworm "$work/base" "$mirror" >"$out/debootstrap.log" 2>&1 ||
    { echo "SKIPPED: $(tail -n 1 "$out/debootstrap.log")"; exit 0; }
# Files that depend on the moment, or can be fetched again, are left out.
tidy() {
    rm -rf "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/* "$1"/var/log/* "$1"/var/cache/ldconfig/* "$1"/tmp/* "$1"/etc/machine-id "$1"/var/lib/dbus/machine-id
    : >"$1/etc/hostname"
    : >"$1/etc/resolv.conf"
    find "$1/dev" -mindepth 1 -delete
}
tidy "$work/base"
cp -a "$work/base" "$work/whole"
for package in "$packages"/*.deb; do
    case $package in *dbgsym*) ;; *) cp "$package" "$work/whole/tmp/" ;; esac
done
chroot "$work/whole" sh -c 'dpkg -i /tmp/*.deb' >"$out/dpkg.log" 2>&1 || { tail -n 10 "$out/dpkg.log"; echo "FAILED: dpkg"; exit 1; }
tidy "$work/whole"
packaging/image.py layer "$work/base" "$work/debian.tar"
packaging/image.py layer "$work/whole" "$work/bellwire.tar" "$work/base"
packaging/image.py pack "$out/bellwire-$version-oci.tar" "$work/debian.tar" "$work/bellwire.tar"
