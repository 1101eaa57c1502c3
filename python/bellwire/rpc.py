# SPDX-License-Identifier: MIT OR Apache-2.0
"""Remote procedure calls with bytes, between processes of a host and between hosts.

A node serves procedures and calls those of its peers. Arguments and results are bytes of any
number; what they mean is the program's affair (json, pickle between processes that trust each
other, protobuf, ..). A call ends exactly once: by its result, or by a subclass of :class:`Error`.

    # server.py
    from bellwire import rpc
    node = rpc.Node()

    @node.serve("square")
    def square(data: bytes) -> bytes:
        return str(int(data) ** 2).encode()

    open("address", "wb").write(node.address)
    node.run()

    # client.py
    from bellwire import rpc
    with rpc.Node() as node:
        server = node.connect(open("address", "rb").read())
        print(server.call("square", b"12"))                       # waits, polling: the fastest way
        future = server.submit("square", b"12", timeout=1.0)      # a concurrent.futures.Future
        # in a coroutine: await server.acall("square", b"12")

Any thread may use a node. Handlers run one at a time, on the thread that polls: the one in
:meth:`Peer.call` or :meth:`Node.run`, or the node's own thread (:meth:`Node.start`). A node belongs
to the process that made it: a forked child makes its own.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import logging
import math
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Union

from ._native import ffi, library, text

__all__ = [
    "BadArguments", "BadReply", "Busy", "Cancelled", "DeadlineExceeded", "Dropped", "Error", "Failed", "Gone", "Incompatible",
    "Node", "Overloaded", "Peer", "TooLarge", "UnknownProcedure", "WrongType",
]

log = logging.getLogger(__name__)

Data = Union[bytes, bytearray, memoryview]
Handler = Callable[[bytes], Union[Data, Awaitable[Data]]]


class Error(Exception):
    """A call that did not end by its result, or a function that did nothing. `code` is the number
    that bellwire_rpc.h gives it."""

    code = 0


class Failed(Error):
    """The handler raised an exception. A handler raises it itself to choose `number`, which the
    caller gets with the text."""

    code = 1

    def __init__(self, message: str = "", number: int = 0) -> None:
        super().__init__(message)
        self.number = number


class UnknownProcedure(Error):
    """The peer serves no procedure of this name."""

    code = 2


class WrongType(Error):
    """The peer serves another version of the procedure."""

    code = 3


class BadArguments(Error):
    """The handler cannot understand the arguments."""

    code = 4


class BadReply(Error):
    """The peer does not keep to the protocol."""

    code = 5


class Overloaded(Error):
    """The peer has too many calls under way, or too much memory in use."""

    code = 6


class TooLarge(Error):
    """The result is larger than this node's limits allow."""

    code = 7


class Dropped(Error):
    """The handler ended without an answer."""

    code = 8


class Gone(Error, ConnectionError):
    """The peer is gone or cannot be reached; the text says why. It is not known whether the handler ran."""

    code = 9


class Incompatible(Error):
    """The peer is no node, of another version, or has another address by now."""

    code = 10


class DeadlineExceeded(Error, TimeoutError):
    """The time is over. The peer has been told."""

    code = 11


class Cancelled(Error):
    """The call was cancelled here, or its peer was disconnected. The peer has been told."""

    code = 12


class Busy(Error):
    """Too many calls to this peer are under way."""

    code = 32


_BY_CODE = {
    kind.code: kind
    for kind in (
        Failed, UnknownProcedure, WrongType, BadArguments, BadReply, Overloaded, TooLarge, Dropped, Gone, Incompatible, DeadlineExceeded,
        Cancelled, Busy,
    )
}
_ADDRESS_BYTES = 56


def _error(code: int) -> Error:
    """The reason why this thread's last call of the library failed."""
    lib = library()
    reason = text(lib.bw_rpc_reason())
    if code == Failed.code:
        return Failed(reason, lib.bw_rpc_failure())
    error = _BY_CODE.get(code, Error)(reason)
    error.code = code
    return error


def _check(code: int) -> None:
    if code != 0:
        raise _error(code)


def _milliseconds(timeout: float | None) -> int:
    return -1 if timeout is None else max(0, math.ceil(timeout * 1000))


def _told(error: BaseException) -> tuple[int, bytes]:
    """What the caller is told of a handler's exception."""
    if isinstance(error, Failed):
        number, message = error.number, str(error)
    else:
        log.error("a handler raised an exception", exc_info=error)
        number, message = 0, f"{type(error).__name__}: {error}"
    return number, message.replace("\0", "").encode(errors="replace")


class Node:
    """A node: it serves procedures, and calls those of its peers.

    `window`: calls to one peer that may be under way; `served`: calls of one caller that may be
    answered later or be arriving in parts; `memory`: bytes of large values that may be arriving.
    A node is closed by :meth:`close`, or at the end of a `with` statement.
    """

    def __init__(self, *, window: int = 64, served: int = 256, memory: int = 1 << 30) -> None:
        self._lib = library()
        made = ffi.new("bw_rpc_node_t **")
        _check(self._lib.bw_rpc_open(made))
        self._node: Any = made[0]
        self._process = os.getpid()
        self._callbacks: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._calls: dict[int, concurrent.futures.Future[bytes]] = {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._coroutines: set[concurrent.futures.Future[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        try:
            _check(self._lib.bw_rpc_set_limits(self._node, window, served, memory))
            address = ffi.new("bw_rpc_address_t *")
            _check(self._lib.bw_rpc_address(self._node, address))
            self._address = bytes(ffi.buffer(address))
            own = ffi.new("bw_rpc_peer_t *")
            _check(self._lib.bw_rpc_connect(self._node, address, own))
            self._own = own[0]
        except Error:
            self.close()
            raise

    @property
    def address(self) -> bytes:
        """Where this node is reached: 56 bytes, to be given to those who may call. There is a secret in them."""
        return self._address

    # ---------------------------------------------------------------- serving

    def serve(self, name: str, handler: Handler | None = None, *, version: int = 0) -> Any:
        """Serves a procedure; also a decorator: `@node.serve("name")`.

        The handler gets the arguments as bytes and returns the result. It may be a coroutine
        function: it then runs on an event loop of the node, and other calls are served meanwhile.
        If it raises :class:`Failed`, the caller gets that number and text; if it raises another
        exception, the caller gets its type and text by :class:`Failed`, and it is logged. Callers
        and servers of different versions do not meet (:class:`WrongType`).
        """
        if handler is None:
            return lambda function: self.serve(name, function, version=version) or function
        lib = self._lib

        def run(call: Any, arguments: Any, nbytes: int, _context: Any) -> None:
            try:
                data = bytes(ffi.buffer(arguments, nbytes)) if nbytes else b""
                result = handler(data)
                if inspect.isawaitable(result):
                    self._defer(call, result)
                    return
                answer = ffi.from_buffer(result)
                lib.bw_rpc_return(call, answer, len(answer))
            except BaseException as error:  # noqa: BLE001: nothing may pass through C
                number, message = _told(error)
                lib.bw_rpc_fail(call, number, message)

        callback = ffi.callback("bw_rpc_handler_t", run)
        _check(lib.bw_rpc_serve(self._alive(), name.encode(), lib.bw_rpc_bytes_type(version), callback, ffi.NULL))
        self._callbacks[name] = callback
        return None

    def withdraw(self, name: str) -> None:
        """Serves a procedure no longer."""
        _check(self._lib.bw_rpc_withdraw(self._alive(), name.encode()))
        # The function stays until the node is closed: it may be running.

    def _defer(self, call: Any, result: Awaitable[Data]) -> None:
        made = ffi.new("bw_rpc_reply_t **")
        _check(self._lib.bw_rpc_defer(call, made))
        reply = made[0]

        async def finish() -> None:
            try:
                answer = ffi.from_buffer(await result)
                self._lib.bw_rpc_reply_return(reply, answer, len(answer))
            except BaseException as error:  # noqa: BLE001: the caller is told of each
                number, message = _told(error)
                self._lib.bw_rpc_reply_fail(reply, number, message)
                if not isinstance(error, Exception):
                    raise

        future = asyncio.run_coroutine_threadsafe(finish(), self._event_loop())
        self._coroutines.add(future)
        future.add_done_callback(self._coroutines.discard)

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        """The loop on which coroutines of handlers run, in a thread of its own."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="bellwire-handlers", daemon=True).start()
            return self._loop

    # ---------------------------------------------------------------- calling

    def connect(self, address: bytes) -> Peer:
        """A node to call, by its address. Nothing is sent yet."""
        if len(address) != _ADDRESS_BYTES:
            raise ValueError(f"an address has {_ADDRESS_BYTES} bytes, not {len(address)}")
        at = ffi.new("bw_rpc_address_t *")
        ffi.buffer(at)[:] = address
        peer = ffi.new("bw_rpc_peer_t *")
        _check(self._lib.bw_rpc_connect(self._alive(), at, peer))
        return Peer(self, peer[0])

    # ---------------------------------------------------------------- progress

    def poll(self) -> None:
        """Handles what has come, and sends what waits. Returns without waiting."""
        _check(self._lib.bw_rpc_poll(self._alive()))
        self._sweep()

    def run(self, *, poll: bool = False) -> None:
        """Serves on this thread until :meth:`stop` is called, or a signal raises an exception (as Ctrl-C does).

        With `poll` it never sleeps: answers are faster, and it keeps a processor busy.
        """
        while poll and not self._stopping.is_set():
            self.poll()
        while not self._stopping.is_set():
            # Python runs its signal handlers between two calls.
            _check(self._lib.bw_rpc_sleep(self._alive(), 200))
            self._sweep()

    def start(self) -> None:
        """Serves on a thread of the node's own. Futures and coroutines need it and start it themselves."""
        with self._lock:
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._serve, name="bellwire-rpc", daemon=True)
                self._thread.start()

    def _serve(self) -> None:
        while not self._stopping.is_set():
            code = self._lib.bw_rpc_sleep(self._node, -1)
            self._sweep()
            if code != 0:
                log.error("the node's thread ends: %s", _error(code))
                return

    def stop(self) -> None:
        """Ends :meth:`run` and the node's own thread. May be called from a handler."""
        self._stopping.set()
        self._wake()

    def _wake(self) -> None:
        """A call to this node itself has its thread look up."""
        pending = ffi.new("bw_rpc_pending_t *")
        if self._lib.bw_rpc_start(self._node, self._own, b"", 0, ffi.NULL, 0, -1, pending) == 0:
            self._lib.bw_rpc_abandon(self._node, pending[0])

    def _sweep(self) -> None:
        """Ends the futures of the calls that are over."""
        for pending in list(self._calls):
            if self._lib.bw_rpc_is_done(self._node, pending) == 1:
                self._end(pending)

    def _end(self, pending: int) -> None:
        future = self._calls.pop(pending, None)
        if future is None:
            return  # another thread has it
        result, nbytes = ffi.new("void **"), ffi.new("size_t *")
        code = self._lib.bw_rpc_take(self._node, pending, result, nbytes)
        if not future.set_running_or_notify_cancel():
            self._lib.bw_rpc_free(result[0])
            return
        if code != 0:
            future.set_exception(_error(code))
        else:
            future.set_result(_taken(result, nbytes))

    # ---------------------------------------------------------------- the end

    def close(self) -> None:
        """Ends all calls to and from the node. Calling it again does nothing."""
        if self._node is None:
            return
        if self._process != os.getpid():
            self._node = None  # a forked child: the node is the parent's
            return
        self.stop()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            # This thread's own calls may take the message that was to wake it.
            while thread.is_alive():
                thread.join(0.02)
                self._wake()
        for coroutine in list(self._coroutines):
            coroutine.cancel()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
        node, self._node = self._node, None
        for pending in list(self._calls):
            future = self._calls.pop(pending, None)
            if future is not None and future.set_running_or_notify_cancel():
                future.set_exception(Cancelled("the node was closed"))
        self._lib.bw_rpc_close(node)
        self._callbacks.clear()

    def _alive(self) -> Any:
        if self._node is None:
            raise ValueError("the node is closed")
        if self._process != os.getpid():
            raise ValueError("the node belongs to the process that made it: make one after a fork")
        return self._node

    def __enter__(self) -> Node:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_node", None) is not None:
            self.close()


def _taken(result: Any, nbytes: Any) -> bytes:
    """A result of the library as bytes; the library's memory is freed."""
    data = bytes(ffi.buffer(result[0], nbytes[0])) if nbytes[0] else b""
    library().bw_rpc_free(result[0])
    return data


class Peer:
    """A node that this one calls. Made by :meth:`Node.connect`."""

    def __init__(self, node: Node, peer: int) -> None:
        self._node = node
        self._peer = peer

    def call(self, name: str, data: Data = b"", timeout: float | None = None, *, version: int = 0) -> bytes:
        """Calls a procedure and waits, polling: the fastest way. `timeout` is in seconds; None: for ever.

        Raises a subclass of :class:`Error` if the call does not end by its result.
        """
        lib, node = self._node._lib, self._node._alive()
        given = ffi.from_buffer(data)
        result, nbytes = ffi.new("void **"), ffi.new("size_t *")
        code = lib.bw_rpc_call(
            node, self._peer, name.encode(), lib.bw_rpc_bytes_type(version), given, len(given), _milliseconds(timeout), result, nbytes
        )
        _check(code)
        return _taken(result, nbytes)

    def submit(self, name: str, data: Data = b"", timeout: float | None = None, *, version: int = 0) -> concurrent.futures.Future[bytes]:
        """Starts a call. Its future ends on the node's own thread; cancelling it tells the peer."""
        node = self._node
        lib, at = node._lib, node._alive()
        given = ffi.from_buffer(data)
        made = ffi.new("bw_rpc_pending_t *")
        future: concurrent.futures.Future[bytes] = concurrent.futures.Future()
        _check(
            lib.bw_rpc_start(at, self._peer, name.encode(), lib.bw_rpc_bytes_type(version), given, len(given), _milliseconds(timeout), made)
        )
        pending = made[0]
        node._calls[pending] = future

        def cancelled(ended: concurrent.futures.Future[bytes]) -> None:
            if ended.cancelled() and node._calls.pop(pending, None) is not None and node._node is not None:
                lib.bw_rpc_abandon(node._node, pending)

        future.add_done_callback(cancelled)
        node.start()
        # The answer may have come before the future was known.
        if lib.bw_rpc_is_done(at, pending) == 1:
            node._end(pending)
        return future

    def acall(self, name: str, data: Data = b"", timeout: float | None = None, *, version: int = 0) -> Coroutine[Any, Any, bytes]:
        """The same for coroutines: `await peer.acall("name", b"..")`. Cancelling the task tells the peer."""

        async def wait() -> bytes:
            return await asyncio.wrap_future(self.submit(name, data, timeout, version=version))

        return wait()

    def disconnect(self) -> None:
        """Gives the peer up: calls under way end with :class:`Cancelled`."""
        _check(self._node._lib.bw_rpc_disconnect(self._node._alive(), self._peer))
