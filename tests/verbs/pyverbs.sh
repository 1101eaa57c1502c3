#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# rdma-core's own tests, as Debian 12's python3-pyverbs has them, on the library:
#   tests/verbs/pyverbs.sh LIBRARY OUT [--write]
# Their results are compared with tests/verbs/pyverbs-44.tsv (pyverbs-compare.sh). Vendors' tests
# (mlx5, efa, cuda) are left out. --write makes that table anew from this run.
set -u
library=$(realpath "$1") out=$2 write=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
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
exec "$here/pyverbs-compare.sh" 44 "$out/pyverbs.tsv" "$write"
