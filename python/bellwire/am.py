# SPDX-License-Identifier: MIT OR Apache-2.0
"""Active Messages (AM-II): requests that run a function at their receiver, and jobs of many processes.

    # ring.py, started by: bellwire run -n 4 python ring.py
    from bellwire import am

    with am.Job() as job:
        greeted = []
        job.endpoint.handler(1)(lambda message: greeted.append(message.args[0]))
        job.barrier()                                       # now every process has its handler
        job.endpoint.request((job.rank + 1) % job.size, 1, job.rank)
        while not greeted:
            job.bundle.wait()
        print(f"{greeted[0]} greets {job.rank}")

A request names its destination by an index in the sender's translation table and a handler by its
number, 1 to 255. It carries at most 16 integers of 32 bits, and bytes: up to 65,000 to the
handler, or any number into the receiver's segment. Handlers run in :meth:`Bundle.poll`,
:meth:`Bundle.wait` and calls that have to wait; they may reply once and send nothing else. A
message that cannot be handled comes back to :attr:`Endpoint.on_return`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Union

from ._native import ffi, library, text

__all__ = ["Bundle", "Endpoint", "Error", "Job", "Message", "Returned"]

log = logging.getLogger(__name__)

Data = Union[bytes, bytearray, memoryview]
Function = Callable[["Message"], Any]

_NOT_EMPTY = 1
_CODES = {
    1: "AM_ERR_NOT_INIT: the library is not initialised",
    2: "AM_ERR_BAD_ARG: an argument cannot be, or the call is not for a handler",
    3: "AM_ERR_RESOURCE: out of memory, entries or descriptors, or the NIC cannot be opened",
    4: "AM_ERR_NOT_SENT: it cannot leave now, or the requester is gone",
    5: "AM_ERR_IN_USE: it is in use",
}
_STATUS = {
    1: "EBADARGS", 2: "EBADENTRY", 3: "EBADTAG", 4: "EBADHANDLER", 5: "EBADSEGOFF", 6: "EBADLENGTH", 7: "EBADENDPOINT", 8: "ECONGESTION",
    9: "EUNREACHABLE", 10: "EREPLYREJECTED",
}


class Error(Exception):
    """A call that failed. `code` is the number that am.h gives the reason."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def _check(code: int) -> None:
    if code == 0:
        return
    if code >= 64:
        raise Error(code, text(library().AMX_Reason()) or f"error {code}")
    raise Error(code, _CODES.get(code, f"error {code}"))


def _args(args: tuple[int, ...]) -> Any:
    if len(args) > 16:
        raise ValueError(f"a message has at most 16 arguments, not {len(args)}")
    return ffi.new("int32_t[16]", args)


@dataclass(frozen=True)
class Returned:
    """A message that came back: `status` is am.h's name ("EUNREACHABLE"), `reason` a text."""

    status: str
    reason: str
    dest: int
    handler: int
    args: tuple[int, ...]


class Message:
    """A message while its handler runs: `args`, and `data`, which is None for a message without bytes."""

    def __init__(self, token: Any, view: Any) -> None:
        self._token = token
        self.args: tuple[int, ...] = tuple(view.args[i] for i in range(view.num_args))
        self.data: bytes | None = None if view.data == ffi.NULL else bytes(ffi.buffer(view.data, view.nbytes)) if view.nbytes else b""

    def _running(self) -> Any:
        if self._token is None:
            raise ValueError("the handler has ended: only it may reply")
        return self._token

    @property
    def source(self) -> bytes:
        """The name of the endpoint that sent it."""
        name = ffi.new("en_t *")
        _check(library().AM_GetSourceEndpoint(self._running(), name))
        return bytes(ffi.buffer(name))

    @property
    def source_rank(self) -> int:
        """The process of the job that sent it."""
        rank = ffi.new("int *")
        _check(library().AMX_SourceRank(self._running(), rank))
        return int(rank[0])

    def reply(self, handler: int, *args: int, data: Data | None = None, offset: int | None = None) -> None:
        """Replies, once: `data` goes to the handler, or with `offset` into the requester's segment."""
        token, given, lib = self._running(), _args(args), library()
        if data is None:
            _check(lib.AMX_Reply(token, handler, len(args), given))
            return
        source = ffi.from_buffer(data)
        if offset is None:
            _check(lib.AMX_ReplyI(token, handler, source, len(source), len(args), given))
        else:
            _check(lib.AMX_ReplyXfer(token, offset, handler, source, len(source), len(args), given))


class Endpoint:
    """An endpoint: made by :meth:`Bundle.endpoint`, or the one of a :class:`Job`."""

    def __init__(self, endpoint: Any, name: bytes | None) -> None:
        self._endpoint = endpoint
        self._callbacks: dict[int, Any] = {}
        self._segment: Any = None
        self.name = name
        """48 bytes, by which others map it. None for the endpoint of a job, which is mapped already."""
        self.on_return: Callable[[Returned], Any] | None = None
        """What is told of messages that come back. Without it they are logged."""
        returned = ffi.callback("void(int, op_t, void *)", self._returned)
        self._callbacks[0] = returned
        _check(library().AMX_SetHandler(endpoint, 0, ffi.cast("am_handler_fn_t", returned)))

    def _returned(self, status: int, _operation: int, block: Any) -> None:
        try:
            message = ffi.cast("am_returned_t *", block)
            args = tuple(message.args[i] for i in range(message.num_args))
            returned = Returned(_STATUS.get(status, str(status)), text(message.reason), message.dest, message.handler, args)
            if self.on_return is None:
                log.error("a message came back: %s", returned)
            else:
                self.on_return(returned)
        except BaseException:  # noqa: BLE001: nothing may pass through C
            log.exception("on_return raised an exception")

    @property
    def tag(self) -> int:
        """Messages must bear it. 0 (AM_NONE) accepts none, 1 (AM_ALL) any."""
        tag = ffi.new("tag_t *")
        _check(library().AM_GetTag(self._endpoint, tag))
        return int(tag[0])

    @tag.setter
    def tag(self, tag: int) -> None:
        _check(library().AM_SetTag(self._endpoint, tag))

    def map(self, index: int, name: bytes, tag: int) -> None:
        """Gives an endpoint an index in the translation table."""
        if len(name) != 48:
            raise ValueError(f"a name has 48 bytes, not {len(name)}")
        at = ffi.new("en_t *")
        ffi.buffer(at)[:] = name
        _check(library().AM_Map(self._endpoint, index, at[0], tag))

    def unmap(self, index: int) -> None:
        """Takes an entry out of the table. What was sent there and is not handled comes back."""
        _check(library().AM_UnMap(self._endpoint, index))

    def handler(self, index: int) -> Callable[[Function], Function]:
        """A decorator: the function runs for messages to this handler, 1 to 255."""

        def set_handler(function: Function) -> Function:
            def run(token: Any, view: Any, _context: Any) -> None:
                message = None
                try:
                    message = Message(token, view)
                    function(message)
                except BaseException:  # noqa: BLE001: nothing may pass through C
                    log.exception("handler %d raised an exception", index)
                finally:
                    if message is not None:
                        message._token = None

            callback = ffi.callback("am_message_fn_t", run)
            _check(library().AMX_SetMessageHandler(self._endpoint, index, callback, ffi.NULL))
            self._callbacks[index] = callback
            return function

        return set_handler

    def segment(self, nbytes: int) -> memoryview:
        """Makes the memory, zeroed, that bulk messages and gets reach; valid until :meth:`Job.close` or the process ends."""
        made = ffi.new("void **")
        _check(library().AMX_Alloc(nbytes, made))
        _check(library().AM_SetSeg(self._endpoint, made[0], nbytes))
        self._segment = made[0]
        return memoryview(ffi.buffer(made[0], nbytes))

    def request(self, dest: int, handler: int, *args: int, data: Data | None = None, offset: int | None = None) -> None:
        """Sends a request: `data` goes to the handler, or with `offset` into the receiver's segment. Polls while it cannot leave."""
        given, lib = _args(args), library()
        if data is None:
            _check(lib.AMX_Request(self._endpoint, dest, handler, len(args), given))
            return
        source = ffi.from_buffer(data)
        if offset is None:
            _check(lib.AMX_RequestI(self._endpoint, dest, handler, source, len(source), len(args), given))
        else:
            _check(lib.AMX_RequestXfer(self._endpoint, dest, offset, handler, source, len(source), 0, len(args), given))

    def get(self, dest: int, source_offset: int, handler: int, dest_offset: int, nbytes: int, *args: int) -> None:
        """Brings bytes of the other's segment into this one's; then this endpoint's own handler runs."""
        _check(library().AMX_GetXfer(self._endpoint, dest, source_offset, handler, dest_offset, nbytes, len(args), _args(args)))


class Bundle:
    """Endpoints that are polled as one. Its methods and those of its endpoints may be called by any thread."""

    def __init__(self, bundle: Any = None) -> None:
        self._owned = bundle is None
        self._endpoints: list[Endpoint] = []
        if bundle is None:
            _check(library().AM_Init())
            made = ffi.new("eb_t *")
            code = library().AM_AllocateBundle(1, made)
            if code != 0:
                library().AM_Terminate()
            _check(code)
            bundle = made[0]
        self._bundle = bundle

    def endpoint(self, tag: int = 0) -> Endpoint:
        """Makes an endpoint that accepts messages of this tag."""
        made, name = ffi.new("ep_t *"), ffi.new("en_t *")
        _check(library().AM_AllocateEndpoint(self._bundle, made, name))
        endpoint = Endpoint(made[0], bytes(ffi.buffer(name)))
        endpoint.tag = tag
        self._endpoints.append(endpoint)
        return endpoint

    def poll(self) -> None:
        """Handles what has come, at most some tens of messages. Does not wait."""
        _check(library().AM_Poll(self._bundle))

    def wait(self) -> None:
        """Sleeps until something has come, and handles it."""
        lib = library()
        _check(lib.AM_SetEventMask(self._bundle, _NOT_EMPTY))
        _check(lib.AM_WaitSema(self._bundle))
        _check(lib.AM_Poll(self._bundle))

    def patience(self, seconds: float) -> None:
        """How long a request waits for a receiver that takes nothing before it comes back; 0: for ever."""
        _check(library().AMX_SetPatience(self._bundle, round(seconds * 1000)))

    def close(self) -> None:
        """Frees the bundle and its endpoints. Calling it again does nothing."""
        if self._bundle is not None and self._owned:
            bundle, self._bundle = self._bundle, None
            _check(library().AM_FreeBundle(bundle))
            _check(library().AM_Terminate())

    def __enter__(self) -> Bundle:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()


class Job:
    """The processes that were started together, by `bellwire run`, mpiexec, mpirun or srun; a process alone is a job of one.

    Entry i of :attr:`endpoint`'s table is process i. :meth:`barrier`, :meth:`allgather`, the
    constructor and :meth:`close` are collective: every process calls them, in the same order.
    """

    def __init__(self) -> None:
        bundle, endpoint = ffi.new("eb_t *"), ffi.new("ep_t *")
        _check(library().AMX_Start(bundle, endpoint))
        self._open = True
        self.bundle = Bundle(bundle[0])
        self.endpoint = Endpoint(endpoint[0], None)
        self.rank: int = library().AMX_Rank()
        self.size: int = library().AMX_Size()

    def barrier(self) -> None:
        """Waits until all processes have come here. Handlers run meanwhile."""
        _check(library().AMX_Barrier())

    def allgather(self, block: Data) -> list[bytes]:
        """Everybody's block, of the same length everywhere, to everybody, in order of rank."""
        given = ffi.from_buffer(block)
        room = ffi.new("char[]", max(1, len(given) * self.size))
        _check(library().AMX_AllGather(given, len(given), room))
        return [bytes(ffi.buffer(room + i * len(given), len(given))) if len(given) else b"" for i in range(self.size)]

    def close(self) -> None:
        """Waits until all requests are handled and all processes have come here, then ends what the job has begun."""
        if self._open:
            self._open = False
            _check(library().AMX_Finish())

    def __enter__(self) -> Job:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        if kind is None:
            self.close()
