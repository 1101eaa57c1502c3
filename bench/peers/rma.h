/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * rma.h: what the programs have in common that measure others' remote memory for `bellwire gas --compare`: pinning, and a figure. A program gives each operation as a function that does it `count` times,
 * each complete in the sense of its name when the function returns. Output is one figure a line: "operation bytes nanoseconds", of one operation.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RMA_RUN = 64, RMA_BYTES_MAX = 4 << 20, RMA_TIMES_MAX = 400 };
typedef void (*rma_operation)(size_t bytes, long count);

static double rma_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

/* "A,B": the processors of the two processes; anything else: none. */
static void rma_pin(const char *list, int which) {
    int cpu[2];
    cpu_set_t set;
    if (sscanf(list, "%d,%d", &cpu[0], &cpu[1]) != 2) return;
    CPU_ZERO(&set);
    CPU_SET(cpu[which], &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) perror("sched_setaffinity");
}

static int rma_by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of runs of about 30 us, for so many milliseconds. */
static void rma_tell(const char *name, size_t bytes, rma_operation operation, double budget_ms) {
    static double times[RMA_TIMES_MAX];
    long count = RMA_RUN;
    double begin, now;
    int n = 0;
    operation(bytes, count);
    for (;;) {
        begin = rma_now();
        operation(bytes, count);
        if (rma_now() - begin > 30e3 || count >= 1 << 16) break;
        count *= 2;
    }
    begin = rma_now();
    while (n < RMA_TIMES_MAX && (n < 5 || rma_now() - begin < budget_ms * 1e6)) {
        now = rma_now();
        operation(bytes, count);
        times[n++] = (rma_now() - now) / count;
    }
    qsort(times, n, sizeof *times, rma_by_value);
    printf("%s %zu %.4f\n", name, bytes, times[n / 2]);
    fflush(stdout);
}

/* All figures for the sizes of the command line: PROGRAM CPUS BUDGET_MS SIZE.. */
static void rma_tell_all(char **words, rma_operation read, rma_operation write, rma_operation get, rma_operation put) {
    const double budget = atof(words[2]);
    for (char **size = words + 3; *size; size++) {
        const size_t bytes = atol(*size);
        if (bytes == 0 || bytes > RMA_BYTES_MAX / RMA_RUN * 16) continue;
        rma_tell("read", bytes, read, budget);
        rma_tell("write", bytes, write, budget);
        rma_tell("get", bytes, get, budget);
        rma_tell("put", bytes, put, budget);
    }
}

/* Where operation i of a run of small ones is: next to the one before; large ones are all at the same place. */
static size_t rma_place(size_t bytes, long i) { return bytes <= 64 ? (i % RMA_RUN) * bytes : 0; }
