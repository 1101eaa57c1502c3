#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The price of keys (decision 43): processor time of two NICs of one process that reach each other
# by UDP on the loopback interface, with a key and without, by turns; medians. Both the sealing and
# the opening of a packet are in it. Of small packets it is the time in user space, where the ciphers
# work: the system calls take ten times as long, and vary more than a cipher takes.
#   key-figures.sh [TURNS]
set -eu
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
cargo build -q --release --locked -p bellwire-via --example udp_cost
exec python3 - "$target/release/examples/udp_cost" "${1:-9}" <<'PY'
import os, resource, statistics, subprocess, sys

program, turns = sys.argv[1], int(sys.argv[2])

def seconds(keyed, what, count):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BELLWIRE_KEY")}
    if keyed:
        environment["BELLWIRE_KEY"] = "5a" * 32
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([program, what, str(count)], env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime

# A message goes there and one comes back; a write has 256 KiB.
for what, count, packets in (("message", 50_000, 2), ("write", 4000, 1)):
    spent = {False: [], True: []}
    for _ in range(turns):
        for keyed in spent:
            # Without what a process costs that does hardly anything.
            (user, system), (user_0, system_0) = seconds(keyed, what, count), seconds(keyed, what, 100)
            spent[keyed].append(user - user_0 + (system - system_0 if what == "write" else 0))
    plain, keyed = (statistics.median(spent[side]) / (count - 100) / packets * 1e9 for side in (False, True))
    if what == "message":
        print(f"8 bytes: {plain:.0f} ns in user space, both sides, with a key {keyed:.0f}: {keyed - plain:+.0f} ns a packet (goal: at most 400)")
    else:
        print(f"writes of 256 KiB: {plain / 1000:.1f} us, with a key {keyed / 1000:.1f}: {plain / keyed:.2f} of plain bulk (goal: at least 0.6)")
PY
