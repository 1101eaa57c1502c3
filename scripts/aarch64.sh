#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Everything builds for aarch64 with Debian's cross compiler, and the tests of shared memory, the
# transport, the wires and the engine run under qemu's user emulation. The emulator keeps the memory
# order of the machine that it runs on, so this does not test fences: the loom models do. SKIPPED
# without gcc-aarch64-linux-gnu, the Rust target, or (tests) qemu-user-static.
set -u
cd "$(dirname "$0")/.." || exit 1
triple=aarch64-unknown-linux-gnu
command -v aarch64-linux-gnu-gcc >/dev/null || { echo "SKIPPED: no aarch64-linux-gnu-gcc (gcc-aarch64-linux-gnu)"; exit 0; }
[ -d "$(rustc --print sysroot)/lib/rustlib/$triple/lib" ] || { echo "SKIPPED: no Rust for $triple (rustup target add $triple)"; exit 0; }
emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64)
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/aarch64
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
# Without debug information, which takes most of the time and gigabytes.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0
cargo build -q --locked --workspace --target $triple || { echo "FAILED: building for $triple"; exit 1; }
echo "built for $triple"
[ -n "$emulator" ] || { echo "SKIPPED: the tests: no qemu-aarch64 (qemu-user-static)"; exit 0; }
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$emulator -L /usr/aarch64-linux-gnu"
# It is some twenty times as slow as the machine.
export BELLWIRE_PROTO_SEEDS=${BELLWIRE_PROTO_SEEDS:-5} PROPTEST_CASES=${PROPTEST_CASES:-16}

skips=()
skip() { # why, tests ..
    local why=$1 test
    shift
    for test in "$@"; do
        skips+=(--skip "$test")
        echo "SKIPPED $test: $why"
    done
}
skip "the emulator refuses process_vm_readv" attach::tests::reads_itself the_right_process_or_nothing
skip "the emulator loses descriptors that its caller has no room for" too_much_is_an_error
skip "the emulator shows /proc/self/maps as a file in memory" a_lying_peers_descriptors
skip "the emulator ignores MADV_DONTFORK" open_may_be_mapped_for_writing children_inherit_user_memory
skip "the emulator does not start a second process of the test" a_peers_region_pidfd_and_bell death_is_told_at_once \
    memory_shared_with_a_peer a_killed_peer_is_told an_idle_nic_uses_no_processor_time sleepers_use_no_processor_time
skip "the emulator lacks an option of multicast sockets" members_get_one_copy_each
skip "the emulator is too slow for its number of messages" a_crowd_does_not_collapse messages_allocate_nothing

failed=0
tests() { # package, which of its tests ..
    cargo test -q --locked --no-fail-fast --target $triple -p "$@" -- "${skips[@]}" || { echo "FAILED: tests of $1 on $triple"; failed=1; }
}
tests bellwire-memory --lib --test os_processes
tests bellwire-proto --lib --tests
tests bellwire-wire --lib
tests bellwire-via --lib --tests
[ $failed = 0 ] && echo "all well: built for $triple; the tests of memory, proto, wire and via ran under $(basename "$emulator")"
exit $failed
