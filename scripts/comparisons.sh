#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Whether the compiler that is installed loses comparisons in what we ship, with all that is inlined from elsewhere (xtask/src/comparisons.rs says how and why).
# A compiler that does so is no failure; code in which it does so is: it is to be written in another way.
set -eu
cd "$(dirname "$0")/.."
out=${CARGO_TARGET_DIR:-$PWD/target}/comparisons
rm -rf "$out"
mkdir -p "$out/mir"
RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zdump-mir=SimplifyComparisonIntegral -Zdump-mir-dir=$out/mir" CARGO_TARGET_DIR=$out/build CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=0 \
    cargo build -q --release --locked --workspace --exclude xtask
cargo run -q --locked -p xtask -- comparisons "$out/mir"
rm -rf "$out"
