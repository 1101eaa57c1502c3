#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Instructions of an access to a word of global memory from Rust, beside a plain load and store, counted by callgrind. Fails if a read, write or get takes more than 10 beyond the plain access;
# a store, which also counts, more than 14.
#   global-words.sh      SKIPPED without valgrind
set -u
cd "$(dirname "$0")/.." || exit 1
target=${CARGO_TARGET_DIR:-target}
command -v valgrind >/dev/null || { echo "SKIPPED: no valgrind, which counts instructions"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cargo build -q --release --locked -p bellwire-global --example words || exit 1
BELLWIRE_GAS_SYMMETRIC_MIB=16 valgrind --tool=callgrind --callgrind-out-file="$work/out" --toggle-collect='*counted_*' "$target/release/examples/words" >"$work/said" 2>&1 || { cat "$work/said"; exit 1; }
callgrind_annotate --inclusive=yes --threshold=100 "$work/out" >"$work/costs" 2>&1
# Of each function in a loop of 10,000; the first number of its line.
of() { grep -m 1 "counted_$1" "$work/costs" | sed 's/^ *//; s/[ (].*//; s/,//g'; }
failed=0
row() { # name, function, the plain one, most
    awk -v most="$4" -v name="$1" -v all="$(of "$2")" -v plain="$(of "$3")" 'BEGIN {
        if (all == "" || plain == "") { print "FAILED: " name " was not counted"; exit 1 }
        more = (all - plain) / 10000
        printf "%-6s %5.1f instructions beyond the plain access (%.1f)\n", name, more, plain / 10000
        exit more > most + 0.05 }' || failed=1
}
row read global_load plain_load 10
row write global_store plain_store 10
row get global_get plain_store 10
row store global_signal plain_store 14
[ $failed = 0 ] && echo "all well: words cost at most 10 instructions beyond a plain access"
exit $failed
