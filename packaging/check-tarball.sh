#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The archive of packaging/tarball.sh: installed by an ordinary user in a home of its own, tried by
# the programs of packaging/debian/tests, and removed.
#   packaging/check-tarball.sh ARCHIVES OUT
set -u
cd "$(dirname "$0")/.." || exit 1
archive=$(realpath "$(ls "$1"/bellwire-*.tar.gz | head -n 1)")
mkdir -p "$2"
out=$(realpath "$2")
. packaging/checks.sh
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
user=(env HOME="$home" TMPDIR="$home")
if [ "$(id -u)" = 0 ]; then
    chmod 777 "$home"
    user=(setpriv --reuid=65534 --regid=65534 --clear-groups "${user[@]}")
fi
prefix=$home/.local
check "the sum" sh -c "cd '$(dirname "$archive")' && sha256sum -c '$archive.sha256'"
check "unpacked" "${user[@]}" tar -xzf "$archive" -C "$home"
install=$(echo "$home"/bellwire-*/install.sh)
check "--help" "${user[@]}" "$install" --help
check "installed" "${user[@]}" "$install"
check "where it may not write, it says so" sh -c "${user[*]} '$install' /proc/bellwire 2>&1 | grep 'cannot be written'"
check_programs "${user[@]}" PATH="$prefix/bin:$PATH" LD_LIBRARY_PATH="$prefix/lib" PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
check "removed" "${user[@]}" "$install" --remove
check "nothing is left" sh -c "! [ -e '$prefix' ]"
counted
