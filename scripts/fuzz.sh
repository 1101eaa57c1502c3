#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Coverage-guided fuzzing with AddressSanitizer, on a stable compiler and without cargo-fuzz (whose layout fuzz/ has).
#   scripts/fuzz.sh [seconds per target] [target ..]
# New inputs go to $CARGO_TARGET_DIR/fuzz/corpus; inputs that fail, to $CARGO_TARGET_DIR/fuzz/failed, from where they are to be copied to fuzz/corpus/<target>
# once mended. ThreadSanitizer and the vector paths of the line queue (assembly) are not covered.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true
targets=${*:-frames shared rendezvous descriptors packets transport sealed tag verbs cm cm_device gas gasvia job sisci sisci_far}
out=${CARGO_TARGET_DIR:-$PWD/target}/fuzz
triple=$(rustc -vV | sed -n 's/^host: //p')
export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$out
export RUSTFLAGS="--cfg fuzzing --cfg bellwire_portable -Zsanitizer=address -Cpasses=sancov-module -Ccodegen-units=1 \
-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares"
# Descriptors that a peer sent and nobody closed would be seen here as failures of later runs.
ulimit -n 1024
cargo build --profile fuzz --locked -p bellwire-fuzz --features libfuzzer --bins --target "$triple"
bad=
for target in $targets; do
    mkdir -p "$out/corpus/$target" "$out/failed"
    echo "== $target, $seconds s"
    "$out/$triple/fuzz/$target" "$out/corpus/$target" "fuzz/corpus/$target" -artifact_prefix="$out/failed/$target-" -max_total_time="$seconds" -max_len=2048 -len_control=20 \
        -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 2>"$out/$target.log" || bad="$bad $target"
    grep -E "ERROR|panicked|SUMMARY|^stat::number_of_executed|^stat::peak_rss|cov: " "$out/$target.log" | tail -n 6
done
if [ -n "$bad" ]; then echo "failed:$bad (see $out/*.log)"; exit 1; fi
echo "fuzzing: all well"
