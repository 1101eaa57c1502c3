#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# This counts what probes cost when nobody listens: the example crates/am/examples/cost.rs, which
# requests, polls and replies, is built with the probes and, by --cfg bellwire_unprobed, without
# them in the source. With them, no code of a probe may be left, and a request with its reply may
# not execute more instructions than without, but for what the compiler does otherwise by chance: it
# weighs a function with a mark in it as longer, though nothing of the mark is left, and lays out
# some branches and registers in another way. How much that is: #[inline(always)] at one function
# (`run` in crates/am/src/poll.rs) has the program without probes execute 4 thousandths more.
#
# The flag is added by a wrapper behind cargo's back: flags that cargo knows of go into the names of
# all functions, whose order decides what the optimiser does first.
set -u
cd "$(dirname "$0")/.." || exit 1
target=${CARGO_TARGET_DIR:-target}/probes-off
most=5 # thousandths
command -v valgrind >/dev/null || { echo "SKIPPED: no valgrind, which counts instructions"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '#!/bin/sh\nexec "$@" $BELLWIRE_PROBES_CFG\n' >"$work/rustc"
chmod +x "$work/rustc"

build() { # name, flags
    BELLWIRE_PROBES_CFG=$2 RUSTC_WRAPPER=$work/rustc RUSTFLAGS='' CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_INCREMENTAL=0 \
        cargo build -q --release --locked -p bellwire-am --example cost --target-dir "$target/$1" || exit 1
}
executed() { # name
    valgrind --tool=callgrind --toggle-collect='*round_trips*' --callgrind-out-file="$work/$1.out" "$target/$1/release/examples/cost" 2>&1 | sed -n 's/.*Collected : //p'
}
build with ""
build without "--cfg bellwire_unprobed"
left=$(objdump -d -C --no-show-raw-insn "$target/with/release/examples/cost" | grep -cE 'bellwire_(am|trace)::probe|Probe<.*>::mark')
with=$(executed with) without=$(executed without)
case $with$without in '' | *[!0-9]*) echo "FAILED: instructions executed: \"$with\", \"$without\""; exit 1 ;; esac
if [ "$without" -lt 10000000 ]; then echo "FAILED: only $without instructions were executed"; exit 1; fi
text="instructions of 20,000 requests and replies: $without without probes in the source, $with with probes that are off"
if [ "$left" != 0 ]; then echo "FAILED: probes that are off are called at $left places"; exit 1; fi
if [ $((with * 1000)) -gt $((without * (1000 + most))) ]; then echo "FAILED: $text"; exit 1; fi
echo "all well: $text; no code of a probe is left"
