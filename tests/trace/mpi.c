/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A ping-pong of two MPI processes for check.sh: ROUNDS messages of 100 bytes each way, with tag 7.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    char buffer[100];
    int rank, size, rounds = argc > 1 ? atoi(argv[1]) : 100, i;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) MPI_Abort(MPI_COMM_WORLD, 2);
    memset(buffer, rank, sizeof buffer);
    MPI_Barrier(MPI_COMM_WORLD);
    for (i = 0; i < rounds; i++) {
        if (rank == 0) MPI_Send(buffer, sizeof buffer, MPI_CHAR, 1, 7, MPI_COMM_WORLD);
        MPI_Recv(buffer, sizeof buffer, MPI_CHAR, 1 - rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) MPI_Send(buffer, sizeof buffer, MPI_CHAR, 0, 7, MPI_COMM_WORLD);
    }
    if (rank == 0) printf("mpi: all well\n");
    MPI_Finalize();
    return 0;
}
