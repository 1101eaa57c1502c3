# SPDX-License-Identifier: MIT OR Apache-2.0
"""Active Messages: within a process, and in jobs that `bellwire run` starts."""

import gc
import os
import subprocess
import sys
import textwrap
import unittest

import bellwire
from bellwire import am

RING = textwrap.dedent(
    """
    from bellwire import am
    with am.Job() as job:
        got, answers = [], []

        @job.endpoint.handler(1)
        def greet(message):
            got.append((message.args, message.data, message.source_rank))
            message.reply(2, message.args[0] + 1, data=b"thanks")

        @job.endpoint.handler(2)
        def answer(message): answers.append((message.args, message.data))

        memory = job.endpoint.segment(1 << 16)
        assert job.allgather(b"%04d" % job.rank) == [b"%04d" % i for i in range(job.size)]
        job.barrier()
        after, before = (job.rank + 1) % job.size, (job.rank - 1) % job.size
        job.endpoint.request(after, 1, job.rank, -7, data=b"x" * 5000)
        while not (got and answers): job.bundle.wait()
        assert got == [((before, -7), b"x" * 5000, before)], got
        assert answers == [((job.rank + 1,), b"thanks")], answers
        got.clear(), answers.clear()
        job.barrier()
        job.endpoint.request(after, 1, 3, data=b"%05d" % job.rank, offset=100)
        while not (got and answers): job.bundle.wait()
        assert bytes(memory[100:105]) == b"%05d" % before
        job.endpoint.get(after, 100, 2, 200, 5, 9)
        while len(answers) < 2: job.bundle.wait()
        assert bytes(memory[200:205]) == b"%05d" % job.rank
        job.barrier()
    """
)


def until(condition, bundle):
    while not condition():
        bundle.wait()


class Endpoints(unittest.TestCase):
    def setUp(self):
        self.bundle = am.Bundle()
        self.one = self.bundle.endpoint(tag=5)
        self.two = self.bundle.endpoint(tag=6)
        self.one.map(0, self.two.name, 6)
        self.got = []
        self.addCleanup(self.bundle.close)

    def test_kinds(self):
        @self.two.handler(3)
        def take(message):
            self.got.append((message.args, message.data))

        self.one.request(0, 3)
        self.one.request(0, 3, *range(16))
        self.one.request(0, 3, -(2**31), 2**31 - 1, data=b"")
        self.one.request(0, 3, data=memoryview(b"abc"))
        until(lambda: len(self.got) == 4, self.bundle)
        self.assertEqual(self.got, [((), None), (tuple(range(16)), None), ((-(2**31), 2**31 - 1), b""), ((), b"abc")])

    def test_handlers_may_break(self):
        @self.two.handler(3)
        def breaks(message):
            self.got.append(message)
            raise RuntimeError("broken")

        with self.assertLogs("bellwire.am", "ERROR"):
            self.one.request(0, 3)
            until(lambda: self.got, self.bundle)
        with self.assertRaises(ValueError):
            self.got[0].reply(1)

    def test_a_request_in_a_handler(self):
        @self.two.handler(3)
        def asks(message):
            try:
                self.two.request(0, 1)
            except am.Error as error:
                self.got.append(error.code)

        self.one.request(0, 3)
        until(lambda: self.got, self.bundle)
        self.assertEqual(self.got, [2])

    def test_messages_come_back(self):
        self.one.on_return = self.got.append
        self.one.request(0, 9, 1, 2)
        self.one.request(4, 9)
        until(lambda: len(self.got) == 2, self.bundle)
        by_status = {returned.status: returned for returned in self.got}
        self.assertEqual(by_status["EBADHANDLER"].args, (1, 2))
        self.assertTrue(by_status["EBADENTRY"].reason)
        self.two.tag = 7
        self.one.request(0, 9)
        until(lambda: len(self.got) == 3, self.bundle)
        self.assertEqual(self.got[2].status, "EBADTAG")

    def test_wrong_uses(self):
        with self.assertRaises(ValueError):
            self.one.request(0, 3, *range(17))
        with self.assertRaises(OverflowError):
            self.one.request(0, 3, 2**31)
        with self.assertRaises(ValueError):
            self.one.map(1, b"short", 1)
        with self.assertRaises(am.Error):
            self.one.map(-1, self.two.name, 1)
        with self.assertRaises(am.Error):
            self.one.handler(0)(print)
        with self.assertRaises(am.Error):
            self.one.request(0, 3, data=bytes(70000))

    def test_handlers_stay(self):
        self.two.handler(3)(lambda message: self.got.append(1))
        gc.collect()
        self.one.request(0, 3)
        until(lambda: self.got, self.bundle)


class Jobs(unittest.TestCase):
    def run_job(self, *command):
        done = subprocess.run([*command, sys.executable, "-c", RING], capture_output=True, text=True, env=dict(os.environ), timeout=300)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_alone(self):
        self.run_job()

    def test_four(self):
        self.run_job(str(bellwire.command()), "run", "-n", "4")


if __name__ == "__main__":
    unittest.main()
