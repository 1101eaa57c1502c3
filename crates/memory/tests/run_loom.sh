#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs every loom model, then every weakened variant of the code: the models must pass, and each variant must fail in its models.
# A variant that passes means that a model does not see what it is there to see.
#
#   crates/memory/tests/run_loom.sh [variant ..]      all, or the models and the named variants
#
# LOOM_MAX_PREEMPTIONS (default 3) bounds the exploration. Only this crate is rebuilt per variant: the cfg is given by a compiler wrapper for
# workspace members, not by RUSTFLAGS, which would rebuild every dependency.
set -u

# variant:model to run
VARIANTS="
line_publish:line_queue line_read:line_queue head_publish:line_queue head_read:line_queue
barrier_light:sleep barrier_heavy:sleep barrier_light:waiting barrier_heavy:waiting
barrier_light:station barrier_heavy:station station_stay_out:station station_arm_look:station station_ring:station
token_leave:token token_see_left:token token_barrier:token token_one_word:token
table_publish:tagged_table table_read:tagged_table table_fence:tagged_table table_read_fence:tagged_table
door_leave:door door_see_left:door door_barrier:door
epoch_enter:direct_epoch epoch_leave:direct_epoch epoch_see_left:direct_epoch epoch_barrier:direct_epoch
"
# A model takes some seconds; with other work on the machine many times that.
SECONDS_MAX=300

root=$(cd "$(dirname "$0")/../../.." && pwd) || exit 1
cd "$root" || exit 1
target=${CARGO_TARGET_DIR:-target}
export CARGO_TARGET_DIR="$target/loom"
mkdir -p "$CARGO_TARGET_DIR/wrappers" || exit 1

export RUSTFLAGS="--cfg loom"
export LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-3}"
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=false
unset RUSTC_WORKSPACE_WRAPPER

build() { cargo test -q -p bellwire-memory --release --no-run "$@" 2>&1; }
run() { timeout "$SECONDS_MAX" cargo test -q -p bellwire-memory --release "$@" 2>&1; }

echo "models (preemptions <= $LOOM_MAX_PREEMPTIONS)"
# Built apart: a build has all the time that it needs.
if ! out=$(build --test 'loom_*'); then
    printf '%s\n' "$out"
    echo "FAIL: the models do not build"
    exit 1
fi
out=$(run --test 'loom_*')
case $? in
    0) ;;
    124) echo "FAIL: the models are not decided in $SECONDS_MAX s"; exit 1 ;;
    *) printf '%s\n' "$out"; echo "FAIL: a model fails"; exit 1 ;;
esac
printf '%s\n' "$out" | grep 'test result' | sort | uniq -c

bad=0
for entry in $VARIANTS; do
    variant=${entry%%:*} model=loom_${entry##*:}
    case "${*:-$variant}" in *"$variant"*) ;; *) continue ;; esac
    # A wrapper of its own per variant: cargo tells builds apart by the wrapper's path.
    wrapper="$CARGO_TARGET_DIR/wrappers/$variant"
    printf '#!/bin/sh\nexec "$@" --cfg "bellwire_weaken=\\"%s\\""\n' "$variant" >"$wrapper"
    chmod +x "$wrapper"
    export RUSTC_WORKSPACE_WRAPPER="$wrapper"
    grep -rq "bellwire_weaken = \"$variant\"" crates/memory/src crates/memory/tests || { echo "FAIL: no such variant in the source: $variant"; bad=1; continue; }
    if ! out=$(build --test "$model"); then
        printf '%s\n' "$out"
        echo "FAIL: $variant does not build"
        bad=1
        continue
    fi
    out=$(run --test "$model")
    case $? in
        0) echo "FAIL: $variant passes $model"; bad=1 ;;
        124) echo "FAIL: $variant: not decided in $SECONDS_MAX s"; bad=1 ;;
        *) echo "ok: $variant fails $model: $(printf '%s\n' "$out" | grep -A1 'panicked at' | grep -v -e 'panicked at' -e '^--' | sort | uniq -c | sort -rn | head -1)" ;;
    esac
done
[ "$bad" = 0 ] && echo "all weakened variants are found"
exit "$bad"
