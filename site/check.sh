#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The site: it builds, its links lead somewhere, and what it is made of belongs together.
#   site/check.sh OUT [PREFIX ARCHIVES]
# With PREFIX (an installation) and ARCHIVES (of packaging/tarball.sh) the recording is made again,
# and Chromium looks at the pages, at `bellwire top`, a plot and a report.
# Without mdBook and mandoc all but the build is checked: make deps FOR=site has them.
set -u
cd "$(dirname "$0")/.." || exit 1
mkdir -p "$1"
out=$(realpath "$1")
. packaging/checks.sh
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
mdbook=mdbook mandoc=mandoc
for tool in mdbook mandoc; do
    command -v $tool >/dev/null && continue
    mdbook=true
    echo "SKIPPED the build: no $tool (make deps FOR=site)"
done
command -v mandoc >/dev/null || mandoc=
build() { # checkout, out, option ..
    local of=$1 to=$2
    shift 2
    python3 "$of/site/build.py" "$to" --mdbook $mdbook --mandoc "$mandoc" "$@"
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
    check "finds $what" sh -c 'if python3 "$1/site/build.py" "$1/out" --mdbook "$2" --mandoc "$4" >"$1/said" 2>&1; then exit 1; fi; cat "$1/said"; grep -q "$3" "$1/said"' sh "$copy" $mdbook "$words" "$mandoc"
    if [ -e "$copy/kept" ]; then mv "$copy/kept" "$file"; else rm "$file"; fi
}
finds "a page that the guide's table lacks" "differ: .*extra.md" docs/guide/extra.md "# Extra"
finds "a link to no file" "there is no nowhere.md" docs/guide/mpi.md "[nowhere](nowhere.md)"
if [ -n "$mandoc" ]; then
    finds "a manual page that is referred to and is not there" "bellwire-none(1), which is not there" docs/man/bellwire-run.1 ".BR bellwire\-none (1)"
    finds "a manual page without a name" "extra.7: its section NAME" docs/man/extra.7 ".TH extra 7"
fi
# Each manual page is a page of the site, in the index and in the search, and leads to its SEE ALSO.
manual() { # html
    python3 - "$1" <<'PYTHON'
import pathlib, re, sys
html = pathlib.Path(sys.argv[1])
search = "".join(path.read_text() for path in html.glob("searchindex*.js"))
index = (html / "docs/man/index.html").read_text()
for page in sorted(pathlib.Path("docs/man").glob("*.[137]")):
    made = html / f"docs/man/{page.name}.html"
    assert made.is_file(), f"{page.name} is not on the site"
    assert f'href="{page.name}.html"' in index, f"{page.name} is not in the index"
    assert f"docs/man/{page.name}.html" in search, f"the search does not find {page.name}"
    text = made.read_text().partition('id="SEE_ALSO"')[2]
    for name, section in re.findall(r"^\.BR ([\w\\-]+) \(([137])\)", page.read_text().partition(".SH SEE ALSO")[2], re.M):
        name = name.replace("\\", "") + "." + section
        if pathlib.Path(f"docs/man/{name}").is_file():
            assert f'href="{name}.html"' in text, f"{page.name} does not lead to {name}"
PYTHON
}
if [ $mdbook = mdbook ]; then
    check "each manual page is there" manual "$out/html"
    misses() { # what, words of the complaint, command that spoils a copy
        rm -rf "$copy/html" && mkdir -p "$copy/html/docs"
        cp -r "$out"/html/searchindex*.js "$copy/html/" && cp -r "$out/html/docs/man" "$copy/html/docs/"
        (cd "$copy/html/docs/man" && eval "$3")
        said() { ! manual "$copy/html" 2>"$copy/said" && cat "$copy/said" && grep -q "$1" "$copy/said"; }
        check "finds $1" said "$2"
    }
    misses "a manual page that is not on the site" "vipl-cq.3 is not on the site" "rm vipl-cq.3.html"
    misses "a manual page that the index lacks" "vipl-cq.3 is not in the index" "sed -i s/vipl-cq.3.html/x/ index.html"
    misses "a manual page that cannot be searched" "does not find vipl-cq.3" "sed -i s/vipl-cq.3.html/x/g ../../searchindex*.js"
    misses "a manual page without links" "bellwire-run.1 does not lead to bellwire_job.3" "sed -i s/bellwire_job.3.html/x/ bellwire-run.1.html"
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
        done < <(find "$out/html/docs/guide" "$out"/html/docs/man/{index,bellwire-run.1,bellwire-environment.7,vipl-cq.3,sisci.3}.html -name '*.html' 2>/dev/null | sort)
        pages+=("$out/html/index.html?search=VipPostRecv=vipl-work(3)")
    fi
    check "looked at" timeout 300 python3 site/look.py "$out/photographs" "${pages[@]}"
    tail -n 3 "$out/log"
fi
counted
