#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The page "RDMA in CI" of the guide: its script runs as it stands there.
#   tests/stacks/ci.sh PREFIX OUT       PREFIX: where `make install` put everything
# It runs as an ordinary user with what the page's Dockerfile copies and nothing else of PREFIX.
set -u
prefix=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
page=$(cd "$(dirname "$0")/../../docs/guide" && pwd)/rdma-ci.md
unset BELLWIRE_ADDRESS BELLWIRE_DEVICE_FILE BELLWIRE_FAULTS LD_PRELOAD LD_LIBRARY_PATH
for program in ibv_rc_pingpong ib_write_bw; do
    command -v $program >/dev/null 2>&1 || { echo "SKIPPED RDMA in CI: no ibverbs-utils and perftest"; exit 0; }
done
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
copied=0
while read -r _ _ from to; do
    [ "${from#/usr/local/}" != "$from" ] || continue
    mkdir -p "$place/$(dirname "$to")"
    cp -r "$prefix/${from#/usr/local/}" "$place/$to" || exit 1
    copied=$((copied + 1))
done < <(grep '^COPY --from=build' "$page")
[ $copied = 2 ] || { echo "FAILED: the Dockerfile of $page copies $copied paths"; exit 1; }
awk '/^```/ {inside = ($0 == "```bash"); next} inside' "$page" >"$place/rdma-test.sh"
chmod -R a+rX "$place"
mkdir "$place/home"
user=()
if [ "$(id -u)" = 0 ]; then
    chmod a+rwx "$place/home"
    user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi
cd "$place/home" || exit 1
HOME=$place/home PATH=$place/usr/local/bin:$PATH timeout -k 5 150 "${user[@]}" bash "$place/rdma-test.sh" >"$out/ci.log" 2>&1
code=$?
if [ $code = 0 ] && grep -q 'hca_id:.bellwire0' "$out/ci.log" && [ "$(grep -c 'iters in' "$out/ci.log")" = 6 ]; then
    echo "the script of the page ran as it stands"
else
    echo "FAILED ($code): the last lines:"
    tail -n 20 "$out/ci.log"
    exit 1
fi
