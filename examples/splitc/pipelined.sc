/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Streams of word operations, and one read alone: process 0 uses the memory of process 1. What scripts/gas-packets.sh compares with the raw engine.
 *
 *   pipelined [MILLISECONDS for each figure, default 100]
 *
 * get, put, store: 32768 at a time, then sync() (until all have arrived: store). Words checked. A line: nanoseconds for each, read: one at a time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <split-c/split-c.h>
#include <split-c/control.h>

enum { RUN = 32768 };
static long there[RUN], here[RUN];
static int wrong;

static double seconds_of(int of, int other) {
    long *global word = toglobal(other, there);
    double start = get_seconds();
    int i;
    switch (of) {
    case 0: for (i = 0; i < RUN / 64; i++) here[i] = word[i]; return (get_seconds() - start) * 64;
    case 1: for (i = 0; i < RUN; i++) here[i] := word[i]; sync(); break;
    case 2: for (i = 0; i < RUN; i++) word[i] := here[i]; sync(); break;
    default: for (i = 0; i < RUN; i++) word[i] :- here[i]; sync();
    }
    return get_seconds() - start;
}

splitc_main(argc, argv)
int argc;
char **argv;
{
    static const char *names[] = {"read", "get", "put", "store"};
    const double budget = argc > 1 ? atof(argv[1]) / 1000 : 0.1;
    const int other = PROCS > 1;
    int of, i;
    for (i = 0; i < RUN; i++) there[i] = i * 3L + MYPROC;
    barrier();
    for (of = 0; of < 4; of++) {
        double best = 1e9, begin = get_seconds();
        on_one {
            int runs;
            for (runs = 0; runs < 3 || get_seconds() - begin < budget; runs++) {
                double seconds = seconds_of(of, other);
                if (seconds < best) best = seconds;
            }
            for (i = 0; i < (of ? RUN : RUN / 64); i++) wrong += here[i] != i * 3L + other;
            printf("%s %.1f  ", names[of], best / RUN * 1e9);
        }
    }
    all_store_sync();
    for (i = 0; i < RUN; i++) wrong += there[i] != i * 3L + MYPROC;
    wrong = all_reduce_to_all_add(wrong);
    on_one printf(wrong ? "WRONG\n" : "ns, right\n");
    return wrong != 0;
}
