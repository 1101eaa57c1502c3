#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# RPM packages of the checkout's last commit:
#   packaging/rpm.sh OUT      OUT: a folder for the packages
#   BUILD                     a folder with what cargo has built; without it cargo builds
# The same commit and compilers give the same packages. Needs rpmbuild.
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$1"
out=$(realpath "$1")
command -v rpmbuild >/dev/null || { echo "SKIPPED: no rpmbuild (rpm, or rpm-build)"; exit 0; }
[ -z "${BUILD:-}" ] || BUILD=$(realpath "$BUILD")
export BUILD=${BUILD:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/BUILD
. packaging/release.sh
mkdir "$work/SOURCES"
git archive --prefix="bellwire-$version/" -o "$work/SOURCES/bellwire-$version.tar.gz" HEAD
# On a system of other packages, RPM knows nothing of its compilers.
foreign=
rpm -q rpm >/dev/null 2>&1 || foreign=--nodeps
# The time and the machine of a build are left out, so that another one gives the same bytes.
# shellcheck disable=SC2086 # nothing, or one word
rpmbuild -bb $foreign --define "_topdir $work" --define "bellwire_version $version" \
    --define "_buildhost bellwire" --define "use_source_date_epoch_as_buildtime 1" \
    --define "clamp_mtime_to_source_date_epoch 1" packaging/rpm/bellwire.spec >"$out/build.log" 2>&1 ||
    { tail -n 30 "$out/build.log"; echo "FAILED: rpmbuild"; exit 1; }
rm -f "$out"/*.rpm
mv "$work"/RPMS/*/*.rpm "$out/"
ls -l "$out"/*.rpm | awk '{print $5, $NF}'
