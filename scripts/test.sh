#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The tests of `make test` (and, with "long", of `make test-long`). Every part runs; the last line
# says how many were well. With "check", only the parts that need no build (`make check`).
set -u
cd "$(dirname "$0")/.." || exit 1
target=${TARGET_DIR:-target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
export CARGO_TARGET_DIR=$target
mode=${1:-short}
log=$target/test-logs
[ "$mode" != check ] || log=$target/check-logs
mkdir -p "$log"
# In test-long, races that happen once in a while are what is looked for.
[ "$mode" != long ] || RETRIES=0
. scripts/parts.sh

# The second try of the tests in Rust runs what failed at the first.
# Most of them wait for another thread or process: four at once wait together.
rust() {
    local targets status=0
    export RUST_TEST_THREADS="${RUST_TEST_THREADS:-4}"
    targets=$([ -z "$PART_FIRST" ] || sed -n 's/^    `\(-p .*\)`$/\1/p' "$PART_FIRST")
    [ -n "$targets" ] || { cargo test --workspace --locked --no-fail-fast; return; }
    while read -r target_of; do
        # shellcheck disable=SC2086
        cargo test --locked $target_of || status=1
    done <<<"$targets"
    return $status
}
# Debian's clang 14, whose inner interfaces splitcc uses.
has_clang=no
[ -x /usr/lib/llvm-14/bin/llvm-config ] && command -v clang++-14 >/dev/null 2>&1 && [ -d /usr/lib/llvm-14/include/clang ] && has_clang=yes
split_part() { if [ $has_clang = yes ]; then part "$@"; else skip "$1" "no clang 14 (clang-14 llvm-14-dev libclang-14-dev)"; fi; }

# The parts that take seconds come first.
certain format cargo fmt --all --check
certain tidy      cargo run -q --locked -p xtask -- tidy
certain links     cargo run -q --locked -p xtask -- links
certain man       scripts/check-man.sh
certain blocks    scripts/blocks.py check
certain deny scripts/deny.sh
certain parts  scripts/check-parts.sh
lints_and_docs() {
    certain lints     cargo clippy --workspace --all-targets --locked -- -D warnings
    certain docs      env RUSTDOCFLAGS="-D warnings" cargo doc -q --workspace --no-deps --locked
    certain site   site/check.sh "$target/site"
    # New calls of the standard library are found by the lints already.
    [ "$mode" = short ] || certain msrv scripts/msrv.sh
}
if [ "$mode" = check ]; then
    lints_and_docs
    finish
    exit
fi
installed() {
    local prefix=$target/installed
    rm -rf "$prefix"
    BUILD="$target/release" PREFIX=$prefix ffi/vipl/install.sh &&
        LD_LIBRARY_PATH=$prefix/lib PATH=$prefix/bin:$PATH make -s -C examples/c check PKG_CONFIG_PATH="$prefix/lib/pkgconfig" OUT="$target/examples-c" &&
        LD_LIBRARY_PATH=$prefix/lib make -s -C examples/am check PKG_CONFIG_PATH="$prefix/lib/pkgconfig" OUT="$target/examples-am" &&
        LD_LIBRARY_PATH=$prefix/lib make -s -C examples/sisci check PKG_CONFIG_PATH="$prefix/lib/pkgconfig" OUT="$target/examples-sisci" &&
        LD_LIBRARY_PATH=$prefix/lib "$prefix/bin/bellwire" --version && test -e "$prefix/share/man/man3/VipPostSend.3" && test -e "$prefix/share/man/man3/AM_Poll.3" && test -e "$prefix/share/man/man3/SCIMemCpy.3" && test -e "$prefix/share/man/man1/bellwire-info.1" && test -e "$prefix/lib/bellwire/libbellwire-fi.so" && test -e "$prefix/lib/bellwire/bellwire-verbs/libibverbs.so.1" && echo "all installed files are there"
}
# A release is optimised as a whole, by one thread at the end of each program: the tests in Rust are
# compiled meanwhile, in a folder of Cargo's own, so that they need not wait for each other.
lane_debug() {
    lints_and_docs
    certain rust-built cargo test -q --workspace --locked --no-run
}
lane_release() {
    certain build     cargo build --release --locked -p vipl -p bellwire-am-c -p bellwire-job-c -p bellwire-gas-c -p bellwire-fi -p bellwire-verbs-c -p bellwire-sisci-c -p bellwire-cli -p bellwire-agent -p bellwire-bench -p bellwire-nisim
    part installed installed
}
lane lane_debug
lane lane_release
lanes_end

random_split_c() { splitcc/tests/random.sh "$target/debug/xtask" "$target/splitcc" "$target/release/bellwire" "$target/random-splitc" "$@"; }
split_c() {
    local prefix=$target/installed-splitc
    rm -rf "$prefix"
    make -s -C splitcc install LIB="$target/release" OUT="$target/splitcc" PREFIX="$prefix" &&
        LD_LIBRARY_PATH=$prefix/lib make -s -C examples/splitc check SPLITCC="$prefix/bin/splitcc" BELLWIRE="$target/release/bellwire" OUT="$target/examples-splitc"
}

# Parts that need nothing of each other run beside each other, in three lanes of about the same
# length, so that others run while one waits.
lane_c() {
    part c         make -s -C tests/c check LIBVIPL="$target/release/libvipl.so" OUT="$target/tests-c"
    part am        make -s -C tests/am check LIBAM="$target/release/libbellwire_am.so" OUT="$target/tests-am"
    part sisci     make -s -C tests/sisci check LIBSISCI="$target/release/libsisci.so" OUT="$target/tests-sisci"
    part am-remote tests/am/remote.sh "$target/release/bellwire" "$target/tests-am"
    part am-mappings tests/am/mappings.sh "$target/release/bellwire" "$target/tests-am"
    part paper     tests/paper.sh "$target/release/bellwire" "$target/tests-paper"
    part fi        tests/fi/check.sh "$target/release/libbellwire_fi.so" "$target/tests-fi" "$target/release/bellwire"
    part hostile   make -s -C tests/hostile check LIBVIPL="$target/release/libvipl.so" OUT="$target/tests-hostile" SECONDS=5
    part users     make -s -C tests/hostile users LIBVIPL="$target/release/libvipl.so" LIBAM="$target/release/libbellwire_am.so" OUT="$target/tests-hostile"
    part mpi       tests/mpi/check.sh "$target/release/libbellwire_fi.so" "$target/tests-mpi" "$target/release/bellwire"
    certain models    crates/memory/tests/run_loom.sh
    part ci        ci/tests/check.sh "$target/installed" "$target/tests-ci"
    # After it, not beside it: the jobs of both pages use the port of ibv_rc_pingpong.
    part rdma-ci   tests/stacks/ci.sh "$target/installed" "$target/tests-stacks"
    part programs  tests/stacks/programs.sh "$target/installed" "$target/tests-stacks"
}
lane_verbs() {
    certain abi    tests/abi/check.sh "$target/installed" "$target/tests-abi"
    part agent     tests/agent/check.sh "$target/installed" "$target/tests-agent"
    part capture   tests/trace/capture.sh "$target/installed" "$target/tests-capture"
    part python    python/check.sh "$target/installed" "$target/tests-python"
    part verbs     tests/verbs/check.sh "$target/release/libbellwire_verbs_c.a" "$target/tests-verbs"
    part rdma-cm   tests/verbs/cm.sh "$target/tests-verbs/libbellwire-verbs.so" "$target/tests-verbs"
    part iser      tests/verbs/iser.sh "$target/tests-verbs/libbellwire-verbs.so" "$target/tests-iser"
    part rdma-core tests/verbs/pyverbs.sh "$target/tests-verbs/libbellwire-verbs.so" "$target/tests-verbs"
    part devices   tests/devices/check.sh "$target/installed" "$target/tests-devices"
    part verbs-command tests/verbs/command.sh "$target/installed" "$target/tests-verbs"
    part stacks    tests/stacks/check.sh "$target/installed" "$target/tests-stacks"
    part engines   tests/stacks/engines.sh "$target/installed" "$target/tests-stacks"
}
lane_rust() {
    part rust      rust
    split_part splitcc   make -s -C splitcc check LIB="$target/release" OUT="$target/splitcc" BELLWIRE="$target/release/bellwire"
    split_part splitcc-vis env PARTS=vis make -s -C splitcc check LIB="$target/release" OUT="$target/splitcc" BELLWIRE="$target/release/bellwire"
    split_part split-c   split_c
    part clocks    tests/trace/clocks.sh "$target/installed" "$target/tests-clocks"
    part trace     env SPLITCC="$(ls "$target/installed-splitc/bin/splitcc" 2>/dev/null)" tests/trace/check.sh "$target/installed" "$target/tests-trace"
    part global-words scripts/global-words.sh
}
lane lane_c
lane lane_verbs
lane lane_rust
lanes_end

# Between hosts, each part in namespaces of its own.
hosts_gas() { # [long]
    mkdir -p "$target/examples-splitc/tests" &&
        for source in splitcc/tests/run/*.sc; do "$target/installed-splitc/bin/splitcc" -O2 -w "$source" -o "$target/examples-splitc/tests/$(basename "$source" .sc)" || return 1; done &&
        scripts/hosts-gas.sh "$target/examples-splitc" "$target/installed-splitc/lib" "$target/release/bellwire" "$@"
}
lane_hosts() {
    part hosts     scripts/hosts.sh "$target/examples-c" "$target/installed/lib"
    part hosts-pages scripts/hosts-pages.sh "$target/examples-c" "$target/installed" "$target/examples-sisci"
    part hosts-keys tests/keys/check.sh "$target/examples-c" "$target/installed/lib" "$target/release/bellwire"
    part hosts-am  scripts/hosts-am.sh "$target/examples-am" "$target/installed/lib"
    split_part hosts-gas hosts_gas
    part hosts-mpi scripts/hosts-mpi.sh "$target/examples-c" "$target/installed/lib" "$target/tests-mpi"
    part hosts-verbs scripts/hosts-verbs.sh "$target/examples-c" "$target/installed/lib"
    part hosts-xdp scripts/hosts-xdp.sh "$target/examples-c" "$target/installed/lib" "$target/release/bellwire"
    part hosts-sisci scripts/sisci-hosts.sh "$target/tests-sisci" "$target/examples-sisci" "$target/installed/lib"
}
# The wire made of SISCI calls: one setting of seven, which are in the long tests.
sisci_suite() {
    BELLWIRE_LIBSISCI=$target/release/libsisci.so cargo test --locked -p bellwire-conformance --test sisci -- --ignored "$@"
}
lane_suite() {
    # These run programs that the tests in Rust have built.
    part locks     tests/locks.sh "$target/tests-locks"
    part launchers make -s -C tests/job check LIBJOB="$target/release/libbellwire_job_c.so" LIBAM="$target/release/libbellwire_am.so" LIBGAS="$target/release/libbellwire_gas_c.so" BELLWIRE="$target/release/bellwire" RING="$target/debug/examples/ring" TEAM="$target/debug/examples/all_to_all" OUT="$target/tests-job"
    part hosts-suite scripts/hosts-conformance.sh "$target/examples-c" "$target/installed/lib" fd76::1/fd76::2
    part sisci-suite sisci_suite sisci::
    part refusals  env LD_LIBRARY_PATH="$target/installed/lib" scripts/refusals.sh "$target/installed/bin/bellwire" "$target/examples-c"
}
lane_others() {
    part hosts-stacks tests/stacks/hosts.sh "$target/installed" "$target/tests-stacks"
    split_part random-splitc random_split_c 1 10 3
    split_part gas-results scripts/gas-results.sh "$target/examples-splitc" "$target/installed-splitc/lib" "$target/release/bellwire"
}
lane lane_hosts
lane lane_suite
lane lane_others
lanes_end

# The rest has counts of system calls and times of its own: one after another.
part am-cost   tests/am/cost.sh "$target/tests-am"
part places    scripts/places.sh "$target/tests-c"
part perf-udp  env BELLWIRE="$target/release/bellwire" scripts/perf-udp.sh
part guide     env TARGET_DIR="$target" scripts/guide.sh
if command -v strace >/dev/null 2>&1; then
    part quiet scripts/quiet.sh "$target"
else
    skip quiet "no strace"
fi

if [ "$mode" = long ]; then
    certain aarch64 scripts/aarch64.sh
    part gas-cost  tests/gas/cost.sh "$target/tests-gas"
    part deb       env BUILD="$target/release" packaging/deb.sh "$target/deb"
    part deb-installed packaging/check-deb.sh "$target/deb" "$target/roots"
    part wheels    env TARGET_DIR="$target" packaging/wheels.sh "$target/wheels/made"
    part wheels-aarch64 packaging/check-aarch64.sh "$target/wheels/made" "$target/wheels/aarch64"
    part versions  scripts/versions.sh "$target/installed" "$target/examples-c/pingpong" "$target/versions"
    part wheels-installed env ROOTS="$target/roots" packaging/check-wheel.sh "$target/wheels/made" "$target/wheels/tried" bookworm trixie noble bionic
    part image     packaging/image.sh "$target/deb" "$target/image"
    part image-runs packaging/check-image.sh "$target/image" "$target/image-root"
    part rpm       env BUILD="$target/release" packaging/rpm.sh "$target/rpm"
    part rpm-installed packaging/check-rpm.sh "$target/rpm" "$target/rpm-root"
    part tarball   env BUILD="$target/release" packaging/tarball.sh "$target/tarball"
    part tarball-installed packaging/check-tarball.sh "$target/tarball" "$target/tarball-logs"
    part ci-long   env PACKAGES="$target/deb" ROOTS="$target/roots" ci/tests/check.sh "$target/installed" "$target/tests-ci" bookworm trixie noble
    part site-long site/check.sh "$target/site" "$target/installed" "$target/tarball"
    part reproduce packaging/reproduce.sh "$target/reproduce"
    certain published scripts/crates.sh verify
    certain semver scripts/crates.sh semver
    part ci-source ci/setup.sh --from source --devices 2 --prefix "$target/ci-source"
    part guide-long env TARGET_DIR="$target" scripts/guide.sh long
    part trace-long tests/trace/check.sh "$target/installed" "$target/tests-trace" long
    part stacks-long tests/stacks/check.sh "$target/installed" "$target/tests-stacks" long
    part crates    tests/stacks/crates.sh "$target/installed" "$target/tests-stacks"
    part engines-long tests/stacks/engines.sh "$target/installed" "$target/tests-stacks" long
    part pages tests/stacks/pages.sh "$target/installed" "$target/tests-stacks"
    part hosts-stacks-long tests/stacks/hosts.sh "$target/installed" "$target/tests-stacks" long
    part debian13 tests/verbs/debian13.sh "$target/tests-verbs/libbellwire-verbs.so" "$target/tests-verbs"
    part rsockets tests/verbs/rsockets.sh "$target/tests-verbs/libbellwire-verbs.so" "$target/tests-verbs"
    part churn      make -s -C tests/c check-churn LIBVIPL="$target/release/libvipl.so" OUT="$target/tests-c"
    part hosts-suites scripts/hosts-conformance.sh "$target/examples-c" "$target/installed/lib"
    xdp_suite() {
        local suite
        suite=$(cargo test --workspace --locked --test udp --no-run 2>&1 | sed -n 's/.*Executable tests\/udp.rs (\(.*\))$/\1/p')
        scripts/hosts-xdp.sh "$target/examples-c" "$target/installed/lib" "$target/release/bellwire" "$suite"
    }
    part hosts-xdp-suite xdp_suite
    part hosts-outages scripts/hosts-outages.sh "$target/examples-c" "$target/installed/lib"
    part sisci-suites sisci_suite
    part sisci-wire scripts/sisci-wire.sh "$target/examples-c" "$target/installed/lib"
    part hosts-sisci-kills env KILLS=500 scripts/sisci-hosts.sh "$target/tests-sisci" "$target/examples-sisci" "$target/installed/lib"
    part sisci-kills make -s -C tests/sisci check-long LIBSISCI="$target/release/libsisci.so" OUT="$target/tests-sisci"
    part mortality  make -s -C tests/c check-mortality LIBVIPL="$target/release/libvipl.so" OUT="$target/tests-c"
    part agent-long tests/agent/check.sh "$target/installed" "$target/tests-agent" long
    part keys-suites cargo test --locked --release -p bellwire-conformance --test udp -- --ignored udp_keys
    part agent-suites cargo test --locked --release -p bellwire-conformance --test agent -- --ignored
    part hostile-long make -s -C tests/hostile check LIBVIPL="$target/release/libvipl.so" OUT="$target/tests-hostile" SECONDS=60
    part sim-long   "$target/release/bellwire" sim --seeds "${BELLWIRE_SIM_SEEDS:-1000000}"
    part fuzz       scripts/fuzz.sh 10
    part sanitizers scripts/sanitizers.sh
    part miri       scripts/miri.sh
    part comparisons scripts/comparisons.sh
    part mutations  cargo run -q --locked -p xtask -- mutations "$target/mutations"
    part rust-long  env PROPTEST_CASES=5000 cargo test --workspace --locked --release
    part proto-long env BELLWIRE_PROTO_SEEDS=100000 cargo test --locked --release -p bellwire-proto --test lossy
    part resident-long env BELLWIRE_RESIDENT_SEEDS=2000 cargo test --locked --release -p bellwire-sim --test resident
    part nisim-long env BELLWIRE_NISIM_SEEDS=5000 cargo test --locked --release -p bellwire-nisim --test random_traffic
    part nisim-figures env BELLWIRE_NISIM_PROGRAMS=all cargo test --locked --release -p bellwire-nisim --test statements
    part tag-huge   env BELLWIRE_TAG_BYTES=2147483655 cargo test --locked --release -p bellwire-tag --test storms huge
    part am-storm   env BELLWIRE_STORM=24,60 cargo test --locked --release -p bellwire-am --test storm
    part am-mappings-long tests/am/mappings.sh "$target/release/bellwire" "$target/tests-am" long
    part rpc-kills  env BELLWIRE_KILLS=300 cargo test --locked --release -p bellwire-rpc --test killed
    part spmd-kills env BELLWIRE_KILLS=60 cargo test --locked --release -p bellwire-spmd --test processes
    am_hosts() {
        local storm
        storm=$(cargo test --locked --release -p bellwire-am --test storm --no-run 2>&1 | sed -n 's/.*Executable.*(\(.*\)).*/\1/p') &&
            scripts/hosts-am.sh "$target/examples-am" "$target/installed/lib" "$storm" 24,60
    }
    part am-hosts   am_hosts
    split_part gas-hosts  hosts_gas long
    split_part gas-results-long scripts/gas-results.sh "$target/examples-splitc" "$target/installed-splitc/lib" "$target/release/bellwire" long
    split_part splitcc-long env WRONG=long make -s -C splitcc check LIB="$target/release" OUT="$target/splitcc" BELLWIRE="$target/release/bellwire"
    split_part splitcc-vis-long env PARTS=vis VIS=long make -s -C splitcc check LIB="$target/release" OUT="$target/splitcc" BELLWIRE="$target/release/bellwire"
    split_part random-splitc-long random_split_c 1000 300 1 2 4
    split_part mutations-splitc splitcc/tests/mutations.sh "$target/debug/xtask" "$target/splitcc" "$target/release/bellwire" "$target/mutations-splitc" "$target/release"
    part verbs-long tests/verbs/check.sh "$target/release/libbellwire_verbs_c.a" "$target/tests-verbs" long
    part rdma-cm-long tests/verbs/cm.sh "$target/tests-verbs/libbellwire-verbs.so" "$target/tests-verbs" long
    part fabtests   scripts/fabtests.sh "$target/tests-mpi/prefix" "$target/fabtests"
    part fabtests-verbs tests/stacks/fabtests.sh "$target/installed" "$target/tests-stacks/fabtests"
    part valkey tests/stacks/valkey.sh "$target/installed" "$target/tests-stacks/valkey"
    part mpi-long   tests/mpi/long.sh "$target/release/libbellwire_fi.so" "$target/tests-mpi" "$target/release/bellwire"
    # An hour and a quarter of it; the next run goes on with the cases that are left.
    part mpich-suite scripts/mpich-suite.sh "$target/release/libbellwire_fi.so" "$target/tests-mpi" "$target/release/bellwire" --minutes 75
    part probes-off scripts/probes-off.sh
    part models-deep env LOOM_MAX_PREEMPTIONS=4 crates/memory/tests/run_loom.sh
fi

finish
