/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Radix sort: for each digit, from the lowest, every key is stored to its place among all processes, one signalling store for each key.
 *
 *   radix [KEYS]     keys of each process (default 5000)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <split-c/split-c.h>
#include <split-c/control.h>
#include "result.h"

enum { BITS = 8, DIGITS = 1 << BITS };

static unsigned key_value(int process, int i) {
    unsigned x = process * 2246822519u + i * 3266489917u + 7;
    x ^= x >> 16; x *= 2654435761u; x ^= x >> 13; x *= 668265263u; x ^= x >> 15;
    return x;
}

splitc_main(argc, argv)
int argc;
char **argv;
{
    int n = argc > 1 ? atoi(argv[1]) : 5000, i, p, d, shift, wrong = 0;
    unsigned sum = 0, after = 0;
    unsigned long result;
    double begin;
    if (n < 1) exit(2);
    {
        unsigned A[PROCS]::[n], B[PROCS]::[n];
        int H[PROCS]::[PROCS][DIGITS];
        unsigned *keys = tolocal(A[MYPROC]), *others = tolocal(B[MYPROC]);
        int (*all)[DIGITS] = tolocal(H[MYPROC]), *place = malloc(DIGITS * sizeof(int)), *count = malloc(DIGITS * sizeof(int));
        for (i = 0; i < n; i++) sum += keys[i] = key_value(MYPROC, i);
        barrier();
        begin = get_seconds();
        for (shift = 0; shift < 32; shift += BITS) {
            const int is_even = shift / BITS % 2 == 0;
            const unsigned *from = is_even ? keys : others;
            memset(count, 0, DIGITS * sizeof(int));
            for (i = 0; i < n; i++) count[from[i] >> shift & (DIGITS - 1)]++;
            /* Everybody tells everybody how many of each digit there are. */
            for (p = 0; p < PROCS; p++) bulk_store(&H[p][MYPROC][0], count, DIGITS * sizeof(int));
            all_store_sync();
            for (d = 0, i = 0; d < DIGITS; d++)
                for (p = 0; p < PROCS; p++) {
                    if (p == MYPROC) place[d] = i;
                    i += all[p][d];
                }
            for (i = 0; i < n; i++) {
                const int to = place[from[i] >> shift & (DIGITS - 1)]++;
                if (is_even) B[to / n][to % n] :- from[i];
                else A[to / n][to % n] :- from[i];
            }
            all_store_sync();
        }
        begin = get_seconds() - begin;
        for (i = 0; i < n; i++) {
            after += keys[i];
            wrong += i > 0 && keys[i - 1] > keys[i];
        }
        wrong += MYPROC > 0 && A[MYPROC - 1][n - 1] > keys[0];
        wrong += all_reduce_to_all_add_u(sum) != all_reduce_to_all_add_u(after);
        wrong = all_reduce_to_all_add(wrong);
        result = result_of(keys, n * sizeof *keys);
        on_one printf("radix %d processes, %d keys each, result %016lx: %6.1f ns for a key and digit, %s\n", PROCS, n, result, begin * 1e9 / n / (32 / BITS), wrong ? "WRONG" : "right");
        barrier();
    }
    exit(wrong != 0);
}
