/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What each operation costs on each scalar type, and in bulk: process 0 uses the memory of process 1 (its own, if it is alone). A table; with a file's name, JSON into that as well.
 *
 *   operations [MILLISECONDS for each figure, default 20] [FILE]
 *
 * read, write: one at a time, each done before the next. get, put: 64 at a time, then sync(). store: 64 at a time, and at the end of a figure until all have arrived. Nanoseconds for each. Bulk: GB/s.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <split-c/split-c.h>
#include <split-c/control.h>

enum { RUN = 64, LARGEST = 1 << 20 };
static const char *operations[] = {"read", "write", "get", "put", "store"};
enum { READ, WRITE, GET, PUT, STORE, OPERATIONS };
static double budget = 0.02;
static FILE *json;
static int json_count;

static void tell(const char *operation, const char *type, long bytes, double value, const char *unit) {
    if (json) fprintf(json, "%s\n  {\"operation\": \"%s\", \"type\": \"%s\", \"bytes\": %ld, \"value\": %.4g, \"unit\": \"%s\"}", json_count++ ? "," : "", operation, type, bytes, value, unit);
}

/* Runs of an operation until the budget is spent; the best third of them counts less what disturbs. */
static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
#define BEST(result, per, body)                                              \
    {                                                                        \
        double times[400], begin = get_seconds(), now = begin;               \
        int runs = 0;                                                        \
        while (runs < 400 && (runs < 5 || now - begin < budget)) {           \
            double start = now;                                              \
            body;                                                            \
            now = get_seconds();                                             \
            times[runs++] = (now - start) / (per);                           \
        }                                                                    \
        qsort(times, runs, sizeof *times, by_value);                         \
        result = times[runs / 3];                                            \
    }

#define TYPE(type, name)                                                                                                         \
    static type there_##name[RUN], here_##name[RUN];                                                                             \
    static void measure_##name(int other) {                                                                                      \
        type *global there = toglobal(other, there_##name);                                                                      \
        int of, i, round, rounds;                                                                                                \
        for (of = 0; of < OPERATIONS; of++) {                                                                                    \
            double seconds, once = get_seconds();                                                                                \
            volatile type sink;                                                                                                  \
            sink = *there;                                                                                                       \
            once = get_seconds() - once;                                                                                         \
            /* Long enough for the clock; short enough where a word takes a round trip. */                                       \
            rounds = once > 2e-6 ? 1 : 200;                                                                                      \
            switch (of) {                                                                                                        \
            case READ: BEST(seconds, RUN * rounds, for (round = 0; round < rounds; round++) for (i = 0; i < RUN; i++) here_##name[i] = there[i]); break; \
            case WRITE: BEST(seconds, RUN * rounds, for (round = 0; round < rounds; round++) for (i = 0; i < RUN; i++) there[i] = here_##name[i]); break; \
            case GET: BEST(seconds, RUN * rounds, for (round = 0; round < rounds; round++) { for (i = 0; i < RUN; i++) here_##name[i] := there[i]; sync(); }); break; \
            case PUT: BEST(seconds, RUN * rounds, for (round = 0; round < rounds; round++) { for (i = 0; i < RUN; i++) there[i] := here_##name[i]; sync(); }); break; \
            default: BEST(seconds, RUN * rounds, for (round = 0; round < rounds; round++) for (i = 0; i < RUN; i++) there[i] :- here_##name[i]); \
            }                                                                                                                    \
            printf("%s%9.2f", of ? "" : #type "\t", seconds * 1e9);                                                              \
            tell(operations[of], #type, sizeof(type), seconds * 1e9, "ns");                                                      \
        }                                                                                                                        \
        printf("\n");                                                                                                            \
    }
#define TYPES(X) X(char, c) X(short, s) X(int, i) X(long, l) X(float, f) X(double, d)
#define MEASURE(type, name) measure_##name(other);
TYPES(TYPE)

static char bulk_there[LARGEST], bulk_here[LARGEST];

static void measure_bulk(int other) {
    char *global there = toglobal(other, bulk_there);
    long bytes;
    int i, of;
    for (bytes = 64; bytes <= LARGEST; bytes *= 4) {
        const int rounds = bytes < 65536 ? 64 : 4;
        printf("%ld bytes\t", bytes);
        for (of = 0; of < OPERATIONS; of++) {
            double seconds;
            switch (of) {
            case READ: BEST(seconds, rounds, for (i = 0; i < rounds; i++) bulk_read(bulk_here, there, bytes)); break;
            case WRITE: BEST(seconds, rounds, for (i = 0; i < rounds; i++) bulk_write(there, bulk_here, bytes)); break;
            case GET: BEST(seconds, rounds, for (i = 0; i < rounds; i++) bulk_get(bulk_here, there, bytes); sync()); break;
            case PUT: BEST(seconds, rounds, for (i = 0; i < rounds; i++) bulk_put(there, bulk_here, bytes); sync()); break;
            default: BEST(seconds, rounds, for (i = 0; i < rounds; i++) bulk_store(there, bulk_here, bytes));
            }
            printf("%9.3f", bytes / seconds / 1e9);
            tell(operations[of], "bulk", bytes, bytes / seconds / 1e9, "GB/s");
        }
        printf("\n");
    }
    {
        double seconds;
        BEST(seconds, 4, for (i = 0; i < 4; i++) { memcpy(bulk_here, bulk_there, LARGEST); __asm__ volatile("" : : "r"(bulk_here) : "memory"); });
        printf("memcpy of %d bytes within a process: %.3f GB/s\n", LARGEST, LARGEST / seconds / 1e9);
        tell("memcpy", "bulk", LARGEST, LARGEST / seconds / 1e9, "GB/s");
    }
}

splitc_main(argc, argv)
int argc;
char **argv;
{
    const int other = PROCS > 1;
    if (argc > 1) budget = atof(argv[1]) / 1000;
    memset(bulk_there, 1, LARGEST);
    memset(bulk_here, 1, LARGEST);
    if (argc > 2) on_one {
        json = fopen(argv[2], "w");
        if (json == NULL) { perror(argv[2]); splitc_exit(1); }
        fprintf(json, "[");
    }
    barrier();
    on_one {
        int of;
        printf("%d processes; nanoseconds for each", PROCS);
        for (of = 0; of < OPERATIONS; of++) printf("%s%9s", of ? "" : "\n\t", operations[of]);
        printf("\n");
        TYPES(MEASURE)
        printf("GB/s\n");
        measure_bulk(other);
        if (json) { fprintf(json, "\n]\n"); fclose(json); }
    }
    all_store_sync();
    return 0;
}
