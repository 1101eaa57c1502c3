/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A Split-C program for check.sh: process 0 puts 10 blocks of 4096 bytes into the memory of process
 * 1 and gets them back.
 */
#include <stdio.h>
#include <string.h>
#include <split-c/split-c.h>
#include <split-c/control.h>

enum { BYTES = 4096, ROUNDS = 10 };
static char there[BYTES], from[BYTES], back[BYTES];

splitc_main(argc, argv)
int argc;
char **argv;
{
    char *global place = toglobal(PROCS > 1, there);
    int i, wrong = 0;
    barrier();
    on_one {
        for (i = 0; i < ROUNDS; i++) {
            memset(from, i + 1, BYTES);
            bulk_put(place, from, BYTES);
            sync();
            bulk_get(back, place, BYTES);
            sync();
            wrong += memcmp(from, back, BYTES) != 0;
        }
    }
    barrier();
    on_one printf(wrong ? "splitc: wrong\n" : "splitc: all well\n");
    return wrong;
}
