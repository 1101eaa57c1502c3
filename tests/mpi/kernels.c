// SPDX-License-Identifier: MIT OR Apache-2.0
// The kernels that the NAS parallel benchmarks are named after, written anew and small: how they
// communicate is what is tried. Each checks its result against what it must be, whatever the ranks.
//   kernels [SCALE]       1 by default
#include <complex.h>
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "rank %d: line %d: %s\n", rank, __LINE__, #what); \
            MPI_Abort(MPI_COMM_WORLD, 1); \
        } \
    } while (0)

static uint64_t mixed(uint64_t x) { // splitmix64: a number of a sequence by its place
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}
static long from(long n, int r) { return n * r / size; } // the first of rank r's share of n

// EP: points in a square, counted by their distance; two sums of all ranks.
static void embarrassingly_parallel(long n) {
    long counts[10] = {0}, all[10], total = 0;
    for (long i = from(n, rank); i < from(n, rank + 1); i++) {
        double x = (double)(mixed((uint64_t)i * 2) >> 11) / 0x1p53, y = (double)(mixed((uint64_t)i * 2 + 1) >> 11) / 0x1p53;
        counts[(int)fmin(9, 10 * (x * x + y * y) / 2)]++;
    }
    MPI_Allreduce(counts, all, 10, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < 10; i++)
        total += all[i];
    CHECK(total == n);
    // A quarter of a circle: x^2 + y^2 < 1.
    double inside = (double)(all[0] + all[1] + all[2] + all[3] + all[4]) / (double)n;
    CHECK(fabs(inside - acos(-1) / 4) < 0.02);
}

// IS: keys to the rank whose range they are in; sorted, none lost.
static void integer_sort(long n) {
    long own = from(n, rank + 1) - from(n, rank), sums[2] = {0}, all[2];
    uint32_t *keys = malloc((size_t)(own + 1) * 4), *sent = malloc((size_t)(own + 1) * 4);
    int *to = calloc((size_t)size * 4, sizeof(int)), *at = to + size, *come = at + size, *lies = come + size;
    CHECK(keys && sent && to);
    for (long i = 0; i < own; i++) {
        keys[i] = (uint32_t)mixed((uint64_t)(from(n, rank) + i));
        to[(uint64_t)keys[i] * (uint64_t)size >> 32]++;
    }
    MPI_Alltoall(to, 1, MPI_INT, come, 1, MPI_INT, MPI_COMM_WORLD);
    for (int r = 1; r < size; r++) {
        at[r] = at[r - 1] + to[r - 1];
        lies[r] = lies[r - 1] + come[r - 1];
    }
    int next[size];
    memcpy(next, at, sizeof next);
    for (long i = 0; i < own; i++)
        sent[next[(uint64_t)keys[i] * (uint64_t)size >> 32]++] = keys[i];
    int mine = lies[size - 1] + come[size - 1];
    uint32_t *got = malloc((size_t)(mine + 1) * 4), least = UINT32_MAX, most = 0, before = 0;
    CHECK(got);
    MPI_Alltoallv(sent, to, at, MPI_UINT32_T, got, come, lies, MPI_UINT32_T, MPI_COMM_WORLD);
    for (int i = 0; i < mine; i++) {
        least = got[i] < least ? got[i] : least;
        most = got[i] > most ? got[i] : most;
        sums[0] += got[i];
    }
    for (long i = 0; i < own; i++)
        sums[1] += keys[i];
    int left = rank ? rank - 1 : MPI_PROC_NULL, right = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    MPI_Sendrecv(&most, 1, MPI_UINT32_T, right, 0, &before, 1, MPI_UINT32_T, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(mine == 0 || before <= least);
    MPI_Allreduce(sums, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    CHECK(all[0] == all[1]);
    long number = mine, numbers;
    MPI_Allreduce(&number, &numbers, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    CHECK(numbers == n);
    free(keys), free(sent), free(to), free(got);
}

// MG and CG: a symmetric matrix of three diagonals, shared out by rows. The neighbours' ends are
// exchanged in each step, and two scalar products are sums of all ranks.
static double product(const double *a, const double *b, long n) {
    double s = 0, all;
    for (long i = 1; i <= n; i++)
        s += a[i] * b[i];
    MPI_Allreduce(&s, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}
static void conjugate_gradient(long n) {
    long own = from(n, rank + 1) - from(n, rank);
    size_t words = (size_t)own + 2;
    double *x = calloc(words * 4, sizeof(double)), *r = x + words, *p = r + words, *q = p + words;
    int left = rank ? rank - 1 : MPI_PROC_NULL, right = rank < size - 1 ? rank + 1 : MPI_PROC_NULL, steps = 0;
    CHECK(x && own > 0);
    for (long i = 1; i <= own; i++)
        r[i] = p[i] = 1;
    double rr = product(r, r, own), first = rr;
    while (rr > 1e-20 * first && steps++ < 200) {
        MPI_Request requests[4];
        p[0] = p[own + 1] = 0;
        MPI_Irecv(&p[0], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(&p[own + 1], 1, MPI_DOUBLE, right, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(&p[own], 1, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(&p[1], 1, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        for (long i = 1; i <= own; i++)
            q[i] = 4 * p[i] - p[i - 1] - p[i + 1];
        double alpha = rr / product(p, q, own), old = rr;
        for (long i = 1; i <= own; i++) {
            x[i] += alpha * p[i];
            r[i] -= alpha * q[i];
        }
        rr = product(r, r, own);
        for (long i = 1; i <= own; i++)
            p[i] = r[i] + rr / old * p[i];
    }
    CHECK(rr <= 1e-20 * first);
    // Far from both ends the solution is 1/2: 4x - x - x = 1.
    if (rank == size / 2 && size > 1)
        CHECK(fabs(x[own / 2 + 1] - 0.5) < 1e-6);
    free(x);
}

// FT: a transform of two dimensions by rows, a transposition by all to all, rows again; and back.
static void transform(double complex *a, int n, int sign) {
    for (int i = 1, j = 0; i < n; i++) {
        int bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            double complex t = a[i];
            a[i] = a[j], a[j] = t;
        }
    }
    for (int length = 2; length <= n; length *= 2)
        for (int i = 0; i < n; i += length)
            for (int k = 0; k < length / 2; k++) {
                double complex u = a[i + k], v = a[i + k + length / 2] * cexp(sign * 2 * acos(-1) * I * k / length);
                a[i + k] = u + v, a[i + k + length / 2] = u - v;
            }
}
static void transposed(double complex *a, double complex *b, int n) {
    int rows = n / size;
    for (int r = 0; r < size; r++)
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < rows; j++)
                b[(r * rows + j) * rows + i] = a[i * n + r * rows + j];
    MPI_Alltoall(b, rows * rows, MPI_C_DOUBLE_COMPLEX, a, rows * rows, MPI_C_DOUBLE_COMPLEX, MPI_COMM_WORLD);
    memcpy(b, a, sizeof *a * (size_t)rows * (size_t)n);
    for (int r = 0; r < size; r++)
        for (int j = 0; j < rows; j++)
            for (int i = 0; i < rows; i++)
                a[j * n + r * rows + i] = b[(r * rows + j) * rows + i];
}
static void fourier(int n) {
    int rows = n / size;
    size_t words = (size_t)rows * (size_t)n;
    double complex *a = malloc(words * sizeof *a), *b = malloc(words * sizeof *a);
    CHECK(a && b && rows * size == n);
    for (size_t i = 0; i < words; i++)
        a[i] = (double)(mixed((size_t)rank * words + i) >> 40);
    double energy[2] = {0}, all[2];
    for (size_t i = 0; i < words; i++)
        energy[0] += creal(a[i] * conj(a[i]));
    for (int sign = -1; sign <= 1; sign += 2) {
        for (int turn = 0; turn < 2; turn++) {
            for (int i = 0; i < rows; i++)
                transform(a + (size_t)i * (size_t)n, n, sign);
            transposed(a, b, n);
        }
        for (size_t i = 0; i < words && sign < 0; i++)
            energy[1] += creal(a[i] * conj(a[i]));
    }
    MPI_Allreduce(energy, all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    double cells = (double)n * n; // Parseval
    CHECK(fabs(all[1] / cells / all[0] - 1) < 1e-9);
    for (size_t i = 0; i < words; i++)
        CHECK(cabs(a[i] / cells - (double)(mixed((size_t)rank * words + i) >> 40)) < 1e-3);
    free(a), free(b);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int scale = argc > 1 ? atoi(argv[1]) : 1;
    CHECK(scale > 0 && (size & (size - 1)) == 0);
    embarrassingly_parallel(200000L * scale);
    integer_sort(200000L * scale);
    conjugate_gradient(100000L * scale);
    fourier(256 * scale);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("kernels: all well, %d ranks\n", size);
    MPI_Finalize();
    return 0;
}
