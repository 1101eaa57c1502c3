#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the preloaded library costs a program that uses no file of RDMA: the processor time of farm.c, without and with
the library by turns.

    tests/devices/farm.py LIBRARY [PAIRS]

LIBRARY is libbellwire-verbs.so. Prints medians of PAIRS (41) pairs of runs: for no opened file, which is the loading of
the library; and for 10,000, each opened, read, looked at and closed, the loading with them."""
import os
import subprocess
import sys
import tempfile

library, pairs = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 41
source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "farm.c")


def median(values):
    values = sorted(values)
    return values[len(values) // 2]


def run(program, count, preload):
    """Processor time of one run, in ms."""
    environment = {**os.environ, **({"LD_PRELOAD": library} if preload else {})}
    child = os.posix_spawn(program, [program, str(count)], environment)
    _, status, used = os.wait4(child, 0)
    if status != 0:
        sys.exit(f"farm failed: {status}")
    return 1000 * (used.ru_utime + used.ru_stime)


with tempfile.TemporaryDirectory() as work:
    program = f"{work}/farm"
    subprocess.run(["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, source], check=True)
    for count in (0, 10000):
        without, beside = [], []
        for i in range(pairs):
            # By turns, and each is the first one in half of the pairs.
            for preload in (False, True) if i % 2 else (True, False):
                (beside if preload else without).append(run(program, count, preload))
        more = 100 * (median(b / a for a, b in zip(without, beside)) - 1)
        print(f"{count} files: {median(without):.2f} ms without the library, {median(beside):.2f} ms with it; median of the pairs' ratios {more:+.2f} %")
