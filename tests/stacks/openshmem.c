/* SPDX-License-Identifier: MIT OR Apache-2.0
 * OpenSHMEM: a ring of puts that others wait for, atomics on one processing element, long gets, a
 * reduction, a lock. Prints "all well" on the first.
 *   openshmem [ROUNDS]
 */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 20, NUMBERS = 1000 };

static long flag, count, guarded, turn_lock, sync_area[SHMEM_REDUCE_SYNC_SIZE];
static long numbers[NUMBERS], sums[NUMBERS], work[NUMBERS / 2 + 1 > SHMEM_REDUCE_MIN_WRKDATA_SIZE ? NUMBERS / 2 + 1 : SHMEM_REDUCE_MIN_WRKDATA_SIZE];

static void check(int is_so, const char *what) {
    if (is_so) return;
    fprintf(stderr, "element %d: %s\n", shmem_my_pe(), what);
    shmem_global_exit(1);
}

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 200;
    for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++) sync_area[i] = SHMEM_SYNC_VALUE;
    shmem_init();
    int me = shmem_my_pe(), all = shmem_n_pes(), next = (me + 1) % all;
    unsigned char *block = shmem_malloc(BYTES), *got = malloc(BYTES);
    check(block != NULL && got != NULL, "no memory");
    memset(block, me + 1, BYTES);
    shmem_barrier_all();

    for (long round = 1; round <= rounds; round++) {
        if (me == 0) shmem_long_p(&flag, round, next);
        shmem_long_wait_until(&flag, SHMEM_CMP_GE, round);
        if (me != 0) shmem_long_p(&flag, round, next);
    }

    for (long i = 0; i < rounds; i++) shmem_long_atomic_inc(&count, 0);
    long seen = shmem_long_atomic_fetch_add(&count, 0, 0);
    check(seen >= rounds, "atomics of this element are missing");

    for (int i = 0; i < 10; i++) {
        shmem_getmem(got, block, BYTES, next);
        for (int at = 0; at < BYTES; at++) check(got[at] == next + 1, "a get brought other bytes");
    }

    for (int i = 0; i < 20; i++) {
        shmem_set_lock(&turn_lock);
        shmem_long_p(&guarded, shmem_long_g(&guarded, 0) + 1, 0);
        shmem_quiet();
        shmem_clear_lock(&turn_lock);
    }

    for (int i = 0; i < NUMBERS; i++) numbers[i] = me + i;
    shmem_barrier_all();
    shmem_long_sum_to_all(sums, numbers, NUMBERS, 0, 0, all, work, sync_area);
    for (int i = 0; i < NUMBERS; i++) check(sums[i] == (long)all * (all - 1) / 2 + (long)all * i, "a sum is wrong");
    check(shmem_long_g(&count, 0) == rounds * all, "the count is wrong");
    check(shmem_long_g(&guarded, 0) == 20L * all, "the lock did not keep others out");
    shmem_barrier_all();
    if (me == 0) puts("all well");
    shmem_free(block);
    shmem_finalize();
    return 0;
}
