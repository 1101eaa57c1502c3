#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# An archive with everything that is installed, and a script that installs it anywhere:
#   packaging/tarball.sh OUT      OUT: a folder for bellwire-VERSION-linux-MACHINE.tar.gz
#   BUILD                         a folder with what cargo has built (default: target/release)
# The same files give the same bytes.
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$1"
out=$(realpath "$1")
build=$(realpath "${BUILD:-target/release}")
. packaging/release.sh
name=bellwire-$version-linux-$(uname -m)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
BUILD=$build PREFIX=/usr/local DESTDIR=$work/$name/files ffi/vipl/install.sh >/dev/null
mv "$work/$name/files/usr/local" "$work/$name/tree"
rm -r "$work/$name/files"
find "$work/$name/tree" -type f \( -name '*.so*' -o -path '*/bin/*' \) -exec strip --strip-unneeded {} +
cp packaging/tarball/install.sh README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$work/$name/"
tar --sort=name --mode=u+rw,go+r-w,a+X --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$work" -c "$name" | gzip -n >"$out/$name.tar.gz"
(cd "$out" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256" && cat "$name.tar.gz.sha256")
