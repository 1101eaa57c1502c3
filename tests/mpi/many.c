// SPDX-License-Identifier: MIT OR Apache-2.0
// Many ranks on few processors: Barrier, Allreduce and Alltoall of small messages, as the MPI does them; then, unless told "collectives", everybody to everybody, so that there are all connections
// that there can be. Tells what it took: time, and memory of a rank.
//   many [ROUNDS [collectives]]
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EACH = 4 };

static int rank, size;

static void fail(const char *what, int round) {
    fprintf(stderr, "rank %d: %s is wrong in round %d\n", rank, what, round);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void one_round(int round, int *out, int *in) {
    MPI_Barrier(MPI_COMM_WORLD);
    long mine = rank + round, sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (sum != (long)size * (size - 1) / 2 + (long)size * round)
        fail("the sum", round);
    for (int i = 0; i < size * EACH; i++)
        out[i] = rank * 1000003 + i * 7 + round;
    MPI_Alltoall(out, EACH, MPI_INT, in, EACH, MPI_INT, MPI_COMM_WORLD);
    for (int from = 0; from < size; from++)
        for (int i = 0; i < EACH; i++)
            if (in[from * EACH + i] != from * 1000003 + (rank * EACH + i) * 7 + round)
                fail("what came from all", round);
}

// Everybody to everybody at once, without an algorithm that leaves pairs out: as many connections as there can be.
static void all_pairs(int round, int *out, int *in, MPI_Request *requests) {
    for (int other = 0; other < size; other++) {
        out[other] = rank * 1000 + other + round;
        MPI_Irecv(&in[other], 1, MPI_INT, other, round, MPI_COMM_WORLD, &requests[other]);
    }
    for (int i = 0; i < size; i++) {
        int other = (rank + i) % size;
        MPI_Isend(&out[other], 1, MPI_INT, other, round, MPI_COMM_WORLD, &requests[size + i]);
    }
    MPI_Waitall(2 * size, requests, MPI_STATUSES_IGNORE);
    for (int other = 0; other < size; other++)
        if (in[other] != other * 1000 + rank + round)
            fail("what everybody sent", round);
}

// KiB of a line of this process's status.
static long memory(const char *name) {
    char line[256];
    long value = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            value = atol(line + strlen(name));
    if (file)
        fclose(file);
    return value;
}

static void told(const char *what, const char *unit, long mine) {
    long most = 0, sum = 0;
    MPI_Reduce(&mine, &most, 1, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: %ld %s a rank, %ld at most\n", what, sum / size, unit, most);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int rounds = argc > 1 ? atoi(argv[1]) : 5;
    int *out = calloc((size_t)size * EACH, sizeof *out), *in = calloc((size_t)size * EACH, sizeof *in);
    MPI_Request *requests = calloc((size_t)size * 2, sizeof *requests);
    double start = MPI_Wtime();
    for (int round = 0; round < rounds; round++)
        one_round(round, out, in);
    told("collectives", "ms", (long)((MPI_Wtime() - start) * 1000));
    told("own memory", "KiB", memory("RssAnon:"));
    told("shared memory", "KiB", memory("RssShmem:"));
    start = MPI_Wtime();
    for (int round = 0; round < rounds && argc <= 2; round++)
        all_pairs(round, out, in, requests);
    told("all pairs", "ms", (long)((MPI_Wtime() - start) * 1000));
    told("own memory", "KiB", memory("RssAnon:"));
    told("shared memory", "KiB", memory("RssShmem:"));
    if (rank == 0)
        printf("many: all well, %d ranks\n", size);
    MPI_Finalize();
    return 0;
}
