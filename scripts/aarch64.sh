#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Everything builds for aarch64 with Debian's cross
# compiler. The unit tests of shared memory and the transport run under
# qemu's user emulation. It keeps the memory order of the machine that it runs on, so it does not
# test fences: the loom models do. SKIPPED without gcc-aarch64-linux-gnu, the Rust target, or
# (tests) qemu-user-static.
set -u
cd "$(dirname "$0")/.." || exit 1
triple=aarch64-unknown-linux-gnu
command -v aarch64-linux-gnu-gcc >/dev/null || { echo "SKIPPED: no aarch64-linux-gnu-gcc (gcc-aarch64-linux-gnu)"; exit 0; }
[ -d "$(rustc --print sysroot)/lib/rustlib/$triple/lib" ] || { echo "SKIPPED: no Rust for $triple (rustup target add $triple)"; exit 0; }
emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64)
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/aarch64
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
cargo build -q --locked --workspace --target $triple || { echo "FAILED: building for $triple"; exit 1; }
echo "built for $triple"
[ -n "$emulator" ] || { echo "SKIPPED: the tests: no qemu-aarch64 (qemu-user-static)"; exit 0; }
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$emulator -L /usr/aarch64-linux-gnu"
# The emulator does not do what these try: attaching to a process, mapping flags, many descriptors at once.
skips='--skip attach::tests::reads_itself --skip too_much_is_an_error --skip a_lying_peers_descriptors --skip open_may_be_mapped_for_writing'
# shellcheck disable=SC2086
cargo test -q --locked --target $triple -p bellwire-memory --lib -- $skips || { echo "FAILED: tests on $triple"; exit 1; }
cargo test -q --locked --target $triple -p bellwire-proto --lib || { echo "FAILED: tests on $triple"; exit 1; }
echo "all well: built for $triple; unit tests of memory and proto ran under $(basename "$emulator")"
