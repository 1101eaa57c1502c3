/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * MPI's remote memory between two ranks, for `bellwire gas --compare`: read and write are MPI_Get and MPI_Put, each with a flush; get and put are 64 of them, then a flush. The memory is the MPI's own
 * (MPI_Win_allocate), so that it may share it; one epoch lasts for the whole run.
 *
 * Usage: mpi_rma CPU0,CPU1 BUDGET_MS SIZE...
 */
#include "rma.h"

#include <mpi.h>

static MPI_Win window;
static char *here;

static void each(int is_get, size_t bytes, long count, int run) {
    for (long i = 0; i < count; i++) {
        const size_t at = rma_place(bytes, i);
        if (is_get)
            MPI_Get(here + at, (int)bytes, MPI_CHAR, 1, (MPI_Aint)at, (int)bytes, MPI_CHAR, window);
        else
            MPI_Put(here + at, (int)bytes, MPI_CHAR, 1, (MPI_Aint)at, (int)bytes, MPI_CHAR, window);
        if ((i + 1) % run == 0) MPI_Win_flush(1, window);
    }
    MPI_Win_flush(1, window);
}
static void read_each(size_t bytes, long count) { each(1, bytes, count, 1); }
static void write_each(size_t bytes, long count) { each(0, bytes, count, 1); }
static void get_run(size_t bytes, long count) { each(1, bytes, count, RMA_RUN); }
static void put_run(size_t bytes, long count) { each(0, bytes, count, RMA_RUN); }

int main(int argc, char **argv) {
    int rank;
    char *base;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    rma_pin(argv[1], rank);
    MPI_Win_allocate(RMA_BYTES_MAX, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    memset(base, 1, RMA_BYTES_MAX);
    here = aligned_alloc(4096, RMA_BYTES_MAX);
    memset(here, 1, RMA_BYTES_MAX);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) rma_tell_all(argv, read_each, write_each, get_run, put_run);
    /* Here the other rank waits, and answers where the MPI needs it to. */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
