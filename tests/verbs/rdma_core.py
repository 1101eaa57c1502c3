#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs rdma-core's own tests (pyverbs) and prints a line for each: its name, pass, skip or fail, and the reason.

    rdma_core.py DIRECTORY [arguments of the suite, such as --dev bellwire0]

DIRECTORY holds the suite's package `tests`. The suite's own runner prints for people, so its results cannot be compared.
"""

import os
import sys
import unittest
from importlib.machinery import SourceFileLoader


class Table(unittest.TestResult):
    """Keeps what became of each test."""

    def __init__(self):
        super().__init__()
        self.rows = {}

    def row(self, test, outcome, reason=""):
        # A test that cannot even be set up is reported for its class.
        self.rows[test.id()] = (outcome, " ".join(str(reason).split())[:160])
        print(".sF"[("pass", "skip", "fail").index(outcome)], end="", file=sys.stderr, flush=True)

    def addSuccess(self, test):
        self.row(test, "pass")

    def addSkip(self, test, reason):
        self.row(test, "skip", reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.row(test, "fail", err[1])

    def addError(self, test, err):
        super().addError(test, err)
        self.row(test, "fail", err[1])


def main():
    suite = os.path.join(os.path.abspath(sys.argv.pop(1)), "tests")
    sys.path[:0] = [os.path.dirname(suite), suite]
    from args_parser import parser

    package = SourceFileLoader("tests", os.path.join(suite, "__init__.py")).load_module()
    parser.parse_args()
    table = Table()
    unittest.defaultTestLoader.loadTestsFromModule(package).run(table)
    print(file=sys.stderr)
    for name, (outcome, reason) in sorted(table.rows.items()):
        print(name.removeprefix("tests."), outcome, reason, sep="\t")
    for test, trace in table.failures + table.errors:
        print(f"==== {test.id()}\n{trace}", file=sys.stderr)


main()
