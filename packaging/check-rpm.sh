#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# RPM packages in a root of their own: installs what packaging/rpm.sh has made there, runs the tests
# of packaging/debian/tests with it, and removes it.
#   packaging/check-rpm.sh PACKAGES OUT      OUT: a folder for the root
# The root has the packages' files only: programs run on this system's C library, and packages that
# others have (the C library) are not asked for.
set -u
cd "$(dirname "$0")/.." || exit 1
packages=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2") root=$(realpath "$2")/root
command -v rpm >/dev/null || { echo "SKIPPED: no rpm"; exit 0; }
ls "$packages"/*.rpm >/dev/null 2>&1 || { echo "SKIPPED: no packages (packaging/rpm.sh)"; exit 0; }
. packaging/checks.sh
rm -rf "$root"
mkdir -p "$root/tmp"
in_root() { rpm --root "$root" --nodeps --nosignature "$@"; }
check "installed" in_root -i "$packages"/*.rpm
lib=$(rpm --eval '%{_lib}')
# What the packages say of each other is enough to choose them by.
check "the command brings the libraries" sh -c "rpm -qp --requires '$packages'/bellwire-0*.rpm | grep -q '^bellwire-libs = '"
# Nobody's libibverbs is replaced.
check "no libibverbs is provided" sh -c "! rpm -qp --provides '$packages'/bellwire-verbs-*.rpm | grep ibverbs"
check "no file is another's" sh -c "! rpm -qpl '$packages'/*.rpm | grep -vE 'bellwire|vipl|sisci|/am\.h|/(man[137])/' | grep ."
export LD_LIBRARY_PATH=$root/usr/$lib PATH=$root/usr/bin:$PATH
export PKG_CONFIG_PATH=$root/usr/$lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
check_programs
check "removed" in_root -e bellwire-verbs bellwire bellwire-devel bellwire-libs
check "nothing is left" sh -c "! find '$root/usr' ! -type d 2>/dev/null | grep ."
counted
