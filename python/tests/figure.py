# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints what a call of 8 bytes and its result cost, beside a pipe of multiprocessing, by turns."""

import multiprocessing
import statistics
import time

from bellwire import rpc

ROUNDS, CALLS = 9, 300


def serve(connection):
    with rpc.Node() as node:
        node.serve("echo", lambda data: data)
        node.serve("stop", lambda data: node.stop() or b"")
        connection.send(node.address)
        node.run(poll=True)


def echo(connection):
    while True:
        data = connection.recv_bytes()
        if not data:
            return
        connection.send_bytes(data)


def timed(function):
    start = time.perf_counter()
    for _ in range(CALLS):
        function(b"12345678")
    return (time.perf_counter() - start) / CALLS * 1e6


def main():
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(theirs,))
    server.start()
    pipe, end = context.Pipe()
    echoing = context.Process(target=echo, args=(end,))
    echoing.start()
    calls, pipes = [], []
    with rpc.Node() as node:
        peer = node.connect(ours.recv())

        def by_pipe(data):
            pipe.send_bytes(data)
            pipe.recv_bytes()

        for _ in range(ROUNDS):
            calls.append(timed(lambda data: peer.call("echo", data)))
            pipes.append(timed(by_pipe))
        peer.call("stop")
    pipe.send_bytes(b"")
    server.join()
    echoing.join()
    call, piped = statistics.median(calls), statistics.median(pipes)
    print(f"a call of 8 bytes and its result: {call:.1f} us; a pipe of multiprocessing there and back: {piped:.1f} us (medians of {ROUNDS} rounds by turns)")


if __name__ == "__main__":
    main()
