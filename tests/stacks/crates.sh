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
tests() { # crate, version, tests that must pass
    local crate=$1 version=$2 least=$3 at=$out/crates/$1-$2 from test code=0 count=0 n
    if [ ! -f "$at/Cargo.toml" ]; then
        mkdir -p "$out/crates/fetch/src"
        : >"$out/crates/fetch/src/lib.rs"
        rm -f "$out/crates/fetch/Cargo.lock"
        printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n[dependencies]\n%s = "=%s"\n' "$crate" "$version" >"$out/crates/fetch/Cargo.toml"
        (cd "$out/crates/fetch" && timeout 300 cargo fetch) >"$out/crates.log" 2>&1 || { echo "SKIPPED $crate $version: $(tail -n 1 "$out/crates.log")"; return; }
        from=$(cd "$out/crates/fetch" && cargo metadata --format-version 1 | tr ',' '\n' | sed -n "s|.*\"manifest_path\":\"\(.*/$crate-$version\)/Cargo.toml\".*|\1|p" | head -n 1)
        cp -r "$from" "$at" && printf '\n[workspace]\n' >>"$at/Cargo.toml" || { failed=$((failed + 1)); echo "FAILED $crate $version: not found after cargo fetch"; return; }
    fi
    (cd "$at" && CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR=$out/crates/target cargo test --lib --tests --no-run) >"$out/crates-$crate.build.log" 2>&1 || { failed=$((failed + 1)); echo "FAILED $crate $version does not build: $(tail -n 3 "$out/crates-$crate.build.log" | tr '\n' ' ')"; return; }
    : >"$out/crates-$crate.log"
    for test in $(sed -n 's/.*Executable .*(\(.*\))/\1/p' "$out/crates-$crate.build.log" | grep -v compiletest); do
        (cd "$at" && timeout -k 5 300 "$prefix/bin/bellwire" run --verbs "$test") >>"$out/crates-$crate.log" 2>&1 || code=$?
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
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
