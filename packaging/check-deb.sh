#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Debian packages in clean systems: installs what packaging/deb.sh has made in fresh roots of Debian
# 12 and 13, runs their tests (packaging/debian/tests) there as an ordinary user, and removes them.
#   packaging/check-deb.sh PACKAGES OUT [SUITE ..]     OUT: a folder for the roots, kept for the next run
# SKIPPED without root, debootstrap or a mirror of Debian (MIRROR=http://..).
set -u
cd "$(dirname "$0")/.." || exit 1
packages=$(realpath "$1") out=$2
shift 2
[ $# -gt 0 ] || set -- bookworm trixie
mirror=${MIRROR:-http://deb.debian.org/debian}
[ "$(id -u)" = 0 ] || { echo "SKIPPED: not root"; exit 0; }
command -v debootstrap >/dev/null || { echo "SKIPPED: no debootstrap"; exit 0; }
mkdir -p "$out"
out=$(realpath "$out")
. packaging/checks.sh
. packaging/inside.sh
for suite in "$@"; do
    root=$out/$suite
    if [ ! -e "$root.whole" ]; then
        rm -rf "$root"
        debootstrap --variant=minbase --include=gcc,libc6-dev,pkg-config,ibverbs-utils,iproute2 "$suite" "$root" "$mirror" >"$out/$suite.log" 2>&1 ||
            { echo "SKIPPED $suite: $(tail -n 1 "$out/$suite.log")"; continue; }
        touch "$root.whole"
    fi
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
