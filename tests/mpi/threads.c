// SPDX-License-Identifier: MIT OR Apache-2.0
// MPI_THREAD_MULTIPLE: several threads of each rank talk to their like of the next rank, each in a communicator of its own, while rank pairs exchange long messages beside.
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, ROUNDS = 200, LONG = 100000 };

static int rank, size;
static MPI_Comm comms[THREADS];

static void *talk(void *argument) {
    int me = (int)(long)argument, right = (rank + 1) % size, left = (rank + size - 1) % size;
    int n = me == 0 ? LONG : 10 + me;
    int *out = malloc(sizeof(int) * (size_t)n), *in = malloc(sizeof(int) * (size_t)n);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < n; i++)
            out[i] = rank * 1000 + me * 100 + round + i;
        MPI_Sendrecv(out, n, MPI_INT, right, round, in, n, MPI_INT, left, round, comms[me], MPI_STATUS_IGNORE);
        for (int i = 0; i < n; i++)
            if (in[i] != left * 1000 + me * 100 + round + i) {
                fprintf(stderr, "rank %d thread %d round %d: wrong at %d\n", rank, me, round, i);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
    }
    free(out);
    free(in);
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (provided != MPI_THREAD_MULTIPLE) {
        fprintf(stderr, "MPI_THREAD_MULTIPLE is not there\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, talk, (void *)(long)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&comms[i]);
    if (rank == 0)
        printf("threads: all well, %d ranks\n", size);
    MPI_Finalize();
    return 0;
}
