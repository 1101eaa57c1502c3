#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Wheels for many Linux systems, made for an old C library (2.27), of at most 15,000,000 bytes each.
#   packaging/wheels.sh OUT [MACHINE ..]     OUT: a folder for the wheels
#   MACHINE       x86_64 aarch64 (default: both)
#   TARGET_DIR    where cargo builds (default: target); a machine's first time takes some minutes
# Zig links: it has the symbols of each version of the C library, for each machine. It is taken from
# PyPI, into a folder of TARGET_DIR. Needs python3-venv, Rust for MACHINE (rustup target add
# MACHINE-unknown-linux-gnu), and for another machine than this one its binutils (Debian:
# binutils-aarch64-linux-gnu). SKIPPED without these. The same commit gives the same bytes.
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$1"
out=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- x86_64 aarch64
target=$(realpath -m "${TARGET_DIR:-${CARGO_TARGET_DIR:-target}}")/wheels
glibc=2.27
. packaging/release.sh
say() { echo "wheels: $((SECONDS / 60)):$(printf %02d $((SECONDS % 60))) $*"; }

zig=$target/zig
if [ ! -x "$zig/bin/cargo-zigbuild" ]; then
    say "fetching Zig"
    mkdir -p "$target"
    python=/usr/bin/python3
    [ -x $python ] || python=python3
    { $python -m venv "$zig" && "$zig/bin/pip" install -q --disable-pip-version-check ziglang==0.17.1 cargo-zigbuild==0.24.1; } >"$target/log" 2>&1 ||
        { echo "SKIPPED: Zig cannot be installed: $(tail -n 1 "$target/log")"; rm -rf "$zig"; exit 0; }
fi
program=$(echo "$zig"/lib/python3*/site-packages/ziglang/zig)
export PATH="$zig/bin:$PATH" CARGO_ZIGBUILD_ZIG_PATH=$program CARGO_TARGET_DIR=$target/$glibc CARGO_INCREMENTAL=0 CARGO_PROFILE_RELEASE_DEBUG=false
packages=$(sed -n 's/^\tcargo build --release --locked \(-p vipl .*\)/\1/p' Makefile)
[ -n "$packages" ]

# The newest version of the C library that a program or library asks for, and libraries beside those
# that every system has.
asks() { # file
    "${tools}objdump" -T "$1" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -n 1
}
foreign() { # file
    "${tools}objdump" -p "$1" | awk '$1 == "NEEDED" { print $2 }' | grep -vE '^(lib(c|m|dl|rt|util|pthread|gcc_s)\.so\.[0-9]+|ld-linux-[a-z0-9-]+\.so\.[0-9]|lib(vipl|bellwire_[a-z]+|sisci)\.so\.1|libbellwire-verbs\.so)$' || true
}

for machine in "$@"; do
    triple=$machine-unknown-linux-gnu tools=
    if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$triple/lib" ]; then
        echo "SKIPPED $machine: no Rust for it (rustup target add $triple)"
        continue
    fi
    if [ "$machine" != "$(uname -m)" ]; then
        tools=$machine-linux-gnu-
        command -v "${tools}ld" >/dev/null || { echo "SKIPPED $machine: no ${tools}ld (binutils-$machine-linux-gnu)"; continue; }
    fi
    say "$machine: compiling"
    # shellcheck disable=SC2086 # words
    cargo zigbuild -q --release --locked --target "$triple.$glibc" $packages
    say "$machine: linking the libraries of RDMA programs, installing"
    tree=$target/tree-$machine
    rm -rf "$tree"
    CC="$program cc -target $machine-linux-gnu.$glibc" LD=${tools}ld OBJCOPY=${tools}objcopy \
        BUILD=$target/$glibc/$triple/release PREFIX=/usr DESTDIR=$tree ffi/vipl/install.sh >/dev/null
    find "$tree" -type f -name '*.so*' -size +20k -exec packaging/nodelete.py {} +
    binaries=0
    while read -r file; do
        [ "$(head -c 4 "$file" | tail -c 3)" = ELF ] || continue
        binaries=$((binaries + 1))
        asked=$(asks "$file")
        [ "$(printf '%s\n' "$asked" "GLIBC_$glibc" | sort -V | tail -n 1)" = "GLIBC_$glibc" ] || { echo "FAILED: ${file#"$tree"} asks for $asked"; exit 1; }
        [ -z "$(foreign "$file")" ] || { echo "FAILED: ${file#"$tree"} asks for $(foreign "$file")"; exit 1; }
    done < <(find "$tree" -type f)
    [ $binaries -ge 11 ] || { echo "FAILED: only $binaries programs and libraries"; exit 1; }
    say "$machine: packing; none of $binaries programs and libraries asks for more than glibc $glibc"
    python3 packaging/wheel.py "$tree/usr" "$out" --platform "manylinux_${glibc/./_}_$machine" --strip "${tools}strip"
    wheel=$(ls "$out/bellwire-$version"-*_"$machine".whl)
    [ "$(stat -c %s "$wheel")" -le 15000000 ] || { echo "FAILED: $(basename "$wheel") has $(stat -c %s "$wheel") bytes"; exit 1; }
done
say "done"
