#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# `bellwire paper 000 --quick`: everything is measured; the parts of a round trip add up to all of
# it; JSON, CSV and HTML can be read; nothing is judged by so short a run.
#   tests/paper.sh BELLWIRE OUT      BELLWIRE: the command, with libvipl beside it or at BELLWIRE_VIPL
set -u
[ $# = 2 ] || { sed -n '5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
bellwire=$(realpath "$1") out=$2
mkdir -p "$out" || exit 1
if timeout 60 "$bellwire" paper 009 --quick >"$out/paper.log" 2>&1; then
    echo "FAILED: there is no paper 009"
    exit 1
fi
if ! timeout 280 "$bellwire" paper 000 --quick --quiet --json "$out/000.json" --csv "$out/000.csv" --html "$out/000.html" >"$out/000.txt" 2>"$out/paper.log"; then
    echo "FAILED: bellwire paper 000 --quick"
    tail -n 20 "$out/paper.log" "$out/000.txt"
    exit 1
fi
python3 - "$out" <<'END'
import csv, html.parser, json, re, sys
import xml.etree.ElementTree as xml

out = sys.argv[1]
passed = failed = 0


def check(what, holds):
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    if not holds:
        print("FAILED:", what)


found = json.load(open(f"{out}/000.json"))
values = {name: list(rounds.values()) for name, rounds in found["values"].items()}
check("nothing has failed", found["failures"] == [])
check("all of it is measured", "not measured" not in json.dumps(found["exhibits"]))
names = [exhibit["name"] for exhibit in found["exhibits"]]
check(names, names == [f"Table {n}" for n in range(1, 6)] + [f"Figure {n}" for n in range(2, 6)] + ["Credits", "Versions"])
check("one round judges nothing", all(s["verdict"] == "not-comparable" and s["reason"] for s in found["statements"]) and len(found["statements"]) > 30)

for of, name in [("v3", "Table 3"), ("get", "Table 4")]:
    ticks = {re.sub("^- ", "", row[0]): row[3] for row in next(e for e in found["exhibits"] if e["name"] == name)["table"]["rows"]}
    whole = ticks["Whole, with marks"]
    sums = [ticks["Sum of the categories"], sum(ticks[c] for c in ("Base VI", "Event notification", "Flow control", "Semantics", "Rest"))]
    check(f"{name}: the categories add up to the whole: {sums} {whole}", all(abs(s - whole) < 1e-6 * abs(whole) for s in sums))
    marks = [values[f"{of} span {n} marks"][0] for n in range(100) if f"{of} span {n} marks" in values]
    spans = "allowed built sent entered sends_looked send_found send_done send_recycled turned receives_looked receive_found receive_done read sorted acted finished receive_armed receive_posted".split()
    each = dict(zip(spans, marks))
    twice = ("built", "sent", "receive_found", "receive_done", "read", "sorted", "acted", "finished", "receive_armed", "receive_posted", "send_done", "send_recycled")
    check(f"{name}: two messages of a round trip: {each}", all(each[span] == 2 for span in twice))
    check(f"{name}: a look at each queue finds each", each["sends_looked"] >= 2 and each["receives_looked"] >= 2)
    check(f"{name}: unmarked and marked runs were made", all(values[f"{of} whole, {m}"][0] > 0 for m in ("no marks", "marks")))
    samples = sum(values[f"{of} span {n} samples"][0] for n in range(len(marks)))
    check(f"{name}: so many samples as were asked for: {samples}", samples >= 40)

rows = list(csv.reader(open(f"{out}/000.csv")))
check("each line has four values", rows[0] == ["exhibit", "row", "column", "value"] and all(len(row) == 4 for row in rows) and len(rows) > 150)
check("statements are in it", sum(row[0] == "statement" for row in rows) == len(found["statements"]))


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen, self.open = {}, []

    def handle_starttag(self, tag, attributes):
        self.seen[tag] = self.seen.get(tag, 0) + 1
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen[tag] = self.seen.get(tag, 0) + 1

    def handle_endtag(self, tag):
        check(f"</{tag}> ends what is open", self.open and self.open.pop() == tag)


text, tags = open(f"{out}/000.html").read(), Tags()
tags.feed(text)
check("tags are closed", tags.open == [])
check(tags.seen, tags.seen.get("table") == 12 and tags.seen.get("svg", 0) >= 5)
for picture in re.findall(r"<svg.*?</svg>", text, re.S):
    check("a picture is XML", xml.fromstring(picture) is not None)
said = open(f"{out}/000.txt").read()
check("the text has each table and statement", all(e["table"]["title"] in said for e in found["exhibits"]) and said.count("not comparable  ") >= len(found["statements"]))
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
END
