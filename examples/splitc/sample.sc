/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sample sort: some keys of each process decide what goes where, every key moves once, in bulk, and each process sorts what it gets.
 *
 *   sample [KEYS]     keys of each process (default 20000)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <split-c/split-c.h>
#include <split-c/control.h>
#include "result.h"

enum { OVERSAMPLING = 32 };

static unsigned key_value(int process, int i) {
    unsigned x = process * 2654435761u + i * 2246822519u + 1;
    x ^= x >> 15; x *= 2246822519u; x ^= x >> 13; x *= 3266489917u; x ^= x >> 16;
    return x;
}

static int by_value(const void *a, const void *b) {
    const unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

/* The first of `count` sorted keys that is not below `bound`. */
static int first_from(const unsigned *keys, int count, unsigned bound) {
    int low = 0;
    while (count > 0) {
        const int half = count / 2;
        if (keys[low + half] < bound) { low += half + 1; count -= half + 1; } else count = half;
    }
    return low;
}

splitc_main(argc, argv)
int argc;
char **argv;
{
    int n = argc > 1 ? atoi(argv[1]) : 20000, i, p, total = 0, room, wrong = 0, *counts, *places;
    unsigned *keys, *sorted, sum = 0, after = 0;
    unsigned *spread received;
    unsigned long result;
    double begin;
    if (n < OVERSAMPLING) exit(2);
    keys = malloc(n * sizeof *keys);
    for (i = 0; i < n; i++) sum += keys[i] = key_value(MYPROC, i);
    {
        unsigned S[PROCS]::[PROCS * OVERSAMPLING], B[PROCS]::[PROCS];
        int C[PROCS]::[PROCS], P[PROCS]::[PROCS];
        unsigned *bounds = tolocal(B[MYPROC]);
        counts = tolocal(C[MYPROC]);
        places = tolocal(P[MYPROC]);
        barrier();
        begin = get_seconds();
        qsort(keys, n, sizeof *keys, by_value);
        /* Process 0 sees keys of all, evenly from each, and finds the bounds. */
        for (i = 0; i < OVERSAMPLING; i++) S[0][MYPROC * OVERSAMPLING + i] := keys[(long)i * n / OVERSAMPLING];
        sync();
        barrier();
        on_one {
            unsigned *samples = tolocal(S[0]);
            qsort(samples, PROCS * OVERSAMPLING, sizeof *samples, by_value);
            for (p = 0; p < PROCS; p++) bounds[p] = p == 0 ? 0 : samples[p * OVERSAMPLING];
        }
        barrier();
        bulk_read(bounds, &B[0][0], PROCS * sizeof *bounds);
        /* How much everybody gets from everybody, then where it goes. */
        for (p = 0; p < PROCS; p++) {
            const int end = p + 1 < PROCS ? first_from(keys, n, bounds[p + 1]) : n;
            C[p][MYPROC] := end - first_from(keys, n, bounds[p]);
        }
        sync();
        barrier();
        for (p = 0; p < PROCS; p++) {
            P[p][MYPROC] := total;
            total += counts[p];
        }
        sync();
        room = all_reduce_to_all_max(total);
        received = all_spread_malloc(PROCS, room * sizeof *keys);
        if (received == NULL) splitc_exit(3);
        for (p = 0; p < PROCS; p++) {
            const int first = first_from(keys, n, bounds[p]), end = p + 1 < PROCS ? first_from(keys, n, bounds[p + 1]) : n;
            bulk_store((unsigned *global)(received + p) + places[p], keys + first, (end - first) * sizeof *keys);
        }
        all_store_sync();
        sorted = (unsigned *)(received + MYPROC);
        qsort(sorted, total, sizeof *sorted, by_value);
        barrier();
        begin = get_seconds() - begin;
        /* In order here, from here to the next process that has any, and nothing lost. */
        for (i = 0; i < total; i++) {
            after += sorted[i];
            wrong += i > 0 && sorted[i - 1] > sorted[i];
            wrong += sorted[i] < bounds[MYPROC] || (MYPROC + 1 < PROCS && sorted[i] >= bounds[MYPROC + 1]);
        }
        wrong += all_reduce_to_all_add_u(sum) != all_reduce_to_all_add_u(after);
        wrong += all_reduce_to_all_add(total) != n * PROCS;
        wrong = all_reduce_to_all_add(wrong);
        result = result_of(sorted, total * sizeof *sorted);
        on_one printf("sample %d processes, %d keys each, at most %d after, result %016lx: %6.1f ns for a key, %s\n", PROCS, n, room, result, begin * 1e9 / n, wrong ? "WRONG" : "right");
        all_spread_free(received);
    }
    exit(wrong != 0);
}
