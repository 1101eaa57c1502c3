#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Crates for RDMA: their own tests, as published, over Bellwire's device.
#   tests/stacks/crates.sh PREFIX OUT       PREFIX: where `make install` put everything
# cargo fetches them; they are built in OUT. Without a network this is skipped, visibly. Left out:
# sideway's compiletest, which builds programs and runs none.
set -u
prefix=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
unset BELLWIRE_ADDRESS LD_PRELOAD CARGO_TARGET_DIR
export BELLWIRE_DEVICE_FILE=
passed=0 failed=0
# What a newer compiler warns of does not stop crates that forbid all warnings.
mkdir -p "$out/crates"
printf '#!/bin/sh\nexec "$@" --cap-lints warn\n' >"$out/crates/capped"
chmod +x "$out/crates/capped"
tests() { # crate, version, tests that must pass, arguments of each test program
    local crate=$1 version=$2 least=$3 at=$out/crates/$1-$2 from test code=0 count=0 n
    if [ ! -f "$at/Cargo.toml" ]; then
        timeout 300 cargo info "$crate@$version" >"$out/crates.log" 2>&1 || { echo "SKIPPED $crate $version: $(tail -n 1 "$out/crates.log")"; return; }
        from=$(ls -d "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$crate-$version" | head -n 1)
        mkdir -p "$out/crates"
        cp -r "$from" "$at" && printf '\n[workspace]\n' >>"$at/Cargo.toml" || { failed=$((failed + 1)); echo "FAILED $crate $version: not found after cargo info"; return; }
    fi
    (cd "$at" && CARGO_PROFILE_DEV_DEBUG=0 RUSTC_WORKSPACE_WRAPPER=$out/crates/capped CARGO_TARGET_DIR=$out/crates/target cargo test --lib --tests --no-run) >"$out/crates-$crate.build.log" 2>&1 || { failed=$((failed + 1)); echo "FAILED $crate $version does not build: $(tail -n 3 "$out/crates-$crate.build.log" | tr '\n' ' ')"; return; }
    : >"$out/crates-$crate.log"
    for test in $(sed -n 's/.*Executable .*(\(.*\))/\1/p' "$out/crates-$crate.build.log" | grep -v compiletest); do
        (cd "$at" && timeout -k 5 300 "$prefix/bin/bellwire" run --verbs "$test" "${@:4}") >>"$out/crates-$crate.log" 2>&1 || code=$?
    done
    for n in $(sed -n 's/^test result: .* \([0-9]*\) passed.*/\1/p' "$out/crates-$crate.log"); do count=$((count + n)); done
    if [ $code = 0 ] && [ "$count" -ge "$least" ]; then
        passed=$((passed + 1))
        echo "$crate $version: $count of its tests pass"
    else
        failed=$((failed + 1))
        echo "FAILED $crate $version ($code): $count of its tests pass, at least $least must: $(grep -E ' FAILED|panicked' "$out/crates-$crate.log" | head -n 5 | tr '\n' ' ')"
    fi
}
tests sideway 0.4.3 68
tests ibverbs-rs 0.4.1 88
# It takes GID index 1. Left out: one asks iproute2's `rdma`, which asks the kernel; two want the
# flags of a completion with immediate data to be those of the kernel's software device, which has a
# GRH in front of messages of connections, too; one gives itself half a second.
printf '[[device]]\ngids = 2\n' >"$out/gids.toml"
export BELLWIRE_DEVICE_FILE=$out/gids.toml
tests async-rdma 0.5.0 47 --test-threads 2 --skip context::tests::test1 --skip send_with_imm --skip write_with_imm --skip timeout_check
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
