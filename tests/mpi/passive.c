// SPDX-License-Identifier: MIT OR Apache-2.0
// Passive targets: rank 0 owns a window and waits in a barrier, or computes; the others put and
// get, and flush each operation. While rank 0 computes it calls nothing of MPI, until it sees in
// its own memory that they are done: a network that needed its program for that would wait forever.
// In the barrier it is also added to: MPICH may do that by messages, for which it has to be called.
//
//   passive [TIMES]
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUM, CELLS = 64 };
#define CHECK(what) do { if (!(what)) { printf("rank %d, line %d: %s\n", rank, __LINE__, #what); MPI_Abort(MPI_COMM_WORLD, 1); } } while (0)

static int rank, ranks, times = 300;
static long *cells;
static MPI_Win win;

static void reach(int computes) {
	long one = 1, was = 0, last = -1, back;
	for (long i = 1; i <= times; i++) {
		MPI_Put(&i, 1, MPI_LONG, 0, rank, 1, MPI_LONG, win);
		MPI_Win_flush(0, win);
		MPI_Get(&back, 1, MPI_LONG, 0, rank, 1, MPI_LONG, win);
		MPI_Win_flush(0, win);
		CHECK(back == i);
		if (computes) continue;
		MPI_Fetch_and_op(&one, &was, MPI_LONG, 0, SUM, MPI_SUM, win);
		MPI_Win_flush(0, win);
		CHECK(was > last && was < (long)times * (ranks - 1));
		last = was;
	}
}

static int all_done(void) {
	for (int of = 1; of < ranks; of++)
		if (((volatile long *)cells)[of] != times) return 0;
	return 1;
}

static void try(int computes) {
	if (rank == 0) memset(cells, 0, CELLS * sizeof *cells);
	MPI_Win_sync(win);
	MPI_Barrier(MPI_COMM_WORLD);
	double began = MPI_Wtime();
	if (rank) {
		reach(computes);
	} else if (computes) {
		while (!all_done());
	}
	// For those who look; nothing is judged by it.
	double us = (MPI_Wtime() - began) * 1e6 / times / (computes ? 2 : 3);
	if (rank == 1) printf("target %s: %.1f us an operation\n", computes ? "computes" : "waits", us);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_sync(win);
	if (rank == 0 && !computes) CHECK(cells[SUM] == (long)times * (ranks - 1));
}

int main(int argc, char **argv) {
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc > 1) times = atoi(argv[1]);
	if (ranks > CELLS) MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Win_allocate(CELLS * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &cells, &win);
	MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
	try(0);
	try(1);
	MPI_Win_unlock_all(win);
	MPI_Win_free(&win);
	if (rank == 0) printf("passive: all well, %d ranks\n", ranks);
	MPI_Finalize();
	return 0;
}
