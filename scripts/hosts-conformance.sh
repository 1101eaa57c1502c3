#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Two hosts (two-hosts.sh): the conformance suite between them, over IPv4, IPv6 and IPv6 of the link only. One case at a time: all have the same two addresses.
# `hosts-conformance.sh DIR LIBDIR [addresses]`, as two-hosts.sh wants them; addresses: "FIRST/SECOND ..", fe80/fe80 for those of the link.
pairs=${3:-} # two-hosts.sh sets the arguments anew.
source "$(dirname "$0")/two-hosts.sh"
cd "$(dirname "$0")/.." || exit 1

# Of the whole workspace, as `make test` builds it: `-p` would select other features.
suite=$(cargo test --workspace --locked --test udp --no-run 2>&1 | sed -n 's/.*Executable tests\/udp.rs (\(.*\))$/\1/p')
[ -n "$suite" ] || { echo "FAILED: the suite does not build"; exit 1; }

for pair in ${pairs:-$here/$there $here6/$there6 fe80/fe80}; do
    first=${pair%/*} second=${pair#*/}
    if [ "$pair" = fe80/fe80 ]; then first=$(link_address "$a") second=$(link_address "$b"); fi
    rm -f "$log"/*
    if BELLWIRE_TEST_HOSTS=$a,$first,$b,$second "$suite" --ignored --test-threads=1 udp_hosts >"$log/suite" 2>&1; then
        ok "conformance, $first and $second  ($(grep -h '^test result' "$log/suite" | cut -d';' -f1))"
    else
        bad "conformance, $first and $second"
    fi
done
echo "all hosts: $passed"
exit $failed
