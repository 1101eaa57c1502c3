#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Checks that what a target of the Makefile needs is there, or installs it (Debian 12, as root; Rust by rustup).
#   scripts/setup.sh check build|test|splitc|perf|site      says what is missing; changes nothing
#   scripts/setup.sh install build|test|splitc|perf|site    make deps
set -eu
usage() { echo "usage: scripts/setup.sh check|install build|test|splitc|perf|site" >&2; exit 2; }
does=${1:-} goal=${2:-build}
case $does in check | install) ;; *) usage ;; esac
packages="gcc g++ make pkg-config"
# Welcome, not needed: what is not there is left out, and said.
welcome=
case $goal in
    # The launchers under which jobs are tried.
    test) packages="$packages strace iproute2 python3 gdb" welcome="clang-14 llvm-14-dev libclang-14-dev mpich libmpich-dev openmpi-bin libopenmpi-dev libpmix-dev slurmctld slurmd slurm-client libfabric-bin libfabric-dev python3-venv ibverbs-utils perftest qperf libibverbs-dev rdmacm-utils librdmacm-dev fio python3-pyverbs rdma-core infiniband-diags ucx-utils tshark python3-scapy" ;;
    # For splitcc: this version and no other (docs/decisions/0019).
    splitc) packages="$packages clang-14 llvm-14-dev libclang-14-dev" ;;
    # The peers that `bellwire perf --compare` measures beside us.
    perf) welcome="ucx-utils libfabric-bin mpich libmpich-dev openmpi-bin libopenmpi-dev" ;;
    # mdBook is below. Chromium looks at the pages in make test-long.
    site) packages="$packages python3 mandoc" welcome="chromium fonts-dejavu-core" ;;
    build) ;;
    *) usage ;;
esac

# For scripts/aarch64.sh.
[ "$goal" != test ] || welcome="$welcome gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static"
# For tests/stacks/programs.sh and engines.sh.
[ "$goal" != test ] || welcome="$welcome libgloo-dev librpma-dev qemu-system-x86 python3-venv libucx-dev"
# For ci/tests/check.sh.
[ "$goal" != test ] || welcome="$welcome python3-yaml"
# For packaging (make test-long).
[ "$goal" != test ] || welcome="$welcome debhelper lintian debootstrap rpm binutils-aarch64-linux-gnu"
# For tests/verbs/cm.sh and iser.sh.
[ "$goal" != test ] || welcome="$welcome dapl2-utils tgt libiscsi-bin libiscsi-dev"

# Those of the packages that are not installed.
lacking() {
    for p in "$@"; do
        dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || printf ' %s' "$p"
    done
}
install() {
    # shellcheck disable=SC2086
    [ "$does" = install ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && echo "setup: installing$1" && apt-get update -qq &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $1 >/dev/null
}

missing=
if command -v dpkg-query >/dev/null 2>&1; then
    # shellcheck disable=SC2086
    missing=$(lacking $packages) welcome=$(lacking $welcome)
else
    welcome=
    wanted="cc c++ make pkg-config"
    [ "$goal" != site ] || wanted="$wanted python3 mandoc"
    for c in $wanted; do
        command -v "$c" >/dev/null 2>&1 || missing="$missing $c"
    done
fi
if [ -n "$missing" ] && ! install "$missing"; then
    echo "setup: please install:$missing (as root: make deps, or apt-get install$missing)" >&2
    exit 1
fi
# To build nothing of these is needed, so a check does not speak of them.
if [ -n "$welcome" ] && { [ "$does" = install ] || [ "$goal" = test ]; } && ! install "$welcome"; then
    echo "setup: not installed, so left out:$welcome (as root: apt-get install$welcome)" >&2
fi

if ! command -v cargo >/dev/null 2>&1 && [ -x "$HOME/.cargo/bin/cargo" ]; then
    PATH="$HOME/.cargo/bin:$PATH"
fi
if ! command -v cargo >/dev/null 2>&1 && [ "$does" = check ]; then
    echo "setup: Rust 1.88 or later is needed: make deps installs it for this user by rustup, or see https://rustup.rs" >&2
    exit 1
fi
if ! command -v cargo >/dev/null 2>&1; then
    echo "setup: installing Rust by rustup, for this user"
    if ! command -v curl >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
        apt-get install -y -qq curl ca-certificates >/dev/null
    fi
    # To a file first: of a pipe only the last command's failure would be seen.
    installer=$(mktemp)
    if ! { curl --proto '=https' --tlsv1.2 -sSf -o "$installer" https://sh.rustup.rs && sh "$installer" -y --profile minimal -c clippy -c rustfmt; }; then
        rm -f "$installer"
        echo "setup: Rust could not be installed. Rust 1.88 or later is needed: see https://rustup.rs" >&2
        exit 1
    fi
    rm -f "$installer"
    PATH="$HOME/.cargo/bin:$PATH"
fi
version=$(cargo --version | cut -d' ' -f2)
major=${version%%.*}
rest=${version#*.}
minor=${rest%%.*}
if [ "$major" -lt 1 ] || { [ "$major" -eq 1 ] && [ "$minor" -lt 88 ]; }; then
    echo "setup: Rust 1.88 or later is needed, this is $version: run 'rustup update stable' (Debian 12's own cargo is too old)" >&2
    exit 1
fi
# What the site is made with.
if [ "$goal" = site ] && ! command -v mdbook >/dev/null 2>&1; then
    if [ "$does" = check ]; then
        echo "setup: mdBook is needed: make deps FOR=site, or cargo install mdbook" >&2
        exit 1
    fi
    echo "setup: compiling mdBook, which takes minutes"
    cargo install -q mdbook --version '^0.5' --locked --no-default-features --features search || { echo "setup: mdBook could not be installed: see the lines above" >&2; exit 1; }
fi
# Compilers that only tests use: the oldest one that is promised, aarch64's library, and Miri.
# Welcome, not needed.
if [ "$does" = install ] && [ "$goal" = test ] && command -v rustup >/dev/null 2>&1; then
    rustup toolchain list | grep -q '^1\.88' || rustup toolchain install 1.88.0 --profile minimal >/dev/null 2>&1 ||
        echo "setup: not installed, so left out: Rust 1.88 (rustup toolchain install 1.88.0 --profile minimal)" >&2
    rustup target list --installed | grep -q '^aarch64-unknown-linux-gnu' || rustup target add aarch64-unknown-linux-gnu >/dev/null 2>&1 ||
        echo "setup: not installed, so left out: Rust for aarch64 (rustup target add aarch64-unknown-linux-gnu)" >&2
    cargo +nightly miri --version >/dev/null 2>&1 || rustup toolchain install nightly --profile minimal -c miri -c rust-src >/dev/null 2>&1 ||
        echo "setup: not installed, so left out: Miri (rustup toolchain install nightly --profile minimal -c miri -c rust-src)" >&2
fi
