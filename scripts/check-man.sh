#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Every page of docs/man formats without a warning; the pages of the calls are those that the headers give; every call of the headers and every command has
# a page; every page that is referred to is there.
set -u
cd "$(dirname "$0")/../docs/man" || exit 1
failed=0
complain() { echo "FAILED: $*"; failed=$((failed + 1)); }

python3 make-pages.py --check > /dev/null || complain "pages are not those of the headers: run docs/man/make-pages.py"
pages=0
for page in *.1 *.3 *.7; do
    pages=$((pages + 1))
    if command -v mandoc > /dev/null; then
        said=$(mandoc -T lint -W warning "$page" 2>&1 | grep -v 'missing date')
    elif command -v groff > /dev/null; then
        said=$(groff -man -t -Tutf8 -ww -rLL=78n "$page" 2>&1 > /dev/null | grep -v "can't break line\|cannot break line\|cannot adjust line")
    else
        said=
    fi
    [ -z "$said" ] || complain "$page: $said"
    head -n 3 "$page" | grep -q '^\.TH' || complain "$page: no title"
done

named=$(sed -n 's/^\.\\" calls: //p' ./*.3 ./*.7)
for call in $(grep -ohE '\bVipx?[A-Z][A-Za-z]+\(' ../../ffi/vipl/include/vipl.h ../../ffi/vipl/include/viplx.h | tr -d '(' | sort -u); do
    printf '%s\n' $named | grep -qx "$call" || complain "$call has no page"
done
for call in $(grep -vE '^#' ../../ffi/sisci/include/sisci_api.h | grep -ohE '\bSCI[A-Za-z]+\(' | tr -d '(' | sort -u); do
    printf '%s\n' $named | grep -qx "$call" || complain "$call has no page"
done
for call in $(grep -ohE '\bbw_job_[a-z_]+\(' ../../ffi/job/include/bellwire_job.h | tr -d '(' | sort -u); do
    printf '%s\n' $named | grep -qx "$call" || complain "$call has no page"
done
for call in $(grep -ohE '\bbw_rpc_[a-z_]+\(' ../../ffi/am/include/bellwire_rpc.h | tr -d '(' | sort -u); do
    printf '%s\n' $named | grep -qx "$call" || complain "$call has no page"
done
# Of calls with M arguments, the family.
for call in $(grep -vE '^#|^    |^AM_DEFINE' ../../ffi/am/include/am.h | grep -ohE '\bAMX?_[A-Z][A-Za-z]+\(' | tr -d '(' | sort -u) $(sed -n 's/^    static inline int \(AM_[A-Za-z]*\)##M.*/\1M/p' ../../ffi/am/include/am.h); do
    printf '%s\n' $named | grep -qx "$call" || complain "$call has no page"
done
for command in $(sed -n 's/^    \([A-Z][a-z]*\)([a-zB].*Arguments.*/\1/p' ../../crates/cli/src/main.rs ../../bench/src/main.rs | tr 'A-Z' 'a-z') ni; do
    [ -f "bellwire-$command.1" ] || complain "bellwire $command has no page"
done
# ".BR name (3)": ours begin with bellwire, fi_bellwire, vipl or Vip.
for reference in $(sed -e 's/\\-/-/g' -e 's/\\f.//g' ./*.[137] | grep -oE '(fi_)?(bellwire|vipl)[a-z_-]* \([137]\)|Vipx?[A-Z][A-Za-z]* \(3\)' | tr -d ' ' | sort -u); do
    name=${reference%(*} section=${reference#*(}
    [ -f "$name.${section%)}" ] || printf '%s\n' $named | grep -qx "$name" || complain "$reference is referred to and is not there"
done
[ $failed = 0 ] && echo "all well: $pages pages"
[ $failed = 0 ]
