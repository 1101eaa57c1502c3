# SPDX-License-Identifier: MIT OR Apache-2.0
"""The libraries, by their C interfaces. The declarations are those of am.h and bellwire_rpc.h;
tests/test_declarations.py compares them with the headers."""

from __future__ import annotations

import threading
from typing import Any

import cffi

from . import library_directory

RPC = """
typedef struct { uint64_t opaque[7]; } bw_rpc_address_t;
typedef struct bw_rpc_node bw_rpc_node_t;
typedef uint64_t bw_rpc_peer_t;
typedef uint64_t bw_rpc_pending_t;
typedef struct bw_rpc_call bw_rpc_call_t;
typedef struct bw_rpc_reply bw_rpc_reply_t;
int bw_rpc_open(bw_rpc_node_t **node);
int bw_rpc_close(bw_rpc_node_t *node);
int bw_rpc_address(bw_rpc_node_t *node, bw_rpc_address_t *address);
int bw_rpc_set_limits(bw_rpc_node_t *node, unsigned window, unsigned served, uint64_t memory);
int bw_rpc_connect(bw_rpc_node_t *node, const bw_rpc_address_t *address, bw_rpc_peer_t *peer);
int bw_rpc_disconnect(bw_rpc_node_t *node, bw_rpc_peer_t peer);
int bw_rpc_poll(bw_rpc_node_t *node);
int bw_rpc_sleep(bw_rpc_node_t *node, int milliseconds);
typedef void (*bw_rpc_handler_t)(bw_rpc_call_t *call, const void *arguments, size_t nbytes, void *context);
int bw_rpc_serve(bw_rpc_node_t *node, const char *name, uint64_t type, bw_rpc_handler_t handler, void *context);
int bw_rpc_withdraw(bw_rpc_node_t *node, const char *name);
uint64_t bw_rpc_bytes_type(uint32_t version);
int bw_rpc_return(bw_rpc_call_t *call, const void *result, size_t nbytes);
int bw_rpc_fail(bw_rpc_call_t *call, int code, const char *message);
int bw_rpc_defer(bw_rpc_call_t *call, bw_rpc_reply_t **reply);
int bw_rpc_reply_return(bw_rpc_reply_t *reply, const void *result, size_t nbytes);
int bw_rpc_reply_fail(bw_rpc_reply_t *reply, int code, const char *message);
int bw_rpc_start(bw_rpc_node_t *node, bw_rpc_peer_t peer, const char *name, uint64_t type, const void *arguments, size_t nbytes, int64_t milliseconds, bw_rpc_pending_t *pending);
int bw_rpc_is_done(bw_rpc_node_t *node, bw_rpc_pending_t pending);
int bw_rpc_take(bw_rpc_node_t *node, bw_rpc_pending_t pending, void **result, size_t *nbytes);
int bw_rpc_abandon(bw_rpc_node_t *node, bw_rpc_pending_t pending);
int bw_rpc_call(bw_rpc_node_t *node, bw_rpc_peer_t peer, const char *name, uint64_t type, const void *arguments, size_t nbytes, int64_t milliseconds, void **result, size_t *result_nbytes);
void bw_rpc_free(void *result);
const char *bw_rpc_reason(void);
int bw_rpc_failure(void);
"""

AM = """
typedef uint64_t tag_t;
typedef uint8_t handler_t;
typedef int op_t;
typedef struct { uint64_t opaque[6]; } en_t;
typedef struct am_bundle *eb_t;
typedef struct am_endpoint *ep_t;
typedef void (*am_handler_fn_t)(void);
typedef struct {
    int dest;
    handler_t handler;
    int num_args;
    int32_t args[16];
    en_t dest_name;
    const void *source;
    size_t nbytes;
    uintptr_t offset;
    const char *reason;
} am_returned_t;
typedef struct {
    int num_args;
    const int32_t *args;
    const void *data;
    size_t nbytes;
} am_message_t;
typedef void (*am_message_fn_t)(void *token, const am_message_t *message, void *context);
int AM_MaxMedium(void);
int AM_Init(void);
int AM_Terminate(void);
int AM_AllocateBundle(int type, eb_t *bundle);
int AM_FreeBundle(eb_t bundle);
int AM_AllocateEndpoint(eb_t bundle, ep_t *endpoint, en_t *name);
int AM_FreeEndpoint(ep_t endpoint);
int AM_SetSeg(ep_t endpoint, void *address, uintptr_t nbytes);
int AM_SetTag(ep_t endpoint, tag_t tag);
int AM_GetTag(ep_t endpoint, tag_t *tag);
int AM_Map(ep_t endpoint, int index, en_t name, tag_t tag);
int AM_UnMap(ep_t endpoint, int index);
int AMX_SetHandler(ep_t endpoint, handler_t index, am_handler_fn_t function);
int AMX_SetMessageHandler(ep_t endpoint, handler_t index, am_message_fn_t function, void *context);
int AM_Poll(eb_t bundle);
int AM_SetEventMask(eb_t bundle, int mask);
int AM_WaitSema(eb_t bundle);
int AM_GetSourceEndpoint(void *token, en_t *name);
int AMX_Request(ep_t endpoint, int dest, handler_t handler, int num_args, const int32_t *args);
int AMX_RequestI(ep_t endpoint, int dest, handler_t handler, const void *source, size_t nbytes, int num_args, const int32_t *args);
int AMX_RequestXfer(ep_t endpoint, int dest, uintptr_t dest_offset, handler_t handler, const void *source, size_t nbytes, int is_async, int num_args, const int32_t *args);
int AMX_GetXfer(ep_t endpoint, int dest, uintptr_t source_offset, handler_t handler, uintptr_t dest_offset, size_t nbytes, int num_args, const int32_t *args);
int AMX_Reply(void *token, handler_t handler, int num_args, const int32_t *args);
int AMX_ReplyI(void *token, handler_t handler, const void *source, size_t nbytes, int num_args, const int32_t *args);
int AMX_ReplyXfer(void *token, uintptr_t dest_offset, handler_t handler, const void *source, size_t nbytes, int num_args, const int32_t *args);
int AMX_Alloc(size_t nbytes, void **address);
int AMX_Free(void *address);
int AMX_SetPatience(eb_t bundle, unsigned milliseconds);
int AMX_Start(eb_t *bundle, ep_t *endpoint);
int AMX_Finish(void);
int AMX_Rank(void);
int AMX_Size(void);
int AMX_Barrier(void);
int AMX_AllGather(const void *block, size_t nbytes, void *all);
int AMX_SourceRank(void *token, int *rank);
const char *AMX_Reason(void);
"""

ffi: Any = cffi.FFI()
ffi.cdef(RPC + AM)

_lock = threading.Lock()
_library: Any = None
_job: Any = None


def library() -> Any:
    """libbellwire_am, which has Active Messages and remote procedure calls. It is loaded once."""
    global _library, _job
    with _lock:
        if _library is None:
            directory = library_directory()
            # Jobs load this one by its name, which finds what is loaded already.
            _job = ffi.dlopen(str(directory / "libbellwire_job.so.1"))
            _library = ffi.dlopen(str(directory / "libbellwire_am.so.1"))
        return _library


def text(pointer: Any) -> str:
    """A C string of the library."""
    return "" if pointer == ffi.NULL else ffi.string(pointer).decode(errors="replace")
