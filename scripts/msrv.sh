#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Everything that is installed or published compiles with the oldest compiler that Cargo.toml
# promises (rust-version). SKIPPED where rustup does not have that compiler; clippy's
# incompatible_msrv looks at the standard library's calls in any case (part lints).
set -u
cd "$(dirname "$0")/.." || exit 1
version=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
toolchain=$(rustup toolchain list 2>/dev/null | sed -n "s/^\($version[^ ]*\).*/\1/p" | head -n 1)
if [ -z "$toolchain" ]; then
    echo "SKIPPED: no Rust $version (rustup toolchain install $version --profile minimal)"
    exit 0
fi
target=${CARGO_TARGET_DIR:-target}
CARGO_TARGET_DIR=$target/msrv cargo "+$toolchain" check -q --workspace --locked && echo "all well: it compiles with $toolchain"
