#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The dependencies: their licences, sources and versions
# by deny.toml, and known faults (advisories). Licences and sources are checked from Cargo.lock's
# metadata in any case. Bans and advisories need cargo-deny, and advisories a database
# (~/.cargo/advisory-dbs), which is not fetched here.
set -u
cd "$(dirname "$0")/.." || exit 1
# The packages of all platforms are asked for: on a new machine most, not all, have been fetched.
metadata=$(cargo metadata --format-version 1 --locked --offline 2>/dev/null || cargo metadata --format-version 1 --locked) ||
    { echo "FAILED: licences and sources: cargo metadata"; exit 1; }
python3 -c '
import json, re, sys
allowed = set(re.findall("\"([^\"]+)\"", re.search(r"\[licenses\]\s*allow = \[(.*?)\]", open("deny.toml").read(), re.S).group(1)))
def holds(text):
    """Whether an SPDX expression can be met with the allowed licences; the slash of old manifests means OR."""
    words = re.findall(r"\(|\)|[^()\s]+", text.replace("/", " OR "))
    at = 0
    def either():
        nonlocal at
        value = both()
        while at < len(words) and words[at] == "OR":
            at += 1
            value = both() or value
        return value
    def both():
        nonlocal at
        value = one()
        while at < len(words) and words[at] == "AND":
            at += 1
            value = one() and value
        return value
    def one():
        nonlocal at
        word = words[at]
        at += 1
        if word == "(":
            value = either()
            at += 1
            return value
        if at < len(words) and words[at] == "WITH":
            word = word + " WITH " + words[at + 1]
            at += 2
        return word in allowed
    return either()
assert holds("MIT OR GPL-3.0") and not holds("MIT AND GPL-3.0") and holds("(GPL-3.0 OR MIT) AND ISC") and not holds("GPL-3.0")
bad, seen = 0, 0
for p in json.load(sys.stdin)["packages"]:
    seen += 1
    if not p["license"] or not holds(p["license"]):
        bad += 1
        print("FAILED: %s %s: licence %s" % (p["name"], p["version"], p["license"]))
    if p["source"] and p["source"] != "registry+https://github.com/rust-lang/crates.io-index":
        bad += 1
        print("FAILED: %s %s: from %s" % (p["name"], p["version"], p["source"]))
print("licences and sources of %d packages" % seen)
sys.exit(bad > 0 or seen == 0)' <<<"$metadata" || { echo "FAILED: licences and sources"; exit 1; }
if ! cargo deny --version >/dev/null 2>&1; then
    echo "SKIPPED: bans and advisories: no cargo-deny (cargo install --locked cargo-deny)"
    exit 0
fi
cargo deny --offline check bans licenses sources || exit 1
if ls "${CARGO_HOME:-$HOME/.cargo}"/advisory-db* >/dev/null 2>&1; then
    cargo deny --offline check advisories || exit 1
else
    echo "SKIPPED: advisories: no database (cargo deny fetch)"
fi
