/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* bellwire_gas.h from plain C (C11 and C++): words of every size, bulk, stores, atomics, spread memory, and everything that processes do together for every scalar type, each against a computation of this process. */
#include "gas_table.h"
#include "gas_together.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int checks, failed;
#define CHECK(what) ((what) ? (void)checks++ : (void)(failed++, checks++, fprintf(stderr, "process %d: line %d: %s\n", gas_here.process, __LINE__, #what)))

/* Small values, so that no product overflows where it is signed: what process i has. */
#define MINE(type, i) ((type)((i) % 3 + 1))

#define REDUCTION(op, apply, suffix, type)                                                                     \
    {                                                                                                          \
        type all = MINE(type, 0), mine = all;                                                                  \
        int k;                                                                                                 \
        for (k = 1; k < gas_here.processes; k++) {                                                             \
            all = (type)apply(all, MINE(type, k));                                                             \
            if (k <= gas_here.process) mine = (type)apply(mine, MINE(type, k));                                \
        }                                                                                                      \
        CHECK(gas_all_##op##_##suffix(MINE(type, gas_here.process)) == all);                                   \
        CHECK(gas_scan_##op##_##suffix(MINE(type, gas_here.process)) == mine);                                 \
    }
#define NUMBERS(suffix, type) GAS_NUMBER_OPERATIONS(REDUCTION, suffix, type)
#define BITS(suffix, type) GAS_BIT_OPERATIONS(REDUCTION, suffix, type)
#define GATHERING(suffix, type)                                                                                \
    {                                                                                                          \
        type all[64];                                                                                          \
        const int last = gas_here.processes - 1;                                                               \
        int k;                                                                                                 \
        memset(all, 0, sizeof all);                                                                            \
        gas_concat_##suffix((type)(gas_here.process + 2), all);                                                \
        for (k = 0; k <= last; k++) CHECK(all[k] == (type)(k + 2));                                            \
        memset(all, 0, sizeof all);                                                                            \
        gas_gather_##suffix((type)(gas_here.process + 3), all, last);                                          \
        for (k = 0; k <= last; k++) CHECK(all[k] == (type)(gas_here.process == last ? k + 3 : 0));             \
        CHECK(gas_bcast_##suffix((type)(gas_here.process + 5), last) == (type)(last + 5));                     \
    }

/* A place of the next process, and words of every size by every operation. */
static unsigned char places[4096], copy[4096];
static int64_t counter;
static gas_ptr at(int process, const void *place) { return (gas_ptr)process << 48 | (gas_ptr)(uintptr_t)place; }

#define WORD(bytes, type, offset)                                                                              \
    {                                                                                                          \
        const gas_ptr there = at(next, places) + (offset);                                                     \
        const type value = (type)(0x0123456789abcdefULL >> (64 - 8 * bytes) ^ (type)gas_here.process);         \
        type back = 0;                                                                                         \
        gas_write_##bytes(there, value);                                                                       \
        CHECK(gas_read_##bytes(there) == value);                                                               \
        gas_put_##bytes(there + 8, (type)(value + 1));                                                         \
        gas_sync();                                                                                            \
        gas_get_##bytes(&back, there + 8);                                                                     \
        gas_sync();                                                                                            \
        CHECK(back == (type)(value + 1) && gas_is_sync());                                                     \
        gas_barrier();                                                                                         \
        gas_reset_store_sync();                                                                                \
        gas_barrier();                                                                                         \
        gas_store_##bytes(there + 16, (type)(value + 2));                                                      \
        gas_store_sync(bytes);                                                                                 \
        memcpy(&back, places + (offset) + 16, bytes);                                                          \
        CHECK(back == (type)((0x0123456789abcdefULL >> (64 - 8 * bytes) ^ (type)before) + 2));                 \
        gas_barrier();                                                                                         \
    }

int main(void) {
    const int next = (gas_here.process + 1) % gas_here.processes, before = (gas_here.process + gas_here.processes - 1) % gas_here.processes;
    gas_ptr spread;
    size_t i, wrong = 0;
    int64_t old;
    GAS_INTEGERS(NUMBERS)
    GAS_REALS(NUMBERS)
    GAS_INTEGERS(BITS)
    GAS_SCALARS(GATHERING)
    WORD(1, uint8_t, 0)
    WORD(2, uint16_t, 32)
    WORD(4, uint32_t, 64)
    WORD(8, uint64_t, 96)

    for (i = 0; i < sizeof copy; i++) copy[i] = (unsigned char)(i * 7 + (size_t)gas_here.process);
    gas_barrier();
    gas_bulk_write(at(next, places), copy, 3000);
    gas_bulk_put(at(next, places) + 3000, copy + 3000, 500);
    gas_bulk_store(at(next, places) + 3500, copy + 3500, sizeof copy - 3500);
    gas_all_store_sync();
    for (i = 0; i < sizeof places; i++) wrong += places[i] != (unsigned char)(i * 7 + (size_t)before);
    gas_barrier();
    memset(copy, 0, sizeof copy);
    gas_bulk_read(copy, at(next, places), 2000);
    gas_bulk_get(copy + 2000, at(next, places) + 2000, sizeof copy - 2000);
    gas_sync();
    for (i = 0; i < sizeof copy; i++) wrong += copy[i] != (unsigned char)(i * 7 + (size_t)gas_here.process);
    CHECK(wrong == 0);
    gas_barrier();
    gas_bulk_set(at(next, places), 9, 100);
    gas_barrier();
    CHECK(places[0] == 9 && places[99] == 9 && places[100] == (unsigned char)(700 + before));

    gas_barrier();
    for (i = 0; i < 10; i++) gas_fetch_add_8(at(0, &counter), 1);
    gas_barrier();
    CHECK(gas_read_8(at(0, &counter)) == (uint64_t)(10 * gas_here.processes));
    gas_barrier();
    old = gas_compare_swap_8(at(0, &counter), 10 * gas_here.processes, -1);
    CHECK(gas_all_add_i(old == 10 * gas_here.processes) == 1);
    CHECK(gas_all_add_i(gas_swap_8(at(0, &counter), -2 - gas_here.process) == -1) == 1);

    spread = gas_spread_make(gas_here.processes, 64, 0);
    CHECK(spread != 0);
    gas_write_4(spread + ((gas_ptr)next << 48), (uint32_t)gas_here.process);
    gas_barrier();
    CHECK(gas_read_4(spread + ((gas_ptr)gas_here.process << 48)) == (uint32_t)before);
    gas_barrier();
    gas_spread_end(spread);
    failed = gas_all_add_i(failed);
    if (gas_here.process == 0) printf("%d checks, %d failed\n", checks, failed);
    if (failed) gas_exit(1);
    gas_sync();
    gas_barrier();
    return 0;
}
