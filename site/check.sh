#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The site: it builds, its links lead somewhere, and what it is made of belongs together.
#   site/check.sh OUT [PREFIX ARCHIVES]
# With PREFIX (an installation) and ARCHIVES (of packaging/tarball.sh) the recording is made again,
# and Chromium looks at the pages, at `bellwire top`, a plot and a report.
# Without mdBook all but the build is checked: make deps FOR=site has it.
set -u
cd "$(dirname "$0")/.." || exit 1
mkdir -p "$1"
out=$(realpath "$1")
. packaging/checks.sh
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
mdbook=mdbook
if ! command -v mdbook >/dev/null; then
    mdbook=true
    echo "SKIPPED the build: no mdbook (make deps FOR=site)"
fi
build() { # checkout, out, option ..
    local of=$1 to=$2
    shift 2
    python3 "$of/site/build.py" "$to" --mdbook $mdbook "$@"
}
rustdoc=()
[ $mdbook = true ] || [ ! -d "${CARGO_TARGET_DIR:-target}/doc/bellwire_via" ] || rustdoc=(--rustdoc "${CARGO_TARGET_DIR:-target}/doc")
check "built" build . "$out" "${rustdoc[@]}"
[ $mdbook = true ] || tail -n 1 "$out/log"
# The commands of the recording are those of the script.
same_commands() {
    python3 - <<'PYTHON'
import json, sys
sys.path.insert(0, "site")
sys.dont_write_bytecode = True
import record
lines = open("site/first-minutes.cast").read().splitlines()
assert json.loads(lines[0])["version"] == 2
said = "".join(json.loads(line)[2] for line in lines[1:]).replace("\r\n", "\n")
for command in record.COMMANDS:
    command = command.replace("{archive}", "bellwire-").split("bellwire-0")[0].split("{")[0].split(" bellwire-")[0]
    assert f"$ {command}" in said, command
PYTHON
}
check "the recording is of its script (make site-recording)" same_commands

# It can fail: in a copy, what is wrong is found.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z -co --exclude-standard -- '*.md' '*.svg' site docs | xargs -0 tar -c --ignore-failed-read 2>/dev/null | tar -x -C "$copy"
finds() { # what, words of the complaint, file, text to add
    local what=$1 words=$2 file=$copy/$3 text=$4
    [ -e "$file" ] && cp "$file" "$copy/kept"
    printf '%s\n' "$text" >>"$file"
    # shellcheck disable=SC2016
    check "finds $what" sh -c 'if python3 "$1/site/build.py" "$1/out" --mdbook "$2" >"$1/said" 2>&1; then exit 1; fi; cat "$1/said"; grep -q "$3" "$1/said"' sh "$copy" $mdbook "$words"
    if [ -e "$copy/kept" ]; then mv "$copy/kept" "$file"; else rm "$file"; fi
}
finds "a page that the guide's table lacks" "differ: .*extra.md" docs/guide/extra.md "# Extra"
finds "a link to no file" "there is no nowhere.md" docs/guide/mpi.md "[nowhere](nowhere.md)"
if [ $mdbook = mdbook ]; then
    finds "a link to no heading" "modes.html#no-such" docs/guide/mpi.md "[there](modes.md#no-such)"
    finds "a dead link of the first page" "rust/none.html" site/index.md "<a href=\"rust/none.html\">none</a>"
fi

if [ $# -gt 1 ]; then
    prefix=$(realpath "$2") archive=$(realpath "$(find "$3" -name 'bellwire-*.tar.gz' | head -n 1)")
    if command -v ib_write_bw >/dev/null; then check "recorded again" python3 site/record.py "$archive" "$out/again.cast"
    else echo "SKIPPED the recording: no ib_write_bw (perftest)"; fi
    export PATH=$prefix/bin:$PATH LD_LIBRARY_PATH=$prefix/lib
    # What the commands draw.
    check "a plot" bellwire perf --quick --rounds 1 --make-up 1 --only lat --quiet --plot "$out/latency.svg"
    rm -f "$out/report.html"
    # On a busy machine one of its figures may be missing, which it says by its status.
    report() { bellwire paper 000 --quick --quiet --html "$out/report.html" || [ -s "$out/report.html" ]; }
    check "a report" report
    top() {
        local server
        bellwire run --verbs ib_write_bw -D 3 >"$out/server" &
        server=$!
        sleep 1
        bellwire run --verbs ib_write_bw -D 3 localhost >"$out/client" &
        sleep 1
        { echo '<!doctype html><html lang="en"><meta name="viewport" content="width=device-width"><title>top</title><pre style="overflow-x: auto">'
        bellwire top --once
        echo '</pre></html>'; } >"$out/top.html"
        wait $! && wait $server
    }
    check "top" top
    pages=("$out/latency.svg=half round trip" "$out/report.html=AMVIA" "$out/top.html=ib_write_bw")
    if [ $mdbook = mdbook ]; then
        pages+=("$out/html/index.html=Four ways in" "$out/html/index.html?search=rnr=Faults of RDMA requests")
        while read -r page; do
            pages+=("$page=$(sed -n 's/.*<h1 id="[^"]*"><a[^>]*>\([^<]*\)<.*/\1/p' "$page" | head -n 1)")
        done < <(find "$out/html/docs/guide" -name '*.html' | sort)
    fi
    check "looked at" timeout 300 python3 site/look.py "$out/photographs" "${pages[@]}"
    tail -n 3 "$out/log"
fi
counted
