/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What every test program ends with: the number of checks that failed anywhere, and a line that says so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <split-c/split-c.h>
#include <split-c/control.h>

static int check_count, check_failed;

#define CHECK(condition)                                                                                    \
    do {                                                                                                    \
        check_count++;                                                                                      \
        if (!(condition)) {                                                                                 \
            check_failed++;                                                                                 \
            printf("process %d: %s:%d: not so: %s\n", MYPROC, __FILE__, __LINE__, #condition);              \
        }                                                                                                   \
    } while (0)

/* Collective. */
static int check_end() {
    int failed = all_reduce_to_all_add(check_failed), count = all_reduce_to_all_add(check_count);
    on_one printf("%d checks on %d processes, %d failed\n", count, PROCS, failed);
    return failed != 0;
}
