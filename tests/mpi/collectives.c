// SPDX-License-Identifier: MIT OR Apache-2.0
// Every collective operation of MPI 3, blocking and not, from every root, of lengths on both sides
// of where algorithms change; each element that arrives is checked.
//   collectives [INTS ..]       default: 1 1000 60000
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, is_waited;
static int *out, *in, *counts, *places, *from_counts, *from_places;

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "rank %d: line %d: %s\n", rank, __LINE__, #what); \
            MPI_Abort(MPI_COMM_WORLD, 1); \
        } \
    } while (0)
// The operation, or its form that is begun and waited for.
#define DO(name, ...) \
    do { \
        MPI_Request request; \
        if (is_waited) { \
            MPI_I##name(__VA_ARGS__, MPI_COMM_WORLD, &request); \
            MPI_Wait(&request, MPI_STATUS_IGNORE); \
        } else \
            blocking_##name(__VA_ARGS__, MPI_COMM_WORLD); \
    } while (0)
#define blocking_bcast MPI_Bcast
#define blocking_gather MPI_Gather
#define blocking_gatherv MPI_Gatherv
#define blocking_scatter MPI_Scatter
#define blocking_scatterv MPI_Scatterv
#define blocking_allgather MPI_Allgather
#define blocking_allgatherv MPI_Allgatherv
#define blocking_alltoall MPI_Alltoall
#define blocking_alltoallv MPI_Alltoallv
#define blocking_alltoallw MPI_Alltoallw
#define blocking_reduce MPI_Reduce
#define blocking_allreduce MPI_Allreduce
#define blocking_reduce_scatter MPI_Reduce_scatter
#define blocking_reduce_scatter_block MPI_Reduce_scatter_block
#define blocking_scan MPI_Scan
#define blocking_exscan MPI_Exscan

static int word(int whose, int i) { return whose * 7919 + i * 3 + 1; }
static int sum(int of, int i) { // of words of ranks 0 to of - 1
    int s = 0;
    for (int r = 0; r < of; r++)
        s += word(r, i);
    return s;
}
static void prepare(int n) {
    for (int i = 0; i < n; i++)
        out[i] = word(rank, i);
    memset(in, 0xff, sizeof(int) * (size_t)n);
}
// Rank r sends or gets r + 1 of n elements less than the next one; rank 1 none at all.
static int part(int r, int n) { return r == 1 ? 0 : n / (r + 1); }

static void rooted(int n, int root) {
    prepare(n);
    if (rank == root)
        memcpy(in, out, sizeof(int) * (size_t)n);
    DO(bcast, in, n, MPI_INT, root);
    for (int i = 0; i < n; i++)
        CHECK(in[i] == word(root, i));

    prepare(n);
    DO(reduce, out, in, n, MPI_INT, MPI_SUM, root);
    for (int i = 0; i < n && rank == root; i++)
        CHECK(in[i] == sum(size, i));

    prepare(n);
    memset(in, 0xff, sizeof(int) * (size_t)n * (size_t)size);
    DO(gather, out, n, MPI_INT, in, n, MPI_INT, root);
    for (int i = 0; i < n * size && rank == root; i++)
        CHECK(in[i] == word(i / n, i % n));

    for (int i = 0; i < n * size; i++)
        out[i] = word(root, i);
    DO(scatter, out, n, MPI_INT, in, n, MPI_INT, root);
    for (int i = 0; i < n; i++)
        CHECK(in[i] == word(root, rank * n + i));

    int total = 0;
    for (int r = 0; r < size; r++) {
        counts[r] = part(r, n);
        places[r] = total;
        total += counts[r];
    }
    prepare(n);
    DO(gatherv, out, counts[rank], MPI_INT, in, counts, places, MPI_INT, root);
    for (int r = 0; r < size && rank == root; r++)
        for (int i = 0; i < counts[r]; i++)
            CHECK(in[places[r] + i] == word(r, i));

    for (int i = 0; i < total; i++)
        out[i] = word(root, i);
    DO(scatterv, out, counts, places, MPI_INT, in, counts[rank], MPI_INT, root);
    for (int i = 0; i < counts[rank]; i++)
        CHECK(in[i] == word(root, places[rank] + i));
}

static void of_all(int n) {
    prepare(n);
    DO(allreduce, out, in, n, MPI_INT, MPI_SUM);
    for (int i = 0; i < n; i++)
        CHECK(in[i] == sum(size, i));
    DO(allreduce, out, in, n, MPI_INT, MPI_MAX);
    for (int i = 0; i < n; i++)
        CHECK(in[i] == word(size - 1, i));
    DO(scan, out, in, n, MPI_INT, MPI_SUM);
    for (int i = 0; i < n; i++)
        CHECK(in[i] == sum(rank + 1, i));
    DO(exscan, out, in, n, MPI_INT, MPI_SUM);
    for (int i = 0; i < n && rank > 0; i++)
        CHECK(in[i] == sum(rank, i));

    prepare(n);
    DO(allgather, out, n, MPI_INT, in, n, MPI_INT);
    for (int i = 0; i < n * size; i++)
        CHECK(in[i] == word(i / n, i % n));
    int total = 0;
    for (int r = 0; r < size; r++) {
        counts[r] = part(r, n);
        places[r] = total;
        total += counts[r];
    }
    DO(allgatherv, out, counts[rank], MPI_INT, in, counts, places, MPI_INT);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < counts[r]; i++)
            CHECK(in[places[r] + i] == word(r, i));

    prepare(n * size);
    DO(reduce_scatter_block, out, in, n, MPI_INT, MPI_SUM);
    for (int i = 0; i < n; i++)
        CHECK(in[i] == sum(size, rank * n + i));
    DO(reduce_scatter, out, in, counts, MPI_INT, MPI_SUM);
    for (int i = 0; i < counts[rank]; i++)
        CHECK(in[i] == sum(size, places[rank] + i));

    prepare(n * size);
    DO(alltoall, out, n, MPI_INT, in, n, MPI_INT);
    for (int i = 0; i < n * size; i++)
        CHECK(in[i] == word(i / n, rank * n + i % n));
    // To rank r goes its part; so each gets as much from everybody.
    for (int r = 0; r < size; r++) {
        from_counts[r] = part(rank, n);
        from_places[r] = r * n;
        places[r] = r * n;
    }
    memset(in, 0xff, sizeof(int) * (size_t)n * (size_t)size);
    DO(alltoallv, out, counts, places, MPI_INT, in, from_counts, from_places, MPI_INT);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++)
            CHECK(in[r * n + i] == (i < from_counts[r] ? word(r, rank * n + i) : -1));
    MPI_Datatype types[size];
    for (int r = 0; r < size; r++) {
        types[r] = MPI_INT;
        from_places[r] *= (int)sizeof(int);
        places[r] *= (int)sizeof(int);
    }
    memset(in, 0xff, sizeof(int) * (size_t)n * (size_t)size);
    DO(alltoallw, out, counts, places, types, in, from_counts, from_places, types);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++)
            CHECK(in[r * n + i] == (i < from_counts[r] ? word(r, rank * n + i) : -1));
}

// With the neighbours of a ring.
static void neighbours(int n) {
    MPI_Comm ring;
    MPI_Request request;
    int round = 1, left = (rank + size - 1) % size, right = (rank + 1) % size;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &round, 0, &ring);
    prepare(2 * n);
    if (is_waited) {
        MPI_Ineighbor_allgather(out, n, MPI_INT, in, n, MPI_INT, ring, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else
        MPI_Neighbor_allgather(out, n, MPI_INT, in, n, MPI_INT, ring);
    for (int i = 0; i < n; i++)
        CHECK(in[i] == word(left, i) && in[n + i] == word(right, i));
    if (is_waited) {
        MPI_Ineighbor_alltoall(out, n, MPI_INT, in, n, MPI_INT, ring, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else
        MPI_Neighbor_alltoall(out, n, MPI_INT, in, n, MPI_INT, ring);
    // With two ranks both neighbours are the same; the standard pairs directions.
    if (size > 2)
        for (int i = 0; i < n; i++)
            CHECK(in[i] == word(left, n + i) && in[n + i] == word(right, i));
    MPI_Comm_free(&ring);
}

static void of_length(int n) {
    for (is_waited = 0; is_waited < 2; is_waited++) {
        for (int root = 0; root < size; root += n > 10000 ? 3 : 1)
            rooted(n, root);
        of_all(n);
        neighbours(n);
        if (is_waited) {
            MPI_Request request;
            MPI_Ibarrier(MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else
            MPI_Barrier(MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv) {
    static const char *usual[] = {"", "1", "1000", "60000"};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int count = argc > 1 ? argc : 4;
    for (int k = 1; k < count; k++) {
        int n = atoi(argc > 1 ? argv[k] : usual[k]);
        size_t words = (size_t)n * (size_t)(size > 2 ? size : 2), ranks = (size_t)size * sizeof(int);
        out = malloc(words * sizeof(int)), in = malloc(words * sizeof(int));
        counts = malloc(ranks), places = malloc(ranks), from_counts = malloc(ranks), from_places = malloc(ranks);
        CHECK(n > 0 && out && in && counts && places && from_counts && from_places);
        of_length(n);
        free(out), free(in), free(counts), free(places), free(from_counts), free(from_places);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("collectives: all well, %d ranks\n", size);
    MPI_Finalize();
    return 0;
}
