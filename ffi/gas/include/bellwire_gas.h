/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * bellwire_gas.h: global memory. Each process of a job (SPMD) has an address space of its own; a
 * global pointer names a place in any of them.
 *
 *     63        48 47                             0
 *     | process  |  address in that process       |        gas_ptr; 0 is no place
 *
 * A word operation whose place is mapped here (the peer is on this host, and the place is in its
 * data, its heap or in symmetric memory) is a load or a store, inline; any other goes into the
 * library, which copies or sends. Which of them it is, is found per process from gas_peers: no
 * caller sees a difference, except in time.
 *
 * Order. Reads and writes are complete when they return; a read may overtake this process's own
 * earlier write to another place, as on the processor, until gas_sync or a barrier. Gets and puts
 * are complete after gas_sync; stores when the target has counted them (gas_store_sync) or after
 * gas_all_store_sync. A barrier completes them all.
 *
 * One thread of a process uses this interface. A place that does not exist ends the job with a
 * message; nothing else is written.
 */
#ifndef BELLWIRE_GAS_H
#define BELLWIRE_GAS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t gas_ptr;

enum { GAS_PROCESSES_MAX = 65536, GAS_SCALAR_MAX_BYTES = 16 };

/* One process as seen from here. */
typedef struct gas_peer {
    uint64_t origin;        /* the first global pointer of its window */
    uint64_t limit;         /* bytes of the window at which a word may begin; 0: it is not mapped here */
    unsigned char *base;    /* where the window is mapped here */
    uint64_t *arrived;      /* how many bytes this process has stored there: in memory of the peer, on a line that only this process writes */
} gas_peer;

typedef struct gas_place {
    int process, processes; /* this process's number, and how many there are */
    uint64_t self;          /* process << 48 */
} gas_place;

/* Objects of the program itself (gas_table.h defines them, once in a program), so that reaching
 * them takes one instruction. */
extern gas_peer gas_peers[GAS_PROCESSES_MAX];
extern gas_place gas_here;

/*
 * Joins the job and maps what can be mapped; to be called before main, by one thread (gas_table.h
 * does it). The program's statics from `data` to `end` and its heap become visible to the others.
 * Ends the process with a message if that is impossible.
 */
void gas_start(gas_peer *peers, gas_place *here, void *data, void *end);
/* Ends the job with a status, from any process. Does not return. */
void gas_exit(int status);

/* ------------------------------------------------------------ the long ways; used by the inline functions below */

uint64_t gas_far_read(gas_ptr from, size_t bytes);
void gas_far_write(gas_ptr to, uint64_t value, size_t bytes);
void gas_far_get(void *to, gas_ptr from, size_t bytes);
void gas_far_put(gas_ptr to, uint64_t value, size_t bytes);
void gas_far_store(gas_ptr to, uint64_t value, size_t bytes);

/* ------------------------------------------------------------ bulk: any number of bytes, any alignment */

void gas_bulk_read(void *to, gas_ptr from, size_t bytes);
void gas_bulk_write(gas_ptr to, const void *from, size_t bytes);
void gas_bulk_get(void *to, gas_ptr from, size_t bytes);
void gas_bulk_put(gas_ptr to, const void *from, size_t bytes);
void gas_bulk_store(gas_ptr to, const void *from, size_t bytes);
void gas_bulk_set(gas_ptr to, int value, size_t bytes);

/* Ends the job unless `bytes` bytes are there, aligned to `align`; `where` (file:line:column) is
 * told. */
void gas_check(gas_ptr at, size_t bytes, size_t align, const char *where);

/* ------------------------------------------------------------ completion */

/* Waits for this process's own gets and puts; gas_is_sync asks. */
void gas_sync(void);
int gas_is_sync(void);
/* Waits until so many bytes have been stored here, and takes them off the count. */
void gas_store_sync(size_t bytes);
/* Bytes stored here and not taken off yet. */
size_t gas_store_count(void);
/* Sets the count to 0. */
void gas_reset_store_sync(void);
/* Collective: all stores of all processes have arrived; the count is 0. */
void gas_all_store_sync(void);
/* Collective. */
void gas_barrier(void);

/* ------------------------------------------------------------ symmetric memory: the same address in every process; collective, in the same order everywhere */

/* Spread memory of so many blocks, block i in process i % processes: a pointer to the first, in
 * process 0. 0 if there is no memory. */
gas_ptr gas_spread_make(long blocks, size_t block_bytes, int is_automatic);
/* The same by this process alone, from an arena of its own (a quarter of symmetric memory, divided
 * among all). */
gas_ptr gas_spread_make_alone(long blocks, size_t block_bytes);
/* Gives back what the calls above have made: collective for the first, in the process that made it
 * for the second. */
void gas_spread_end(gas_ptr made);

/* ------------------------------------------------------------ words among all processes: collective */

/* Writes every process's `bytes` bytes (at most GAS_SCALAR_MAX_BYTES) to `all`, in the order of the
 * processes. */
void gas_exchange(const void *mine, void *all, size_t bytes);
/* Gives everybody the bytes of process `root`. Any number of bytes. */
void gas_broadcast(void *data, size_t bytes, int root);

/* ------------------------------------------------------------ atomic operations: on an aligned int or long */

int32_t gas_fetch_add_4(gas_ptr at, int32_t value);
int64_t gas_fetch_add_8(gas_ptr at, int64_t value);
int32_t gas_swap_4(gas_ptr at, int32_t value);
int64_t gas_swap_8(gas_ptr at, int64_t value);
/* Returns what was there; it was exchanged if that is `expected`. */
int32_t gas_compare_swap_4(gas_ptr at, int32_t expected, int32_t value);
int64_t gas_compare_swap_8(gas_ptr at, int64_t expected, int64_t value);

/* ------------------------------------------------------------ functions on places: one at a time on all places of a process */

/* Runs on the place, in its process or on its mapping here; must touch nothing else of global
 * memory, and call none of these functions. */
typedef int64_t (*gas_function)(void *place, int64_t argument);
/* The program's functions that may be called on places: a table that stays, the same in all
 * processes. Once, before any call. */
void gas_functions(const gas_function *begin, const gas_function *end);
/* Calls function number `function` of the table on a place in shared memory; returns its result. */
int64_t gas_call(gas_ptr at, uint64_t function, int64_t argument);

/* Seconds since some moment. */
double gas_seconds(void);

/* ------------------------------------------------------------ words: inline where the place is mapped */

/* Instructions beyond the plain access: shift, scale, subtract, compare, branch, add. */
#define GAS_NEAR(at) const gas_peer *const peer = &gas_peers[(at) >> 48]; const uint64_t offset = (at) - peer->origin; if (__builtin_expect(offset < peer->limit, 1))
#define GAS_WORD(bytes, type)                                                                                                                                                                    \
    static inline type gas_read_##bytes(gas_ptr from) {                                                                                                                                          \
        type value;                                                                                                                                                                              \
        GAS_NEAR(from) value = *(const volatile type *)(peer->base + offset);                                                                                                                    \
        else value = (type)gas_far_read(from, bytes);                                                                                                                                            \
        __atomic_thread_fence(__ATOMIC_ACQUIRE);                                                                                                                                                 \
        return value;                                                                                                                                                                            \
    }                                                                                                                                                                                            \
    static inline void gas_write_##bytes(gas_ptr to, type value) {                                                                                                                               \
        __atomic_thread_fence(__ATOMIC_RELEASE);                                                                                                                                                 \
        GAS_NEAR(to) *(volatile type *)(peer->base + offset) = value;                                                                                                                            \
        else gas_far_write(to, value, bytes);                                                                                                                                                    \
    }                                                                                                                                                                                            \
    static inline void gas_get_##bytes(void *to, gas_ptr from) {                                                                                                                                 \
        GAS_NEAR(from) *(type *)to = *(const volatile type *)(peer->base + offset);                                                                                                              \
        else gas_far_get(to, from, bytes);                                                                                                                                                       \
    }                                                                                                                                                                                            \
    static inline void gas_put_##bytes(gas_ptr to, type value) {                                                                                                                                 \
        GAS_NEAR(to) *(volatile type *)(peer->base + offset) = value;                                                                                                                            \
        else gas_far_put(to, value, bytes);                                                                                                                                                      \
    }                                                                                                                                                                                            \
    static inline void gas_store_##bytes(gas_ptr to, type value) {                                                                                                                               \
        GAS_NEAR(to) {                                                                                                                                                                           \
            *(volatile type *)(peer->base + offset) = value;                                                                                                                                     \
            /* Release: bytes stored before the count; pairs with store_sync. */                                                                                                                 \
            __atomic_store_n(peer->arrived, *peer->arrived + bytes, __ATOMIC_RELEASE);                                                                                                           \
        } else gas_far_store(to, value, bytes);                                                                                                                                                  \
    }
GAS_WORD(1, uint8_t)
GAS_WORD(2, uint16_t)
GAS_WORD(4, uint32_t)
GAS_WORD(8, uint64_t)
#undef GAS_WORD
#undef GAS_NEAR

#ifdef __cplusplus
}
#endif

#endif
