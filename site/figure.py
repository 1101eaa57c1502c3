#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measures the comparison of the first page and writes site/latency.json (`make site-figure`).

    site/figure.py BELLWIRE      BELLWIRE: the command, with the peers that it compares with installed

Takes a minute; leave the machine alone meanwhile.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

COMMAND = "bellwire perf --compare --quick --only lat"
SERIES = ["exchange", "bellwire", "UCX tag", "shm tagged", "MPICH", "Open MPI", "bare UDP", "bare TCP"]
SHOWN = {"shm tagged": "libfabric shm"}


def main():
    with tempfile.TemporaryDirectory() as folder:
        to = pathlib.Path(folder) / "perf.json"
        subprocess.run([sys.argv[1], *COMMAND.split()[1:], "--json", str(to)], check=True)
        run = json.loads(to.read_text())
    of = {figure["series"]: figure for figure in run["figures"] if figure["metric"] == "latency" and figure["size"] == 8}
    missing = [series for series in SERIES if series not in of]
    if missing:
        sys.exit(f"figure: not measured: {missing}; {run['missing']}")
    # A processor that exchanges cache lines slowly for a while would favour what it meets then.
    far = {of[series]["mode"] == "far" for series in SERIES}
    if len(far) > 1:
        sys.exit("figure: the machine was fast for some and slow for others; nothing is written: run it again")
    machine = run["machine"]
    result = {
        "command": COMMAND,
        "date": machine["date"],
        "version": machine["version"],
        "machine": f"{machine['cpus']} processors of {machine['cpu_model']}, {machine['kernel'].split('-')[0]}",
        "peers": run["peers"],
        "note": "The machine exchanged cache lines slowly during this run, which makes all figures longer." if True in far else "",
        "latency_ns": {SHOWN.get(series, series): round(of[series]["median"], 1) for series in SERIES},
    }
    (pathlib.Path(__file__).resolve().parent / "latency.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
