#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Debian packages of the checkout's last commit, checked by lintian:
#   packaging/deb.sh OUT      OUT: a folder for the packages
#   BUILD                     a folder with what cargo has built; without it cargo builds
# The same commit and compilers give the same packages. Needs debhelper, lintian, pkg-config.
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$1"
out=$(realpath "$1") root=$PWD
for tool in dpkg-buildpackage dh lintian; do
    command -v $tool >/dev/null || { echo "SKIPPED: no $tool (dpkg-dev debhelper lintian)"; exit 0; }
done
[ -z "${BUILD:-}" ] || BUILD=$(realpath "$BUILD")
export BUILD=${BUILD:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/bellwire
. packaging/release.sh
mkdir "$tree"
git archive HEAD | tar x -C "$tree"
cp -r "$root/packaging/debian" "$tree/debian"
cat >"$tree/debian/changelog" <<END
bellwire ($version) unstable; urgency=medium

  * Release $version. CHANGELOG.md has what is new.

 -- Bellwire developers <maintainers@users.noreply.a-seed-81ba639c.example>  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
END
cd "$tree"
dpkg-buildpackage -us -uc -b -d >"$out/build.log" 2>&1 || { tail -n 30 "$out/build.log"; echo "FAILED: dpkg-buildpackage"; exit 1; }
rm -f "$out"/*.deb "$out"/*.changes "$out"/*.buildinfo
mv "$work"/*.deb "$work"/*.changes "$work"/*.buildinfo "$out/"
lintian --fail-on error,warning --tag-display-limit 0 "$out"/*.changes || { echo "FAILED: lintian"; exit 1; }
ls -l "$out"/*.deb | awk '{print $5, $NF}'
