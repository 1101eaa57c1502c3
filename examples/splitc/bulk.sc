/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Streams of bulk operations: process 0 uses the memory of process 1. What scripts/gas-packets.sh compares with the raw engine's RDMA writes.
 *
 *   bulk [MILLISECONDS for each figure, default 40]
 *
 * A line for each size: bytes, then GB/s of bulk_read and bulk_write (each done before the next), bulk_get, bulk_put and bulk_store (STREAM bytes at a time, then sync()). What has moved is looked at.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <split-c/split-c.h>
#include <split-c/control.h>

enum { LARGEST = 1 << 20, STREAM = 8 << 20, OPERATIONS = 5 };
static char there[LARGEST], here[LARGEST];
static int wrong;

static double seconds_of(int of, char *global place, int bytes) {
    const int count = of < 2 ? 16 : STREAM / bytes;
    double start = get_seconds();
    int i;
    switch (of) {
    case 0: for (i = 0; i < count; i++) bulk_read(here, place, bytes); break;
    case 1: for (i = 0; i < count; i++) bulk_write(place, here, bytes); break;
    case 2: for (i = 0; i < count; i++) bulk_get(here, place, bytes); sync(); break;
    case 3: for (i = 0; i < count; i++) bulk_put(place, here, bytes); sync(); break;
    default: for (i = 0; i < count; i++) bulk_store(place, here, bytes); sync();
    }
    return (get_seconds() - start) / count;
}

splitc_main(argc, argv)
int argc;
char **argv;
{
    const double budget = argc > 1 ? atof(argv[1]) / 1000 : 0.04;
    char *global place = toglobal(PROCS > 1, there);
    int bytes, of, i;
    for (bytes = 1024; bytes <= LARGEST; bytes *= 2) {
        double gigabytes[OPERATIONS];
        for (of = 0; of < OPERATIONS; of++) {
            double best = 1e9, begin;
            const char mark = bytes / 1024 + of;
            memset(of == 0 || of == 2 ? there : here, mark, bytes);
            barrier();
            begin = get_seconds();
            on_one {
                int runs;
                for (runs = 0; runs < 3 || get_seconds() - begin < budget; runs++) {
                    double seconds = seconds_of(of, place, bytes);
                    if (seconds < best) best = seconds;
                }
            }
            all_store_sync();
            if (MYPROC == (of == 0 || of == 2 ? 0 : PROCS > 1)) for (i = 0; i < bytes; i++) wrong += (of == 0 || of == 2 ? here : there)[i] != mark;
            gigabytes[of] = bytes / best / 1e9;
            barrier();
        }
        on_one printf("%7d  read %.2f  write %.2f  get %.2f  put %.2f  store %.2f  GB/s\n", bytes, gigabytes[0], gigabytes[1], gigabytes[2], gigabytes[3], gigabytes[4]);
    }
    wrong = all_reduce_to_all_add(wrong);
    on_one printf(wrong ? "WRONG\n" : "right\n");
    return wrong != 0;
}
