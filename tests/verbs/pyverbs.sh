#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0 rdma-core's own tests, as Debian 12's python3-pyverbs
# has them, on the library: tests/verbs/pyverbs.sh LIBRARY OUT [--write] Each result is compared
# with tests/verbs/pyverbs-44.tsv: a test that passes there passes, one that is skipped there is
# skipped for the reason given, or passes, and none fails. `either` says that it depends on the
# host. --write: makes that table anew from this run. Vendors' tests (mlx5, efa, cuda) are left out.
set -u
library=$(realpath "$1") out=$2 write=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
expected=$here/pyverbs-44.tsv
source=/usr/share/doc/rdma-core/tests
# The suite is built for the system's Python.
if ! /usr/bin/python3 -c 'import pyverbs' 2>/dev/null || [ ! -d $source ]; then
    echo "SKIPPED pyverbs: no python3-pyverbs, or its tests in $source are not installed"
    exit 0
fi
version=$(dpkg-query -W -f '${Version}' python3-pyverbs 2>/dev/null)
case $version in
    44.*) ;;
    *) echo "SKIPPED pyverbs: the table is of version 44, here is ${version:-another}" && exit 0 ;;
esac
rm -rf "$out/pyverbs"
mkdir -p "$out/pyverbs"
cp -r $source "$out/pyverbs/tests"
gunzip -f "$out"/pyverbs/tests/*.gz
rm -f "$out"/pyverbs/tests/test_mlx5* "$out"/pyverbs/tests/test_efa* "$out"/pyverbs/tests/test_cuda*
LD_PRELOAD=$library timeout "${PYVERBS_SECONDS:-300}" /usr/bin/python3 "$here/rdma_core.py" "$out/pyverbs" --dev bellwire0 >"$out/pyverbs.tsv" 2>"$out/pyverbs.log"
code=$?
if [ $code != 0 ]; then
    echo "FAILED pyverbs: the suite ended with $code: $(tail -n 3 "$out/pyverbs.log")"
    exit 1
fi
if [ "$write" = --write ]; then
    awk -F '\t' -v OFS='\t' '$3 ~ /huge pages|dmabuf|gid indices populated/ {$2 = "either"} $1 ~ /^test_/ {print}' "$out/pyverbs.tsv" >"$expected"
fi
# name, outcome, reason: of the table first, then of this run.
awk -F '\t' '
    # The suite prints lines of its own among them.
    $1 !~ /^test_/ {next}
    NR == FNR {wanted[$1] = $2; reason[$1] = $3; next}
    {seen[$1] = 1; count[$2]++}
    !($1 in wanted) {print "FAILED pyverbs: " $1 " is not in the table (" $2 " " $3 ")"; failed++; next}
    $2 == "fail" {print "FAILED pyverbs: " $1 ": " $3; failed++; next}
    wanted[$1] == "either" {next}
    wanted[$1] == "pass" && $2 != "pass" {print "FAILED pyverbs: " $1 " passed once and is skipped now: " $3; failed++; next}
    wanted[$1] == "skip" && $2 == "skip" && reason[$1] != $3 {print "FAILED pyverbs: " $1 " is skipped for another reason: " $3; failed++}
    wanted[$1] == "skip" && $2 == "pass" {print "pyverbs: " $1 " passes now; the table says that it is skipped"}
    END {
        for (name in wanted) if (!(name in seen)) {print "FAILED pyverbs: " name " was not run"; failed++}
        printf "rdma-core 44: %d pass, %d are skipped, %d fail\n", count["pass"], count["skip"], count["fail"]
        printf "%d passed, %d failed\n", length(wanted) - failed, failed
        exit failed != 0
    }' "$expected" "$out/pyverbs.tsv"
