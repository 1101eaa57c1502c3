#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The libfabric provider through libfabric's public calls, by programs of ours.
#   tests/fi/check.sh PROVIDER OUT BELLWIRE      PROVIDER: libbellwire_fi.so; OUT: where to build; BELLWIRE: the command
set -eu
cd "$(dirname "$0")"
provider=$1 out=$2 bellwire=$3
if ! echo '#include <rdma/fabric.h>' | cc -E - >/dev/null 2>&1; then
    echo "SKIPPED objects: no libfabric-dev"
    exit 0
fi
mkdir -p "$out/provider"
cp "$provider" "$out/provider/libbellwire-fi.so"
for program in objects refused matched computes sharing addressing died; do
    cc -Wall -Wextra -O1 -o "$out/$program" "$program.c" -lfabric
    FI_PROVIDER_PATH=$out/provider timeout 300 "$out/$program"
done
./confined.sh "$out" "$bellwire"
./cost.sh "$out"
