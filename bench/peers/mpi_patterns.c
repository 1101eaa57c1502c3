/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The patterns that `bellwire bench mpi` and `bellwire perf --compare` measure, after the Intel and
 * the OSU benchmarks: a ping-pong, streams by bytes and by messages, an exchange around a ring,
 * Allreduce, Barrier.
 *
 * It is compiled at run time with the MPI that is installed. Output is one figure a line, "pattern
 * size value": nanoseconds of a call (of half a round trip for the ping-pong), bytes a second for the
 * stream, messages a second for the rate. The last result is compared with the data sent; received
 * data is not read otherwise, as in the usual benchmarks.
 *
 * Usage: mpi_patterns CPU,CPU|- BUDGET_MS PATTERN:SIZE,... ...     ("-": no pinning)
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW = 64, RATE_WINDOW = 256, SIZE_MAX_BYTES = 4 << 20, COUNT_MAX = 1 << 20 };

static int rank, ranks;
static char *out, *in;

typedef void pattern_f(int size, int count);

static void pin(const char *list) {
    int cpu[2];
    cpu_set_t set;
    if (sscanf(list, "%d,%d", &cpu[0], &cpu[1]) != 2)
        return;
    CPU_ZERO(&set);
    CPU_SET(cpu[rank % 2], &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        perror("mpi_patterns: sched_setaffinity");
}

static void ping_pong(int size, int count) {
    for (int i = 0; i < count && rank < 2; i++) {
        if (rank == 0)
            MPI_Send(out, size, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(in, size, MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(out, size, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    }
}

/* `count` windows of messages from rank 0 to rank 1, each window answered by one small message. */
static void windows(int size, int count, int window) {
    static MPI_Request requests[RATE_WINDOW];
    char answer = 0;
    for (int i = 0; i < count && rank < 2; i++) {
        for (int w = 0; w < window; w++) {
            if (rank == 0)
                MPI_Isend(out, size, MPI_CHAR, 1, 2, MPI_COMM_WORLD, &requests[w]);
            else
                MPI_Irecv(in, size, MPI_CHAR, 0, 2, MPI_COMM_WORLD, &requests[w]);
        }
        MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(&answer, 1, MPI_CHAR, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(&answer, 1, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
    }
}

static void stream(int size, int count) {
    windows(size, count, WINDOW);
}

static void burst(int size, int count) {
    windows(size, count, RATE_WINDOW);
}

/* Each to its right neighbour, from its left one. */
static void exchange(int size, int count) {
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    for (int i = 0; i < count; i++)
        MPI_Sendrecv(out, size, MPI_CHAR, right, 4, in, size, MPI_CHAR, left, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void all_reduce(int size, int count) {
    for (int i = 0; i < count; i++)
        MPI_Allreduce(out, in, size / (int)sizeof(float), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void barrier(int size, int count) {
    (void)size;
    for (int i = 0; i < count; i++)
        MPI_Barrier(MPI_COMM_WORLD);
}

static const struct {
    const char *name;
    pattern_f *run;
    double per_count; /* of what one count is worth of the unit: half a round trip, one call */
} patterns[] = {{"latency", ping_pong, 2}, {"bandwidth", stream, WINDOW}, {"rate", burst, RATE_WINDOW}, {"sendrecv", exchange, 1}, {"allreduce", all_reduce, 1}, {"barrier", barrier, 1}};

/* Numbers, so that a sum shows whose were added; as bytes they tell the rank as well. */
static void fill(int size) {
    for (int i = 0; i < size / (int)sizeof(float); i++)
        ((float *)out)[i] = (float)(rank + 1 + i % 7);
    memset(in, 0xff, (size_t)size);
}

static void check(const char *name, int size) {
    int from = name[0] == 's' ? (rank + ranks - 1) % ranks : 1 - rank, numbers = size / (int)sizeof(float), wrong = 0;
    if (name[0] != 'a' && name[0] != 's' && (rank > 1 || ((name[0] == 'b' || name[0] == 'r') && rank == 0)))
        return;
    for (int i = 0; i < numbers; i++) {
        float wanted = name[0] == 'a' ? (float)(ranks * (ranks + 1) / 2 + ranks * (i % 7)) : (float)(from + 1 + i % 7);
        wrong += ((float *)in)[i] != wanted;
    }
    if (wrong) {
        fprintf(stderr, "mpi_patterns: error: %s of %d bytes: %d of %d numbers are wrong at rank %d\n", name, size, wrong, numbers, rank);
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
}

/* How long `count` of it take, by rank 0's clock; the same number everywhere. */
static double timed(pattern_f *run, int size, int count) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    run(size, count);
    double seconds = MPI_Wtime() - start;
    MPI_Bcast(&seconds, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return seconds;
}

/* A library stands still now and then, once for many messages: it registers memory, for example,
   which takes as long as thousands of them. */
static double faster_of_two(pattern_f *run, int size, int count) {
    double first = timed(run, size, count), second = timed(run, size, count);
    return first < second ? first : second;
}

static void measure(int which, int size, double budget) {
    pattern_f *run = patterns[which].run;
    int count = 1;
    double seconds = faster_of_two(run, size, count);
    /* Warms up, too. */
    while (seconds < budget / 4 && count < COUNT_MAX)
        seconds = faster_of_two(run, size, count *= 2);
    double wanted = count * budget / seconds;
    count = wanted < 2 ? 2 : wanted > COUNT_MAX ? COUNT_MAX : (int)wanted;
    fill(size);
    seconds = timed(run, size, count);
    check(patterns[which].name, size);
    double each = seconds / count / patterns[which].per_count;
    if (rank == 0)
        printf("%s %d %.3f\n", patterns[which].name, size, run == stream ? size / each : run == burst ? 1 / each : each * 1e9);
}

static void measure_all(char *argument, double budget) {
    char *sizes = strchr(argument, ':');
    if (!sizes)
        return;
    *sizes++ = 0;
    for (int which = 0; which < (int)(sizeof patterns / sizeof *patterns); which++) {
        if (strcmp(argument, patterns[which].name) != 0)
            continue;
        for (char *text = strtok(sizes, ","); text; text = strtok(NULL, ",")) {
            int size = atoi(text);
            if (size >= 0 && size <= SIZE_MAX_BYTES)
                measure(which, size, budget);
        }
    }
}

int main(int argc, char **argv) {
    alarm(60); /* whatever happens to the launcher, nothing is left behind */
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 4 || ranks < 2) {
        fprintf(stderr, "usage: mpiexec -n RANKS mpi_patterns CPU,CPU|- BUDGET_MS PATTERN:SIZE,... ...\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    pin(argv[1]);
    if (posix_memalign((void **)&out, 4096, SIZE_MAX_BYTES) != 0 || posix_memalign((void **)&in, 4096, SIZE_MAX_BYTES) != 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
    fill(SIZE_MAX_BYTES);
    for (int i = 3; i < argc; i++)
        measure_all(argv[i], atof(argv[2]) * 1e-3);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
