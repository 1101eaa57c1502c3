#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs every loom model, then every weakened variant of the code: the models must pass, and each variant must fail in its models.
# A variant that passes means that a model does not see what it is there to see.
#
#   crates/memory/tests/run_loom.sh [variant ..]      all, or the models and the named variants
#
# LOOM_MAX_PREEMPTIONS (default 3, of the station 2) bounds the exploration. One build has all variants:
# BELLWIRE_WEAKEN names the one that a run tries (crates/memory/src/weakened.rs).
set -u

# variant:model to run
VARIANTS="
line_publish:line_queue line_read:line_queue head_publish:line_queue head_read:line_queue
ring_tail_publish:packet_ring ring_tail_read:packet_ring ring_head_publish:packet_ring ring_head_read:packet_ring
barrier_light:sleep barrier_heavy:sleep barrier_light:waiting barrier_heavy:waiting
barrier_light:station barrier_heavy:station station_stay_out:station station_arm_look:station station_ring:station
token_leave:token token_see_left:token token_barrier:token token_one_word:token
table_publish:tagged_table table_read:tagged_table table_fence:tagged_table table_read_fence:tagged_table
door_leave:door door_see_left:door door_barrier:door
epoch_enter:direct_epoch epoch_leave:direct_epoch epoch_see_left:direct_epoch epoch_barrier:direct_epoch
log_begun:event_log log_publish:event_log log_read:event_log log_read_fence:event_log
unmap_begin:unmap_log unmap_finish:unmap_log unmap_drain:unmap_log unmap_begin_fence:unmap_log unmap_drain_fence:unmap_log
"
# A model takes some seconds; with other work on the machine many times that.
SECONDS_MAX=300

root=$(cd "$(dirname "$0")/../../.." && pwd) || exit 1
cd "$root" || exit 1
target=${CARGO_TARGET_DIR:-target}
export CARGO_TARGET_DIR="$target/loom"

export RUSTFLAGS="--cfg loom"
preemptions=${LOOM_MAX_PREEMPTIONS:-}
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=false
unset RUSTC_WORKSPACE_WRAPPER BELLWIRE_WEAKEN

if ! built=$(cargo test -p bellwire-memory --release --locked --no-run --test 'loom_*' 2>&1); then
    printf '%s\n' "$built"
    echo "FAIL: the models do not build"
    exit 1
fi
program() { printf '%s\n' "$built" | sed -n "s|.*Executable tests/$1\.rs (\(.*\)).*|\1|p"; } # model
# The station's model takes two thirds of the time of all with 3 preemptions; 2 find its variants.
bound() { case $1 in loom_station) echo "${preemptions:-2}" ;; *) echo "${preemptions:-3}" ;; esac; } # model
# One thread: each execution maps and unmaps stacks, and two threads of one process would wait for
# the kernel's lock of that process (a third of the processor time is left).
run() { LOOM_MAX_PREEMPTIONS=$(bound "$1") timeout "$SECONDS_MAX" "$(program "$1")" -q --test-threads=1 2>&1; } # model

echo "models (preemptions <= ${preemptions:-3})"
bad=0
for model in $(printf '%s\n' "$built" | sed -n 's|.*Executable tests/\(loom_[a-z_]*\)\.rs .*|\1|p'); do
    out=$(run "$model")
    case $? in
        0) echo "ok: $model: $(printf '%s\n' "$out" | sed -n 's/^test result: ok. \([0-9]* passed\).*finished in \(.*\)/\1 in \2/p')" ;;
        124) echo "FAIL: $model is not decided in $SECONDS_MAX s"; bad=1 ;;
        *) printf '%s\n' "$out"; echo "FAIL: $model fails"; bad=1 ;;
    esac
done
[ "$bad" = 0 ] || exit 1

for entry in $VARIANTS; do
    variant=${entry%%:*} model=loom_${entry##*:}
    case "${*:-$variant}" in *"$variant"*) ;; *) continue ;; esac
    grep -rqF "\"$variant\"" crates/memory/src crates/memory/tests --include=*.rs || { echo "FAIL: no such variant in the source: $variant"; bad=1; continue; }
    out=$(BELLWIRE_WEAKEN=$variant RUST_BACKTRACE=0 run "$model")
    case $? in
        0) echo "FAIL: $variant passes $model"; bad=1 ;;
        124) echo "FAIL: $variant: not decided in $SECONDS_MAX s"; bad=1 ;;
        126 | 127) echo "FAIL: $model was not built"; bad=1 ;;
        *) echo "ok: $variant fails $model: $(printf '%s\n' "$out" | grep -A1 'panicked at' | grep -v -e 'panicked at' -e '^--' | sort | uniq -c | sort -rn | head -1)" ;;
    esac
done
[ "$bad" = 0 ] && echo "all weakened variants are found"
exit "$bad"
