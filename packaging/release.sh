# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
# Sourced, in the checkout's folder, by what makes packages: the version, and the commit's time.
# Files of packages have no other time, so that the same commit gives the same bytes.
# shellcheck disable=SC2034 # for the script that sources this
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
# What a build writes into programs of its own folder, of cargo's output and of Cargo's folder does
# not depend on where these are. With other flags of the caller's there is no promise.
#   tree      where cargo builds, if it is not the checkout
#   target    cargo's output
tree=${tree:-$PWD}
target=${target:-$(realpath -m "${CARGO_TARGET_DIR:-$tree/target}")}
# The last one that fits is taken. Some crates have files in C, too.
for moved in "$tree=/bellwire" "${CARGO_HOME:-$HOME/.cargo}=/cargo" "$target=/bellwire/target"; do
    RUSTFLAGS="${RUSTFLAGS:+$RUSTFLAGS }--remap-path-prefix=$moved"
    CFLAGS="${CFLAGS:+$CFLAGS }-ffile-prefix-map=$moved"
done
export RUSTFLAGS CFLAGS
