#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Every crate can be published: `cargo publish --dry-run` for each, in their order, and what
# crates.io and docs.rs want to know of it is there.
#   scripts/crates.sh           without compiling what is packed
#   scripts/crates.sh verify    each package is compiled as its users would compile it
# cargo-semver-checks, where it is installed, compares the interfaces with those of the last release
# (the tag of its version, else the commit that put it into the changelog); without it, that is
# SKIPPED.
set -u
cd "$(dirname "$0")/.." || exit 1
target=${CARGO_TARGET_DIR:-target}
log=$target/crates.log
mkdir -p "$target"
verify=--no-verify
[ "${1:-}" != verify ] || verify=
cargo metadata --format-version 1 --locked --no-deps >"$target/crates.json" || { echo "FAILED: cargo metadata"; exit 1; }
count=$(python3 - "$target/crates.json" <<'PYTHON'
import json, sys
packages = [p for p in json.load(open(sys.argv[1]))["packages"] if p["publish"] is None]
names = {p["name"] for p in packages}
wrong = []
for p in packages:
    for field in ("description", "license", "readme", "keywords", "categories", "rust_version"):
        if not p[field]:
            wrong.append(f"{p['name']} has no {field}")
    if not (p["metadata"] or {}).get("docs", {}).get("rs", {}).get("targets"):
        wrong.append(f"{p['name']} does not tell docs.rs its targets")
    for d in p["dependencies"]:
        if d["kind"] != "dev" and d.get("path") and (d["name"] not in names or d["req"] == "*"):
            wrong.append(f"{p['name']} needs {d['name']}, which is not published or has no version")
print(len(packages))
if wrong:
    print("FAILED: " + "\n".join(wrong), file=sys.stderr)
    sys.exit(1)
PYTHON
) || exit 1
# shellcheck disable=SC2086 # nothing, or one word
CARGO_TARGET_DIR=$target/package cargo publish --dry-run --workspace --locked --allow-dirty $verify >"$log" 2>&1 || { tail -n 30 "$log"; echo "FAILED: cargo publish --dry-run"; exit 1; }
uploaded=$(grep -c 'aborting upload due to dry run' "$log")
[ "$uploaded" = "$count" ] || { echo "FAILED: $uploaded of $count crates were packed"; exit 1; }
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
if ! cargo semver-checks --version >/dev/null 2>&1; then
    echo "SKIPPED semantic versions: no cargo-semver-checks"
elif ! released=$(git rev-parse -q --verify "v$version^{commit}") && ! released=$(git log -n 1 --format=%H -S"## [$version]" -- CHANGELOG.md | grep .); then
    echo "SKIPPED semantic versions: no tag v$version, and no commit with this release"
else
    cargo semver-checks --workspace --baseline-rev "$released" >"$log" 2>&1 || { tail -n 40 "$log"; echo "FAILED: cargo semver-checks"; exit 1; }
fi
echo "all well: $count crates can be published${1:+, and compile as packed}"
