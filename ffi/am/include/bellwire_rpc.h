/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * bellwire_rpc.h - remote procedure calls on Bellwire's Active Messages, over shared memory and
 * UDP.
 *
 * A node serves procedures and calls those of its peers. A procedure has a name and a type: a
 * number that caller and server agree on, which changes when the meaning of the bytes does.
 * Arguments and results are bytes, of any number. A call ends exactly once: by its result or by one
 * of the codes below. Something has to poll: waiting calls do, bw_rpc_sleep does nothing else.
 *
 * Functions give BW_RPC_OK or one of the codes, unless said otherwise; bw_rpc_reason() has the
 * reason as text. Any thread may call any function; handlers run one at a time, on the thread that
 * polls, and may not wait (BW_RPC_ERR_MOMENT). Part of libbellwire_am (pkg-config bellwire-rpc);
 * the environment is that of libvipl.
 */
#ifndef BELLWIRE_RPC_H
#define BELLWIRE_RPC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    BW_RPC_OK = 0,
    /* how a call can end, other than by its result */
    BW_RPC_FAILED = 1,            /* the handler says so: bw_rpc_failure(), bw_rpc_reason() */
    BW_RPC_UNKNOWN_PROCEDURE = 2, /* the peer serves none of this name */
    BW_RPC_WRONG_TYPE = 3,        /* the peer's has another type */
    BW_RPC_BAD_ARGUMENTS = 4,     /* the handler cannot understand the arguments */
    BW_RPC_BAD_REPLY = 5,         /* the peer does not keep to the protocol */
    BW_RPC_OVERLOADED = 6,        /* the peer has too many calls under way, or too much memory in use */
    BW_RPC_TOO_LARGE = 7,         /* the result is larger than this node's limits allow */
    BW_RPC_DROPPED = 8,           /* the handler ended without an answer */
    BW_RPC_GONE = 9,              /* the peer is gone or cannot be reached, bw_rpc_reason() says why; whether the handler ran is not known */
    BW_RPC_INCOMPATIBLE = 10,     /* the peer is no node, of another version, or has another address by now */
    BW_RPC_DEADLINE = 11,         /* the time is over; the peer has been told */
    BW_RPC_CANCELLED = 12,        /* cancelled here; the peer has been told */
    /* why a function did nothing */
    BW_RPC_ERR_BUSY = 32,     /* too many calls to this peer are under way */
    BW_RPC_ERR_MOMENT = 33,   /* not within a handler */
    BW_RPC_ERR_ARGUMENT = 34, /* a NULL pointer, no such peer or call, a name that may not be or is served already */
    BW_RPC_ERR_DEVICE = 35,   /* the NIC cannot be opened */
    BW_RPC_ERR_RESOURCE = 36, /* out of memory, descriptors or entries */
    BW_RPC_ERR_NOT_DONE = 37  /* the call is not over */
};

/* Where a node is reached: copied by value, given to those who may call. It has a secret in it. */
typedef struct { uint64_t opaque[7]; } bw_rpc_address_t;
typedef struct bw_rpc_node bw_rpc_node_t;
typedef uint64_t bw_rpc_peer_t;    /* a node that this one calls */
typedef uint64_t bw_rpc_pending_t; /* a call under way */
typedef struct bw_rpc_call bw_rpc_call_t;   /* a call that has arrived, while its handler runs */
typedef struct bw_rpc_reply bw_rpc_reply_t; /* the right to answer a call later */

/* ------------------------------------------------------------ nodes */

int bw_rpc_open(bw_rpc_node_t **node);
/* Calls to and from the node end. No other thread uses it any more. */
int bw_rpc_close(bw_rpc_node_t *node);
int bw_rpc_address(bw_rpc_node_t *node, bw_rpc_address_t *address);
/* Calls to one peer that may be under way (64 at first), calls of one caller that may be answered
 * later or be arriving in parts (256), bytes of large values that may be arriving (2^30). */
int bw_rpc_set_limits(bw_rpc_node_t *node, unsigned window, unsigned served, uint64_t memory);
/* A peer to call. Nothing is sent yet. */
int bw_rpc_connect(bw_rpc_node_t *node, const bw_rpc_address_t *address, bw_rpc_peer_t *peer);
/* Gives a peer up: calls under way end with BW_RPC_CANCELLED. */
int bw_rpc_disconnect(bw_rpc_node_t *node, bw_rpc_peer_t peer);

/* Handles what has come, and sends what waits. Returns without waiting. */
int bw_rpc_poll(bw_rpc_node_t *node);
/* The same, sleeping for at most so many milliseconds until something comes; negative: for ever. */
int bw_rpc_sleep(bw_rpc_node_t *node, int milliseconds);

/* ------------------------------------------------------------ serving */

/* Runs for each call; `arguments` are valid while it runs. It answers by one of the functions
 * below, or the call ends with BW_RPC_DROPPED. */
typedef void (*bw_rpc_handler_t)(bw_rpc_call_t *call, const void *arguments, size_t nbytes, void *context);

int bw_rpc_serve(bw_rpc_node_t *node, const char *name, uint64_t type, bw_rpc_handler_t handler, void *context);
int bw_rpc_withdraw(bw_rpc_node_t *node, const char *name);
/* The type that procedures of bytes to bytes have in Rust (Procedure<Vec<u8>, Vec<u8>>), for a
 * version. */
uint64_t bw_rpc_bytes_type(uint32_t version);

int bw_rpc_return(bw_rpc_call_t *call, const void *result, size_t nbytes);
/* Has the call end with BW_RPC_FAILED, a number and a text (NULL: none). */
int bw_rpc_fail(bw_rpc_call_t *call, int code, const char *message);
/* Has it end with BW_RPC_BAD_ARGUMENTS. */
int bw_rpc_refuse(bw_rpc_call_t *call);
/* Milliseconds that the caller still waits; -1: for ever. */
int64_t bw_rpc_time_left(bw_rpc_call_t *call);
/* The call will be answered later, by any thread; with each of these once. */
int bw_rpc_defer(bw_rpc_call_t *call, bw_rpc_reply_t **reply);
int bw_rpc_reply_return(bw_rpc_reply_t *reply, const void *result, size_t nbytes);
int bw_rpc_reply_fail(bw_rpc_reply_t *reply, int code, const char *message);
/* 1: nobody waits for the answer any more, which is to be given all the same. */
int bw_rpc_reply_cancelled(const bw_rpc_reply_t *reply);

/* ------------------------------------------------------------ calling */

/* Starts a call, which ends after so many milliseconds at the latest; negative: it may take for
 * ever. The arguments may be reused when this returns. While too many are under way it polls. */
int bw_rpc_start(bw_rpc_node_t *node, bw_rpc_peer_t peer, const char *name, uint64_t type, const void *arguments, size_t nbytes, int64_t milliseconds, bw_rpc_pending_t *pending);
/* 1: the call is over; 0: it is not. */
int bw_rpc_is_done(bw_rpc_node_t *node, bw_rpc_pending_t pending);
/* Polls until it is over. */
int bw_rpc_wait(bw_rpc_node_t *node, bw_rpc_pending_t pending);
/* How the call ended, once; every call is taken, or abandoned. Its result, which bw_rpc_free frees,
 * into *result and *nbytes, which may both be NULL if nobody wants it. */
int bw_rpc_take(bw_rpc_node_t *node, bw_rpc_pending_t pending, void **result, size_t *nbytes);
/* Ends a call with BW_RPC_CANCELLED, unless it is over; it is still to be taken. */
int bw_rpc_cancel(bw_rpc_node_t *node, bw_rpc_pending_t pending);
/* Cancels and forgets it. */
int bw_rpc_abandon(bw_rpc_node_t *node, bw_rpc_pending_t pending);
/* Start, wait and take. */
int bw_rpc_call(bw_rpc_node_t *node, bw_rpc_peer_t peer, const char *name, uint64_t type, const void *arguments, size_t nbytes, int64_t milliseconds, void **result, size_t *result_nbytes);
void bw_rpc_free(void *result);

/* The reason why this thread's last call that failed did; "" if none has. Valid until its next one.
 * After BW_RPC_FAILED the handler's text, and the handler's number. */
const char *bw_rpc_reason(void);
int bw_rpc_failure(void);

#ifdef __cplusplus
}
#endif
#endif
