#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# `bellwire paper NUMBER --quick`: everything is measured; JSON, CSV and HTML can be read; nothing
# is judged by so short a run. Of paper 000 the parts of a round trip add up to all of it, and the
# simulated machines are near Table 2; of paper 001 the shares of the rungs add up to what they take
# off together; of paper 004 the clients' rates add up to that of all, endpoints are loaded where
# frames are few, and the parts of the protocol add up to the whole within 5 % in virtual time.
#   tests/paper.sh BELLWIRE OUT      BELLWIRE: the command, with libvipl beside it or at BELLWIRE_VIPL
set -u
[ $# = 2 ] || { sed -n '8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
bellwire=$(realpath "$1") out=$2
mkdir -p "$out" || exit 1
if timeout 60 "$bellwire" paper 009 --quick >"$out/paper.log" 2>&1; then
    echo "FAILED: there is no paper 009"
    exit 1
fi
for number in 000 001 004; do
    # A busy machine can leave a figure without a sample: "replies come too late".
    for try in 1 2 3 4; do
        timeout 280 "$bellwire" paper $number --quick --quiet --json "$out/$number.json" --csv "$out/$number.csv" --html "$out/$number.html" >"$out/$number.txt" 2>"$out/paper.log" && break
        if [ $try = 4 ] || ! grep -q 'replies come too late' "$out/paper.log"; then
            echo "FAILED: bellwire paper $number --quick, try $try"
            tail -n 20 "$out/paper.log" "$out/$number.txt"
            exit 1
        fi
    done
done
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


def read(number, names, statements, pictures):
    found = json.load(open(f"{out}/{number}.json"))
    check(f"{number}: nothing has failed: {found['failures']}", found["failures"] == [])
    check(f"{number}: all of it is measured", "not measured" not in json.dumps(found["exhibits"]))
    check(f"{number}: {[e['name'] for e in found['exhibits']]}", [e["name"] for e in found["exhibits"]] == names)
    judged = all(s["verdict"] == "not-comparable" and s["reason"] for s in found["statements"])
    check(f"{number}: one round judges nothing", judged and len(found["statements"]) >= statements)
    rows = list(csv.reader(open(f"{out}/{number}.csv")))
    check(f"{number}: each line has four values", rows[0] == ["exhibit", "row", "column", "value"] and all(len(row) == 4 for row in rows) and len(rows) > 150)
    check(f"{number}: statements are in it", sum(row[0] == "statement" for row in rows) == len(found["statements"]))
    text, tags = open(f"{out}/{number}.html").read(), Tags()
    tags.feed(text)
    check(f"{number}: tags are closed", tags.open == [])
    check(f"{number}: {tags.seen}", tags.seen.get("table") == len(names) + 1 and tags.seen.get("svg", 0) >= pictures)
    for picture in re.findall(r"<svg.*?</svg>", text, re.S):
        check("a picture is XML", xml.fromstring(picture) is not None)
    said = open(f"{out}/{number}.txt").read()
    told = all(e["table"]["title"] in said for e in found["exhibits"]) and said.count("not comparable  ") >= len(found["statements"])
    check(f"{number}: the text has each table and statement", told)
    return found, {name: list(rounds.values()) for name, rounds in found["values"].items()}


found, values = read("000", [f"Table {n}" for n in range(1, 6)] + [f"Figure {n}" for n in range(2, 6)] + ["Credits", "Versions", "Credits, Split-C"] + [f"The NIC's share{part}" for part in ("", ", switched", ", costs")], 31, 5)
share = next(e for e in found["exhibits"] if e["name"] == "The NIC's share")["table"]["rows"]
off = {(row[0], column): float(cell.split()[0]) for row in share if row[1] == "residual" for column, cell in enumerate(row) if cell.endswith(" %")}
check(f"simulated machines are as near to Table 2 as docs/papers.md says: {off}", len(off) == 20 and all(abs(o) <= 5 for o in off.values()))
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

names = ["Ladder, shared memory", "Shares, shared memory", "Ladder, UDP", "Shares, UDP", "Waiting", "Groups", "Processor"]
found, values = read("001", names, 20, 4)
exhibits = {exhibit["name"]: exhibit["table"]["rows"] for exhibit in found["exhibits"]}
for name in names[1], names[3]:
    for size, *shares in exhibits[name]:
        check(f"{name}, {size} B: {shares} add up", len(shares) == 5 and abs(sum(shares) - 100) < 1e-6)
for name in names[0], names[2]:
    *rows, mean = exhibits[name]
    check(f"{name}: all times are positive", all(time > 0 for row in rows for time in row[1:7]))
    reductions = [100 * (1 - row[6] / row[1]) for row in rows]
    check(f"{name}: reductions {reductions}", all(abs(row[7] - r) < 1e-6 for row, r in zip(rows, reductions)))
    check(f"{name}: their mean", abs(mean[7] - sum(reductions) / len(reductions)) < 1e-6 and mean[8] == 55)
check("processor time is positive", all(values[name][0] > 0 for name in values if name.endswith(("sender", "receiver"))))

names = ["LogP", "Protection", "Permutations", "Rate", "Bandwidth", "Round trip", "Few networks", "Many networks", "K"]
found, values = read("004", names, 55, 7)
exhibits = {exhibit["name"]: exhibit["table"]["rows"] for exhibit in found["exhibits"]}
for name in "Rate", "Few networks", "Many networks":
    for where, clients, together, each, least, most, *_ in exhibits[name]:
        check(f"{name}, {where}, {clients} clients: {least} {each} {most}", 0 < least <= each * 1.001 and each <= most * 1.001 and abs(each * clients - together) < 1e-6 * together)
logp = {build: figures for build, *figures in exhibits["LogP"]}
bare, protected, whole, alone, timed, total = (logp[b] for b in ("bare", "+ protection", "+ timers: the whole", "reliability alone", "reliability and timers", "bare and parts alone, added up"))
for g, name in (2, "g"), (4, "round trip"):
    check(f"{name}: {bare[g]} < {protected[g]} < {whole[g]}; {total[g]} in parts", bare[g] < protected[g] < whole[g] and abs(total[g] / whole[g] - 1) < 0.05)
    added = protected[g] + timed[g] - bare[g]
    check(f"{name}: {total[g]} is what the parts add: {added}", abs(total[g] - added) < 1e-6 * added)
check("the code takes time in each build", all(figures[9] > 0 for figures in logp.values()))
check(f"wires: {exhibits['Protection']}", [row[0] for row in exhibits["Protection"]] == ["direct UDP", "+ keys", "by agents"] and all(us > 0 for row in exhibits["Protection"] for us in row[1:]))
has_namespaces = not any(line.startswith("Skipped: ") for line in found["about"])
if not has_namespaces:
    print("SKIPPED:", next(line for line in found["about"] if line.startswith("Skipped: ")))
permuted = [row[0] for row in exhibits["Permutations"]]
check(f"permutations: {permuted}", permuted == [n for n in ("star", "subclusters", "namespaces") for _ in range(3) if has_namespaces or n != "namespaces"])
check("each host has bandwidth, of at most a link", all(0 < row[5] < 101 and row[7] > 0 for row in exhibits["Permutations"]))
for where, networks, *_, loads in exhibits["Few networks"] + exhibits["Many networks"]:
    # Agents count the first load of each endpoint; the simulator begins to count later.
    least = networks if where.startswith("agents") else 0
    check(f"{where}, {networks} networks over 7 frames: {loads} loads", loads > least if networks > 7 else loads == least)
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
END
