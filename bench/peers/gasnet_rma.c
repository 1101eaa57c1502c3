/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * GASNet-EX's remote memory between two processes of its smp conduit, for `bellwire gas --compare`: read and write are the blocking calls (of values, for words), get and put 64 implicit-handle ones, then a
 * wait. Compiled against an installed GASNet-EX (its pkg-config file gasnet-smp-seq.pc).
 *
 * Usage: gasnet_rma CPU0,CPU1 BUDGET_MS SIZE...     with GASNET_PSHM_NODES=2
 */
#include "rma.h"

#include <gasnetex.h>

static gex_TM_t team;
static char *there, *here;

/*
 * Words: a function for each size, so that the compiler knows it, as it does in a program; with a size that is known only at run time the same calls take one and a half to three times as long. Its loop may keep what it
 * knows of the other process in registers, which it does: the library asks for no order between accesses.
 */
#define WORD(bytes, type)                                                                                                                                                                       \
    static void read_##bytes(long count) {                                                                                                                                                      \
        type *from = (type *)there;                                                                                                                                                             \
        volatile type *to = (type *)here;                                                                                                                                                       \
        for (long run = 0; run < count; run += RMA_RUN)                                                                                                                                         \
            for (long i = 0; i < RMA_RUN; i++) to[i] = (type)gex_RMA_GetBlockingVal(team, 1, from + i, bytes, 0);                                                                               \
    }                                                                                                                                                                                           \
    static void write_##bytes(long count) {                                                                                                                                                     \
        type *to = (type *)there, *from = (type *)here;                                                                                                                                         \
        for (long run = 0; run < count; run += RMA_RUN)                                                                                                                                         \
            for (long i = 0; i < RMA_RUN; i++) gex_RMA_PutBlockingVal(team, 1, to + i, from[i], bytes, 0);                                                                                      \
    }                                                                                                                                                                                           \
    static void get_##bytes(long count) {                                                                                                                                                       \
        type *from = (type *)there, *to = (type *)here;                                                                                                                                         \
        for (long run = 0; run < count; run += RMA_RUN) {                                                                                                                                       \
            for (long i = 0; i < RMA_RUN; i++) gex_RMA_GetNBI(team, to + i, 1, from + i, bytes, 0);                                                                                             \
            gex_NBI_Wait(GEX_EC_GET, 0);                                                                                                                                                        \
        }                                                                                                                                                                                       \
    }                                                                                                                                                                                           \
    static void put_##bytes(long count) {                                                                                                                                                       \
        type *to = (type *)there, *from = (type *)here;                                                                                                                                         \
        for (long run = 0; run < count; run += RMA_RUN) {                                                                                                                                       \
            for (long i = 0; i < RMA_RUN; i++) gex_RMA_PutNBIVal(team, 1, to + i, from[i], bytes, 0);                                                                                           \
            gex_NBI_Wait(GEX_EC_PUT, 0);                                                                                                                                                        \
        }                                                                                                                                                                                       \
    }
WORD(1, uint8_t)
WORD(2, uint16_t)
WORD(4, uint32_t)
WORD(8, uint64_t)

/* The function of a size, or the rest: bytes. Counts are multiples of a run. */
#define EACH(name)                                                                                                                                                                              \
    switch (bytes) {                                                                                                                                                                            \
    case 1: name##_1(count); return;                                                                                                                                                            \
    case 2: name##_2(count); return;                                                                                                                                                            \
    case 4: name##_4(count); return;                                                                                                                                                            \
    case 8: name##_8(count); return;                                                                                                                                                            \
    default: break;                                                                                                                                                                             \
    }

static void read_each(size_t bytes, long count) {
    EACH(read)
    for (long i = 0; i < count; i++) gex_RMA_GetBlocking(team, here + rma_place(bytes, i), 1, there + rma_place(bytes, i), bytes, 0);
}
static void write_each(size_t bytes, long count) {
    EACH(write)
    for (long i = 0; i < count; i++) gex_RMA_PutBlocking(team, 1, there + rma_place(bytes, i), here + rma_place(bytes, i), bytes, 0);
}
static void get_run(size_t bytes, long count) {
    EACH(get)
    for (long i = 0; i < count; i++) {
        gex_RMA_GetNBI(team, here + rma_place(bytes, i), 1, there + rma_place(bytes, i), bytes, 0);
        if ((i + 1) % RMA_RUN == 0) gex_NBI_Wait(GEX_EC_GET, 0);
    }
    gex_NBI_Wait(GEX_EC_GET, 0);
}
static void put_run(size_t bytes, long count) {
    EACH(put)
    for (long i = 0; i < count; i++) {
        gex_RMA_PutNBI(team, 1, there + rma_place(bytes, i), here + rma_place(bytes, i), bytes, GEX_EVENT_DEFER, 0);
        if ((i + 1) % RMA_RUN == 0) gex_NBI_Wait(GEX_EC_PUT, 0);
    }
    gex_NBI_Wait(GEX_EC_PUT, 0);
}

int main(int argc, char **argv) {
    gex_Client_t client;
    gex_EP_t endpoint;
    gex_Segment_t segment;
    void *base = NULL, *own = NULL;
    if (gex_Client_Init(&client, &endpoint, &team, "gasnet_rma", &argc, &argv, 0) != GASNET_OK) return 1;
    if (gex_TM_QuerySize(team) != 2) {
        fprintf(stderr, "gasnet_rma: two processes are needed\n");
        gasnet_exit(1);
    }
    rma_pin(argv[1], (int)gex_TM_QueryRank(team));
    if (gex_Segment_Attach(&segment, team, RMA_BYTES_MAX) != GASNET_OK) gasnet_exit(1);
    own = gex_Segment_QueryAddr(segment);
    memset(own, 1, RMA_BYTES_MAX);
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(team, 1, &base, NULL, NULL, 0));
    there = base;
    here = aligned_alloc(4096, RMA_BYTES_MAX);
    memset(here, 1, RMA_BYTES_MAX);
    gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
    if (gex_TM_QueryRank(team) == 0) rma_tell_all(argv, read_each, write_each, get_run, put_run);
    gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
    gasnet_exit(0);
    return 0;
}
