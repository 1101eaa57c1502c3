# SPDX-License-Identifier: MIT OR Apache-2.0
"""Remote procedure calls between processes, by every way of calling."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest

from bellwire import rpc

SERVER = textwrap.dedent(
    """
    import asyncio, sys, threading
    from bellwire import rpc
    node = rpc.Node()
    gate = threading.Event()

    @node.serve("square")
    def square(data): return str(int(data) ** 2).encode()

    @node.serve("echo")
    def echo(data): return data

    @node.serve("fails")
    def fails(data): raise rpc.Failed("no such thing", 42)

    @node.serve("breaks")
    def breaks(data): return {}[data]

    @node.serve("later")
    async def later(data):
        await asyncio.sleep(0)
        return data[::-1]

    @node.serve("never")
    async def never(data): await asyncio.Event().wait()

    @node.serve("new", version=3)
    def new(data): return b"3"

    @node.serve("stop")
    def stop(data):
        node.stop()
        return b""

    sys.stdout.buffer.write(node.address)
    sys.stdout.flush()
    node.run()
    node.close()
    """
)


class Server:
    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.address = self.process.stdout.read(56)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server().__enter__()
        cls.node = rpc.Node()
        cls.peer = cls.node.connect(cls.server.address)

    @classmethod
    def tearDownClass(cls):
        cls.node.close()
        cls.server.__exit__()

    def test_result(self):
        self.assertEqual(self.peer.call("square", b"12"), b"144")

    def test_buffers(self):
        self.assertEqual(self.peer.call("echo", bytearray(b"abc")), b"abc")
        self.assertEqual(self.peer.call("echo", memoryview(b"xabcx")[1:4]), b"abc")
        self.assertEqual(self.peer.call("echo"), b"")

    def test_large(self):
        data = os.urandom(3_000_000)
        self.assertEqual(self.peer.call("echo", data), data)

    def test_failure_of_the_handler(self):
        with self.assertRaises(rpc.Failed) as failed:
            self.peer.call("fails")
        self.assertEqual((str(failed.exception), failed.exception.number), ("no such thing", 42))
        with self.assertRaises(rpc.Failed) as failed:
            self.peer.call("breaks", b"k")
        self.assertEqual(str(failed.exception), "KeyError: b'k'")

    def test_names_and_versions(self):
        with self.assertRaises(rpc.UnknownProcedure):
            self.peer.call("nobody")
        with self.assertRaises(rpc.WrongType):
            self.peer.call("new")
        self.assertEqual(self.peer.call("new", version=3), b"3")

    def test_coroutine_handler(self):
        self.assertEqual(self.peer.call("later", b"abc"), b"cba")

    def test_deadline(self):
        with self.assertRaises(TimeoutError):
            self.peer.call("never", timeout=0.05)
        with self.assertRaises(rpc.DeadlineExceeded):
            self.peer.submit("never", timeout=0.05).result()

    def test_futures(self):
        futures = [self.peer.submit("square", str(i).encode()) for i in range(300)]
        self.assertEqual([int(f.result()) for f in futures], [i * i for i in range(300)])

    def test_cancelled_future(self):
        future = self.peer.submit("never")
        self.assertTrue(future.cancel())
        self.assertEqual(self.peer.call("square", b"3"), b"9")

    def test_asyncio(self):
        async def main():
            results = await asyncio.gather(*(self.peer.acall("square", str(i).encode()) for i in range(100)))
            self.assertEqual([int(r) for r in results], [i * i for i in range(100)])
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(self.peer.acall("never"), 0.05)
            with self.assertRaises(rpc.Failed):
                await self.peer.acall("fails")

        asyncio.run(main())

    def test_threads(self):
        errors = []

        def work(seed):
            try:
                for i in range(100):
                    assert self.peer.call("echo", b"%d" % (seed * 1000 + i)) == b"%d" % (seed * 1000 + i)
            except BaseException as error:  # noqa: BLE001
                errors.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])

    def test_wrong_uses(self):
        with self.assertRaises(ValueError):
            self.node.connect(b"short")
        with self.assertRaises(TypeError):
            self.peer.call("echo", "a string")
        with self.assertRaises(rpc.Error):
            self.peer.call("x" * 1000)
        with self.assertRaises(rpc.Error):
            self.node.connect(bytes(56)).call("echo", timeout=1)


class Lives(unittest.TestCase):
    def test_a_killed_peer(self):
        with Server() as server, rpc.Node() as node:
            peer = node.connect(server.address)
            future = peer.submit("never")
            peer.call("square", b"1")
            server.process.send_signal(signal.SIGKILL)
            with self.assertRaises(rpc.Gone) as gone:
                future.result()
            self.assertIn("exited", str(gone.exception))
            with self.assertRaises(ConnectionError):
                peer.call("square", b"1")

    def test_stop_within_a_handler(self):
        with Server() as server, rpc.Node() as node:
            node.connect(server.address).call("stop")
            self.assertEqual(server.process.wait(), 0)

    def test_both_in_one_process(self):
        with rpc.Node() as server, rpc.Node() as client:
            server.serve("length", lambda data: str(len(data)).encode())
            server.start()
            self.assertEqual(client.connect(server.address).call("length", b"1234"), b"4")
            server.withdraw("length")
            with self.assertRaises(rpc.UnknownProcedure):
                client.connect(server.address).call("length")

    def test_closing(self):
        for _ in range(20):
            node = rpc.Node()
            node.start()
            node.close()
            node.close()
            with self.assertRaises(ValueError):
                node.poll()

    def test_closing_ends_calls(self):
        with Server() as server:
            node = rpc.Node()
            future = node.connect(server.address).submit("never")
            node.close()
            with self.assertRaises(rpc.Cancelled):
                future.result()

    def test_an_idle_node_sleeps(self):
        with rpc.Node() as node:
            node.start()
            time.sleep(0.05)
            before = time.process_time()
            time.sleep(0.5)
            self.assertLess(time.process_time() - before, 0.1)

    def test_forks(self):
        with rpc.Node() as node:
            child = os.fork()
            if child == 0:
                try:
                    node.poll()
                except ValueError:
                    os._exit(0)
                os._exit(1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)


if __name__ == "__main__":
    unittest.main()
