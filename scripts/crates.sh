#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Every crate can be published: `cargo publish --dry-run` for each, in their order, and what
# crates.io and docs.rs want to know of it is there.
#   scripts/crates.sh           without compiling what is packed
#   scripts/crates.sh verify    each package is compiled as its users would compile it
#   scripts/crates.sh semver [REV]   compares the libraries with those of the last release, or of
#                 the commit REV, by cargo-semver-checks, and says what the next version is at least
#   NEXT          for semver: a version that fails if it promises more than the libraries keep
#                 (default: that of Cargo.toml, unless it is the released one)
# The last release is the tag of the newest version in CHANGELOG.md, else the commit that put it
# there. Without cargo-semver-checks, or without such a commit, semver is SKIPPED.
set -u
cd "$(dirname "$0")/.." || exit 1
target=${CARGO_TARGET_DIR:-target}
log=$target/crates.log
mkdir -p "$target"
version_in() { sed -n 's/^version = "\(.*\)"$/\1/p' "$1" | head -n 1; } # Cargo.toml
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

# Which version the next release must have, by the interfaces of the libraries of the last one.
semver() { # [REV]
    local released old least next name changes checked=0 new=0 broken=0 before=$target/released
    command -v cargo-semver-checks >/dev/null || { echo "SKIPPED semantic versions: no cargo-semver-checks (cargo install --locked cargo-semver-checks)"; return 0; }
    old=$(sed -n 's/^## \[\([0-9.]*\)\].*/\1/p' CHANGELOG.md | head -n 1)
    if [ $# -gt 0 ]; then
        released=$(git rev-parse -q --verify "$1^{commit}") || { echo "FAILED: no commit $1"; return 1; }
    elif ! released=$(git rev-parse -q --verify "v$old^{commit}") && ! released=$(git log -n 1 --format=%H -S"## [$old]" -- CHANGELOG.md | grep .); then
        echo "SKIPPED semantic versions: no tag v$old, and no commit with this release"
        return 0
    fi
    rm -rf "$before"
    mkdir -p "$before"
    git archive "$released" | tar x -C "$before" || return 1
    old=$(version_in "$before/Cargo.toml")
    : >"$log"
    while read -r name; do
        if ! grep -qrx --include=Cargo.toml "name = \"$name\"" "$before"; then
            new=$((new + 1))
            continue
        fi
        checked=$((checked + 1))
        # What a release must not change whose users get it without asking: 0.1.1 after 0.1.0.
        if cargo semver-checks --color never -p "$name" --baseline-root "$before" --release-type minor >"$log.one" 2>&1; then
            cat "$log.one" >>"$log"
            continue
        fi
        cat "$log.one" >>"$log"
        grep -q 'Summary semver requires new major' "$log.one" || { tail -n 20 "$log.one"; echo "FAILED: cargo semver-checks -p $name"; return 1; }
        broken=$((broken + 1))
        changes=$(sed -n 's/^--- failure \([a-z_0-9]*\):.*/\1/p' "$log.one" | sort | tr '\n' ' ')
        echo "$name is not compatible with $old: $changes"
    done < <(python3 -c 'import json, sys
for p in json.load(open(sys.argv[1]))["packages"]:
    if p["publish"] is None and any("lib" in t["kind"] for t in p["targets"]):
        print(p["name"])' "$target/crates.json")
    rm -rf "$before"
    [ $checked -gt 0 ] || { echo "FAILED: no library of $released to compare with"; return 1; }
    next=$(version_in Cargo.toml)
    least=$(echo "$old" | awk -F. -v broken=$broken '{ print (broken == 0 ? $1 "." $2 "." $3 + 1 : $1 > 0 ? $1 + 1 ".0.0" : "0." $2 + 1 ".0") }')
    echo "$checked libraries compared with $old ($new are new): $broken are not compatible; the next release is $least at least"
    # Cargo.toml has the released version until there is a next one.
    next=${NEXT:-$next}
    [ "$next" != "$old" ] || return 0
    [ "$(printf '%s\n' "$least" "$next" | sort -V | head -n 1)" = "$least" ] || { echo "FAILED: version $next promises to be compatible"; return 1; }
}
case ${1:-} in
    semver) shift; semver "$@"; exit ;;
    verify) verify= ;;
    "") verify=--no-verify ;;
    *) echo "crates: verify or semver, not $1" >&2; exit 2 ;;
esac
# shellcheck disable=SC2086 # nothing, or one word
CARGO_TARGET_DIR=$target/package cargo publish --dry-run --workspace --locked --allow-dirty $verify >"$log" 2>&1 || { tail -n 30 "$log"; echo "FAILED: cargo publish --dry-run"; exit 1; }
uploaded=$(grep -c 'aborting upload due to dry run' "$log")
[ "$uploaded" = "$count" ] || { echo "FAILED: $uploaded of $count crates were packed"; exit 1; }
echo "all well: $count crates can be published${1:+, and compile as packed}"
