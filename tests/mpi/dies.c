// SPDX-License-Identifier: MIT OR Apache-2.0
// The last rank is killed in the midst of traffic, as by kill -9. The job has to end, not well; nobody may wait for ever.
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    enum { LONG = 1 << 20 };
    char *out = malloc(LONG), *in = malloc(LONG);
    memset(out, rank, LONG);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (int i = 0;; i++) {
        if (rank == size - 1 && i == 50)
            raise(SIGKILL);
        int n = i % 3 == 0 ? LONG : 8;
        MPI_Sendrecv(out, n, MPI_BYTE, right, 0, in, n, MPI_BYTE, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}
