/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * am.h - Active Messages II, on Bellwire.
 *
 * An endpoint sends requests to the endpoints in its translation table; each request names a
 * handler, which runs at its receiver when that polls, and may reply once. A message that cannot be
 * handled comes back to the sender's error handler (handler 0), once, with the reason. Endpoints of
 * a bundle are polled as one.
 *
 * All functions return AM_OK or one of AM_ERR_*, unless said otherwise. Pointers to results must
 * not be NULL. Handlers may only reply, and reply handlers may send nothing; a request or AM_Poll
 * inside a handler gives AM_ERR_BAD_ARG. Bundles of both types may be used by several threads;
 * handlers of one bundle run one at a time. Environment: that of libvipl (BELLWIRE_MODE,
 * BELLWIRE_ADDRESS, ...), see vipl(3).
 */
#ifndef BELLWIRE_AM_H
#define BELLWIRE_AM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------ types and constants */

typedef uint64_t tag_t;    /* must match for a message to be accepted */
typedef uint8_t handler_t; /* index of a handler; 0 is the error handler */
typedef int op_t;          /* what kind of message came back: AM_REQUEST_M ... */

/* The name of an endpoint: opaque, copied by value, equal if all bytes are. */
typedef struct { uint64_t opaque[6]; } en_t;

typedef struct am_bundle *eb_t;
typedef struct am_endpoint *ep_t;

/* A handler: void (void *token, int32_t a0, ...) of a short message; void (void *token, void *buf,
 * size_t nbytes, int32_t a0, ...) of others, buf being valid while it runs; the error handler: void
 * (int status, op_t opcode, void *argblock). Each with as many arguments as its message has. */
typedef void (*am_handler_fn_t)(void);

enum { AM_OK = 0, AM_ERR_NOT_INIT = 1, AM_ERR_BAD_ARG = 2, AM_ERR_RESOURCE = 3, AM_ERR_NOT_SENT = 4, AM_ERR_IN_USE = 5 };

/* Status for the error handler. EUNREACHABLE: nobody is there, or the connection broke before an
 * answer: then it is not known whether the handler ran. */
enum {
    EBADARGS = 1, EBADENTRY = 2, EBADTAG = 3, EBADHANDLER = 4, EBADSEGOFF = 5, EBADLENGTH = 6, EBADENDPOINT = 7, ECONGESTION = 8, EUNREACHABLE = 9, EREPLYREJECTED = 10
};

enum { AM_REQUEST_M = 1, AM_REQUEST_IM = 2, AM_REQUEST_XFER_M = 3, AM_REPLY_M = 4, AM_REPLY_IM = 5, AM_REPLY_XFER_M = 6, AM_GET_XFER_M = 7 };

/* The message that came back: what the error handler's argblock points to while it runs. Of a
 * medium message only the place of its payload is known. */
typedef struct {
    int dest;             /* index in the translation table */
    handler_t handler;
    int num_args;
    int32_t args[16];
    en_t dest_name;
    const void *source;   /* address of the payload in this process, as it was given; NULL if none */
    size_t nbytes;
    uintptr_t offset;     /* of bulk: in the receiver's segment; of a get: in the segment that was to be read */
    const char *reason;   /* why it came back, for people; valid while the error handler runs */
} am_returned_t;

#define AM_ALL ((tag_t)1)  /* a tag that accepts all messages */
#define AM_NONE ((tag_t)0) /* accepts none */

enum { AM_NOEVENTS = 0, AM_NOTEMPTY = 1, AM_NUMEVENTMASKS = 2 };
enum { AM_SEQ = 0, AM_PAR = 1 };

int AM_MaxShort(void);  /* arguments of a message: 16 */
int AM_MaxMedium(void); /* bytes of a medium message: 65000 */
int AM_MaxLong(void);   /* bytes of a bulk message or get: 2^30 */

/* ------------------------------------------------------------ the library */

/* Counted: as many AM_Terminate end it, and free what is left. AM_ERR_RESOURCE: the NIC cannot be
 * opened; standard error says why. */
int AM_Init(void);
int AM_Terminate(void);

/* ------------------------------------------------------------ bundles and endpoints */

int AM_AllocateBundle(int type, eb_t *bundle);
int AM_FreeBundle(eb_t bundle); /* frees its endpoints; not within a handler */
int AM_AllocateEndpoint(eb_t bundle, ep_t *endpoint, en_t *name);
int AM_FreeEndpoint(ep_t endpoint); /* requests to it come back with EBADENDPOINT */
int AM_MoveEndpoint(ep_t endpoint, eb_t from, eb_t to);

/* The memory that bulk messages and gets reach. Peers reach memory of AMX_Alloc directly, other
 * memory by way of the engine. Replacing a segment to which peers are writing ends their
 * connections. */
int AM_SetSeg(ep_t endpoint, void *address, uintptr_t nbytes);
int AM_GetSeg(ep_t endpoint, void **address, uintptr_t *nbytes);
int AM_MaxSegLength(uintptr_t *nbytes);

int AM_SetTag(ep_t endpoint, tag_t tag); /* AM_NONE at first */
int AM_GetTag(ep_t endpoint, tag_t *tag);

/* ------------------------------------------------------------ translation table */

int AM_Map(ep_t endpoint, int index, en_t name, tag_t tag); /* AM_ERR_IN_USE: the entry is */
int AM_MapAny(ep_t endpoint, int *index, en_t name, tag_t tag);
int AM_UnMap(ep_t endpoint, int index); /* what was sent there and is not handled comes back */
int AM_GetTranslationInuse(ep_t endpoint, int index); /* AM_OK: it is; AM_ERR_RESOURCE: it is not */
int AM_GetTranslationTag(ep_t endpoint, int index, tag_t *tag);
int AM_GetTranslationName(ep_t endpoint, int index, en_t *name);
int AM_GetNumTranslations(ep_t endpoint, int *entries);
int AM_SetNumTranslations(ep_t endpoint, int entries);
int AM_MaxNumTranslations(int *entries);

/* Endpoints that will be talked to, and requests that may be out to each (1 to 256; 64 at first).
 * */
int AM_SetExpectedResources(ep_t endpoint, int endpoints, int outstanding);

/* ------------------------------------------------------------ handlers */

int AMX_SetHandler(ep_t endpoint, handler_t index, am_handler_fn_t function);
int AMX_SetHandlerAny(ep_t endpoint, handler_t *index, am_handler_fn_t function);
#define AM_SetHandler(endpoint, index, function) AMX_SetHandler((endpoint), (index), (am_handler_fn_t)(function))
#define AM_SetHandlerAny(endpoint, index, function) AMX_SetHandlerAny((endpoint), (index), (am_handler_fn_t)(function))

/*
 * A handler of any message, for callers that cannot know what a peer sends: bindings of other
 * languages above all. What it is shown is valid while it runs.
 */
typedef struct {
    int num_args;
    const int32_t *args;
    const void *data; /* the payload; NULL: a short message, which has none */
    size_t nbytes;
} am_message_t;
typedef void (*am_message_fn_t)(void *token, const am_message_t *message, void *context);
/* AM_ERR_BAD_ARG: index 0, which is the error handler. */
int AMX_SetMessageHandler(ep_t endpoint, handler_t index, am_message_fn_t function, void *context);

int AM_GetNumHandlers(ep_t endpoint, int *handlers);
int AM_SetNumHandlers(ep_t endpoint, int handlers); /* AM_ERR_RESOURCE: more than 256 */
int AM_MaxNumHandlers(void);

/* ------------------------------------------------------------ events */

int AM_Poll(eb_t bundle); /* handles what has come, at most some tens of messages */
int AM_SetEventMask(eb_t bundle, int mask);
int AM_GetEventMask(eb_t bundle, int *mask);
int AM_WaitSema(eb_t bundle); /* sleeps until the bundle is not empty; AM_ERR_BAD_ARG: AM_NOTEMPTY is not in the mask */

/* ------------------------------------------------------------ within a handler */

int AM_GetSourceEndpoint(void *token, en_t *name);
int AM_GetDestEndpoint(void *token, ep_t *endpoint);
int AM_GetMsgTag(void *token, tag_t *tag);

/* ------------------------------------------------------------ messages */

/*
 * The calls behind AM_RequestM ... below; args points to num_args arguments, which are copied. A
 * request polls while it cannot leave: AM_ERR_NOT_SENT is given only by the asynchronous ones, and
 * by a reply whose requester is gone. AMX_RequestXfer returns when source may be reused; of the
 * asynchronous one, source must stay as it is until the request is handled. AMX_ReplyXfer out of
 * the requester's segment: AM_ERR_BAD_ARG; the request may still be answered otherwise.
 */
int AMX_Request(ep_t endpoint, int dest, handler_t handler, int num_args, const int32_t *args);
int AMX_RequestI(ep_t endpoint, int dest, handler_t handler, const void *source, size_t nbytes, int num_args, const int32_t *args);
int AMX_RequestXfer(ep_t endpoint, int dest, uintptr_t dest_offset, handler_t handler, const void *source, size_t nbytes, int is_async, int num_args, const int32_t *args);
int AMX_GetXfer(ep_t endpoint, int dest, uintptr_t source_offset, handler_t handler, uintptr_t dest_offset, size_t nbytes, int num_args, const int32_t *args);
int AMX_Reply(void *token, handler_t handler, int num_args, const int32_t *args);
int AMX_ReplyI(void *token, handler_t handler, const void *source, size_t nbytes, int num_args, const int32_t *args);
int AMX_ReplyXfer(void *token, uintptr_t dest_offset, handler_t handler, const void *source, size_t nbytes, int num_args, const int32_t *args);

/* Parameters and names of M arguments. */
#define AM_P0
#define AM_P1 , int32_t a0
#define AM_P2 AM_P1, int32_t a1
#define AM_P3 AM_P2, int32_t a2
#define AM_P4 AM_P3, int32_t a3
#define AM_P5 AM_P4, int32_t a4
#define AM_P6 AM_P5, int32_t a5
#define AM_P7 AM_P6, int32_t a6
#define AM_P8 AM_P7, int32_t a7
#define AM_P9 AM_P8, int32_t a8
#define AM_P10 AM_P9, int32_t a9
#define AM_P11 AM_P10, int32_t a10
#define AM_P12 AM_P11, int32_t a11
#define AM_P13 AM_P12, int32_t a12
#define AM_P14 AM_P13, int32_t a13
#define AM_P15 AM_P14, int32_t a14
#define AM_P16 AM_P15, int32_t a15
#define AM_N0
#define AM_N1 a0,
#define AM_N2 AM_N1 a1,
#define AM_N3 AM_N2 a2,
#define AM_N4 AM_N3 a3,
#define AM_N5 AM_N4 a4,
#define AM_N6 AM_N5 a5,
#define AM_N7 AM_N6 a6,
#define AM_N8 AM_N7 a7,
#define AM_N9 AM_N8 a8,
#define AM_N10 AM_N9 a9,
#define AM_N11 AM_N10 a10,
#define AM_N12 AM_N11 a11,
#define AM_N13 AM_N12 a12,
#define AM_N14 AM_N13 a13,
#define AM_N15 AM_N14 a14,
#define AM_N16 AM_N15 a15,

/* For each M from 0 to 16: AM_RequestM, AM_RequestIM, AM_RequestXferM, AM_RequestXferAsyncM,
 * AM_GetXferM, AM_ReplyM, AM_ReplyIM, AM_ReplyXferM. */
#define AM_DEFINE(M)                                                                                                                                             \
    static inline int AM_Request##M(ep_t ep, int dest, handler_t handler AM_P##M) {                                                                              \
        const int32_t args[] = {AM_N##M 0};                                                                                                                      \
        return AMX_Request(ep, dest, handler, M, args);                                                                                                          \
    }                                                                                                                                                            \
    static inline int AM_RequestI##M(ep_t ep, int dest, handler_t handler, const void *source, size_t nbytes AM_P##M) {                                          \
        const int32_t args[] = {AM_N##M 0};                                                                                                                      \
        return AMX_RequestI(ep, dest, handler, source, nbytes, M, args);                                                                                         \
    }                                                                                                                                                            \
    static inline int AM_RequestXfer##M(ep_t ep, int dest, uintptr_t offset, handler_t handler, const void *source, size_t nbytes AM_P##M) {                     \
        const int32_t args[] = {AM_N##M 0};                                                                                                                      \
        return AMX_RequestXfer(ep, dest, offset, handler, source, nbytes, 0, M, args);                                                                           \
    }                                                                                                                                                            \
    static inline int AM_RequestXferAsync##M(ep_t ep, int dest, uintptr_t offset, handler_t handler, const void *source, size_t nbytes AM_P##M) {                \
        const int32_t args[] = {AM_N##M 0};                                                                                                                      \
        return AMX_RequestXfer(ep, dest, offset, handler, source, nbytes, 1, M, args);                                                                           \
    }                                                                                                                                                            \
    static inline int AM_GetXfer##M(ep_t ep, int dest, uintptr_t source_offset, handler_t handler, uintptr_t dest_offset, size_t nbytes AM_P##M) {               \
        const int32_t args[] = {AM_N##M 0};                                                                                                                      \
        return AMX_GetXfer(ep, dest, source_offset, handler, dest_offset, nbytes, M, args);                                                                      \
    }                                                                                                                                                            \
    static inline int AM_Reply##M(void *token, handler_t handler AM_P##M) {                                                                                      \
        const int32_t args[] = {AM_N##M 0};                                                                                                                      \
        return AMX_Reply(token, handler, M, args);                                                                                                               \
    }                                                                                                                                                            \
    static inline int AM_ReplyI##M(void *token, handler_t handler, const void *source, size_t nbytes AM_P##M) {                                                  \
        const int32_t args[] = {AM_N##M 0};                                                                                                                      \
        return AMX_ReplyI(token, handler, source, nbytes, M, args);                                                                                              \
    }                                                                                                                                                            \
    static inline int AM_ReplyXfer##M(void *token, uintptr_t offset, handler_t handler, const void *source, size_t nbytes AM_P##M) {                             \
        const int32_t args[] = {AM_N##M 0};                                                                                                                      \
        return AMX_ReplyXfer(token, offset, handler, source, nbytes, M, args);                                                                                   \
    }

AM_DEFINE(0)
AM_DEFINE(1)
AM_DEFINE(2)
AM_DEFINE(3)
AM_DEFINE(4)
AM_DEFINE(5)
AM_DEFINE(6)
AM_DEFINE(7)
AM_DEFINE(8)
AM_DEFINE(9)
AM_DEFINE(10)
AM_DEFINE(11)
AM_DEFINE(12)
AM_DEFINE(13)
AM_DEFINE(14)
AM_DEFINE(15)
AM_DEFINE(16)

/* ------------------------------------------------------------ beyond AM-II */

/* Zeroed memory that peers can reach directly when it is, or lies in, a segment; and back.
 * AM_Terminate frees what is left. */
int AMX_Alloc(size_t nbytes, void **address);
int AMX_Free(void *address);

/* What an endpoint has counted: by size, short, medium, bulk, gets. */
typedef struct {
    uint64_t requests_sent[4], requests_received[4], replies_sent[4], replies_received[4];
    uint64_t bytes_sent, bytes_received; /* of payload */
    uint64_t returned;                   /* came back to this endpoint */
    uint64_t refused;                    /* were sent back by it */
    uint64_t stalls;                     /* times that a request waited to leave */
    uint64_t malformed;                  /* connections ended since the peer sent what cannot be */
    uint64_t copied;                     /* messages copied once more than usual: they could not leave at once, or came while nobody polled */
} am_statistics_t;
int AMX_GetStatistics(ep_t endpoint, am_statistics_t *statistics);
int AMX_ResetStatistics(ep_t endpoint);
void AMX_AddStatistics(am_statistics_t *sum, const am_statistics_t *statistics);

/* How long a request waits for a receiver that is there but takes nothing, in milliseconds, before
 * it comes back with ECONGESTION. 0, as it is at first: for ever. */
int AMX_SetPatience(eb_t bundle, unsigned milliseconds);

/* ------------------------------------------------------------ jobs of many processes (Bellwire's own) */

/*
 * Start-up of programs that run as many equal processes, under bellwire run, MPICH's mpiexec, Open
 * MPI's mpirun, Slurm's srun, or alone: entry i of the endpoint's table is process i, also this
 * one. libbellwire_job.so.1 is loaded for it. These calls give AM_OK, AM_ERR_*, or one of the codes
 * below; AMX_Reason() has the reason as text. AMX_Start, AMX_Barrier, AMX_AllGather and AMX_Finish
 * are collective: every process calls them, in the same order, not within a handler. They poll:
 * handlers run meanwhile.
 */
enum {
    AMX_ERR_JOB = 64, /* the launcher, or libbellwire_job */
    AMX_ERR_LOST = 65 /* a process of the job is gone: no collective call will be well any more. Requests to it come back with EUNREACHABLE or EBADENDPOINT. */
};

/* Joins the job, initialises the library (as AM_Init), and makes a bundle and an endpoint with a
 * tag of its own. Handlers and segment are the program's to set, then AMX_Barrier. */
int AMX_Start(eb_t *bundle, ep_t *endpoint);
/* Waits until the endpoint's requests are handled and all processes have come so far, then ends
 * everything that AMX_Start began, also if it gives AMX_ERR_LOST. */
int AMX_Finish(void);
/* This process's number from 0, and how many there are; -1 before AMX_Start. */
int AMX_Rank(void);
int AMX_Size(void);
int AMX_Barrier(void);
/* Everybody's block, of the same length everywhere, at most 2^20 bytes, to everybody: `all` has
 * room for AMX_Size() of them, in order of rank. */
int AMX_AllGather(const void *block, size_t nbytes, void *all);
/* Within a handler: which process the message is from. AM_ERR_RESOURCE: none of the job. */
int AMX_SourceRank(void *token, int *rank);
/* Ends the whole job with an exit status, 0 to 255, and this process. */
#if defined(__GNUC__)
__attribute__((noreturn))
#endif
void AMX_Exit(int status);
/* Why the thread's last call of this section failed; "" if none has. Valid until its next one. */
const char *AMX_Reason(void);

#ifdef __cplusplus
}
#endif
#endif
