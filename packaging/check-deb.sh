#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Debian packages in clean systems: fresh roots of Debian 12 and 13 and of Ubuntu 24.04. They are
# installed there, tried by packaging/debian/tests as an ordinary user, and removed.
#   packaging/check-deb.sh PACKAGES OUT [SUITE ..]     OUT: a folder for the roots, kept for the next run
# SKIPPED without root, debootstrap or a mirror (MIRROR=http://.., UBUNTU_MIRROR).
set -u
cd "$(dirname "$0")/.." || exit 1
packages=$(realpath "$1") out=$2
shift 2
[ $# -gt 0 ] || set -- bookworm trixie noble
[ "$(id -u)" = 0 ] || { echo "SKIPPED: not root"; exit 0; }
mkdir -p "$out"
out=$(realpath "$out")
. packaging/checks.sh
. packaging/inside.sh
for suite in "$@"; do
    root=$out/$suite
    why=$(root_of "$suite" "$out") || { echo "SKIPPED $suite: $why"; continue; }
    find "$root/usr" "$root/etc" "$root/var/lib/dpkg/info" -name '*bellwire*' | sort >"$out/before"
    rm -rf "$root/packages"
    mkdir "$root/packages"
    cp "$packages"/*.deb packaging/debian/tests/* "$root/packages/"
    rm -f "$root"/packages/*dbgsym*
    check "$suite: installed" inside "$root" 0:0 sh -c 'dpkg -i /packages/*.deb'
    for test in $(sed -n 's/^Tests: //p' packaging/debian/tests/control); do
        check "$suite: $test" inside "$root" 65534:65534 sh "/packages/$test"
    done
    check "$suite: removed" inside "$root" 0:0 dpkg --purge bellwire-verbs bellwire libbellwire-dev libbellwire1
    find "$root/usr" "$root/etc" "$root/var/lib/dpkg/info" -name '*bellwire*' | sort >"$out/after"
    check "$suite: nothing is left" cmp "$out/before" "$out/after"
done
counted
