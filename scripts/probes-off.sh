#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Probes that nobody listens to are no instructions: the example crates/am/examples/cost.rs, which requests, polls and replies, is built with the probes and, by --cfg bellwire_unprobed, without
# them in the source. Both must have the same functions with the same instructions. (Addresses differ, for names and line numbers do; so they are left out.)
set -u
cd "$(dirname "$0")/.." || exit 1
target=${CARGO_TARGET_DIR:-target}/probes-off
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build() { # name, flags
    RUSTFLAGS=$2 CARGO_PROFILE_RELEASE_DEBUG=0 cargo build -q --release --locked -p bellwire-am --example cost --target-dir "$target/$1" || exit 1
    # Of each function the name without its hash, then its instructions, without addresses.
    objdump -d --no-show-raw-insn --no-addresses "$target/$1/release/examples/cost" |
        sed -E 's/17h[0-9a-f]{16}E/E/g; s/[0-9a-f]+ <([^>+]+)(\+0x[0-9a-f]+)?>/<\1>/g; s/# .*//; s/0x[0-9a-f]+\(%rip\)/(%rip)/g; s/\$0x[0-9a-f]{5,}/ADDRESS/g; s/[[:space:]]+$//' >"$work/$1"
}
build with ""
build without "--cfg bellwire_unprobed"

functions=$(grep -c '^<' "$work/with")
instructions=$(grep -vc '^<\|^$' "$work/with")
if [ "$instructions" -lt 10000 ]; then echo "FAILED: only $instructions instructions were found"; exit 1; fi
if ! diff -q "$work/with" "$work/without" >/dev/null; then
    echo "FAILED: with probes that nobody listens to the code is another one:"
    diff "$work/with" "$work/without" | head -n 40
    exit 1
fi
echo "all well: $functions functions, $instructions instructions, the same with probes that are off as without any"
