#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs every command line of the user guide as written: all blocks marked "sh" of docs/guide, in the order of its README, in one shell, with a home folder
# of its own, starting in the checkout. A block marked "sh needs:unshare" is skipped where user
# namespaces are not to be had. Of the README, the blocks marked "sh needs:install" run at the end.
#   TARGET_DIR=... scripts/guide.sh       where cargo builds (default: target)
set -u
cd "$(dirname "$0")/.." || exit 1
target=${TARGET_DIR:-${CARGO_TARGET_DIR:-target}}
case $target in /*) ;; *) target=$PWD/$target ;; esac
export CARGO_TARGET_DIR=$target CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
unset BELLWIRE_TRACE BELLWIRE_TRACE_BYTES BELLWIRE_VIPL BELLWIRE_MODE BELLWIRE_ATTACH BELLWIRE_ADOPT BELLWIRE_MEMORY BELLWIRE_SPIN_US BELLWIRE_ADDRESS BELLWIRE_UDP BELLWIRE_SHM BELLWIRE_FAULTS BELLWIRE_DIRECTORY_PORT BELLWIRE_JOB_VIA BELLWIRE_JOB_TIMEOUT_S BELLWIRE_SISCI BELLWIRE_SISCI_NODES MAKEFLAGS MAKELEVEL
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
pages=$(sed -n 's/^| \[[^]]*\](\([a-z-]*\.md\)).*/\1/p' docs/guide/README.md)
pages="$pages ../../README.md"
has_unshare=no
unshare --user --map-root-user --mount true 2>/dev/null && has_unshare=yes

# One script out of all blocks. Each begins by saying where it stands, so that a failure is found.
for page in $pages; do
    awk -v page="$page" -v unshare=$has_unshare '
        (/^```sh$/ && page !~ /README/) || /^```sh needs:(install|unshare)$/ {
            skip = ($0 ~ /needs:unshare/ && unshare == "no")
            if (skip) print "echo \"SKIPPED " page ":" NR ": no user namespaces\" >&3"
            else print "echo \"== " page ":" NR " at $SECONDS s\" >&3"
            inside = 1
            next
        }
        /^```$/ { inside = 0; next }
        inside && !skip { print }' "docs/guide/$page"
done > "$scratch/guide.sh"
blocks=$(grep -c '^echo "== ' "$scratch/guide.sh")
[ "$blocks" -gt 10 ] || { echo "FAILED: only $blocks blocks found"; exit 1; }

mkdir "$scratch/home"
HOME=$scratch/home bash -eu "$scratch/guide.sh" > "$scratch/output" 2>&1 3> "$scratch/progress" < /dev/null
status=$?
grep SKIPPED "$scratch/progress"
if [ $status != 0 ]; then
    echo "FAILED in the block at docs/guide/$(tail -n 1 "$scratch/progress" | sed 's/^== //'), status $status; the last output:"
    tail -n 40 "$scratch/output"
    exit 1
fi
[ -z "${VERBOSE:-}" ] || cat "$scratch/output" "$scratch/progress"
echo "all well: $blocks blocks of the guide ran as written"
