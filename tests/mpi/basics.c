// SPDX-License-Identifier: MIT OR Apache-2.0
// An MPI program that asks much of what is under it: point-to-point with wildcards, probes and long messages; collectives; windows with puts, gets and accumulates.
// Every result is checked; rank 0 says so at the end.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

#define CHECK(what)                                                                                   \
    do {                                                                                              \
        if (!(what)) {                                                                                \
            fprintf(stderr, "rank %d: line %d: not so: %s\n", rank, __LINE__, #what);                 \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                             \
        }                                                                                             \
    } while (0)

static void fill(unsigned char *at, size_t n, int seed) {
    for (size_t i = 0; i < n; i++)
        at[i] = (unsigned char)(i * 31 + (i >> 8) + (size_t)seed);
}

static int holds(const unsigned char *at, size_t n, int seed) {
    for (size_t i = 0; i < n; i++)
        if (at[i] != (unsigned char)(i * 31 + (i >> 8) + (size_t)seed))
            return 0;
    return 1;
}

// Around the ring, in all lengths; both directions at once.
static void ring(void) {
    static const size_t lengths[] = {0, 1, 8, 64, 1000, 4096, 16320, 16321, 65536, 1000003, 5000000};
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t n = lengths[i];
        unsigned char *out = malloc(n + 1), *in = malloc(n + 1);
        fill(out, n, rank);
        MPI_Status status;
        MPI_Sendrecv(out, (int)n, MPI_BYTE, right, (int)i, in, (int)n, MPI_BYTE, left, (int)i, MPI_COMM_WORLD, &status);
        int count;
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK((size_t)count == n && holds(in, n, left));
        free(out);
        free(in);
    }
}

// Some MPIs do not get on with what is sent synchronously and taken by MPI_Mprobe.
#ifndef NO_MPROBE
#define NO_MPROBE 0
#endif

// Everybody sends to rank 0, which takes what comes, and in order from each.
static void many_to_one(void) {
    enum { EACH = 300 };
    if (rank != 0) {
        for (int i = 0; i < EACH; i++) {
            int message[2] = {rank, i};
            if (i % 7 == 0)
                MPI_Ssend(message, 2, MPI_INT, 0, 5, MPI_COMM_WORLD);
            else
                MPI_Send(message, 2, MPI_INT, 0, 5, MPI_COMM_WORLD);
        }
        return;
    }
    int *next = calloc((size_t)size, sizeof *next);
    for (int i = 0; i < EACH * (size - 1); i++) {
        int message[2];
        MPI_Status status;
        if (i % 3 == 0 && !NO_MPROBE) {
            MPI_Message handle;
            MPI_Mprobe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &handle, &status);
            MPI_Mrecv(message, 2, MPI_INT, &handle, &status);
        } else {
            MPI_Recv(message, 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        }
        CHECK(message[0] == status.MPI_SOURCE && message[1] == next[message[0]]++);
    }
    free(next);
}

// Many at a time, in all lengths, received in another order than sent.
static void many_at_a_time(void) {
    enum { N = 200 };
    static unsigned char *out[N], *in[N];
    MPI_Request requests[2 * N];
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    for (int i = 0; i < N; i++) {
        size_t n = (size_t)(i * 997 % 70000);
        out[i] = malloc(n + 1);
        in[i] = malloc(n + 1);
        fill(out[i], n, i);
        MPI_Isend(out[i], (int)n, MPI_BYTE, to, i, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = N - 1; i >= 0; i--)
        MPI_Irecv(in[i], 70000 < i * 997 % 70000 ? 0 : (int)(i * 997 % 70000), MPI_BYTE, from, i, MPI_COMM_WORLD, &requests[N + i]);
    MPI_Waitall(2 * N, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < N; i++) {
        CHECK(holds(in[i], (size_t)(i * 997 % 70000), i));
        free(in[i]);
        free(out[i]);
    }
    // A receive that nothing comes for.
    int nothing, cancelled;
    MPI_Status status;
    MPI_Irecv(&nothing, 1, MPI_INT, from, 9999, MPI_COMM_WORLD, &requests[0]);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(cancelled);
}

static void collectives(void) {
    for (int n = 1; n <= 100000; n *= 10) {
        double *in = malloc(sizeof(double) * (size_t)n), *out = malloc(sizeof(double) * (size_t)n);
        for (int i = 0; i < n; i++)
            in[i] = rank + i;
        MPI_Allreduce(in, out, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < n; i++)
            CHECK(out[i] == (double)size * i + size * (size - 1) / 2);
        MPI_Bcast(in, n, MPI_DOUBLE, size - 1, MPI_COMM_WORLD);
        CHECK(in[n - 1] == size - 1 + n - 1);
        free(in);
        free(out);
    }
    int *to = malloc(sizeof(int) * (size_t)size), *from = malloc(sizeof(int) * (size_t)size);
    for (int i = 0; i < size; i++)
        to[i] = rank * 1000 + i;
    MPI_Alltoall(to, 1, MPI_INT, from, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        CHECK(from[i] == i * 1000 + rank);
    MPI_Allgather(&rank, 1, MPI_INT, from, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        CHECK(from[i] == i);
    free(to);
    free(from);
    for (int i = 0; i < 100; i++)
        MPI_Barrier(MPI_COMM_WORLD);
}

static void one_sided(void) {
    enum { WORDS = 10000 };
    long *window;
    MPI_Win win;
    MPI_Win_allocate(sizeof(long) * WORDS, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
    memset(window, 0, sizeof(long) * WORDS);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    long *out = malloc(sizeof(long) * WORDS), *in = malloc(sizeof(long) * WORDS);
    for (int i = 0; i < WORDS; i++)
        out[i] = rank * 100000L + i;
    MPI_Win_fence(0, win);
    MPI_Put(out, WORDS, MPI_LONG, right, 0, WORDS, MPI_LONG, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < WORDS; i++)
        CHECK(window[i] == left * 100000L + i);
    MPI_Get(in, WORDS, MPI_LONG, right, 0, WORDS, MPI_LONG, win);
    MPI_Win_fence(0, win);
    CHECK(in[WORDS - 1] == rank * 100000L + WORDS - 1);
    memset(window, 0, sizeof(long) * WORDS);
    MPI_Win_fence(0, win);
    // Everybody adds to a counter of rank 0's, and each sees a value of its own.
    MPI_Win_lock_all(0, win);
    long one = 1, before, seen = 0;
    for (int i = 0; i < 100; i++) {
        MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 0, MPI_SUM, win);
        MPI_Win_flush(0, win);
        CHECK(before >= seen && before < 100L * size);
        seen = before + 1;
    }
    MPI_Accumulate(&one, 1, MPI_LONG, right, 1, 1, MPI_LONG, MPI_SUM, win);
    MPI_Win_flush_all(win);
    long zero = 0, swapped;
    MPI_Compare_and_swap(&one, &zero, &swapped, MPI_LONG, right, 2, win);
    MPI_Win_flush_all(win);
    CHECK(swapped == 0);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    if (rank == 0)
        CHECK(window[0] == 100L * size);
    CHECK(window[1] == 1 && window[2] == 1);
    MPI_Win_unlock(rank, win);
    MPI_Win_free(&win);
    free(out);
    free(in);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    ring();
    // What is received here is from anybody, with any tag: nobody goes on before.
    MPI_Barrier(MPI_COMM_WORLD);
    many_to_one();
    MPI_Barrier(MPI_COMM_WORLD);
    many_at_a_time();
    collectives();
    if (argc < 2 || strcmp(argv[1], "two-sided") != 0)
        one_sided();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("basics: all well, %d ranks\n", size);
    MPI_Finalize();
    return 0;
}
