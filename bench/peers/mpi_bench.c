/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two-process MPI benchmark run by `bellwire perf --compare`: half round trip, message rate and one-way bandwidth.
 *
 * It is compiled at run time with the MPI that is installed, so that each MPI is measured through its own compiler
 * wrapper. Output is one figure a line, "what size value": latency in nanoseconds (half a round trip), rate in
 * messages a second, bandwidth in bytes a second. Received data is not read, as in the usual MPI benchmarks.
 *
 * Usage: mpi_bench CPU0,CPU1 BUDGET_MS SIZE...     (CPU numbers may be "-": no pinning)
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW = 64, RATE_WINDOW = 256, SIZE_MAX_BYTES = 4 << 20 };

static int rank;
static char *buffer_out, *buffer_in;

static void pin(const char *list) {
    int cpu[2];
    cpu_set_t set;
    if (sscanf(list, "%d,%d", &cpu[0], &cpu[1]) != 2)
        return;
    CPU_ZERO(&set);
    CPU_SET(cpu[rank], &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        perror("mpi_bench: sched_setaffinity");
}

static void ping_pong(int size, int count) {
    for (int i = 0; i < count; i++) {
        if (rank == 0) {
            MPI_Send(buffer_out, size, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(buffer_in, size, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buffer_in, size, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer_out, size, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
        }
    }
}

/* `count` windows of `window` messages from rank 0 to rank 1, each window answered by one small message. */
static void stream(int size, int window, int count) {
    static MPI_Request requests[RATE_WINDOW];
    char answer = 0;
    for (int i = 0; i < count; i++) {
        for (int w = 0; w < window; w++) {
            if (rank == 0)
                MPI_Isend(buffer_out, size, MPI_CHAR, 1, 2, MPI_COMM_WORLD, &requests[w]);
            else
                MPI_Irecv(buffer_in, size, MPI_CHAR, 0, 2, MPI_COMM_WORLD, &requests[w]);
        }
        MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(&answer, 1, MPI_CHAR, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(&answer, 1, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
    }
}

/* Both ranks agree on a repeat count that fills the budget, given the time of a short trial. */
static int repeats(double trial_seconds, int trial_count, double budget_seconds) {
    double per_one = trial_seconds / trial_count;
    int count = per_one > 0 ? (int)(budget_seconds / per_one) : trial_count;
    if (count < 2)
        count = 2;
    if (count > 1000000)
        count = 1000000;
    MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return count;
}

static void latency(int size, double budget) {
    double start = MPI_Wtime();
    ping_pong(size, 20);
    int count = repeats(MPI_Wtime() - start, 20, budget / 4);
    ping_pong(size, count); /* warm-up */
    count = count * 3;
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    ping_pong(size, count);
    if (rank == 0)
        printf("latency %d %.3f\n", size, (MPI_Wtime() - start) * 1e9 / count / 2);
}

static void rate_or_bandwidth(const char *what, int size, int window, double scale, double budget) {
    double start = MPI_Wtime();
    stream(size, window, 2);
    int count = repeats(MPI_Wtime() - start, 2, budget / 4);
    stream(size, window, count); /* warm-up */
    count = count * 3;
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    stream(size, window, count);
    if (rank == 0)
        printf("%s %d %.1f\n", what, size, scale * window * count / (MPI_Wtime() - start));
}

int main(int argc, char **argv) {
    alarm(30); /* whatever happens to the launcher, nothing is left behind */
    MPI_Init(&argc, &argv);
    int processes;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    if (argc < 4 || processes != 2) {
        fprintf(stderr, "usage: mpirun -n 2 mpi_bench CPU0,CPU1 BUDGET_MS SIZE...\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    pin(argv[1]);
    double budget = atof(argv[2]) * 1e-3;
    if (posix_memalign((void **)&buffer_out, 4096, SIZE_MAX_BYTES) != 0 ||
        posix_memalign((void **)&buffer_in, 4096, SIZE_MAX_BYTES) != 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
    memset(buffer_out, 1, SIZE_MAX_BYTES);
    memset(buffer_in, 2, SIZE_MAX_BYTES);
    for (int i = 3; i < argc; i++) {
        int size = atoi(argv[i]);
        if (size < 1 || size > SIZE_MAX_BYTES)
            continue;
        latency(size, budget);
        if (size <= 64)
            rate_or_bandwidth("rate", size, RATE_WINDOW, 1.0, budget);
        if (size >= 1024)
            rate_or_bandwidth("bandwidth", size, WINDOW, (double)size, budget);
    }
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
