#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Draws a trace of a few events as a picture: a column for each process, a row for each event, in the
order of the one clock; a call has a bar from its beginning to its end.

    bellwire trace --format json -o fault.json ./program; trace-picture.py fault.json fault.svg
"""
import html
import json
import sys

ROWS_MAX = 60
ROW, COLUMN, LEFT, TOP, LETTER = 22, 470, 110, 60, 7.2
COLOURS = {"calls": "#2b6cb0", "pairs": "#6b46c1", "engine": "#2f855a", "links": "#b7791f"}


def label(event):
    """What stands in the picture: the name, and what matters of the rest."""
    parts = [event["event"]]
    for name in ("state", "result", "opcode", "status", "text"):
        if event.get(name) not in (None, "", 0):
            parts.append(str(event[name]))
    return ": ".join([parts[0], ", ".join(parts[1:])]) if len(parts) > 1 else parts[0]


def rows(trace):
    """The events of all processes in order: time, process, depth, event, its call's end."""
    found = []
    for thread in trace["threads"]:
        process, open_ = (thread["host"], thread["pid"], thread["program"]), []
        for event in thread["events"]:
            if event["shape"] == "end":
                if open_:
                    open_.pop()["end"] = event
                continue
            row = {"t": event["t_ns"], "process": process, "depth": len(open_), "event": event, "end": None}
            found.append(row)
            if event["shape"] == "begin":
                open_.append(row)
    return sorted(found, key=lambda row: row["t"])


def draw(trace):
    shown = rows(trace)[:ROWS_MAX]
    processes = sorted({row["process"] for row in shown}, key=lambda process: [row["process"] for row in shown].index(process))
    width, height = LEFT + COLUMN * len(processes) + 10, TOP + ROW * len(shown) + 20
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="monospace" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>']

    def text(x, y, words, colour="#1a202c", weight="normal"):
        out.append(f'<text x="{x}" y="{y}" fill="{colour}" font-weight="{weight}">{html.escape(words)}</text>')

    for at, (host, pid, program) in enumerate(processes):
        text(LEFT + COLUMN * at, 24, f"{program} (process {at + 1})", weight="bold")
        out.append(f'<line x1="{LEFT + COLUMN * at - 8}" y1="34" x2="{LEFT + COLUMN * at - 8}" y2="{height - 10}" stroke="#cbd5e0"/>')
    began = shown[0]["t"] if shown else 0
    for at, row in enumerate(shown):
        y, x = TOP + ROW * at, LEFT + COLUMN * processes.index(row["process"]) + 14 * row["depth"]
        colour = COLOURS.get(row["event"]["layer"], "#4a5568")
        text(6, y, f"{(row['t'] - began) / 1000:11.1f} us", "#718096")
        words = label(row["event"])
        if row["event"]["shape"] == "begin":
            end = row["end"]
            words += f" = {end.get('result', '')}  <{(end['t_ns'] - row['t']) / 1000:.1f} us>" if end else " .. did not return"
            last = max([n for n, other in enumerate(shown) if end and other["process"] == row["process"] and row["t"] <= other["t"] <= end["t_ns"]], default=at)
            out.append(f'<rect x="{x - 5}" y="{y - 13}" width="3" height="{ROW * (last - at) + 16}" fill="{colour}"/>')
        bad = any(word in words for word in ("error", "lost", "failed", "ERR", "refused", "did not return", "TIMEOUT", "REJECT")) or " = -" in words
        text(x, y, words[: int(COLUMN / LETTER) - 2 * row["depth"]], "#c53030" if bad else colour, "bold" if bad else "normal")
    out.append("</svg>")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        picture = draw(json.load(file))
    with open(sys.argv[2], "w") as file:
        file.write(picture)
