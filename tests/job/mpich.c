/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* An MPI program, to be started by bellwire run: MPICH's library finds what it needs in our PMI-1 server. With an argument, rank 1 aborts with it. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rank, size, i, bytes = 100000, sum = 0;
    char *block = malloc((size_t)bytes);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (i = 0; i < bytes; i++) block[i] = (char)(rank + i);
    MPI_Sendrecv_replace(block, bytes, MPI_CHAR, (rank + 1) % size, 0, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (i = 0; i < bytes; i++) sum -= block[i] != (char)((rank + size - 1) % size + i);
    if (argc > 1 && rank == 1) MPI_Abort(MPI_COMM_WORLD, atoi(argv[1]));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0) printf("mpich: all well: %d processes\n", size);
    return sum != size * (size - 1) / 2;
}
