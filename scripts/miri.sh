#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Miri, the interpreter that finds undefined behaviour, over code that needs no kernel: shared
# queues and tables, the transport, the engine over the network in memory, and the machines of the
# layers on it. Some minutes.
#   scripts/miri.sh [CRATE..]     only these: memory, wire, via, ..
# It needs a nightly toolchain with Miri, by rustup; without it nothing runs, and the script says
# so. Vector assembly is left out (bellwire_portable); system calls go through libc.
set -u
cd "$(dirname "$0")/.." || exit 1
cargo +nightly miri --version >/dev/null 2>&1 || { echo "SKIPPED miri: no nightly toolchain with Miri (rustup +nightly component add miri)"; exit 0; }

export RUSTFLAGS="--cfg rustix_use_libc --cfg bellwire_portable"
# Addresses cross the C interface and the wire as numbers: that is what this provenance is for.
export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance"
export PROPTEST_CASES=${PROPTEST_CASES:-2}

wanted=$* bad=
run() { # CRATE, then the arguments of cargo test
    local crate=$1 begun=$SECONDS
    shift
    [ -z "$wanted" ] || [[ " $wanted " == *" $crate "* ]] || return 0
    echo "== $crate $*"
    timeout "${MIRI_SECONDS:-1800}" cargo +nightly miri test -q --locked -p "bellwire-$crate" "$@" || bad="$bad $crate"
    echo "$crate: $((SECONDS - begun)) s"
}

run memory --lib -- line_queue::tests tagged_table owned_bytes small_copies offsets_are views_for
run wire --lib -- sim::tests frame::tests buffers::tests
run via --test in_memory
# Left out of the transport: tests that send tens of thousands of packets, or wait as often.
long='strangers_leave half_sessions without_a_checksum nothing_of_an_earlier resets_are_few a_living_peer the_short_path_does what_waits_and_leaves timeouts_double a_little_loss both_begin'
# shellcheck disable=SC2046,SC2086
run proto --test recall --test receiving --test sending --test refusals_lost --test joining --test sessions --test hostile --test vectors \
    -- $(printf ' --skip %s' $long)
run peer --lib
run tag --lib -- matching::tests gather::tests regions::tests shared::tests header::tests lent::tests
run tag --test in_memory
# One random program of three endpoints against a model, cut down.
BELLWIRE_TAG_SEEDS=${BELLWIRE_TAG_SEEDS:-1} BELLWIRE_TAG_STEPS=${BELLWIRE_TAG_STEPS:-16} run tag --test model
run verbs --lib -- ring::tests header::tests windows::tests
run verbs --test in_memory
# One random program of queue pairs against a model, cut down.
BELLWIRE_VERBS_SEEDS=${BELLWIRE_VERBS_SEEDS:-1} BELLWIRE_VERBS_STEPS=${BELLWIRE_VERBS_STEPS:-12} run verbs --test model -- random_programs

[ -z "$bad" ] && echo "miri: all well" && exit 0
echo "FAILED miri:$bad"
exit 1
