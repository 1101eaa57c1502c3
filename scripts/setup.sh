#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Installs what the Makefile's targets need on Debian 12, or says what is missing.
#   scripts/setup.sh build|test|splitc|perf
set -eu
goal=${1:-build}
packages="gcc g++ make pkg-config"
case $goal in
    test) packages="$packages strace iproute2 python3 clang-14 llvm-14-dev libclang-14-dev gdb" ;;
    # For splitcc: this version and no other (docs/decisions/0018).
    splitc) packages="$packages clang-14 llvm-14-dev libclang-14-dev" ;;
    # The peers that `bellwire perf --compare` measures beside us.
    perf) packages="$packages ucx-utils libfabric-bin mpich libmpich-dev openmpi-bin libopenmpi-dev" ;;
esac

missing=
if command -v dpkg-query >/dev/null 2>&1; then
    for p in $packages; do
        dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $p"
    done
else
    for c in cc c++ make pkg-config; do
        command -v "$c" >/dev/null 2>&1 || missing="$missing $c"
    done
fi
if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "setup: installing$missing"
        apt-get update -qq
        # shellcheck disable=SC2086
        if ! DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null; then
            # Peers are welcome, not needed: what is not there is listed by the comparison itself.
            [ "$goal" = perf ] || { echo "setup: could not install:$missing" >&2; exit 1; }
        fi
    elif [ "$goal" = perf ]; then
        echo "setup: not installed, so not compared:$missing (as root: apt-get install$missing)" >&2
    else
        echo "setup: please install:$missing (as root: apt-get install$missing)" >&2
        exit 1
    fi
fi

if ! command -v cargo >/dev/null 2>&1 && [ -x "$HOME/.cargo/bin/cargo" ]; then
    PATH="$HOME/.cargo/bin:$PATH"
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
