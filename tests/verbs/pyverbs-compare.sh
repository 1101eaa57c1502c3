#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Compares a run of rdma-core's tests with the table of a version:
#   tests/verbs/pyverbs-compare.sh VERSION SEEN [--write]
# SEEN has a line for each test, of rdma_core.py. The table, pyverbs-VERSION.tsv, has for each test
# its result, the suite's reason for a skip, and the capability that is lacking
# (pyverbs-lacks.txt). A test that passes there passes; one that is skipped there is skipped for the
# same reason, or passes; none fails. `either`: it depends on the host. --write makes it anew.
set -u
version=$1 seen=$2 write=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
table=$here/pyverbs-$version.tsv
if [ "$write" = --write ]; then
    awk -F '\t' -v OFS='\t' '
        NR == FNR {lack[++n] = $1; pattern[n] = $2; next}
        # The suite prints lines of its own among them.
        $1 !~ /^test_/ {next}
        $2 != "pass" {
            $4 = ""
            for (i = 1; i <= n; i++) if (($1 " " $3) ~ pattern[i]) {$4 = lack[i]; break}
            if ($4 ~ /^(the host|nothing):/) $2 = "either"
        }
        {print}' "$here/pyverbs-lacks.txt" "$seen" >"$table"
fi
# name, outcome, reason: of the table first, then of this run.
awk -F '\t' -v version="$version" '
    $1 !~ /^test_/ {next}
    NR == FNR {
        wanted[$1] = $2; reason[$1] = $3
        if ($2 != "pass" && $4 == "") {print "FAILED pyverbs: " $1 ": the table does not say what is lacking"; failed++}
        lack[$1] = $4
        next
    }
    {seen[$1] = 1; count[$2]++}
    !($1 in wanted) {print "FAILED pyverbs: " $1 " is not in the table (" $2 " " $3 ")"; failed++; next}
    $2 == "fail" {print "FAILED pyverbs: " $1 ": " $3; failed++; next}
    $2 == "skip" {lacking[lack[$1]]++}
    wanted[$1] == "either" {next}
    wanted[$1] == "pass" && $2 != "pass" {print "FAILED pyverbs: " $1 " passed once and is skipped now: " $3; failed++; next}
    wanted[$1] == "skip" && $2 == "skip" && reason[$1] != $3 {print "FAILED pyverbs: " $1 " is skipped for another reason: " $3; failed++}
    wanted[$1] == "skip" && $2 == "pass" {print "pyverbs: " $1 " passes now; the table says that it is skipped"}
    END {
        for (name in wanted) if (!(name in seen)) {print "FAILED pyverbs: " name " was not run"; failed++}
        for (what in lacking) printf "  lacking in %d: %s\n", lacking[what], what
        printf "rdma-core %s: %d pass, %d are skipped, %d fail\n", version, count["pass"], count["skip"], count["fail"]
        printf "%d passed, %d failed\n", length(wanted) - failed, failed
        exit failed != 0
    }' "$table" "$seen"
