/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Two ranks of MPI send each other a thousand numbers; rank 0 then asks `bellwire top` about itself
   and prints how many messages went over Bellwire. Fails if they were fewer. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 1000 };

/* The messages that this process sent through its virtual interfaces. */
static long over_bellwire(void) {
    char command[100], *line = NULL, *at;
    size_t room = 0;
    long sent = 0;
    FILE *top;
    snprintf(command, sizeof command, "bellwire top --once --json --interval 0.1 %d", (int)getpid());
    top = popen(command, "r");
    if (!top || getline(&line, &room, top) < 0) return -1;
    for (at = line; (at = strstr(at, "\"sent\":")); at += 7) sent += atol(at + 7);
    free(line);
    return pclose(top) == 0 ? sent : -1;
}

int main(int argc, char **argv) {
    int rank, size, number, tries, got = -1;
    long sent = ROUNDS;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (number = 0; number < ROUNDS; number++) {
        if (rank == 0) {
            MPI_Send(&number, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(&got, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (got != number + 1) MPI_Abort(MPI_COMM_WORLD, 1);
        } else if (rank == 1) {
            MPI_Recv(&got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            got++;
            MPI_Send(&got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
        }
    }
    if (rank == 0) {
        /* On a busy machine an answer may come too late. */
        for (sent = tries = 0; sent < ROUNDS && tries < 20; tries++) sent = over_bellwire();
        printf("MPI: %ld messages of rank 0 of %d went over Bellwire\n", sent, size);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* rank 1 stays: top shows interfaces while their peer is there */
    MPI_Finalize();
    return sent >= ROUNDS ? 0 : 1;
}
