#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# AddressSanitizer over the Rust tests, on a stable compiler. The vector paths of the line queue are assembly that no sanitizer sees: the portable ones are
# run instead (`bellwire_portable`). ThreadSanitizer is not run: without an instrumented standard library it reports the library's own channels and joins.
set -eu
cd "$(dirname "$0")/.."
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Zsanitizer=address --cfg bellwire_portable"
# Doctests are linked by rustdoc.
export RUSTDOCFLAGS=$RUSTFLAGS
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/asan"
# Fork-and-exit children of the tests are not leaks of the parent.
export ASAN_OPTIONS=detect_leaks=0
cargo test --locked --target x86_64-unknown-linux-gnu -p bellwire-memory -p bellwire-wire -p bellwire-via -p bellwire-conformance
